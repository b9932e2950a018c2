//===- Rules.h - The rules that find parameters ---------------------------===//
//
// A rule takes the traced program and what is known so far, and returns claims or errors. It
// changes nothing: Decision does. A new trick of an exporter is a function here, a line in the
// table of Rules.cpp, and a test.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_RULES_H
#define SHALE_FRONTEND_ONNX_RECORD_RULES_H

#include "lib/Frontend/ONNX/Record/Known.h"

namespace shale::onnx {

/// Finds the parameters of a file that has a signature.
void findBySignature(Model &model, const ParameterOptions &options, Parameters &out);

/// Returns the names of the rules, in the order in which they are asked.
std::vector<llvm::StringRef> ruleNames();

namespace rules {

// The graph against its record (Audit.cpp).
Findings form(const Known &known);

// Parameters that nodes read as arguments of traced operations (Parameters.cpp, LostBias.cpp).
Findings argumentsByForm(const Known &known, const Operation &operation);
Findings argumentsByOrder(const Known &known, const Operation &operation);
Findings lostBias(const Known &known, const Operation &operation);
Findings withoutRecord(const Known &known);

// Where gradients stop (Detached.cpp).
Findings detached(const Known &known);
Findings sharedStops(const Known &known);

// Operations that the exporter merged (Merged.cpp).
Findings merged(const Known &known);

// Second names of tied parameters (Tied.cpp).
Findings tiedByModule(const Known &known, size_t parameter);
Findings sharedTable(const Known &known, size_t parameter);
Findings tiedBias(const Known &known, size_t parameter);

// Constants that the exporter computed from parameters (Folded.cpp, FoldedByOperation.cpp).
Findings byName(const Known &known, const FoldedValue &value);
Findings byOrigin(const Known &known, const FoldedValue &value);
Findings byPart(const Known &known, const FoldedValue &value);
Findings byRepeat(const Known &known, const FoldedValue &value);
Findings byFunction(const Known &known, const FoldedValue &value);
Findings byMerged(const Known &known, const FoldedValue &value);
Findings byDifference(const Known &known, const FoldedValue &value);
Findings bySum(const Known &known, const FoldedValue &value);

// Conditions and indices that the exporter computed from parameters (Chosen.cpp).
Findings chosenConstants(const Known &known);
Findings chosenBranches(const Known &known);
Findings mergedChoices(const Known &known);

// Operations that the exporter removed (Removed.cpp).
Findings removedSums(const Known &known);
Findings neutralOperand(const Known &known);

// What is left (Unexplained.cpp).
Findings lostParameters(const Known &known);
Findings foldedConstants(const Known &known);

} // namespace rules

/// Returns the parameters that an operation's record names, each once.
llvm::SmallVector<size_t> parametersNamedBy(const TracedProgram &program,
                                            const Operation &operation);

/// How the nodes of an operation without a form read the parameters that its record names.
struct ReadsByOrder {
  llvm::SmallVector<std::pair<const Use *, size_t>> reads;
  /// Biases that no node reads.
  llvm::SmallVector<size_t> lost;
};
ReadsByOrder readsByOrder(const Known &known, const Operation &operation);

/// The reads that the form of an operation shows to be parameters.
llvm::SmallVector<std::pair<const Use *, size_t>> readsByForm(const Known &known,
                                                              const Operation &operation);

/// Returns a parameter that the metadata of a value lists among those that it was folded from, or
/// that of an equal value with which it was merged; -1 if there is none.
int parameterBehind(const Known &known, const FoldedValue &value);
} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_RULES_H
