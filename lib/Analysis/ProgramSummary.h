//===- ProgramSummary.h - Memory, traffic and work of a planned program ---===//
//
// Computed from the rt dialect alone: the lines of the memory plan, the buffers
// that are live when the update begins, collectives with their bytes, and
// floating-point operations.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_ANALYSIS_PROGRAMSUMMARY_H
#define SHALE_ANALYSIS_PROGRAMSUMMARY_H

#include "dialects/dist/Dist.h"
#include "dialects/rt/RT.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/raw_ostream.h"
#include <string>
#include <vector>

namespace shale {

class Target;

/// A line of the memory plan, in bytes per rank.
struct PlanLine {
  rt::Category category;
  std::string what;
  int64_t bytes;
  mem::Memory memory = mem::Memory::Device;
  /// Where the bytes are: in the block of state, in the arena (its buffers and gaps), or in other
  /// memory that the process allocates for the whole run.
  enum Holder { Process, State, Arena } holder = Process;
};

struct PlannedBuffer {
  std::string name;
  rt::Category category;
  rt::Space space;
  int64_t offset, bytes, padding;
  mem::Memory memory = mem::Memory::Device;
};

/// A collective of the program, one per call site.
struct CollectiveSite {
  int64_t site;
  std::string name;
  CollectiveKind kind;
  mlir::Type element;
  mlir::Attribute encoding; ///< of the words that are sent; null: elements are
  std::string axis;
  /// Bytes that one rank sends per execution with the runtime's algorithms:
  /// each piece goes directly to its receiver, and an all-reduce is a
  /// reduce-scatter and an all-gather of ceil(count / ranks) elements.
  int64_t sentBytes;
  /// Executions per step: one per micro-batch that its function processes.
  int64_t times;
  /// The sites that are exchanged together: the first site and their number.
  int64_t bucket, bucketSize;
  /// The rounds of an execution (Target::reductionRounds); 1 for a gather or an all-to-all.
  int64_t rounds = 1;
};

/// Returns the first site of the bucket of a collective, or its own site if it has no bucket.
int64_t bucketOf(rt::CollectiveOpInterface start);

/// Returns the rounds in which a target does a collective.
int64_t roundsOf(rt::CollectiveOpInterface start, const Target &target);

/// A copy between device and host memory: `rt.transfer` number `index`.
struct MemoryCopy {
  int64_t index;
  std::string name, source; ///< the value that it copies; the source node, or empty
  int64_t bytes, times;     ///< bytes per copy, copies per step
  mem::Memory target;
};

/// Returns the number of calls of a function per step.
int64_t callsPerStep(rt::FuncOp function);

struct ProgramSummary {
  std::vector<PlanLine> lines;
  std::vector<PlannedBuffer> buffers;
  std::vector<CollectiveSite> sites;
  std::vector<MemoryCopy> copies; ///< by index
  int64_t ranks = 1;
  /// Threads per rank assumed by the plan (`rt.threads` of the module).
  int64_t threads = 1;
  int64_t parameters = 0, trained = 0;
  /// Bytes of the blocks. Those in host memory are empty if nothing is offloaded.
  mem::PerMemory<int64_t> stateBytes, arenaBytes;
  bool offloads() const { return stateBytes.host || arenaBytes.host; }
  /// Per step and rank: the operations among `flops` that recomputation adds, and the
  /// copies between device and host memory with their bytes.
  int64_t recomputedFlops = 0, transfers = 0, transferredBytes = 0;
  /// Bytes of host memory besides the plan: the copy of the state from which the runtime writes
  /// sharded checkpoints while training goes on (--async-save), on the rank that has most.
  int64_t saveCopyBytes = 0;
  /// Bytes of the runtime's receive scratch; 0 on one rank.
  int64_t commScratchBytes = 0;
  int64_t microbatches = 1;
  /// Totals per step and rank, over all micro-batches.
  int64_t flops = 0, launches = 0, gemms = 0, attentions = 0, sentBytes = 0;
  int64_t kernels = 0;
  /// The largest number of units that a function has gathered, or is gathering, at once.
  int64_t unitsAtOnce = 0;
  std::string gatheredAs; ///< the type in which units are gathered, if --wire-dtype gives one
  /// Peak bytes per rank of both memories, or of one.
  int64_t peakBytes() const;
  int64_t peakBytes(mem::Memory memory) const;
};

/// Returns the operations of one execution of a kernel: the cost that its ops declare, or
/// one per element for other elementwise ops.
int64_t kernelFlops(rt::KernelOp kernel);
/// The same, where an element of an elementwise op counts as `each` of the op.
int64_t kernelWork(rt::KernelOp kernel,
                   llvm::function_ref<int64_t(ElementwiseOpInterface op)> each);

/// Returns the operations of one execution of an op of a planned program; 0 for ops that
/// only move bytes.
int64_t callFlops(mlir::Operation *op);

/// Summarizes a planned program. Fails after an error.
mlir::FailureOr<ProgramSummary> summarizeProgram(mlir::ModuleOp module);

/// Prints the summary that shalec shows at its end.
void printSummary(const ProgramSummary &summary, llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_ANALYSIS_PROGRAMSUMMARY_H
