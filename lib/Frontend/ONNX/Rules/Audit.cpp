//===- Audit.cpp - The graph against its record ---------------------------===//
//
// The exporter records the operation that each node was made from, with its arguments. Where nodes
// differ from the form in which the exporter writes that operation, a tool has changed the file.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Words.h"
#include "lib/Frontend/ONNX/Rules/Rules.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

/// Whether a value is a result of a Split. The exporter gives it no record, and calls its results
/// getitem.
bool TracedProgram::isPartOfSplit(StringRef value) const {
  const NodeProto *node = nodeOf(value);
  return node && !makerOf(value) && node->op_type() == "Split";
}

Fit TracedProgram::fitValue(StringRef name, StringRef operand) const {
  if (operand == name)
    return Fit::Yes;
  const TracedOperation *maker = makerOf(operand);
  if (maker && maker->fx.name == name) // one of several results, or a value inside
    return isComputed(name) && !name.starts_with(words::kSize) ? Fit::No : Fit::Yes;
  // A part of another operation of this value: the exporter merges layouts, and what no form has.
  if (maker && operationOf(operand).empty() && llvm::is_contained(maker->fx.args, name))
    return isAnywhere(nodeOf(operand)->op_type()) ? Fit::Open : Fit::No;
  bool isOther = maker || isInput(operand) || parameterNamed(operand) || isPartOfSplit(operand);
  const TensorProto *found = initializer(operand);
  if (std::optional<size_t> parameter = parameterOf(name)) {
    const TensorProto *wanted = initializer(target(*parameter));
    if (!wanted || wanted == found)
      return Fit::Open;
    // A matrix may be there transposed, too.
    isOther |= found && (found->dims_size() == 1 || !model.mayBeSame(&context(), *wanted, *found));
    return isOther ? Fit::No : Fit::Open;
  }
  // The exporter folds the node of a value, too, where it folds the value into a constant.
  bool isMade = isComputed(name) && !name.starts_with(words::kSize);
  bool isOfFold = initializer(name) && !parameterNamed(name);
  if (found && (isMade || isOfFold))
    return Fit::No;
  bool isThere = isComputed(name) || isInput(name) || byName.contains(("%" + name).str());
  return isOther && isThere ? Fit::No : Fit::Open;
}

/// Returns the place where an operation without a form reads the result of another one that its
/// record does not name. A node of it may be merged with an operation of the same arguments.
std::optional<Difference> TracedProgram::unnamedRead(const TracedOperation &operation) const {
  const std::vector<std::string> &args = operation.fx.args;
  if (!missingNames(operation).empty()) // it may be one of these
    return std::nullopt;
  for (const NodeProto *node : operation.nodes)
    for (int i = 0; i < node->input_size(); ++i) {
      const std::string &read = node->input(i);
      const TracedOperation *maker = makerOf(read);
      bool isOther = maker && maker != &operation && maker->fx.name == read &&
                     fitter.isFloat(read) && !llvm::is_contained(args, read);
      if (isOther && llvm::any_of(maker->fx.args, [&](const std::string &name) {
            return !llvm::is_contained(args, name);
          }))
        return Difference{node, i, "", "'" + read + "'", "no such argument"};
    }
  return std::nullopt;
}

/// Whether the exporter's optimizer made a batch normalization a part of the product before it.
/// Source: onnxscript's rewriter/rules/common/_fuse_batchnorm.py.
static bool isMergedNorm(const TracedOperation &operation) {
  return operation.kind().contains("batch_norm") &&
         llvm::is_contained({"Conv", "ConvTranspose", "Gemm"}, operation.nodes.back()->op_type());
}

/// Returns where the nodes of an operation differ from its form, or read what they may not.
std::optional<Difference> TracedProgram::differenceOf(TracedOperation &operation) {
  Difference difference;
  Fit fit = fitter.fit(operation, difference);
  operation.hasForm = fit == Fit::Yes || fit == Fit::Open;
  if (fit == Fit::Other)
    return unnamedRead(operation);
  return fit == Fit::No ? std::optional(difference) : std::nullopt;
}

void TracedProgram::fitForms(const ParameterOptions &options) {
  if (listed.entries.empty())
    return;
  for (TracedOperation &operation : all) {
    if (options.assumedForms.contains(operation.fx.target))
      continue;
    bool isMerged = isMergedNorm(operation);
    std::optional<Difference> difference = isMerged ? std::nullopt : differenceOf(operation);
    if (isMerged || difference) {
      firstMismatch = {&operation, isMerged, difference.value_or(Difference())};
      return;
    }
  }
}

void rules::form(Known &known) {
  const TracedProgram &program = known.program;
  if (!program.mismatch())
    return;
  const TracedOperation &operation = *program.mismatch()->operation;
  const Difference &difference = program.mismatch()->difference;
  const Said target = plain(displayName(operation.fx.target));
  if (program.mismatch()->isMergedNorm)
    return known.refuse(Reason::MergedNorm, operation.nodes.back(), {operation.fx.name});
  if (difference.operand < 0 && difference.attribute.empty())
    return known.refuse(Reason::OtherOrder, operation.nodes.front(),
                        {operation.fx.name, target, target});
  std::string place = difference.attribute.empty() ? say("operand {}", {difference.operand})
                                                   : say("attribute {}", {difference.attribute});
  known.refuse(Reason::OtherForm, difference.node,
               {plain(displayName(difference.found)), plain(place), target,
                plain(displayName(difference.expected)), target});
}
