//===- Blocks.cpp - The blocks of the model and their ops -----------------===//
#include "lib/Analysis/Blocks.h"
#include "dialects/nn/NN.h"

using namespace mlir;

namespace shale {

bool isForward(Operation *op) { return nn::isInPhase(op, nn::Phase::Forward); }
bool isBackward(Operation *op) { return nn::isInPhase(op, nn::Phase::Backward); }

Value viewedValue(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isView(op))
      break;
    // Result i of a barrier is its operand i; other views have one operand and one result.
    value = op->getOperand(op->getNumOperands() == 1 ? 0 : cast<OpResult>(value).getResultNumber());
  }
  return value;
}

int Blocks::fromScope(StringRef scope) const {
  for (auto [index, name] : llvm::enumerate(names))
    if (StringRef rest = scope; rest.consume_front(name) && (rest.empty() || rest.front() == '.'))
      return index;
  return -1;
}

Blocks::Blocks(func::FuncOp function, std::vector<std::string> list) : names(std::move(list)) {
  constexpr int kUnknown = -2;
  SmallVector<Operation *> unscoped;
  llvm::DenseMap<StringAttr, int> known;
  for (Operation &op : function.getBody().front()) {
    auto scope = op.getAttrOfType<StringAttr>(nn::kScopeAttr);
    if (!scope) {
      unscoped.push_back(&op);
      blocks[&op] = kUnknown;
      continue;
    }
    auto [it, added] = known.try_emplace(scope, -1);
    if (added)
      it->second = fromScope(scope.getValue());
    blocks[&op] = it->second;
  }
  auto common = [&](auto &&neighbours) {
    int block = kUnknown;
    for (Operation *other : neighbours) {
      int theirs = other ? of(other) : -1;
      if (theirs == kUnknown)
        continue;
      if (block != kUnknown && theirs != block)
        return -1;
      block = theirs;
    }
    return block;
  };
  for (Operation *op : llvm::reverse(unscoped))
    if (int block = common(op->getUsers()); block >= 0)
      blocks[op] = block;
  for (Operation *op : unscoped) {
    if (blocks[op] != kUnknown)
      continue;
    SmallVector<Operation *> sources;
    for (Value operand : op->getOperands())
      if (Operation *source = operand.getDefiningOp())
        sources.push_back(source);
    blocks[op] = std::max(-1, common(sources));
  }
}

} // namespace shale
