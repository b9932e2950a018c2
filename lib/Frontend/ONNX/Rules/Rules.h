//===- Rules.h - The rules that find parameters ---------------------------===//
//
// A rule takes the traced program and what is known so far, and adds to it. A new trick of an
// exporter is a function here, a line in the table of Rules.cpp, and a test.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RULES_RULES_H
#define SHALE_FRONTEND_ONNX_RULES_RULES_H

#include "lib/Frontend/ONNX/Rules/Known.h"

namespace shale::onnx {

/// Finds the parameters of a file that has a signature.
void findBySignature(const TracedProgram &program, const ParameterOptions &options,
                     Parameters &out);

/// Returns the names of the rules, in the order in which they are asked.
std::vector<llvm::StringRef> ruleNames();

namespace rules {

// The graph against its record (Audit.cpp).
void form(Known &known);

// Parameters that nodes read as arguments of traced operations (ParameterReads.cpp).
void arguments(Known &known);
void withoutRecord(Known &known);

// Where gradients stop (Detached.cpp).
void detached(Known &known);
void sharedStops(Known &known);

// Second names of tied parameters (Tied.cpp).
void tied(Known &known);

// Constants that the exporter computed from parameters (Folded.cpp).
void folded(Known &known);

// Operations that the exporter merged (Merged.cpp).
void merged(Known &known);

// Operations that the exporter removed (Removed.cpp).
void removedSums(Known &known);
void neutralOperand(Known &known);

// What is left (Unexplained.cpp).
void lostParameters(Known &known);
void foldedConstants(Known &known);

// Conditions and indices that the exporter computed from parameters (Chosen.cpp).
void chosenConstants(Known &known);
void chosenBranches(Known &known);
void mergedChoices(Known &known);

} // namespace rules
} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RULES_RULES_H
