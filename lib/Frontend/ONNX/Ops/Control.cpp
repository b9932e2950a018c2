//===- Control.cpp - Branches, loops and sequences, which end at import ---===//
//
// A training step is one static graph: conditions and trip counts are known when
// the model is imported, and loops are unrolled.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Maximum number of times that a body is repeated. The nodes of all copies are limited, too.
static constexpr int64_t kMaxTrips = 10000;

static const GraphProto *graphAttr(Node &node, StringRef name) {
  const AttributeProto *attr = node.attribute(name);
  if (!attr || !attr->has_g()) {
    (void)node.error("attribute {} must be a graph", name);
    return nullptr;
  }
  return &attr->g();
}

static void bind(Node &node, int result, const Binding &binding) {
  if (binding.isSequence)
    node.setSequence(result, binding.items);
  else
    node.set(result, binding.value, binding.narrow);
}

/// Reads a condition, which must be one known truth value; `what` names it.
static FailureOr<bool> knownCondition(Node &node, Value value, const Twine &what) {
  std::optional<double> known =
      value && Tensor(node, value).count() == 1 ? node.scalarConstant(value) : std::nullopt;
  if (!known)
    return node.error(
        what + " must be known at compile time: it must depend on shapes and constants alone");
  return *known != 0;
}

static LogicalResult importIf(Node &node) {
  FailureOr<bool> taken = knownCondition(node, node.input(0), "the condition");
  const GraphProto *branches[] = {graphAttr(node, "else_branch"), graphAttr(node, "then_branch")};
  if (failed(taken) || !branches[0] || !branches[1])
    return failure();
  auto outputs = node.building.importGraph(node, *branches[*taken],
                                           *taken ? "then_branch" : "else_branch", {});
  if (failed(outputs))
    return failure();
  if (int(outputs->size()) < node.numOutputs())
    return node.error("the branch has {} outputs, not {}", outputs->size(), node.numOutputs());
  for (int i = 0; i < node.numOutputs(); ++i)
    bind(node, i, (*outputs)[i]);
  return success();
}

namespace {

/// The values that iterations of a body hand on, and those that are results of their own.
struct Iterations {
  Node &node;
  const GraphProto &body;
  SmallVector<Binding> values;
  SmallVector<SmallVector<Tensor>> collected;

  /// Reads the initial values, `count` operands from `first` on. `before`: the outputs of the body
  /// before the values.
  LogicalResult begin(int first, int64_t count, int64_t before) {
    for (int i = 0; i < count; ++i) {
      const Binding *sequence = node.sequence(first + i);
      Binding &value = values.emplace_back(sequence ? *sequence : Binding());
      if (sequence)
        continue;
      value.value = node.input(first + i), value.narrow = node.narrow(first + i);
      if (!value.value)
        return node.error("operand {} is missing", first + i);
    }
    collected.resize(body.output_size() - before - count);
    return success();
  }

  /// Imports the body once. Returns its outputs before the values.
  FailureOr<SmallVector<Binding>> run(ArrayRef<Binding> inputs, int64_t before) {
    auto outputs = node.building.importGraph(node, body, "body", inputs);
    if (failed(outputs))
      return failure();
    ArrayRef<Binding> all = *outputs;
    for (auto [output, own] : llvm::zip(all.drop_front(before + values.size()), collected)) {
      if (!output.value)
        return node.error("a sequence cannot be collected over iterations");
      if (output.narrow)
        return node.error(
            "integers other than int32 and int64 cannot be collected over iterations");
      own.emplace_back(node, output.value);
    }
    llvm::copy(all.slice(before, values.size()), values.begin());
    return SmallVector<Binding>(all.take_front(before));
  }

  /// Sets the results; the collected ones are joined along `axes`, from their last one on if the
  /// direction is not 0.
  LogicalResult setResults(ArrayRef<int64_t> axes, ArrayRef<int64_t> directions) {
    int carried = values.size(), made = carried + collected.size();
    if (node.numOutputs() > made)
      return node.error("it has {} results, and its body makes {}", node.numOutputs(), made);
    for (int i = 0; i < node.numOutputs(); ++i) {
      if (i < carried)
        bind(node, i, values[i]);
      else if (int own = i - carried; node.wants(i))
        setStacked(i, collected[own], axes[own], directions[own] != 0);
    }
    return failure(node.hasFailed());
  }

private:
  /// Sets a result to the values of all iterations, joined along a new dimension.
  void setStacked(int result, ArrayRef<Tensor> values, int64_t axis, bool backwards) {
    if (values.empty())
      return (void)node.error("result {} has no elements, as the body never runs", result);
    auto type = values.front().type();
    if (failed(node.normalize(axis, type.getRank() + 1)))
      return;
    SmallVector<Tensor> parts;
    for (Tensor value : values) {
      if (value.getType() != type)
        return (void)node.error("result {} changes its type from one iteration to another", result);
      parts.push_back(value.unsqueeze(axis));
    }
    if (backwards)
      std::reverse(parts.begin(), parts.end());
    node.set(result, joined(parts, axis));
  }
};

} // namespace

/// Notes that a loop without a condition operand goes on where ONNX Runtime stops: ONNX ignores the
/// condition of the body then. `trip`: the number of iterations so far.
static void noteIgnored(Node &node, Value condition, int64_t trip) {
  std::optional<double> known = condition ? node.scalarConstant(condition) : std::nullopt;
  if (known == 0.0)
    emitNote(
        node.loc,
        "node '" + displayName(node.proto.name()) +
            "' (Loop): the body's condition is false after " + Twine(trip) +
            " iterations. The loop continues, because ONNX ignores the body's condition if the node has no "
            "condition operand; ONNX Runtime stops. To stop there, add the operand");
}

/// Loop with a known trip count or known conditions: one copy of the body per iteration. Without a
/// condition operand the condition that the body makes is ignored.
static LogicalResult importLoop(Node &node) {
  const GraphProto *body = graphAttr(node, "body");
  if (!body)
    return failure();
  int64_t trips = -1, carried = std::max(node.numInputs() - 2, 0);
  if (node.has(0))
    trips = std::max<int64_t>(node.onlyInt(0, "trip count"), 0);
  if (body->output_size() < 1 + carried)
    return node.error("its body has {} outputs for a condition and {} carried values",
                      body->output_size(), carried);
  Binding condition;
  condition.value = node.input(1);
  bool hasCondition = bool(condition.value);
  if (!hasCondition && trips < 0)
    return node.error(
        "it has neither a trip count nor a condition, so that it never ends: give it one");
  if (!hasCondition)
    condition.value = node.constant(RankedTensorType::get({}, node.builder.getI1Type()), 1);
  Iterations iterations{node, *body, {}, {}};
  if (failed(iterations.begin(2, carried, 1)))
    return failure();
  for (int64_t trip = 0; trips < 0 || trip < trips; ++trip) {
    FailureOr<bool> runs =
        hasCondition ? knownCondition(node, condition.value, "the condition of the loop") : true;
    if (failed(runs))
      return failure();
    if (!*runs)
      break;
    if (trip == kMaxTrips)
      return node.error("the loop runs more than {} times", kMaxTrips);
    SmallVector<Binding> inputs(2);
    inputs[0].value = node.constant(ArrayRef<int64_t>{trip}).reshape({});
    inputs[1] = condition;
    llvm::append_range(inputs, iterations.values);
    auto outputs = iterations.run(inputs, 1);
    if (failed(outputs))
      return failure();
    bool wasIgnored =
        condition.value && !hasCondition && node.scalarConstant(condition.value) == 0.0;
    condition = outputs->front();
    if (!hasCondition && !wasIgnored && trip + 1 < trips)
      noteIgnored(node, condition.value, trip + 1);
  }
  Sizes none(iterations.collected.size(), 0);
  return iterations.setResults(none, none);
}

/// Reads one number for each scanned operand or result, 0 if the attribute is left out or after an
/// error.
static Sizes readEach(Node &node, StringRef name, size_t count) {
  Sizes zeros(count, 0), numbers = node.intsAttr(name).value_or(zeros);
  if (numbers.size() == count)
    return numbers;
  (void)node.error("{} has {} values, not {}", plain(name), numbers.size(), count);
  return zeros;
}

static LogicalResult importScan(Node &node) {
  const GraphProto *body = graphAttr(node, "body");
  if (!body)
    return failure();
  int64_t count = node.intAttr("num_scan_inputs", 0), carried = node.numInputs() - count;
  if (count < 1 || carried < 0 || body->output_size() < carried)
    return node.error("num_scan_inputs is {} of {} operands, with a body of {} outputs", count,
                      node.numInputs(), body->output_size());
  size_t results = body->output_size() - carried;
  Sizes axes = readEach(node, "scan_input_axes", count),
        backwards = readEach(node, "scan_input_directions", count);
  int64_t trips = -1;
  for (auto [i, axis] : llvm::enumerate(axes)) {
    Tensor value = node.input(carried + i);
    if (!value)
      return node.error("operand {} is missing", carried + i);
    if (failed(node.normalize(axis, value.rank())))
      return failure();
    if (trips >= 0 && value.dim(axis) != trips)
      return node.error("scanned operands have {} and {} slices", trips, value.dim(axis));
    trips = value.dim(axis);
  }
  if (trips > kMaxTrips)
    return node.error("the scan runs more than {} times", kMaxTrips);
  Sizes resultAxes = readEach(node, "scan_output_axes", results),
        resultsBackwards = readEach(node, "scan_output_directions", results);
  Iterations iterations{node, *body, {}, {}};
  if (failed(iterations.begin(0, carried, 0)) || node.hasFailed())
    return failure();
  for (int64_t trip = 0; trip < trips; ++trip) {
    SmallVector<Binding> inputs(iterations.values);
    for (auto [i, axis] : llvm::enumerate(axes)) { // a slice without the scanned dimension
      int64_t at = backwards[i] ? trips - 1 - trip : trip;
      inputs.emplace_back();
      inputs.back().value = node.input(carried + i).part(axis, at, at + 1).squeeze(axis);
      inputs.back().narrow = node.narrow(carried + i);
      if (!inputs.back().value)
        return failure();
    }
    if (failed(iterations.run(inputs, 0)))
      return failure();
  }
  return iterations.setResults(resultAxes, resultsBackwards);
}

//===----------------------------------------------------------------------===//
// Sequences of tensors, which exist only at import
//===----------------------------------------------------------------------===//

static LogicalResult setItems(Node &node, ArrayRef<Tensor> items) {
  node.setSequence(0, llvm::to_vector_of<Value>(items));
  return success();
}

static LogicalResult importSplitToSequence(Node &node) {
  int64_t axis = node.axis(), size = node.input(0).dim(axis), chunk = 1;
  bool keep = node.has(1) || node.flagAttr("keepdims", true), equal = !node.has(1);
  Sizes parts = node.ints(1);
  if (node.has(1) && node.input(1).rank() == 0) // one size for all, the last may be smaller
    equal = true, chunk = parts.front();
  if (equal) {
    if (chunk < 1 || size / chunk > 4096)
      return node.error("cannot split {} into parts of {}", size, chunk);
    parts.clear();
    for (int64_t at = 0; at < size; at += chunk)
      parts.push_back(std::min(chunk, size - at));
  }
  SmallVector<Tensor> items;
  if (failed(cut(node.input(0), axis, parts, items)))
    return failure();
  for (Tensor &item : items)
    item = keep ? item : item.squeeze(axis);
  return setItems(node, items);
}

/// Reads a position in a sequence of `size` items, of which there are `places`. Fails after an
/// error.
static FailureOr<int64_t> readPosition(Node &node, int operand, int64_t size, int64_t places) {
  int64_t at = node.onlyInt(operand, "position"), position = at < 0 ? at + size : at;
  if (position < 0 || position >= places)
    return node.error("position {} is out of a sequence of {}", at, size);
  return position;
}

using Items = SmallVector<Tensor>;

/// Returns a handler that gives `handler` the items of operand 0, which must be a sequence.
template <typename HandlerT> static auto ofItems(HandlerT handler) {
  return [handler](Node &node) -> LogicalResult {
    const Binding *sequence = node.sequence(0);
    if (!sequence)
      return node.error("operand 0 is not a sequence");
    return node.give(handler(node, llvm::map_to_vector(sequence->items, [&](Value item) {
                               return Tensor(node, item);
                             })));
  };
}

static Tensor importSequenceAt(Node &node, Items items) {
  FailureOr<int64_t> place = readPosition(node, 1, items.size(), items.size());
  return failed(place) ? Tensor() : items[*place];
}

static Tensor importConcatFromSequence(Node &node, Items items) {
  if (items.empty())
    return node.error("operand 0 is an empty sequence");
  auto type = items.front().type();
  bool stack = node.flagAttr("new_axis", false);
  int64_t axis = node.intAttr("axis", 0);
  if (failed(node.normalize(axis, type.getRank() + stack)))
    return {};
  for (Tensor &item : items)
    if (stack && !(item = item.getType() == type ? item.unsqueeze(axis) : Tensor()))
      return node.error("items differ in type");
  return concatenated(node, items, axis);
}

static LogicalResult importSequenceInsert(Node &node, Items items) {
  if (!node.input(1))
    return node.error("operand 1 is missing");
  int64_t size = items.size();
  FailureOr<int64_t> place = node.has(2) ? readPosition(node, 2, size, size + 1) : size;
  if (failed(place))
    return failure();
  items.insert(items.begin() + *place, node.input(1));
  return setItems(node, items);
}

static Tensor importSequenceLength(Node &node, Items items) {
  return node.constant({int64_t(items.size())}).reshape({});
}

void onnx::registerControlOps(HandlerRegistry &r) {
  r.add("", "If", 1, importIf, needs(1));
  r.add("", "Loop", 1, importLoop);
  r.add("", "Scan", 9, importScan);
  r.add("", "SequenceEmpty", 11, [](Node &node) { return setItems(node, {}); });
  r.add("", "SequenceInsert", 11, ofItems(importSequenceInsert));
  r.add("", "SequenceLength", 11, ofItems(importSequenceLength));
  r.add("", "SplitToSequence", 11, importSplitToSequence, knownInts(1) | defaultAxis(0));
  auto construct = [](Node &node) { return setItems(node, node.operands()); };
  r.add("", "SequenceConstruct", 11, construct, needs(kAllOperands));
  r.add("", "SequenceAt", 11, ofItems(importSequenceAt));
  r.add("", "ConcatFromSequence", 11, ofItems(importConcatFromSequence));
}
