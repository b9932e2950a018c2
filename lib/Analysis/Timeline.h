//===- Timeline.h - Memory contents over time -----------------------------===//
//
// The memory of one rank over the ops of one planned function, computed from the
// rt dialect alone. Used by reports and diagnostics.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_ANALYSIS_TIMELINE_H
#define SHALE_ANALYSIS_TIMELINE_H

#include "dialects/rt/RT.h"
#include <array>
#include <string>
#include <vector>

namespace shale {

inline constexpr int kCategories = 7;

/// A buffer and its live range.
struct LiveTensor {
  std::string name;   ///< name in the plan: of a state, a unit, or a scope and op
  std::string source; ///< the source node, or empty
  rt::Category category;
  rt::Space space;
  int64_t bytes, offset;
  int64_t begin, end; ///< positions of the first and last op that access it
  mem::Memory memory;
  mlir::Operation *maker, *lastReader, *buffer;
};

struct Timeline {
  std::string function;
  std::vector<LiveTensor> tensors; ///< buffers of the arenas, in order of first access
  std::vector<LiveTensor> state;   ///< states, live all the time
  std::vector<mlir::Operation *> ops;
  /// For each arena: the position at which most bytes are live.
  mem::PerMemory<int64_t> peak;
  /// The live bytes at that position, each buffer rounded up to the alignment.
  mem::PerMemory<int64_t> peakBytes;
  /// Returns the tensors of one arena that are live at `position`, largest first.
  std::vector<const LiveTensor *> liveAt(int64_t position, mem::Memory memory) const;
};

/// Returns the name of the source node in a location, or an empty string.
std::string sourceNode(mlir::Location loc);

/// Returns the module and the Python line of the source node, such as "module 'm.h.0',
/// model.py:12". Empty if the model's file does not record them.
std::string sourcePlace(mlir::Location loc);

/// Computes the timeline of a function. Fails after an error.
mlir::FailureOr<Timeline> timelineOf(rt::FuncOp function);

/// Returns the timeline of the function with the largest peak in the arena of one memory. Fails
/// after an error.
mlir::FailureOr<Timeline> largestTimeline(mlir::ModuleOp module, mem::Memory memory);

} // namespace shale

#endif // SHALE_ANALYSIS_TIMELINE_H
