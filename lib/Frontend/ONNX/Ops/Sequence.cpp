//===- Sequence.cpp - Sequences of tensors, which exist only at import ----===//
#include "dialects/nn/Ops/Data.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static LogicalResult importSplitToSequence(Node &node) {
  auto type = Node::type(node.input(0));
  int64_t axis = node.intAttr("axis", 0);
  if (failed(node.normalize(axis, type.getRank())))
    return failure();
  int64_t size = type.getDimSize(axis), chunk = 1;
  bool keep = node.has(1) || node.flagAttr("keepdims", true), equal = !node.has(1);
  SmallVector<int64_t> parts;
  if (node.has(1)) {
    if (failed(node.constantInts(1, parts)))
      return failure();
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
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + axis);
  for (Value &item : items)
    item = keep ? item : node.reshape(item, shape);
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
  SmallVector<int64_t> at;
  if (!node.input(operand) || failed(node.constantInts(operand, at)) || at.size() != 1)
    return node.error("needs one position");
  position = at[0] < 0 ? at[0] + size : at[0];
  return position >= 0 && position < places
             ? success()
             : LogicalResult(node.error("position {} is out of a sequence of {}", at[0], size));
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
  SmallVector<int64_t> shape(type.getShape());
  if (stack) {
    shape.insert(shape.begin() + axis, 1);
    for (Value &item : items)
      if (item.getType() != type || !(item = node.reshape(item, shape)))
        return node.error("items differ in type");
  }
  shape[axis] = 0;
  for (Value item : items)
    shape[axis] += Node::type(item).getDimSize(axis);
  return items.size() == 1 ? items.front()
                           : node.create<nn::ConcatOp>(type.clone(shape), items, axis);
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
  r.add("", "SequenceInsert", 11, importSequenceInsert);
  r.add("", "SequenceLength", 11, importSequenceLength, needs(0));
  r.add("", "SplitToSequence", 11, importSplitToSequence, needs(1));
  r.add("", "SequenceConstruct", 11, importSequenceConstruct);
  r.add("", "SequenceAt", 11, importSequenceAt, needs(0));
  r.add("", "ConcatFromSequence", 11, importConcatFromSequence, needs(0));
}
