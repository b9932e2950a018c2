// Slots for the values and results of calls, on a device that works as late as it may.
#include "LateDevice.h"
#include "runtime/core/Error.h"
#include "runtime/device/Slots.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace shale::rt;

namespace {
ShaleProgram noTransfers() {
  ShaleProgram program = {};
  return program;
}
int32_t intAt(const char *place) {
  int32_t value;
  std::memcpy(&value, place, sizeof(value));
  return value;
}
void put(char *place, int32_t value) { std::memcpy(place, &value, sizeof(value)); }

/// Calls that return `value`, for values from 1, each of which reads what was passed to it.
struct Calls {
  ShaleProgram program = noTransfers();
  LateDevice device{program};
  ValueSlots values{device, 64, /*mirrored=*/true};
  ResultSlots results{device, 64};

  void call(int32_t value) {
    put(values.at(values.next()) + 8, value);
    values.push();
    run();
  }
  void run() {
    char *from = values.compiled() + 8, *to = results.compiled();
    device.call(nullptr, false, [=] { std::memcpy(to, from, 4); });
  }
};
} // namespace

TEST(Slots, EachCallSeesItsOwnValues) {
  Calls calls;
  EXPECT_EQ(calls.values.count(), 2);
  // Six calls, at most two ahead of what is read.
  for (int32_t value = 1; value <= 6; ++value) {
    calls.call(value);
    calls.results.pull();
    if (value > 1) {
      EXPECT_EQ(intAt(calls.results.read()), value - 1);
    }
  }
  EXPECT_EQ(intAt(calls.results.read()), 6);
}

TEST(Slots, ASlotIsNotGivenAgainBeforeItsCopyRan) {
  Calls calls;
  EXPECT_EQ(calls.values.next(), 0);
  calls.call(1);
  EXPECT_EQ(calls.values.next(), 1);
  calls.call(2);
  EXPECT_EQ(intAt(calls.values.compiled() + 8), 0); // nothing ran
  EXPECT_EQ(calls.values.next(), 0);                // waits for the first copy only
  EXPECT_EQ(intAt(calls.values.compiled() + 8), 1);
}

TEST(Slots, AWordComesFromTheDeviceWhenTheCopyRuns) {
  Calls calls;
  calls.call(7);
  put(calls.values.at(calls.values.next()) + 8, 1);
  calls.values.push(calls.results.compiled(), 8); // the first call's result, which is not there yet
  calls.run();
  calls.results.pull();
  EXPECT_EQ(intAt(calls.results.read()), 7);
  EXPECT_EQ(intAt(calls.values.mirror() + 8), 7); // kernels on the host see it, too
}

TEST(Slots, ResultsStayUntilTheSecondPullAfterTheirs) {
  Calls calls;
  calls.call(1);
  calls.results.pull();
  const char *first = calls.results.read();
  calls.call(2);
  calls.results.pull();
  EXPECT_EQ(intAt(calls.results.read()), 2);
  EXPECT_EQ(intAt(first), 1);
}

TEST(Slots, RefusesResultsThatNobodyReadOrWrote) {
  Calls calls;
  EXPECT_THROW(calls.results.read(), Error);
  calls.results.pull();
  calls.results.pull();
  EXPECT_THROW(calls.results.pull(), Error);
}

TEST(Slots, TheHostHasOneBlock) {
  ShaleProgram program = noTransfers();
  HostDevice device(program);
  ValueSlots values(device, 64, true);
  ResultSlots results(device, 64);
  EXPECT_EQ(values.count(), 1);
  EXPECT_EQ(values.at(values.next()), values.compiled());
  EXPECT_EQ(values.mirror(), values.compiled());
  values.push();
  put(results.compiled(), 5);
  results.pull();
  EXPECT_EQ(intAt(results.read()), 5);
}
