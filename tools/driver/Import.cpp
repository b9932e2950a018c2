//===- Import.cpp - From the model's file to a module ---------------------===//
#include "tools/driver/Import.h"
#include "lib/Analysis/Describe.h"
#include "lib/Planning/ModelPlanner.h"
#include "lib/Support/CrashHandler.h"
#include "lib/Support/Printable.h"
#include "passes/Stages.h"
#include "shale/Runtime.h"
#include "tools/driver/FollowFile.h"
#include "tools/driver/Messages.h"
#include "tools/driver/PlanFirst.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;

int shale::readImportOptions(const CompileOptions &options, onnx::ImportOptions &import) {
  int64_t ranks = options.mesh.dataRanks();
  llvm::StringSet<> given;
  for (const DimSize &dim : options.dims) {
    if (!given.insert(dim.name).second)
      return usageError("--dim " + dim.name + " is given twice");
    if (!dim.size)
      continue; // found by planning
    int64_t &size = import.dims[dim.name] = *dim.size;
    if (dim.perRank && llvm::MulOverflow(*dim.size, ranks, size))
      return usageError("--dim " + dim.name + ": " + llvm::Twine(*dim.size) + " on each of " +
                        llvm::Twine(ranks) + " ranks overflows 64 bits");
  }
  for (const auto &[name, value] : options.binds)
    if (std::string wrong = onnx::parseImportFlag("bind", name + "=" + value, import);
        !wrong.empty())
      return usageError(wrong);
  for (const std::string &value : options.batchDims)
    if (std::string wrong = onnx::parseImportFlag("batch-dim", value, import); !wrong.empty())
      return usageError(wrong);
  for (const std::string &value : options.gradients)
    if (std::string wrong = onnx::parseImportFlag("gradient", value, import); !wrong.empty())
      return usageError(wrong);
  if (!options.dropout.empty())
    if (std::string wrong = onnx::parseImportFlag("dropout", options.dropout, import);
        !wrong.empty())
      return usageError(wrong);
  import.loss = options.loss;
  import.lossOutput = options.lossOutput;
  import.assumeAutocast = options.assumeAutocast;
  import.assumeDerivative = options.assumeDerivative;
  import.assumeMerged = options.assumeMerged;
  import.parameters.keepPrefix = options.keepPrefix;
  import.parameters.freeze = options.freeze;
  import.parameters.assumeTied = options.assumeTied;
  for (const std::string &name : options.assumeForm)
    import.parameters.assumedForms.insert(name);
  for (const std::string &name : options.constants)
    import.parameters.constants.insert(name);
  import.dataRanks = ranks;
  return SHALE_EXIT_OK;
}

/// Imports a model for --describe without the flags that it needs: tries sizes until one is
/// accepted.
static OwningOpRef<ModuleOp> importToDescribe(MLIRContext &context, const CompileOptions &options,
                                              const onnx::ImportOptions &import,
                                              std::vector<std::string> &assumed, int &code) {
  std::string first;
  onnx::ImportOptions sized = import;
  for (sized.assumedSize = 128; sized.assumedSize > 1; sized.assumedSize /= 2) {
    std::string text;
    llvm::raw_string_ostream os(text);
    ScopedDiagnosticHandler collect(&context, [&](Diagnostic &diagnostic) {
      printDiagnostic(diagnostic, options.model, os);
      return success();
    });
    assumed.clear();
    sized.assumed = &assumed;
    OwningOpRef<ModuleOp> module = onnx::importOnnx(options.model, sized, &context, &code);
    if (module) {
      llvm::errs() << text;
      return module;
    }
    first = first.empty() ? text : first;
    if (assumed.empty())
      break;
  }
  llvm::errs() << first;
  return {};
}

/// Finds the size of a dimension that is "max" under the memory limit. Returns an exit code.
static int chooseBatch(MLIRContext &context, CompileOptions &options, onnx::ImportOptions &import) {
  std::string name;
  for (const DimSize &dim : options.dims)
    if (!dim.size) {
      if (!name.empty())
        return usageError("--dim: only one dimension can be max");
      name = dim.name;
    }
  if (name.empty())
    return SHALE_EXIT_OK;
  MemoryLimit limit = options.limit();
  if (!limit.any())
    return usageError("--dim " + name + "=max needs --memory-limit");
  int64_t ranks = options.mesh.dataRanks();
  std::vector<Stage> recover = stagesFor(options);
  auto importAt = [&](int64_t size) -> OwningOpRef<ModuleOp> {
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    onnx::ImportOptions sized = import;
    sized.dims[name] = size;
    sized.missingData = onnx::ImportOptions::MissingData::Remark;
    OwningOpRef<ModuleOp> module = onnx::importOnnx(options.model, sized, &context);
    if (module && runStages(*module, ArrayRef(recover).take_front(), {}))
      return {};
    return module;
  };
  if (OwningOpRef<ModuleOp> smallest = importAt(ranks)) {
    adoptFileType(options, *smallest);
    if (int code = followFileOptimizer(options, *smallest))
      return code;
  }
  int64_t size = largestBatch(importAt, options, limit, ranks, printProgress);
  if (size == 0) { // planning the smallest size reports the error
    size = ranks;
  } else {
    bool more = bool(importAt(size + ranks));
    llvm::outs() << "batch         " << name << " = " << size << " is the largest that "
                 << (more ? "fits " : "the model takes; it fits ")
                 << options.typedText("memory-limit") << "\n";
  }
  import.dims[name] = size;
  return SHALE_EXIT_OK;
}

int shale::importModel(MLIRContext &context, CompileOptions &options, onnx::ImportOptions &import,
                       Imported &result) {
  if (int code = chooseBatch(context, options, import))
    return code;
  import.missingData = options.planOnly ? onnx::ImportOptions::MissingData::Remark
                                        : onnx::ImportOptions::MissingData::Warning;
  int code = SHALE_EXIT_DATA;
  CrashStage importing("importing");
  result.module = options.describe
                      ? importToDescribe(context, options, import, result.assumed, code)
                      : onnx::importOnnx(options.model, import, &context, &code);
  return result.module ? SHALE_EXIT_OK : code;
}

void shale::printCommands(ModuleOp module, const CompileOptions &options,
                          ArrayRef<std::string> assumed) {
  llvm::outs() << "to compile and train it"
               << (assumed.empty() ? "" : ", with sizes of your choice") << ":\n  shalec";
  for (StringRef word : options.words) {
    bool plain = word.find_first_not_of(
                     "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") ==
                 StringRef::npos;
    std::string quoted = word.str();
    for (size_t at = 0; (at = quoted.find('\'', at)) != std::string::npos; at += 4)
      quoted.replace(at, 1, "'\\''");
    llvm::outs() << ' ' << (plain && !word.empty() ? quoted : "'" + quoted + "'");
  }
  for (StringRef flag : assumed)
    llvm::outs() << ' ' << flag;
  llvm::outs() << " -o " << options.output << "\n";
  PrintableStream os(llvm::outs());
  describeTraining(module, options.output, os);
}
