// Messages between ranks, and how they fail together. The ranks are meshes of one process.
#include "runtime/comm/gloo/Gloo.h"
#include "runtime/comm/mesh/Frames.h"
#include "runtime/comm/mesh/Mesh.h"
#include "runtime/core/Error.h"
#include "runtime/core/StorageWait.h"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <new>
#include <numeric>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace shale::rt;
using std::chrono::milliseconds;

/// Allocations of this thread that succeed before all others fail; negative: none fails.
static thread_local int allocationsLeft = -1;

void *operator new(size_t bytes) {
  if (allocationsLeft == 0)
    throw std::bad_alloc();
  allocationsLeft -= allocationsLeft > 0;
  if (void *memory = std::malloc(bytes ? bytes : 1))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }

namespace {
constexpr milliseconds longWait(20000);

/// Meshes that are connected with each other, or with `axes` with their neighbours. Those that are
/// left out are ends of connections only.
struct Ranks {
  std::vector<std::shared_ptr<Mesh>> meshes;
  std::vector<std::vector<Link>> links;

  explicit Ranks(int count, int started = -1, milliseconds timeout = longWait,
                 const AxisSizes &axes = {})
      : links(count) {
    for (int r = 0; r < count; ++r)
      links[r].resize(count);
    for (int a = 0; a < count; ++a)
      for (int b = 0; b < a; ++b) {
        int pair[2];
        std::vector<int> near = neighboursOf(a, axes);
        if (!axes.empty() && std::find(near.begin(), near.end(), b) == near.end())
          continue;
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        links[a][b].socket.reset(pair[0]);
        links[b][a].socket.reset(pair[1]);
      }
    for (int r = 0; r < count; ++r)
      for (int other = 0; other < count; ++other) {
        links[r][other].host = "host" + std::to_string(other);
        links[r][other].pid = 1000 + other;
      }
    Mesh::Options options;
    options.timeout = timeout;
    options.grace = milliseconds(0);
    for (int r = 0; r < (started < 0 ? count : started); ++r)
      meshes.push_back(std::make_shared<Mesh>(r, std::move(links[r]), options));
  }
  Mesh &operator[](int rank) { return *meshes[rank]; }
};

struct Failed {
  int code = 0;
  std::string text;
};
Failed failureOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return {error.code, error.what()};
  }
  return {};
}
Failed failureOfWait(Mesh &mesh, Awaited &transfers, bool sent = false,
                     milliseconds timeout = longWait) {
  return failureOf([&] { mesh.wait(transfers, sent, timeout); });
}
void expectFailure(const Failed &failed, const std::string &part) {
  EXPECT_EQ(failed.code, SHALE_EXIT_PEER);
  EXPECT_NE(failed.text.find(part), std::string::npos) << failed.text;
}

std::vector<char> bytesOf(size_t count, int seed) {
  std::vector<char> bytes(count);
  for (size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<char>((i * 131 + i / 977 + seed) % 251);
  return bytes;
}

void writeFrame(const Socket &socket, const Frame &frame, const std::string &more = "") {
  std::string bytes(reinterpret_cast<const char *>(&frame), sizeof(frame));
  bytes += more;
  ASSERT_EQ(send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}
constexpr uint32_t ready = 1, data = 2, failure = 5;
} // namespace

TEST(Mesh, MessagesArriveWholeInBothDirections) {
  Ranks ranks(2);
  // Sizes around those of frames, buffers and sockets.
  for (size_t size : {size_t(0), size_t(1), size_t(24), size_t(4095), size_t(4097), size_t(70000),
                      size_t(48) << 20}) {
    std::vector<char> out[2] = {bytesOf(size, 1), bytesOf(size, 2)}, in[2];
    Awaited sends[2], receipts[2];
    for (int r = 0; r < 2; ++r) {
      in[r].resize(size);
      // The second rank asks for its message before it is sent, the first one after.
      if (r == 1)
        ranks[r].receive(0, 0, 5, in[r].data(), size, receipts[r]);
      ranks[r].send(1 - r, 0, 5, out[r].data(), size, sends[r]);
      if (r == 0)
        ranks[r].receive(1, 0, 5, in[r].data(), size, receipts[r]);
    }
    for (int r = 0; r < 2; ++r) {
      EXPECT_EQ(ranks[r].wait(receipts[r], false, longWait), 1 - r);
      EXPECT_EQ(ranks[r].wait(sends[r], true, longWait), 1 - r);
    }
    ASSERT_TRUE(in[0] == out[1] && in[1] == out[0]) << size;
  }
}

TEST(Mesh, ManySlotsAndChannelsInAnyOrder) {
  Ranks ranks(3);
  constexpr int count = 500;
  std::vector<int> out(count), in(2 * count, -1);
  std::iota(out.begin(), out.end(), 0);
  Awaited sends[3], receipts;
  // Asked for from the last slot to the first, sent from the first to the last, on two channels.
  for (int i = count - 1; i >= 0; --i)
    for (int from : {1, 2})
      ranks[0].receive(from, i % 2, i, &in[(from - 1) * count + i], sizeof(int), receipts);
  for (int i = 0; i < count; ++i)
    for (int from : {1, 2})
      ranks[from].send(0, i % 2, i, &out[i], sizeof(int), sends[from]);
  for (int i = 0; i < count; ++i) {
    ranks[0].wait(receipts, false, longWait);
    ranks[0].wait(receipts, false, longWait);
    for (int from : {1, 2})
      EXPECT_EQ(ranks[from].wait(sends[from], true, longWait), 0);
  }
  for (int i = 0; i < 2 * count; ++i)
    ASSERT_EQ(in[i], i % count);
}

TEST(Mesh, MessagesOfOneSlotKeepTheirOrder) {
  Ranks ranks(2);
  std::vector<int> out(100), in(100, -1);
  std::iota(out.begin(), out.end(), 0);
  Awaited sends, receipts;
  for (int i = 0; i < 50; ++i)
    ranks[0].send(1, 0, 9, &out[i], sizeof(int), sends);
  for (int &place : in)
    ranks[1].receive(0, 0, 9, &place, sizeof(int), receipts);
  for (int i = 50; i < 100; ++i)
    ranks[0].send(1, 0, 9, &out[i], sizeof(int), sends);
  for (int i = 0; i < 100; ++i) {
    ranks[1].wait(receipts, false, longWait);
    ranks[0].wait(sends, true, longWait);
  }
  EXPECT_EQ(in, out);
}

TEST(Mesh, ARankThatEndsIsNamedByAll) {
  Ranks ranks(4);
  Awaited waiting[3];
  char bytes[3];
  std::thread waits[3];
  Failed failed[3];
  // Rank 0 waits for rank 1, which waits for rank 2, which waits for rank 3.
  for (int r = 0; r < 3; ++r) {
    ranks[r].receive(r + 1, 0, 1, &bytes[r], 1, waiting[r]);
    waits[r] = std::thread([&, r] { failed[r] = failureOfWait(ranks[r], waiting[r]); });
  }
  ranks.meshes[3].reset();
  for (int r = 0; r < 3; ++r) {
    waits[r].join();
    expectFailure(failed[r], "rank 3 (host host3, pid 1003) ended");
    ranks[r].forget(waiting[r]);
  }
}

TEST(Mesh, ARankThatEndsInTheMiddleOfAMessage) {
  Ranks ranks(2, 1);
  std::vector<char> in(100000);
  Awaited receipt;
  ranks[0].receive(1, 0, 1, in.data(), in.size(), receipt);
  writeFrame(ranks.links[1][0].socket, {data, 0, 1, in.size()}, std::string(50000, 'x'));
  ranks.links[1][0].socket.reset();
  expectFailure(failureOfWait(ranks[0], receipt), "rank 1 (host host1, pid 1001) ended");
  ranks[0].forget(receipt);
}

TEST(Mesh, ASilentRankIsNamedAndNotTheOneThatWaitsForIt) {
  // Rank 2 is connected, but nobody reads its connections: as if it were stopped.
  Ranks ranks(3, 2, milliseconds(400));
  Awaited waiting[2];
  char bytes[2];
  Failed failed[2];
  ranks[0].receive(1, 0, 1, &bytes[0], 1, waiting[0]);
  ranks[1].receive(2, 0, 1, &bytes[1], 1, waiting[1]);
  std::thread other(
      [&] { failed[1] = failureOfWait(ranks[1], waiting[1], false, milliseconds(400)); });
  failed[0] = failureOfWait(ranks[0], waiting[0], false, milliseconds(400));
  other.join();
  for (int r = 0; r < 2; ++r) {
    expectFailure(failed[r], "rank 2 (host host2, pid 1002) did not answer within 0.4 s");
    ranks[r].forget(waiting[r]);
  }
}

// Rank 1 of 2 x 2 x 2 is not connected with ranks 6 and 7.
TEST(Mesh, ARankThatEndsIsNamedByRanksThatAreNotConnectedWithIt) {
  Ranks ranks(8, 8, longWait, {2, 2, 2});
  Awaited waiting;
  char byte;
  ranks[1].receive(0, 0, 1, &byte, 1, waiting);
  ranks.meshes[7].reset();
  expectFailure(failureOfWait(ranks[1], waiting), "rank 7 (host host7, pid 1007) ended");
  ranks[1].forget(waiting);
  EXPECT_EQ(failureOf([&] {
              Awaited none;
              ranks[1].send(6, 0, 1, &byte, 1, none);
            }).code,
            SHALE_EXIT_INTERNAL);
}

TEST(Mesh, ASilentRankIsNamedByRanksThatAreNotConnectedWithIt) {
  milliseconds timeout(600);
  Ranks ranks(8, 7, timeout, {2, 2, 2});
  Awaited waiting[2];
  char bytes[2];
  Failed failed[2];
  // Rank 1 waits for rank 0, which began later to wait for rank 7, which nobody reads for.
  ranks[1].receive(0, 0, 1, &bytes[1], 1, waiting[1]);
  std::thread other([&] { failed[1] = failureOfWait(ranks[1], waiting[1], false, timeout); });
  std::this_thread::sleep_for(timeout / 2);
  ranks[0].receive(7, 0, 1, &bytes[0], 1, waiting[0]);
  failed[0] = failureOfWait(ranks[0], waiting[0], false, timeout);
  other.join();
  for (int r = 0; r < 2; ++r) {
    expectFailure(failed[r], "rank 7 (host host7, pid 1007) did not answer within 0.6 s");
    ranks[r].forget(waiting[r]);
  }
}

TEST(Mesh, AllRanksAgreeThroughTheFirst) {
  Ranks ranks(8, 8, longWait, {2, 2, 2});
  std::vector<std::thread> threads;
  for (int r = 0; r < 8; ++r)
    threads.emplace_back([&, r] {
      auto peers = makeGlooPeers(ranks.meshes[r], 8, longWait);
      for (int turn = 0; turn < 50; ++turn)
        EXPECT_EQ(peers->agree((r + turn) % 8 == 7 ? turn : -turn - 1), turn);
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(Mesh, ARankThatComputesIsNamedAndNotTheOneThatWaitsForIt) {
  Ranks ranks(3, 3, milliseconds(1200));
  Awaited waiting[2];
  char bytes[2];
  Failed failed[2];
  ranks[0].receive(1, 0, 1, &bytes[0], 1, waiting[0]);
  ranks[1].receive(2, 0, 1, &bytes[1], 1, waiting[1]);
  // Rank 1 waits longer: the one that finds out is rank 0, which does not wait for rank 2.
  std::thread other([&] { failed[1] = failureOfWait(ranks[1], waiting[1]); });
  failed[0] = failureOfWait(ranks[0], waiting[0], false, milliseconds(1200));
  other.join();
  for (int r = 0; r < 2; ++r) {
    expectFailure(failed[r], "rank 2 (host host2, pid 1002) did not come to this point");
    ranks[r].forget(waiting[r]);
  }
  EXPECT_NE(failed[1].text.find("as rank 0 reports"), std::string::npos) << failed[1].text;
}

// Rank 1 is alive, and does not come until rank 0 has told that it waits for its storage.
TEST(Mesh, AWaitForStorageLastsAsLongAsTheOtherRankAnswers) {
  Ranks ranks(3, 3, milliseconds(600));
  Awaited receipt, send;
  char got = 0, sent = 7;
  testing::internal::CaptureStderr();
  ranks[0].receive(1, 0, 1, &got, 1, receipt);
  std::thread other([&] {
    std::this_thread::sleep_for(milliseconds(1500));
    ranks[1].send(0, 0, 1, &sent, 1, send);
    ranks[1].wait(send, true, longWait);
  });
  StorageWait storage("the save of step 7");
  EXPECT_EQ(ranks[0].wait(receipt, false, milliseconds(600)), 1);
  other.join();
  EXPECT_EQ(got, 7);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("the save of step 7 waits for the storage of rank 1 (host host1, pid 1001) "
                      "since "),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("rank 2"), std::string::npos) << text;
}

TEST(Mesh, AWaitForStorageEndsWithTheRank) {
  // Rank 1 is silent, as if it were stopped; then it ends.
  Ranks ranks(2, 1, milliseconds(400));
  Awaited waiting;
  char byte;
  ranks[0].receive(1, 0, 1, &byte, 1, waiting);
  StorageWait storage("the save of step 7");
  expectFailure(failureOfWait(ranks[0], waiting, false, milliseconds(400)),
                "rank 1 (host host1, pid 1001) did not answer within 0.4 s");
  ranks[0].forget(waiting);
  Ranks two(2, 1);
  two[0].receive(1, 0, 1, &byte, 1, waiting);
  two.links[1][0].socket.reset();
  expectFailure(failureOfWait(two[0], waiting), "rank 1 (host host1, pid 1001) ended");
  two[0].forget(waiting);
}

// Whatever the thread that finds the silent rank has no memory for, the other one does not wait for
// it.
TEST(Mesh, AThreadWithoutMemoryEndsTheWaitsOfOthers) {
  int ended = 0, failures = 0;
  for (int allocations = 0; allocations < 40; ++allocations) {
    Ranks ranks(2, 1, milliseconds(40));
    Awaited waiting[2];
    char bytes[2];
    for (int i = 0; i < 2; ++i)
      ranks[0].receive(1, 0, i, &bytes[i], 1, waiting[i]);
    Failed failed[2];
    std::thread starved([&] {
      allocationsLeft = allocations;
      try {
        ranks[0].wait(waiting[0], false, milliseconds(40));
      } catch (const std::bad_alloc &) {
        failed[0].code = SHALE_EXIT_NO_FIT;
      } catch (const Error &error) {
        failed[0].code = error.code;
      }
      allocationsLeft = -1;
    });
    failed[1] = failureOfWait(ranks[0], waiting[1], false, milliseconds(60));
    starved.join();
    ended += failed[0].code == SHALE_EXIT_NO_FIT;
    failures += failed[0].code == SHALE_EXIT_PEER;
    EXPECT_EQ(failed[1].code, SHALE_EXIT_PEER) << allocations;
    for (Awaited &one : waiting)
      ranks[0].forget(one);
  }
  EXPECT_GT(ended, 3);
  EXPECT_GT(failures, 3);
  EXPECT_EQ(ended + failures, 40);
}

TEST(Mesh, SizesThatDifferFailOnBothRanks) {
  for (bool receiverFirst : {false, true}) {
    Ranks ranks(2);
    char out[8] = {}, in[12] = {};
    Awaited send, receipt;
    auto receive = [&] { ranks[1].receive(0, 0, 1, in, sizeof(in), receipt); };
    if (receiverFirst)
      receive();
    ranks[0].send(1, 0, 1, out, sizeof(out), send);
    if (!receiverFirst)
      receive();
    expectFailure(failureOfWait(ranks[0], send, true), "run different programs or flags");
    expectFailure(failureOfWait(ranks[1], receipt), "run different programs or flags");
    ranks[0].forget(send);
    ranks[1].forget(receipt);
  }
}

TEST(Mesh, WhatNoRankSendsIsRefused) {
  const std::pair<Frame, const char *> frames[] = {
      {{99, 0, 0, 0}, "unknown kind 99"},
      {{data, 0, 1, uint64_t(1) << 60}, "does not expect"},
      {{failure, 0, 0, uint64_t(1) << 60}, "too long"}};
  for (const auto &[frame, text] : frames) {
    Ranks ranks(2, 1);
    char byte = 0;
    Awaited receipt;
    ranks[0].receive(1, 0, 1, &byte, 1, receipt);
    writeFrame(ranks.links[1][0].socket, frame);
    expectFailure(failureOfWait(ranks[0], receipt), text);
    ranks[0].forget(receipt);
  }
}

TEST(Mesh, AFloodOfAnnouncementsIsBounded) {
  Ranks ranks(2, 1);
  char byte = 0;
  Awaited receipt;
  ranks[0].receive(1, 0, 1, &byte, 1, receipt);
  std::thread flood([&] {
    std::vector<Frame> frames(1024, {ready, 7, 7, 7});
    const Socket &socket = ranks.links[1][0].socket;
    for (int i = 0; i < 1100; ++i)
      if (send(socket.get(), frames.data(), frames.size() * sizeof(Frame), MSG_NOSIGNAL) < 0)
        return;
  });
  expectFailure(failureOfWait(ranks[0], receipt), "announced too many messages");
  flood.join();
  ranks[0].forget(receipt);
}

TEST(Mesh, ATextOfAnotherRankIsPrintedHarmlessly) {
  Ranks ranks(2, 1);
  char byte = 0;
  Awaited receipt;
  ranks[0].receive(1, 0, 1, &byte, 1, receipt);
  writeFrame(ranks.links[1][0].socket, {failure, 0, 0, 9}, "bad\x1b[2J\n!");
  expectFailure(failureOfWait(ranks[0], receipt), "bad?[2J?!, as rank 1 reports");
  ranks[0].forget(receipt);
}

TEST(Mesh, ARankThatLeavesInOrderIsNoFailure) {
  Ranks ranks(3);
  ranks[2].leave();
  ranks.meshes[2].reset();
  char out = 7, in = 0;
  Awaited send, receipt, late;
  ranks[0].send(1, 0, 1, &out, 1, send);
  ranks[1].receive(0, 0, 1, &in, 1, receipt);
  ranks[1].wait(receipt, false, longWait);
  ranks[0].wait(send, true, longWait);
  EXPECT_EQ(in, 7);
  // Unless it is still needed.
  ranks[0].receive(2, 0, 1, &in, 1, late);
  expectFailure(failureOfWait(ranks[0], late), "rank 2 (host host2, pid 1002) ended its run");
  ranks[0].forget(late);
}

TEST(Mesh, RanksThatAreStuckFindTheSilentOnes) {
  Ranks ranks(3);
  std::vector<int> silent;
  std::thread other([&] { silent = ranks[1].findSilent({0, 2}, 0.3); });
  EXPECT_EQ(ranks[0].findSilent({1, 2}, 0.3), std::vector<int>{2});
  other.join();
  EXPECT_EQ(silent, std::vector<int>{2});
}

TEST(GlooPeers, AgreeAndGather) {
  Ranks ranks(4);
  std::vector<std::thread> threads;
  std::vector<int64_t> agreed(4);
  std::vector<std::string> texts;
  std::vector<double> numbers[4];
  for (int r = 0; r < 4; ++r)
    threads.emplace_back([&, r] {
      auto peers = makeGlooPeers(ranks.meshes[r], 4, longWait);
      for (int i = 0; i < 50; ++i) {
        agreed[r] = peers->agree(100 * i + r);
        EXPECT_EQ(peers->agreeAndTell(i - r, i + 0.25 * r, numbers[r]), i);
        std::vector<double> all = {i + 0.0, i + 0.25, i + 0.5, i + 0.75};
        EXPECT_EQ(numbers[r], r == 0 ? all : std::vector<double>{});
      }
      // The third text takes two pieces.
      std::vector<std::string> got = peers->gather(std::string(r == 2 ? 1200000 : r, 'a' + r));
      if (r == 0)
        texts = got;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(agreed, std::vector<int64_t>(4, 4903));
  EXPECT_EQ(texts, (std::vector<std::string>{"", "b", std::string(1200000, 'c'), "ddd"}));
}

TEST(GlooPeers, ATextOfAnImpossibleLengthIsRefused) {
  for (int64_t length : {int64_t(-1), int64_t(1) << 62}) {
    Ranks ranks(2);
    Awaited send;
    ranks[1].send(0, 0, 0x7eull << 56, &length, sizeof(length), send);
    Failed failed = failureOf([&] { makeGlooPeers(ranks.meshes[0], 2, longWait)->gather("own"); });
    expectFailure(failed, "rank 1 (host host1, pid 1001) sends a text of");
    ranks[1].wait(send, true, longWait);
  }
}
