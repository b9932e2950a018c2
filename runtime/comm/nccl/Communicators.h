// The communicators of NCCL that the collectives of a program need.
#ifndef SHALE_RUNTIME_COMM_NCCL_COMMUNICATORS_H
#define SHALE_RUNTIME_COMM_NCCL_COMMUNICATORS_H

#include "runtime/comm/Collectives.h"
#include "runtime/comm/Peers.h"
#include "runtime/comm/nccl/Library.h"
#include "runtime/comm/nccl/Registration.h"
#include "runtime/core/TimeLimit.h"

#include <cuda.h>
#include <string>
#include <vector>

namespace shale::rt {

/// Connects a rank with the ranks along each axis, and says which of them do not answer.
class Communicators {
public:
  /// The gathers, or the reductions, of an axis: they run one after another. Each of the two has a
  /// communicator and a stream, so that a gather does not wait until a reduction is complete.
  struct Lane {
    ncclComm_t comm = nullptr; // null: the program has no such collective
    CUstream stream = nullptr;
  };
  /// The ranks along one axis.
  struct Axis {
    int size = 1, own = 0;
    Lane gathers, reductions;
    std::vector<int> others; // ranks

    const Lane &laneOf(int32_t kind) const { return rt::gathers(kind) ? gathers : reductions; }
  };

  /// Every rank makes one. Fails with exit code 76 if NCCL cannot connect the ranks, and ends the
  /// process if that takes longer than `timeout` seconds.
  Communicators(const ShaleProgram &program, int rank, Peers &peers, double timeout);

  const Axis &along(int axis) const { return axes[axis]; }

  /// Limits a call that connects the ranks along an axis: NCCL waits for them without a limit.
  TimeLimit limitConnecting(int axis) const;
  /// Returns the error that NCCL has found along an axis, or ncclSuccess.
  ncclResult_t errorAlong(int axis) const;

  /// Registers the blocks with every communicator, or, if that fails on any rank, nothing on all
  /// ranks: NCCL does not define collectives of which some ranks are registered.
  void registerMemory(const std::vector<const Memory *> &blocks);
  /// See Registration::clear().
  void deregisterMemory() { registration.clear(); }

  /// Returns which ranks of an axis do not wait for a collective, as this one does.
  std::string describeSilence(int axis) const;
  /// How long describeSilence() asks other ranks, in seconds.
  double patience() const;

private:
  void join(int index, int rank);
  void connect(int index, Lane &lane, int first);

  const ShaleProgram &program;
  Peers &peers;
  const Nccl &library = nccl();
  double timeout;
  std::vector<Axis> axes;
  Registration registration{library};
};

} // namespace shale::rt

#endif
