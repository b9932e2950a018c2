//===- Needs.cpp - What operators need of their nodes ---------------------===//
#include "lib/Frontend/ONNX/Node.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

FailureOr<MetNeeds> onnx::checkNeeds(Node &node, const Needs &needs) {
  MetNeeds met;
  int count = needs.count == kAllOperands ? std::max(node.numInputs(), 1) : needs.count;
  if (failed(node.require(count)))
    return failure();
  for (int i = 0; i < count; ++i) {
    bool isTruth = node.input(i).hasTruths();
    const char *lack = i < needs.floats && !node.input(i).hasFloats() ? "floats"
                       : i < needs.numbers && isTruth                 ? "numbers"
                       : i < needs.truths && !isTruth                 ? "truth values"
                                                                      : nullptr;
    if (lack)
      return node.error("operand {} must have {}, but is {}: cast it first", i, lack,
                        node.input(i));
  }
  if (int least = needs.leastRank, most = needs.mostRank;
      least && (node.input(0).rank() < least || (most && node.input(0).rank() > most))) {
    std::string others = !most ? " or more" : most > least ? " to " + std::to_string(most) : "";
    return node.error("operand 0 must have {}{} dimensions, but is {}", least, plain(others),
                      node.input(0));
  }
  for (auto [i, known] : llvm::enumerate(met.ints))
    if ((needs.ints >> i & 1) && node.has(i) && failed(node.constantInts(i, known)))
      return failure();
  if (needs.list.name && node.version < needs.list.sinceOperand)
    met.list = node.intsAttr(needs.list.name);
  else if (needs.list.name && node.has(1) && failed(node.constantInts(1, met.list.emplace())))
    return failure();
  if (needs.epsilon != 0)
    met.epsilon = node.floatAttr("epsilon", needs.epsilon);
  if (!std::isfinite(met.epsilon) || met.epsilon < 0)
    return node.error("epsilon must be finite and not negative");
  if (!needs.axis)
    return met;
  met.axis = node.intAttr("axis", *needs.axis);
  if (failed(node.normalize(met.axis, node.input(0).rank())))
    return failure();
  return met;
}
