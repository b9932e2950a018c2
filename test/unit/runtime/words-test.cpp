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
