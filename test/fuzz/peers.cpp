// Fuzzes what comes from other ranks and from strangers. The first byte of the input chooses the
// end that is attacked, the rest is what the other end sends:
//   a  the acceptor; the bytes change a right response and payload
//   d  the dialer, and then what rank 0 tells about all ranks; the bytes change a right challenge,
//      verdict and cards
//   f  a connected rank: frames, with the payloads of messages
// "Change" is exclusive-or, so that an empty input is a right exchange, which random numbers do not
// spoil.
#include "runtime/comm/mesh/Mesh.h"
#include "runtime/comm/mesh/Peer.h"
#include "test/fuzz/Runtime.h"
#include <algorithm>
#include <cstring>
#include <sys/socket.h>
#include <thread>

using namespace shale;
using namespace shale::fuzz;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {
const rt::Secret secret("a token of a good length", "fuzz");

/// The bytes of the input that are not used yet.
struct Script {
  std::string bytes;
  size_t at = 0;
  /// Changes `message` by the next bytes.
  template <typename Message> Message change(Message message) {
    char *to = reinterpret_cast<char *>(&message);
    for (size_t i = 0; i < sizeof(message) && at < bytes.size(); ++i)
      to[i] ^= bytes[at++];
    return message;
  }
};

Clock::time_point soon() { return Clock::now() + milliseconds(2000); }

template <typename Message> bool sendMessage(int fd, const Message &message) {
  return rt::sendAll(fd, &message, sizeof(message), soon());
}
template <typename Message> bool receiveMessage(int fd, Message &message) {
  return rt::receiveAll(fd, &message, sizeof(message), soon());
}

rt::Rendezvous rendezvousOf(int rank) {
  rt::Rendezvous rendezvous;
  rendezvous.rank = rendezvous.localRank = rank;
  rendezvous.worldSize = rendezvous.localSize = 2;
  rendezvous.launcher = "fuzz";
  static int runs = 0;
  if (rank == 0)
    ++runs; // a name of its own for each input
  rendezvous.run = "fuzz " + std::to_string(getpid()) + " " + std::to_string(runs);
  return rendezvous;
}

rt::Socket connectTo(const rt::Endpoint &endpoint) {
  rt::Socket socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(socket.get(), reinterpret_cast<const sockaddr *>(&endpoint.address),
              endpoint.length) != 0)
    std::abort();
  return socket;
}

/// Rank 1 of 2 answers to the acceptor of rank 0, and closes the connection.
void attackAcceptor(Script &script) {
  rt::Rendezvous rendezvous = rendezvousOf(0);
  rt::Endpoint endpoint = rt::localEndpoint(rendezvous, 0);
  rt::Acceptor::Limits limits;
  limits.seconds = 0.2;
  rt::Acceptor acceptor(rt::bindTo(endpoint, 0), secret, 0, 2, rt::largestPayload, limits);
  bool arrived = false;
  std::thread stranger([&] {
    rt::Socket socket = connectTo(endpoint);
    rt::Challenge challenge;
    if (!receiveMessage(socket.get(), challenge))
      return;
    rt::Response response = script.change(rt::respond(secret, challenge, {1, 0, 2}));
    std::string payload(rt::largestPayload, 'p');
    for (char &c : payload)
      c = script.change(c);
    // In pieces: the acceptor keeps what it has got.
    const char *bytes = reinterpret_cast<const char *>(&response);
    size_t first = sizeof(response) / 2;
    (void)(rt::sendAll(socket.get(), bytes, first, soon()) &&
           rt::sendAll(socket.get(), bytes + first, sizeof(response) - first, soon()) &&
           rt::sendAll(socket.get(), payload.data(), payload.size(), soon()));
    rt::Verdict verdict;
    if (receiveMessage(socket.get(), verdict) && verdict.answer == rt::Answer::Accepted)
      (void)rt::proves(secret, challenge, response, verdict);
  });
  acceptor.serve(
      20, [](int rank) { return rank == 1; },
      [&](int rank, rt::Socket, const char *) { arrived = rank == 1; });
  stranger.join();
  if (!arrived)
    rt::fail(SHALE_EXIT_PEER, "nobody arrived");
}

/// Rank 0 of 2 that rank 1 joins.
void attackDialer(Script &script) {
  rt::Rendezvous rendezvous = rendezvousOf(0);
  rt::Endpoint endpoint = rt::localEndpoint(rendezvous, 0);
  rt::Socket listener = rt::bindTo(endpoint, 0);
  rt::listenOn(listener);
  std::thread stranger([&] {
    rt::Socket socket(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    listener.reset(); // who dials again is alone
    rt::Challenge challenge = script.change(rt::makeChallenge());
    rt::Response response;
    if (!sendMessage(socket.get(), challenge) || !receiveMessage(socket.get(), response))
      return;
    rt::Answer answer = rt::judge(secret, challenge, response, 0, 2);
    char cards[2 * rt::largestPayload];
    std::memset(cards, 0, sizeof(cards));
    for (char *at = cards; at < cards + sizeof(cards); ++at)
      *at = script.change(*at);
    char card[rt::largestPayload];
    (void)(sendMessage(socket.get(),
                       script.change(rt::makeVerdict(secret, challenge, response, answer))) &&
           receiveMessage(socket.get(), card) && sendMessage(socket.get(), cards));
  });
  rt::Rendezvous own = rendezvous;
  own.rank = own.localRank = 1;
  try {
    std::vector<rt::Link> links = rt::join(own, secret, milliseconds(20), {2});
    for (const rt::Link &link : links)
      for (char c : link.host)
        if (c < ' ' || c > '~')
          std::abort();
    stranger.join();
  } catch (...) {
    stranger.join();
    throw;
  }
}

/// Rank 1 of 2 is connected with rank 0, which waits for messages and has some to send.
void attackMesh(Script &script) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    std::abort();
  rt::Socket other(pair[1]);
  std::vector<rt::Link> links(2);
  links[1].socket.reset(pair[0]);
  links[1].host = "other";
  rt::Mesh::Options options;
  options.timeout = milliseconds(2000);
  options.grace = milliseconds(0);
  rt::Mesh mesh(0, std::move(links), options);
  constexpr size_t sizes[] = {0, 1, 24, 4096, 10000};
  // Each of its own size, so that a byte too much is noticed.
  std::vector<std::vector<char>> received, sent;
  rt::Awaited transfers;
  for (size_t i = 0; i < std::size(sizes); ++i) {
    received.emplace_back(sizes[i]);
    sent.emplace_back(sizes[i], 's');
    mesh.receive(1, 0, i, received[i].data(), sizes[i], transfers);
    mesh.send(1, 1, i, sent[i].data(), sizes[i], transfers);
  }
  std::string bytes = script.bytes.substr(script.at);
  std::thread stranger([&] {
    (void)rt::sendAll(other.get(), bytes.data(), bytes.size(), soon());
    shutdown(other.get(), SHUT_WR);
    char sink[4096];
    while (recv(other.get(), sink, sizeof(sink), 0) > 0) {
    }
  });
  auto end = [&] {
    mesh.forget(transfers);
    shutdown(other.get(), SHUT_RDWR);
    stranger.join();
  };
  try {
    for (size_t i = 0; i < std::size(sizes); ++i)
      mesh.wait(transfers, false, milliseconds(2000));
  } catch (...) {
    end();
    throw;
  }
  end();
}

/// The frames of an input of kind f.
std::string frame(uint32_t kind, uint32_t channel, uint64_t slot, uint64_t bytes,
                  const std::string &text = "") {
  rt::Mesh::Frame header{kind, channel, slot, bytes};
  return std::string(reinterpret_cast<const char *>(&header), sizeof(header)) + text;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  Script script{std::string(reinterpret_cast<const char *>(data + 1), size - 1)};
  bool frames = data[0] == 'f';
  // The first checks: the fixed bytes of a challenge or response, the kind of a frame.
  bool beyond = frames ? size > 4 && data[1] >= 1 && data[1] <= 7 && !data[2] && !data[3]
                       : std::all_of(data + 1, data + std::min<size_t>(size, 9),
                                     [](uint8_t byte) { return byte == 0; });
  return check(beyond, [&] {
    if (frames)
      attackMesh(script);
    else if (data[0] == 'd')
      attackDialer(script);
    else
      attackAcceptor(script);
  });
}

/// Changes bytes of an exchange, or adds, removes and changes frames.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  std::string text(reinterpret_cast<char *>(data), size);
  if (text.empty() || random.below(10) == 0)
    text = std::string(1, "adf"[random.below(3)]);
  constexpr size_t header = sizeof(rt::Mesh::Frame);
  if (text[0] != 'f') {
    size_t length = sizeof(rt::Response) + 2 * rt::largestPayload;
    text.resize(std::max(text.size(), length));
    size_t at = 1 + (random.below(8) ? 8 + random.below(length - 9) : random.below(8));
    text[at] = random.below(2) ? char(random.integer()) : '\0';
    if (random.below(8) == 0)
      text.resize(1 + random.below(text.size()));
  } else if (random.below(3)) { // one frame more, often a right one
    constexpr size_t sizes[] = {0, 1, 24, 4096, 10000};
    size_t which = random.below(std::size(sizes));
    uint64_t bytes = random.below(6) ? sizes[which] : uint64_t(random.integer());
    uint64_t slot = random.below(6) ? which : uint64_t(random.integer());
    uint32_t kind = random.below(12) ? uint32_t(1 + random.below(7)) : uint32_t(random.integer());
    uint32_t channel = random.below(8) ? (kind == rt::Ready ? 1 : 0) : uint32_t(random.integer());
    if (kind == rt::Failure)
      bytes = random.below(4) ? random.below(40) : bytes;
    size_t follow = kind == rt::Data || kind == rt::Failure ? std::min<uint64_t>(bytes, 12000) : 0;
    text += frame(kind, channel, slot, bytes, std::string(follow, char(random.integer())));
  } else if (text.size() > 1 + header && random.below(2)) {
    text.resize(1 + random.below(text.size()));
  } else if (text.size() > 1) {
    text[1 + random.below(text.size() - 1)] = char(random.integer());
  }
  if (text.size() > most)
    return size;
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
