// Whole runs of the hand-written bigram program on 1 to 4 ranks: training,
// metrics, checkpoints, faults, bad flags and bad data.
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/data/SafetensorsReader.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <regex>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace shale::rt;
using nlohmann::json;

namespace {
constexpr int vocab = 33;

struct Result {
  int code;
  std::string text;
};

std::string folder() {
  char path[4096] = {0};
  ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
  return parentOf(std::string(path, n > 0 ? n : 0));
}

class Program : public TemporaryFolder {
protected:
  void SetUp() override {
    TemporaryFolder::SetUp();
    // 64 arbitrary bytes, then the transposed weight.
    std::string weights(64, 'x');
    for (int j = 0; j < vocab; ++j)
      for (int i = 0; i < vocab; ++i) {
        float value = 0.01f * ((i * 7 + j * 3) % 11 - 5);
        weights.append(reinterpret_cast<char *>(&value), 4);
      }
    write(folder() + "/bigram-weights.bin", weights);
    std::string tokens;
    for (int i = 0; i < 2000; ++i)
      tokens += static_cast<char>((i * i / 3 + i % 5) % vocab);
    write(work + "/data.txt", tokens);
  }

  static void write(const std::string &path, const std::string &bytes) {
    std::string temporary = path + ".part" + std::to_string(getpid());
    std::ofstream(temporary, std::ios::binary) << bytes;
    ASSERT_EQ(rename(temporary.c_str(), path.c_str()), 0);
  }

  /// Runs "bigram-NAME FLAGS" in the work folder, within 60 s.
  Result run(const std::string &name, const std::string &flags,
             const std::string &environment = "") {
    std::string command = "cd " + work + " && env OMP_NUM_THREADS=2 " + environment +
                          " timeout -k 1 20 " + folder() + "/bigram-" + name + " " + flags +
                          " 2>&1";
    FILE *pipe = popen(command.c_str(), "r");
    std::string text;
    char buffer[4096];
    while (size_t n = fread(buffer, 1, sizeof(buffer), pipe))
      text.append(buffer, n);
    int status = pclose(pipe);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text};
  }
  Result train(const std::string &name, const std::string &out, const std::string &flags,
               const std::string &environment = "") {
    return run(name, "--data data.txt --lr 0.05 --out " + out + " " + flags, environment);
  }
  std::vector<json> metrics(const std::string &out) {
    std::vector<json> lines;
    std::ifstream file(work + "/" + out + "/metrics.jsonl");
    for (std::string line; std::getline(file, line);)
      lines.push_back(json::parse(line));
    return lines;
  }
  /// Each rank but `guilty` ends with an error that names it, its host and process.
  static void expectAllName(const std::string &text, int ranks, int guilty,
                            const std::string &what) {
    for (int rank = 0; rank < ranks; ++rank) {
      std::regex line("rank " + std::to_string(rank) + ": error: .* failed: rank " +
                      std::to_string(guilty) + " \\(host \\S+, pid \\d+\\)" + what);
      EXPECT_EQ(std::regex_search(text, line), rank != guilty) << rank << "\n" << text;
    }
  }
  /// Writes three micro-batches of 12 rows of 8 tokens. `label` returns that of an element.
  void writeBatches(const std::string &name, const std::function<int64_t(int64_t)> &label) {
    std::string header = "{\"targets\":{\"dtype\":\"I64\",\"shape\":[3,12,8],"
                         "\"data_offsets\":[0,2304]},"
                         "\"tokens\":{\"dtype\":\"U8\",\"shape\":[3,12,8],\"data_"
                         "offsets\":[2304,2592]}}";
    uint64_t length = header.size();
    std::string file(reinterpret_cast<char *>(&length), 8);
    file += header;
    for (int64_t i = 0; i < 288; ++i) {
      int64_t value = label(i);
      file.append(reinterpret_cast<char *>(&value), 8);
    }
    for (int i = 0; i < 288; ++i)
      file += static_cast<char>(i % vocab);
    write(work + "/" + name, file);
  }
  static size_t count(const std::string &text, const std::string &part) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size())
      ++found;
    return found;
  }
  std::string bytes(const std::string &name) { return readText(work + "/" + name, 1 << 30); }
};

TEST_F(Program, TrainsAlikeOnAnyNumberOfRanks) {
  ASSERT_EQ(train("1", "one", "--steps 12").code, 0);
  std::vector<json> one = metrics("one");
  ASSERT_EQ(one.size(), 12u);
  EXPECT_LT(one[11]["loss"], one[0]["loss"].get<double>() - 0.2);
  for (const char *name : {"2", "2-full", "3-full", "4-full", "4-hybrid"}) {
    Result result = train(name, name, "--steps 12");
    ASSERT_EQ(result.code, 0) << name << "\n" << result.text;
    std::vector<json> lines = metrics(name);
    ASSERT_EQ(lines.size(), 12u);
    for (int s = 0; s < 12; ++s) {
      EXPECT_EQ(lines[s]["step"], s);
      EXPECT_NEAR(lines[s]["loss"], one[s]["loss"], 2e-5) << name << s;
      EXPECT_NEAR(lines[s]["grad_norm"], one[s]["grad_norm"],
                  1e-4 * one[s]["grad_norm"].get<double>())
          << name << s;
      EXPECT_EQ(lines[s]["tokens"], 12 * 8);
      EXPECT_GT(lines[s]["memory_bytes"], 0);
    }
    SafetensorsReader a(work + "/one/model.safetensors");
    SafetensorsReader b(work + "/" + name + "/model.safetensors");
    // Both names of the tied bias, and the buffer in addition to the parameters.
    ASSERT_EQ(b.tensors().size(), 5u);
    EXPECT_TRUE(b.find("bias") && b.find("tied.bias") && b.find("mask"));
    EXPECT_NE(result.text.find("does not contain (lost)"), std::string::npos);
    std::vector<float> x(vocab * vocab), y(vocab * vocab);
    const TensorInfo *p = a.find("emb.weight"), *q = b.find("emb.weight");
    ASSERT_TRUE(p && q);
    EXPECT_EQ(q->shape, (std::vector<int64_t>{vocab, vocab}));
    a.file().readAt(p->offset, x.data(), p->bytes);
    b.file().readAt(q->offset, y.data(), q->bytes);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_NEAR(x[i], y[i], 2e-4);
  }
}

TEST_F(Program, InitialWeightsAreReadTransposed) {
  ASSERT_EQ(train("3-full", "r", "--steps 0").code, 0);
  SafetensorsReader reader(work + "/r/model.safetensors");
  std::vector<float> x(vocab * vocab), bias(vocab), scale(7);
  reader.file().readAt(reader.find("emb.weight")->offset, x.data(), x.size() * 4);
  reader.file().readAt(reader.find("bias")->offset, bias.data(), vocab * 4);
  reader.file().readAt(reader.find("frozen.scale")->offset, scale.data(), 28);
  for (int i = 0; i < vocab; ++i)
    for (int j = 0; j < vocab; ++j)
      ASSERT_EQ(x[i * vocab + j], 0.01f * ((i * 7 + j * 3) % 11 - 5));
  EXPECT_EQ(bias, std::vector<float>(vocab, 0.125f));
  EXPECT_EQ(scale, std::vector<float>(7, 0.5f));
}

TEST_F(Program, BytesSentAreThePlans) {
  // full on 2: gather, reduce-scatter, and all-reduces of count, loss and norm.
  ASSERT_EQ(train("2-full", "r", "--steps 2").code, 0);
  int64_t group = (33 * 33 + 15) / 16 * 16 + 48, padded = (group + 31) / 32 * 32;
  int64_t expected = 2 * (padded / 2 * 4) + 3 * 2 * 4;
  EXPECT_EQ(metrics("r")[1]["comm_bytes"], expected);
  ASSERT_EQ(train("1", "s", "--steps 1").code, 0);
  EXPECT_EQ(metrics("s")[0]["comm_bytes"], 0);
}

TEST_F(Program, SameRunTwiceGivesTheSameBits) {
  ASSERT_EQ(train("4-full", "a", "--steps 5").code, 0);
  ASSERT_EQ(train("4-full", "b", "--steps 5").code, 0);
  EXPECT_EQ(bytes("a/model.safetensors"), bytes("b/model.safetensors"));
}

// State, checkpoints, weights, evaluation and the buffer report pass through the device: none of
// them reads or writes its memory directly.
TEST_F(Program, DeviceMemoryIsReachedThroughTheDeviceOnly) {
  for (const char *name : {"1", "2-full"}) {
    std::string near = name, far = near + "-far";
    std::string flags = "--steps 6 --eval-data data.txt --eval-every 3 --checkpoint both";
    ASSERT_EQ(train(near, near, flags).code, 0);
    Result first = train(far, far, flags + " --stop-after 4 --report-buffers report.json");
    ASSERT_EQ(first.code, 0) << first.text;
    EXPECT_NE(first.text.find("device far"), std::string::npos) << first.text;
    Result second = train(far, far, flags);
    ASSERT_EQ(second.code, 0) << second.text;
    EXPECT_NE(second.text.find("resumed from"), std::string::npos) << second.text;
    EXPECT_NE(second.text.find("; a rank read up to "), std::string::npos) << second.text;
    EXPECT_EQ(bytes(near + "/model.safetensors"), bytes(far + "/model.safetensors"));
    EXPECT_EQ(metrics(near)[5]["eval_loss"], metrics(far)[5]["eval_loss"]);
    std::string given = "--steps 1 --init 1/model.safetensors";
    ASSERT_EQ(train(near, near + "-given", given).code, 0);
    ASSERT_EQ(train(far, far + "-given", given).code, 0);
    EXPECT_EQ(bytes(near + "-given/model.safetensors"), bytes(far + "-given/model.safetensors"));
  }
}

TEST_F(Program, ResumeAtTheSameWorldSizeIsBitExact) {
  std::string flags = "--steps 20 --schedule cosine --warmup 3";
  for (const char *name : {"1", "2-full", "4-hybrid"}) {
    std::string once = std::string("once-") + name, twice = std::string("twice-") + name;
    ASSERT_EQ(train(name, once, flags).code, 0);
    ASSERT_EQ(train(name, twice, flags + " --stop-after 10").code, 0);
    EXPECT_EQ(metrics(twice).size(), 10u);
    Result result = train(name, twice, flags);
    ASSERT_EQ(result.code, 0) << result.text;
    EXPECT_EQ(bytes(once + "/model.safetensors"), bytes(twice + "/model.safetensors"));
    std::vector<json> a = metrics(once), b = metrics(twice);
    ASSERT_EQ(b.size(), 20u);
    for (int s = 0; s < 20; ++s) {
      EXPECT_EQ(a[s]["loss"], b[s]["loss"]);
      EXPECT_EQ(a[s]["lr"], b[s]["lr"]);
      EXPECT_EQ(b[s]["step"], s);
    }
  }
}

TEST_F(Program, ResumeAtOtherWorldSizes) {
  std::string flags = "--steps 15 --schedule cosine";
  ASSERT_EQ(train("1", "once", flags).code, 0);
  for (const char *form : {"sharded", "full", "both"}) {
    std::string f = flags + " --checkpoint " + form, out = std::string("r-") + form;
    ASSERT_EQ(train("2-full", out, f + " --stop-after 5").code, 0);
    Result four = train("4-hybrid", out, f + " --stop-after 10");
    ASSERT_EQ(four.code, 0) << four.text;
    Result one = train("1", out, f);
    ASSERT_EQ(one.code, 0) << one.text;
    std::vector<json> a = metrics("once"), b = metrics(out);
    ASSERT_EQ(b.size(), 15u);
    for (int s = 0; s < 15; ++s) {
      EXPECT_NEAR(a[s]["loss"], b[s]["loss"], 2e-5);
      EXPECT_EQ(b[s]["step"], s);
    }
  }
}

TEST_F(Program, KilledRankEndsTheRunWith76) {
  Result result = train("4-full", "r", "--steps 10 --save-every 3", "BIGRAM_KILL=2:5");
  EXPECT_EQ(result.code, 76) << result.text;
  EXPECT_NE(result.text.find("was ended by signal 9 (Killed)"), std::string::npos) << result.text;
  expectAllName(result.text, 4, 2, " ended");
  // A run that resumes from step 3 ends like an uninterrupted run.
  ASSERT_EQ(train("4-full", "r", "--steps 10").code, 0);
  ASSERT_EQ(train("4-full", "s", "--steps 10").code, 0);
  EXPECT_EQ(bytes("r/model.safetensors"), bytes("s/model.safetensors"));
  EXPECT_EQ(metrics("r").size(), 10u);
}

TEST_F(Program, RestartsFromTheNewestCheckpoint) {
  ASSERT_EQ(train("4-full", "s", "--steps 10").code, 0);
  for (const char *fault : {"BIGRAM_KILL=2:5", "BIGRAM_CRASH=1:4"}) {
    // --resume never holds for checkpoints of other runs. The crash would come before a save in the
    // background is complete.
    Result result = train(
        "4-full", fault,
        "--steps 10 --save-every 3 --async-save false --max-restarts 2 --resume never", fault);
    EXPECT_EQ(result.code, 0) << result.text;
    EXPECT_NE(result.text.find("restart 1 of 2"), std::string::npos) << result.text;
    EXPECT_EQ(result.text.find("restart 2 of 2"), std::string::npos) << result.text;
    EXPECT_NE(result.text.find("step-00000003 at step 3"), std::string::npos) << result.text;
    EXPECT_EQ(bytes(std::string(fault) + "/model.safetensors"), bytes("s/model.safetensors"));
  }
  // What would fail again is not started again.
  Result result = train("2-full", "n", "--steps 10 --max-restarts 2", "BIGRAM_NAN=4");
  EXPECT_EQ(result.code, 93) << result.text;
  EXPECT_EQ(result.text.find("restart"), std::string::npos) << result.text;
  result = train("1", "one", "--steps 6 --save-every 2 --max-restarts 1", "BIGRAM_KILL=0:3");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_EQ(metrics("one").size(), 6u);
}

// Rank 0 is killed whenever it starts. A signal ends the pause, and the run.
TEST_F(Program, ASignalEndsThePauseBeforeARestart) {
  write(work + "/pause.sh",
        format("env LD_PRELOAD=%s FAULT_RANK=0 FAULT_AT=1 %s/bigram-2-full --data data.txt --out r "
               "--max-restarts 20 >log 2>&1 & p=$!\n"
               "until grep -q 'checkpoint in 4 s: restart 4 of 20' log; do sleep 0.02; done\n"
               "kill $p; wait $p\n",
               SHALE_FAULTS, folder().c_str()));
  int status = system(("cd " + work + " && timeout 60 bash pause.sh").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 75) << bytes("log");
  EXPECT_NE(bytes("log").find("stopped by a signal before the ranks started again"),
            std::string::npos)
      << bytes("log");
  for (const char *words : {"newest checkpoint: restart 1 of", "checkpoint in 1 s: restart 2 of",
                            "checkpoint in 2 s: restart 3 of"})
    EXPECT_NE(bytes("log").find(words), std::string::npos) << bytes("log");
}

// A start of the same Slurm job goes on; another job's checkpoints are refused, as at a first
// start.
TEST_F(Program, NeverResumesAnotherRunsCheckpoints) {
  std::string flags = "--steps 6 --resume never";
  Result first = train("2-full", "r", flags + " --stop-after 3", "SLURM_JOB_ID=17");
  ASSERT_EQ(first.code, 0) << first.text;
  auto nameIn = [&](const std::string &folder) {
    return json::parse(bytes(folder + "/manifest.json"))["body"].value("run", "");
  };
  EXPECT_EQ(nameIn("r/checkpoints/step-00000003"), "Slurm job 17");
  for (const char *other :
       {"SLURM_JOB_ID=18 SLURM_RESTART_COUNT=1", "SLURM_RESTART_COUNT=1",
        "TORCHELASTIC_RUN_ID=17 TORCHELASTIC_RESTART_COUNT=2", "SLURM_JOB_ID=17"}) {
    Result result = train("2-full", "r", flags, other);
    EXPECT_EQ(result.code, 64) << other << result.text;
    EXPECT_NE(result.text.find("and --resume is never"), std::string::npos) << result.text;
  }
  Result again = train("2-full", "r", flags, "SLURM_JOB_ID=17 SLURM_RESTART_COUNT=1");
  EXPECT_EQ(again.code, 0) << again.text;
  EXPECT_NE(again.text.find("step-00000003 at step 3"), std::string::npos) << again.text;
  // A run without such a launcher has no name.
  ASSERT_EQ(train("2-full", "s", "--steps 6").code, 0);
  EXPECT_EQ(nameIn("s/checkpoints/step-00000006"), "");
  EXPECT_EQ(bytes("r/model.safetensors"), bytes("s/model.safetensors"));
}

TEST_F(Program, ACrashIsReported) {
  Result result = train("2-full", "r", "--steps 10", "BIGRAM_CRASH=1:4");
  EXPECT_EQ(result.code, 70) << result.text;
  EXPECT_NE(result.text.find("rank 1: error: the program crashed (SIGSEGV)"), std::string::npos)
      << result.text;
}

TEST_F(Program, RanksThatDifferAreRefused) {
  auto apart = [&](const std::string &first, const std::string &second,
                   const std::string &programs = "2-full 2-full") {
    static int port = 20000 + getpid() % 20000;
    port += 2;
    std::string split = programs.substr(programs.find(' ') + 1);
    std::string command;
    for (int rank : {1, 0})
      command += format("RANK=%d LOCAL_RANK=%d WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 "
                        "MASTER_ADDR=127.0.0.1 MASTER_PORT=%d %s/bigram-%s --lr 0.05 --steps 4 "
                        "--comm-timeout 20 --data data.txt %s >%d.log 2>&1 %s ",
                        rank, rank, port, folder().c_str(),
                        (rank ? split : programs.substr(0, programs.find(' '))).c_str(),
                        (rank ? second : first).c_str(), rank, rank ? "& other=$!;" : ";");
    command += "code=$?; wait $other; echo $code $? >codes; cat 1.log 0.log";
    write(work + "/apart.sh", "export OMP_NUM_THREADS=1\n" + command);
    FILE *pipe = popen(("cd " + work + " && timeout 60 bash apart.sh").c_str(), "r");
    std::string text;
    char buffer[4096];
    while (size_t n = fread(buffer, 1, sizeof(buffer), pipe))
      text.append(buffer, n);
    pclose(pipe);
    return bytes("codes") + text;
  };
  std::string tokens = bytes("data.txt");
  tokens[1500] ^= 1;
  write(work + "/data2.txt", tokens);
  makeFolders(work + "/elsewhere");
  write(work + "/elsewhere/data.txt", bytes("data.txt"));
  // Flags, and the words of the message.
  const std::pair<const char *, const char *> cases[] = {
      {"--lr 0.06", "--lr: rank 1 has 0.06, rank 0 has 0.05"},
      {"--seed 2", "--seed: rank 1 has 2, rank 0 has 0"},
      {"--no-shuffle", "--no-shuffle: rank 1 has true"},
      {"--data data2.txt", "--data: rank 1 has data2.txt"},
      {"--init random:3", "--init: rank 1 has random:3, rank 0 has the model's own weights"},
      {"--weight-decay 0.3", "--weight-decay: rank 1 has 0.3"},
      {"--steps 5", "--steps: rank 1 has 5, rank 0 has 4"},
      {"--save-every 2", "--save-every: rank 1 has 2, rank 0 has 0"},
      {"--check-replicas 2", "--check-replicas: rank 1 has 2, rank 0 has 0"},
      {"--async-save false", "--async-save: rank 1 has false, rank 0 has auto"},
      {"--skip-spikes 3", "--skip-spikes: rank 1 has 3, rank 0 has 0"},
      {"--eval-data data.txt", "--eval-data: rank 1 has data.txt"}};
  for (auto [flags, words] : cases) {
    std::string text = apart("--out r", std::string("--out r ") + flags);
    EXPECT_EQ(text.substr(0, 6), "64 64\n") << flags << text;
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_NE(text.find("the ranks differ in what they run, so nothing was trained"),
              std::string::npos)
        << text;
    EXPECT_FALSE(exists(work + "/r/metrics.jsonl"));
  }
  for (const char *programs : {"2-full 2", "2 2-full"}) {
    std::string text = apart("--out r", "--out r", programs);
    EXPECT_EQ(text.substr(0, 6), "64 64\n") << text;
    EXPECT_NE(text.find("--shard: rank 1 has "), std::string::npos) << text;
  }
  // The same file under another path is the same data.
  std::string text = apart("--out same", "--out same --data elsewhere/data.txt");
  EXPECT_EQ(text.substr(0, 4), "0 0\n") << text;
  // A rank with another folder is one of another run.
  text = apart("--out same --steps 6 --comm-timeout 2", "--out other --steps 6 --comm-timeout 1");
  EXPECT_EQ(text.substr(0, 6), "76 64\n") << text;
  for (const char *words :
       {"give all ranks of one run the same --out", "ranks of another run, or with another --out"})
    EXPECT_NE(text.find(words), std::string::npos) << words << text;
}

// Two runs on one host with one MASTER_PORT, whose ranks start in any order.
TEST_F(Program, RanksOfAnotherRunAreStrangers) {
  ASSERT_EQ(train("2-full", "s", "--steps 4").code, 0);
  int port = 20000 + getpid() % 20000 + 200;
  auto rank = [&](const char *run, int rank, const std::string &flags) {
    return format("RANK=%d LOCAL_RANK=%d WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
                  "MASTER_PORT=%d %s/bigram-2-full --lr 0.05 --data data.txt --steps 4 --out %s %s "
                  ">%s%d.log 2>&1",
                  rank, rank, port, folder().c_str(), run, flags.c_str(), run, rank);
  };
  auto runScript = [&](const std::string &text) {
    write(work + "/two.sh", "export OMP_NUM_THREADS=1\n" + text);
    return WEXITSTATUS(system(("cd " + work + " && timeout 100 bash two.sh").c_str()));
  };
  const std::pair<const char *, int> orders[2][4] = {{{"a", 0}, {"b", 1}, {"b", 0}, {"a", 1}},
                                                     {{"a", 1}, {"b", 0}, {"b", 1}, {"a", 0}}};
  for (const auto &order : orders) {
    std::string script = "rm -rf a b\n";
    for (auto [run, number] : order)
      script += rank(run, number, "") + " & all=\"$all $!\"\n";
    script += "code=0; for one in $all; do wait $one || code=$?; done; exit $code\n";
    EXPECT_EQ(runScript(script), 0);
    for (const char *run : {"a", "b"})
      EXPECT_EQ(bytes(std::string(run) + "/model.safetensors"), bytes("s/model.safetensors"))
          << bytes(std::string(run) + "0.log") << bytes(std::string(run) + "1.log");
  }
  // The other run waits for a rank of its own for long.
  std::string bound = "bound() { for s in $(ls -l /proc/$first/fd | sed -n "
                      "'s/.*socket:\\[\\([0-9]*\\)\\].*/\\1/p'); do "
                      "grep -q \" $s @shale-\" /proc/net/unix && return; done; return 1; }\n";
  std::string script = bound + rank("a", 0, "") +
                       " & first=$!\nuntil bound; do sleep 0.01; done\n" +
                       rank("b", 1, "--comm-timeout 1") + " & second=$!\n" +
                       rank("b", 0, "--comm-timeout 1") + "\ncode=$?; wait $second; second=$?\n" +
                       "kill $first; wait $first; echo $code $second $? >codes\n";
  runScript("rm -rf a b\n" + script);
  EXPECT_EQ(bytes("codes"), "76 64 75\n");
  std::string words =
      format("another run uses port %d of this host: choose another MASTER_PORT", port);
  for (const char *log : {"b0.log", "b1.log"})
    EXPECT_NE(bytes(log).find(words), std::string::npos) << bytes(log);
  EXPECT_FALSE(exists(work + "/b/metrics.jsonl"));
}

// Two starts with one port and one folder: a copy of a command, or a second job of the same script.
TEST_F(Program, ASecondStartIsToldWhoUsesTheFolder) {
  int port = 20000 + getpid() % 20000 + 400;
  auto ranks = [&](const char *run, const char *flags) {
    std::string script;
    for (int rank : {0, 1})
      script += format("TORCHELASTIC_RUN_ID=%s RANK=%d LOCAL_RANK=%d WORLD_SIZE=2 "
                       "LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=%d %s/bigram-2-full "
                       "--lr 0.05 --data data.txt --out r %s >%s%d.log 2>&1 & %s%d=$!\n",
                       run, rank, rank, port, folder().c_str(), flags, run, rank, run, rank);
    return script;
  };
  write(work + "/two.sh",
        "export OMP_NUM_THREADS=1\n" + ranks("first", "--steps 100000000") +
            "until grep -q step r/metrics.jsonl; do sleep 0.01; done\n"
            "cp r/.lock named; wc -l <r/metrics.jsonl >before\n" +
            ranks("second", "--steps 4 --comm-timeout 3") +
            "wait $second0; echo $? >codes; wait $second1; echo $? >>codes\n"
            "kill $first0; wait $first0; echo $? >>codes; wait $first1; echo $? >>codes\n"
            "wc -c <r/.lock >cleared\n");
  ASSERT_EQ(system(("cd " + work + " && timeout 100 bash two.sh").c_str()), 0);
  EXPECT_EQ(bytes("codes"), "64\n76\n75\n75\n") << bytes("second0.log") << bytes("second1.log");
  std::istringstream named(bytes("named"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(named, line);)
    lines.push_back(line);
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(lines[5], "torchrun first");
  EXPECT_EQ(bytes("second0.log"), "rank 0: error: another run is using 'r': process " + lines[3] +
                                      " of host '" + lines[0] +
                                      "' (torchrun first); end it or pass another --out\n");
  EXPECT_EQ(bytes("second1.log").find("step 1/4"), std::string::npos) << bytes("second1.log");
  EXPECT_EQ(bytes("first0.log").find("error"), std::string::npos) << bytes("first0.log");
  EXPECT_EQ(bytes("cleared"), "0\n");
}

// A bit of one rank's weights flips after step 5. Nothing is saved over the checkpoint of step 4.
TEST_F(Program, ReplicasThatDifferEndTheRunWith94) {
  std::string flags = "--steps 9 --save-every 4 --check-replicas ";
  const std::tuple<const char *, const char *, const char *, const char *> cases[] = {
      {"4-hybrid", "1", "after step 6,", "'emb.weight' (param): rank 0 differs from rank 2"},
      {"2", "1000", "after step 8,", "'emb.weight' (param): rank 0 differs from rank 1"}};
  for (const auto &[name, every, when, what] : cases) {
    Result result = train(name, name, flags + every, "BIGRAM_FLIP=0:5");
    EXPECT_EQ(result.code, 94) << result.text;
    for (const char *text : {when, what, "Nothing was saved since"})
      EXPECT_NE(result.text.find(text), std::string::npos) << text << "\n" << result.text;
    EXPECT_EQ(listFolder(work + "/" + name + "/checkpoints"),
              std::vector<std::string>{"step-00000004"});
    EXPECT_FALSE(exists(work + "/" + name + "/model.safetensors"));
  }
  // A run whose ranks agree is not stopped, and neither is one that holds nothing twice.
  for (const char *name : {"4-hybrid", "2-full", "1", "2-full-far"})
    EXPECT_EQ(train(name, std::string("good-") + name, "--steps 5 --check-replicas 1").code, 0)
        << name;
}

TEST_F(Program, SilentRankIsATimeoutThatNamesTheCollective) {
  Result result = train("2-full", "r", "--steps 10 --comm-timeout 2", "BIGRAM_HANG=1:3");
  EXPECT_EQ(result.code, 76) << result.text;
  EXPECT_NE(result.text.find("all-gather 'root' failed"), std::string::npos) << result.text;
  expectAllName(result.text, 2, 1, " did not come to this point within 2.0 s");
}

TEST_F(Program, StoppedRankIsNamedByAll) {
  Result result = train("4-full", "r", "--steps 10 --comm-timeout 2", "BIGRAM_STOP=2:3");
  EXPECT_EQ(result.code, 76) << result.text;
  expectAllName(result.text, 4, 2, " did not answer within 2.0 s");
}

TEST_F(Program, NonFiniteEndsWith93AndNoCheckpoint) {
  Result result = train("2-full", "r", "--steps 10", "BIGRAM_NAN=4");
  EXPECT_EQ(result.code, 93) << result.text;
  std::vector<json> lines = metrics("r");
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_TRUE(lines[4]["loss"].is_null());
  EXPECT_TRUE(listFolder(work + "/r/checkpoints").empty());
  EXPECT_FALSE(exists(work + "/r/model.safetensors"));
}

// On a device that works late, a step starts before the process knows that the one before it was
// not applied. It must not be applied either.
TEST_F(Program, AStepInFlightAfterANonFiniteOneChangesNothing) {
  ASSERT_EQ(train("1", "near", "--steps 10", "BIGRAM_NAN=4").code, 93);
  Result result = train("1-far", "far", "--steps 10", "BIGRAM_NAN=4 BIGRAM_TELL=1");
  EXPECT_EQ(result.code, 93) << result.text;
  for (const char *line : {"step 3 enable 1", "step 4 enable 0", "step 5 enable 0",
                           "step 5: the loss or the gradient norm is not finite"})
    EXPECT_NE(result.text.find(line), std::string::npos) << line << "\n" << result.text;
  EXPECT_EQ(result.text.find("step 6 enable"), std::string::npos) << result.text;
  std::vector<json> expected = metrics("near"), lines = metrics("far");
  ASSERT_EQ(lines.size(), 5u);
  for (int s = 0; s < 5; ++s)
    EXPECT_EQ(lines[s]["loss"], expected[s]["loss"]);
  EXPECT_FALSE(exists(work + "/far/model.safetensors"));
}

// Collectives through the host's memory wait for the device: the process does not run ahead.
TEST_F(Program, CollectivesThroughTheHostDoNotRunAhead) {
  Result result = train("2-full-far", "far", "--steps 10", "BIGRAM_NAN=4 BIGRAM_TELL=1");
  EXPECT_EQ(result.code, 93) << result.text;
  EXPECT_NE(result.text.find("step 4 enable 0"), std::string::npos) << result.text;
  EXPECT_EQ(result.text.find("step 5 enable"), std::string::npos) << result.text;
}

// Lines, evaluations and checkpoints are those of a run that waits for each step.
TEST_F(Program, RunsAheadWithTheSameFiles) {
  std::string flags = "--steps 11 --eval-data data.txt --eval-every 4 --save-every 3 --keep 9";
  ASSERT_EQ(train("1", "near", flags).code, 0);
  Result far = train("1-far", "far", flags, "BIGRAM_TELL=1");
  ASSERT_EQ(far.code, 0) << far.text;
  // Step 1 is enqueued before the line of step 0 is printed, and runs after it.
  EXPECT_LT(far.text.find("step 0 enable"), far.text.find("step 1/11 |")) << far.text;
  std::vector<json> expected = metrics("near"), lines = metrics("far");
  ASSERT_EQ(lines.size(), expected.size());
  for (size_t s = 0; s < lines.size(); ++s)
    for (const char *field : {"step", "loss", "grad_norm", "lr", "eval_loss"})
      EXPECT_EQ(lines[s].value(field, json()), expected[s].value(field, json())) << s << field;
  std::vector<std::string> folders = listFolder(work + "/near/checkpoints");
  ASSERT_EQ(folders, listFolder(work + "/far/checkpoints"));
  ASSERT_EQ(folders.size(), 4u);
  for (const std::string &folder : folders)
    for (const std::string &file : listFolder(work + "/near/checkpoints/" + folder))
      EXPECT_EQ(bytes("near/checkpoints/" + folder + "/" + file),
                bytes("far/checkpoints/" + folder + "/" + file))
          << folder << "/" << file;
}

// At any moment, also before the first step: code 75 or 130, and the run goes on to the same bits.
TEST_F(Program, SignalsAtAnyMoment) {
  ASSERT_EQ(train("2-full", "s", "--steps 40").code, 0);
  int signals[] = {SIGTERM, SIGUSR1, SIGHUP, SIGINT};
  for (int i = 0; i < 8; ++i) {
    std::string out = "r" + std::to_string(i);
    std::string command = format(
        "cd %s && { env OMP_NUM_THREADS=1 %s/bigram-2-full --data data.txt --lr 0.05 --steps 40 "
        "--out %s >log 2>&1 & p=$!; sleep %.4f; kill -%d $p; wait $p; }",
        work.c_str(), folder().c_str(), out.c_str(), 0.004 + 0.012 * i, signals[i % 4]);
    int status = system(("bash -c '" + command + "'").c_str());
    int code = WEXITSTATUS(status), expected = signals[i % 4] == SIGINT ? 130 : 75;
    // Until the loader has mapped the program's libraries, the signal ends the process.
    bool loading =
        code == 128 + signals[i % 4] && bytes("log").empty() && !exists(work + "/" + out);
    EXPECT_TRUE(code == expected || code == 0 || loading) << i << ": " << code << "\n"
                                                          << bytes("log");
    ASSERT_EQ(train("2-full", out, "--steps 40").code, 0);
    EXPECT_EQ(bytes(out + "/model.safetensors"), bytes("s/model.safetensors")) << i;
    for (const std::string &name : listFolder(work + "/" + out + "/checkpoints"))
      EXPECT_EQ(name.find(".tmp"), std::string::npos) << name;
  }
}

TEST_F(Program, ASignalBeforeTheFirstStepHasNothingToSave) {
  // The other rank never comes.
  std::string command = format(
      "cd %s && { env RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 "
      "MASTER_ADDR=127.0.0.1 MASTER_PORT=%d %s/bigram-2-full --data data.txt --out r >log 2>&1 & p=$!; sleep 0.5; kill -HUP $p; "
      "wait $p; }",
      work.c_str(), 20000 + getpid() % 20000, folder().c_str());
  int status = system(("bash -c '" + command + "'").c_str());
  EXPECT_EQ(WEXITSTATUS(status), 75) << bytes("log");
  EXPECT_NE(bytes("log").find("there is nothing to save"), std::string::npos) << bytes("log");
}

// The launcher and a lone process end at once on the second Ctrl-C of a terminal.
TEST_F(Program, ASecondKeyEndsTheRunAtOnce) {
  for (const char *name : {"1", "2-full"}) {
    // The rank hangs in a step, so the first request cannot end the run.
    write(
        work + "/keys.py",
        format("import os, pty, select, sys\n"
               "child, terminal = pty.fork()\n"
               "if child == 0:\n"
               "    os.execve('%s/bigram-%s', ['train', '--data', 'data.txt', '--out', 'keys%s'], "
               "{'BIGRAM_HANG': '0:2', 'OMP_NUM_THREADS': '1'})\n"
               "text = b''\n"
               "while True:\n"
               "    if select.select([terminal], [], [], 0.05)[0]:\n"
               "        try: text += os.read(terminal, 4096)\n"
               "        except OSError: break\n"
               "    elif b'step 2' in text: os.write(terminal, b'\\x03')\n"
               "print(text.decode())\n"
               "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n",
               folder().c_str(), name, name));
    int status = system(("cd " + work + " && timeout 60 python3 keys.py >log 2>&1").c_str());
    EXPECT_EQ(WEXITSTATUS(status), 130) << bytes("log");
    EXPECT_EQ(bytes("log").find("the state is saved"), std::string::npos) << bytes("log");
    EXPECT_TRUE(listFolder(work + "/keys" + name + "/checkpoints").empty());
  }
}

// The parent's mask does not keep a signal away, and a SIGHUP that it ignores is ignored.
TEST_F(Program, InheritedMasksAreUndone) {
  auto start = [&](const std::string &how, int signal) {
    write(work + "/go.py",
          format("import os, signal, subprocess, sys, time\n%s\n"
                 "p = subprocess.Popen(['%s/bigram-1', '--data', 'data.txt', '--steps', '4', "
                 "'--out', 'm%d'], restore_signals=False, env={'BIGRAM_HANG': '0:2', "
                 "'BIGRAM_PAUSE': '1000'})\n"
                 "while not os.path.exists('m%d/metrics.jsonl'): time.sleep(0.01)\n"
                 "p.send_signal(%d)\nsys.exit(p.wait())\n",
                 how.c_str(), folder().c_str(), signal, signal, signal));
    int status = system(("cd " + work + " && timeout 60 python3 go.py >log 2>&1").c_str());
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(start("signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])", SIGTERM), 75)
      << bytes("log");
  EXPECT_EQ(start("signal.signal(signal.SIGHUP, signal.SIG_IGN)", SIGHUP), 0) << bytes("log");
}

// A signal ends the run after the step that is in flight.
TEST_F(Program, ASignalSavesAfterTheStepInFlight) {
  Result result = train("1-far", "r", "--steps 10", "BIGRAM_TERM=0:4");
  EXPECT_EQ(result.code, 75) << result.text;
  // The signal arrives while step 4 runs. Step 5 is in flight then.
  EXPECT_NE(result.text.find("stopped by a signal after step 6/10"), std::string::npos)
      << result.text;
  EXPECT_EQ(metrics("r").size(), 6u);
  EXPECT_TRUE(exists(work + "/r/checkpoints/step-00000006"));
  ASSERT_EQ(train("1-far", "r", "--steps 10").code, 0);
  ASSERT_EQ(train("1", "s", "--steps 10").code, 0);
  EXPECT_EQ(bytes("r/model.safetensors"), bytes("s/model.safetensors"));
}

// An error in the data of a step comes after the lines of the steps before it.
TEST_F(Program, BadDataOfTheNextStepComesAfterTheLineOfThisOne) {
  std::string tokens = bytes("data.txt");
  tokens[12 * 8 * 3 + 5] = 99; // of the fourth step
  write(work + "/bad.txt", tokens);
  for (const char *name : {"1", "1-far"}) {
    Result result = run(name, std::string("--data bad.txt --no-shuffle --steps 6 --out ") + name);
    EXPECT_EQ(result.code, 65) << result.text;
    EXPECT_NE(result.text.find("is 99, but values of input"), std::string::npos) << result.text;
    EXPECT_EQ(metrics(name).size(), 3u) << name;
  }
}

TEST_F(Program, SignalsSaveAndResume) {
  Result result = train("2-full", "r", "--steps 10", "BIGRAM_TERM=1:4");
  EXPECT_EQ(result.code, 75) << result.text;
  EXPECT_EQ(metrics("r").size(), 5u);
  // Message, log and checkpoint count the same steps.
  for (const char *word : {"step 5/10 |", "stopped by a signal after step 5/10"})
    EXPECT_NE(result.text.find(word), std::string::npos) << result.text;
  EXPECT_TRUE(exists(work + "/r/checkpoints/step-00000005"));
  EXPECT_EQ(metrics("r").back()["step"], 4);
  result = train("2-full", "r", "--steps 10", "BIGRAM_INT=0:7");
  EXPECT_EQ(result.code, 130) << result.text;
  ASSERT_EQ(train("2-full", "r", "--steps 10").code, 0);
  ASSERT_EQ(train("2-full", "s", "--steps 10").code, 0);
  EXPECT_EQ(bytes("r/model.safetensors"), bytes("s/model.safetensors"));
}

TEST_F(Program, BadFlagsAre64) {
  Result typo = run("1", "--data data.txt --stpes 4");
  EXPECT_EQ(typo.code, 64);
  EXPECT_NE(typo.text.find("did you mean --steps?"), std::string::npos) << typo.text;
  EXPECT_EQ(run("1", "--data data.txt --schedule cosin").code, 64);
  EXPECT_EQ(run("1", "--data data.txt --steps 9 --steps 1").code, 0); // the last value counts
  EXPECT_EQ(run("1", "--data data.txt --lr fast").code, 64);
  EXPECT_EQ(run("1", "--data data.txt --steps -1").code, 64);
  EXPECT_EQ(run("1", "--data data.txt --steps").code, 64);
  EXPECT_EQ(run("1", "data.txt").code, 64);
  EXPECT_EQ(run("1", "").code, 64);
  EXPECT_EQ(run("1", "--data data.txt --nproc 2").code, 64);
  EXPECT_EQ(run("1", "--data data.txt --warmup 9 --steps 3").code, 64);
  EXPECT_EQ(
      run("2", "--data data.txt", "RANK=0 WORLD_SIZE=3 MASTER_ADDR=localhost MASTER_PORT=1").code,
      64);
  EXPECT_EQ(run("2", "--data data.txt", "RANK=zero WORLD_SIZE=2").code, 64);
}

TEST_F(Program, WordsOfOtherTrainersAreAnsweredWithOurs) {
  const std::pair<const char *, const char *> words[] = {
      {"--batch-size 8", "compile it again with shalec and --dim batch=N"},
      {"--grad-clip=1.0", "--grad-clip is not a flag of Shale: use --clip-grad-norm X"},
      {"--max_grad_norm 1", "--clip-grad-norm"},
      {"--learning-rate 3e-4", "use --lr X"},
      {"--training.steps 10", "--steps"}, // torchtitan's
      {"--max-steps 10", "use --steps N"},
      {"--num_train_epochs 3", "use --epochs X"},
      {"--gradient_accumulation_steps 4", "--accumulate N"},
      {"--bf16", "--param-dtype"},
      {"--sharding-strategy FULL_SHARD", "--shard"},
      {"--output_dir x", "use --out DIR"},
      {"--num-workers 4", "not needed"},
      {"--schedule constant_with_warmup", "use --schedule constant, with --warmup N"},
      {"--schedule cosine_annealing", "use --schedule cosine"},
      {"--checkpoint FULL_STATE_DICT", "use --checkpoint full"},
      {"--token-dtype u16", "use --token-dtype uint16"},
      {"--resume latest", "use --resume auto"},
      {"--resume False", "use --resume never"},
      {"--devices 2", "--devices is not a flag of Shale: use --nproc N"},
      {"--num-nodes 2", "torchrun on each host, or mpirun or srun"},
      {"--training.steps 10", "--training.steps is not a flag of Shale: use --steps"},
      {"--optimizer.lr 8e-4", "--optimizer.lr is not a flag of Shale: use --lr"},
      {"--optimizer.name AdamW", "compile it again with shalec and --optimizer NAME"},
      {"--log-every 10", "--log-every is not needed: every step is logged"},
      {"--metrics.log_freq 10", "is not needed: every step is logged"},
      {"--metrics.enable_wandb", "does not exist in Shale: metrics.jsonl in --out DIR"},
      {"--lr_scheduler.warmup_steps 2", "use --warmup N, a number of steps"},
      {"--lr_scheduler.decay_type linear", "use --schedule constant|cosine|linear|wsd"},
      {"--checkpoint.interval 500", "use --save-every N"},
      {"--checkpoint.enable", "use --save-every N"},
      {"--checkpoint.keep_latest_k 2", "use --keep N"},
      {"--profiling.enable_profiling", "use --trace steps:A-B FILE"},
      {"--profiling.profile_freq 10", "use --trace steps:A-B FILE"},
      {"--validation.steps 4", "use --eval-batches N"},
      {"--compile.enable", "is not needed: the program is compiled"},
      {"--job.config_file x.toml", "is not needed: there is no configuration file"},
      {"--parallelism.fsdp_reshard_after_forward never",
       "compile it again with shalec and --reshard-after-forward=true|false; never is false"},
      {"--reshard_after_forward=False", "compile it again with shalec and --reshard-after-forward"},
      {"--zero_optimization.stage 2", "shalec and --shard none|optimizer|grad|full"},
      {"--broadcast_fp16",
       "shalec and --wire-dtype gather=f16, which leaves the computation in f32"},
      {"--fp16.loss_scale 0", "is not needed: the loss scale of f16 is dynamic"},
      {"--comms_logger.enabled", "use --trace steps:A-B FILE; --report comm"},
      {"--quantize bnb.nf4", "does not exist in Shale: weights are f32, bf16 or f16"},
      {"--overfit_batches 4", "use --data FILES, with these rows only"},
      {"--zero_optimization.cpu_offload", "shalec and --offload optimizer"},
      {"--schedule inverse_sqrt", "the schedules are constant, cosine, linear and wsd"},
      {"--use-tensorboard", "--use-tensorboard is not a flag of Shale: use --tensorboard"}};
  for (const auto &[flags, answer] : words) {
    Result result = run("1", std::string("--data data.txt ") + flags);
    EXPECT_EQ(result.code, 64) << flags;
    EXPECT_NE(result.text.find(answer), std::string::npos) << flags << "\n" << result.text;
  }
  // Other spellings of the program's own flags and values.
  EXPECT_EQ(run("1", "--data data.txt --clip_grad_norm 1 --Steps=1 --schedule Cosine --async_save "
                     "FALSE --out spelled")
                .code,
            0);
  // A flag that no framework has.
  EXPECT_NE(run("1", "--data data.txt --frobnicate 3").text.find("unknown flag"),
            std::string::npos);
}

TEST_F(Program, HelpFitsAScreenAndDescribeTells) {
  Result help = run("1", "--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_LT(std::count(help.text.begin(), help.text.end(), '\n'), 65);
  Result result = run("2-full", "--describe");
  EXPECT_EQ(result.code, 0);
  for (const char *what :
       {"emb.weight", "tied.bias", "replica=1,fsdp=2", "reduce-scatter", "peak", "hand-written"})
    EXPECT_NE(result.text.find(what), std::string::npos) << what;
}

TEST_F(Program, MissingFilesAre66) {
  EXPECT_EQ(run("1", "--data nothing.bin").code, 66);
  EXPECT_EQ(run("2-full", "--data data.txt --eval-data nothing.bin").code, 66);
  EXPECT_EQ(train("1", "r", "--resume must").code, 66);
  EXPECT_EQ(train("1", "r", "--resume elsewhere").code, 66);
}

TEST_F(Program, BadDataIs65) {
  write(work + "/short.txt", "12345678");
  EXPECT_EQ(run("1", "--data short.txt").code, 65);
  write(work + "/large.txt", std::string(2000, '\xff'));
  Result result = run("2-full", "--data large.txt --comm-timeout 20");
  EXPECT_EQ(result.code, 65) << result.text;
  EXPECT_NE(result.text.find("255"), std::string::npos);
  write(work + "/broken.safetensors", std::string(8, '\xff') + "{}");
  EXPECT_EQ(run("1", "--data broken.safetensors").code, 65);
}

TEST_F(Program, FilesOfOtherFormatsAreNamed) {
  std::string zip = "PK\3\4" + std::string(26, '\0');
  write(work + "/model.pt", zip + "model/data.pkl" + std::string(1000, '\1'));
  write(work + "/tokens.gz", "\x1f\x8b\x08" + std::string(1000, '\0'));
  auto expect = [&](const char *flags, const char *said) {
    for (const char *name : {"1", "2-full"}) {
      Result result = run(name, flags);
      EXPECT_EQ(result.code, 65) << result.text;
      EXPECT_EQ(count(result.text, said), 1u) << result.text;
    }
  };
  expect("--data model.pt", "'model.pt' is a PyTorch checkpoint, not a file of tokens: convert its "
                            "weights with safetensors.torch.save_file(");
  expect("--data tokens.gz", "'tokens.gz' is a gzip file, not a file of tokens: unpack it");
  expect("--data data.txt --eval-data tokens.gz", "'tokens.gz' is a gzip file");
  expect("--data data.txt --init model.pt",
         "'model.pt' is a PyTorch checkpoint, not a safetensors file: convert its weights with");
  ASSERT_EQ(train("1", "trained", "--steps 1").code, 0);
  expect("--data trained/model.safetensors",
         "has no tensor 'tokens', which the program reads: it holds weights, which --init takes");
}

TEST_F(Program, ARunTellsItsDataAndItsMemory) {
  Result tokens = train("2-full", "r", "--steps 12 --eval-data data.txt");
  ASSERT_EQ(tokens.code, 0) << tokens.text;
  EXPECT_EQ(count(tokens.text,
                  "\ndata: data.txt: 2000 tokens (U8), 249 rows of 8; one pass is 20.75 "
                  "steps, the run has 12\n"),
            1u)
      << tokens.text;
  EXPECT_EQ(count(tokens.text, "\nevaluation data: data.txt: 2000 tokens (U8), 249 rows of 8\n"),
            1u);
  // The same unit and the same digits as in the lines of steps.
  std::regex end("\nmemory: \\d+\\.\\d\\d MiB planned per rank, \\d+\\.\\d\\d MiB used at most\n"),
      step(" tokens/s \\| \\d+\\.\\d\\d MiB\n");
  EXPECT_TRUE(std::regex_search(tokens.text, end)) << tokens.text;
  EXPECT_TRUE(std::regex_search(tokens.text, step)) << tokens.text;
  EXPECT_EQ(count(tokens.text, "\nmemory: "), 1u) << tokens.text;
  writeBatches("b.safetensors", [](int64_t i) { return i % vocab; });
  Result tensors = run("1", "--data b.safetensors --steps 2 --out one");
  ASSERT_EQ(tensors.code, 0) << tensors.text;
  EXPECT_EQ(count(tensors.text, "\ndata: b.safetensors: 3 micro-batches of 12 rows; one pass is 3 "
                                "steps, the run has 2\n"),
            1u)
      << tensors.text;
}

TEST_F(Program, AStepWithoutLabelsIsReportedOnce) {
  writeBatches("b.safetensors", [](int64_t i) { return i < 96 ? i % vocab : int64_t(-100); });
  for (const char *name : {"1", "2-full"}) {
    Result result = run(name, std::string("--data b.safetensors --steps 3 --out ") + name);
    ASSERT_EQ(result.code, 0) << result.text;
    EXPECT_EQ(count(result.text, "warning: step 2: every label is ignored, so its loss and its "
                                 "gradients are 0"),
              1u)
        << result.text;
    EXPECT_EQ(count(result.text, "every label is ignored"), 1u) << result.text;
    EXPECT_EQ(metrics(name)[1]["loss"], 0);
  }
  // Some labels of one rank are enough.
  writeBatches("c.safetensors", [](int64_t i) { return i % 96 < 8 ? i % vocab : int64_t(-100); });
  Result some = run("2-full", "--data c.safetensors --steps 3 --out some");
  ASSERT_EQ(some.code, 0) << some.text;
  EXPECT_EQ(count(some.text, "ignored"), 0u) << some.text;
}

TEST_F(Program, ACheckpointThatNoRankCanReadIsOneError) {
  ASSERT_EQ(train("2-full", "r", "--steps 6 --save-every 3").code, 0);
  write(work + "/r/checkpoints/step-00000006/manifest.json", "{}");
  Result named = train("4-full", "t", "--steps 9 --resume r/checkpoints/step-00000006");
  EXPECT_EQ(named.code, 65) << named.text;
  EXPECT_EQ(count(named.text, "error: "), 1u) << named.text;
  EXPECT_EQ(count(named.text, "rank 0: error: 'r/checkpoints/step-00000006/manifest.json'"), 1u)
      << named.text;
  Result result = train("4-full", "r", "--steps 9");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_EQ(count(result.text, "trying the checkpoint before it"), 1u) << result.text;
}

TEST_F(Program, TensorsWinAndTooFewAre65) {
  // The last row of the first micro-batch is ignored.
  auto label = [](int64_t i) -> int64_t { return i >= 88 && i < 96 ? -100 : i % vocab; };
  writeBatches("b.safetensors", label);
  ASSERT_EQ(run("1", "--data b.safetensors --steps 3 --out one").code, 0);
  Result result = run("4-full", "--data b.safetensors --steps 3 --out four");
  ASSERT_EQ(result.code, 0) << result.text;
  for (int s = 0; s < 3; ++s)
    EXPECT_NEAR(metrics("one")[s]["loss"], metrics("four")[s]["loss"], 2e-5);
  // Two passes over the three micro-batches, and two files in sequence.
  Result twice = run("4-full", "--data b.safetensors --epochs 2 --out twice");
  ASSERT_EQ(twice.code, 0) << twice.text;
  ASSERT_EQ(metrics("twice").size(), 6u);
  writeBatches("c.safetensors", label);
  Result two = run("1", "--data b.safetensors,c.safetensors --steps 6 --out two");
  ASSERT_EQ(two.code, 0) << two.text;
  for (int s = 0; s < 6; ++s)
    EXPECT_NEAR(metrics("twice")[s]["loss"], metrics("two")[s]["loss"], 2e-5);
  EXPECT_EQ(run("1", "--data b.safetensors,c.safetensors --steps 7").code, 65);
  Result few = run("4-full", "--data b.safetensors --steps 4 --out few");
  EXPECT_EQ(few.code, 65) << few.text;
  EXPECT_EQ(count(few.text, "pass --epochs in place of --steps, which reads the data again: 2 "
                            "epochs are 6 steps"),
            1u)
      << few.text;
  EXPECT_FALSE(exists(work + "/few/metrics.jsonl"));
  EXPECT_EQ(run("4-full", "--data b.safetensors --steps 4 --stop-after 3 --out few").code, 0);
}

// Each rank opens only the files whose parts it needs, and the manifest is that of rank 0.
TEST_F(Program, RanksReadWhatTheyNeed) {
  ASSERT_EQ(train("4-full", "r", "--steps 3").code, 0);
  std::string folder = "r/checkpoints/step-00000003/", shard = folder + "shard-00002.safetensors";
  std::string good = bytes(shard), damaged = good;
  damaged[20] ^= 1; // in the header
  write(work + "/" + shard, damaged);
  Result result = train("4-full", "r", "--steps 5 --resume must");
  EXPECT_EQ(result.code, 65) << result.text;
  EXPECT_EQ(count(result.text, "the checksum of its header"), 1u) << result.text;
  EXPECT_NE(result.text.find("rank 2: '" + shard), std::string::npos) << result.text;
  write(work + "/" + shard, good);
  std::string manifest = bytes(folder + "manifest.json");
  write(work + "/" + folder + "manifest.json", manifest.substr(0, manifest.size() / 2));
  result = train("4-full", "r", "--steps 5 --resume must");
  EXPECT_EQ(result.code, 65) << result.text;
  EXPECT_EQ(count(result.text, "manifest.json' is damaged"), 1u) << result.text;
  write(work + "/" + folder + "manifest.json", manifest);
  EXPECT_EQ(train("2-full", "r", "--steps 5 --resume must").code, 0);
}

TEST_F(Program, ResumeNeverAndDamage) {
  ASSERT_EQ(train("2-full", "r", "--steps 6 --save-every 3").code, 0);
  EXPECT_EQ(train("2-full", "r", "--steps 9 --resume never").code, 64);
  // One bit of the newest checkpoint: its name is an error, auto takes the
  // older.
  std::string shard = "r/checkpoints/step-00000006/shard-00001.safetensors";
  std::string damaged = bytes(shard);
  damaged[damaged.size() - 5] ^= 4;
  write(work + "/" + shard, damaged);
  Result named = train("2-full", "t", "--steps 9 --resume r/checkpoints/step-00000006");
  EXPECT_EQ(named.code, 65) << named.text;
  EXPECT_NE(named.text.find("checksum"), std::string::npos);
  Result result = train("2-full", "r", "--steps 9");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("at step 3"), std::string::npos) << result.text;
  ASSERT_EQ(train("2-full", "s", "--steps 9").code, 0);
  EXPECT_EQ(bytes("r/model.safetensors"), bytes("s/model.safetensors"));
}

/// The environment in which the calls of files fail as `faults` says.
std::string withFaults(const std::string &faults) {
  return "LD_PRELOAD=" SHALE_FAULTS " " + faults;
}

// What would fail at the first save fails before the first step.
TEST_F(Program, SavesAreTriedBeforeTheFirstStep) {
  std::string deep;
  while (deep.size() < 4000)
    deep += std::string(99, 'd') + "/";
  const std::tuple<std::string, std::string, std::vector<const char *>> cases[] = {
      {deep + std::string(30, 'e'), "", {"File name too long", "pass a shorter --out"}},
      {"r", "FAULT_NO_RENAME=95", {"cannot rename", "not supported", "pass --out on another one"}},
      {"r", "FAULT_NO_RENAME=1", {"cannot rename", "no right to do that"}}};
  for (const auto &[out, faults, texts] : cases) {
    Result result = train("2-full", out, "--steps 3", withFaults(faults));
    EXPECT_EQ(result.code, 74) << result.text;
    for (const char *text : texts)
      EXPECT_NE(result.text.find(text), std::string::npos) << text << "\n" << result.text;
    EXPECT_EQ(count(result.text, "saving would fail"), 1u) << result.text;
    EXPECT_EQ(result.text.find("loss"), std::string::npos) << result.text;
  }
  EXPECT_FALSE(exists(work + "/r/checkpoints"));
  EXPECT_EQ(train("2-full", "r", "--steps 3").code, 0);
  EXPECT_EQ(listFolder(work + "/r/checkpoints").size(), 1u);
}

// A step is saved a second time where names cannot be exchanged.
TEST_F(Program, AStepIsSavedAgainByPlainRenames) {
  ASSERT_EQ(train("2-full", "r", "--steps 6 --save-every 3").code, 0);
  std::string shard = "r/checkpoints/step-00000006/shard-00001.safetensors", good = bytes(shard);
  for (const char *error : {"22", "38", "95"}) {
    std::string damaged = good;
    damaged[damaged.size() - 5] ^= 4;
    write(work + "/" + shard, damaged);
    Result result =
        train("2-full", "r", "--steps 6", withFaults("FAULT_NO_EXCHANGE=" + std::string(error)));
    EXPECT_EQ(result.code, 0) << result.text;
    EXPECT_EQ(bytes(shard), good);
    EXPECT_EQ(listFolder(work + "/r/checkpoints").size(), 2u);
  }
  // What a crash between the two renames leaves.
  std::string checkpoints = work + "/r/checkpoints/", step = checkpoints + "step-00000006";
  ASSERT_EQ(rename(step.c_str(), (step + ".before").c_str()), 0);
  makeFolders(step + ".tmp-new");
  Result named = train("1", "other", "--steps 7 --resume r");
  EXPECT_EQ(named.code, 0) << named.text;
  EXPECT_NE(named.text.find("step-00000006.before at step 6"), std::string::npos) << named.text;
  Result result = train("2-full", "r", "--steps 7");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("step-00000006 at step 6"), std::string::npos) << result.text;
  std::vector<std::string> left = listFolder(checkpoints);
  std::sort(left.begin(), left.end());
  EXPECT_EQ(left, (std::vector<std::string>{"step-00000006", "step-00000007"}));
}

// The error of a lock is not another run. A file that names the process takes the lock's place.
TEST_F(Program, FoldersWithoutLocks) {
  std::string faults = withFaults("FAULT_NO_LOCK=38 ");
  Result result = train("1", "r", "--steps 3", faults);
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("cannot lock files (Function not implemented)"), std::string::npos)
      << result.text;
  EXPECT_FALSE(exists(work + "/r/.owner"));
  // A process that was killed is gone.
  EXPECT_EQ(train("1", "r", "--steps 5", faults + "BIGRAM_KILL=0:4").code, 137);
  ASSERT_TRUE(exists(work + "/r/.owner"));
  std::string killed = bytes("r/.owner");
  EXPECT_EQ(train("1", "r", "--steps 5", faults).code, 0);
  EXPECT_FALSE(exists(work + "/r/.owner"));
  // One that lives, one of another host, one before a restart, and what is no process.
  std::vector<std::string> lines;
  std::istringstream text(killed);
  for (std::string line; std::getline(text, line);)
    lines.push_back(line);
  ASSERT_EQ(lines.size(), 6u);
  std::ifstream stat("/proc/self/stat");
  std::string start;
  for (int field = 0; field < 22; ++field) // the name of this test has no space
    stat >> start;
  auto owner = [&](std::vector<std::pair<int, std::string>> changes) {
    std::vector<std::string> own = lines;
    for (const auto &[line, value] : changes)
      own[line] = value;
    std::string made;
    for (const std::string &line : own)
      made += line + "\n";
    return made;
  };
  std::string self = std::to_string(getpid());
  const std::pair<std::string, std::string> others[] = {
      {owner({{3, self}, {4, start}}), "process " + self + " of host"},
      {owner({{0, "elsewhere"}}), "of host 'elsewhere' may be using"},
      {owner({{1, "another-boot"}}), "may be using"},
      {owner({{3, "99999999999999"}}), "may be using"},
      {"", "another run may be using"},
      {std::string(40, '\0'), "another run may be using"}};
  for (const auto &[content, words] : others)
    for (const std::string &environment : {faults, std::string()}) {
      write(work + "/r/.owner", content);
      result = train("1", "r", "--steps 6", environment);
      EXPECT_EQ(result.code, 64) << content << result.text;
      EXPECT_NE(result.text.find(words), std::string::npos) << result.text;
      EXPECT_NE(result.text.find("if it is gone, remove 'r/.owner'"), std::string::npos);
      EXPECT_EQ(bytes("r/.owner"), content);
    }
  // The number of a process that has ended is used again.
  write(work + "/r/.owner", owner({{3, self}, {4, "1"}}));
  EXPECT_EQ(train("1", "r", "--steps 6", faults).code, 0);
  // Another error of the same call, and a lock that another run has.
  EXPECT_EQ(train("1", "s", "--steps 2", withFaults("FAULT_NO_LOCK=37")).code, 0);
  result = train("1", "s", "--steps 3", withFaults("FAULT_NO_LOCK=11"));
  EXPECT_EQ(result.code, 64) << result.text;
  EXPECT_NE(result.text.find("another run is using 's'; end it"), std::string::npos) << result.text;
}

// What .lock says is another process's word: it is printed, not believed.
TEST_F(Program, ALockWithoutANameIsALock) {
  const std::pair<std::string, const char *> contents[] = {
      {"", "using 's'; end it"},
      {std::string(5000, 'x'), "using 's'; end it"},
      {"h\nb\ns\n-5\n1\n\n", "using 's'; end it"},
      {"\x1b[31m\nb\ns\n7\n1\n\n", "process 7 of host '\\x1b[31m'; end it"}};
  ASSERT_EQ(train("1", "s", "--steps 2").code, 0);
  for (const auto &[content, words] : contents) {
    write(work + "/s/.lock", content);
    Result result = train("1", "s", "--steps 3", withFaults("FAULT_NO_LOCK=11"));
    EXPECT_EQ(result.code, 64) << result.text;
    EXPECT_NE(result.text.find(words), std::string::npos) << result.text;
  }
}

// The order of rows depends on the data files, so they are those of the checkpoint.
TEST_F(Program, DataThatHasChangedIsRefused) {
  std::string tokens = bytes("data.txt"), grown = tokens + tokens.substr(0, 50), other = tokens;
  other[1000] = static_cast<char>((other[1000] + 1) % vocab);
  ASSERT_EQ(train("2-full", "r", "--steps 9 --stop-after 3").code, 0);
  const std::pair<std::string, const char *> cases[] = {
      {grown, "'data.txt' has 2050 bytes (256 rows), not 2000 (249 rows)"},
      {other, "'data.txt' has other content"}};
  for (const auto &[content, words] : cases) {
    write(work + "/data.txt", content);
    Result result = train("2-full", "r", "--steps 9");
    EXPECT_EQ(result.code, 65) << result.text;
    EXPECT_EQ(count(result.text, words), 1u) << result.text;
    EXPECT_EQ(count(result.text, "pass --data-changed accept"), 1u) << result.text;
  }
  write(work + "/data.txt", tokens);
  Result result = run("2-full", "--data data.txt,data.txt --lr 0.05 --out r --steps 9");
  EXPECT_EQ(result.code, 65) << result.text;
  EXPECT_NE(result.text.find("it has 2 files, not 1"), std::string::npos) << result.text;
  // Another name of the same data.
  write(work + "/moved.txt", tokens);
  result = run("2-full", "--data moved.txt --lr 0.05 --out r --steps 9 --stop-after 5");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("'moved.txt' was 'data.txt'"), std::string::npos) << result.text;
  // What was accepted is what the next start compares with.
  write(work + "/data.txt", grown);
  result = train("2-full", "r", "--steps 9 --stop-after 7 --data-changed accept");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("the run goes on with row 60 of its order"), std::string::npos)
      << result.text;
  EXPECT_EQ(train("2-full", "r", "--steps 9").code, 0);
  EXPECT_EQ(train("2-full", "r", "--steps 9 --data-changed perhaps").code, 64);
}

TEST_F(Program, ACheckpointWithoutItsManifestIsNotPassedOverInSilence) {
  ASSERT_EQ(train("2-full", "r", "--steps 6 --save-every 3").code, 0);
  std::string before = bytes("r/metrics.jsonl");
  ASSERT_TRUE(removeTree(work + "/r/checkpoints/step-00000006/manifest.json"));
  // auto takes the checkpoint before it and prints a note; must is an error.
  Result must = train("2-full", "r", "--steps 9 --resume must");
  EXPECT_EQ(must.code, 65) << must.text;
  Result result = train("2-full", "r", "--steps 9 --stop-after 4");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("step-00000006' has no manifest.json; trying"), std::string::npos)
      << result.text;
  EXPECT_NE(result.text.find("at step 3"), std::string::npos) << result.text;
  // Without any checkpoint the run must not start again from step 0 in the same folder.
  ASSERT_EQ(train("2-full", "q", "--steps 3").code, 0);
  before = bytes("q/metrics.jsonl");
  ASSERT_TRUE(removeTree(work + "/q/checkpoints/step-00000003/manifest.json"));
  for (const char *how : {"auto", "must"}) {
    Result none = train("2-full", "q", std::string("--steps 3 --resume ") + how);
    EXPECT_EQ(none.code, 65) << none.text;
    EXPECT_NE(none.text.find("has no manifest.json"), std::string::npos);
  }
  EXPECT_EQ(train("2-full", "q", "--steps 3 --resume never").code, 64);
  EXPECT_EQ(bytes("q/metrics.jsonl"), before);
}

TEST_F(Program, FlagsOfTheOtherOptimizerAreWarnedOf) {
  Result result = train("1", "r", "--steps 1 --beta1 0.5 --momentum 0.5");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("warning: --"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("has no effect: the program was compiled with "
                             "--optimizer"),
            std::string::npos)
      << result.text;
  EXPECT_EQ(result.text.find("warning"), result.text.rfind("warning"));
}

TEST_F(Program, ValuesOfHyperParametersAreBounded) {
  for (const char *flags :
       {"--beta1 1", "--beta2 -0.1", "--eps nan", "--weight-decay 1e7", "--clip-grad-norm x"}) {
    Result result = train("1", "r", std::string("--steps 1 ") + flags);
    EXPECT_EQ(result.code, 64) << flags << ": " << result.text;
    EXPECT_NE(result.text.find("takes a number from 0 to"), std::string::npos) << result.text;
  }
  EXPECT_NE(train("1", "r", "--steps 1 --beta1 1").text.find("from 0 to below 1"),
            std::string::npos);
}

// Checkpoints that are written while training goes on have the bytes of those for which training
// waits.
TEST_F(Program, SavesInTheBackgroundGiveTheSameFiles) {
  const std::pair<const char *, const char *> cases[] = {
      {"2", "both"}, {"4-hybrid", "sharded"}, {"2-full-far", "full"}};
  for (const auto &[name, form] : cases) {
    std::string flags = std::string("--steps 4 --save-every 1 --keep 9 --checkpoint ") + form;
    Result waits = train(name, "waits", flags + " --async-save false");
    Result goes = train(name, "goes", flags + " --async-save true");
    ASSERT_EQ(waits.code, 0) << waits.text;
    ASSERT_EQ(goes.code, 0) << goes.text;
    EXPECT_EQ(waits.text.find("while training"), std::string::npos) << waits.text;
    EXPECT_NE(goes.text.find("saves: while training goes on; the copy of the state takes"),
              std::string::npos)
        << goes.text;
    EXPECT_NE(goes.text.find("saves: 3 while training went on"), std::string::npos) << goes.text;
    std::vector<std::string> folders = listFolder(work + "/waits/checkpoints");
    ASSERT_EQ(folders.size(), 4u);
    EXPECT_EQ(listFolder(work + "/goes/checkpoints").size(), 4u);
    for (const std::string &folder : folders)
      for (const std::string &file : listFolder(work + "/waits/checkpoints/" + folder))
        EXPECT_EQ(bytes("waits/checkpoints/" + folder + "/" + file),
                  bytes("goes/checkpoints/" + folder + "/" + file))
            << name << folder << "/" << file;
    EXPECT_EQ(bytes("waits/model.safetensors"), bytes("goes/model.safetensors"));
    removeTree(work + "/waits");
    removeTree(work + "/goes");
  }
}

// A save waits for the one before it. A signal's save is complete when the run ends.
TEST_F(Program, SavesDoNotOverlap) {
  std::string slow = "LD_PRELOAD=" SHALE_FAULTS " FAULT_SLOW_SYNC=50 ";
  Result result = train("2", "r", "--steps 9 --save-every 1 --keep 9 --async-save true",
                        slow + "BIGRAM_TERM=1:3");
  EXPECT_EQ(result.code, 75) << result.text;
  EXPECT_EQ(listFolder(work + "/r/checkpoints").size(), 4u) << result.text;
  result = train("2", "s", "--steps 4 --save-every 1 --keep 9 --async-save true", slow);
  EXPECT_EQ(result.code, 0) << result.text;
  // The saves of steps 2 and 3, and the last one, wait for the one before.
  EXPECT_NE(result.text.find("and 3 times training waited"), std::string::npos) << result.text;
}

TEST_F(Program, MemoryDecidesWhetherSavesAreInTheBackground) {
  std::string flags = "--steps 3 --save-every 1 ";
  Result result = train("1-limited", "r", flags);
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("saves: training waits for them; a copy of the state would take"),
            std::string::npos)
      << result.text;
  EXPECT_NE(result.text.find("of the 1 bytes of --memory-limit, the plan leaves 0"),
            std::string::npos)
      << result.text;
  result = train("1-limited", "s", flags + "--async-save true");
  EXPECT_EQ(result.code, 78) << result.text;
  EXPECT_NE(result.text.find("use --async-save false"), std::string::npos) << result.text;
  EXPECT_FALSE(exists(work + "/s/checkpoints"));
}

// The third failure in a row ends the run, and the last save must succeed, as for saves for which
// training waits.
TEST_F(Program, FailuresOfBackgroundSavesSurfaceAtTheNextSave) {
  std::string limit = "bash -c 'ulimit -f 4; exec \"$@\"' x";
  std::string flags = "--data data.txt --save-every 1 --async-save true --out r --steps ";
  Result result = run("2-full", flags + "9", limit);
  EXPECT_EQ(result.code, 74) << result.text;
  EXPECT_EQ(metrics("r").size(), 4u)
      << result.text; // the save of step 3 fails before that of step 4
  EXPECT_TRUE(listFolder(work + "/r/checkpoints").empty());
}

TEST_F(Program, SpikesAreLeftOutAndCounted) {
  std::string flags = "--steps 30 --skip-spikes 3";
  for (const char *name : {"1", "2-full"}) {
    std::string out = std::string("once-") + name;
    Result result = train(name, out, flags, "BIGRAM_SPIKE=25");
    ASSERT_EQ(result.code, 0) << result.text;
    for (const char *text : {"step 26 skipped: its gradient norm", "spikes: 1 of 30 updates"})
      EXPECT_NE(result.text.find(text), std::string::npos) << text << "\n" << result.text;
    std::vector<json> lines = metrics(out);
    ASSERT_EQ(lines.size(), 30u);
    for (int s = 0; s < 30; ++s)
      EXPECT_EQ(lines[s]["skipped"], s == 25) << s;
  }
  // Resumed before and after the spike, the run decides alike.
  for (const char *stop : {"22", "26"}) {
    std::string out = std::string("parts-") + stop;
    std::string part = flags + " --save-every 25 --stop-after ";
    ASSERT_EQ(train("2-full", out, part + stop, "BIGRAM_SPIKE=25").code, 0);
    // The state does not change in the step that is left out.
    if (std::string checkpoints = out + "/checkpoints/step-000000"; stop == std::string("26"))
      EXPECT_EQ(bytes(checkpoints + "25/shard-00000.safetensors"),
                bytes(checkpoints + "26/shard-00000.safetensors"));
    ASSERT_EQ(train("2-full", out, flags, "BIGRAM_SPIKE=25").code, 0);
    EXPECT_EQ(bytes(out + "/model.safetensors"), bytes("once-2-full/model.safetensors")) << stop;
    for (std::string file : {"manifest.json", "shard-00001.safetensors"})
      EXPECT_EQ(bytes(out + "/checkpoints/step-00000030/" + file),
                bytes("once-2-full/checkpoints/step-00000030/" + file))
          << stop;
  }
  // Off, the spike is applied; and too small a factor is refused.
  Result off = train("1", "off", "--steps 30", "BIGRAM_SPIKE=25");
  EXPECT_EQ(off.code, 0);
  EXPECT_EQ(off.text.find("skipped"), std::string::npos);
  EXPECT_EQ(train("1", "small", "--steps 30 --skip-spikes 0.5").code, 64);
}

TEST_F(Program, TheStateIsSavedOnFailure) {
  // Not finite: on any number of ranks.
  Result result = train("2-full", "r", "--steps 10 --save-on-failure", "BIGRAM_NAN=4");
  EXPECT_EQ(result.code, 93) << result.text;
  EXPECT_EQ(listFolder(work + "/r/checkpoints"), std::vector<std::string>{"step-00000004"});
  ASSERT_EQ(train("2-full", "r", "--steps 10").code, 0);
  ASSERT_EQ(train("2-full", "s", "--steps 10").code, 0);
  EXPECT_EQ(bytes("r/model.safetensors"), bytes("s/model.safetensors"));
  // Bad data: on one rank.
  std::string tokens = bytes("data.txt");
  tokens[12 * 8 * 3 + 5] = 99; // of the fourth step
  write(work + "/bad.txt", tokens);
  result = run("1", "--data bad.txt --no-shuffle --steps 6 --save-on-failure --out bad");
  EXPECT_EQ(result.code, 65) << result.text;
  EXPECT_EQ(listFolder(work + "/bad/checkpoints"), std::vector<std::string>{"step-00000003"});
}

// The step is repeated to find the cause. BIGRAM_NAN changes a metric that no call has written.
TEST_F(Program, AFailedStepIsRepeated) {
  for (const char *name : {"1", "2-full", "1-far"}) {
    Result result = train(name, name, "--steps 10", "BIGRAM_NAN=4 BIGRAM_TELL=1");
    EXPECT_EQ(result.code, 93) << result.text;
    size_t first = result.text.find("step 4 enable 0");
    ASSERT_NE(first, std::string::npos) << result.text;
    EXPECT_NE(result.text.find("step 4 enable 0", first + 1), std::string::npos) << result.text;
  }
}

TEST_F(Program, WeightsBesideTheProgram) {
  auto copy = [&](const std::string &from, const std::string &to) {
    ASSERT_EQ(system(("cp " + from + " " + work + "/" + to).c_str()), 0);
  };
  copy(folder() + "/bigram-1", "moved");
  EXPECT_EQ(system(("cd " + work +
                    " && mkdir x && cd x && ../moved --data ../data.txt "
                    "--steps 1 2>/dev/null; test $? = 66")
                       .c_str()),
            0);
  write(work + "/bigram-weights.bin", "too short");
  EXPECT_EQ(system(("cd " + work +
                    "/x && ../moved --data ../data.txt --steps 1 2>/dev/null; "
                    "test $? = 65")
                       .c_str()),
            0);
  copy(folder() + "/bigram-weights.bin", "bigram-weights.bin");
  EXPECT_EQ(
      system(("cd " + work + "/x && ../moved --data ../data.txt --steps 1 >/dev/null").c_str()), 0);
}

TEST_F(Program, DiskTrouble) {
  write(work + "/file", "");
  EXPECT_EQ(train("2-full", "file/r", "--steps 2").code, 74);
  // A save that the file size limit cuts: a warning, and 74 at the last one.
  Result result = run("2-full", "--steps 3 --save-every 2 --data data.txt --out full",
                      "bash -c 'ulimit -f 4; exec \"$@\"' x");
  EXPECT_EQ(result.code, 74) << result.text;
  EXPECT_NE(result.text.find("training goes on"), std::string::npos) << result.text;
  EXPECT_TRUE(listFolder(work + "/full/checkpoints").empty());
}

TEST_F(Program, EmptyNamesAre64) {
  for (const char *flag :
       {"--init", "--data", "--eval-data", "--resume", "--out", "--verify-checkpoint"}) {
    Result result = train("1", "r", std::string("--steps 1 ") + flag + " ''");
    EXPECT_EQ(result.code, 64) << flag << ": " << result.text;
    EXPECT_NE(result.text.find(std::string(flag) + " is empty"), std::string::npos) << result.text;
  }
  EXPECT_FALSE(exists(work + "/r"));
}

TEST_F(Program, WhatIsInTheWayIsNoticedAtTheStart) {
  makeFolders(work + "/r/model.safetensors");
  Result result = train("1", "r", "--steps 1");
  EXPECT_EQ(result.code, 74) << result.text;
  EXPECT_NE(result.text.find("r/model.safetensors' is a folder"), std::string::npos) << result.text;
  EXPECT_EQ(listFolder(work + "/r").size(), 2u); // and the lock
  makeFolders(work + "/s");
  write(work + "/s/checkpoints", "");
  EXPECT_EQ(train("1", "s", "--steps 1").code, 74);
}

TEST_F(Program, ClosedStreamsDoNotReceiveFiles) {
  for (const char *closed : {">&-", "2>&-", "<&- >&- 2>&-"}) {
    Result result =
        run("1", "--data data.txt --steps 3 --out r", format("bash -c 'exec \"$@\" %s' x", closed));
    EXPECT_EQ(result.code, 0) << closed;
    EXPECT_EQ(bytes("r/.lock"), "") << closed;
    EXPECT_EQ(metrics("r").size(), 3u) << closed;
    removeTree(work + "/r");
  }
}

/// Waits for a condition; false after 20 seconds.
bool comes(const std::function<bool()> &condition) {
  for (int i = 0; i < 2000 && !condition(); ++i)
    usleep(10000);
  return condition();
}

TEST_F(Program, ALostFolderIsMadeAgain) {
  std::string out = work + "/r", log = work + "/text", pid = work + "/pid";
  std::thread runner([&] {
    int status = system(("cd " + work + " && { " + folder() +
                         "/bigram-2-full --data data.txt --steps 100000000 " +
                         "--out r > text 2>&1 & echo $! > pid; wait $!; echo $? > code; }")
                            .c_str());
    EXPECT_EQ(status, 0);
  });
  auto recorded = [&] {
    return exists(out + "/metrics.jsonl") && InputFile(out + "/metrics.jsonl").size() > 0;
  };
  EXPECT_TRUE(comes(recorded));
  EXPECT_TRUE(removeTree(out) || removeTree(out));
  EXPECT_TRUE(comes(recorded));
  kill(std::atoi(readText(pid, 100).c_str()), SIGTERM);
  runner.join();
  std::string text = readText(log, 1 << 30);
  EXPECT_EQ(bytes("code"), "75\n") << text.substr(0, 2000);
  EXPECT_NE(text.find("was removed during the run"), std::string::npos);
  EXPECT_TRUE(exists(out + "/.lock"));
  EXPECT_EQ(listFolder(out + "/checkpoints").size(), 1u);
}

TEST_F(Program, MetricsThatFindNoRoomDoNotEndTheRun) {
  // 8 KiB per file: enough for weights and checkpoints, not for the lines of 60 steps.
  Result result =
      run("2-full", "--steps 60 --data data.txt --out r", "bash -c 'ulimit -f 8; exec \"$@\"' x");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("metrics wait in memory"), std::string::npos) << result.text;
  EXPECT_NE(result.text.find("lacks the last"), std::string::npos) << result.text;
  EXPECT_TRUE(exists(work + "/r/model.safetensors"));
}

TEST_F(Program, FilesThatAreNoneDoNotHangIt) {
  for (const char *name : {"data.bin", "init.safetensors"})
    ASSERT_EQ(mkfifo((work + "/" + name).c_str(), 0600), 0);
  EXPECT_EQ(run("1", "--data data.bin --steps 1").code, 65);
  EXPECT_EQ(train("1", "r", "--steps 1 --init init.safetensors").code, 65);
  ASSERT_EQ(train("2-full", "r", "--steps 4 --save-every 2").code, 0);
  // A newest checkpoint whose manifest is a FIFO, or absurd, is passed over.
  std::string manifest = work + "/r/checkpoints/step-00000004/manifest.json",
              good = bytes("r/checkpoints/step-00000004/manifest.json");
  std::string deep(1'000'000, '[');
  for (int kind = 0; kind < 2; ++kind) {
    unlink(manifest.c_str());
    if (kind == 0)
      ASSERT_EQ(mkfifo(manifest.c_str(), 0600), 0);
    else
      write(manifest, deep);
    Result result = train("2-full", "r", "--steps 6 --stop-after 3");
    EXPECT_EQ(result.code, 0) << result.text;
    EXPECT_NE(result.text.find("trying the checkpoint before it"), std::string::npos)
        << result.text;
    EXPECT_NE(result.text.find("at step 2"), std::string::npos) << result.text;
    removeTree(work + "/r/checkpoints/step-00000003");
  }
}

TEST_F(Program, ADamagedCheckpointIsNotKeptInPlaceOfANewOne) {
  ASSERT_EQ(train("1", "r", "--steps 4 --save-every 2").code, 0);
  write(work + "/r/checkpoints/step-00000004/manifest.json", "damaged");
  // Saved at step 3, before the damaged one: of two checkpoints, one is kept.
  ASSERT_EQ(train("1", "r", "--steps 6 --stop-after 3 --keep 1").code, 0);
  Result result = train("1", "r", "--steps 6 --stop-after 3 --keep 1");
  EXPECT_EQ(result.code, 0) << result.text;
  EXPECT_NE(result.text.find("at step 3"), std::string::npos) << result.text;
}

TEST_F(Program, VerifyCheckpointNamesFileAndBytes) {
  ASSERT_EQ(train("2-full", "r", "--steps 4 --save-every 2 --checkpoint both --file-size 5KB").code,
            0);
  Result whole = run("1", "--verify-checkpoint r");
  EXPECT_EQ(whole.code, 0) << whole.text;
  EXPECT_NE(whole.text.find("step-00000002: step 2, "), std::string::npos) << whole.text;
  EXPECT_NE(whole.text.find("step-00000004: step 4, "), std::string::npos) << whole.text;
  for (const char *name : {"shard-00001.safetensors", "optimizer.safetensors.index.json"}) {
    std::string path = std::string("r/checkpoints/step-00000004/") + name, good = bytes(path),
                bad = good;
    bad[bad.size() / 2] ^= 1;
    write(work + "/" + path, bad);
    Result result = run("1", "--verify-checkpoint r");
    EXPECT_EQ(result.code, 65) << result.text;
    EXPECT_NE(result.text.find(path + "' is damaged: bytes "), std::string::npos) << result.text;
    EXPECT_EQ(run("1", "--verify-checkpoint r/checkpoints/step-00000002").code, 0);
    write(work + "/" + path, good);
  }
  EXPECT_EQ(run("1", "--verify-checkpoint none").code, 66);
}

TEST_F(Program, AModelFolderGivesAwayNothing) {
  ASSERT_EQ(train("1", "given", "--steps 1").code, 0);
  makeFolders(work + "/model");
  auto link = [&](const char *target, const char *name) {
    unlink((work + "/model/" + name).c_str());
    return symlink(target, (work + "/model/" + name).c_str());
  };
  ASSERT_EQ(rename((work + "/given/model.safetensors").c_str(),
                   (work + "/model/model.safetensors").c_str()),
            0);
  write(work + "/secret", "password");
  ASSERT_EQ(link("../secret", "config.json"), 0);
  Result result = train("1", "r", "--steps 1 --init model");
  EXPECT_EQ(result.code, 65) << result.text;
  EXPECT_NE(
      result.text.find("model/config.json' is a link out of its folder, to '" + work + "/secret'"),
      std::string::npos)
      << result.text;
  unlink((work + "/model/config.json").c_str());
  write(work + "/model/config.json", "{}");
  ASSERT_EQ(chmod((work + "/model/config.json").c_str(), 0600), 0);
  EXPECT_EQ(train("1", "r", "--steps 1 --init model").code, 0);
  struct stat info;
  ASSERT_EQ(stat((work + "/r/config.json").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(Program, LeftoversOfAKilledRunAreRemoved) {
  makeFolders(work + "/r/checkpoints/step-00000009.tmp-new");
  for (const char *name : {"r/metrics.jsonl.shale-tmp-1", "r/model.safetensors.shale-tmp-1",
                           "r/report.html.shale-tmp-1"})
    write(work + "/" + name, "");
  makeFolders(work + "/tmp");
  ASSERT_EQ(train("2-full", "r", "--steps 1", "TMPDIR=tmp").code, 0);
  std::vector<std::string> left = listFolder(work + "/r");
  EXPECT_EQ(left.size(), 5u) << ::testing::PrintToString(left);
  EXPECT_EQ(listFolder(work + "/r/checkpoints"), std::vector<std::string>{"step-00000001"});
  EXPECT_TRUE(listFolder(work + "/tmp").empty());
}

TEST_F(Program, TwoRunsDoNotShareAFolder) {
  ASSERT_EQ(train("1", "r", "--steps 1").code, 0);
  int lock = open((work + "/r/.lock").c_str(), O_RDWR);
  ASSERT_EQ(flock(lock, LOCK_EX), 0);
  Result result = train("1", "r", "--steps 3");
  close(lock);
  EXPECT_EQ(result.code, 64) << result.text;
  EXPECT_EQ(train("1", "r", "--steps 3").code, 0);
}

/// Mean loss over the labels of `tokens` in windows of eight, as the weights of
/// `out` give it; counts the labels.
double lossOf(const std::string &weights, const std::string &tokens, int &labels) {
  SafetensorsReader reader(weights);
  std::vector<float> weight(vocab * vocab), bias(vocab), scale(7);
  auto read = [&](const char *name, std::vector<float> &values) {
    reader.file().readAt(reader.find(name)->offset, values.data(), values.size() * 4);
  };
  read("emb.weight", weight);
  read("bias", bias);
  read("frozen.scale", scale);
  double total = 0;
  labels = 0;
  for (size_t window = 0; window + 9 <= tokens.size(); window += 8)
    for (size_t i = window; i < window + 8; ++i, ++labels) {
      double sum = 0, wanted = 0;
      for (int j = 0; j < vocab; ++j) {
        double logit = weight[tokens[i] * vocab + j] + bias[j] * scale[j % 7];
        sum += std::exp(logit);
        wanted = j == tokens[i + 1] ? logit : wanted;
      }
      total += std::log(sum) - wanted;
    }
  return total / labels;
}

TEST_F(Program, EvalOnlyTakesEveryRowOnceAndWritesNothing) {
  // 249 windows: 20 micro-batches of 12 rows, and 9 rows.
  ASSERT_EQ(train("2-full", "r", "--steps 5").code, 0);
  std::string before = bytes("r/metrics.jsonl");
  std::string tokens = bytes("data.txt");
  int labels = 0;
  double loss = lossOf(work + "/r/model.safetensors", tokens, labels);
  ASSERT_EQ(labels, 249 * 8);
  for (const char *name : {"1", "2-full", "3-full", "4-hybrid"}) {
    Result result = run(name, "--eval-only --data data.txt --out r");
    ASSERT_EQ(result.code, 0) << result.text;
    EXPECT_NE(result.text.find("eval at step 5 | loss"), std::string::npos) << result.text;
    size_t at = result.text.rfind('\n', result.text.size() - 2);
    json object = json::parse(result.text.substr(at + 1));
    EXPECT_NEAR(object["loss"], loss, 1e-5) << name;
    EXPECT_EQ(object["labels"], labels);
    EXPECT_NEAR(object["perplexity"], std::exp(loss), 1e-3);
    EXPECT_EQ(object["micro_batches"], 21);
    EXPECT_EQ(object["step"], 5);
  }
  EXPECT_EQ(bytes("r/metrics.jsonl"), before);
  // A loss that rows without labels change: the 9 rows that fill no micro-batch are left out.
  write(work + "/whole.txt", tokens.substr(0, 240 * 8 + 1));
  write(work + "/few.txt", tokens.substr(0, 9 * 8 + 1));
  for (const char *name : {"1", "3-full"}) {
    auto evaluate = [&](const std::string &data) {
      return run(name, "--eval-only --out r --data " + data, "BIGRAM_AUX=1");
    };
    Result rest = evaluate("data.txt"), whole = evaluate("whole.txt"), few = evaluate("few.txt");
    ASSERT_EQ(rest.code, 0) << rest.text;
    EXPECT_EQ(count(rest.text, "the last 9 rows of 'data.txt' fill no micro-batch"), 1u)
        << rest.text;
    EXPECT_EQ(whole.text.find("fill no micro-batch"), std::string::npos) << whole.text;
    auto objectOf = [](const std::string &text) {
      return json::parse(text.substr(text.rfind("\n{") + 1));
    };
    EXPECT_EQ(objectOf(rest.text)["loss"], objectOf(whole.text)["loss"]);
    EXPECT_EQ(objectOf(rest.text)["labels"], 240 * 8);
    EXPECT_EQ(few.code, 65) << few.text;
    EXPECT_EQ(count(few.text, "has 9 rows, fewer than the 12 of one micro-batch"), 1u) << few.text;
  }
  // Initial weights, given weights, and a folder that is not made.
  Result given = run("2-full", "--eval-only --eval-data data.txt --out none "
                               "--init r/model.safetensors --eval-batches 2");
  ASSERT_EQ(given.code, 0) << given.text;
  EXPECT_NE(given.text.find("\"labels\":192"), std::string::npos) << given.text;
  given = run("2-full", "--eval-only --data data.txt --out none --eval-batches 2");
  EXPECT_NE(given.text.find("no checkpoint in 'none': evaluating the model's initial weights"),
            std::string::npos)
      << given.text;
  EXPECT_FALSE(exists(work + "/none"));
  ASSERT_EQ(train("1", "zero", "--steps 0").code, 0);
  loss = lossOf(work + "/zero/model.safetensors", tokens, labels);
  // Given weights are evaluated, not the checkpoint of the output's folder.
  given = run("1", "--eval-only --data data.txt --out r --init "
                   "zero/model.safetensors");
  size_t at = given.text.rfind('\n', given.text.size() - 2);
  EXPECT_NEAR(json::parse(given.text.substr(at + 1))["loss"], loss, 1e-5);
  EXPECT_EQ(run("1", "--eval-only --out r").code, 64);
  EXPECT_EQ(run("1", "--eval-only --data none.bin --out r").code, 66);
  EXPECT_EQ(run("1", "--eval-only --data data.txt --out r --resume must --init "
                     "zero/model.safetensors")
                .code,
            64);
}

TEST_F(Program, AFinishedRunIsNotTakenForOneWithOtherFlags) {
  ASSERT_EQ(train("2-full", "r", "--steps 4").code, 0);
  Result same = train("2-full", "r", "--steps 4");
  EXPECT_EQ(same.code, 0) << same.text;
  EXPECT_NE(same.text.find("nothing to train"), std::string::npos);
  std::string before = bytes("r/model.safetensors");
  Result other = train("2-full", "r", "--steps 4 --lr 0.01 --schedule cosine");
  EXPECT_EQ(other.code, 64) << other.text;
  for (const char *word : {"--lr 0.01 (was 0.05)",
                           "--schedule cosine (was "
                           "constant)",
                           "pass another --out"})
    EXPECT_NE(other.text.find(word), std::string::npos) << other.text;
  EXPECT_EQ(train("2-full", "r", "--steps 3").code, 64);
  write(work + "/other.txt", std::string(300, '\3'));
  EXPECT_EQ(run("2-full", "--data other.txt --steps 4 --lr 0.05 --out r").code, 64);
  EXPECT_EQ(bytes("r/model.safetensors"), before);
  // Another spelling of the same path is no difference, and neither is --stop-after.
  EXPECT_EQ(run("2-full", "--data ./data.txt --steps 4 --lr 0.05 --out r").code, 0);
  EXPECT_EQ(train("2-full", "r", "--steps 4 --stop-after 2").code, 0);
  // A resumed run prints the differences.
  Result more = train("2-full", "r", "--steps 6 --lr 0.01");
  EXPECT_EQ(more.code, 0) << more.text;
  EXPECT_NE(more.text.find("--lr 0.01 (was 0.05)"), std::string::npos);
  EXPECT_NE(more.text.find("--steps 6 (was 4)"), std::string::npos);
  // More --steps change no earlier step, unless the learning rate depends on them.
  Result longer = train("2-full", "r", "--steps 7 --lr 0.01");
  EXPECT_EQ(longer.code, 0) << longer.text;
  EXPECT_EQ(longer.text.find("(was"), std::string::npos) << longer.text;
  ASSERT_EQ(train("2-full", "cosine", "--steps 4 --schedule cosine").code, 0);
  Result later = train("2-full", "cosine", "--steps 6 --schedule cosine");
  EXPECT_NE(later.text.find("--steps 6 (was 4)"), std::string::npos) << later.text;
}

TEST_F(Program, EpochsAndSeveralFiles) {
  // Windows of eight and the next token: 124 and 125 of these two, 249 of both in one.
  std::string tokens = bytes("data.txt");
  makeFolders(work + "/parts");
  write(work + "/one.txt", tokens.substr(0, 993));
  write(work + "/two.txt", tokens.substr(992));
  Result whole = train("1", "whole", "--epochs 2 --no-shuffle");
  ASSERT_EQ(whole.code, 0) << whole.text;
  ASSERT_EQ(metrics("whole").size(), 2 * 249 / 12);
  Result parts = run("2-full", "--data one.txt,two.txt --lr 0.05 --epochs 2 "
                               "--no-shuffle --out parts-run");
  ASSERT_EQ(parts.code, 0) << parts.text;
  std::vector<json> a = metrics("whole"), b = metrics("parts-run");
  ASSERT_EQ(b.size(), a.size());
  for (size_t s = 0; s < a.size(); ++s)
    EXPECT_NEAR(a[s]["loss"], b[s]["loss"], 2e-5) << s;
  // A folder of .bin files, by name.
  auto wide = [&](const std::string &name, const std::string &bytes) {
    std::string text;
    for (char byte : bytes)
      text += std::string{byte, '\0'};
    write(work + "/parts/" + name, text);
  };
  wide("b.bin", tokens.substr(992));
  wide("a.bin", tokens.substr(0, 993));
  Result folder = run("1", "--data parts --lr 0.05 --epochs 2 --no-shuffle --out f");
  ASSERT_EQ(folder.code, 0) << folder.text;
  EXPECT_EQ(bytes("f/model.safetensors"), bytes("whole/model.safetensors"));
  EXPECT_EQ(train("1", "x", "--epochs 2 --steps 3").code, 64);
  EXPECT_EQ(train("1", "x", "--epochs 0").code, 64);
  EXPECT_EQ(train("1", "x", "--epochs 0.01").code, 65);
  EXPECT_EQ(train("1", "x", "--epochs 1 --warmup 21").code, 64);
  write(work + "/empty.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
  EXPECT_EQ(run("1", "--data data.txt,empty.safetensors").code, 65);
}

TEST_F(Program, ATerminalGetsABarAndFilesGetLines) {
  // script(1) gives the program a terminal; one that is 100 columns wide.
  auto onTerminal = [&](const std::string &flags, const std::string &environment) {
    return run("1", "x",
               "script -qec \"stty cols 100; " + environment + " " + folder() +
                   "/bigram-1 --data data.txt " + flags + "\" /dev/null #");
  };
  Result bar = onTerminal("--steps 30 --out bar --eval-data data.txt", "TERM=xterm");
  ASSERT_EQ(bar.code, 0) << bar.text;
  EXPECT_NE(bar.text.find(" 30/30 | loss "), std::string::npos) << bar.text;
  EXPECT_NE(bar.text.find("0:00 left"), std::string::npos);
  EXPECT_NE(bar.text.find("\033[32m"), std::string::npos);
  EXPECT_EQ(bar.text.find("step 1/30"), std::string::npos);
  // The bar is erased before other output.
  EXPECT_NE(bar.text.find("\r\033[Keval 30 | loss"), std::string::npos) << bar.text;
  size_t longest = 0;
  for (size_t at = 0, end; at < bar.text.size(); at = end + 1) {
    end = std::min(bar.text.find_first_of("\r\n", at), bar.text.size());
    if (bar.text.find(" | loss ", at) < end)
      longest = std::max(longest, end - at - std::strlen("\033[K\033[32m\033[0m"));
  }
  EXPECT_LT(longest, 100u);
  Result plain = onTerminal("--steps 3 --out nocolor", "TERM=xterm NO_COLOR=1");
  EXPECT_NE(plain.text.find("\r\033[K[="), std::string::npos) << plain.text;
  EXPECT_EQ(plain.text.find("\033[32m"), std::string::npos);
  Result dumb = onTerminal("--steps 3 --out dumb", "TERM=dumb");
  EXPECT_NE(dumb.text.find("step 3/3 | loss "), std::string::npos) << dumb.text;
  EXPECT_EQ(dumb.text.find('\033'), std::string::npos);
  Result file = train("1", "file", "--steps 3");
  EXPECT_NE(file.text.find("step 3/3 | loss "), std::string::npos);
  EXPECT_EQ(file.text.find('\033'), std::string::npos);
}

/// CRC-32C bit by bit, by its polynomial.
uint32_t crc32c(const std::string &bytes) {
  uint32_t crc = ~0u;
  for (unsigned char byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      bool carry = (crc ^ (byte >> bit)) & 1;
      crc = crc >> 1 ^ (carry ? 0x82f63b78u : 0);
    }
  return ~crc;
}

TEST_F(Program, TensorBoardsFilesHoldTheMetrics) {
  ASSERT_EQ(crc32c("123456789"), 0xe3069283u); // the check value of the CRC
  ASSERT_EQ(train("2-full", "r", "--steps 3 --tensorboard --stop-after 2").code, 0);
  ASSERT_EQ(train("2-full", "r", "--steps 3 --tensorboard").code, 0);
  std::vector<std::string> files;
  for (const std::string &name : listFolder(work + "/r"))
    if (name.compare(0, 20, "events.out.tfevents.") == 0)
      files.push_back(name);
  std::sort(files.begin(), files.end(), [](const auto &x, const auto &y) {
    return x.substr(x.rfind('.')) < y.substr(y.rfind('.'));
  });
  ASSERT_EQ(files.size(), 2u);
  std::vector<json> lines = metrics("r");
  size_t step = 0;
  for (size_t f = 0; f < 2; ++f) {
    std::string text = bytes("r/" + files[f]);
    size_t at = 0, records = 0;
    auto masked = [](uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; };
    for (; at < text.size(); ++records) {
      uint64_t length = 0;
      uint32_t crcs[2];
      ASSERT_LE(at + 12, text.size());
      std::memcpy(&length, &text[at], 8);
      std::memcpy(&crcs[0], &text[at + 8], 4);
      ASSERT_LE(at + 16 + length, text.size());
      std::memcpy(&crcs[1], &text[at + 12 + length], 4);
      EXPECT_EQ(crcs[0], masked(crc32c(text.substr(at, 8))));
      std::string event = text.substr(at + 12, length);
      EXPECT_EQ(crcs[1], masked(crc32c(event)));
      size_t tag = event.find("\x0a\x04loss\x15");
      if (tag != std::string::npos) {
        float loss = 0;
        std::memcpy(&loss, &event[tag + 7], 4);
        EXPECT_EQ(loss, lines[step]["loss"].get<float>());
        EXPECT_EQ(event[10], static_cast<char>(step));
        ++step;
      }
      at += 16 + length;
    }
    // The version, the steps, and a start mark where the run resumed.
    EXPECT_EQ(records, f == 0 ? 3u : 3u);
  }
  EXPECT_EQ(step, 3u);
}

TEST_F(Program, TheSlowestRankIsKnown) {
  // Rank 1 sleeps for at least 0.4 s in step 3, in which rank 0 waits for it.
  Result result =
      train("2-full", "r", "--steps 6 --prometheus r.prom", "BIGRAM_HANG=1:3 BIGRAM_PAUSE=400");
  ASSERT_EQ(result.code, 0) << result.text;
  std::vector<json> lines = metrics("r");
  ASSERT_EQ(lines.size(), 6u);
  for (const json &line : lines) {
    std::vector<double> seconds = line["rank_seconds"];
    ASSERT_EQ(seconds.size(), 2u);
    EXPECT_EQ(line["slowest_rank"], seconds[1] > seconds[0] ? 1 : 0);
    EXPECT_EQ(line["slowest_rank_seconds"], std::max(seconds[0], seconds[1]));
    EXPECT_LE(seconds[0],
              1.001 * line["tokens"].get<double>() / line["tokens_per_s"].get<double>());
  }
  EXPECT_EQ(lines[3]["slowest_rank"], 1);
  EXPECT_GE(lines[3]["rank_seconds"][1], 0.4);
  EXPECT_LT(lines[3]["rank_seconds"][0], 0.4);
  std::regex summary("slowest rank: rank 1 \\(host \\S+, pid \\d+\\): [0-9.]+ ms per step");
  EXPECT_TRUE(std::regex_search(result.text, summary)) << result.text;
  EXPECT_NE(bytes("r/report.html").find("slowest rank"), std::string::npos);
  std::string state = bytes("r.prom");
  for (const char *part : {"shale_running{run=\"r\"} 0\n", "shale_step{run=\"r\"} 6\n",
                           "shale_rank_seconds{run=\"r\",rank=\"1\"} "})
    EXPECT_NE(state.find(part), std::string::npos) << state;
  // One rank has nobody to wait for. A run that fails is over, too.
  ASSERT_EQ(train("1", "one", "--steps 2").code, 0);
  EXPECT_FALSE(metrics("one")[1].contains("slowest_rank"));
  EXPECT_EQ(train("2-full", "s", "--steps 6 --prometheus s.prom", "BIGRAM_NAN=2").code, 93);
  EXPECT_NE(bytes("s.prom").find("shale_running{run=\"s\"} 0\n"), std::string::npos);
  EXPECT_EQ(train("2-full", "t", "--steps 6 --prometheus none/t.prom").code, 74);
  EXPECT_FALSE(exists(work + "/t/metrics.jsonl"));
}

TEST_F(Program, AReportDrawsWhatWasMeasured) {
  ASSERT_EQ(train("2-full", "r", "--steps 8 --eval-data data.txt --eval-every 4").code, 0);
  std::string html = bytes("r/report.html");
  for (const char *name :
       {"bigram.onnx", "loss", "gradient norm", "learning rate", "tokens a second",
        "memory of rank 0", "done, at step 8 of 8", "replica=1,fsdp=2", "data.txt"})
    EXPECT_NE(html.find(name), std::string::npos) << name;
  auto count = [&](const std::string &what) {
    size_t n = 0;
    for (size_t at = 0; (at = html.find(what, at)) != std::string::npos; ++at)
      ++n;
    return n;
  };
  EXPECT_EQ(count("<svg"), 5u);
  EXPECT_EQ(count("<circle"), 2u); // evaluations
  size_t line = html.find("class=\"curve\" points=\"");
  ASSERT_NE(line, std::string::npos);
  std::string points = html.substr(line + 22, html.find('"', line + 22) - line - 22);
  EXPECT_EQ(std::count(points.begin(), points.end(), ','), 8);
  EXPECT_EQ(html.find("http"), std::string::npos); // no external resources
  ASSERT_EQ(train("2-full", "n", "--steps 10", "BIGRAM_NAN=4").code, 93);
  html = bytes("n/report.html");
  EXPECT_NE(html.find("not finite"), std::string::npos);
}

TEST_F(Program, UtilisationIsOfTheRateThatIsSaid) {
  ASSERT_EQ(train("2-full", "r", "--steps 2 --peak-tflops 0.001").code, 0);
  for (const json &line : metrics("r")) {
    double seconds = 96 / line["tokens_per_s"].get<double>();
    double tflops = 6.0 * 33 * 33 * 6 / seconds * 1e-12; // flops_per_step of Bigram.cpp
    EXPECT_NEAR(line["tflops"].get<double>() / tflops, 1, 1e-5);
    EXPECT_NEAR(line["mfu"].get<double>() / (tflops / 0.001), 1, 1e-5);
  }
  ASSERT_EQ(train("1", "s", "--steps 1").code, 0);
  EXPECT_FALSE(metrics("s")[0].contains("mfu"));
  EXPECT_EQ(train("1", "s", "--steps 1 --peak-tflops -1").code, 64);
}

TEST_F(Program, EvaluatesAndKeepsTwoCheckpoints) {
  Result result = train("2-full", "r",
                        "--steps 6 --save-every 1 --eval-data data.txt "
                        "--eval-every 2 --eval-batches 3");
  ASSERT_EQ(result.code, 0) << result.text;
  std::vector<json> lines = metrics("r");
  for (int s = 0; s < 6; ++s)
    EXPECT_EQ(lines[s].contains("eval_loss"), s % 2 == 1) << s;
  EXPECT_EQ(listFolder(work + "/r/checkpoints").size(), 2u);
}

} // namespace
