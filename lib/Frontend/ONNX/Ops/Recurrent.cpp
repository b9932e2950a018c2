//===- Recurrent.cpp - RNN, GRU and LSTM ----------------------------------===//
//
// The matmuls with the inputs of all steps are one matmul. The recurrence is unrolled, step by
// step.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// Maximum number of steps: each costs about a dozen ops.
constexpr int64_t kMaxSteps = 512;

/// One layer in one or two directions.
struct Layer {
  Node &node;
  int64_t gates; // 1, 3 or 4 matmuls per step
  int64_t steps = 0, batch = 0, inputs = 0, hidden = 0, directions = 1;
  bool batchFirst = false, reverse = false, resetsLate = false, relu = false;
  Tensor x = {}; // [steps * batch, inputs]

  LogicalResult read() {
    Tensor input = node.input(0);
    std::string direction = node.choiceAttr("direction", {"forward", "reverse", "bidirectional"});
    directions = direction == "bidirectional" ? 2 : 1;
    reverse = direction == "reverse";
    batchFirst = node.flagAttr("layout", false);
    resetsLate = gates == 3 && node.flagAttr("linear_before_reset", false);
    if (gates == 4 && node.flagAttr("input_forget", false))
      return node.error("input_forget is not supported");
    for (StringRef name : {"clip", "activation_alpha", "activation_beta"})
      if (node.attribute(name))
        return node.error("attribute {} is not supported", name);
    if (const AttributeProto *given = node.attribute("activations")) {
      static constexpr StringRef all[] = {"Sigmoid", "Tanh", "Tanh"}; // gate, candidate, cell
      ArrayRef<StringRef> wanted =
          gates == 1 ? ArrayRef(all).slice(1, 1) : ArrayRef(all).take_front(gates - 1);
      relu = gates == 1 && given->strings_size() > 0 &&
             llvm::all_of(given->strings(), [](StringRef name) { return name == "Relu"; });
      for (int i = 0; i < given->strings_size() && !relu; ++i)
        if (given->strings(i) != wanted[i % wanted.size()])
          return node.error("activation {} is not supported here", given->strings(i));
      if (given->strings_size() != int(wanted.size()) * directions)
        return node.error("{} activations are given for {}", given->strings_size(),
                          int(wanted.size()) * directions);
    }
    if (node.numOutputs() > (gates == 4 ? 3 : 2))
      return node.error("{} outputs are more than it has", node.numOutputs());
    if (node.has(4))
      return node.error("operand 4, lengths of sequences, is not supported: pad the sequences and "
                        "leave padded positions out of the loss");
    if (gates == 4 && node.has(7))
      return node.error("operand 7, peepholes, is not supported");
    if (input.rank() != 3)
      return node.error("the operand must be [steps, batch, inputs]; it is {}", input);
    steps = input.dim(batchFirst ? 1 : 0), batch = input.dim(batchFirst ? 0 : 1);
    inputs = input.dim(2);
    hidden = node.intAttr("hidden_size", 0);
    if (hidden < 1 || hidden > INT32_MAX)
      return node.error("hidden_size must be positive");
    if (steps < 1 || steps > kMaxSteps)
      return node.error("a sequence of {} steps is not supported: 1 to {} are unrolled", steps,
                        kMaxSteps);
    int64_t wide = gates * hidden;
    Sizes state = batchFirst ? Sizes{batch, directions, hidden} : Sizes{directions, batch, hidden};
    std::pair<int, Sizes> shapes[] = {{1, {directions, wide, inputs}},
                                      {2, {directions, wide, hidden}},
                                      {3, {directions, 2 * wide}},
                                      {5, state},
                                      {gates == 4 ? 6 : 5, state}};
    for (const auto &[operand, shape] : shapes) {
      auto wanted = RankedTensorType::get(shape, input.element());
      if (Tensor given = node.input(operand); given && given.getType() != wanted)
        return node.error("operand {} is {}, not {}", operand, given, wanted);
    }
    return success();
  }

  /// The part of a direction, as a tensor of `shape`. Null if `all` is.
  Tensor part(Tensor all, int64_t direction, ArrayRef<int64_t> shape) {
    return all.part(0, direction, direction + 1).reshape(shape);
  }

  /// The columns of one gate of [batch, gates * hidden].
  Tensor columns(Tensor all, int64_t gate) {
    return all.part(1, gate * hidden, (gate + 1) * hidden);
  }

  /// Returns the next h and c. `of`: the matmuls of the step's input, with the input's bias.
  std::pair<Tensor, Tensor> step(Tensor of, Tensor h, Tensor c, Tensor weight, Tensor bias) {
    auto times = [&](Tensor left, Tensor right, Tensor more) {
      Tensor result = matmul(left, right, false, true);
      return more ? result + more : result;
    };
    if (gates == 1) {
      Tensor sum = of + times(h, weight, bias);
      return {relu ? max(sum, 0) : tanh(sum), Tensor()};
    }
    if (gates == 4) { // i, o, f, c
      Tensor all = of + times(h, weight, bias);
      Tensor next = sigmoid(columns(all, 2)) * c + sigmoid(columns(all, 0)) * tanh(columns(all, 3));
      return {sigmoid(columns(all, 1)) * tanh(next), next};
    }
    // z, r, h. The reset applies to the matmul of h, or to h itself.
    Tensor all = times(h, weight, bias);
    Tensor update = sigmoid(columns(of, 0) + columns(all, 0));
    Tensor reset = sigmoid(columns(of, 1) + columns(all, 1));
    Tensor last = reset * columns(all, 2);
    if (!resetsLate) {
      Tensor rows = weight.part(0, 2 * hidden, 3 * hidden);
      Tensor own = bias.part(0, 2 * hidden, 3 * hidden);
      last = times(reset * h, rows, own);
    }
    Tensor candidate = tanh(columns(of, 2) + last);
    // (1 - z) candidate + z h
    return {candidate + update * (h - candidate), Tensor()};
  }

  LogicalResult run() {
    // The batch is dimension 1 of all that has steps or directions.
    auto turned = [&](Tensor value) { return batchFirst ? value.transpose({1, 0, 2}) : value; };
    x = turned(node.input(0)).reshape({steps * batch, inputs});
    int64_t wide = gates * hidden;
    auto initial = [&](int operand, int64_t direction) -> Tensor {
      if (Tensor given = turned(node.input(operand)))
        return part(given, direction, {batch, hidden});
      return node.constant(RankedTensorType::get({batch, hidden}, node.input(0).element()), 0);
    };
    SmallVector<SmallVector<Tensor>> outputs(steps); // by step, then direction
    SmallVector<Tensor> lastH, lastC;
    for (int64_t d = 0; d < directions; ++d) {
      Tensor biases = part(node.input(3), d, {2, wide});
      Tensor weight = part(node.input(2), d, {wide, hidden});
      Tensor all = matmul(x, part(node.input(1), d, {wide, inputs}), false, true);
      if (biases)
        all = all + part(biases, 0, {wide});
      Tensor bias = part(biases, 1, {wide});
      Tensor h = initial(5, d), c = gates == 4 ? initial(6, d) : Tensor();
      for (int64_t i = 0; i < steps; ++i) {
        int64_t t = reverse || d == 1 ? steps - 1 - i : i;
        Tensor of = all.part(0, t * batch, (t + 1) * batch);
        std::tie(h, c) = step(of, h, c, weight, bias);
        outputs[t].push_back(h.reshape({1, 1, batch, hidden}));
      }
      lastH.push_back(h.reshape({1, batch, hidden}));
      lastC.push_back(c.reshape({1, batch, hidden}));
    }
    SmallVector<Tensor> byStep;
    for (SmallVector<Tensor> &one : outputs)
      byStep.push_back(joined(one, 1));
    Tensor y = joined(byStep, 0), h = joined(lastH, 0);
    node.set(0, batchFirst ? y.transpose({2, 0, 1, 3}) : y);
    if (node.wants(1))
      node.set(1, turned(h));
    if (gates == 4 && node.wants(2))
      node.set(2, turned(joined(lastC, 0)));
    return success();
  }
};

} // namespace

template <int64_t gates> static LogicalResult importRecurrent(Node &node) {
  Layer layer{node, gates};
  return failed(layer.read()) ? failure() : layer.run();
}

void onnx::registerRecurrentOps(HandlerRegistry &r) {
  r.add("", "RNN", 7, importRecurrent<1>, needs(3) | floats(1));
  r.add("", "GRU", 7, importRecurrent<3>, needs(3) | floats(1));
  r.add("", "LSTM", 7, importRecurrent<4>, needs(3) | floats(1));
}
