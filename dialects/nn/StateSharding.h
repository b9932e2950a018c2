//===- StateSharding.h - How optimizer state follows its parameter --------===//
#ifndef SHALE_NN_STATESHARDING_H
#define SHALE_NN_STATESHARDING_H

#include "dialects/dist/Dist.h"

namespace shale::nn {

class StateOp;

/// Returns how ranks split the optimizer state of type `state` of a parameter, which they split as
/// `sharding` says. State of the parameter's shape is split alike. State in blocks of elements that
/// follow one another (Optimizer::stateBlock) is split as the blocks are. Other state, such as
/// means of rows and columns, is whole on every rank.
dist::ShardingAttr getStateSharding(StateOp param, mlir::RankedTensorType state,
                                    dist::ShardingAttr sharding);

} // namespace shale::nn

#endif // SHALE_NN_STATESHARDING_H
