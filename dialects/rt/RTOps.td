//===- RTOps.td - The ops of rt, by family --------------------------------===//
#ifndef SHALE_RT_OPS_TD
#define SHALE_RT_OPS_TD

include "dialects/rt/Ops/Function.td"
include "dialects/rt/Ops/Memory.td"
include "dialects/rt/Ops/Compute.td"
include "dialects/rt/Ops/Collective.td"

#endif // SHALE_RT_OPS_TD
