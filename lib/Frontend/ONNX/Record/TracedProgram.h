//===- TracedProgram.h - The program that PyTorch traced ------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_TRACEDPROGRAM_H
#define SHALE_FRONTEND_ONNX_RECORD_TRACEDPROGRAM_H

#include "lib/Frontend/ONNX/Record/TracedRecord.h"
#include "llvm/ADT/DenseSet.h"

namespace shale::onnx {

/// A node that reads a value, and the index of the operand.
using Place = std::pair<const NodeProto *, int>;

/// An operation whose nodes are not those that the exporter writes for it.
struct Mismatch {
  const TracedOperation *operation;
  /// Whether the exporter's optimizer made a batch normalization a part of the matmul before it.
  bool isMergedNorm;
  Difference difference; // else
};

/// A node reads a value under a name that the record has and the graph has not.
struct MissingRead {
  /// How the exporter treated the operation of that name.
  enum class Kind {
    Folded,  // into the constant that is read
    Merged,  // with an equal operation, whose result is read
    Removed, // since it changes nothing: one of its operands is read
  };
  const TracedOperation *operation; // that reads
  Place read;
  llvm::StringRef name;
  const TracedOperation *maker; // of the value that is read; null if it is an input or a constant
  Kind kind;
  /// Whether it is a sum or a product that was removed, or that may have been instead of merged.
  bool mayBeRemoved;

  bool isMerged() const { return kind == Kind::Merged; }
  const std::string &value() const { return read.first->input(read.second); }
};

/// The record of a traced program, its operations fitted to the forms in which the exporter writes
/// them, and the reads whose operations the exporter removed, merged or folded.
class TracedProgram : public TracedRecord {
public:
  /// If the file has a signature, fits the nodes of the operations to their forms, in order, until
  /// the first mismatch. `options.assumedForms` are not fitted.
  TracedProgram(Model &model, const ParameterOptions &options);

  /// Whether the nodes of an operation have the form in which the exporter writes it.
  bool hasForm(const TracedOperation &operation) const { return formed.contains(&operation); }
  /// The first operation whose nodes have another form, if there is one.
  const std::optional<Mismatch> &mismatch() const { return firstMismatch; }
  /// What the operand of a node is by the form of its operation; null if that is not known.
  const FormFitter::Meaning *meaningOf(const NodeProto &node, int operand) const {
    return fitter.meaningOf(node, operand);
  }
  /// Whether a node's operand is an argument of the operation, perhaps in another layout.
  bool readsAsItIs(const TracedOperation &operation, const Use &use) const;

  /// The reads under names that the graph has not, in the order of the graph.
  llvm::ArrayRef<MissingRead> missingReads() const { return missing; }
  /// Returns such a read; null if a node reads an operand under its own name, or if the file does
  /// not show under which one.
  const MissingRead *missingRead(const NodeProto &node, int operand) const;

private:
  void fitForms(const ParameterOptions &options);
  std::optional<Difference> unnamedRead(const TracedOperation &operation) const;
  std::optional<Difference> differenceOf(const TracedOperation &operation);
  void findMissing();
  llvm::StringRef nameOf(const TracedOperation &operation, const NodeProto &node, int operand,
                         llvm::ArrayRef<llvm::StringRef> names) const;

  FormFitter fitter;
  llvm::DenseSet<const TracedOperation *> formed;
  std::optional<Mismatch> firstMismatch;
  std::vector<MissingRead> missing;
  std::map<Place, size_t> missingAt; // indices into `missing`
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_TRACEDPROGRAM_H
