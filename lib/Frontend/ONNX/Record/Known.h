//===- Known.h - What is known of the parameters so far -------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_KNOWN_H
#define SHALE_FRONTEND_ONNX_RECORD_KNOWN_H

#include "lib/Frontend/ONNX/Record/Claim.h"
#include "llvm/ADT/StringSet.h"

namespace shale::onnx {

/// Largest summand, and largest distance from 1 of a factor, with which the exporter removes an
/// operation. Source: onnxscript's rewriter/_pattern_ir.py (Constant: abs_tol, rel_tol).
inline constexpr double kTakenForZero = 1e-8, kTakenForOne = 1e-5;

/// A read of a float initializer that no parameter explains: the exporter computed
/// it from something that is no longer in the graph.
struct FoldedRead : Use {
  /// Name of the folded value in the exported program ("sub_1"), or the initializer's name.
  std::string name;
  /// The kind of operation that was folded last ("sub"); empty: not known.
  std::string op;
  /// Whether an operation of a kind that is not known computed the value: it is not moved elements
  /// of a parameter.
  bool isComputed = false;
  /// The module scope of the node that reads it, and the innermost line of source of that node.
  std::string scope, source;

  /// Whether nothing is known about the operation that was folded last.
  bool isOpen() const { return op.empty() && !isComputed; }
  /// Whether it may have elements of a parameter as they are.
  bool mayBeMoved() const { return isOpen() || isMovement(op); }
};

/// All reads of one initializer under one name and from one module: one folded value.
struct FoldedValue {
  std::vector<FoldedRead> reads;
  std::optional<Numbers> numbers; // none: too large to look at
  /// The names of the values that it was folded from; empty if the exporter lists none.
  std::vector<std::string> from;
  /// Whether it is known what it was computed from.
  bool isExplained = false;

  const FoldedRead &first() const { return reads.front(); }
  llvm::SmallVector<Place> places() const;
};

/// A read of a value in place of `name`, a sum, difference, product or quotient of that value that
/// the exporter removed, since it changed nothing.
struct RemovedRead {
  const NodeProto *node;
  int operand;
  std::string name, scope, source;
  const Operation *operation;
  /// Whether the value read is one of the same kind with a constant operand: the exporter may have
  /// merged `name` with it instead, where both constants are equal.
  bool mayBeMerged;
};

/// The parameters found so far, and the questions that are open. Rules read it; only Decision
/// changes it.
struct Known {
  Known(const TracedProgram &program, const ParameterOptions &options, Parameters &found)
      : program(program), options(options), found(found) {}

  const TracedProgram &program;
  const ParameterOptions &options;
  /// Parameters, what reads them, and messages.
  Parameters &found;
  /// Whether a listed name is a second name of a tied parameter.
  llvm::SmallVector<bool> isAlias;
  /// The scope of the operation of each read of a parameter as an argument, and whether it is an
  /// embedding.
  std::map<size_t, std::vector<std::pair<std::string, bool>>> readers;
  /// Merged pairs of which it is open whose parameters the removed one reads.
  std::vector<MergedPair> pairs;
  /// Maps a module to another one whose operations were merged with its own.
  llvm::StringMap<std::string> twins;
  /// Operations that the exporter removed. A missing parameter may be among their operands.
  std::vector<RemovedOperation> removed;
  std::vector<FoldedValue> values;
  std::vector<RemovedRead> removedReads;

  const Parameter &parameter(size_t index) const { return found.list[index]; }
  llvm::StringRef target(size_t index) const { return program.target(index); }
  /// Whether nothing reads a parameter so far.
  bool isMissing(size_t index) const;
  bool isFrozen(size_t index) const { return options.freezes(parameter(index).name); }
  bool isRead(const NodeProto &node, int operand) const {
    return found.uses.count({&node, operand});
  }
  /// Returns the elements of a parameter that is read, in PyTorch's layout; null if the file does
  /// not have them.
  const Numbers *numbersOf(size_t index) const;
  bool haveEqualValues(size_t index, size_t other) const;
  /// Returns the removed operations, and those of the open pairs.
  std::vector<RemovedOperation> hidden() const;

private:
  friend class Decision;
  mutable std::map<size_t, std::optional<Numbers>> cache;
};

/// Whether one module contains the other or both are the same.
bool areNested(llvm::StringRef a, llvm::StringRef b);
bool isConstant(const Numbers &numbers);

/// Fills `values`, `removed` and `removedReads` from the reads that no parameter explains.
void readFolded(Known &known);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_KNOWN_H
