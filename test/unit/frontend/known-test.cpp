// Takes reads of parameters. Rules are asked about a place until one has explained it, so none of
// them contradicts another today: no file shows what a contradiction does.
#include "lib/Frontend/ONNX/Rules/Known.h"

#include <gtest/gtest.h>

using namespace shale::onnx;

namespace {

/// A node that reads one of the parameters a and b as its operand 1.
class KnownTest : public testing::Test {
protected:
  KnownTest() {
    NodeProto &node = *model.mutableProto().mutable_graph()->add_node();
    node.set_op_type("Mul");
    node.set_name("scale");
    node.add_input("x");
    node.add_input("w");
    program = std::make_unique<TracedProgram>(model, options);
    for (const char *name : {"a", "b"})
      found.list.push_back({name, {}, true});
    known = std::make_unique<Known>(*program, options, found);
    place = {&program->graph().node(0), 1};
  }

  Model model;
  ParameterOptions options;
  Parameters found;
  std::unique_ptr<TracedProgram> program;
  std::unique_ptr<Known> known;
  Place place;
};

TEST_F(KnownTest, ASecondReadOfTheSameParameterHolds) {
  known->takeReads(0, place);
  known->takeReads(0, place, /*transposed=*/true);
  EXPECT_EQ(found.uses.at(place).parameter, 0u);
  EXPECT_TRUE(found.uses.at(place).transposed);
  EXPECT_TRUE(found.refusals.empty());
}

TEST_F(KnownTest, RefusesTwoParametersAtOnePlace) {
  known->takeReads(0, place);
  known->takeReads(1, place);
  ASSERT_EQ(found.refusals.size(), 1u);
  EXPECT_EQ(found.refusals[0].text,
            "node 'scale' reads 'a' or 'b' as operand 1: the file's record has reasons for both. "
            "Export with shale.export, or with torch.onnx.export(..., optimize=False)");
  EXPECT_EQ(found.uses.at(place).parameter, 0u);
}

TEST_F(KnownTest, TheFirstValueRemains) {
  TensorProto first, second;
  EXPECT_TRUE(known->takeValue(0, {&first}));
  EXPECT_FALSE(known->takeValue(0, {&second}));
  EXPECT_EQ(found.list[0].initializer, &first);
  EXPECT_FALSE(known->isMissing(0));
  EXPECT_TRUE(known->isMissing(1));
}

} // namespace
