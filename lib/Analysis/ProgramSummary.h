//===- ProgramSummary.h - What a planned program takes and does -----------===//
//
// Computed from rt alone: the memory plan line by line, the buffers that are
// live when the update begins, collectives and their bytes, operations.
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

struct PlanLine {
  rt::Category category;
  std::string what;
  int64_t bytes;
  /// In host memory, where offloading is asked for; else the device's.
  bool host = false;
  /// Of what states and buffers of the arena hold, or gaps between these; else there
  /// all the time beside them.
  bool held = false;
};

struct PlannedBuffer {
  std::string name;
  rt::Category category;
  rt::Space space;
  int64_t offset, bytes, padding;
  bool host = false;
};

struct CollectiveSite {
  int64_t site;
  std::string name;
  CollectiveKind kind;
  std::string axis;
  /// Bytes that one rank sends when it runs once, as the runtime's algorithms do:
  /// each piece goes straight to its receiver, an all-reduce is a
  /// reduce-scatter and an all-gather of ceil(count / ranks) elements.
  int64_t sentBytes;
  /// How often a step runs it: once a micro-batch that its function takes.
  int64_t times;
  /// The sites that are exchanged together: the first, and how many.
  int64_t bucket, bucketSize;
};

/// A copy between the memories: `rt.transfer` number `index`.
struct MemoryCopy {
  int64_t index;
  std::string name, source; ///< what it moves; the source node, or empty
  int64_t bytes, times;     ///< times a step
  bool toHost;
};

/// How often a step calls a function.
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
  int64_t stateBytes = 0, arenaBytes = 0;
  int64_t hostStateBytes = 0, hostArenaBytes = 0;
  /// Operations among `flops` that recomputation adds; copies between the memories
  /// and their bytes.
  int64_t recomputedFlops = 0, transfers = 0, transferredBytes = 0;
  /// What the runtime is given to receive in; 0 on one rank.
  int64_t commScratchBytes = 0;
  int64_t microbatches = 1;
  /// Of one step of one rank, all its micro-batches.
  int64_t flops = 0, launches = 0, gemms = 0, sentBytes = 0;
  int64_t kernels = 0;
  /// Units that a function has gathered, or on their way, at once: the most.
  int64_t unitsAtOnce = 0;
  /// Of both memories, or of one.
  int64_t peakBytes() const;
  int64_t peakBytes(bool host) const;
};

/// Operations of one execution of a kernel: what its ops say, else one an element.
int64_t kernelFlops(rt::KernelOp kernel);

/// Operations of one execution of an op of a planned program; 0 of what only moves bytes.
int64_t callFlops(mlir::Operation *op);

/// Fails after an error.
mlir::FailureOr<ProgramSummary> summarizeProgram(mlir::ModuleOp module);

/// "all-gather", as reports name it.
llvm::StringRef nameOf(CollectiveKind kind);

/// What shalec prints at its end.
void printSummary(const ProgramSummary &summary, llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_ANALYSIS_PROGRAMSUMMARY_H
