//===- Transfers.h - Collectives in flight, over time ---------------------===//
#ifndef SHALE_ANALYSIS_TRANSFERS_H
#define SHALE_ANALYSIS_TRANSFERS_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include <deque>
#include <map>
#include <string>
#include <vector>

namespace shale {

/// A collective on its stream. Times are in seconds from the start of the function.
struct Transfer {
  mlir::Operation *op;
  double posted;   ///< when compute reached its start
  double latency;  ///< seconds before its first byte
  double seconds;  ///< what its bytes take if it has the link for itself
  bool leavesNode; ///< which of the two links it uses
  double begin = 0, end = 0;
  double exposed = 0; ///< seconds of these in which compute waits
  double left = 0;    ///< of `seconds`
};

/// The collectives in flight. Those of one stream run in order; those that send at once share the
/// link, within a node or between nodes. Time passes only up to the end of the collective that is
/// waited for: whatever starts later does not change what was before.
class Transfers {
public:
  /// The axis, and whether it gathers.
  using Stream = std::pair<std::string, bool>;

  /// Puts a collective behind the others of its stream. Starts are in the order of `posted`.
  void start(const Stream &stream, Transfer transfer);
  /// Returns when a started collective ends.
  double finish(mlir::Operation *op);
  /// Finishes all.
  void finish();
  /// Counts the time from `since` to the end of `op`, which is finished, as exposed: of `op`, and
  /// of those that ran before it on its stream.
  void expose(mlir::Operation *op, double since);
  /// Visits all that are finished.
  template <typename Body> void each(Body body) const {
    for (const auto &named : queues)
      for (const Transfer &transfer : named.second.done)
        body(transfer);
  }

private:
  struct Queue {
    std::deque<Transfer> posted; // the first one is under way
    std::vector<Transfer> done;
    double free = 0; // when the last one of `done` ended
  };
  struct Place {
    Queue *queue;
    int64_t done = -1; // place among those that are done
  };

  static void begin(Queue &queue);
  bool sends(const Queue &queue) const;
  void pass();
  void end(Queue &queue);

  double now = 0;
  std::map<Stream, Queue> queues;
  llvm::DenseMap<mlir::Operation *, Place> places;
};

} // namespace shale

#endif // SHALE_ANALYSIS_TRANSFERS_H
