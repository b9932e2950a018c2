//===- TracedProgram.cpp - The program that PyTorch traced ----------------===//
#include "lib/Frontend/ONNX/Record/TracedProgram.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

TracedProgram::TracedProgram(Model &model, const ParameterOptions &options)
    : TracedRecord(model), fitter(*this) {
  fitForms(options);
  findMissing();
}

bool TracedProgram::readsAsItIs(const TracedOperation &operation, const Use &use) const {
  const FormFitter::Meaning *meaning = meaningOf(*use.node, use.operand);
  return hasForm(operation) ? meaning && meaning->isArgument : operation.readsAsItIs();
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

/// Whether the exporter's optimizer made a batch normalization a part of the matmul before it.
/// Source: onnxscript's rewriter/rules/common/_fuse_batchnorm.py.
static bool isMergedNorm(const TracedOperation &operation) {
  return operation.kind().contains("batch_norm") &&
         llvm::is_contained({"Conv", "ConvTranspose", "Gemm"}, operation.nodes.back()->op_type());
}

/// Returns where the nodes of an operation differ from its form, or read what they may not.
std::optional<Difference> TracedProgram::differenceOf(const TracedOperation &operation) {
  Difference difference;
  Fit fit = fitter.fit(operation, difference);
  if (fit == Fit::Yes || fit == Fit::Open)
    formed.insert(&operation);
  if (fit == Fit::Other)
    return unnamedRead(operation);
  return fit == Fit::No ? std::optional(difference) : std::nullopt;
}

void TracedProgram::fitForms(const ParameterOptions &options) {
  if (signature().entries.empty())
    return;
  for (const TracedOperation &operation : operations()) {
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
