//===- Messages.h - What the import says about parameters -----------------===//
//
// The errors, notes and remarks of the rules that find parameters. A rule decides what is wrong;
// here is how that is said.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_MESSAGES_H
#define SHALE_FRONTEND_ONNX_RECORD_MESSAGES_H

#include "lib/Frontend/ONNX/Record/Known.h"

namespace shale::onnx::messages {

// Errors: a file that is not what was traced.
/// `one`, `other`: names of the parameters that are read.
std::string contradiction(const Place &place, llvm::StringRef one, llvm::StringRef other);
std::string noSuchForm(llvm::StringRef target);
std::string mismatch(const Mismatch &mismatch);

// Errors: what the exporter merged.
/// `name`: of the removed operation, which `node` reads. `module`, `other`: those that have the
/// parameters.
std::string mergedWithEqual(const NodeProto &node, llvm::StringRef name, llvm::StringRef module,
                            llvm::StringRef other);
/// `what`: "the same random numbers".
std::string mergedBehind(llvm::StringRef name, const NodeProto &behind, llvm::StringRef what);

// Errors: where gradients stop.
std::string detachedSomewhere(const NodeProto &node, llvm::StringRef name);
std::string detachedInside(const NodeProto &node, const Operation &maker);

// Errors: what the exporter removed or folded.
/// `count`: the number of such sums, of which `read` is the first.
std::string lostSum(const MissingRead &read, size_t count);
/// Returns "node 'tanh' reads 'exp'".
std::string readerOf(const MissingRead &read);
/// `reader`: reads another value in place of the removed operation `name`.
std::string mayHaveReadParameter(llvm::StringRef reader, llvm::StringRef name,
                                 llvm::StringRef parameter);
std::string lostProjection(llvm::StringRef parameter);
/// `left`: constants or operations that may hide the parameters. `reader`: reads the first of these
/// constants; null if they are operations.
std::string lostParameters(llvm::ArrayRef<std::string> lost, llvm::ArrayRef<std::string> left,
                           const NodeProto *reader);
std::string foldedFrom(const FoldedValue &value, llvm::StringRef parameter);
std::string maybeFoldedFrom(const FoldedValue &value, llvm::StringRef parameter, bool isTarget);
/// `constant`: of a condition or indices.
std::string chosen(const NodeProto &node, llvm::StringRef constant, llvm::StringRef parameter);
std::string chosenBranch(const NodeProto &node, llvm::StringRef parameter);
std::string unchangedBranch(const NodeProto &node);
/// `name`: of the value that was merged with `constant`.
std::string mayBeChosen(const NodeProto &node, llvm::StringRef name, llvm::StringRef constant,
                        llvm::StringRef parameter);

// Notes.
std::string unused(llvm::ArrayRef<std::string> names);
Repair openShape(const Use &use, llvm::StringRef parameter);

// Remarks.
Repair restoredFrom(const Use &use, llvm::StringRef parameter, bool transposed,
                    llvm::StringRef otherwise);
Repair lostBias(const NodeProto &node, llvm::StringRef bias);
Repair mergedForModules(const NodeProto &node, llvm::StringRef parameter);
Repair computedAgain(const NodeProto &kept, llvm::StringRef name, llvm::StringRef module);
Repair tied(llvm::StringRef second, llvm::StringRef kept);
/// For a parameter of which the graph reads a part: the program trains and writes this part only.
Repair foldedPart(const FoldedValue &value, llvm::StringRef parameter,
                  llvm::ArrayRef<int64_t> shape);
Repair foldedAgain(const FoldedValue &value, const Expression &expression,
                   llvm::StringRef parameter);

} // namespace shale::onnx::messages

#endif // SHALE_FRONTEND_ONNX_RECORD_MESSAGES_H
