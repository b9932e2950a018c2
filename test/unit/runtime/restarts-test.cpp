// Number and pauses of restarts.
#include "runtime/program/launch/Restarts.h"

#include <climits>
#include <gtest/gtest.h>
#include <vector>

using namespace shale::rt;

namespace {
TEST(Restarts, PausesGrowToAMinute) {
  Restarts restarts(20, -1);
  std::vector<int> pauses;
  while (std::optional<int> pause = restarts.next(-1))
    pauses.push_back(*pause);
  EXPECT_EQ(pauses, (std::vector<int>{0,  1,  2,  4,  8,  16, 32, 60, 60, 60,
                                      60, 60, 60, 60, 60, 60, 60, 60, 60, 60}));
  EXPECT_EQ(restarts.count(), 20);
}

TEST(Restarts, ProgressBeginsTheCountAgain) {
  Restarts restarts(2, 100);
  EXPECT_EQ(restarts.next(100), 0);
  EXPECT_EQ(restarts.next(100), 1);
  EXPECT_EQ(restarts.next(200), 0);
  EXPECT_EQ(restarts.count(), 1);
  EXPECT_EQ(restarts.next(300), 0);
  EXPECT_EQ(restarts.next(300), 1);
  EXPECT_EQ(restarts.next(300), std::nullopt);
  EXPECT_EQ(restarts.next(400), 0) << "a later failure after progress";
}

TEST(Restarts, LostCheckpointsAreNoProgress) {
  Restarts restarts(2, 100);
  EXPECT_EQ(restarts.next(-1), 0);
  EXPECT_EQ(restarts.next(-1), 1);
  EXPECT_EQ(restarts.next(-1), std::nullopt);
}

TEST(Restarts, NoneAndManyAreAllowed) {
  Restarts none(0, -1);
  EXPECT_EQ(none.next(-1), std::nullopt);
  Restarts many(INT_MAX, -1);
  for (int i = 0; i < 1000; ++i)
    many.next(-1);
  EXPECT_EQ(many.next(-1), Restarts::kLongest);
}
} // namespace
