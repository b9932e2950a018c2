// Connects ranks with those that they exchange with: the ranks meet at rank 0, which tells all
// where to find each other. Connections that do not prove the secret of the run are dropped, and
// joining goes on.
#ifndef SHALE_RUNTIME_COMM_MESH_JOIN_H
#define SHALE_RUNTIME_COMM_MESH_JOIN_H

#include "runtime/comm/mesh/Endpoint.h"
#include "runtime/comm/mesh/Secret.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace shale::rt {

/// A connection with a rank that has proved the secret. That of this rank itself has no socket, and
/// neither have those of ranks that it exchanges nothing with.
struct Link {
  Socket socket;
  std::string host;
  int64_t pid = 0;
};

/// Returns the secret of this rank's run. Fails with exit code 64 if the ranks are on several hosts
/// and have no token, unless Rendezvous::insecure is set.
Secret secretOf(const Rendezvous &rendezvous);

/// The sizes of the axes of a mesh, the last of which varies fastest.
using AxisSizes = std::vector<int64_t>;
/// The members of each joint axis, ascending.
using JointAxes = std::vector<std::vector<int>>;

/// Returns the ranks that a rank is connected with: rank 0, through which ranks agree, gather texts
/// and weights and hear of failures, and those from which it differs in one coordinate, or in those
/// of one joint axis only. Rank 0 is connected with all.
std::vector<int> neighboursOf(int rank, const AxisSizes &axes, const JointAxes &joint = {});

/// Returns the connections with the ranks of neighboursOf(), or, if the ranks have different
/// axes, with all, so that they can tell each other how they differ; by rank. Every rank calls
/// it. Fails with exit code 76 if a rank does not arrive within `timeout`, and with 64 if ranks
/// have different tokens or differ in the number of ranks. The product of `axes` is that number.
std::vector<Link> join(const Rendezvous &rendezvous, const Secret &secret,
                       std::chrono::milliseconds timeout, const AxisSizes &axes,
                       const JointAxes &joint = {});

/// Accepts the connections of ranks. Memory and time per stranger are bounded: a connection that
/// has not proved the secret takes less than 512 bytes here, is dropped after `Limits::seconds`,
/// and the oldest of `Limits::connections` of them makes room for a new one.
class Acceptor {
public:
  struct Limits {
    size_t connections = 512;
    double seconds = 10;
  };
  /// A rank that has proved the secret, with the `payload` bytes that it sent after that.
  using Arrival = std::function<void(int rank, Socket socket, const char *payload)>;

  /// Lets `bound` listen.
  Acceptor(Socket bound, const Secret &secret, int self, int ranks, size_t payload, Limits limits);
  ~Acceptor();
  Acceptor(const Acceptor &) = delete;

  /// Accepts for which `expects(rank)` is true until `milliseconds` are over or somebody has
  /// arrived.
  void serve(int milliseconds, const std::function<bool(int)> &expects, const Arrival &arrived);
  /// Also returns from serve() when the rank's connection is closed by its other end, which is then
  /// told by `lost`.
  void watch(int rank, int fd);
  int lost() const { return lostRank; }
  /// "", or how many connections were dropped, and from where the last one came.
  std::string strangers() const;

private:
  struct Pending;
  void acceptAll();
  void advance(Pending &pending, const std::function<bool(int)> &expects, const Arrival &arrived);
  void drop(Pending &pending, bool stranger);
  void dropLate();

  Socket listener, poll;
  const Secret &secret;
  int self, ranks;
  size_t payload;
  Limits limits;
  std::vector<std::unique_ptr<Pending>> pending; // the oldest first
  int lostRank = -1;
  int64_t dropped = 0;
  std::string lastDropped;
  bool arrivedOne = false;
};

/// The largest payload of an acceptor.
constexpr size_t largestPayload = 168;

/// Connects with the rank `ends.to` at one of `endpoints`. Both sides prove the secret. Fails with
/// exit code 76 if the rank does not answer before the deadline, and with 64 if it refuses. If
/// another run may have the endpoint for a while, `otherRun` tells so (otherRunHere()): a rank with
/// another secret is then no error until kOtherRunSeconds after its first answer.
Socket dial(const std::vector<Endpoint> &endpoints, const Secret &secret, const Ends &ends,
            std::chrono::steady_clock::time_point deadline, const std::string &otherRun = "");

/// How long a rank waits for an endpoint that another run has. Its rank 0 waits less.
constexpr int kOtherRunSeconds = 15, kTakenSeconds = 10;

/// Send or receive all bytes; false if the connection ends before or the deadline passes.
bool sendAll(int fd, const void *data, size_t bytes,
             std::chrono::steady_clock::time_point deadline);
bool receiveAll(int fd, void *data, size_t bytes, std::chrono::steady_clock::time_point deadline);

} // namespace shale::rt

#endif
