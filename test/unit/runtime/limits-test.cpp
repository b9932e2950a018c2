// Limits of threads and memory, and facts that ranks compare.
#include "runtime/core/Error.h"
#include "runtime/program/flags/Limits.h"
#include "runtime/program/launch/SameRun.h"

#include <gtest/gtest.h>

using namespace shale::rt;

TEST(Limits, NumbersOfThreads) {
  for (const char *good : {"1", "2", "256", " 4 ", "4,2", "8, 1"})
    EXPECT_EQ(checkThreadCount(good, 2), "") << good;
  EXPECT_EQ(checkThreadCount("400", 100), "");
  for (const char *bad : {"", "0", "-1", "257", "100000", "99999999999999999999", "two", "4,", ",4",
                          "4,x", "4 2", "2.5"})
    EXPECT_NE(checkThreadCount(bad, 2).find("from 1 to 256"), std::string::npos) << bad;
  EXPECT_LT(checkThreadCount(std::string(1 << 20, '9'), 2).size(), 200u);
}

TEST(Limits, PlannedMemoryOfAllRanks) {
  ShalePlanLine lines[] = {
      {SHALE_CATEGORY_PARAMETERS, "weights", SHALE_SPACE_DEVICE, int64_t(1) << 30},
      {SHALE_CATEGORY_FIXED, "libraries", SHALE_SPACE_HOST, 1 << 20}};
  ShaleProgram program{};
  program.plan = lines;
  program.plan_line_count = 2;
  EXPECT_NO_THROW(checkMemory(program, 1));
  lines[0].bytes = int64_t(1) << 50;
  for (int ranks : {1, 4})
    try {
      checkMemory(program, ranks);
      ADD_FAILURE() << "a pebibyte fits";
    } catch (const Error &error) {
      EXPECT_EQ(error.code, SHALE_EXIT_NO_FIT);
      EXPECT_NE(std::string(error.what()).find("1073741825.00 MiB per rank"), std::string::npos)
          << error.what();
    }
  // Each rank fits, all of them do not.
  lines[0].bytes = int64_t(1) << 33;
  EXPECT_THROW(checkMemory(program, 1 << 20), Error);
  // A GPU's memory is another one.
  lines[0].bytes = int64_t(1) << 50;
  static const char code[] = "code";
  program.device_code = reinterpret_cast<decltype(program.device_code)>(code);
  EXPECT_NO_THROW(checkMemory(program, 4));
}

TEST(Limits, ThreadsStart) { EXPECT_NO_THROW(checkThreadsStart(3)); }

TEST(SameRun, NamesWhatDiffersAndWhere) {
  Facts one = {{"--lr", "0.1"}, {"--seed", "0"}, {"the executable", "a"}};
  EXPECT_EQ(differences({one, one, one}), "");
  Facts two = {{"--lr", "0.2"}, {"--seed", "0"}, {"the executable", "b"}};
  EXPECT_EQ(differences({one, two, one, two}), "--lr: ranks 1, 3 have 0.2, rank 0 has 0.1");
  EXPECT_EQ(differences({one, {{"--lr", "0.1"}, {"--seed", "0"}, {"the executable", "b"}}}),
            "the executable: rank 1 has b, rank 0 has a");
  // A rank of another version lacks facts, or has more.
  EXPECT_EQ(differences({one, {{"--lr", "0.1"}, {"the executable", "a"}, {"NCCL_ALGO", "Ring"}}}),
            "--seed: rank 1 has none, rank 0 has 0; NCCL_ALGO: rank 1 has Ring, rank 0 has none");
  EXPECT_NE(differences({one, {}}), "");
  Facts many, other;
  for (int i = 0; i < 20; ++i) {
    many.push_back({std::to_string(i), "x"});
    other.push_back({std::to_string(i), "y"});
  }
  std::string text = differences({many, other});
  EXPECT_LT(text.size(), 400u);
  EXPECT_NE(text.find("; and more"), std::string::npos);
}
