//===- Target.h - The machine that a program is compiled for --------------===//
//
// The interface through which passes and the driver query a target. Targets are
// implemented in their own folders (lib/Target/CPU). A target is registered once
// under a kind ("cpu") and looked up by its full name ("cpu:x86-64-v4"), which the
// module carries as `nn.target`.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_TARGET_TARGET_H
#define SHALE_TARGET_TARGET_H

#include "dialects/rt/RT.h"
#include "lib/Target/Machines.h"
#include "mlir/IR/BuiltinOps.h"
#include <memory>
#include <string>
#include <vector>

namespace shale {

/// What the caller of a kernel needs to launch it.
struct KernelInfo {
  int64_t rows = 0;    ///< number of rows, which run in parallel
  int64_t grain = 1;   ///< minimum number of rows per thread
  int64_t scratch = 0; ///< bytes of scratch memory per thread
  int64_t threads = 0; ///< threads that compute a row together (a block of a GPU); 0: one
};

/// Resources of a kernel on one architecture, as its assembler reports them. Shared memory is per
/// block; registers and bytes of stack and of spilled registers are per thread.
struct KernelUsage {
  std::string name; ///< as passed to generateKernel
  std::string architecture;
  int64_t registers = 0, sharedBytes = 0;
  int64_t stackBytes = 0, spilledBytes = 0;
};

/// A line of the memory plan: device memory per rank besides the state block and the arena.
struct FixedCost {
  rt::Category category;
  std::string what;
  int64_t bytes;
};

class Target {
public:
  explicit Target(std::string name) : name(std::move(name)) {}
  virtual ~Target() = default;

  /// The full name as for --target, with "native" resolved: "cpu:x86-64-v4".
  llvm::StringRef getName() const { return name; }
  /// The part of the name after the kind. The program checks at start that its machine has this
  /// architecture.
  llvm::StringRef getArchitecture() const { return llvm::StringRef(name).split(':').second; }
  /// The target that compiles host code, including kernels that run on host memory. It is this
  /// target if the device is the host.
  virtual const Target &getHost() const { return *this; }

  /// Whether a step of the program starts before the process knows whether the one before it was
  /// applied. The step then has the hyper-parameter nn::kPreviousEnable.
  virtual bool runsAhead() const { return false; }

  // ---- how ops are implemented

  /// Whether the op becomes a library call, like a matmul.
  virtual bool isLibraryCall(mlir::Operation *op) const = 0;
  /// Whether the op has a dedicated kernel with its own schedule.
  virtual bool hasOwnKernel(mlir::Operation *op) const = 0;
  /// Whether the dedicated kernel of the op can also store casts of its results from f32 to 16-bit
  /// floats (lib/Codegen/OwnKernelForm.h).
  virtual bool storesCasts(mlir::Operation *op) const {
    (void)op;
    return false;
  }
  /// Whether the op takes 16-bit floats directly. For other ops, operands are cast to f32 and
  /// results are rounded once.
  virtual bool takes16BitFloats(mlir::Operation *op) const = 0;
  /// Whether matmuls of 16-bit floats are faster than those of f32.
  virtual bool hasFast16BitFloats() const = 0;
  /// Whether matmuls of f32 can round their operands to TF32 (rt::kAllowTf32Attr).
  virtual bool hasTf32() const { return false; }
  /// Whether kernels of a module with `rt.fast_math` approximate exp, tanh and divisions.
  virtual bool hasFastMath() const { return false; }

  /// Whether the target's library multiplies matrices of 8-bit floats (nn.quantized_matmul).
  virtual bool has8BitMatmuls() const { return false; }

  /// Returns the number of parts that a reduction to `results` elements, each of `each` elements,
  /// is split into. A first kernel reduces the parts, a second one their results. With `trailing`
  /// the elements of one result are neighbours, otherwise they are `results` elements apart. 1: the
  /// reduction is one kernel.
  virtual int64_t reductionParts(int64_t results, int64_t each, bool trailing) const {
    (void)results, (void)each, (void)trailing;
    return 1;
  }

  /// Returns the number of parts of `rows` rows whose columns a kernel sums besides what it
  /// computes along these rows (RowForm::sums): it has `sums` such sums of f32 and reads every row
  /// once. A second kernel sums the parts. 0: the target has no such kernel.
  virtual int64_t columnSumParts(int64_t rows, int64_t columns, int64_t sums) const {
    (void)rows, (void)columns, (void)sums;
    return 0;
  }

  /// Whether a kernel that computes a matrix writes its transpose, too, without reading it again.
  virtual bool storesTransposes() const { return false; }

  /// Whether one thread of a kernel that concatenates `parts` tensors, in turns of `part` elements,
  /// computes the elements of all tensors that stand at the same index. The kernel then reads
  /// operands of several tensors once, and can store results that have one element per index.
  virtual bool storesParts(int64_t parts, int64_t part) const {
    (void)parts, (void)part;
    return false;
  }

  /// Returns the size to which operands of a matmul are padded along their contiguous dimension;
  /// `size` itself if padding costs more than it saves.
  virtual int64_t paddedSize(int64_t size, mlir::Type element) const {
    (void)element;
    return size;
  }
  /// Whether one matmul of joined matrices is faster than a matmul of each.
  virtual bool joinsMatmuls(mlir::Type element) const {
    (void)element;
    return false;
  }
  /// Whether the gradient of a table of `rows` rows, to which `indices` rows are added, sorts the
  /// indices first.
  virtual bool sortsLookups(int64_t rows, int64_t indices) const {
    (void)rows, (void)indices;
    return false;
  }
  /// Whether kernels need every buffer to start at a multiple of 64 bytes, also the slice of a flat
  /// group that belongs to a rank. The group is padded for that.
  virtual bool alignsSlices() const { return false; }
  /// Returns the rows of logits that a loss is computed for at once: as few as cost no speed.
  virtual int64_t lossChunkRows() const { return 1024; }
  /// Returns the most bytes of the buffer into which a reduction of `element` receives: larger
  /// reductions are done in pieces.
  virtual int64_t mostReceiveScratch(mlir::Type element) const {
    (void)element;
    return 8 << 20;
  }

  /// Returns the rounds in which ranks exchange the operands of a reduction to `slice` elements per
  /// rank, each of which takes a collective's latency.
  virtual int64_t reductionRounds(mlir::Type element, int64_t slice, int64_t ranks) const {
    (void)element, (void)slice, (void)ranks;
    return 1;
  }

  /// Whether ranks exchange the operands of a bucket of reductions of `element` together, with the
  /// latency of one collective.
  virtual bool exchangesBucketsAtOnce(mlir::Type element) const {
    (void)element;
    return true;
  }

  /// Returns the bytes of device memory that the library call of an op may overwrite while it runs.
  virtual int64_t workspaceBytes(mlir::Operation *op) const {
    (void)op;
    return 0;
  }

  // ---- code

  /// Appends func.func @name to `module`, which computes `body`: a region of nn ops over block
  /// arguments (the inputs) that ends in a yield (the outputs). Fails after an error if the target
  /// cannot compile it.
  virtual mlir::FailureOr<KernelInfo> generateKernel(mlir::ModuleOp module, llvm::StringRef name,
                                                     mlir::Region &body) const = 0;
  /// Lowers the functions that generateKernel appended to `module`, which holds nothing else, to
  /// the LLVM dialect: on the host to functions with the ABI of ShaleKernel, on another device to
  /// constants of type ShaleDeviceKernel and one, kDeviceCode, with their machine code
  /// (include/shale/Runtime.h). Returns what each kernel takes per architecture; empty if the
  /// target has no assembler that reports it. Fails after an error.
  virtual mlir::FailureOr<std::vector<KernelUsage>> lowerKernels(mlir::ModuleOp module) const = 0;
  /// Compiles a program in the LLVM dialect to the bytes of an object file. Fails after an error.
  virtual mlir::LogicalResult emitObject(mlir::ModuleOp module,
                                         llvm::SmallVectorImpl<char> &object) const = 0;
  /// Returns the names of the runtime's archives, in link order: the last one is the common part,
  /// those before it replace its device.
  virtual std::vector<std::string> getRuntime() const { return {"libshale_rt.a"}; }
  /// Returns the linker arguments for the libraries that the runtime needs on this target, in
  /// order.
  virtual std::vector<std::string> getLibraries() const = 0;

  // ---- costs

  /// Whether the runtime has a stream for the gathers and one for the reductions of each axis, so
  /// that collectives of different streams run beside one another. Otherwise all run in order.
  virtual bool hasStreamsPerAxis() const { return false; }

  /// Returns the rates of the machine that the target stands for unless --machine names one: of the
  /// first architecture if the target has several.
  virtual const Rates &getRates() const = 0;
  /// Returns the memory that libraries and the process use per rank of a planned program.
  virtual std::vector<FixedCost> getFixedCosts(mlir::ModuleOp planned, int64_t ranks,
                                               int64_t threads) const = 0;

private:
  std::string name;
};

/// Creates the target for an architecture ("native", "x86-64-v3"). Returns null with a message in
/// `error` on failure.
using TargetFactory = std::unique_ptr<Target> (*)(llvm::StringRef architecture, std::string &error);

/// Registers a kind of target; further calls for the same kind do nothing. `architectures` are
/// listed in messages. `machines` are choices of --machine, each the text of a machine file
/// (parseMachine()); one that does not parse ends the process.
void registerTargetKind(llvm::StringRef kind, llvm::ArrayRef<llvm::StringRef> architectures,
                        llvm::ArrayRef<llvm::StringRef> machines, TargetFactory factory);

/// Returns the full names of all targets, in the order of registration.
std::vector<std::string> getTargetNames();

/// Returns the target with a name, KIND:ARCHITECTURE. It lives as long as the process. Returns null
/// with a message in `error` on failure.
const Target *findTarget(llvm::StringRef name, std::string &error);

/// The constant that holds the machine code of all kernels of a device.
inline constexpr llvm::StringLiteral kDeviceCode = "shale_device_code";

/// The default target of a module without `nn.target`. It does not depend on the host machine.
inline constexpr llvm::StringLiteral kAssumedTarget = "cpu:x86-64-v4";

/// Returns the target in `nn.target` of a module, or null after an error on the module.
const Target *targetOf(mlir::ModuleOp module);

} // namespace shale

#endif // SHALE_TARGET_TARGET_H
