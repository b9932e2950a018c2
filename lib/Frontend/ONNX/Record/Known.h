//===- Known.h - What is known of the parameters so far -------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_KNOWN_H
#define SHALE_FRONTEND_ONNX_RECORD_KNOWN_H

#include "lib/Frontend/ONNX/Record/Claim.h"
#include "llvm/ADT/StringSet.h"

namespace shale::onnx {

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
  /// The module scope of the node that reads it.
  std::string scope;

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
  /// Operations that the exporter removed. A missing parameter may be among their operands.
  std::vector<RemovedOperation> removed;
  std::vector<FoldedValue> values;

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

private:
  friend class Decision;
  mutable std::map<size_t, std::optional<Numbers>> cache;
};

/// Whether one module contains the other or both are the same.
bool areNested(llvm::StringRef a, llvm::StringRef b);
bool isConstant(const Numbers &numbers);

/// Fills `values` and `removed` from the reads that no parameter explains.
void readFolded(Known &known);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_KNOWN_H
