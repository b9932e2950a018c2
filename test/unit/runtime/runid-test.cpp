// Names of runs, from the variables of launchers.
#include "runtime/program/launch/RunId.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

using namespace shale::rt;

namespace {
const char *const names[] = {"SLURM_JOB_ID",        "TORCHELASTIC_RUN_ID",
                             "WORLD_SIZE",          "LOCAL_WORLD_SIZE",
                             "MASTER_ADDR",         "MASTER_PORT",
                             "SHALE_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT",
                             "SLURM_RESTART_COUNT"};

void setAll(const std::map<std::string, const char *> &variables) {
  for (const char *name : names)
    unsetenv(name);
  for (auto [name, value] : variables)
    setenv(name.c_str(), value, 1);
}

std::string idWith(const std::map<std::string, const char *> &variables) {
  setAll(variables);
  return runId();
}

TEST(RunId, LaunchersNameRuns) {
  EXPECT_EQ(idWith({}), "");
  EXPECT_EQ(idWith({{"SLURM_JOB_ID", "17"}}), "Slurm job 17");
  EXPECT_EQ(idWith({{"TORCHELASTIC_RUN_ID", "mine"}}), "torchrun mine");
  // A job that starts torchrun again gives it another name.
  EXPECT_EQ(idWith({{"SLURM_JOB_ID", "17"}, {"TORCHELASTIC_RUN_ID", "x"}}), "Slurm job 17");
  EXPECT_EQ(idWith({{"TORCHELASTIC_RUN_ID", "none"},
                    {"WORLD_SIZE", "4"},
                    {"LOCAL_WORLD_SIZE", "2"},
                    {"MASTER_ADDR", "node0"},
                    {"MASTER_PORT", "29500"}}),
            "torchrun at node0:29500");
}

TEST(RunId, AHostileNameIsPrintable) {
  EXPECT_EQ(idWith({{"TORCHELASTIC_RUN_ID", "a\nb\xff"}}), "torchrun a\\x0ab\\xff");
  EXPECT_LT(idWith({{"TORCHELASTIC_RUN_ID", std::string(100000, 'x').c_str()}}).size(), 300u);
}

// Two processes are two parents, also of one program.
TEST(RunId, ARunWithoutANameIsNamedByItsParent) {
  std::map<std::string, const char *> variables = {
      {"TORCHELASTIC_RUN_ID", "none"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}};
  std::string own = idWith(variables);
  EXPECT_EQ(own.find("torchrun "), 0u);
  EXPECT_NE(own.find("/" + std::to_string(getppid()) + "/"), std::string::npos) << own;
  EXPECT_EQ(idWith(variables), own);
  pid_t child = fork();
  if (child == 0)
    _exit(runId() == own ? 1 : 0);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(RunId, CountsOfRestarts) {
  setAll({});
  EXPECT_FALSE(isRestarted());
  for (const char *name :
       {"SHALE_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"})
    for (auto [value, expected] : {std::pair{"0", false}, {"2", true}, {"", false}, {"x", false}}) {
      setAll({{name, value}});
      EXPECT_EQ(isRestarted(), expected) << name << value;
    }
  setAll({});
}
} // namespace
