// Captures and graphs of the emulated CUDA driver.
#include "StubMachine.h"
#include <set>
#include <thread>

using namespace shale::stub::test;

namespace {

/// x + 1 to y on the first stream, twice that to z on the second, a copy of z to x on the first.
/// `wrong` misses the wait before `twice`.
void enqueueStep(Machine &m, CUdeviceptr x, CUdeviceptr y, CUdeviceptr z, bool wrong) {
  CUevent start = m.event();
  CHECK_CU(cuEventRecord(start, m.streams[0]));
  CHECK_CU(cuStreamWaitEvent(m.streams[1], start, 0));
  CHECK_CU(m.launch("add_one", x, y, m.streams[0]));
  if (!wrong)
    m.order(m.streams[0], m.streams[1]);
  CHECK_CU(m.launch("twice", y, z, m.streams[1]));
  m.order(m.streams[1], m.streams[0]);
  CHECK_CU(cuMemcpyDtoDAsync(x, z, kThreads * 4, m.streams[0]));
}

CUgraphExec capture(Machine &m, const std::function<void()> &enqueue) {
  CUgraph graph = nullptr;
  CUgraphExec executable = nullptr;
  EXPECT_CU(cuStreamBeginCapture(m.streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  enqueue();
  EXPECT_CU(cuStreamEndCapture(m.streams[0], &graph));
  EXPECT_CU(cuGraphInstantiate(&executable, graph, 0));
  EXPECT_CU(cuGraphDestroy(graph));
  EXPECT_CU(cuGraphUpload(executable, m.streams[0]));
  return executable;
}

/// Three steps, by a graph or directly. Returns x[0].
float steps(bool graph, bool wrong) {
  Machine m(2);
  CUdeviceptr x = m.upload(std::vector<float>(kThreads, 1));
  CUdeviceptr y = m.upload(std::vector<float>(kThreads)), z = m.allocate(kThreads * 4);
  CUgraphExec executable = graph ? capture(m, [&] { enqueueStep(m, x, y, z, wrong); }) : nullptr;
  EXPECT_EQ(m.floats(x)[0], 1); // nothing ran
  for (int i = 0; i < 3; ++i) {
    if (!graph)
      enqueueStep(m, x, y, z, wrong);
    EXPECT_EQ(graph ? cuGraphLaunch(executable, m.streams[0]) : CUDA_SUCCESS, CUDA_SUCCESS);
  }
  // Launches keep what they need.
  EXPECT_EQ(graph ? cuGraphExecDestroy(executable) : CUDA_SUCCESS, CUDA_SUCCESS);
  EXPECT_CU(cuStreamSynchronize(m.streams[0]));
  return m.floats(x)[0];
}

} // namespace

TEST(StubGraph, EqualsDirectRuns) {
  for (const char *order : kOrders)
    expectPasses({{"SHALE_STUB_ORDER", order}}, [] {
      EXPECT_EQ(steps(false, false), 22);
      EXPECT_EQ(steps(true, false), 22);
    });
}

TEST(StubGraph, FindsMissingWaits) {
  std::set<int> results;
  for (const char *order : kOrders)
    results.insert(run({{"SHALE_STUB_ORDER", order}}, [] {
      bool right = steps(true, true) == 22;
      std::exit(right ? testing::Test::HasFailure() : 1);
    }));
  EXPECT_EQ(results, (std::set<int>{0, 1 << 8})) << "some orders must find it, others not";
}

TEST(StubGraph, CopiesParameters) {
  expectPasses({}, [] {
    Machine m;
    CUdeviceptr x = m.upload(std::vector<float>(kThreads, 1)), y = m.allocate(kThreads * 4);
    CUdeviceptr from = x, to = y;
    void *parameters[] = {&from, &to};
    CUgraphExec executable = capture(m, [&] {
      CHECK_CU(cuLaunchKernel(m.function("add_one"), 1, 1, 1, kThreads, 1, 1, 0, m.streams[0],
                              parameters, nullptr));
    });
    from = to = 0;
    CHECK_CU(cuGraphLaunch(executable, m.streams[0]));
    CHECK_CU(cuStreamSynchronize(m.streams[0]));
    EXPECT_EQ(m.floats(y)[0], 2);
  });
}

TEST(StubGraph, OrdersLaunchesOfOneGraph) {
  for (const char *order : kOrders)
    expectPasses({{"SHALE_STUB_ORDER", order}}, [] {
      Machine m(2);
      CUdeviceptr x = m.upload(std::vector<float>(kThreads, 1));
      CUgraphExec executable = capture(m, [&] {
        CHECK_CU(m.launch("add_one", x, x, m.streams[0]));
        CHECK_CU(m.launch("twice", x, x, m.streams[0]));
      });
      for (int i = 0; i < 4; ++i) // on both streams, without events
        CHECK_CU(cuGraphLaunch(executable, m.streams[i % 2]));
      CHECK_CU(cuCtxSynchronize());
      EXPECT_EQ(m.floats(x)[0], 46);
    });
}

TEST(StubGraph, RejectsUnjoinedStreams) {
  expectPasses({}, [] {
    Machine m(2);
    CUdeviceptr x = m.allocate(kThreads * 4);
    CUgraph graph;
    CHECK_CU(cuStreamBeginCapture(m.streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    m.order(m.streams[0], m.streams[1]);
    CHECK_CU(m.launch("add_one", x, x, m.streams[1]));
    EXPECT_EQ(cuStreamEndCapture(m.streams[0], &graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    EXPECT_EQ(graph, nullptr);
    // The streams are usable again.
    CHECK_CU(cuMemsetD8Async(x, 0, 4, m.streams[1]));
    CHECK_CU(cuStreamSynchronize(m.streams[1]));
  });
}

TEST(StubGraph, RejectsCallsThatWait) {
  for (int what = 0; what < 7; ++what)
    expectPasses({}, [&] {
      Machine m(2);
      CUdeviceptr x = m.allocate(kThreads * 4), y;
      CUgraph graph;
      float value = 0;
      CUevent event = m.event();
      CHECK_CU(cuStreamBeginCapture(m.streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
      CHECK_CU(cuEventRecord(event, m.streams[0]));
      CUresult expected = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
      CUresult result = what == 0   ? cuStreamSynchronize(m.streams[0])
                        : what == 1 ? cuStreamQuery(m.streams[1])
                        : what == 2 ? cuCtxSynchronize()
                        : what == 3 ? cuMemAlloc(&y, 4)
                        : what == 4 ? cuMemcpyHtoDAsync(x, &value, 4, m.streams[0]) // pageable
                        : what == 5 ? cuMemcpyDtoH(&value, x, 4)
                                    : cuEventQuery(event);
      EXPECT_EQ(result, what == 6 ? CUDA_ERROR_CAPTURED_EVENT : expected) << what;
      CUstreamCaptureStatus status;
      CHECK_CU(cuStreamIsCapturing(m.streams[0], &status));
      EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
      EXPECT_EQ(m.launch("add_one", x, x, m.streams[0]), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      EXPECT_EQ(cuStreamEndCapture(m.streams[0], &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
      EXPECT_CU(cuStreamSynchronize(m.streams[0]));
    });
}

TEST(StubGraph, AllowsOtherThreadsAndRelaxedCaptures) {
  expectPasses({}, [] {
    Machine m(2);
    CUdeviceptr x;
    CUgraph graph;
    CHECK_CU(cuStreamBeginCapture(m.streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_CU(cuMemAlloc(&x, 4));
    EXPECT_CU(cuStreamSynchronize(m.streams[1]));
    CHECK_CU(cuStreamEndCapture(m.streams[0], &graph));
    CHECK_CU(cuStreamBeginCapture(m.streams[0], CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    std::thread([&] {
      CHECK_CU(cuCtxSetCurrent(m.context));
      EXPECT_CU(cuStreamSynchronize(m.streams[1]));
      EXPECT_EQ(cuStreamEndCapture(m.streams[0], &graph), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    }).join();
    CHECK_CU(cuStreamEndCapture(m.streams[0], &graph));
  });
}

TEST(StubGraph, RejectsBadDependencies) {
  expectPasses({}, [] {
    Machine m(2);
    CUgraph graph;
    CUevent before = m.event(), inside = m.event();
    EXPECT_EQ(cuStreamEndCapture(m.streams[0], &graph), CUDA_ERROR_ILLEGAL_STATE);
    // An event of before the capture.
    CHECK_CU(cuEventRecord(before, m.streams[1]));
    CHECK_CU(cuStreamBeginCapture(m.streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    EXPECT_EQ(cuStreamBeginCapture(m.streams[0], CU_STREAM_CAPTURE_MODE_RELAXED),
              CUDA_ERROR_ILLEGAL_STATE);
    EXPECT_EQ(cuStreamWaitEvent(m.streams[0], before, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    EXPECT_EQ(cuStreamEndCapture(m.streams[0], &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    // An event of another capture.
    CHECK_CU(cuStreamBeginCapture(m.streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_CU(cuStreamBeginCapture(m.streams[1], CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_CU(cuEventRecord(inside, m.streams[0]));
    EXPECT_EQ(cuStreamWaitEvent(m.streams[1], inside, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    EXPECT_EQ(cuStreamEndCapture(m.streams[0], &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(cuStreamEndCapture(m.streams[1], &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    EXPECT_EQ(cuGraphLaunch(nullptr, m.streams[0]), CUDA_ERROR_INVALID_VALUE);
    // An event of a capture that has ended.
    EXPECT_EQ(cuStreamWaitEvent(m.streams[1], inside, 0), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK_CU(cuStreamBeginCapture(m.streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK_CU(cuEventRecord(inside, m.streams[0]));
    CHECK_CU(cuStreamEndCapture(m.streams[0], &graph));
    EXPECT_EQ(cuStreamWaitEvent(m.streams[1], inside, 0), CUDA_ERROR_CAPTURED_EVENT);
    EXPECT_EQ(cuEventQuery(inside), CUDA_ERROR_CAPTURED_EVENT);
    // Ended on a stream that only joined.
    CHECK_CU(cuStreamBeginCapture(m.streams[0], CU_STREAM_CAPTURE_MODE_RELAXED));
    m.order(m.streams[0], m.streams[1]);
    EXPECT_EQ(cuStreamEndCapture(m.streams[1], &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  });
}
