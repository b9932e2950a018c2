// What rank 0 reports: times of ranks, lines of metrics.jsonl, the file of --prometheus.
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Json.h"
#include "runtime/metrics/Prometheus.h"
#include "runtime/metrics/RankTimes.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <gtest/gtest.h>
#include <regex>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace shale::rt;

namespace {
class Reported : public TemporaryFolder {
protected:
  std::string text(const std::string &name) { return readText(work + "/" + name, 1 << 30); }
  /// Reads the samples of a file of Prometheus by name and labels. Each line must be a comment or a
  /// sample, and each name must have one HELP and one TYPE before its samples.
  std::map<std::string, std::string> samples(const std::string &name) {
    std::map<std::string, std::string> found;
    std::istringstream lines(text(name));
    std::regex comment("# (HELP|TYPE) ([a-z_]+) (.+)"),
        sample(
            R"re(([a-z_]+)(\{([a-z]+="([^"\\\n]|\\["\\n])*",?)+\}) (-?[0-9.e+-]+|NaN|[+-]Inf))re");
    std::map<std::string, int> described;
    std::smatch parts;
    for (std::string line; std::getline(lines, line);)
      if (std::regex_match(line, parts, comment)) {
        ++described[parts[1].str() + parts[2].str()];
      } else {
        EXPECT_TRUE(std::regex_match(line, parts, sample)) << line;
        EXPECT_EQ(described["HELP" + parts[1].str()], 1) << line;
        EXPECT_EQ(described["TYPE" + parts[1].str()], 1) << line;
        EXPECT_TRUE(found.emplace(parts[1].str() + parts[2].str(), parts[5]).second) << line;
      }
    return found;
  }
};

StepMetrics stepOf(int64_t step) {
  StepMetrics metrics;
  metrics.step = step;
  metrics.loss = 2.5f, metrics.gradNorm = 0.5f;
  metrics.lr = 1e-3, metrics.seconds = 0.25, metrics.tokens = 100;
  return metrics;
}
} // namespace

TEST_F(Reported, ModulesInOneObjectPerGroup) {
  const char *names[] = {
      "loss",      "experts/a.b/largest", "experts/a.b/entropy", "experts/x\"y/z/largest",
      "other/m/f", "plain/name"};
  float values[] = {1, 0.5f, 0.25f, 1, NAN, 7};
  StepMetrics metrics = stepOf(0);
  metrics.names = names, metrics.values = values, metrics.valueCount = 6;
  {
    Metrics log(work + "/metrics.jsonl", 0);
    log.record(metrics);
    log.record(stepOf(1));
    log.finish();
  }
  std::istringstream lines(text("metrics.jsonl"));
  std::string first, second;
  std::getline(lines, first), std::getline(lines, second);
  nlohmann::json object = parseJson(first);
  EXPECT_EQ(object["experts"].dump(),
            R"({"a.b":{"entropy":0.25,"largest":0.5},"x\"y/z":{"largest":1}})");
  EXPECT_EQ(object["other"].dump(), R"({"m":{"f":null}})");
  EXPECT_FALSE(object.contains("plain"));
  EXPECT_FALSE(parseJson(second).contains("experts"));
}

TEST(RankTimes, NameTheSlowestRank) {
  RankTimes times;
  auto name = [](int rank) { return "rank " + std::to_string(rank); };
  StepMetrics metrics;
  times.add(metrics); // times that are not known
  EXPECT_EQ(metrics.rankSeconds, nullptr);
  EXPECT_EQ(times.summary(name), "");
  times.seconds = {9, 1, 1, 1};
  times.add(metrics);
  EXPECT_EQ(metrics.slowestRank, 0);
  EXPECT_EQ(times.summary(name), ""); // the first step is not counted
  for (double seconds : {0.02, 0.02, 0.005}) {
    times.seconds = {0.008, 0.01, seconds, 0.006};
    times.add(metrics);
  }
  EXPECT_EQ(metrics.slowestRank, 1);
  EXPECT_EQ(metrics.rankSeconds, &times.seconds);
  // Means in ms: 8, 10, 15, 6.
  EXPECT_EQ(times.summary(name),
            "rank 2: 15.0 ms per step without waiting for others, 9.0 ms in the median of the "
            "ranks; the slowest in 2 of 3 steps");
  RankTimes alone;
  alone.seconds = {1};
  for (int i = 0; i < 3; ++i)
    alone.add(metrics);
  EXPECT_EQ(alone.summary(name), "");
}

TEST_F(Reported, LinesHaveTheTimesOfRanks) {
  Metrics file(work + "/m", 0);
  std::vector<double> few = {0.125, 0.5}, many(65, 0.25);
  many[64] = 0.75;
  StepMetrics metrics = stepOf(1);
  file.record(metrics);
  metrics.rankSeconds = &few, metrics.slowestRank = 1;
  file.record(metrics);
  metrics.rankSeconds = &many, metrics.slowestRank = 64;
  file.record(metrics);
  metrics.step = 200;
  file.record(metrics);
  std::vector<nlohmann::json> lines;
  std::istringstream read(text("m"));
  for (std::string line; std::getline(read, line);)
    lines.push_back(parseJson(line));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_FALSE(lines[0].contains("slowest_rank"));
  EXPECT_EQ(lines[1]["slowest_rank"], 1);
  EXPECT_EQ(lines[1]["slowest_rank_seconds"], 0.5);
  EXPECT_EQ(lines[1]["rank_seconds"], nlohmann::json(few));
  EXPECT_EQ(lines[2]["slowest_rank_seconds"], 0.75);
  EXPECT_FALSE(lines[2].contains("rank_seconds"));
  EXPECT_EQ(lines[3]["rank_seconds"], nlohmann::json(many));
}

TEST_F(Reported, PrometheusReadsTheState) {
  std::string label = R"({run="a\"b\\c\nd")";
  Prometheus file(work + "/run.prom", "a\"b\\c\nd", 10);
  EXPECT_EQ(samples("run.prom"),
            (std::map<std::string, std::string>{{"shale_running" + label + "}", "1"},
                                                {"shale_steps" + label + "}", "10"}}));
  std::vector<double> ranks = {0.125, 0.5};
  StepMetrics metrics = stepOf(0);
  metrics.rankSeconds = &ranks, metrics.slowestRank = 1;
  metrics.evaluated = true, metrics.evalLoss = 3;
  file.record(metrics, 100);
  auto first = samples("run.prom");
  EXPECT_EQ(first["shale_step" + label + "}"], "1");
  EXPECT_EQ(first["shale_rank_seconds" + label + ",rank=\"1\"}"], "0.5");
  EXPECT_EQ(first["shale_tokens_per_second" + label + "}"], "400");
  // Steps within a second are in the next file.
  metrics = stepOf(1);
  metrics.skipped = true, metrics.loss = NAN, metrics.gradNorm = INFINITY;
  file.record(metrics, 100.5);
  EXPECT_EQ(samples("run.prom"), first);
  file.record(stepOf(2), 101);
  auto second = samples("run.prom");
  EXPECT_EQ(second["shale_step" + label + "}"], "3");
  EXPECT_EQ(second["shale_tokens_total" + label + "}"], "300");
  EXPECT_EQ(second["shale_skipped_steps_total" + label + "}"], "1");
  EXPECT_EQ(second["shale_eval_loss" + label + "}"], "3");
  file.record(metrics, 101.5);
  file.finish();
  auto end = samples("run.prom");
  EXPECT_EQ(end["shale_running" + label + "}"], "0");
  EXPECT_EQ(end["shale_loss" + label + "}"], "NaN");
  EXPECT_EQ(end["shale_grad_norm" + label + "}"], "+Inf");
  EXPECT_EQ(listFolder(work), std::vector<std::string>{"run.prom"});
}

TEST_F(Reported, PrometheusGoesOnWithoutItsFolder) {
  auto codeOf = [&](const std::string &path) {
    try {
      Prometheus file(path, "run", 1);
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find("cannot write metrics to '"), std::string::npos);
      return error.code;
    }
    return 0;
  };
  EXPECT_EQ(codeOf(work + "/none/run.prom"), SHALE_EXIT_IO);
  EXPECT_EQ(codeOf(work), SHALE_EXIT_IO);
  ASSERT_EQ(mkfifo((work + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(codeOf(work + "/fifo"), SHALE_EXIT_IO);
  EXPECT_EQ(codeOf(""), SHALE_EXIT_IO);

  std::string folder = work + "/folder", path = folder + "/run.prom";
  makeFolders(folder);
  Prometheus file(path, "run", 10);
  ASSERT_TRUE(removeTree(folder));
  testing::internal::CaptureStderr();
  file.record(stepOf(0), 1);
  file.record(stepOf(1), 2);
  std::string told = testing::internal::GetCapturedStderr();
  EXPECT_NE(told.find("warning: --prometheus: cannot"), std::string::npos) << told;
  EXPECT_EQ(told.find("warning"), told.rfind("warning")) << told;
  makeFolders(folder);
  file.record(stepOf(2), 3);
  EXPECT_EQ(samples("folder/run.prom")["shale_step{run=\"run\"}"], "3");
}
