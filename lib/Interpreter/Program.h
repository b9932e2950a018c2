//===- Program.h - Runs a module's functions on named logical values ------===//
//
// A logical value is an unsharded value with a name: a parameter or moment has
// its state's symbol, an input, hyper-parameter or metric has its `nn.name`. A
// ProgramAdapter handles the layouts and signatures that passes produce, so
// that one set of logical values can be used for a program before and after any
// pass.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERPRETER_PROGRAM_H
#define SHALE_INTERPRETER_PROGRAM_H

#include "dialects/nn/Bindings.h"
#include "dialects/nn/NN.h"
#include "lib/Interpreter/Interpreter.h"
#include "lib/Interpreter/SafeTensors.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale::interp {

/// The part of a logical value that a state holds (`nn.part`).
struct ValuePart {
  std::string whole;
  llvm::SmallVector<int64_t> shape;     ///< of the whole value
  int64_t dim = 0, begin = 0, size = 0; ///< of the part, with padding
  int64_t padding = 0; ///< indices at its end that are 0, and none of the whole value

  /// Returns what the state holds of a parameter, or of the moments of one; nothing if it is all.
  static std::optional<ValuePart> of(nn::StateOp state);
  /// Returns the part of a whole value.
  Tensor take(const Tensor &all) const;
  /// Puts a part into a whole value. Returns false if its padding is not 0.
  bool put(const Tensor &value, Tensor &all) const;

private:
  /// The cells along the part's dimension, and how often they occur.
  std::pair<int64_t, int64_t> layout() const;
};

/// Describes how to generate a logical value that is not given.
struct ValueSpec {
  std::string name;
  nn::Role role = nn::Role::Input;
  Element element = Element::F32;
  llvm::SmallVector<int64_t> shape;
  /// Integers are in [0, limit).
  int64_t limit = 8;
  /// If set, some of the integers have this value: labels that the loss
  /// ignores.
  std::optional<int64_t> ignored;
  nn::Binding binding = nn::Binding::Data;
  /// #nn.file, #nn.fill or null (zero).
  mlir::Attribute init;
  /// If set, the value is this part of another one; `init` is that of the other one.
  std::optional<ValuePart> part;

  /// Sets what a state says: its role, its initial value, and what it is a part of.
  void describe(nn::StateOp state);
  /// Sets `limit` and `ignored` from the range of an index.
  void setRange(const std::optional<IndexRange> &range) {
    if (range) {
      limit = range->size;
      ignored = range->also;
    }
  }
};

/// Logical values by name.
class LogicalValues {
public:
  explicit LogicalValues(uint64_t seed = 0) : seed(seed) {}

  const Tensor *find(llvm::StringRef name) const {
    auto it = tensors.find(name.str());
    return it == tensors.end() ? nullptr : &it->second;
  }
  void set(llvm::StringRef name, Tensor value) { tensors[name.str()] = std::move(value); }
  /// Sets the value `name`, or `part` of another one. Fails after an error at `op` if padding of
  /// the part is not 0.
  mlir::LogicalResult set(llvm::StringRef name, const std::optional<ValuePart> &part, Tensor value,
                          mlir::Operation *op);
  /// Returns the value `name`, or `part` of another one; nothing if there is none.
  std::optional<Tensor> find(llvm::StringRef name, const std::optional<ValuePart> &part) const;
  /// Returns the value with the spec's name. If there is none, generates and
  /// stores it: states are read from their init with `stateFromInit`; all else
  /// is random and depends on seed and name alone. Fails after an error at
  /// `loc`.
  mlir::FailureOr<Tensor> get(const ValueSpec &spec, mlir::Location loc);

  /// Returns the bytes of all values, 8 per element. Generated values must keep
  /// it within `maxBytes`.
  int64_t bytes() const;
  /// Whether a further value of this shape on each of `ranks` ranks fits in
  /// `maxBytes`.
  bool hasRoomFor(llvm::ArrayRef<int64_t> shape, int64_t ranks = 1) const;

  int64_t maxBytes = interp::Options().maxBytes;
  uint64_t seed;
  bool stateFromInit = false;
  /// Whether rounded copies of states are rounded. False for runs in f64.
  bool roundsCopies = true;
  /// Base folder of relative #nn.file paths that do not exist in the working
  /// folder.
  std::string folder;
  NamedTensors tensors;
  /// Names of the inputs and labels among `tensors` that were generated.
  std::vector<std::string> randomInputs;
};

/// Returns a random value that depends on the spec and the seed alone.
Tensor randomValue(const ValueSpec &spec, uint64_t seed);
/// Returns the initial value of a state.
llvm::Expected<Tensor> readInit(const ValueSpec &spec, llvm::StringRef folder);

/// Converts between logical values and the arguments and results of each rank.
/// The base class handles functions whose values are unsharded on every rank.
/// If a function takes one rank's slice of the batch, inputs are split along
/// nn.batch_dim.
class ProgramAdapter {
public:
  virtual ~ProgramAdapter() = default;
  virtual bool accepts(mlir::ModuleOp module) const { return true; }
  /// Returns the number of ranks to run on. `requested` is the number from the
  /// user, or 0.
  virtual int64_t rankCount(mlir::ModuleOp module, int64_t requested) const;
  /// Returns the names of functions that can be run.
  virtual std::vector<std::string> functions(mlir::ModuleOp module) const;
  /// Runs a function by name.
  virtual mlir::LogicalResult run(mlir::ModuleOp module, llvm::StringRef name,
                                  Interpreter &interpreter, LogicalValues &inputs,
                                  LogicalValues &results) const;

protected:
  /// Describes an argument from its attributes and uses.
  static ValueSpec describeArgument(mlir::func::FuncOp function, unsigned i);
  static std::string resultName(mlir::func::FuncOp function, unsigned i);
  virtual mlir::FailureOr<std::vector<Tensor>>
  packArgument(mlir::func::FuncOp function, unsigned i, int64_t ranks, LogicalValues &inputs) const;
  virtual mlir::LogicalResult unpackResult(mlir::func::FuncOp function, unsigned i,
                                           llvm::ArrayRef<Tensor> perRank,
                                           LogicalValues &results) const;
};

/// Creates the adapter for modules that hold rt.func (RtProgram.cpp).
std::unique_ptr<ProgramAdapter> makeRtAdapter();

/// Returns the first adapter in the list (Program.cpp) that accepts the module.
const ProgramAdapter &getAdapter(mlir::ModuleOp module);

} // namespace shale::interp

#endif // SHALE_INTERPRETER_PROGRAM_H
