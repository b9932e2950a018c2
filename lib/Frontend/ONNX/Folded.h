//===- Folded.h - Parameters that the exporter folded into constants ------===//
#ifndef SHALE_FRONTEND_ONNX_FOLDED_H
#define SHALE_FRONTEND_ONNX_FOLDED_H

#include "lib/Frontend/ONNX/Operation.h"
#include "lib/Frontend/ONNX/Parameters.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/SetVector.h"

namespace shale::onnx {

/// A read of a float initializer that no parameter explains: the exporter computed
/// it from something that is no longer in the graph.
struct FoldedRead : Use {
  /// What was folded: the exported program's name of it ("sub_1"), or the initializer's name.
  std::string name;
  /// The kind of operation that was folded last ("sub"); empty: not known; "unknown": not known, and it computes.
  std::string op;
  /// The module scope of the node that reads it, and the last line of source that the file names for it.
  std::string scope, source;
};

/// An operation that the exporter left out, as a product by one or an equal of another: a node still names its result,
/// but reads something else. What it read is not in the file.
struct RemovedOperation {
  std::string name;  ///< "mul_3"
  std::string scope; ///< the module of the node that names it
};

/// The kind of operation that gave a value of the exported program its name:
/// "sub" for "sub_3"; empty for names that the exporter counts itself ("val_12").
std::string operationOf(llvm::StringRef name);

/// Traces constants back to parameters. `targets[i]` is the full name of parameter i.
class FoldedParameters {
public:
  FoldedParameters(Model &model, const ParameterOptions &options, llvm::ArrayRef<std::string> targets, Parameters &out)
      : model(model), options(options), targets(targets), out(out), context(mlir::MLIRContext::Threading::DISABLED) {}

  /// Finds for each read the parameter that it is a function of and puts the computation back
  /// (`Parameters::expressions`): by the source line, by value, and, for parameters that are nowhere in the file, where
  /// only one of them can be meant. `isAlias[i]`: parameter i is a second name. Returns whether only tables are left.
  bool restore(std::vector<FoldedRead> reads, std::vector<RemovedOperation> removed, llvm::ArrayRef<bool> isAlias);
  /// Appends an error for parameters that may be lost and for each read that may hide one, and a note for parameters
  /// that nobody reads.
  /// `operands`: parameters that an operation of the graph names, but none of its nodes reads;
  /// `removed`: what may have hidden a parameter.
  void report(llvm::ArrayRef<bool> isAlias, const llvm::SmallSetVector<size_t, 4> &operands,
              llvm::ArrayRef<RemovedOperation> removed);

private:
  /// All reads of one initializer under one name and from one module: one folded value.
  struct Value {
    std::vector<FoldedRead> reads;
    std::optional<Numbers> numbers; // none: too large to look at
    bool explained = false;
    const FoldedRead &first() const { return reads.front(); }
    bool isTable() const { return numbers && onnx::isTable(*numbers); }
  };

  std::optional<Numbers> numbersOf(const TensorProto &tensor);
  const Numbers *numbersOf(size_t parameter);
  bool isMissing(size_t parameter) const;
  bool isFrozen(size_t parameter) const;
  bool isCandidate(const Value &value, size_t parameter, bool named) const;
  void explain(Value &value, size_t parameter, const Expression &expression);
  bool byName(Value &value);
  bool fromSource(Value &value);
  bool byValue(Value &value);
  void byElimination();
  bool take(Value &value, size_t parameter);

  Model &model;
  const ParameterOptions &options;
  llvm::ArrayRef<std::string> targets;
  llvm::ArrayRef<bool> isAlias;
  Parameters &out;
  mlir::MLIRContext context;
  std::vector<Value> values;
  std::vector<RemovedOperation> removed;
  std::map<size_t, std::optional<Numbers>> cache;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_FOLDED_H
