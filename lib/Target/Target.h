//===- Target.h - The machine that a program is compiled for --------------===//
//
// Everything that passes and the driver need to know about a target is asked
// here; the answers live in the target's folder (lib/Target/CPU). A target is
// registered once under a kind ("cpu") and found by its whole name
// ("cpu:x86-64-v4"), which the module carries as `nn.target`.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_TARGET_TARGET_H
#define SHALE_TARGET_TARGET_H

#include "dialects/rt/RT.h"
#include "mlir/IR/BuiltinOps.h"
#include <memory>
#include <string>
#include <vector>

namespace shale {

/// What the caller of a kernel needs to launch it.
struct KernelInfo {
  int64_t rows = 0;    ///< that run in parallel
  int64_t grain = 1;   ///< rows that one thread takes at least
  int64_t scratch = 0; ///< bytes of memory that one thread needs
};

/// Device memory of a rank beside the state block and the arena: a line of the plan.
struct FixedCost {
  rt::Category category;
  std::string what;
  int64_t bytes;
};

class Target {
public:
  explicit Target(std::string name) : name(std::move(name)) {}
  virtual ~Target() = default;

  /// As --target gives it, resolved: "cpu:x86-64-v4".
  llvm::StringRef getName() const { return name; }
  /// The part behind the kind: what the program checks its machine for at start.
  llvm::StringRef getArchitecture() const { return llvm::StringRef(name).split(':').second; }

  // ---- which ops it takes, and how

  /// Whether the op becomes a call of a library, as a product does.
  virtual bool isLibraryCall(mlir::Operation *op) const = 0;
  /// Whether the op is a kernel by itself, with a schedule that no cluster has.
  virtual bool hasOwnKernel(mlir::Operation *op) const = 0;
  /// Whether the op is computed on 16-bit floats as they are. Of other ops, operands are cast to f32 and
  /// results rounded once.
  virtual bool takesHalves(mlir::Operation *op) const = 0;
  /// Whether products of 16-bit floats are faster than those of f32.
  virtual bool hasFastHalves() const = 0;

  // ---- code

  /// Appends func.func @name to `module`, which computes `body`: a region of nn ops over block arguments
  /// (the inputs) that ends in a yield (the outputs). Fails after an error where the target cannot.
  virtual mlir::FailureOr<KernelInfo> generateKernel(mlir::ModuleOp module, llvm::StringRef name, mlir::Region &body) const = 0;
  /// Takes the functions that generateKernel appended to `module`, which holds nothing else, to the LLVM
  /// dialect, under the ABI of ShaleKernel (include/shale/Runtime.h).
  virtual mlir::LogicalResult lowerKernels(mlir::ModuleOp module) const = 0;
  /// Compiles a program in the LLVM dialect to the bytes of an object file. Fails after an error.
  virtual mlir::LogicalResult emitObject(mlir::ModuleOp module, llvm::SmallVectorImpl<char> &object) const = 0;
  /// Arguments for the linker that name the libraries of the runtime on this target, in order.
  virtual std::vector<std::string> getLibraries() const = 0;

  // ---- costs

  /// What libraries and the process take on each rank of a planned program.
  virtual std::vector<FixedCost> getFixedCosts(mlir::ModuleOp planned, int64_t ranks, int64_t threads) const = 0;

private:
  std::string name;
};

/// Makes the target of an architecture ("native", "x86-64-v3"). Null with a message in `error`.
using TargetFactory = std::unique_ptr<Target> (*)(llvm::StringRef architecture, std::string &error);

/// Makes a kind of target known, once; `architectures` are its names, for messages.
void registerTargetKind(llvm::StringRef kind, llvm::ArrayRef<llvm::StringRef> architectures, TargetFactory factory);

/// The whole names of all targets, in the order of registration.
std::vector<std::string> getTargetNames();

/// The target of a name, KIND:ARCHITECTURE; it lives as long as the process. Null with a message in `error`.
const Target *findTarget(llvm::StringRef name, std::string &error);

/// The target of a module without `nn.target`, the same on every machine.
inline constexpr llvm::StringLiteral kAssumedTarget = "cpu:x86-64-v4";

/// The target in `nn.target` of a module. Null after an error on the module.
const Target *targetOf(mlir::ModuleOp module);

} // namespace shale

#endif // SHALE_TARGET_TARGET_H
