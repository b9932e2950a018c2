// Addresses of ranks.
#include "runtime/comm/mesh/Endpoint.h"
#include "runtime/comm/mesh/Secret.h"
#include "runtime/core/Error.h"

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

namespace shale::rt {

int Socket::release() {
  int own = fd;
  fd = -1;
  return own;
}

void Socket::reset(int next) {
  if (fd >= 0)
    close(fd);
  fd = next;
}

static int portOf(const Endpoint &endpoint) {
  // The port is at the same place in both forms.
  return ntohs(reinterpret_cast<const sockaddr_in *>(&endpoint.address)->sin_port);
}

static void setPort(Endpoint &endpoint, int port) {
  reinterpret_cast<sockaddr_in *>(&endpoint.address)->sin_port = htons(port);
}

static Endpoint endpointOf(const sockaddr *address, socklen_t length) {
  Endpoint endpoint;
  memcpy(&endpoint.address, address, std::min<size_t>(length, sizeof(endpoint.address)));
  endpoint.length = length;
  return endpoint;
}

std::string Endpoint::text() const {
  char host[NI_MAXHOST] = "?";
  if (family() == AF_UNIX)
    return "a Unix socket";
  getnameinfo(reinterpret_cast<const sockaddr *>(&address), length, host, sizeof(host), nullptr, 0,
              NI_NUMERICHOST);
  return format("%s port %d", host, portOf(*this));
}

static bool isLoopback(const Endpoint &endpoint) {
  if (endpoint.family() == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in *>(&endpoint.address)->sin_addr.s_addr) >> 24 ==
           127;
  const auto &address = reinterpret_cast<const sockaddr_in6 *>(&endpoint.address)->sin6_addr;
  return endpoint.family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&address);
}

bool meetsLocally(const Rendezvous &rendezvous) {
  return rendezvous.localSize == rendezvous.worldSize;
}

Endpoint localEndpoint(const Rendezvous &rendezvous, int rank) {
  // The name tells nothing, and has one length.
  Secret names("", rendezvous.run);
  std::string whose = format("%s/%s/%d/%d/%u", rendezvous.launcher.c_str(),
                             rendezvous.address.c_str(), rendezvous.port, rank, geteuid());
  if (rank > 0)
    whose += "/" + rendezvous.folder;
  Bytes32 digest = names.codeOf("endpoint", whose.data(), whose.size());
  std::string name = "shale-" + hex(digest.data(), 16);
  Endpoint endpoint;
  auto *address = reinterpret_cast<sockaddr_un *>(&endpoint.address);
  address->sun_family = AF_UNIX;
  memcpy(address->sun_path + 1, name.data(), name.size()); // a name that begins with 0 is abstract
  endpoint.length = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  return endpoint;
}

static std::vector<Endpoint> resolve(const std::string &address, int port) {
  addrinfo hints{}, *result = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  int status = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &result);
  if (status != 0)
    fail(SHALE_EXIT_PEER, "cannot resolve MASTER_ADDR '%s': %s", address.c_str(),
         gai_strerror(status));
  std::vector<Endpoint> all;
  for (addrinfo *at = result; at; at = at->ai_next)
    all.push_back(endpointOf(at->ai_addr, at->ai_addrlen));
  freeaddrinfo(result);
  return all;
}

/// Returns the local address from which `to` is reached; nothing is sent.
static bool routeTo(const Endpoint &to, Endpoint &from) {
  Socket probe(socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  from.length = sizeof(from.address);
  if (!probe || connect(probe.get(), reinterpret_cast<const sockaddr *>(&to.address), to.length) ||
      getsockname(probe.get(), reinterpret_cast<sockaddr *>(&from.address), &from.length))
    return false;
  setPort(from, 0);
  return true;
}

/// Returns the address of an interface that is up: of the one named `name`, or, if that is empty,
/// of the first that other hosts may reach. IPv4 goes before IPv6.
static bool interfaceAddress(const std::string &name, Endpoint &found) {
  ifaddrs *list = nullptr;
  bool any = false;
  if (getifaddrs(&list) != 0)
    return false;
  for (int family : {AF_INET, AF_INET6})
    for (ifaddrs *at = list; at && !any; at = at->ifa_next) {
      if (!at->ifa_addr || at->ifa_addr->sa_family != family || !(at->ifa_flags & IFF_UP))
        continue;
      if (name.empty() ? (at->ifa_flags & IFF_LOOPBACK) != 0 : name != at->ifa_name)
        continue;
      found =
          endpointOf(at->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      any = true;
    }
  freeifaddrs(list);
  return any;
}

/// The address of this host that other hosts may reach: that of the default route, if there is one.
static bool outwardAddress(Endpoint &found) {
  Endpoint anywhere; // 192.0.2.1, which is reserved for documentation
  auto *address = reinterpret_cast<sockaddr_in *>(&anywhere.address);
  address->sin_family = AF_INET;
  address->sin_port = htons(9);
  address->sin_addr.s_addr = htonl(0xC0000201);
  anywhere.length = sizeof(sockaddr_in);
  return (routeTo(anywhere, found) && !isLoopback(found)) || interfaceAddress("", found);
}

/// Whether MASTER_ADDR means this host only, rather than being rank 0's name, which often resolves
/// to a loopback address there.
static bool asksForLoopback(const std::string &address) {
  return address == "localhost" || address == "::1" || address.rfind("127.", 0) == 0;
}

/// The interface that the user chose, if any.
static std::string chosenInterface(const Rendezvous &rendezvous) {
  if (!rendezvous.interface.empty())
    return rendezvous.interface;
  const char *given = std::getenv("GLOO_SOCKET_IFNAME"); // which PyTorch's users set
  return given ? given : "";
}

Endpoint ownEndpoint(const Rendezvous &rendezvous, int port) {
  std::string chosen = chosenInterface(rendezvous);
  Endpoint own;
  sockaddr_in four{};
  sockaddr_in6 six{};
  if (!chosen.empty()) {
    four.sin_family = AF_INET;
    six.sin6_family = AF_INET6;
    if (inet_pton(AF_INET, chosen.c_str(), &four.sin_addr) == 1)
      own = endpointOf(reinterpret_cast<sockaddr *>(&four), sizeof(four));
    else if (inet_pton(AF_INET6, chosen.c_str(), &six.sin6_addr) == 1)
      own = endpointOf(reinterpret_cast<sockaddr *>(&six), sizeof(six));
    else if (!interfaceAddress(chosen, own))
      fail(SHALE_EXIT_USAGE,
           "--interface %s: this host has no such network interface that is up and has an address; "
           "see `ip addr`",
           chosen.c_str());
  } else {
    std::vector<Endpoint> masters = resolve(rendezvous.address, 9);
    bool known = routeTo(masters.front(), own);
    if (!known || (isLoopback(own) && !asksForLoopback(rendezvous.address)))
      known = outwardAddress(own);
    if (!known)
      fail(SHALE_EXIT_PEER,
           "this host has no route to MASTER_ADDR '%s'; choose an interface with "
           "--interface",
           rendezvous.address.c_str());
  }
  setPort(own, port);
  return own;
}

std::vector<Endpoint> masterEndpoints(const Rendezvous &rendezvous) {
  std::vector<Endpoint> all = resolve(rendezvous.address, rendezvous.port);
  for (Endpoint &one : all)
    if (isLoopback(one) && !asksForLoopback(rendezvous.address))
      one = ownEndpoint(rendezvous, rendezvous.port); // rank 0 is on this host
  return all;
}

void listenOn(const Socket &socket) {
  if (listen(socket.get(), 4096) != 0)
    fail(SHALE_EXIT_PEER, "cannot listen for other ranks: %s", strerror(errno));
}

std::string otherRunHere(const Rendezvous &rendezvous) {
  if (rendezvous.port == 0)
    return "ranks of this run have other folders of output, or other secrets: give all the same --out and "
           "the same SHALE_TOKEN";
  const char *chosen = std::getenv("SHALE_PORT");
  bool own = chosen && *chosen;
  return format(
      "another run uses port %d of this host: choose another %s, or give all ranks of one "
      "run the same --out and the same SHALE_TOKEN",
      own ? rendezvous.port : rendezvous.port - 1, own ? "SHALE_PORT" : "MASTER_PORT");
}

Socket bindTo(Endpoint &endpoint, double seconds, const std::string &taken) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    Socket listener(socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    // The connections of an earlier run do not keep a port, but a port that the kernel chooses is
    // not shared.
    int yes = 1;
    if (listener && endpoint.family() != AF_UNIX && portOf(endpoint) != 0)
      setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (listener && bind(listener.get(), reinterpret_cast<sockaddr *>(&endpoint.address),
                         endpoint.length) == 0) {
      endpoint.length = sizeof(endpoint.address);
      getsockname(listener.get(), reinterpret_cast<sockaddr *>(&endpoint.address),
                  &endpoint.length);
      return listener;
    }
    int error = errno;
    // The ranks of an earlier start may still be ending.
    if (error != EADDRINUSE || std::chrono::steady_clock::now() > deadline) {
      bool other = error == EADDRINUSE && endpoint.family() == AF_UNIX;
      fail(SHALE_EXIT_PEER, "cannot listen on %s: %s; %s", endpoint.text().c_str(), strerror(error),
           other ? taken.c_str()
                 : "set SHALE_PORT to a free port on every rank, or choose the interface with "
                   "--interface");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

bool isOwnUser(int fd) {
  int domain = 0;
  socklen_t length = sizeof(domain);
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) != 0 || domain != AF_UNIX)
    return true;
  ucred peer{};
  length = sizeof(peer);
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

void setConnectionOptions(int fd) {
  auto set = [&](int level, int name, int value) {
    setsockopt(fd, level, name, &value, sizeof(value)); // of Unix sockets, fails without effect
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 2);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 1);
  set(IPPROTO_TCP, TCP_KEEPCNT, 5);
}

} // namespace shale::rt
