//===- Sequence.cpp - Sequences of tensors, which exist only at import ----===//
#include "dialects/nn/Ops/Data.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static LogicalResult importSplitToSequence(Node &node) {
  if (failed(node.require(1)))
    return failure();
  auto type = Node::type(node.input(0));
  int64_t axis = node.intAttr("axis", 0);
  if (failed(node.normalize(axis, type.getRank())))
    return failure();
  int64_t size = type.getDimSize(axis);
  bool keep = node.has(1) || node.flagAttr("keepdims", true);
  SmallVector<int64_t> parts;
  if (node.has(1)) {
    if (failed(node.constantInts(1, parts)))
      return failure();
    if (Node::type(node.input(1)).getRank() == 0) { // one size for all, the last may be smaller
      int64_t chunk = parts.front();
      parts.clear();
      if (chunk < 1 || size / chunk > 4096)
        return node.error("cannot split " + Twine(size) + " into parts of " + Twine(chunk));
      for (int64_t at = 0; at < size; at += chunk)
        parts.push_back(std::min(chunk, size - at));
    }
  } else {
    if (size > 4096)
      return node.error("cannot split into " + Twine(size) + " parts");
    parts.assign(size, 1);
  }
  SmallVector<int64_t> starts(type.getRank(), 0), limits(type.getShape()),
      strides(type.getRank(), 1);
  SmallVector<Value> items;
  int64_t at = 0;
  for (int64_t part : parts) {
    if (part < 0 || part > size - at)
      return node.error("parts do not sum to the dimension's size " + Twine(size));
    starts[axis] = at;
    limits[axis] = at += part;
    Value item = node.slice(node.input(0), starts, limits, strides);
    if (item && !keep) {
      SmallVector<int64_t> shape(type.getShape());
      shape.erase(shape.begin() + axis);
      item = node.reshape(item, shape);
    }
    if (!item)
      return failure();
    items.push_back(item);
  }
  if (at != size)
    return node.error("parts sum to " + Twine(at) + ", the dimension has " + Twine(size));
  node.setSequence(0, std::move(items));
  return success();
}

static LogicalResult importSequenceConstruct(Node &node) {
  if (failed(node.require(node.numInputs())))
    return failure();
  node.setSequence(0, llvm::to_vector(node.operands()));
  return success();
}

static LogicalResult importSequenceAt(Node &node) {
  const Binding *sequence = node.sequence(0);
  SmallVector<int64_t> at;
  if (!sequence)
    return node.error("operand 0 is not a sequence");
  if (!node.input(1) || failed(node.constantInts(1, at)) || at.size() != 1)
    return node.error("needs one position");
  int64_t size = sequence->items.size();
  if (at[0] < -size || at[0] >= size)
    return node.error("position " + Twine(at[0]) + " is out of a sequence of " + Twine(size));
  node.set(0, sequence->items[at[0] < 0 ? at[0] + size : at[0]]);
  return success();
}

static LogicalResult importConcatFromSequence(Node &node) {
  const Binding *sequence = node.sequence(0);
  if (!sequence || sequence->items.empty())
    return node.error("operand 0 is not a sequence, or is empty");
  auto type = Node::type(sequence->items.front());
  bool stack = node.flagAttr("new_axis", false);
  int64_t axis = node.intAttr("axis", 0);
  if (failed(node.normalize(axis, type.getRank() + stack)))
    return failure();
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
  node.set(0, items.size() == 1
                  ? items.front()
                  : node.create<nn::ConcatOp>(RankedTensorType::get(shape, type.getElementType()),
                                              items, axis));
  return success();
}

static LogicalResult importSequenceEmpty(Node &node) {
  node.setSequence(0, {});
  return success();
}

static LogicalResult importSequenceInsert(Node &node) {
  const Binding *sequence = node.sequence(0);
  SmallVector<int64_t> at;
  if (!sequence || !node.input(1))
    return node.error("needs a sequence and a tensor");
  int64_t size = sequence->items.size();
  if (node.has(2) && (failed(node.constantInts(2, at)) || at.size() != 1))
    return node.error("needs one position");
  int64_t place = at.empty() ? size : at[0] < 0 ? at[0] + size : at[0];
  if (place < 0 || place > size)
    return node.error("position " + Twine(at[0]) + " is out of a sequence of " + Twine(size));
  SmallVector<Value> items(sequence->items);
  items.insert(items.begin() + place, node.input(1));
  node.setSequence(0, std::move(items));
  return success();
}

static LogicalResult importSequenceLength(Node &node) {
  const Binding *sequence = node.sequence(0);
  if (!sequence)
    return node.error("operand 0 is not a sequence");
  node.set(0, node.reshape(node.constant(ArrayRef<int64_t>{int64_t(sequence->items.size())}), {}));
  return success();
}

void onnx::registerSequenceOps(HandlerRegistry &r) {
  r.add("", "SequenceEmpty", 11, importSequenceEmpty);
  r.add("", "SequenceInsert", 11, importSequenceInsert);
  r.add("", "SequenceLength", 11, importSequenceLength);
  r.add("", "SplitToSequence", 11, importSplitToSequence);
  r.add("", "SequenceConstruct", 11, importSequenceConstruct);
  r.add("", "SequenceAt", 11, importSequenceAt);
  r.add("", "ConcatFromSequence", 11, importConcatFromSequence);
}
