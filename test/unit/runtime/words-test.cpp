// The program's answers to words of other trainers, and its guesses.
#include "runtime/program/ForeignWords.h"
#include "runtime/program/Words.h"

#include <fstream>
#include <gtest/gtest.h>

using namespace shale::rt;

namespace {
/// A program with AdamW.
bool isOwn(const std::string &name) {
  return isTrainFlag(name) || name == "beta1" || name == "beta2" || name == "eps" ||
         name == "weight-decay";
}

TEST(Words, OfOtherTrainersAreAnswered) {
  std::ifstream file(SHALE_WORDS);
  std::string line;
  int words = 0;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#')
      continue;
    std::string word = line.substr(line.find(' ') + 1);
    ++words;
    if (isOwn(plainWord(word)))
      continue;
    std::string answer = answerToFlag("--" + word, isOwn);
    EXPECT_NE(answer, "") << line;
    // What is compiled in names a flag.
    const std::string compiled = "shalec and ";
    size_t at = answer.find(compiled);
    if (at != std::string::npos) {
      EXPECT_EQ(answer.compare(at + compiled.size(), 2, "--"), 0) << line << ": " << answer;
    }
  }
  EXPECT_GT(words, 3000);
}

TEST(Words, OfASectionMeanWhatTheSectionSays) {
  auto answer = [](const char *word) { return answerToFlag(word, isOwn); };
  EXPECT_NE(answer("--trl.epsilon").find("no step samples texts"), std::string::npos);
  EXPECT_NE(answer("--optimizer.lr").find("use --lr"), std::string::npos);
  EXPECT_NE(answer("--validator.steps").find("use --eval-batches"), std::string::npos);
  EXPECT_NE(answer("--zenflow.offload").find("--offload optimizer"), std::string::npos);
  EXPECT_NE(answer("--my.some_lora_rank=8").find("adapters"), std::string::npos);
  EXPECT_NE(answer("--optimizer.params.momentum").find("shalec and --optimizer sgd"),
            std::string::npos);
  auto sgd = [](const std::string &name) { return isOwn(name) || name == "momentum"; };
  EXPECT_EQ(answerToFlag("--optimizer.params.momentum", sgd),
            "is not a flag of Shale: use --momentum");
  EXPECT_EQ(answer("--explora"), ""); // no part of the word
  EXPECT_EQ(answer("--mylora_rank"), "");
}

// Words whose nearest flag means something else.
TEST(Words, AreNotTakenForTheirNeighbours) {
  const std::pair<const char *, const char *> means[] = {
      {"train_batch_size", "a step has N x K sequences"},
      {"global_batch_size", "--accumulate K"},
      {"train_micro_batch_size_per_gpu", "with shalec and --dim batch=N/rank"},
      {"grad_accum_dtype", "summed in f32"},
      {"ignored_modules", "--shard splits every parameter"},
      {"zero_hpz_partition_size", "no second copy"},
      {"allgather_bucket_size", "--unit"},
      {"sub_group_size", "one unit after the other"},
      {"stage3_module_granularity_threshold", "--unit"},
      {"quantized_initialization", "weights are f32, bf16 or f16"},
      {"layer_offloading", "--offload params"},
      {"activation_offload_fraction", "--offload activations:0.5"},
      {"recompute_num_layers", "--recompute block:0.5"},
      {"disable_loss_parallel", "the compiler finds"},
      {"checkpoint.load_only", "also saves"},
      {"checkpoint.exclude_from_loading", "the whole state of a run"},
      {"adam_w_mode", "adam, whose decay is part of the gradient"}};
  for (auto [word, says] : means) {
    std::string answer = answerToFlag(std::string("--") + word, isOwn);
    EXPECT_NE(answer.find(says), std::string::npos) << word << ": " << answer;
  }
}

TEST(Words, OfNobodyHaveNoAnswer) {
  for (const std::string &word :
       {std::string("--"), std::string("--*lora*"), std::string("--a|b"), std::string("--,"),
        std::string("--..."), std::string("--frobnicate"), "--" + std::string(100000, '-') + "q",
        "--" + std::string(100000, 'x'), "--a" + std::string(99, '.'),
        "--a" + std::string(99, '-')})
    EXPECT_EQ(answerToFlag(word, isOwn), "") << word.substr(0, 40);
}

TEST(Words, SlipsOfTheFingersAreGuessed) {
  const std::vector<std::string> names = {"steps", "seed",  "machine",     "bind",
                                          "help",  "order", "gather-dtype"};
  for (auto [word, guess] :
       std::initializer_list<std::pair<const char *, const char *>>{{"stpes", "steps"},
                                                                    {"stesp", "steps"},
                                                                    {"step", "steps"},
                                                                    {"sed", "seed"},
                                                                    {"gatherdtyp", "gather-dtype"},
                                                                    {"gat", "gather-dtype"},
                                                                    {"packing", ""},
                                                                    {"rank", ""},
                                                                    {"peft", ""},
                                                                    {"lora-r", ""},
                                                                    {"se", ""},
                                                                    {"", ""}})
    EXPECT_EQ(nearestWord(word, names), guess) << word;
  EXPECT_EQ(nearestWord(std::string(1 << 20, 'm'), names), "");
}
} // namespace
