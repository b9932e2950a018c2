//===- Updates.cpp - Optimizers of a file's training step -----------------===//
#include "lib/Frontend/ONNX/Training/Updates.h"
#include "lib/Frontend/ONNX/Record/Parameters.h"
#include "lib/Frontend/ONNX/Scope.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// An attribute of an optimizer and the hyper-parameter that it sets.
struct Setting {
  const char *attribute;
  const char *hyper;
  std::optional<double> value; // if the attribute is missing; none: it must be there
};

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

class UpdateReader {
public:
  UpdateReader(ImportContext &context, const StepGraph &step, const Bindings &bindings,
               const GradientNames &gradients, FileTraining &training)
      : context(context), step(step), bindings(bindings), gradients(gradients), training(training) {
  }

  LogicalResult run() {
    for (const std::string &key : bindings.order) {
      const std::string &value = bindings.values.lookup(key);
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
    std::map<std::string, const AttributeProto *> attributes;
    for (const AttributeProto &attribute : node.attribute())
      if (!attributes.emplace(attribute.name(), &attribute).second)
        return context.errorAt(node, "has attribute {} twice", attribute.name());
    for (const Setting &setting : op.settings) {
      auto found = attributes.find(setting.attribute);
      if (found == attributes.end() && !setting.value)
        return context.errorAt(node, "lacks attribute '{}'", setting.attribute);
      if (found != attributes.end() && !found->second->has_f())
        return context.errorAt(node, "attribute '{}' must be a float", setting.attribute);
      double value = found == attributes.end() ? *setting.value : double(found->second->f());
      const nn::HyperParameter *hyper = optimizer.kind->find(setting.hyper);
      if (!(value >= hyper->low && value <= hyper->high) ||
          (hyper->highExcluded && value == hyper->high))
        return context.errorAt(node, "attribute '{}' is {}, not from {}", setting.attribute,
                               plain(llvm::formatv("{0}", value).str()),
                               plain(llvm::formatv("{0} to {1}{2}", hyper->low,
                                                   hyper->highExcluded ? "below " : "", hyper->high)
                                         .str()));
      optimizer.fixed[setting.hyper] = value;
      attributes.erase(setting.attribute);
    }
    if (StringRef(op.type) == "Momentum") {
      auto mode = attributes.find("mode");
      StringRef text = mode == attributes.end() ? StringRef() : StringRef(mode->second->s());
      if (text != "standard" && text != "nesterov")
        return context.errorAt(node, mode == attributes.end()
                                         ? "lacks attribute 'mode'"
                                         : "attribute 'mode' is '" + displayName(text) +
                                               "', not standard or nesterov");
      optimizer.fixed["nesterov"] = text == "nesterov";
      attributes.erase("mode");
    }
    return attributes.empty()
               ? success()
               : context.errorAt(node, "has no attribute {}", attributes.begin()->first);
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
        return context.errorAt(node, "initializer {}: {}", state,
                               plain(llvm::toString(zero.takeError())));
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

  LogicalResult takeSgd(const NodeProto &node, const NodeProto &product, const std::string &x) {
    bool first = gradients.parameters.count(step.source(product.input(0)));
    FileOptimizer optimizer;
    optimizer.kind = nn::findOptimizer("sgd");
    optimizer.place = placeOf(node);
    optimizer.fixed["momentum"] = optimizer.fixed["weight_decay"] = 0;
    if (failed(checkGradient(product, x, product.input(first ? 0 : 1))) ||
        failed(readRate(product, product.input(first ? 1 : 0), optimizer)))
      return failure();
    training.parameters.push_back(x);
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

LogicalResult onnx::readUpdates(ImportContext &context, const StepGraph &step,
                                const Bindings &bindings, const GradientNames &gradients,
                                FileTraining &training) {
  return UpdateReader(context, step, bindings, gradients, training).run();
}
