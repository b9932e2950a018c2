// Ranks find each other among strangers. The ranks are threads of this process.
#include "runtime/comm/mesh/Join.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <arpa/inet.h>
#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <regex>
#include <thread>
#include <unistd.h>

using namespace shale::rt;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {
const Secret ours("a token of a good length", "run");

int freePort() {
  Endpoint endpoint;
  auto *address = reinterpret_cast<sockaddr_in *>(&endpoint.address);
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  endpoint.length = sizeof(*address);
  Socket bound = bindTo(endpoint, 0);
  return ntohs(address->sin_port);
}

/// Ranks on one host, or, with a port, on several, which are all this one.
Rendezvous rendezvousOf(int rank, int ranks, int port) {
  Rendezvous rendezvous;
  rendezvous.rank = rank;
  rendezvous.worldSize = ranks;
  rendezvous.localSize = port ? 1 : ranks;
  rendezvous.run = "join-test " + std::to_string(getpid());
  rendezvous.address = port ? "127.0.0.1" : "";
  rendezvous.port = port;
  return rendezvous;
}

struct Outcome {
  std::vector<Link> links;
  int code = 0;
  std::string text;
};

Outcome joinAs(int rank, int ranks, int port, const Secret &secret, int timeout,
               const AxisSizes &axes = {}) {
  Outcome outcome;
  try {
    outcome.links = join(rendezvousOf(rank, ranks, port), secret, milliseconds(timeout),
                         axes.empty() ? AxisSizes{ranks} : axes);
  } catch (const Error &error) {
    outcome.code = error.code;
    outcome.text = error.what();
  }
  return outcome;
}

/// Joins all ranks at once; a rank whose secret is null is missing.
std::vector<Outcome> joinAll(const std::vector<const Secret *> &secrets, int port, int timeout) {
  std::vector<Outcome> outcomes(secrets.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < secrets.size(); ++r)
    if (secrets[r])
      threads.emplace_back([&, r] {
        outcomes[r] = joinAs(static_cast<int>(r), static_cast<int>(secrets.size()), port,
                             *secrets[r], timeout);
      });
  for (std::thread &thread : threads)
    thread.join();
  return outcomes;
}

/// Each pair of ranks is connected: what one sends on the link, the other receives.
void expectMesh(std::vector<Outcome> &outcomes) {
  int ranks = static_cast<int>(outcomes.size());
  auto deadline = steady_clock::now() + std::chrono::seconds(20);
  for (int a = 0; a < ranks; ++a) {
    ASSERT_EQ(outcomes[a].code, 0) << outcomes[a].text;
    EXPECT_EQ(outcomes[a].links[a].pid, getpid());
    for (int b = 0; b < ranks; ++b) {
      if (a == b)
        continue;
      EXPECT_EQ(outcomes[a].links[b].pid, getpid());
      char pair[2] = {char(a), char(b)}, got[2] = {0, 0};
      ASSERT_TRUE(sendAll(outcomes[a].links[b].socket.get(), pair, 2, deadline));
      ASSERT_TRUE(receiveAll(outcomes[b].links[a].socket.get(), got, 2, deadline));
      EXPECT_EQ(memcmp(pair, got, 2), 0);
    }
  }
}

/// Connects as soon as somebody listens; an empty socket if it is over before.
Socket connectAsStranger(int port, const std::atomic<bool> &over = false) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  Socket stranger(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  for (int i = 0; i < 2000 && !over; ++i) {
    if (connect(stranger.get(), reinterpret_cast<sockaddr *>(&address), sizeof(address)) == 0)
      return stranger;
    std::this_thread::sleep_for(milliseconds(5));
  }
  return Socket();
}

/// Whether the other end has closed the connection, waiting up to 20 s.
bool isClosed(const Socket &socket) {
  char byte[64];
  pollfd one{socket.get(), POLLIN, 0};
  for (ssize_t n = 1; n > 0;) {
    if (poll(&one, 1, 20000) <= 0)
      return false;
    n = recv(socket.get(), byte, sizeof(byte), 0);
  }
  return true;
}

struct Listening {
  Endpoint endpoint;
  Socket socket;
  Listening() {
    auto *address = reinterpret_cast<sockaddr_in *>(&endpoint.address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    endpoint.length = sizeof(*address);
    socket = bindTo(endpoint, 0);
    listenOn(socket);
  }
  int port() const {
    return ntohs(reinterpret_cast<const sockaddr_in *>(&endpoint.address)->sin_port);
  }
};

void nobody(int, Socket, const char *) { FAIL() << "a stranger was let in"; }
bool anyRank(int) { return true; }
} // namespace

TEST(Join, RanksOfOneHostAndOfSeveral) {
  for (int port : {0, freePort()}) {
    std::vector<Outcome> outcomes = joinAll(std::vector<const Secret *>(5, &ours), port, 20000);
    expectMesh(outcomes);
  }
}

/// Joins ranks of which each has its own axes. Returns how many connections each has.
std::vector<int> countConnections(const std::vector<AxisSizes> &axes, int port) {
  std::vector<Outcome> outcomes(axes.size());
  std::vector<std::thread> threads;
  int ranks = static_cast<int>(axes.size());
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] { outcomes[r] = joinAs(r, ranks, port, ours, 20000, axes[r]); });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<int> counts;
  for (int a = 0; a < ranks; ++a) {
    EXPECT_EQ(outcomes[a].code, 0) << outcomes[a].text;
    counts.push_back(0);
    for (int b = 0; b < ranks && outcomes[a].code == 0; ++b) {
      EXPECT_TRUE(a == b || outcomes[a].links[b].pid == getpid()); // also without a connection
      counts.back() += bool(outcomes[a].links[b].socket);
    }
  }
  return counts;
}

// Rank 0 is connected with all. Another one is with it, and along each axis.
TEST(Join, RanksConnectAlongTheAxesOfTheMesh) {
  for (int port : {0, freePort()}) {
    EXPECT_EQ(countConnections(std::vector<AxisSizes>(8, {2, 2, 2}), port),
              (std::vector<int>{7, 3, 3, 4, 3, 4, 4, 4}));
    EXPECT_EQ(countConnections(std::vector<AxisSizes>(6, {3, 2}), port),
              (std::vector<int>{5, 3, 3, 4, 3, 4}));
  }
  EXPECT_EQ(neighboursOf(5, {2, 3, 1}), (std::vector<int>{0, 3, 4, 2}));
  EXPECT_EQ(neighboursOf(3, {2, 2}), (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(neighboursOf(0, {2, 2}), (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(neighboursOf(7, {2, 2, 2}, {{0, 2}}), (std::vector<int>{0, 6, 5, 3, 2}));
}

// Programs of other meshes are found out later, over connections of all with all.
TEST(Join, RanksOfDifferentMeshesConnectWithAll) {
  std::vector<AxisSizes> axes(4, {2, 2});
  axes[3] = {4};
  EXPECT_EQ(countConnections(axes, 0), (std::vector<int>(4, 3)));
}

TEST(Join, GoesOnAmongStrangers) {
  int port = freePort();
  std::atomic<bool> over{false};
  std::vector<std::thread> strangers;
  // Some hold their connection, some send garbage, some a byte at a time, some a recorded response.
  strangers.emplace_back([&] {
    std::vector<Socket> held;
    while (!over && held.size() < 400)
      held.push_back(connectAsStranger(port, over));
    while (!over)
      std::this_thread::sleep_for(milliseconds(5));
  });
  strangers.emplace_back([&] {
    std::string garbage(1 << 16, 'x');
    while (!over) {
      Socket one = connectAsStranger(port, over);
      send(one.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    }
  });
  strangers.emplace_back([&] {
    Response recorded = respond(ours, makeChallenge(), {1, 0, 4});
    while (!over) {
      Socket one = connectAsStranger(port, over);
      send(one.get(), &recorded, sizeof(recorded), MSG_NOSIGNAL);
      if (one && !over) {
        EXPECT_TRUE(isClosed(one));
      }
    }
  });
  strangers.emplace_back([&] {
    Socket slow = connectAsStranger(port, over);
    for (size_t i = 0; i < 8 && !over; ++i) {
      send(slow.get(), &"SHALE\r\n\1"[i], 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  // Rank 0 meets strangers only, until the others come.
  std::vector<Outcome> outcomes(4);
  std::vector<std::thread> ranks;
  for (int r = 0; r < 4; ++r) {
    ranks.emplace_back([&, r] { outcomes[r] = joinAs(r, 4, port, ours, 60000); });
    std::this_thread::sleep_for(milliseconds(100));
  }
  for (std::thread &rank : ranks)
    rank.join();
  over = true;
  // The port is closed: strangers that still wait for it end.
  for (std::thread &one : strangers)
    one.join();
  expectMesh(outcomes);
}

TEST(Join, AMissingRankIsNamed) {
  std::vector<Outcome> outcomes = joinAll({&ours, &ours, nullptr, &ours}, 0, 600);
  EXPECT_EQ(outcomes[0].code, SHALE_EXIT_PEER);
  // On a slow machine others are missing, too, or give up before.
  EXPECT_TRUE(std::regex_search(
      outcomes[0].text,
      std::regex("ranks? (1, )?2(, 3)? (did not arrive within 0.6 s|w(as|ere) missing)")))
      << outcomes[0].text;
  for (int r : {1, 3})
    EXPECT_EQ(outcomes[r].code, SHALE_EXIT_PEER) << outcomes[r].text;
}

TEST(Join, SeveralHostsNeedAToken) {
  unsetenv("SHALE_TOKEN");
  unsetenv("SHALE_TOKEN_FILE");
  Rendezvous rendezvous = rendezvousOf(0, 2, 1);
  EXPECT_THROW(secretOf(rendezvous), Error);
  rendezvous.insecure = true;
  EXPECT_NO_THROW(secretOf(rendezvous));
  EXPECT_NO_THROW(secretOf(rendezvousOf(0, 2, 0)));
}

TEST(Join, AnInterfaceThatThisHostDoesNotHave) {
  Rendezvous rendezvous = rendezvousOf(0, 2, 1);
  rendezvous.interface = "lo";
  EXPECT_EQ(ownEndpoint(rendezvous, 7).text(), "127.0.0.1 port 7");
  rendezvous.interface = "127.0.0.2";
  EXPECT_EQ(ownEndpoint(rendezvous, 7).text(), "127.0.0.2 port 7");
  rendezvous.interface = "none0";
  EXPECT_THROW(ownEndpoint(rendezvous, 7), Error);
}

TEST(Acceptor, ASilentStrangerIsDroppedInTime) {
  Listening listening;
  int port = listening.port();
  Acceptor acceptor(std::move(listening.socket), ours, 0, 2, 0, {8, 0.05});
  Socket stranger = connectAsStranger(port);
  send(stranger.get(), "SHA", 3, MSG_NOSIGNAL);
  for (int i = 0; i < 200 && acceptor.strangers().empty(); ++i)
    acceptor.serve(100, anyRank, nobody);
  EXPECT_NE(acceptor.strangers().find("1 connection that did not prove"), std::string::npos);
  EXPECT_TRUE(isClosed(stranger));
}

TEST(Acceptor, ANewConnectionTakesThePlaceOfTheOldest) {
  Listening listening;
  int port = listening.port();
  Acceptor acceptor(std::move(listening.socket), ours, 0, 2, 0, {4, 1000});
  int64_t before = residentBytes();
  std::vector<Socket> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(connectAsStranger(port));
    if (i % 50 == 49)
      acceptor.serve(20, anyRank, nobody);
  }
  acceptor.serve(50, anyRank, nobody);
  EXPECT_NE(acceptor.strangers().find("296 connections"), std::string::npos)
      << acceptor.strangers();
  EXPECT_TRUE(isClosed(strangers[0]));
  EXPECT_LT(residentBytes() - before, 4 << 20);
  // A rank that comes last is let in.
  std::thread rank([&] {
    Endpoint endpoint;
    auto *address = reinterpret_cast<sockaddr_in *>(&endpoint.address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address->sin_port = htons(port);
    endpoint.length = sizeof(*address);
    dial({endpoint}, ours, {1, 0, 2}, steady_clock::now() + std::chrono::seconds(20));
  });
  int arrived = 0;
  for (int i = 0; i < 200 && arrived == 0; ++i)
    acceptor.serve(100, anyRank, [&](int from, Socket, const char *) { arrived = from; });
  rank.join();
  EXPECT_EQ(arrived, 1);
}

namespace {
/// Lets rank 1 dial an acceptor that `expects` it or not, until it is refused. Returns its message.
std::string refusalOf(const Secret &secret, bool expected, std::string &strangers) {
  Listening listening;
  Endpoint endpoint = listening.endpoint;
  Acceptor acceptor(std::move(listening.socket), ours, 0, 2, 0, {});
  std::string text;
  std::atomic<bool> over{false};
  std::thread rank([&] {
    try {
      dial({endpoint}, secret, {1, 0, 2}, steady_clock::now() + std::chrono::seconds(20));
    } catch (const Error &error) {
      EXPECT_EQ(error.code, SHALE_EXIT_USAGE);
      text = error.what();
    }
    over = true;
  });
  while (!over)
    acceptor.serve(10, [&](int) { return expected; }, nobody);
  rank.join();
  strangers = acceptor.strangers();
  return text;
}
} // namespace

TEST(Dial, ASecondProcessCannotBeTheSameRank) {
  std::string strangers, text = refusalOf(ours, false, strangers);
  EXPECT_NE(text.find("already connected with a rank 1"), std::string::npos) << text;
  EXPECT_EQ(strangers, ""); // it did prove the secret
}

TEST(Dial, AnotherTokenIsRefused) {
  Secret other("another token of a good length", "run");
  std::string strangers, text = refusalOf(other, true, strangers);
  EXPECT_NE(text.find("another secret"), std::string::npos) << text;
  EXPECT_NE(strangers.find("1 connection that did not prove"), std::string::npos) << strangers;
}

TEST(Dial, AnAcceptorThatProvesNothingIsNoRank) {
  Listening listening;
  std::thread fake([&] {
    for (int i = 0; i < 2; ++i) { // the first sends no challenge, the second accepts anybody
      pollfd one{listening.socket.get(), POLLIN, 0};
      poll(&one, 1, 20000);
      Socket socket(accept4(listening.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      Challenge challenge = makeChallenge();
      if (i == 0)
        challenge.magic[0] = 'x';
      send(socket.get(), &challenge, sizeof(challenge), MSG_NOSIGNAL);
      Response response;
      Verdict verdict{};
      if (receiveAll(socket.get(), &response, sizeof(response),
                     steady_clock::now() + milliseconds(i == 0 ? 0 : 20000)))
        send(socket.get(), &verdict, sizeof(verdict), MSG_NOSIGNAL);
    }
  });
  try {
    dial({listening.endpoint}, ours, {1, 0, 2}, steady_clock::now() + milliseconds(700));
    ADD_FAILURE() << "it was taken for a rank";
  } catch (const Error &error) {
    EXPECT_EQ(error.code, SHALE_EXIT_PEER) << error.what();
  }
  fake.join();
}
