// Compares claims about one operand. Rules ask about an operand until one has explained it, so none
// of them contradicts another today: no file shows what a contradiction does.
#include "lib/Frontend/ONNX/Record/Decision.h"

#include <gtest/gtest.h>

using namespace shale::onnx;

namespace {

/// A node that reads one of the parameters a, b and c as its operand 1.
class DecisionTest : public testing::Test {
protected:
  DecisionTest() {
    NodeProto &node = *model.mutableProto().mutable_graph()->add_node();
    node.set_op_type("Mul");
    node.set_name("scale");
    node.add_input("x");
    node.add_input("w");
    program = std::make_unique<TracedProgram>(model, options);
    known = std::make_unique<Known>(*program, options, found);
    decision = std::make_unique<Decision>(*known);
    place = {&program->graph().node(0), 1};
    for (const char *name : {"a", "b", "c"})
      found.list.push_back({name, {}, true});
    known->isAlias.assign(found.list.size(), false);
  }

  /// Claims that the node reads a parameter. The remark is "taken".
  void claim(Evidence evidence, size_t parameter) {
    ReadClaim read{parameter, {place}};
    Findings findings;
    findings.claim(evidence, std::move(read), Repair{place.first, "taken"});
    decision->take(std::move(findings));
  }
  size_t parameterRead() const { return found.uses.at(place).parameter; }

  Model model;
  ParameterOptions options;
  Parameters found;
  std::unique_ptr<TracedProgram> program;
  std::unique_ptr<Known> known;
  std::unique_ptr<Decision> decision;
  Place place;
};

TEST_F(DecisionTest, TheStrongerClaimHolds) {
  claim(Evidence::Origin, 0);
  claim(Evidence::Name, 1);
  EXPECT_EQ(parameterRead(), 1u);
  EXPECT_EQ(found.repairs.size(), 2u);
  claim(Evidence::Elimination, 2);
  EXPECT_EQ(parameterRead(), 1u);
  EXPECT_EQ(found.repairs.size(), 2u); // the remark of a claim that is left out is not made
  EXPECT_TRUE(found.errors.empty());
}

TEST_F(DecisionTest, AWeakerClaimThatAgreesDoesNotWeaken) {
  claim(Evidence::Name, 0);
  claim(Evidence::Origin, 0);
  claim(Evidence::Operation, 1);
  EXPECT_EQ(parameterRead(), 0u);
  EXPECT_TRUE(found.errors.empty());
}

TEST_F(DecisionTest, RefusesTwoClaimsOfEqualStrength) {
  claim(Evidence::Operation, 0);
  claim(Evidence::Operation, 1);
  ASSERT_EQ(found.errors.size(), 1u);
  EXPECT_EQ(found.errors[0],
            "node 'scale' reads 'a' or 'b' as operand 1: the file's record has reasons for both. "
            "Export with shale.export, or with torch.onnx.export(..., optimize=False)");
  EXPECT_EQ(parameterRead(), 0u);
  EXPECT_EQ(found.repairs.size(), 1u);
}

} // namespace
