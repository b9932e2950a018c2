// The matmuls of compiled functions, known without running them.
#ifndef SHALE_RUNTIME_PROGRAM_CALLS_MATMULS_H
#define SHALE_RUNTIME_PROGRAM_CALLS_MATMULS_H

#include "runtime/core/Rank.h"
#include "runtime/device/Device.h"

#include <functional>
#include <vector>

namespace shale::rt {

/// Runs `call`, which calls compiled functions with `rank`, without an effect: launches, copies,
/// collectives and waits return at once. Returns the matmuls that the functions ask for, in order.
/// Their addresses are those of a later call with the same arguments.
std::vector<Matmul> listMatmuls(ShaleRank &rank, const std::function<void()> &call);

} // namespace shale::rt

#endif
