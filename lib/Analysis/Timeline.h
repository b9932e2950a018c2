//===- Timeline.h - What is in memory when --------------------------------===//
//
// A rank's memory over the ops of one planned function: computed from rt alone,
// for reports, verdicts and errors.
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

/// A buffer over its life.
struct LiveTensor {
  std::string name;   ///< as the plan names it: state, unit, or scope and op
  std::string source; ///< the source node, or empty
  rt::Category category;
  rt::Space space;
  int64_t bytes, offset;
  int64_t begin, end; ///< positions of the first and last op that touch it
  bool host;          ///< in host memory, where offloading is asked for
  mlir::Operation *maker, *lastReader, *buffer;
};

struct Timeline {
  std::string function;
  std::vector<LiveTensor> tensors; ///< of the arenas, in order of first access
  std::vector<LiveTensor> state;   ///< alive all the time
  std::vector<mlir::Operation *> ops;
  int64_t peak = 0;                ///< position at which most bytes of the device's arena are live
  int64_t peakBytes = 0;           ///< of that arena at that position, rounded up to alignment
  int64_t hostPeak = 0, hostPeakBytes = 0; ///< of the host's arena
  /// Tensors of an arena that are live at `position`, largest first.
  std::vector<const LiveTensor *> liveAt(int64_t position, bool host = false) const;
};

/// The source node that a location names, or an empty string.
std::string sourceNode(mlir::Location loc);

/// The module and the line of Python that node comes from, "module 'm.h.0', model.py:12";
/// empty where the model's file does not say.
std::string sourcePlace(mlir::Location loc);

/// Fails after an error.
mlir::FailureOr<Timeline> timelineOf(rt::FuncOp function);

/// The function whose arena, the device's or the host's, is the largest; fails after an error.
mlir::FailureOr<Timeline> largestTimeline(mlir::ModuleOp module, bool host = false);

} // namespace shale

#endif // SHALE_ANALYSIS_TIMELINE_H
