//===- TrainingInfo.cpp - Training steps of ONNX files --------------------===//
//
// Reads `training_info` as ONNX defines it (docs/IR.md, onnx.proto, operators of
// ai.onnx.preview.training): which initializers a step changes, from which gradients,
// by which optimizer.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Rules/Parameters.h"
#include "lib/Frontend/ONNX/Training/StepGraph.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// Domain of `Gradient` and of the optimizers.
constexpr llvm::StringLiteral kTrainingDomain = "ai.onnx.preview.training";

/// The first error of a training step, on the node that is read.
class StepErrors {
public:
  explicit StepErrors(ImportContext &context) : context(context) {}

  /// Sets the node that errors are on; null: the file.
  void enter(const NodeProto *node) { current = node; }
  /// Emits an error unless `holds` or there is one already. Returns whether there is none.
  template <typename... Parts> bool require(bool holds, const char *pattern, Parts &&...parts) {
    if (!holds && !context.hasFailed())
      (void)(current ? context.errorAt(*current, pattern, std::forward<Parts>(parts)...)
                     : context.error(pattern, std::forward<Parts>(parts)...));
    return !context.hasFailed();
  }

private:
  ImportContext &context;
  const NodeProto *current = nullptr;
};

/// Reads the bindings; fails, with an error, if a key or a value is none.
bool readBindings(ImportContext &context, StepErrors &errors, Bindings &bindings) {
  llvm::StringMap<const ValueInfoProto *> outputs;
  for (const ValueInfoProto &output : context.graph().output())
    outputs[output.name()] = &output;
  for (const auto &entry : context.model.proto().training_info(0).update_binding()) {
    const std::string &key = entry.key(), &value = entry.value();
    const TensorProto *tensor = context.definitions.initializers.lookup(key);
    const ValueInfoProto *output = outputs.lookup(value);
    errors.require(tensor, "update_binding: {} is no initializer", key);
    errors.require(bindings.insert({key, value}).second, "update_binding: {} is bound twice", key);
    if (!errors.require(
            output,
            "update_binding: {} is bound to {}, which is no output of the algorithm or the graph",
            key, value) ||
        !errors.require(!contradicts(output->type().tensor_type(), *tensor),
                        "update_binding: {} and {}, to which it is bound, have different types",
                        key, value))
      return false;
  }
  return errors.require(!bindings.empty(),
                        "training_info has no update_binding, so that no step changes anything");
}

/// The loss of a training step, and its gradients.
struct StepGradients {
  /// The value whose gradients are taken.
  std::string loss;
  /// The names that the loss is computed from.
  llvm::StringSet<> reached;
  /// The parameter of each gradient, by the gradient's name.
  llvm::StringMap<std::string> parameterOf;
};

/// Reads the nodes that compute gradients: the loss, and the parameters.
class GradientReader {
public:
  GradientReader(const StepGraph &graph, StepErrors &errors)
      : context(graph.context), graph(graph), errors(errors) {}

  /// Returns nothing after an error.
  std::optional<StepGradients> read() {
    for (const NodeProto &node : context.graph().node())
      if (node.domain() == kTrainingDomain)
        readGradient(node);
    errors.enter(nullptr);
    if (!errors.require(!found.loss.empty(),
                        "training_info: no Gradient computes gradients of a loss"))
      return std::nullopt;
    return std::move(found);
  }

private:
  using Names = google::protobuf::RepeatedPtrField<std::string>;

  /// Reads the node if it is a Gradient.
  void readGradient(const NodeProto &node) {
    errors.enter(&node);
    int64_t version = context.scope.opsetOf(node);
    std::string shown =
        version ? "version " + std::to_string(version) : "which the file does not import";
    if (!errors.require(version == 1, "is of operator set {} {}; Shale has version 1",
                        StringRef(kTrainingDomain), plain(shown)) ||
        node.op_type() != "Gradient")
      return;
    NodeAttributes attributes(context, node);
    const auto &xs = attributes.value("xs").strings(), &zs = attributes.value("zs").strings();
    const std::string &y = attributes.value("y").s();
    if (failed(attributes.finish()))
      return;
    errors.require(!xs.empty(), "names no tensors in xs");
    errors.require(!y.empty(), "names no tensor in y");
    if (!errors.require(int64_t(node.input_size()) == int64_t(xs.size()) + zs.size(),
                        "has {} operands, one each for {} xs and {} zs are needed",
                        node.input_size(), xs.size(), zs.size()))
      return;
    errors.require(node.output_size() <= xs.size(), "has {} results for {} xs", node.output_size(),
                   xs.size());
    for (int i = 0; i < node.input_size(); ++i)
      checkOperand(node.input(i), i, xs, zs);
    checkLoss(node, y, xs);
    for (auto [x, result] : llvm::zip(xs, node.output()))
      if (!result.empty())
        found.parameterOf[result] = x;
  }

  void checkOperand(StringRef operand, int number, const Names &xs, const Names &zs) {
    bool isFixed = number >= xs.size();
    const std::string &name = isFixed ? zs[number - xs.size()] : xs[number];
    const char *list = isFixed ? "zs" : "xs";
    errors.require(graph.isDefined(name), "{}: no tensor is named {}", list, name);
    errors.require(
        graph.source(operand) == graph.source(name),
        "{}: operand {} ({}) replaces {}: gradients at other values than those of the step are "
        "not supported",
        list, number, operand, name);
    if (isFixed) { // while x changes, so it must not be computed from x
      llvm::StringSet<> from = graph.ancestors(name);
      for (const std::string &x : xs)
        errors.require(!from.contains(x),
                       "zs: {} is computed from {} (xs): partial derivatives are not supported",
                       name, x);
      return;
    }
    const TensorProto *tensor = graph.initializer(name);
    errors.require(
        tensor,
        "xs: {} is no initializer: gradients of inputs and of intermediate values are not supported",
        name);
    errors.require(tensor && isFloat(*tensor), "xs: {} is no tensor of floats", name);
  }

  void checkLoss(const NodeProto &node, const std::string &y, const Names &xs) {
    errors.require(graph.isDefined(y), "y: no tensor is named {}", y);
    errors.require(found.loss.empty() || found.loss == y,
                   "y: takes gradients of {}, and another node those of {}: a step has one loss", y,
                   found.loss);
    if (found.loss.empty()) {
      found.loss = y;
      found.reached = graph.ancestors(y);
      for (const NodeProto &other : context.graph().node())
        for (const std::string &result : other.output())
          if (other.domain() == kTrainingDomain)
            errors.require(
                !found.reached.contains(result), "y: {} is computed from {}, a result of {}: {}", y,
                result, plain(placeOf(other)),
                &other == &node ? "a cycle" : "gradients of gradients are not supported");
    }
    for (const std::string &x : xs)
      errors.require(found.reached.contains(x), "y: {} does not depend on {} (xs)", y, x);
  }

  ImportContext &context;
  const StepGraph &graph;
  StepErrors &errors;
  StepGradients found;
};

/// An operator of ai.onnx.preview.training that updates tensors. Its operands are R, T, tensors,
/// their gradients, and `states` lists of states; its results the new tensors and states.
struct UpdateOperator {
  llvm::StringLiteral type, kind; // kind: Shale's optimizer
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
  const UpdateOperator *found =
      llvm::find_if(all, [&](const UpdateOperator &one) { return node.op_type() == one.type; });
  return node.domain() == kTrainingDomain && found != std::end(all) ? found : nullptr;
}

/// Reads the nodes that compute the bound values, one optimizer's for all parameters.
class UpdateReader {
public:
  UpdateReader(const StepGraph &graph, const StepGradients &gradients, StepErrors &errors,
               FileTraining &training)
      : context(graph.context), graph(graph), gradients(gradients), errors(errors),
        training(training) {}

  /// Finds the optimizer that computes all bound values, and the parameters that it updates.
  /// Returns false after an error.
  bool read() {
    llvm::StringSet<> trained;
    for (const auto &gradient : gradients.parameterOf)
      trained.insert(gradient.second);
    for (const auto &binding : graph.bindings) {
      StringRef key = binding.first, value = binding.second;
      const NodeProto *node = graph.maker(value);
      errors.require(
          !gradients.reached.contains(key) || trained.contains(key),
          "update_binding: {} is changed by each step, and the loss reads it, but it is no parameter with a gradient: not supported",
          key);
      if (!errors.require(node, "update_binding: {} is bound to {}, which no node computes", key,
                          value))
        return false;
      readUpdate(*node, key, value);
      errors.enter(nullptr);
    }
    return errors.require(training.optimizer.kind,
                          "training_info: no update_binding is of an optimizer, "
                          "so that no step changes a parameter");
  }

private:
  /// Reads the node that computes the new value of an initializer.
  void readUpdate(const NodeProto &node, StringRef key, StringRef value) {
    errors.enter(&node);
    // X - R * gradient
    bool isStep = isStandard(&node, "Sub", 2) && graph.source(node.input(0)) == key;
    const NodeProto *product = isStep ? graph.maker(node.input(1)) : nullptr;
    std::optional<Counted> counter = graph.counted(value);
    bool isCounter =
        graph.initializer(key)->data_type() == 7 && counter && counter->initializer == key;
    if (const UpdateOperator *op = operatorOf(node)) {
      if (!updated.contains(key))
        take(node, *op);
      errors.require(updated.contains(key),
                     "has no tensor {}, which update_binding binds to its result {}", key, value);
    } else if (isStandard(product, "Mul", 2)) {
      takeSgd(node, *product, key);
    } else {
      errors.require(
          isCounter,
          "computes the new value of {}: only Adam, Adagrad, Momentum (ai.onnx.preview.training), X - R * gradient, and counters (T + number) are supported",
          key);
    }
  }

  void take(const NodeProto &node, const UpdateOperator &op) {
    int lists = 2 + op.states, rest = node.input_size() - 2, count = rest / lists;
    errors.require(rest >= lists && rest % lists == 0,
                   "has {} operands: R, T and a multiple of {} are needed", node.input_size(),
                   lists);
    if (!errors.require(node.output_size() == count * (1 + op.states),
                        "has {} results for {} tensors: {} are needed", node.output_size(), count,
                        count * (1 + op.states)))
      return;
    FileOptimizer optimizer;
    optimizer.kind = nn::findOptimizer(op.kind);
    optimizer.fixed = {{"clip_grad_norm", 0}};
    readSettings(node, op, optimizer);
    readRate(node.input(0), optimizer);
    readCount(node.input(1), optimizer);
    for (int i = 0; i < count; ++i)
      takeTensor(node, i, count, op.states);
    unite(node, optimizer);
  }

  /// Takes over an update of an optimizer; all updates must be of one.
  void unite(const NodeProto &node, const FileOptimizer &optimizer) {
    auto settings = [](const FileOptimizer &o) {
      nn::UpdateCounter counter = o.counter.value_or(nn::UpdateCounter());
      return std::tuple(o.kind, o.fixed, o.rateInput, counter.first, counter.step);
    };
    FileOptimizer &first = training.optimizer;
    if (!first.kind) {
      first = optimizer;
      place = placeOf(node);
    }
    errors.require(
        settings(first) == settings(optimizer),
        "differs in learning rate, count, kind or constants from {}: use one optimizer for "
        "all parameters",
        plain(place));
  }

  void readSettings(const NodeProto &node, const UpdateOperator &op, FileOptimizer &optimizer) {
    NodeAttributes attributes(context, node);
    if (failed(attributes.set(op.settings, optimizer)))
      return;
    if (op.type == "Momentum") {
      const AttributeProto *mode = attributes.take("mode");
      if (!errors.require(mode, "lacks attribute 'mode'"))
        return;
      optimizer.fixed["nesterov"] = mode->s() == "nesterov";
      errors.require(mode->s() == "standard" || mode->s() == "nesterov",
                     "attribute 'mode' is {}, not standard or nesterov", mode->s());
    }
    if (!context.hasFailed())
      (void)attributes.finish();
  }

  void readRate(StringRef name, FileOptimizer &optimizer) {
    StringRef from = graph.source(name);
    if (graph.isInput(from)) { // the program's flag --lr
      optimizer.rateInput = from.str();
      return;
    }
    if (const TensorProto *tensor = graph.initializer(from)) {
      errors.require(isFloat(*tensor) && isScalar(*tensor), "R ({}) is no scalar of floats", name);
      errors.require(
          graph.bindings.lookup(from).empty(),
          "R ({}) is changed by update_binding: a learning rate that the file changes is not supported",
          name);
    }
    std::optional<double> value = graph.scalar(from);
    if (errors.require(
            value.has_value(),
            "R ({}) is neither an initializer, a constant nor an input: its value must be known",
            name))
      errors.require(*value >= 0 && *value <= 1e6, "R ({}) is {}, not from 0 to 1e6", name,
                     plain(llvm::formatv("{0}", *value).str()));
    optimizer.fixed["lr"] = value.value_or(0);
  }

  void readCount(StringRef name, FileOptimizer &optimizer) {
    errors.require(
        !graph.isInput(graph.source(name)),
        "T ({}) is an input: the count of updates must be an initializer, which update_binding may change",
        name);
    if (std::optional<Counted> from = graph.counted(name))
      return readCounter(name, *from, optimizer);
    std::optional<double> value = graph.scalar(name);
    if (!errors.require(value.has_value(), "T ({}) is neither an initializer nor one plus a number",
                        name) ||
        !errors.require(*value >= 0 && *value <= 1e15 && *value == std::floor(*value),
                        "T ({}) is {}, no count of updates from 0 to 1e15", name,
                        plain(llvm::formatv("{0}", *value).str())))
      return;
    optimizer.counter = nn::UpdateCounter{int64_t(*value), 0};
  }

  /// Reads the count T if it is an initializer plus a number.
  void readCounter(StringRef name, Counted from, FileOptimizer &optimizer) {
    const TensorProto *tensor = graph.initializer(from.initializer);
    errors.require(tensor->data_type() == 7 && isScalar(*tensor), "T ({}) is no scalar of int64",
                   name);
    std::optional<double> begin = graph.start(from.initializer);
    StringRef bound = graph.bindings.lookup(from.initializer);
    std::optional<Counted> next = bound.empty() ? Counted{from.initializer} : graph.counted(bound);
    if (!errors.require(begin && next && next->initializer == from.initializer,
                        "T ({}) changes by something else than a number per step", name))
      return;
    double first = *begin + double(from.offset);
    if (errors.require(first >= 0 && first <= 1e15 && next->offset >= 0,
                       "T ({}) is negative or decreases", name))
      optimizer.counter = nn::UpdateCounter{int64_t(first), next->offset};
  }

  /// Checks tensor number i of a node, its gradient, its states, and that the step updates them.
  void takeTensor(const NodeProto &node, int i, int count, int states) {
    const std::string &x = node.input(2 + i);
    const TensorProto *tensor = graph.initializer(x);
    if (!errors.require(tensor, "operand {} ({}) is no initializer: it updates only these", 2 + i,
                        x))
      return;
    checkGradient(node, x, node.input(2 + count + i));
    checkUpdate(x, node.output(i));
    for (int s = 1; s <= states; ++s) {
      int operand = 2 + (1 + s) * count + i;
      const std::string &state = node.input(operand);
      const TensorProto *values = graph.initializer(state);
      if (!errors.require(values, "operand {} ({}), a state of {}, is no initializer", operand,
                          state, x) ||
          !errors.require(values->data_type() == tensor->data_type() &&
                              llvm::equal(values->dims(), tensor->dims()),
                          "operand {} ({}) has another type than {}, whose state it is", operand,
                          state, x))
        return;
      checkUpdate(state, node.output(s * count + i));
      checkStart(operand, state);
      updated.insert(state);
    }
    training.parameters.push_back(x);
    updated.insert(x);
  }

  /// Fails, with an error, unless all elements of a state are 0 at the start.
  void checkStart(int operand, StringRef state) {
    auto given = graph.initial.find(state);
    llvm::Expected<bool> isZero =
        given == graph.initial.end()
            ? context.model.isZero(context.mlirContext(), *graph.initializer(state))
            : llvm::all_of(given->second.getValues<APFloat>(),
                           [](const APFloat &value) { return value.isZero(); });
    errors.require(bool(isZero), "initializer {}: {}", state,
                   plain(isZero ? "" : toString(isZero.takeError())));
    errors.require(
        isZero && *isZero,
        "operand {} ({}) does not start at 0: a state of an optimizer that starts at other values is not supported",
        operand, state);
  }

  /// Fails, with an error, if an initializer is not bound to its new value.
  void checkUpdate(StringRef name, StringRef value) {
    StringRef bound = graph.bindings.lookup(name);
    errors.require(
        !bound.empty() && graph.source(bound) == graph.source(value),
        "update_binding does not bind {} to {}, its new value: no other one is supported", name,
        value);
  }

  void checkGradient(const NodeProto &node, StringRef x, StringRef g) {
    auto found = gradients.parameterOf.find(graph.source(g));
    if (found != gradients.parameterOf.end())
      errors.require(found->second == x, "{} is the gradient of {}, not of {}, which it updates", g,
                     found->second, x);
    else if (const NodeProto *other = context.hasFailed() ? nullptr : graph.maker(g))
      context.errorAt(
          *other,
          "computes {}, which {} takes as the gradient of {}: only results of Gradient are supported",
          g, plain(placeOf(node)), x);
    else
      errors.require(false, "{} is no result of Gradient", g);
  }

  /// Takes X - R * G, the new value of an initializer X. `product`: R * G.
  void takeSgd(const NodeProto &node, const NodeProto &product, StringRef x) {
    bool first = gradients.parameterOf.count(graph.source(product.input(0)));
    FileOptimizer optimizer;
    optimizer.kind = nn::findOptimizer("sgd");
    optimizer.fixed = {{"momentum", 0}, {"weight_decay", 0}, {"clip_grad_norm", 0}};
    errors.enter(&product);
    checkGradient(product, x, product.input(first ? 0 : 1));
    readRate(product.input(first ? 1 : 0), optimizer);
    errors.enter(&node);
    training.parameters.push_back(x.str());
    unite(node, optimizer);
  }

  ImportContext &context;
  const StepGraph &graph;
  const StepGradients &gradients;
  StepErrors &errors;
  FileTraining &training;
  /// The node of its optimizer, for messages: "node 'adam' (Adam)".
  std::string place;
  /// The parameters and states that the optimizers update.
  llvm::StringSet<> updated;
};

} // namespace

FailureOr<FileTraining> onnx::readTrainingInfo(ImportContext &context, InitialValues initial) {
  StepErrors errors(context);
  Bindings bindings;
  if (!readBindings(context, errors, bindings))
    return failure();
  StepGraph graph(context, bindings, initial);
  std::optional<StepGradients> gradients = GradientReader(graph, errors).read();
  FileTraining training;
  training.origin = "training_info";
  if (!gradients || !UpdateReader(graph, *gradients, errors, training).read())
    return failure();
  training.loss = std::move(gradients->loss);
  llvm::StringSet<> trained;
  trained.insert_range(training.parameters);
  for (const TensorProto &tensor : context.graph().initializer())
    if (isFloat(tensor) && !isScalar(tensor) && gradients->reached.contains(tensor.name()) &&
        !trained.contains(tensor.name()))
      training.frozen.push_back(tensor.name());
  training.initial = std::move(initial);
  return training;
}
