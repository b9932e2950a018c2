//===- Folded.h - Parameters that the exporter folded into constants ------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_FOLDED_H
#define SHALE_FRONTEND_ONNX_RECORD_FOLDED_H

#include "lib/Frontend/ONNX/Record/Parameters.h"
#include "lib/Frontend/ONNX/Record/TracedProgram.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringSet.h"

namespace shale::onnx {

/// Largest summand, and largest distance from 1 of a factor, with which the exporter removes an
/// operation. Source: onnxscript's rewriter/_pattern_ir.py (Constant: abs_tol, rel_tol).
inline constexpr double kTakenForZero = 1e-8, kTakenForOne = 1e-5;

/// Whether an operation of this kind changes the order of elements.
bool turnsElements(llvm::StringRef op);

/// Returns a constant without repeated elements: a dimension along which nothing changes keeps one.
Numbers withoutRepeats(const Numbers &numbers);

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
  Reader reader = {};

  /// Whether nothing is known about the operation that was folded last.
  bool isOpen() const { return op.empty() && !isComputed; }
  /// Whether it may have elements of a parameter as they are.
  bool mayBeMoved() const { return isOpen() || isMovement(op); }
};

/// A read of a value in place of `name`, a sum, difference, product or quotient of that value that
/// the exporter removed, since it changed nothing.
struct RemovedRead {
  const NodeProto *node;
  int operand;
  std::string name, scope, source;
  Reader reader;
  const Operation *operation;
  /// Whether the value read is one of the same kind with a constant operand: the exporter may have
  /// merged `name` with it instead, where both constants are equal.
  bool mayBeMerged;
};

/// An operation that the exporter removed, such as a product by one or a duplicate of another
/// operation. A node's metadata still names its result, but the node reads something else. The
/// operands of the removed operation are not in the file.
struct RemovedOperation {
  std::string name;  ///< "mul_3"
  std::string scope; ///< the module of the node that names it
};

/// Traces constants back to parameters.
class FoldedParameters {
public:
  FoldedParameters(const TracedProgram &program, const ParameterOptions &options, Parameters &out)
      : program(program), options(options), targets(program.targets()), out(out) {}

  /// Finds for each read the parameters that it is a function of, and restores the computation
  /// (`Parameters::expressions`). Searches by the source line and by value; a parameter that is
  /// nowhere in the file is taken if it is the only candidate. `isAlias[i]`: parameter i is a
  /// second name of a tied parameter. Restores removed operations with a parameter, too, such as
  /// `scale * x` of a scale of 1 (`Parameters::restored`).
  void restore(std::vector<FoldedRead> reads, llvm::ArrayRef<RemovedRead> removedReads,
               std::vector<RemovedOperation> removed, llvm::ArrayRef<bool> isAlias);
  /// Whether all reads that are not explained are tables.
  bool isExplained() const;
  /// Whether the removed operation that computed this value is restored.
  bool isRestored(llvm::StringRef name) const { return restoredNames.contains(name); }
  /// Appends an error for parameters that may be lost and for each read that may hide one, and a
  /// note for unused parameters. `operands`: parameters that an operation of the graph names, but
  /// no node reads; `removed`: removed operations that may have read a parameter.
  void report(llvm::ArrayRef<bool> isAlias, const llvm::SmallSetVector<size_t, 4> &operands,
              llvm::ArrayRef<RemovedOperation> removed);

private:
  /// All reads of one initializer under one name and from one module: one folded value.
  struct Value {
    std::vector<FoldedRead> reads;
    std::optional<Numbers> numbers; // none: too large to look at
    /// What the exporter lists as that from which it was folded; empty if it does not.
    std::vector<std::string> from;
    bool explained = false;
    const FoldedRead &first() const { return reads.front(); }
    bool isTable() const { return numbers && onnx::isTable(*numbers); }
  };

  const Numbers *numbersOf(size_t parameter);
  bool isMissing(size_t parameter) const;
  bool isFrozen(size_t parameter) const;
  bool isCandidate(const Value &value, size_t parameter, bool named);
  std::vector<std::string> foldedFrom(const FoldedRead &read) const;
  int parameterBehind(const Value &value);
  int originOf(const Value &value, int &turns);
  bool isComputed(const Value &value);
  std::optional<llvm::SmallVector<int64_t>> shapeBehind(const Value &value, size_t parameter,
                                                        bool isMoved);
  void takeWhole(Value &value, size_t parameter, llvm::ArrayRef<int64_t> shape);
  std::optional<ParameterUse> twinOf(const Value &value, const Value &other);
  bool haveEqualValues(size_t index, size_t other);
  void byTwin();
  /// How a line of source computes a value. A parameter that the file does not have otherwise is
  /// `unknown`, and `solution` is its value or that of a part of it.
  struct Match {
    Reading reading;
    int unknown = -1;
    Solution solution;
  };
  /// A match of a part of an unknown parameter, and what to do once all parts are known.
  struct PartMatch {
    Match match;
    Value *value; // or
    const RemovedRead *removed;
  };

  void explainAs(Value &value, const ParameterUse &use);
  void explain(Value &value, llvm::ArrayRef<size_t> parameters, const Expression &expression);
  std::optional<Match> matchOf(std::vector<Reading> readings, const Numbers &constant,
                               llvm::ArrayRef<std::string> from, bool isNeutral);
  int parameterAt(llvm::StringRef scope, llvm::StringRef path) const;
  void define(size_t parameter, const Numbers &numbers, int32_t dataType);
  void restoreRemoved(llvm::ArrayRef<RemovedRead> reads);
  void restoreOperation(const RemovedRead &read, const Match &match);
  void restoreParts();
  bool byName(Value &value);
  bool byOrigin(Value &value);
  bool fromSource(Value &value);
  bool byValue(Value &value);
  bool mayBeOfAnother(const Value &value, size_t index);
  bool byChain(Value &value);
  void byElimination();
  bool take(Value &value, size_t parameter);

  const TracedProgram &program;
  const ParameterOptions &options;
  llvm::ArrayRef<std::string> targets;
  llvm::ArrayRef<bool> isAlias;
  Parameters &out;
  std::vector<Value> values;
  std::vector<RemovedOperation> removed;
  std::map<size_t, std::optional<Numbers>> cache;
  std::map<size_t, std::vector<PartMatch>> parts;
  llvm::StringSet<> restoredNames;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_FOLDED_H
