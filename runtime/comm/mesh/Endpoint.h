// The place at which a rank accepts connections: on one host a name in the kernel's abstract
// namespace of Unix sockets, which no network reaches and which leaves no file; else an address and
// port of one network interface.
#ifndef SHALE_RUNTIME_COMM_MESH_ENDPOINT_H
#define SHALE_RUNTIME_COMM_MESH_ENDPOINT_H

#include "runtime/comm/Rendezvous.h"

#include <string>
#include <sys/socket.h>
#include <vector>

namespace shale::rt {

struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  int family() const { return address.ss_family; }
  /// "10.0.0.1 port 29501", or "a Unix socket".
  std::string text() const;
};

/// A file descriptor that is closed with the object.
class Socket {
public:
  explicit Socket(int fd = -1) : fd(fd) {}
  ~Socket() { reset(); }
  Socket(Socket &&other) noexcept : fd(other.release()) {}
  Socket &operator=(Socket &&other) noexcept {
    reset(other.release());
    return *this;
  }
  int get() const { return fd; }
  int release();
  void reset(int next = -1);
  explicit operator bool() const { return fd >= 0; }

private:
  int fd;
};

/// Whether the ranks meet through Unix sockets: all are on this host.
bool meetsLocally(const Rendezvous &rendezvous);

/// The endpoint of a rank on one host. That of rank 0 is named by what the launcher sets, so that a
/// rank finds out if another run has it; those of others also by the run's folder.
Endpoint localEndpoint(const Rendezvous &rendezvous, int rank);

/// The address of the chosen interface (Rendezvous::interface), or of that towards MASTER_ADDR;
/// with `port`. Fails with exit code 64 if this host has no such interface.
Endpoint ownEndpoint(const Rendezvous &rendezvous, int port);

/// The addresses at which rank 0 may listen, as seen from this host. Fails with exit code 76 if
/// MASTER_ADDR cannot be resolved.
std::vector<Endpoint> masterEndpoints(const Rendezvous &rendezvous);

/// "another run uses port 29500 of this host: choose another MASTER_PORT", or what else ranks of
/// another run on this host have in common with this one.
std::string otherRunHere(const Rendezvous &rendezvous);

/// Opens a socket that is bound to `endpoint` and does not listen yet, and replaces the port 0 by
/// the actual one. Waits up to `seconds` for the endpoint to become free; then fails with exit
/// code 76. `taken`: what it means if a Unix socket has the endpoint.
Socket bindTo(Endpoint &endpoint, double seconds, const std::string &taken = "");
/// Lets a bound socket listen. Fails with exit code 76.
void listenOn(const Socket &socket);

/// Whether the other end of a Unix socket is a process of this user; true for other sockets.
bool isOwnUser(int fd);

/// Says how a connection between ranks behaves: messages leave at once, and a host that is gone is
/// noticed within about 7 seconds.
void setConnectionOptions(int fd);

} // namespace shale::rt

#endif
