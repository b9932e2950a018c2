// Copies between memories: data is there after the wait, and may be missing before it.
#include "runtime/core/Error.h"
#include "runtime/device/host/Transfers.h"

#include <cstring>
#include <gtest/gtest.h>
#include <vector>

using namespace shale::rt;

namespace {

/// Copies of 32 MiB, so that a copy takes far longer than its start.
class TransfersTest : public ::testing::Test {
protected:
  static constexpr int kCopies = 3;
  static constexpr int64_t kBytes = int64_t(32) << 20;
  TransfersTest() {
    program.transfer_count = kCopies;
    program.transfers = table;
    for (int i = 0; i < kCopies; ++i) {
      sources[i].assign(kBytes, char(i + 1));
      targets[i].assign(kBytes, 0);
    }
  }
  void start(Transfers &transfers, int i) {
    transfers.start(i, targets[i].data(), sources[i].data(), kBytes);
  }
  bool arrived(int i) const {
    return std::memcmp(targets[i].data(), sources[i].data(), kBytes) == 0;
  }

  ShaleTransfer table[kCopies] = {};
  ShaleProgram program{};
  std::vector<char> sources[kCopies], targets[kCopies];
};

// The last one is waited for first: the wait is for that copy, and copies run in
// the order in which they start.
TEST_F(TransfersTest, WaitIsForTheCopyThatItNames) {
  Transfers transfers(program);
  for (int times = 0; times < 2; ++times) {
    for (auto &target : targets)
      std::memset(target.data(), 0, kBytes);
    start(transfers, 1);
    start(transfers, 0);
    start(transfers, 2);
    transfers.wait(2);
    EXPECT_TRUE(arrived(2));
    transfers.wait(0);
    EXPECT_TRUE(arrived(0));
    transfers.wait(1);
    EXPECT_TRUE(arrived(1));
  }
}

TEST_F(TransfersTest, TheEndWaitsForWhatIsUnderWay) {
  {
    Transfers transfers(program);
    start(transfers, 0);
    start(transfers, 1);
  }
  EXPECT_TRUE(arrived(0));
  EXPECT_TRUE(arrived(1));
}

TEST_F(TransfersTest, StartedAgainBeforeItsWaitIs70) {
  EXPECT_EXIT(
      {
        Transfers transfers(program);
        start(transfers, 0);
        start(transfers, 0);
      },
      ::testing::ExitedWithCode(SHALE_EXIT_INTERNAL),
      "copy 0 is started again before it was waited for");
}

} // namespace
