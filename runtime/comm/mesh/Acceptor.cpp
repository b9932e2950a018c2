// Accepts the connections of ranks, among those of strangers.
#include "runtime/comm/mesh/Join.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/epoll.h>

namespace shale::rt {

using Clock = std::chrono::steady_clock;

/// A connection that has not proved the secret, or has not sent its payload.
struct Acceptor::Pending {
  Socket socket;
  Clock::time_point deadline;
  Challenge challenge;
  bool proved = false;
  uint32_t rank = 0;
  size_t got = 0; // bytes of the response, then of the payload
  union {
    Response response;
    char payload[largestPayload];
  };
  Pending() : payload{} {}
};

Acceptor::Acceptor(Socket bound, const Secret &secret, int self, int ranks, size_t payload,
                   Limits limits)
    : listener(std::move(bound)), poll(epoll_create1(EPOLL_CLOEXEC)), secret(secret), self(self),
      ranks(ranks), payload(payload), limits(limits) {
  static_assert(sizeof(Pending) + sizeof(std::unique_ptr<Pending>) < 512, "see the header");
  listenOn(listener);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;
  if (!poll || epoll_ctl(poll.get(), EPOLL_CTL_ADD, listener.get(), &event) != 0)
    fail(SHALE_EXIT_INTERNAL, "cannot wait for connections: %s", strerror(errno));
}

Acceptor::~Acceptor() = default;

void Acceptor::watch(int rank, int fd) {
  epoll_event event{};
  event.events = EPOLLRDHUP;
  event.data.u64 = static_cast<uint64_t>(rank) << 1 | 1; // pointers are even
  epoll_ctl(poll.get(), EPOLL_CTL_ADD, fd, &event);
}

std::string Acceptor::strangers() const {
  if (dropped == 0)
    return "";
  return format("%lld connection%s that did not prove the secret of this run %s dropped, the last "
                "one from %s",
                (long long)dropped, dropped == 1 ? "" : "s", dropped == 1 ? "was" : "were",
                lastDropped.c_str());
}

void Acceptor::drop(Pending &one, bool stranger) {
  if (stranger && one.socket) {
    ++dropped;
    Endpoint from;
    from.length = sizeof(from.address);
    if (getpeername(one.socket.get(), reinterpret_cast<sockaddr *>(&from.address), &from.length) ==
        0)
      lastDropped = from.text();
    else if (lastDropped.empty())
      lastDropped = "an address that is closed";
  }
  one.socket.reset(); // removed from `pending` when the events are done
}

void Acceptor::dropLate() {
  auto now = Clock::now();
  for (auto &one : pending)
    if (one->socket && one->deadline <= now)
      drop(*one, true);
  pending.erase(
      std::remove_if(pending.begin(), pending.end(), [](const auto &one) { return !one->socket; }),
      pending.end());
}

void Acceptor::acceptAll() {
  size_t open = std::count_if(pending.begin(), pending.end(),
                              [](const auto &one) { return bool(one->socket); });
  auto dropOldest = [&] {
    auto oldest = std::find_if(pending.begin(), pending.end(),
                               [](const auto &one) { return bool(one->socket); });
    if (oldest == pending.end())
      return false;
    drop(**oldest, true);
    --open;
    return true;
  };
  // A bounded number at a time, so that ranks among the accepted are heard.
  for (int i = 0; i < 64; ++i) {
    Socket socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      bool full = errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
      if (full && dropOldest())
        continue;
      return; // none is left, or it was closed again, or the next turn tries again
    }
    if (open >= limits.connections)
      dropOldest();
    auto one = std::make_unique<Pending>();
    one->socket = std::move(socket);
    one->deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                       std::chrono::duration<double>(limits.seconds));
    one->challenge = makeChallenge();
    epoll_event event{};
    event.events = EPOLLIN | EPOLLRDHUP;
    event.data.ptr = one.get();
    // The buffer of a new connection has room for so few bytes.
    bool fine = isOwnUser(one->socket.get()) &&
                send(one->socket.get(), &one->challenge, sizeof(Challenge), MSG_NOSIGNAL) ==
                    static_cast<ssize_t>(sizeof(Challenge)) &&
                epoll_ctl(poll.get(), EPOLL_CTL_ADD, one->socket.get(), &event) == 0;
    if (!fine) {
      drop(*one, true);
      continue;
    }
    ++open;
    pending.push_back(std::move(one));
  }
}

void Acceptor::advance(Pending &one, const std::function<bool(int)> &expects,
                       const Arrival &arrived) {
  while (one.socket) {
    size_t wanted = one.proved ? payload : sizeof(Response);
    char *target = one.proved ? one.payload : reinterpret_cast<char *>(&one.response);
    if (one.got < wanted) {
      ssize_t n = recv(one.socket.get(), target + one.got, wanted - one.got, 0);
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return;
      if (n <= 0)
        return drop(one, true);
      one.got += n;
      // Garbage is dropped at its first byte.
      if (!one.proved && memcmp(&one.response, &one.challenge, std::min<size_t>(one.got, 8)) != 0)
        return drop(one, true);
      continue;
    }
    if (one.proved) {
      epoll_ctl(poll.get(), EPOLL_CTL_DEL, one.socket.get(), nullptr);
      setConnectionOptions(one.socket.get());
      arrivedOne = true;
      arrived(static_cast<int>(one.rank), std::move(one.socket), one.payload);
      return;
    }
    Answer answer = judge(secret, one.challenge, one.response, self, ranks);
    if (answer == Answer::Accepted && !expects(static_cast<int>(one.response.from)))
      answer = Answer::NotExpected;
    Verdict verdict = makeVerdict(secret, one.challenge, one.response, answer);
    bool sent = send(one.socket.get(), &verdict, sizeof(verdict), MSG_NOSIGNAL) ==
                static_cast<ssize_t>(sizeof(verdict));
    if (answer != Answer::Accepted || !sent)
      return drop(one, answer == Answer::NoProof);
    one.rank = one.response.from;
    one.proved = true;
    one.got = 0;
  }
}

void Acceptor::serve(int milliseconds, const std::function<bool(int)> &expects,
                     const Arrival &arrived) {
  constexpr uint64_t watched = 1;
  auto deadline = Clock::now() + std::chrono::milliseconds(milliseconds);
  arrivedOne = false;
  lostRank = -1;
  while (!arrivedOne && lostRank < 0) {
    auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left < 0)
      return;
    epoll_event events[64];
    int count = epoll_wait(poll.get(), events, 64, static_cast<int>(std::min<int64_t>(left, 500)));
    for (int i = 0; i < count; ++i) {
      const epoll_event &event = events[i];
      if (event.data.u64 == 0)
        acceptAll();
      else if (event.data.u64 & watched)
        lostRank = static_cast<int>(event.data.u64 >> 1);
      else
        advance(*static_cast<Pending *>(event.data.ptr), expects, arrived);
    }
    dropLate();
  }
}

} // namespace shale::rt
