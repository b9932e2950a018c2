// Copies of the state, the thread that writes them, and what memory of the host is available.
#include "runtime/checkpoint/BackgroundSave.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/HostMemory.h"
#include "runtime/device/host/HostDevice.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <climits>
#include <cstring>
#include <fstream>
#include <future>
#include <gtest/gtest.h>
#include <numeric>

using namespace shale::rt;

namespace {
/// Two ranks. Rank 0 writes the first half of the weight (32 elements, whole on both) and its own
/// part of the moment. The narrow copy of the weight, 64 bytes at 0, is not stored.
struct Small {
  int64_t dims[1] = {32};
  ShaleAxis axis = {"fsdp", 2, 1};
  ShaleParameter parameter = {};
  ShaleSegment segment = {0, 0, 32, 0, nullptr, nullptr, nullptr, nullptr};
  ShaleGroup group = {"root", 32, &segment, 1};
  ShaleState states[3] = {{0, SHALE_ROLE_PARAM, SHALE_BF16, -1, 0, 32},
                          {0, SHALE_ROLE_PARAM, SHALE_F32, -1, 64, 32},
                          {0, SHALE_ROLE_SLOT, SHALE_F32, 0, 192, 16}};
  ShaleProgram program{};

  Small() {
    parameter.name = "weight", parameter.rank = 1, parameter.dims = dims, parameter.count = 32;
    program.axis_count = 1, program.axes = &axis;
    program.parameter_count = 1, program.parameters = &parameter;
    program.group_count = 1, program.groups = &group;
    program.state_count = 3, program.states = states;
    program.state_bytes = 192, program.host_state_bytes = 64; // the moment is in host memory
  }
};

TEST(Saves, TheCopyHoldsWhatTheRankWrites) {
  Small small;
  EXPECT_EQ(StateCopy::bytesFor(small.program, 0, "sharded"), 64 + 64);
  EXPECT_EQ(StateCopy::bytesFor(small.program, 1, "sharded"), 64 + 64);
  EXPECT_EQ(StateCopy::bytesFor(small.program, 0, "full"), 128 + 64);
  EXPECT_EQ(StateCopy::bytesFor(small.program, 1, "full"), 64); // sent to rank 0
  EXPECT_EQ(StateCopy::bytesFor(small.program, 1, "both"), 64 + 64);
  HostDevice device(small.program);
  State state(small.program, device);
  std::vector<char> values(256);
  std::iota(values.begin(), values.end(), 0);
  state.write(0, values.data(), 192);
  state.write(192, values.data() + 192, 64);
  StateCopy copy(small.program, 1, "sharded", device);
  copy.take(state);
  std::vector<char> zeros(192);
  state.write(0, zeros.data(), 192); // training goes on
  char read[64];
  copy.read(128, read, 64);
  EXPECT_EQ(std::memcmp(read, values.data() + 128, 64), 0);
  copy.read(200, read, 8);
  EXPECT_EQ(std::memcmp(read, values.data() + 200, 8), 0);
  EXPECT_THROW(copy.read(64, read, 64), Error); // the other rank's half
  EXPECT_THROW(copy.read(250, read, 8), Error);
}

TEST(Saves, ErrorsOfTheWriterAreThrownWhenItIsWaitedFor) {
  Small small;
  HostDevice device(small.program);
  State state(small.program, device);
  BackgroundSave save(std::make_unique<StateCopy>(small.program, 0, "sharded", device));
  save.start(state, [](const StateReader &) { throw Error(SHALE_EXIT_IO, "full"); });
  EXPECT_TRUE(save.inFlight());
  try {
    save.finish();
    FAIL() << "nothing was thrown";
  } catch (const Error &error) {
    EXPECT_EQ(error.code, SHALE_EXIT_IO);
  }
  EXPECT_FALSE(save.inFlight());
  EXPECT_LT(save.finish(), 1); // nothing is left to throw
}

TEST(Saves, OneIsInFlightAtATime) {
  Small small;
  HostDevice device(small.program);
  State state(small.program, device);
  BackgroundSave save(std::make_unique<StateCopy>(small.program, 0, "sharded", device));
  std::promise<void> goOn;
  save.start(state, [&](const StateReader &) { goOn.get_future().wait(); });
  EXPECT_FALSE(save.isWritten());
  EXPECT_THROW(save.start(state, [](const StateReader &) {}), Error);
  goOn.set_value();
  save.finish();
  EXPECT_TRUE(save.isWritten());
}

class HostMemory : public TemporaryFolder {
protected:
  void put(const std::string &path, const std::string &text) {
    makeFolders(parentOf(work + path));
    std::ofstream(work + path) << text;
  }
};

TEST_F(HostMemory, OfTheKernel) {
  EXPECT_EQ(availableInKernel(work), INT64_MAX);
  put("/proc/meminfo", "MemTotal:       100 kB\nMemFree:  3 kB\nMemAvailable:   70 kB\n");
  EXPECT_EQ(availableInKernel(work), 70 * 1024);
}

// The least of the group and all groups above; files that can be read again do not count.
TEST_F(HostMemory, OfControlGroups) {
  EXPECT_EQ(availableInGroups(work), INT64_MAX);
  put("/proc/self/cgroup", "0::/jobs/one\n");
  put("/sys/fs/cgroup/jobs/one/memory.max", "max\n");
  put("/sys/fs/cgroup/jobs/one/memory.current", "500\n");
  EXPECT_EQ(availableInGroups(work), INT64_MAX);
  put("/sys/fs/cgroup/jobs/memory.max", "1000\n");
  put("/sys/fs/cgroup/jobs/memory.current", "600\n");
  EXPECT_EQ(availableInGroups(work), 400);
  put("/sys/fs/cgroup/jobs/memory.stat", "anon 350\ninactive_file 250\n");
  EXPECT_EQ(availableInGroups(work), 650);
  put("/sys/fs/cgroup/jobs/one/memory.max", "510\n");
  EXPECT_EQ(availableInGroups(work), 10);
  put("/proc/self/cgroup", "4:cpu:/x\n3:memory,hugetlb:/job\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "700\n"); // the path is not mounted here
  put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n");
  EXPECT_EQ(availableInGroups(work), 600);
}

// With swap space: that of the host, unless the group has less of it.
TEST_F(HostMemory, LimitsOfControlGroups) {
  EXPECT_EQ(memoryOfHost(work), INT64_MAX);
  EXPECT_EQ(limitOfGroups(work), INT64_MAX);
  put("/proc/meminfo", "MemTotal: 100 kB\nMemAvailable: 7 kB\nSwapTotal: 20 kB\n");
  EXPECT_EQ(memoryOfHost(work), 120 * 1024);
  put("/proc/self/cgroup", "0::/jobs/one\n");
  put("/sys/fs/cgroup/jobs/memory.max", "1000\n");
  EXPECT_EQ(limitOfGroups(work), 1000 + 20 * 1024);
  put("/sys/fs/cgroup/jobs/memory.swap.max", "50\n");
  EXPECT_EQ(limitOfGroups(work), 1050);
  put("/sys/fs/cgroup/jobs/one/memory.max", "9000000000000000000\n");
  EXPECT_EQ(limitOfGroups(work), 1050);
  put("/proc/self/cgroup", "3:memory:/job\n");
  put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "700\n");
  EXPECT_EQ(limitOfGroups(work), 700 + 20 * 1024);
  put("/sys/fs/cgroup/memory/job/memory.memsw.limit_in_bytes", "800\n");
  EXPECT_EQ(limitOfGroups(work), 800);
}
} // namespace
