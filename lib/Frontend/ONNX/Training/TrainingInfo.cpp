//===- TrainingInfo.cpp - Training steps of ONNX files --------------------===//
//
// Reads `training_info` as ONNX defines it (docs/IR.md, onnx.proto, operators of
// ai.onnx.preview.training): which initializers a step changes, from which gradients,
// by which optimizer.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Parameters.h"
#include "lib/Frontend/ONNX/Scope.h"
#include "lib/Frontend/ONNX/Training/StepGraph.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// Gradients of a loss: initializers by the name of the gradient.
struct GradientNames {
  std::string loss;
  /// The names that the loss is computed from.
  llvm::StringSet<> reached;
  /// The parameter of each gradient.
  llvm::StringMap<std::string> parameters;

  bool isTrained(llvm::StringRef name) const {
    return llvm::any_of(parameters, [&](const auto &entry) { return entry.second == name; });
  }
};

} // namespace

/// Reads the bindings; fails, with an error, if a key or a value is none.
static LogicalResult readBindings(ImportContext &context, Bindings &bindings) {
  llvm::StringMap<const ValueInfoProto *> outputs;
  for (const ValueInfoProto &output : context.graph().output())
    outputs[output.name()] = &output;
  for (const StringStringEntryProto &entry :
       context.model.proto().training_info(0).update_binding()) {
    std::string key = displayName(entry.key()), value = displayName(entry.value());
    const TensorProto *tensor = context.definitions.initializers.lookup(entry.key());
    if (!tensor)
      return context.error("update_binding: {} is no initializer", key);
    if (!bindings.insert({entry.key(), entry.value()}).second)
      return context.error("update_binding: {} is bound twice", key);
    const ValueInfoProto *output = outputs.lookup(entry.value());
    if (!output)
      return context.error(
          "update_binding: {} is bound to {}, which is no output of the algorithm or the graph",
          key, value);
    if (contradicts(output->type().tensor_type(), *tensor))
      return context.error("update_binding: {} and {}, to which it is bound, have different types",
                           key, value);
  }
  if (bindings.empty())
    return context.error("training_info has no update_binding, so that no step changes anything");
  return success();
}

namespace {

/// Reads the uses of `Gradient`.
class GradientReader {
public:
  GradientReader(ImportContext &context, const StepGraph &step, GradientNames &out)
      : context(context), step(step), out(out) {}

  LogicalResult read(const NodeProto &node) {
    NodeAttributes attributes(context, node);
    std::vector<std::string> xs = attributes.strings("xs"), zs = attributes.strings("zs");
    const AttributeProto *loss = attributes.take("y");
    std::string y = loss ? loss->s() : "";
    if (failed(attributes.finish()))
      return failure();
    if (xs.empty() || y.empty())
      return context.errorAt(node, xs.empty() ? "names no tensors in xs" : "names no tensor in y");
    if (size_t(node.input_size()) != xs.size() + zs.size())
      return context.errorAt(node, "has {} operands, one each for {} xs and {} zs are needed",
                             node.input_size(), xs.size(), zs.size());
    if (size_t(node.output_size()) > xs.size())
      return context.errorAt(node, "has {} results for {} xs", node.output_size(), xs.size());
    for (size_t i = 0; i < xs.size(); ++i)
      if (failed(checkOperand(node, i, xs[i], "xs")) || failed(checkVariable(node, xs[i])))
        return failure();
    for (size_t i = 0; i < zs.size(); ++i)
      if (failed(checkOperand(node, xs.size() + i, zs[i], "zs")) ||
          failed(checkIndependent(node, zs[i], xs)))
        return failure();
    if (failed(checkLoss(node, y, xs)))
      return failure();
    for (auto [x, result] : llvm::zip(xs, node.output()))
      if (!result.empty())
        out.parameters[result] = x;
    return success();
  }

private:
  LogicalResult checkOperand(const NodeProto &node, int number, StringRef name, StringRef list) {
    std::string shown = displayName(name);
    if (!step.isDefined(name))
      return context.errorAt(node, list + ": no tensor is named '" + shown + "'");
    if (step.source(node.input(number)) != step.source(name))
      return context.errorAt(
          node, list + ": operand " + Twine(number) + " ('" + displayName(node.input(number)) +
                    "') replaces '" + shown +
                    "': gradients at other values than those of the step are not supported");
    return success();
  }

  LogicalResult checkVariable(const NodeProto &node, StringRef x) {
    const TensorProto *tensor = step.initializer(x);
    if (!tensor)
      return context.errorAt(
          node,
          "xs: {} is no initializer: gradients of inputs and of intermediate values are not supported",
          x);
    if (!isFloat(*tensor))
      return context.errorAt(node, "xs: {} is no tensor of floats", x);
    return success();
  }

  /// The other variables are fixed while x changes, so they must not be computed from it.
  LogicalResult checkIndependent(const NodeProto &node, StringRef z, ArrayRef<std::string> xs) {
    llvm::StringSet<> from = step.ancestors(z);
    for (const std::string &x : xs)
      if (from.contains(x))
        return context.errorAt(
            node, "zs: {} is computed from {} (xs): partial derivatives are not supported", z, x);
    return success();
  }

  LogicalResult checkLoss(const NodeProto &node, const std::string &y, ArrayRef<std::string> xs) {
    if (!step.isDefined(y))
      return context.errorAt(node, "y: no tensor is named {}", y);
    if (!out.loss.empty() && out.loss != y)
      return context.errorAt(
          node, "y: takes gradients of {}, and another node those of {}: a step has one loss", y,
          out.loss);
    if (out.loss.empty()) {
      out.loss = y;
      out.reached = step.ancestors(y);
      for (const NodeProto &other : step.graph().node())
        for (const std::string &result : other.output())
          if (StepGraph::isTraining(other) && out.reached.contains(result))
            return context.errorAt(node, "y: {} is computed from {}, a result of {}: {}", y, result,
                                   plain(placeOf(other)),
                                   &other == &node ? "a cycle"
                                                   : "gradients of gradients are not supported");
    }
    for (const std::string &x : xs)
      if (!out.reached.contains(x))
        return context.errorAt(node, "y: {} does not depend on {} (xs)", y, x);
    return success();
  }

  ImportContext &context;
  const StepGraph &step;
  GradientNames &out;
};

} // namespace

//===----------------------------------------------------------------------===//
// Optimizers of a file's training step
//===----------------------------------------------------------------------===//

namespace {

/// An operator of ai.onnx.preview.training that updates tensors. Its operands are R, T, tensors,
/// their gradients, and `states` lists of states; its results the new tensors and states.
struct UpdateOperator {
  const char *type;
  const char *kind; // Shale's optimizer
  int states;
  std::vector<Setting> settings;
};

const UpdateOperator *operatorOf(const NodeProto &node) {
  static const UpdateOperator all[] = {
      {"Adam",
       "adam",
       2,
       {{"alpha", "beta1", double(0.9f)},
        {"beta", "beta2", double(0.999f)},
        {"epsilon", "eps", double(1e-6f)},
        {"norm_coefficient", "weight_decay", 0.0},
        {"norm_coefficient_post", "shrink", 0.0}}},
      {"Adagrad",
       "adagrad",
       1,
       {{"decay_factor", "lr_decay", 0.0},
        {"epsilon", "eps", double(1e-6f)},
        {"norm_coefficient", "weight_decay", 0.0}}},
      {"Momentum",
       "momentum",
       1,
       {{"alpha", "momentum", std::nullopt},
        {"beta", "gradient_weight", std::nullopt},
        {"norm_coefficient", "weight_decay", std::nullopt}}},
  };
  if (StepGraph::isTraining(node))
    for (const UpdateOperator &one : all)
      if (node.op_type() == one.type)
        return &one;
  return nullptr;
}

/// Finds the optimizer that computes all bound values, and the parameters that it updates.
class UpdateReader {
public:
  UpdateReader(ImportContext &context, const StepGraph &step, const Bindings &bindings,
               const GradientNames &gradients, FileTraining &training)
      : context(context), step(step), bindings(bindings), gradients(gradients), training(training) {
  }

  LogicalResult run() {
    for (auto [key, value] : bindings) {
      const NodeProto *node = step.producer(step.source(value));
      if (gradients.reached.contains(key) && !gradients.isTrained(key))
        return context.error(
            "update_binding: {} is changed by each step, and the loss reads it, but it is no parameter with a gradient: not supported",
            key);
      if (!node)
        return context.error("update_binding: {} is bound to {}, which no node computes", key,
                             value);
      if (const UpdateOperator *op = operatorOf(*node)) {
        if (taken.insert(node).second && failed(take(*node, *op)))
          return failure();
        if (!updated.contains(key))
          return context.errorAt(
              *node, "has no tensor {}, which update_binding binds to its result {}", key, value);
      } else if (const NodeProto *product = plainSgd(*node, key)) {
        if (failed(takeSgd(*node, *product, key)))
          return failure();
      } else if (!isCounter(key, value)) {
        return context.errorAt(
            *node,
            "computes the new value of {}: only Adam, Adagrad, Momentum (ai.onnx.preview.training), X - R * gradient, and counters (T + number) are supported",
            key);
      }
    }
    return training.optimizer.kind
               ? success()
               : context.error("training_info: no update_binding is of an "
                               "optimizer, so that no step changes a parameter");
  }

private:
  bool isCounter(StringRef key, StringRef value) const {
    std::optional<Counted> counted = step.counted(value);
    return step.initializer(key)->data_type() == 7 && counted && counted->initializer == key;
  }

  /// Whether a value is the new value of an initializer.
  bool updates(StringRef initializer, StringRef value) const {
    StringRef bound = step.update(initializer);
    return !bound.empty() && step.source(bound) == step.source(value);
  }

  LogicalResult take(const NodeProto &node, const UpdateOperator &op) {
    int lists = 2 + op.states, rest = node.input_size() - 2;
    if (rest < lists || rest % lists != 0)
      return context.errorAt(node, "has {} operands: R, T and a multiple of {} are needed",
                             node.input_size(), lists);
    int count = rest / lists;
    if (node.output_size() != count * (1 + op.states))
      return context.errorAt(node, "has {} results for {} tensors: {} are needed",
                             node.output_size(), count, count * (1 + op.states));
    FileOptimizer optimizer;
    optimizer.kind = nn::findOptimizer(op.kind);
    optimizer.place = placeOf(node);
    if (failed(readSettings(node, op, optimizer)) ||
        failed(readRate(node, node.input(0), optimizer)) || failed(readCount(node, optimizer)))
      return failure();
    for (int i = 0; i < count; ++i)
      if (failed(takeTensor(node, i, count, op.states)))
        return failure();
    return unite(node, std::move(optimizer));
  }

  /// Takes over an update of an optimizer; all updates must be of one.
  LogicalResult unite(const NodeProto &node, FileOptimizer optimizer) {
    optimizer.fixed["clip_grad_norm"] = 0;
    FileOptimizer &first = training.optimizer;
    if (!first.kind)
      first = std::move(optimizer);
    else if (!first.hasSettingsOf(optimizer))
      return context.errorAt(node, "differs in learning rate, count, kind or constants from " +
                                       first.place + ": use one optimizer for all parameters");
    return success();
  }

  LogicalResult readSettings(const NodeProto &node, const UpdateOperator &op,
                             FileOptimizer &optimizer) {
    NodeAttributes attributes(context, node);
    if (failed(attributes.set(op.settings, optimizer)))
      return failure();
    if (StringRef(op.type) == "Momentum") {
      const AttributeProto *mode = attributes.take("mode");
      if (!mode)
        return context.errorAt(node, "lacks attribute 'mode'");
      if (mode->s() != "standard" && mode->s() != "nesterov")
        return context.errorAt(node, "attribute 'mode' is {}, not standard or nesterov", mode->s());
      optimizer.fixed["nesterov"] = mode->s() == "nesterov";
    }
    return attributes.finish();
  }

  LogicalResult readRate(const NodeProto &node, StringRef name, FileOptimizer &optimizer) {
    StringRef source = step.source(name);
    if (step.isInput(source)) { // the program's flag --lr
      optimizer.rateInput = source.str();
      return success();
    }
    if (const TensorProto *tensor = step.initializer(source)) {
      if (!isFloat(*tensor) || !isScalar(*tensor))
        return context.errorAt(node, "R ({}) is no scalar of floats", name);
      if (!step.update(source).empty())
        return context.errorAt(
            node,
            "R ({}) is changed by update_binding: a learning rate that the file changes is not supported",
            name);
    }
    std::optional<double> value = step.scalar(source);
    if (!value)
      return context.errorAt(
          node,
          "R ({}) is neither an initializer, a constant nor an input: its value must be known",
          name);
    if (!(*value >= 0 && *value <= 1e6))
      return context.errorAt(node, "R ({}) is {}, not from 0 to 1e6", name,
                             plain(llvm::formatv("{0}", *value).str()));
    optimizer.fixed["lr"] = *value;
    return success();
  }

  LogicalResult readCount(const NodeProto &node, FileOptimizer &optimizer) {
    const std::string &name = node.input(1);
    if (step.isInput(step.source(name)))
      return context.errorAt(
          node,
          "T ({}) is an input: the count of updates must be an initializer, which update_binding may change",
          name);
    std::optional<Counted> counted = step.counted(name);
    if (!counted) {
      std::optional<double> value = step.scalar(name);
      if (!value)
        return context.errorAt(node, "T ({}) is neither an initializer nor one plus a number",
                               name);
      if (!(*value >= 0 && *value <= 1e15) || *value != std::floor(*value))
        return context.errorAt(node, "T ({}) is {}, no count of updates from 0 to 1e15", name,
                               plain(llvm::formatv("{0}", *value).str()));
      optimizer.counter = nn::UpdateCounter{int64_t(*value), 0};
      return success();
    }
    const TensorProto *tensor = step.initializer(counted->initializer);
    if (tensor->data_type() != 7 || !isScalar(*tensor))
      return context.errorAt(node, "T ({}) is no scalar of int64", name);
    std::optional<double> start = step.start(counted->initializer);
    StringRef bound = step.update(counted->initializer);
    std::optional<Counted> next =
        bound.empty() ? Counted{counted->initializer} : step.counted(bound);
    if (!start || !next || next->initializer != counted->initializer)
      return context.errorAt(node, "T ({}) changes by something else than a number per step", name);
    double first = *start + double(counted->offset);
    if (!(first >= 0 && first <= 1e15) || next->offset < 0)
      return context.errorAt(node, "T ({}) is negative or decreases", name);
    optimizer.counter = nn::UpdateCounter{int64_t(first), next->offset};
    return success();
  }

  /// Checks tensor number i of a node, its gradient, its states, and that the step updates them.
  LogicalResult takeTensor(const NodeProto &node, int i, int count, int states) {
    const std::string &x = node.input(2 + i), &g = node.input(2 + count + i);
    const TensorProto *tensor = step.initializer(x);
    if (!tensor)
      return context.errorAt(node, "operand {} ({}) is no initializer: it updates only these",
                             2 + i, x);
    if (failed(checkGradient(node, x, g)))
      return failure();
    if (!updates(x, node.output(i)))
      return context.errorAt(
          node, "update_binding does not bind {} to {}, its new value: no other one is supported",
          x, node.output(i));
    for (int s = 1; s <= states; ++s) {
      int operand = 2 + (1 + s) * count + i;
      const std::string &name = node.input(operand), &next = node.output(s * count + i);
      updated.insert(name);
      std::string state = displayName(name);
      const TensorProto *values = step.initializer(name);
      if (!values)
        return context.errorAt(node, "operand {} ({}), a state of {}, is no initializer", operand,
                               state, x);
      if (values->data_type() != tensor->data_type() ||
          !std::equal(values->dims().begin(), values->dims().end(), tensor->dims().begin(),
                      tensor->dims().end()))
        return context.errorAt(node, "operand {} ({}) has another type than {}, whose state it is",
                               operand, state, x);
      if (!updates(name, next))
        return context.errorAt(
            node, "update_binding does not bind {} to {}, its new value: no other one is supported",
            state, next);
      llvm::Expected<bool> zero = step.isZero(name);
      if (!zero)
        return context.errorAt(node, "initializer {}: {}", state, zero.takeError());
      if (!*zero)
        return context.errorAt(
            node,
            "operand {} ({}) does not start at 0: a state of an optimizer that starts at other values is not supported",
            operand, state);
    }
    training.parameters.push_back(x);
    updated.insert(x);
    return success();
  }

  LogicalResult checkGradient(const NodeProto &node, StringRef x, StringRef g) {
    auto found = gradients.parameters.find(step.source(g));
    if (found != gradients.parameters.end())
      return found->second == x
                 ? success()
                 : context.errorAt(node, "{} is the gradient of {}, not of {}, which it updates", g,
                                   found->second, x);
    if (const NodeProto *maker = step.producer(step.source(g)))
      return context.errorAt(
          *maker,
          "computes {}, which {} takes as the gradient of {}: only results of Gradient are supported",
          g, plain(placeOf(node)), x);
    return context.errorAt(node, "{} is no result of Gradient", g);
  }

  /// Returns the product of X - R * G, the new value of an initializer X; null if it is none.
  const NodeProto *plainSgd(const NodeProto &node, StringRef x) const {
    if (node.op_type() != "Sub" || !domainOf(node.domain()).empty() || node.input_size() != 2 ||
        step.source(node.input(0)) != x)
      return nullptr;
    const NodeProto *product = step.producer(step.source(node.input(1)));
    bool fits = product && product->op_type() == "Mul" && domainOf(product->domain()).empty() &&
                product->input_size() == 2;
    return fits ? product : nullptr;
  }

  LogicalResult takeSgd(const NodeProto &node, const NodeProto &product, StringRef x) {
    bool first = gradients.parameters.count(step.source(product.input(0)));
    FileOptimizer optimizer;
    optimizer.kind = nn::findOptimizer("sgd");
    optimizer.place = placeOf(node);
    optimizer.fixed["momentum"] = optimizer.fixed["weight_decay"] = 0;
    if (failed(checkGradient(product, x, product.input(first ? 0 : 1))) ||
        failed(readRate(product, product.input(first ? 1 : 0), optimizer)))
      return failure();
    training.parameters.push_back(x.str());
    return unite(node, std::move(optimizer));
  }

  ImportContext &context;
  const StepGraph &step;
  const Bindings &bindings;
  const GradientNames &gradients;
  FileTraining &training;
  llvm::DenseSet<const NodeProto *> taken;
  /// Parameters and states that the taken nodes update.
  llvm::StringSet<> updated;
};

} // namespace

FailureOr<FileTraining> onnx::readTrainingInfo(ImportContext &context, InitialValues initial) {
  Bindings bindings;
  if (failed(readBindings(context, bindings)))
    return failure();
  const ModelProto &model = context.model.proto();
  int64_t version = 0;
  for (const OperatorSetIdProto &opset : model.opset_import())
    if (opset.domain() == kTrainingDomain)
      version = std::max(version, opset.version());
  StepGraph step(context, initial, bindings);
  GradientNames gradients;
  for (const NodeProto &node : model.graph().node()) {
    if (!StepGraph::isTraining(node))
      continue;
    if (version != 1)
      return context.errorAt(node, "is of operator set '" + kTrainingDomain + "' " +
                                       (version ? "version " + Twine(version)
                                                : Twine("which the file does not import")) +
                                       "; Shale has version 1");
    if (StepGraph::isTraining(node, "Gradient") &&
        failed(GradientReader(context, step, gradients).read(node)))
      return failure();
  }
  if (gradients.loss.empty())
    return context.error("training_info: no Gradient computes gradients of a loss");
  FileTraining training;
  training.origin = "training_info";
  training.loss = gradients.loss;
  if (failed(UpdateReader(context, step, bindings, gradients, training).run()))
    return failure();
  llvm::StringSet<> trained;
  for (const std::string &name : training.parameters)
    trained.insert(name);
  for (const TensorProto &tensor : model.graph().initializer())
    if (isFloat(tensor) && !isScalar(tensor) && gradients.reached.contains(tensor.name()) &&
        !trained.contains(tensor.name()))
      training.frozen.push_back(tensor.name());
  training.initial = std::move(initial);
  return training;
}
