// Connects ranks with those that they exchange with.
#include "runtime/comm/mesh/Join.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

namespace shale::rt {

namespace {
using Clock = std::chrono::steady_clock;

/// Describes one rank. Each rank sends its own to rank 0, and rank 0 sends those of all ranks to
/// each.
struct Card {
  sockaddr_storage address; // where it accepts; zero on one host, where names follow from ranks
  int64_t pid;
  uint64_t axes; // a checksum of the sizes of the axes
  char host[24]; // ends with 0
};
static_assert(sizeof(Card) == largestPayload, "cards have no padding");

int millisecondsUntil(Clock::time_point deadline, int most) {
  auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::max<int64_t>(0, std::min<int64_t>(left, most)));
}

/// Waits for an event; false if the deadline passes.
bool waitFor(int fd, short events, Clock::time_point deadline) {
  for (;;) {
    pollfd one{fd, events, 0};
    int count = ::poll(&one, 1, millisecondsUntil(deadline, 1000));
    if (count > 0)
      return true;
    if (count < 0 && errno != EINTR)
      return false;
    if (Clock::now() >= deadline)
      return false;
  }
}

/// FNV-1a of the sizes, and of the members of joint axes.
uint64_t checksumOf(const AxisSizes &axes, const JointAxes &joint) {
  uint64_t sum = 0xcbf29ce484222325;
  auto add = [&](uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8)
      sum = (sum ^ (number >> shift & 0xff)) * 0x100000001b3;
  };
  for (int64_t size : axes)
    add(static_cast<uint64_t>(size));
  for (const std::vector<int> &members : joint) {
    add(0); // no size
    for (int member : members)
      add(static_cast<uint64_t>(member));
  }
  return sum;
}

Card ownCard(const Endpoint &endpoint, const AxisSizes &axes, const JointAxes &joint) {
  Card card{};
  card.axes = checksumOf(axes, joint);
  if (endpoint.family() != AF_UNIX)
    memcpy(&card.address, &endpoint.address, endpoint.length);
  card.pid = getpid();
  gethostname(card.host, sizeof(card.host) - 1);
  return card;
}

/// Prepares for a connection per rank: raises the soft limit of open files.
void allowConnections(int ranks) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  rlim_t wanted = static_cast<rlim_t>(ranks) + 2048;
  if (limit.rlim_cur < wanted && limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = std::min(wanted, limit.rlim_max);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  if (limit.rlim_cur < static_cast<rlim_t>(ranks) + 64)
    fail(SHALE_EXIT_NO_FIT,
         "%d ranks need %d open files per rank, but the limit is %llu: raise it with ulimit -n",
         ranks, ranks + 64, (unsigned long long)limit.rlim_cur);
}

class Joining {
public:
  Joining(const Rendezvous &rendezvous, const Secret &secret, std::chrono::milliseconds timeout,
          const AxisSizes &axes, const JointAxes &joint)
      : rendezvous(rendezvous), secret(secret), timeout(timeout), deadline(Clock::now() + timeout),
        axes(axes), joint(joint), links(rendezvous.worldSize), cards(rendezvous.worldSize),
        isNeighbour(rendezvous.worldSize) {}

  std::vector<Link> run() {
    allowConnections(rendezvous.worldSize);
    bool first = rendezvous.rank == 0, local = meetsLocally(rendezvous);
    Endpoint own = local ? localEndpoint(rendezvous, rendezvous.rank)
                         : ownEndpoint(rendezvous, first ? rendezvous.port : 0);
    Socket bound = bindTo(own, std::min<double>(kTakenSeconds, timeout.count() / 1000.0),
                          otherRunHere(rendezvous));
    cards[rendezvous.rank] = ownCard(own, axes, joint);
    if (!first)
      introduce();
    chooseNeighbours();
    // Ranks other than the first one need not listen before all are known.
    Acceptor acceptor(std::move(bound), secret, rendezvous.rank, rendezvous.worldSize,
                      first ? sizeof(Card) : 0, {});
    for (int rank = 1; rank < rendezvous.rank; ++rank)
      if (isNeighbour[rank])
        connectTo(rank, {endpointOf(rank)});
    for (int rank = 0; rank < rendezvous.rank; ++rank)
      if (links[rank].socket)
        acceptor.watch(rank, links[rank].socket.get());
    await(acceptor);
    if (first)
      shareCards();
    for (size_t rank = 0; rank < links.size(); ++rank) {
      links[rank].pid = cards[rank].pid;
      links[rank].host = hostOf(static_cast<int>(rank));
    }
    return std::move(links);
  }

private:
  /// Other ranks wrote it, so it is printed without control characters.
  std::string hostOf(int rank) const {
    const Card &card = cards[rank];
    std::string host(card.host, strnlen(card.host, sizeof(card.host)));
    for (char &c : host)
      if (c <= ' ' || c > '~')
        c = '?';
    return host;
  }

  /// Rank 0 has no cards yet, and is connected with all. The others have the same cards.
  void chooseNeighbours() {
    bool alike = std::all_of(cards.begin(), cards.end(),
                             [&](const Card &card) { return card.axes == cards.front().axes; });
    if (rendezvous.rank == 0 || !alike)
      return isNeighbour.assign(isNeighbour.size(), true);
    for (int rank : neighboursOf(rendezvous.rank, axes, joint))
      isNeighbour[rank] = true;
  }

  bool isMissing(int rank) const {
    return rank > rendezvous.rank && isNeighbour[rank] && !links[rank].socket;
  }

  Endpoint endpointOf(int rank) const {
    if (meetsLocally(rendezvous))
      return localEndpoint(rendezvous, rank);
    Endpoint endpoint;
    endpoint.address = cards[rank].address;
    bool six = endpoint.family() == AF_INET6;
    if (!six && endpoint.family() != AF_INET)
      fail(SHALE_EXIT_PEER, "rank %d accepts at an address of an unknown kind", rank);
    endpoint.length = six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    return endpoint;
  }

  void connectTo(int rank, const std::vector<Endpoint> &endpoints) {
    // Another run may be about to leave the endpoint of rank 0.
    std::string otherRun = meetsLocally(rendezvous) ? otherRunHere(rendezvous) : "";
    links[rank].socket =
        dial(endpoints, secret, {rendezvous.rank, rank, rendezvous.worldSize}, deadline, otherRun);
  }

  /// Accepts the neighbours after this rank.
  void await(Acceptor &acceptor) {
    int missing = 0;
    for (int rank = 0; rank < rendezvous.worldSize; ++rank)
      missing += isMissing(rank);
    auto expects = [&](int rank) { return isMissing(rank); };
    auto arrived = [&](int rank, Socket socket, const char *payload) {
      if (!expects(rank)) // it was expected when it proved the secret, and came twice
        return;
      links[rank].socket = std::move(socket);
      if (rendezvous.rank == 0)
        memcpy(&cards[rank], payload, sizeof(Card));
      acceptor.watch(rank, links[rank].socket.get());
      --missing;
    };
    auto strangers = [&] {
      std::string text = acceptor.strangers();
      bool local = !text.empty() && meetsLocally(rendezvous);
      return text + (local ? ": ranks of another run, or with another --out" : "");
    };
    while (missing > 0) {
      acceptor.serve(millisecondsUntil(deadline, 1000), expects, arrived);
      if (acceptor.lost() >= 0)
        fail(SHALE_EXIT_PEER, "rank %d ended while %s missing", acceptor.lost(),
             listMissing(" was", " were").c_str());
      if (missing > 0 && Clock::now() >= deadline)
        fail(SHALE_EXIT_PEER, "%s within %.1f s%s",
             listMissing(" did not arrive", " did not arrive").c_str(), timeout.count() / 1000.0,
             strangers().empty() ? "" : ("; " + strangers()).c_str());
    }
    if (!strangers().empty())
      warn("%s", strangers().c_str());
  }

  /// "rank 2" or "ranks 2, 3", and the verb for one or several.
  std::string listMissing(const char *one, const char *several) const {
    std::string list;
    int count = 0;
    for (int rank = rendezvous.rank + 1; rank < rendezvous.worldSize; ++rank)
      if (isMissing(rank) && ++count <= 8)
        list += (list.empty() ? "" : ", ") + std::to_string(rank);
    if (count > 8)
      list += format(" and %d more", count - 8);
    return (count == 1 ? "rank " : "ranks ") + list + (count == 1 ? one : several);
  }

  void shareCards() {
    for (int rank = 1; rank < rendezvous.worldSize; ++rank)
      if (!sendAll(links[rank].socket.get(), cards.data(), cards.size() * sizeof(Card), deadline))
        fail(SHALE_EXIT_PEER,
             "rank %d of host %s, pid %lld ended while the ranks were being "
             "connected",
             rank, hostOf(rank).c_str(), (long long)cards[rank].pid);
  }

  /// Tells rank 0 about this one, and gets the cards of all.
  void introduce() {
    connectTo(0, meetsLocally(rendezvous) ? std::vector<Endpoint>{localEndpoint(rendezvous, 0)}
                                          : masterEndpoints(rendezvous));
    const Card &card = cards[rendezvous.rank];
    auto later = deadline + std::chrono::seconds(5); // rank 0 is to report a missing rank first
    if (!sendAll(links[0].socket.get(), &card, sizeof(card), deadline) ||
        !receiveAll(links[0].socket.get(), cards.data(), cards.size() * sizeof(Card), later))
      fail(SHALE_EXIT_PEER, "%s",
           Clock::now() >= later ? format("a rank did not arrive within %.1f s; rank 0 tells which",
                                          timeout.count() / 1000.0)
                                       .c_str()
                                 : "rank 0 ended while the ranks were being connected");
  }

  const Rendezvous &rendezvous;
  const Secret &secret;
  std::chrono::milliseconds timeout;
  Clock::time_point deadline;
  const AxisSizes &axes;
  const JointAxes &joint;
  std::vector<Link> links;
  std::vector<Card> cards;
  std::vector<bool> isNeighbour; // by rank
};

/// Connects with one of the endpoints; an empty socket if none answers.
Socket connectToAny(const std::vector<Endpoint> &endpoints, Clock::time_point deadline,
                    std::string &trouble) {
  for (const Endpoint &endpoint : endpoints) {
    Socket socket(::socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket)
      fail(SHALE_EXIT_PEER, "cannot open a socket: %s", strerror(errno));
    int error = 0;
    if (connect(socket.get(), reinterpret_cast<const sockaddr *>(&endpoint.address),
                endpoint.length) != 0)
      error = errno;
    if (error == EINPROGRESS) {
      auto soon = std::min(deadline, Clock::now() + std::chrono::seconds(5));
      socklen_t length = sizeof(error);
      if (!waitFor(socket.get(), POLLOUT, soon))
        error = ETIMEDOUT;
      else
        getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error == 0)
      return socket;
    trouble = format("%s: %s", endpoint.text().c_str(), strerror(error));
  }
  return Socket();
}

/// Has one conversation with an acceptor. Returns whether both have proved the secret; if not, it
/// may be tried again. `refused`: whether the acceptor has found that this rank has another secret.
bool prove(int fd, const Secret &secret, const Ends &ends, Clock::time_point deadline,
           std::string &trouble, bool &refused) {
  if (!isOwnUser(fd)) {
    trouble = "the Unix socket of the rendezvous belongs to another user";
    return false;
  }
  Challenge challenge;
  if (!receiveAll(fd, &challenge, sizeof(challenge), deadline)) {
    trouble = "it closed the connection, or did not answer";
    return false;
  }
  if (!isChallenge(challenge)) {
    trouble = "what listens there is no rank of a program of this version of Shale";
    return false;
  }
  Response response = respond(secret, challenge, ends);
  Verdict verdict;
  if (!sendAll(fd, &response, sizeof(response), deadline) ||
      !receiveAll(fd, &verdict, sizeof(verdict), deadline)) {
    trouble = "it closed the connection";
    return false;
  }
  switch (verdict.answer) {
  case Answer::Accepted:
    break;
  case Answer::OtherRanks:
    fail(SHALE_EXIT_USAGE, "rank %d does not run with %d ranks, as this one does", ends.to,
         ends.ranks);
  case Answer::NotExpected:
    fail(SHALE_EXIT_USAGE,
         "rank %d is already connected with a rank %d: start one process per rank, each with its "
         "own number",
         ends.to, ends.from);
  default:
    refused = true;
    return false;
  }
  if (!proves(secret, challenge, response, verdict)) {
    trouble = "what listens there does not prove the secret of this run";
    return false;
  }
  return true;
}
} // namespace

bool sendAll(int fd, const void *data, size_t bytes, Clock::time_point deadline) {
  auto *at = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      at += n;
      bytes -= n;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!waitFor(fd, POLLOUT, deadline))
        return false;
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

bool receiveAll(int fd, void *data, size_t bytes, Clock::time_point deadline) {
  auto *at = static_cast<char *>(data);
  while (bytes > 0) {
    ssize_t n = recv(fd, at, bytes, MSG_DONTWAIT);
    if (n > 0) {
      at += n;
      bytes -= n;
    } else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!waitFor(fd, POLLIN, deadline))
        return false;
    } else if (n == 0 || errno != EINTR) {
      return false;
    }
  }
  return true;
}

Socket dial(const std::vector<Endpoint> &endpoints, const Secret &secret, const Ends &ends,
            Clock::time_point deadline, const std::string &otherRun) {
  auto pause = std::chrono::milliseconds(5);
  std::string trouble;
  auto givesUp = Clock::time_point::max(); // on the run that has the endpoint
  for (;;) {
    Socket socket = connectToAny(endpoints, deadline, trouble);
    bool refused = false;
    if (socket && prove(socket.get(), secret, ends, deadline, trouble, refused)) {
      setConnectionOptions(socket.get());
      return socket;
    }
    if (refused && otherRun.empty())
      fail(SHALE_EXIT_USAGE,
           "rank %d has another secret than this rank: set SHALE_TOKEN, or the content of "
           "SHALE_TOKEN_FILE, to the same text for every rank; if another run uses this port, "
           "choose another MASTER_PORT",
           ends.to);
    if (refused) {
      trouble = otherRun;
      givesUp = std::min(givesUp, Clock::now() + std::chrono::seconds(kOtherRunSeconds));
    }
    if (refused && Clock::now() + pause >= std::min(givesUp, deadline))
      fail(SHALE_EXIT_USAGE, "%s", otherRun.c_str());
    if (Clock::now() + pause >= deadline)
      fail(SHALE_EXIT_PEER, "rank %d did not answer at %s in time (%s)", ends.to,
           endpoints.front().text().c_str(), trouble.c_str());
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(500));
  }
}

Secret secretOf(const Rendezvous &rendezvous) {
  std::string token = takeToken();
  // On one host the kernel tells which user a process belongs to (isOwnUser).
  if (token.empty() && !meetsLocally(rendezvous) && !rendezvous.insecure)
    fail(SHALE_EXIT_USAGE,
         "ranks on several hosts need a secret by which they know each other, the same for all: "
         "export SHALE_TOKEN=$(head -c 32 /dev/urandom | base64), or name a file with "
         "SHALE_TOKEN_FILE; --insecure trusts everyone who can connect");
  return Secret(token, meetsLocally(rendezvous) ? rendezvous.run + "\n" + rendezvous.folder
                                                : rendezvous.run);
}

/// Whether two ranks differ in coordinates of `members` only.
static bool differAlong(int64_t a, int64_t b, const AxisSizes &axes,
                        const std::vector<int> &members) {
  for (size_t axis = axes.size(); axis-- > 0; a /= axes[axis], b /= axes[axis])
    if (a % axes[axis] != b % axes[axis] &&
        std::find(members.begin(), members.end(), int(axis)) == members.end())
      return false;
  return true;
}

std::vector<int> neighboursOf(int rank, const AxisSizes &axes, const JointAxes &joint) {
  int64_t ranks = 1;
  for (int64_t size : axes)
    ranks *= size;
  std::vector<int> found;
  if (rank == 0) {
    for (int other = 1; other < ranks; ++other)
      found.push_back(other);
    return found;
  }
  found.push_back(0);
  JointAxes all;
  for (int axis = static_cast<int>(axes.size()); axis-- > 0;)
    all.push_back({axis});
  all.insert(all.end(), joint.begin(), joint.end());
  for (const std::vector<int> &members : all)
    for (int other = 1; other < ranks; ++other)
      if (other != rank && differAlong(rank, other, axes, members) &&
          std::find(found.begin(), found.end(), other) == found.end())
        found.push_back(other);
  return found;
}

std::vector<Link> join(const Rendezvous &rendezvous, const Secret &secret,
                       std::chrono::milliseconds timeout, const AxisSizes &axes,
                       const JointAxes &joint) {
  return Joining(rendezvous, secret, timeout, axes, joint).run();
}

} // namespace shale::rt
