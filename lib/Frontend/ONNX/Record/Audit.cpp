//===- Audit.cpp - The graph against its record ---------------------------===//
//
// The exporter records the operation that each node was made from, with its arguments. Where nodes
// differ from the form in which the exporter writes that operation, a tool has changed the file.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Finder.h"
#include "lib/Frontend/ONNX/Record/FitForm.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Returns the only element of a tensor of f32.
static std::optional<double> onlyNumber(Model &model, mlir::MLIRContext &context,
                                        const TensorProto &tensor) {
  if (tensor.data_type() != 1 || !isScalar(tensor))
    return std::nullopt;
  llvm::Expected<mlir::DenseElementsAttr> data = model.read(&context, tensor, sizeof(float));
  if (!data) {
    llvm::consumeError(data.takeError());
    return std::nullopt;
  }
  return data->getNumElements() == 1
             ? std::optional<double>((*data->getValues<llvm::APFloat>().begin()).convertToFloat())
             : std::nullopt;
}

/// Whether a tensor may be another one in its layout, or transposed. An invalid tensor is an error
/// elsewhere.
static bool mayBeSame(Model &model, mlir::MLIRContext &context, const TensorProto &tensor,
                      const TensorProto &other) {
  llvm::Expected<bool> same = model.mayBeSame(&context, tensor, other);
  if (same)
    return *same;
  llvm::consumeError(same.takeError());
  return true;
}

/// Whether a value is a result of a Split. The exporter gives it no record, and calls its results
/// getitem.
bool Finder::isPartOfSplit(StringRef value) const {
  const NodeProto *node = nodeOf.lookup(value);
  return node && !makers.lookup(value) && node->op_type() == "Split";
}

/// Whether an argument of the record reads other than the operand with its number: a number that is
/// not the operand's, or another value of the exported program.
bool Finder::differs(StringRef argument, StringRef operand, mlir::MLIRContext &context) const {
  const Operation *maker = makers.lookup(operand);
  bool isOther = maker || isInput.contains(operand) || llvm::is_contained(targets, operand) ||
                 isPartOfSplit(operand);
  double written = 0;
  if (argument.consume_front("%")) {
    // A part of another operation of this argument, such as a transpose, is merged.
    if (maker && operand != maker->fx.name && operationOf(operand).empty() &&
        llvm::is_contained(maker->fx.args, argument))
      return false;
    if (auto parameter = byPlaceholder.find(argument); parameter != byPlaceholder.end()) {
      const TensorProto *wanted = initializers.lookup(targets[parameter->second]);
      const TensorProto *found = initializers.lookup(operand);
      if (!wanted || wanted == found)
        return false;
      // A matrix may be there transposed, too.
      return isOther ||
             (found && (found->dims_size() == 1 || !mayBeSame(model, context, *wanted, *found)));
    }
    // What is not folded itself is not folded into a constant.
    if (makers.count(argument) && !argument.starts_with("sym_") && initializers.count(operand))
      return true;
    if (initializers.count(argument) && initializers.count(operand) &&
        !llvm::is_contained(targets, argument))
      return operand != argument; // folded values
    return isOther &&
           (makers.count(argument) || operations.contains(("%" + argument).str()) ||
            isInput.contains(argument)) &&
           operand != argument && !(maker && maker->fx.name == argument);
  }
  if (argument.getAsDouble(written) || !std::isfinite(written))
    return false;
  std::optional<double> number;
  if (auto tensor = initializers.find(operand); tensor != initializers.end())
    number = onlyNumber(model, context, *tensor->second);
  const NodeProto *constant = nodeOf.lookup(operand);
  if (constant && constant->op_type() == "Constant" && constant->attribute_size() == 1 &&
      constant->attribute(0).name() == "value")
    number = onlyNumber(model, context, constant->attribute(0).t());
  return number && std::abs(*number - written) > 1e-6 * std::abs(written);
}

/// Whether an operand of an operation, where its form has an argument, is the value of that name.
Fit Finder::fitValue(StringRef name, StringRef operand, mlir::MLIRContext &context) const {
  const Operation *maker = makers.lookup(operand);
  if (operand == name)
    return Fit::Yes;
  if (maker && maker->fx.name == name) // one of several results, or a value inside
    return makers.count(name) && !name.starts_with("sym_") ? Fit::No : Fit::Yes;
  // A part of another operation of this value: the exporter merges layouts, and what no form has.
  if (maker && operationOf(operand).empty() && llvm::is_contained(maker->fx.args, name))
    return isAnywhere(nodeOf.lookup(operand)->op_type()) ? Fit::Open : Fit::No;
  return differs(("%" + name).str(), operand, context) ? Fit::No : Fit::Open;
}

/// Returns the place where an operation without a form reads the result of another one that its
/// record does not name. A node of it may be merged with an operation of the same arguments.
std::optional<Difference> Finder::unnamedRead(const Operation &operation) const {
  const std::vector<std::string> &args = operation.fx.args;
  if (!missingNames(operation).empty()) // it may be one of these
    return std::nullopt;
  for (const NodeProto *node : operation.nodes)
    for (int i = 0; i < node->input_size(); ++i) {
      const std::string &read = node->input(i);
      const Operation *maker = makers.lookup(read);
      bool isOther = maker && maker != &operation && maker->fx.name == read &&
                     floats.contains(read) && !llvm::is_contained(args, read);
      if (isOther && llvm::any_of(maker->fx.args, [&](const std::string &name) {
            return !llvm::is_contained(args, name);
          }))
        return Difference{node, i, "", "'" + read + "'", "no such argument"};
    }
  return std::nullopt;
}

/// Whether the exporter's optimizer made a batch normalization a part of the product before it.
/// Source: onnxscript's rewriter/rules/common/_fuse_batchnorm.py.
static bool isMergedNorm(const Operation &operation) {
  return operation.kind().contains("batch_norm") &&
         llvm::is_contained({"Conv", "ConvTranspose", "Gemm"}, operation.nodes.back()->op_type());
}

static std::string sentenceOf(const Difference &difference, const Operation &operation) {
  std::string target = displayName(operation.fx.target);
  if (difference.operand < 0 && difference.attribute.empty())
    return "the nodes of '" + displayName(operation.fx.name) +
           "' read each other otherwise than those of every " + target;
  std::string place = difference.attribute.empty()
                          ? "operand " + std::to_string(difference.operand)
                          : "attribute '" + displayName(difference.attribute) + "'";
  return "node '" + displayName(difference.node->name()) + "' has " +
         displayName(difference.found) + " as " + place + ", and the record of its operation, " +
         target + ", has " + displayName(difference.expected);
}

void Finder::audit() {
  for (const auto &assumed : options.assumedForms)
    if (llvm::none_of(operations, [&](const auto &entry) {
          return entry.second.fx.target == assumed.getKey();
        }))
      out.errors.push_back("--assume-form " + displayName(assumed.getKey()) +
                           ": the file has no such operation; names are like aten.mul.Tensor");
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  for (const auto *values : {&graph.value_info(), &graph.output()})
    for (const ValueInfoProto &value : *values)
      if (llvm::is_contained({1, 10, 11, 16}, value.type().tensor_type().elem_type()))
        floats.insert(value.name());
  for (auto &entry : operations) {
    Operation &operation = entry.second;
    auto isValue = [&](StringRef name, StringRef operand) {
      return fitValue(name, operand, context);
    };
    Difference difference;
    if (options.assumedForms.contains(operation.fx.target))
      continue;
    Fit fit = fitter.fit(operation, isValue, difference);
    operation.hasForm = fit == Fit::Yes || fit == Fit::Open;
    if (isMergedNorm(operation)) {
      out.errors.push_back(
          "node '" + displayName(operation.nodes.back()->name()) +
          "' has the record of a batch normalization, '" + displayName(operation.fx.name) +
          "': the export computed its weights from those of both layers, as for inference, so the "
          "two cannot be trained. Export with torch.onnx.export(..., optimize=False)");
      return;
    }
    std::optional<Difference> unnamed = fit == Fit::Other ? unnamedRead(operation) : std::nullopt;
    if (fit != Fit::No && !unnamed)
      continue;
    if (unnamed)
      difference = *unnamed;
    out.errors.push_back(sentenceOf(difference, operation) +
                         ": a tool has changed the file after its export. Compile the file that "
                         "PyTorch wrote; if this is that file, pass --assume-form " +
                         displayName(operation.fx.target));
    return;
  }
}
