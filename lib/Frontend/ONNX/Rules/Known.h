//===- Known.h - What is known of the parameters so far -------------------===//
#ifndef SHALE_FRONTEND_ONNX_RULES_KNOWN_H
#define SHALE_FRONTEND_ONNX_RULES_KNOWN_H

#include "lib/Frontend/ONNX/Record/TracedProgram.h"
#include "lib/Frontend/ONNX/Rules/Parameters.h"

namespace shale::onnx {

/// The value of a parameter before the first step.
struct InitialValue {
  const TensorProto *initializer = nullptr;
  bool transposed = false;
  /// The shape, if it is not that of the initializer, and the ONNX type of elements.
  std::vector<int64_t> shape = {};
  int32_t dataType = 1;
  /// The elements, if no initializer has them as they are.
  std::vector<double> values = {};
};

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

/// An operation that the exporter removed, such as a product by one or a duplicate of another
/// operation. A node's metadata still names its result, but the node reads something else. The
/// operands of the removed operation are not in the file.
struct RemovedOperation {
  std::string name;  ///< "mul_3"
  std::string scope; ///< the module of the node that names it
};

/// The parameters found so far, and the questions that are open. Each rule reads it and adds to it.
class Known {
public:
  Known(const TracedProgram &program, const ParameterOptions &options, Parameters &found)
      : program(program), options(options), found(found), isAlias(found.list.size(), false) {}

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
  /// Returns the number of listed parameters and buffers.
  size_t count() const { return found.list.size(); }
  /// Whether nothing reads a parameter so far.
  bool isMissing(size_t index) const;
  bool isFrozen(size_t index) const { return options.freezes(parameter(index).name); }
  /// Whether it is a parameter that the graph reads, and is trained.
  bool isTrained(size_t index) const {
    return parameter(index).isParameter && parameter(index).used && !isFrozen(index);
  }
  bool isRead(const NodeProto &node, int operand) const {
    return found.uses.count({&node, operand});
  }
  /// Returns the elements of a parameter that is read, in PyTorch's layout; null if the file does
  /// not have them.
  const Numbers *numbersOf(size_t index) const;
  bool haveEqualValues(size_t index, size_t other) const;

  /// Takes reads of a parameter, or of a function of it. A rule is asked about places that none
  /// before it explained: a second parameter at one place contradicts the first, and is an error.
  void takeReads(size_t parameter, llvm::ArrayRef<Place> reads, bool transposed = false,
                 std::optional<Expression> function = std::nullopt);
  /// Takes the initial value of a parameter. If one is known already, that one remains. Returns
  /// whether the parameter's initializer is this one now.
  bool takeValue(size_t parameter, InitialValue value);
  /// Takes an operation that reads in place of the one that it was merged with.
  void takeMerged(MergedOperation operation, llvm::ArrayRef<Place> reads);
  /// Makes a listed name a second name of another parameter.
  void tie(size_t second, size_t kept);
  /// Moves each tied parameter to the first of its listed names, and to the place of that name.
  void takeFirstNames();

  /// Reports a repair at a node, or, if it is null, of the whole graph.
  void remark(const NodeProto *node, const llvm::Twine &text, bool isNote = false) {
    found.repairs.push_back({node, text.str(), isNote});
  }
  /// Reports that a parameter is restored from the initializer that a node reads.
  void remarkRestored(const Use &use, size_t parameter, llvm::StringRef how);
  /// Refuses the file. `node`: at which; null: the whole file.
  void refuse(Reason reason, const NodeProto *node, llvm::ArrayRef<Said> parts) {
    found.refusals.emplace_back(reason, node, parts);
  }

private:
  mutable std::map<size_t, std::optional<Numbers>> cache;
};

llvm::SmallVector<int64_t> sizesOf(const TensorProto &tensor);
/// Returns "[2, 3]".
std::string listOfSizes(llvm::ArrayRef<int64_t> sizes);

/// Returns a matrix of which `numbers` is the transpose, by rows.
Numbers transposeOf(const Numbers &numbers);
/// Whether all elements are equal.
bool isConstant(const Numbers &numbers);

/// Fills `values` and `removed` from the reads that no parameter explains.
void readFolded(Known &known);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RULES_KNOWN_H
