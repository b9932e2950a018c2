//===- TrainingInfo.cpp - Training steps of ONNX files --------------------===//
//
// Reads `training_info` as ONNX defines it (docs/IR.md, onnx.proto, operators of
// ai.onnx.preview.training): which initializers a step changes, from which gradients,
// by which optimizer.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Parameters.h"
#include "lib/Frontend/ONNX/Training/FileTraining.h"
#include "lib/Frontend/ONNX/Training/Updates.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Whether a declared type contradicts a tensor's; what is not declared does not.
static bool contradicts(const TypeProto::Tensor &type, const TensorProto &tensor) {
  if (type.elem_type() != 0 && type.elem_type() != tensor.data_type())
    return true;
  if (!type.has_shape())
    return false;
  if (type.shape().dim_size() != tensor.dims_size())
    return true;
  for (auto [dim, size] : llvm::zip(type.shape().dim(), tensor.dims()))
    if (dim.has_dim_value() && dim.dim_value() != size)
      return true;
  return false;
}

LogicalResult onnx::readBindings(ImportContext &context,
                                 const llvm::StringMap<const TensorProto *> &initializers,
                                 Bindings &bindings) {
  llvm::StringMap<const ValueInfoProto *> outputs;
  for (const ValueInfoProto &output : context.graph().output())
    outputs[output.name()] = &output;
  for (const StringStringEntryProto &entry :
       context.model.proto().training_info(0).update_binding()) {
    std::string key = displayName(entry.key()), value = displayName(entry.value());
    const TensorProto *tensor = initializers.lookup(entry.key());
    if (!tensor)
      return context.error("update_binding: {} is no initializer", key);
    if (!bindings.values.try_emplace(entry.key(), entry.value()).second)
      return context.error("update_binding: {} is bound twice", key);
    const ValueInfoProto *output = outputs.lookup(entry.value());
    if (!output)
      return context.error(
          "update_binding: {} is bound to {}, which is no output of the algorithm or the graph",
          key, value);
    if (contradicts(output->type().tensor_type(), *tensor))
      return context.error("update_binding: {} and {}, to which it is bound, have different types",
                           key, value);
    bindings.order.push_back(entry.key());
  }
  if (bindings.order.empty())
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
    std::vector<std::string> xs, zs;
    std::string y;
    for (const AttributeProto &attribute : node.attribute()) {
      auto strings = [&] {
        return std::vector<std::string>(attribute.strings().begin(), attribute.strings().end());
      };
      if (attribute.name() == "xs")
        xs = strings();
      else if (attribute.name() == "zs")
        zs = strings();
      else if (attribute.name() == "y")
        y = attribute.s();
      else
        return context.errorAt(node, "has no attribute {}", attribute.name());
    }
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

FailureOr<FileTraining>
onnx::readTrainingInfo(ImportContext &context,
                       const llvm::StringMap<const TensorProto *> &initializers,
                       InitialValues initial) {
  Bindings bindings;
  if (failed(readBindings(context, initializers, bindings)))
    return failure();
  const ModelProto &model = context.model.proto();
  int64_t version = 0;
  for (const OperatorSetIdProto &opset : model.opset_import())
    if (opset.domain() == kTrainingDomain)
      version = std::max(version, opset.version());
  StepGraph step(context, initializers, initial, bindings.values);
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
  if (failed(readUpdates(context, step, bindings, gradients, training)))
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
