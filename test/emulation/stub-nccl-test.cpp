// Collectives of the emulated NCCL between processes.
#include "Floats.h"
#include "StubTest.h"
#include <csignal>
#include <nccl.h>
#include <thread>

using namespace shale::stub;
using namespace shale::stub::test;

namespace {

#define CHECK_NCCL(call) ASSERT_EQ(call, ncclSuccess)

void *pointer(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

/// One rank of a communicator of all processes.
struct Rank {
  Gpu gpu{2};
  int ranks, rank;
  ncclComm_t world = nullptr;
  cudaStream_t stream, other;

  Rank(const ncclUniqueId &id, int ranks, int rank)
      : ranks(ranks), rank(rank), stream(reinterpret_cast<cudaStream_t>(gpu.streams[0])),
        other(reinterpret_cast<cudaStream_t>(gpu.streams[1])) {
    EXPECT_EQ(ncclCommInitRank(&world, ranks, id, rank), ncclSuccess);
  }
  ~Rank() {
    if (world) {
      EXPECT_EQ(ncclCommDestroy(world), ncclSuccess);
    }
  }
  /// Returns element i of a rank's send buffer.
  static float value(int rank, int64_t i) { return float((rank + 1) * (i % 13 + 1)) / 4; }
  CUdeviceptr send(int64_t count) {
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i)
      values[i] = value(rank, i);
    return gpu.upload(values);
  }
  void synchronize() { EXPECT_CU(cuStreamSynchronize(gpu.streams[0])); }
  ncclResult_t asyncError() {
    ncclResult_t result = ncclSuccess;
    EXPECT_EQ(ncclCommGetAsyncError(world, &result), ncclSuccess);
    return result;
  }
};

/// Runs `function` on each of `ranks` processes. All must pass.
void onRanks(int ranks, const Environment &environment,
             const std::function<void(Rank &)> &function) {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  std::vector<int> results = runProcesses(ranks, environment, [&](int rank) {
    Rank own(id, ranks, rank);
    function(own);
  });
  EXPECT_EQ(results, std::vector<int>(ranks, 0));
}

template <typename Type> void checkReductions(Rank &r, ncclDataType_t type) {
  int64_t count = 37;
  std::vector<Type> mine(count * r.ranks);
  std::vector<float> sums(count * r.ranks), largest(count * r.ranks, -1);
  for (int rank = 0; rank < r.ranks; ++rank)
    for (size_t i = 0; i < sums.size(); ++i) {
      Type value = narrow<Type>(Rank::value(rank, i));
      sums[i] += float(value);
      largest[i] = std::max(largest[i], float(value));
      if (rank == r.rank)
        mine[i] = value;
    }
  CUdeviceptr from = r.gpu.upload(mine), to = r.gpu.allocate(mine.size() * sizeof(Type));
  auto expect = [&](int64_t got, int64_t offset, float scale, const std::vector<float> &sums) {
    r.synchronize();
    std::vector<Type> made = r.gpu.download<Type>(to, got);
    for (int64_t i = 0; i < got; ++i)
      ASSERT_EQ(float(made[i]), float(narrow<Type>(scale * sums[i + offset]))) << i;
  };
  CHECK_NCCL(
      ncclAllReduce(pointer(from), pointer(to), mine.size(), type, ncclSum, r.world, r.stream));
  expect(mine.size(), 0, 1, sums);
  CHECK_NCCL(
      ncclAllReduce(pointer(from), pointer(to), mine.size(), type, ncclMax, r.world, r.stream));
  expect(mine.size(), 0, 1, largest);
  CHECK_NCCL(
      ncclReduceScatter(pointer(from), pointer(to), count, type, ncclSum, r.world, r.stream));
  expect(count, r.rank * count, 1, sums);
  // In place.
  CUdeviceptr own = from + r.rank * count * sizeof(Type);
  CHECK_NCCL(
      ncclReduceScatter(pointer(from), pointer(own), count, type, ncclSum, r.world, r.stream));
  to = own;
  expect(count, r.rank * count, 1, sums);
}

} // namespace

TEST(StubNccl, Reduces) {
  for (int ranks : {1, 2, 3})
    onRanks(ranks, {}, [](Rank &r) {
      checkReductions<float>(r, ncclFloat32);
      checkReductions<BFloat>(r, ncclBfloat16);
      checkReductions<Half>(r, ncclFloat16);
      // Integers, and the mean.
      CUdeviceptr number = r.gpu.upload(std::vector<int64_t>{r.rank + (1l << 40)});
      CHECK_NCCL(ncclAllReduce(pointer(number), pointer(number), 1, ncclInt64, ncclSum, r.world,
                               r.stream));
      r.synchronize();
      EXPECT_EQ(r.gpu.download<int64_t>(number, 1)[0],
                r.ranks * (1l << 40) + r.ranks * (r.ranks - 1) / 2);
      CUdeviceptr mean = r.gpu.upload(std::vector<float>{float(r.rank)});
      CHECK_NCCL(
          ncclAllReduce(pointer(mean), pointer(mean), 1, ncclFloat32, ncclAvg, r.world, r.stream));
      r.synchronize();
      EXPECT_EQ(r.gpu.download<float>(mean, 1)[0], float(r.ranks - 1) / 2);
    });
}

TEST(StubNccl, GathersAndBroadcasts) {
  for (int ranks : {2, 3})
    for (const char *order : {"first", "last", "random:3"})
      onRanks(ranks, {{"SHALE_STUB_ORDER", order}}, [](Rank &r) {
        // Sizes that make the shared memory grow, and many operations before a wait.
        for (int64_t count : {1000, 3, 40000, 70, 5, 7, 9, 11, 13, 15, 17}) {
          CUdeviceptr from = r.send(count), all = r.gpu.allocate(count * r.ranks * 4);
          CHECK_NCCL(
              ncclAllGather(pointer(from), pointer(all), count, ncclFloat32, r.world, r.stream));
          CUdeviceptr copy = r.gpu.allocate(count * 4);
          CHECK_NCCL(ncclBroadcast(pointer(from), pointer(copy), count, ncclFloat32, r.ranks - 1,
                                   r.world, r.stream));
          r.synchronize();
          std::vector<float> made = r.gpu.download<float>(all, count * r.ranks);
          std::vector<float> sent = r.gpu.download<float>(copy, count);
          for (int64_t i = 0; i < count; ++i) {
            for (int rank = 0; rank < r.ranks; ++rank)
              ASSERT_EQ(made[rank * count + i], Rank::value(rank, i));
            ASSERT_EQ(sent[i], Rank::value(r.ranks - 1, i));
          }
        }
      });
}

TEST(StubNccl, SendsInGroups) {
  for (int ranks : {2, 3})
    onRanks(ranks, {}, [](Rank &r) {
      // Each rank sends two messages to every rank, itself too.
      int64_t count = 100;
      CUdeviceptr from = r.send(2 * count), to = r.gpu.allocate(2 * r.ranks * count * 4);
      CHECK_NCCL(ncclGroupStart());
      for (int peer = 0; peer < r.ranks; ++peer)
        for (int half : {0, 1}) {
          CHECK_NCCL(ncclRecv(pointer(to + (2 * peer + half) * count * 4), count, ncclFloat32, peer,
                              r.world, r.stream));
          CHECK_NCCL(ncclSend(pointer(from + half * count * 4), count, ncclFloat32, peer, r.world,
                              r.stream));
        }
      CHECK_NCCL(ncclGroupEnd());
      r.synchronize();
      std::vector<float> made = r.gpu.download<float>(to, 2 * r.ranks * count);
      for (int64_t i = 0; i < int64_t(made.size()); ++i)
        ASSERT_EQ(made[i], Rank::value(int(i / (2 * count)), i % (2 * count))) << i;
    });
}

TEST(StubNccl, GroupsCollectives) {
  onRanks(2, {}, [](Rank &r) {
    int64_t count = 12; // more collectives than a rank may post before others read them
    CUdeviceptr from = r.send(count), to = r.gpu.allocate(count * 4);
    CHECK_NCCL(ncclGroupStart());
    for (int64_t i = 0; i < count; ++i)
      CHECK_NCCL(ncclAllReduce(pointer(from + 4 * i), pointer(to + 4 * i), 1, ncclFloat32, ncclSum,
                               r.world, r.stream));
    CHECK_NCCL(ncclGroupEnd());
    r.synchronize();
    std::vector<float> made = r.gpu.download<float>(to, count);
    for (int64_t i = 0; i < count; ++i)
      EXPECT_EQ(made[i], Rank::value(0, i) + Rank::value(1, i));
  });
}

TEST(StubNccl, RunsInGraphs) {
  for (const char *order : {"first", "last", "random:1", "random:2"})
    onRanks(2, {{"SHALE_STUB_ORDER", order}}, [](Rank &r) {
      CUdeviceptr values = r.gpu.upload(std::vector<float>{float(r.rank + 1)});
      CUstream stream = r.gpu.streams[0], other = r.gpu.streams[1];
      CUevent event;
      CHECK_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
      CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
      CHECK_CU(cuEventRecord(event, stream));
      CHECK_CU(cuStreamWaitEvent(other, event, 0));
      // Two collectives without a dependency: the communicator keeps their order.
      CUdeviceptr second = r.gpu.upload(std::vector<float>{3});
      CHECK_NCCL(ncclAllReduce(pointer(values), pointer(values), 1, ncclFloat32, ncclSum, r.world,
                               r.stream));
      CHECK_NCCL(
          ncclBroadcast(pointer(second), pointer(second), 1, ncclFloat32, 1, r.world, r.other));
      CHECK_CU(cuEventRecord(event, other));
      CHECK_CU(cuStreamWaitEvent(stream, event, 0));
      CUgraph graph;
      CUgraphExec executable;
      CHECK_CU(cuStreamEndCapture(stream, &graph));
      CHECK_CU(cuGraphInstantiate(&executable, graph, 0));
      for (int i = 0; i < 3; ++i)
        CHECK_CU(cuGraphLaunch(executable, stream));
      r.synchronize();
      EXPECT_EQ(r.gpu.download<float>(values, 1)[0], 12); // (1 + 2) * 2 * 2
    });
}

TEST(StubNccl, Splits) {
  onRanks(3, {}, [](Rank &r) {
    // Ranks 2 and 0 in reversed order; rank 1 in none.
    ncclComm_t part = nullptr;
    CHECK_NCCL(
        ncclCommSplit(r.world, r.rank == 1 ? NCCL_SPLIT_NOCOLOR : 5, -r.rank, &part, nullptr));
    ASSERT_EQ(part == nullptr, r.rank == 1);
    for (int i = 0; i < 20; ++i) { // many splits
      ncclComm_t same = nullptr;
      CHECK_NCCL(ncclCommSplit(r.world, 0, r.rank, &same, nullptr));
      CHECK_NCCL(ncclCommDestroy(same));
    }
    if (!part)
      return;
    int count, rank;
    CHECK_NCCL(ncclCommCount(part, &count));
    CHECK_NCCL(ncclCommUserRank(part, &rank));
    EXPECT_EQ(count, 2);
    EXPECT_EQ(rank, r.rank == 2 ? 0 : 1);
    CUdeviceptr from = r.gpu.upload(std::vector<float>{float(r.rank)}), to = r.gpu.allocate(8);
    CHECK_NCCL(ncclAllGather(pointer(from), pointer(to), 1, ncclFloat32, part, r.stream));
    r.synchronize();
    EXPECT_EQ(r.gpu.download<float>(to, 2), (std::vector<float>{2, 0}));
    CHECK_NCCL(ncclCommDestroy(part));
  });
}

TEST(StubNccl, ConnectsWithoutBlocking) {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  std::vector<int> results = runProcesses(2, {}, [&](int rank) {
    Gpu gpu;
    if (rank == 1)
      usleep(100000);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t world;
    ncclResult_t result = ncclCommInitRankConfig(&world, 2, id, rank, &config);
    EXPECT_TRUE(result == ncclInProgress || (rank == 1 && result == ncclSuccess)) << result;
    if (rank == 0) {
      EXPECT_EQ(ncclAllGather(nullptr, nullptr, 1, ncclInt8, world, nullptr), ncclInvalidUsage);
    }
    do {
      usleep(1000);
      CHECK_NCCL(ncclCommGetAsyncError(world, &result));
    } while (result == ncclInProgress);
    EXPECT_EQ(result, ncclSuccess);
  });
  EXPECT_EQ(results, (std::vector<int>{0, 0}));
}

TEST(StubNccl, FindsMismatches) {
  for (int what = 0; what < 4; ++what)
    onRanks(2, {}, [&](Rank &r) {
      CUdeviceptr from = r.send(16), to = r.gpu.allocate(256);
      bool odd = r.rank == 1;
      auto gather = [&](size_t count, ncclDataType_t type) {
        return ncclAllGather(pointer(from), pointer(to), count, type, r.world, r.stream);
      };
      ncclResult_t result =
          what == 0          ? gather(odd ? 7 : 8, ncclFloat32)         // counts
          : what == 1        ? gather(8, odd ? ncclInt32 : ncclFloat32) // types
          : what == 2 && odd ? ncclReduceScatter(pointer(from), pointer(to), 8, ncclFloat32,
                                                 ncclSum, r.world, r.stream) // operations
          : what == 2        ? gather(8, ncclFloat32)
          : odd ? ncclSend(pointer(from), 9, ncclFloat32, 0, r.world, r.stream) // too long
                : ncclRecv(pointer(to), 8, ncclFloat32, 1, r.world, r.stream);
      CHECK_NCCL(result);
      if (what == 3 && odd) { // nobody takes it
        EXPECT_EQ(cuStreamQuery(r.gpu.streams[0]), CUDA_ERROR_NOT_READY);
        CHECK_NCCL(ncclCommAbort(r.world));
        r.world = nullptr;
        return;
      }
      r.synchronize();
      EXPECT_EQ(r.asyncError(), ncclInvalidUsage);
      EXPECT_EQ(ncclAllGather(pointer(from), pointer(to), 8, ncclFloat32, r.world, r.stream),
                ncclInvalidUsage);
    });
}

TEST(StubNccl, WaitsForASilentRankUntilAborted) {
  onRanks(2, {{"SHALE_STUB_SILENT", "1@2"}}, [](Rank &r) {
    CUdeviceptr from = r.send(16), to = r.gpu.allocate(256);
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(r.asyncError(), ncclSuccess);
      CHECK_NCCL(ncclAllGather(pointer(from), pointer(to), 8, ncclFloat32, r.world, r.stream));
      if (i == 0)
        r.synchronize();
    }
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(cuStreamQuery(r.gpu.streams[0]), CUDA_ERROR_NOT_READY);
      usleep(100);
    }
    EXPECT_EQ(r.asyncError(), ncclSuccess);
    // Another thread aborts while this one waits.
    std::thread watchdog([&] {
      usleep(100000);
      EXPECT_EQ(ncclCommAbort(r.world), ncclSuccess);
      r.world = nullptr;
    });
    r.synchronize();
    watchdog.join();
  });
}

TEST(StubNccl, RejectsBadCalls) {
  onRanks(2, {}, [](Rank &r) {
    CUdeviceptr memory = r.gpu.allocate(64);
    auto gather = [&](CUdeviceptr from, CUdeviceptr to, ncclDataType_t type, cudaStream_t stream) {
      return ncclAllGather(pointer(from), pointer(to), 4, type, r.world, stream);
    };
    EXPECT_EQ(gather(memory, memory + 4, ncclFloat32, r.stream), ncclInvalidArgument); // overlap
    EXPECT_EQ(gather(memory, memory + 32, ncclFloat8e4m3, r.stream), ncclInvalidArgument);
    EXPECT_EQ(gather(memory, memory + 16, ncclFloat32, nullptr), ncclUnhandledCudaError);
    EXPECT_STRNE(ncclGetLastError(r.world), "");
    EXPECT_EQ(ncclSend(pointer(memory), 1, ncclFloat32, 2, r.world, r.stream), ncclInvalidArgument);
    EXPECT_EQ(
        ncclBroadcast(pointer(memory), pointer(memory), 1, ncclFloat32, -1, r.world, r.stream),
        ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
    // An error within a group comes at its end, too, and nothing runs.
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(gather(memory, memory + 4, ncclFloat32, r.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    ncclUniqueId id = {};
    ncclComm_t made;
    EXPECT_EQ(ncclCommInitRank(&made, 2, id, 0), ncclInvalidArgument);
    EXPECT_EQ(ncclCommInitRank(&made, 2, id, 2), ncclInvalidArgument);
    CHECK_NCCL(ncclGetUniqueId(&id));
    EXPECT_EQ(ncclCommCount(nullptr, nullptr), ncclInvalidArgument);
  });
}

TEST(StubNccl, RegistersMemory) {
  onRanks(2, {{"SHALE_STUB_REGISTERED", "1"}}, [](Rank &r) {
    CUdeviceptr from = r.send(16), to = r.gpu.allocate(128);
    auto gather = [&] {
      return ncclAllGather(pointer(from), pointer(to), 16, ncclFloat32, r.world, r.stream);
    };
    void *source = nullptr, *target = nullptr;
    CHECK_NCCL(ncclCommRegister(r.world, pointer(from), 64, &source));
    EXPECT_EQ(gather(), ncclInvalidUsage); // its result is not registered
    CHECK_NCCL(ncclCommRegister(r.world, pointer(to), 124, &target));
    EXPECT_EQ(gather(), ncclInvalidUsage); // nor is its end
    CHECK_NCCL(ncclCommDeregister(r.world, target));
    CHECK_NCCL(ncclCommRegister(r.world, pointer(to), 128, &target));
    CHECK_NCCL(gather());
    r.synchronize();
    EXPECT_EQ(r.gpu.download<float>(to, 32)[17], Rank::value(1, 1));
    CHECK_NCCL(ncclCommDeregister(r.world, source));
    EXPECT_EQ(ncclCommDeregister(r.world, source), ncclInvalidArgument);
    CHECK_NCCL(ncclCommDeregister(r.world, target));
  });
}

TEST(StubNccl, RejectsBadRegistrations) {
  onRanks(2, {}, [](Rank &r) {
    CUdeviceptr memory = r.gpu.allocate(64);
    void *handle = nullptr, *pinned = nullptr;
    EXPECT_EQ(ncclCommRegister(r.world, pointer(memory), 65, &handle), ncclInvalidArgument);
    EXPECT_EQ(ncclCommRegister(r.world, pointer(memory), 0, &handle), ncclInvalidArgument);
    EXPECT_EQ(ncclCommRegister(nullptr, pointer(memory), 64, &handle), ncclInvalidArgument);
    CHECK_CU(cuMemHostAlloc(&pinned, 64, 0));
    EXPECT_EQ(ncclCommRegister(r.world, pinned, 64, &handle), ncclInvalidArgument);
    EXPECT_EQ(ncclCommDeregister(r.world, &handle), ncclInvalidArgument);
    // Not while a stream captures. It ends the capture.
    CUstream stream = r.gpu.streams[0];
    CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    EXPECT_EQ(ncclCommRegister(r.world, pointer(memory), 64, &handle), ncclInvalidArgument);
    CUgraph graph;
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  });
}

TEST(StubNccl, FindsRanksThatDisagreeAboutRegistration) {
  for (bool pairs : {false, true})
    onRanks(2, {{"SHALE_STUB_UNREGISTERED", "1"}}, [&](Rank &r) {
      CUdeviceptr memory = r.send(64);
      void *handle = nullptr;
      EXPECT_EQ(ncclCommRegister(r.world, pointer(memory), 256, &handle),
                r.rank == 1 ? ncclSystemError : ncclSuccess);
      if (!pairs)
        CHECK_NCCL(ncclAllReduce(pointer(memory), pointer(memory), 64, ncclFloat32, ncclSum,
                                 r.world, r.stream));
      else if (r.rank == 1)
        CHECK_NCCL(ncclRecv(pointer(memory), 64, ncclFloat32, 0, r.world, r.stream));
      else
        CHECK_NCCL(ncclSend(pointer(memory), 64, ncclFloat32, 1, r.world, r.stream));
      if (pairs && r.rank == 0) { // the receiver finds it, and never takes the message
        EXPECT_EQ(cuStreamQuery(r.gpu.streams[0]), CUDA_ERROR_NOT_READY);
        CHECK_NCCL(ncclCommAbort(r.world));
        r.world = nullptr;
        return;
      }
      r.synchronize();
      EXPECT_EQ(r.asyncError(), ncclInvalidUsage);
    });
}

TEST(StubNccl, FindsStrayBuffers) {
  onRanks(2, {}, [](Rank &r) {
    CUdeviceptr from = r.send(16), to = r.gpu.allocate(63);
    CHECK_NCCL(ncclAllGather(pointer(from), pointer(to), 8, ncclFloat32, r.world, r.stream));
    EXPECT_EQ(cuStreamSynchronize(r.gpu.streams[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
    r.world = nullptr;
  });
}

TEST(StubNccl, FailsOnRequest) {
  onRanks(2,
          {{"SHALE_STUB_FAIL",
            "ncclAllGather@2=ncclSystemError,ncclCommGetAsyncError@3=ncclRemoteError"}},
          [](Rank &r) {
            CUdeviceptr from = r.send(16), to = r.gpu.allocate(64);
            auto gather = [&] {
              return ncclAllGather(pointer(from), pointer(to), 8, ncclFloat32, r.world, r.stream);
            };
            EXPECT_EQ(gather(), ncclSuccess);
            EXPECT_EQ(gather(), ncclSystemError);
            EXPECT_EQ(gather(), ncclSuccess);
            r.synchronize();
            EXPECT_EQ(r.asyncError(), ncclSuccess);
            EXPECT_EQ(r.asyncError(), ncclSuccess);
            EXPECT_EQ(r.asyncError(), ncclRemoteError);
            EXPECT_EQ(gather(), ncclInvalidUsage);
          });
}

TEST(StubNccl, RejectsRanksThatDisagree) {
  ncclUniqueId id;
  CHECK_NCCL(ncclGetUniqueId(&id));
  expectPasses({}, [&] {
    Gpu gpu;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t world, other;
    EXPECT_EQ(ncclCommInitRankConfig(&world, 2, id, 0, &config), ncclInProgress);
    EXPECT_EQ(ncclCommInitRankConfig(&other, 2, id, 0, &config), ncclInvalidArgument);
    EXPECT_EQ(ncclCommInitRankConfig(&other, 3, id, 1, &config), ncclInvalidArgument);
  });
}

TEST(StubNccl, LeavesNoSharedMemory) {
  onRanks(2, {}, [](Rank &r) {
    CUdeviceptr from = r.send(4), to = r.gpu.allocate(32);
    CHECK_NCCL(ncclAllGather(pointer(from), pointer(to), 4, ncclFloat32, r.world, r.stream));
    r.synchronize();
    std::string own = "ls /dev/shm | grep -q shale-nccl-" + std::to_string(getppid()) + "-";
    // All have connected. Other tests of this process left names that only its exit removes.
    EXPECT_NE(system((own + "'.*\\.'").c_str()), 0);
  });
}
