//===- Sequence.cpp - Sequences of tensors, which exist only at import ----===//
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static LogicalResult importSplitToSequence(Node &node) {
  int64_t axis = node.axis(), size = Node::type(node.input(0)).getDimSize(axis), chunk = 1;
  bool keep = node.has(1) || node.flagAttr("keepdims", true), equal = !node.has(1);
  Sizes parts = node.ints(1);
  if (node.has(1)) {
    equal = Node::type(node.input(1)).getRank() == 0; // one size for all, the last may be smaller
    chunk = equal ? parts.front() : 1;
  }
  if (equal) {
    if (chunk < 1 || size / chunk > 4096)
      return node.error("cannot split {} into parts of {}", size, chunk);
    parts.clear();
    for (int64_t at = 0; at < size; at += chunk)
      parts.push_back(std::min(chunk, size - at));
  }
  SmallVector<Value> items;
  if (failed(node.cut(node.input(0), axis, parts, items)))
    return failure();
  for (Value &item : items)
    item = keep ? item : node.squeeze(item, axis);
  node.setSequence(0, std::move(items));
  return success();
}

static LogicalResult importSequenceConstruct(Node &node) {
  if (failed(node.require(node.numInputs())))
    return failure();
  node.setSequence(0, llvm::to_vector(node.operands()));
  return success();
}

/// Reads a position in a sequence of `size` items, of which there are `places`.
static LogicalResult readPosition(Node &node, int operand, int64_t size, int64_t places,
                                  int64_t &position) {
  FailureOr<int64_t> at = node.onlyInt(operand, "position");
  if (failed(at))
    return failure();
  position = *at < 0 ? *at + size : *at;
  return position >= 0 && position < places
             ? success()
             : LogicalResult(node.error("position {} is out of a sequence of {}", *at, size));
}

static Value importSequenceAt(Node &node) {
  const Binding *sequence = node.sequence(0);
  if (!sequence)
    return node.error("operand 0 is not a sequence");
  int64_t size = sequence->items.size(), place;
  return succeeded(readPosition(node, 1, size, size, place)) ? sequence->items[place] : Value();
}

static Value importConcatFromSequence(Node &node) {
  const Binding *sequence = node.sequence(0);
  if (!sequence || sequence->items.empty())
    return node.error("operand 0 is not a sequence, or is empty");
  auto type = Node::type(sequence->items.front());
  bool stack = node.flagAttr("new_axis", false);
  int64_t axis = node.intAttr("axis", 0);
  if (failed(node.normalize(axis, type.getRank() + stack)))
    return {};
  SmallVector<Value> items(sequence->items);
  for (Value &item : items)
    if (stack && !(item = item.getType() == type ? node.unsqueeze(item, axis) : Value()))
      return node.error("items differ in type");
  return concatenated(node, items, axis);
}

static LogicalResult importSequenceEmpty(Node &node) {
  node.setSequence(0, {});
  return success();
}

static LogicalResult importSequenceInsert(Node &node) {
  const Binding *sequence = node.sequence(0);
  if (!sequence || !node.input(1))
    return node.error("needs a sequence and a tensor");
  int64_t size = sequence->items.size(), place = size;
  if (node.has(2) && failed(readPosition(node, 2, size, size + 1, place)))
    return failure();
  SmallVector<Value> items(sequence->items);
  items.insert(items.begin() + place, node.input(1));
  node.setSequence(0, std::move(items));
  return success();
}

static Value importSequenceLength(Node &node) {
  const Binding *sequence = node.sequence(0);
  if (!sequence)
    return node.error("operand 0 is not a sequence");
  return node.reshape(node.constant(ArrayRef<int64_t>{int64_t(sequence->items.size())}), {});
}

void onnx::registerSequenceOps(HandlerRegistry &r) {
  r.add("", "SequenceEmpty", 11, importSequenceEmpty);
  r.add("", "SequenceInsert", 11, importSequenceInsert, knownInts(2));
  r.add("", "SequenceLength", 11, importSequenceLength, needs(0));
  r.add("", "SplitToSequence", 11, importSplitToSequence, knownInts(1) | defaultAxis(0));
  r.add("", "SequenceConstruct", 11, importSequenceConstruct);
  r.add("", "SequenceAt", 11, importSequenceAt, knownInts(1));
  r.add("", "ConcatFromSequence", 11, importConcatFromSequence, needs(0));
}
