//===- DistOps.td - The ops of dist, by family ----------------------------===//
#ifndef SHALE_DIST_OPS_TD
#define SHALE_DIST_OPS_TD

include "dialects/dist/Ops/Mesh.td"
include "dialects/dist/Ops/Unit.td"
include "dialects/dist/Ops/Collectives.td"
include "dialects/dist/Ops/Async.td"

#endif // SHALE_DIST_OPS_TD
