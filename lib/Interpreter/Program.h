//===- Program.h - Runs a module's functions on named logical values ------===//
//
// A logical value is whole and has a name: a parameter or moment by its state's
// symbol, an input, hyper-parameter or metric by `nn.name`. What a pass does to
// layouts and signatures is the business of a ProgramAdapter, so that one set
// of logical values goes into a program before and after any pass.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERPRETER_PROGRAM_H
#define SHALE_INTERPRETER_PROGRAM_H

#include "dialects/nn/NN.h"
#include "lib/Interpreter/Interpreter.h"
#include "lib/Interpreter/SafeTensors.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale::interp {

/// How to make a logical value that nobody gave.
struct ValueSpec {
  std::string name;
  nn::Role role = nn::Role::Input;
  Element element = Element::F32;
  llvm::SmallVector<int64_t> shape;
  /// Integers are in [0, limit).
  int64_t limit = 8;
  /// Some labels are this; they count for nothing.
  std::optional<int64_t> ignored;
  /// `ones` and `arange` as in nn.binding.
  std::string binding;
  /// #nn.file, #nn.fill or null (zero).
  mlir::Attribute init;
};

class LogicalValues {
public:
  explicit LogicalValues(uint64_t seed = 0) : seed(seed) {}

  const Tensor *find(llvm::StringRef name) const {
    auto it = tensors.find(name.str());
    return it == tensors.end() ? nullptr : &it->second;
  }
  void set(llvm::StringRef name, Tensor value) {
    tensors[name.str()] = std::move(value);
  }
  /// The value of that name; if there is none it is made, and kept: state from
  /// its init with `stateFromInit`, all else random, by seed and name alone.
  /// Fails after an error at `loc`.
  mlir::FailureOr<Tensor> get(const ValueSpec &spec, mlir::Location loc);

  /// Bytes of all values, in cells of 8; what is made stays below `maxBytes`.
  int64_t bytes() const;
  /// Whether a value of this shape on each of `ranks` ranks has room, too.
  bool hasRoomFor(llvm::ArrayRef<int64_t> shape, int64_t ranks = 1) const;

  int64_t maxBytes = interp::Options().maxBytes;
  uint64_t seed;
  bool stateFromInit = false;
  /// Whether what a program keeps as a rounded copy is rounded: not in f64.
  bool roundsCopies = true;
  /// Where #nn.file paths that are relative begin, beside the working folder.
  std::string folder;
  NamedTensors tensors;
  /// Inputs and labels among `tensors` that were made at random.
  std::vector<std::string> randomInputs;
};

/// A random value by name and seed alone.
Tensor randomValue(const ValueSpec &spec, uint64_t seed);
/// The initial value of a state.
llvm::Expected<Tensor> readInit(const ValueSpec &spec,
                                llvm::StringRef folder);
/// Bounds what an integer value may be by what it indexes: sets `limit` and
/// `ignored`.
void boundByUses(mlir::Value value, ValueSpec &spec);

/// Between logical values and the arguments and results of each rank. The base
/// class serves functions whose values are whole on every rank; inputs of a
/// program for one rank's slice of the batch are split along nn.batch_dim.
class ProgramAdapter {
public:
  virtual ~ProgramAdapter() = default;
  virtual bool accepts(mlir::ModuleOp module) const { return true; }
  /// The ranks to run on, `requested` being the user's wish (0: none).
  virtual int64_t rankCount(mlir::ModuleOp module, int64_t requested) const;
  /// The names of functions that can be run.
  virtual std::vector<std::string> functions(mlir::ModuleOp module) const;
  /// Runs a function by name.
  virtual mlir::LogicalResult run(mlir::ModuleOp module, llvm::StringRef name,
                                  Interpreter &interpreter,
                                  LogicalValues &inputs,
                                  LogicalValues &results) const;

protected:
  /// Describes an argument from its attributes and uses.
  static ValueSpec describeArgument(mlir::func::FuncOp function, unsigned i);
  static std::string resultName(mlir::func::FuncOp function, unsigned i);
  virtual mlir::FailureOr<std::vector<Tensor>>
  packArgument(mlir::func::FuncOp function, unsigned i, int64_t ranks,
               LogicalValues &inputs) const;
  virtual mlir::LogicalResult
  unpackResult(mlir::func::FuncOp function, unsigned i,
               llvm::ArrayRef<Tensor> perRank, LogicalValues &results) const;
};

/// Of modules that hold rt.func (RtProgram.cpp).
std::unique_ptr<ProgramAdapter> makeRtAdapter();

/// The adapter of the first in the list (Program.cpp) that accepts the module.
const ProgramAdapter &getAdapter(mlir::ModuleOp module);

} // namespace shale::interp

#endif // SHALE_INTERPRETER_PROGRAM_H
