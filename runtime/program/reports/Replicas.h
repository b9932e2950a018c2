// --check-replicas: compares what must have the same bits on several ranks.
//
// A state that an axis of the mesh does not split is a replica on the ranks that differ only in
// their coordinates on other axes: parameters and optimizer state with `none`, parameters with
// `optimizer`, every part of a hybrid mesh. The metrics of a step are equal on all ranks. Each rank
// reduces these to checksums of 64 bits, and rank 0 compares them.
#ifndef SHALE_RUNTIME_PROGRAM_REPORTS_REPLICAS_H
#define SHALE_RUNTIME_PROGRAM_REPORTS_REPLICAS_H

#include "runtime/checkpoint/StateLayout.h"
#include "runtime/device/State.h"

namespace shale::rt {

class Replicas {
public:
  Replicas(const ShaleProgram &program, int rank);

  /// Whether some part of the state is on more than one rank.
  bool anyState() const { return !shared.empty(); }
  /// Returns this rank's checksums (XXH3): of each metric of the last step, then of each of its
  /// pieces of state that another rank holds, too. `metrics` has metric_count values.
  std::string checksums(const State &state, const float *metrics) const;
  /// Compares the checksums of all ranks, by rank. Returns "" if those of each metric and each
  /// piece are equal; else which one differs first, and between which ranks.
  std::string compare(const std::vector<std::string> &ofRanks) const;

private:
  /// A piece's place among the checksums of a rank that holds it.
  struct Copy {
    int rank;
    size_t place;
  };
  struct Shared {
    Piece piece;
    std::vector<Copy> copies; // at least two, by rank
  };

  const ShaleProgram &program;
  std::vector<Shared> shared; // by parameter, role, type and range
  std::vector<Piece> own;     // those that this rank holds, in the order of their places
};

} // namespace shale::rt

#endif
