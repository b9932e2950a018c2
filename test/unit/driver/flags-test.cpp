// The table of flags: values parse and print, and each flag that changes a plan is in its key.
#include "lib/Planning/Candidates.h"
#include "lib/Planning/ModelPlan.h"
#include "shale/InitAll.h"

#include <gtest/gtest.h>
#include <map>

using namespace shale;

namespace {

/// A value of each flag, other than that of base(); empty for flags without a value.
const std::map<std::string, std::string> kExamples = {
#define GET_FLAG_EXAMPLES
#include "lib/Options/Options.h.inc"
};

/// Options under which every flag of the table has an effect.
CompileOptions base() {
  static const std::pair<const char *, const char *> kBase[] = {
      {"mesh", "fsdp=4"},  {"shard", "full"},     {"offload", "all"},
      {"accumulate", "2"}, {"attention", "auto"}, {"threads", "2"}};
  CompileOptions options;
  for (auto [flag, value] : kBase)
    EXPECT_EQ(flagNamed(flag)->set(options, value), "");
  return options;
}

CompileOptions changed(const Flag &flag) {
  CompileOptions options = base();
  std::string value = flag.value ? kExamples.at(flag.name) : std::string();
  EXPECT_EQ(flag.set(options, value), "") << flag.name;
  return options;
}

/// The stages that make a plan of a recovered module.
std::string stages(const CompileOptions &options) {
  return describeStages(options, StageId::Recover, StageId::Plan);
}

/// The stages up to partition. Planning applies --reshard-after-forward after them.
std::string graphStages(CompileOptions options) {
  options.reshardAfterForward = true;
  return describeStages(options, StageId::Recover, StageId::Partition);
}

TEST(Flags, HaveAnExample) {
  for (const Flag &flag : allFlags())
    EXPECT_TRUE(!flag.value || !kExamples.at(flag.name).empty()) << "no example of --" << flag.name;
}

TEST(Flags, PrintWhatTheyParse) {
  for (const Flag &flag : allFlags()) {
    if (!flag.get || flag.repeated)
      continue;
    CompileOptions options;
    EXPECT_EQ(flag.set(options, kExamples.at(flag.name)), "") << flag.name;
    EXPECT_EQ(flag.get(options), kExamples.at(flag.name)) << flag.name;
  }
}

// The passes and their options say what a flag changes. A flag that changes them but not the key
// would give the plan of other flags.
TEST(Flags, ThatChangeAPlanAreInItsKey) {
  registerAllPasses();
  CompileOptions options = base();
  for (const Flag &flag : allFlags()) {
    CompileOptions other = changed(flag);
    EXPECT_EQ(stages(options) != stages(other), flag.changesPlan()) << flag.name;
    EXPECT_EQ(planKey(options, 4) != planKey(other, 4), flag.changesPlan()) << flag.name;
    EXPECT_EQ(graphStages(options) != graphStages(other), flag.effect == Effect::Graph)
        << flag.name;
  }
}

TEST(Flags, OfTheSearchHaveValidValues) {
  for (const Knob &knob : allKnobs()) {
    EXPECT_TRUE(knob.flag->changesPlan()) << knob.flag->name;
    for (const std::string &value : knob.values) {
      CompileOptions options;
      EXPECT_EQ(knob.flag->set(options, value), "") << knob.flag->name;
      EXPECT_EQ(knob.flag->get(options), value) << knob.flag->name;
    }
  }
}

template <typename T> void expectText(const char *text, const char *printed) {
  T value;
  EXPECT_EQ(parseText(text, value), "") << text;
  EXPECT_EQ(textOf(value), printed);
}

template <typename T> void expectWrong(const char *text) {
  T value;
  EXPECT_NE(parseText(text, value), "") << text;
}

TEST(Policies, HaveOneText) {
  expectText<MeshSpec>("replica=2,fsdp:shard=4,gpus:tensor=1", "replica=2,fsdp=4,gpus:tensor=1");
  expectText<RecomputePolicy>("block:1.0", "block");
  expectText<RecomputePolicy>("block:0.10", "block:0.1");
  expectText<RecomputePolicy>("match:a:b", "match:a:b");
  expectText<RecomputePolicy>("class:Mlp", "class:Mlp");
  expectText<OffloadPolicy>("activations:0.3,params", "params,activations:0.3");
  expectText<OffloadPolicy>("params,grads,optimizer,activations", "all");
  expectText<OffloadPolicy>("all:0.5", "all:0.5");
  expectText<OffloadPolicy>("params:0", "none");
  expectText<UnitPolicy>("size:2000M", "size:2G");
  expectText<UnitPolicy>("size:1500", "size:1500");
  expectText<UnitPolicy>("match:h:1", "match:h:1");
}

TEST(Policies, RefuseOtherTexts) {
  for (const char *text : {"", "block:", "block:2", "block:nan", "class:", "all", "layer:1"})
    expectWrong<RecomputePolicy>(text);
  for (const char *text : {"", "none,params", "params,params", "all,grads", "params:-1", "weights"})
    expectWrong<OffloadPolicy>(text);
  for (const char *text : {"", "size:0", "size:many", "size:9223372036854775807K", "blocks"})
    expectWrong<UnitPolicy>(text);
  for (const char *text : {"", "fsdp", "fsdp=0", "fsdp=2,fsdp=2", "dp=2"})
    expectWrong<MeshSpec>(text);
}

} // namespace
