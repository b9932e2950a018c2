//===- NNOps.td - The ops of nn, by family --------------------------------===//
#ifndef SHALE_NN_OPS_TD
#define SHALE_NN_OPS_TD

include "dialects/nn/Ops/State.td"
include "dialects/nn/Ops/Constant.td"
include "dialects/nn/Ops/Data.td"
include "dialects/nn/Ops/Gather.td"
include "dialects/nn/Ops/Reduce.td"
include "dialects/nn/Ops/Elementwise.td"
include "dialects/nn/Ops/Compare.td"
include "dialects/nn/Ops/Cast.td"
include "dialects/nn/Ops/Matmul.td"
include "dialects/nn/Ops/GroupedMatmul.td"
include "dialects/nn/Ops/Quantize.td"
include "dialects/nn/Ops/Epilogue.td"
include "dialects/nn/Ops/Norm.td"
include "dialects/nn/Ops/Attention.td"
include "dialects/nn/Ops/Sdpa.td"
include "dialects/nn/Ops/Embedding.td"
include "dialects/nn/Ops/Sort.td"
include "dialects/nn/Ops/Loss.td"
include "dialects/nn/Ops/Optimizer.td"
include "dialects/nn/Ops/Random.td"
include "dialects/nn/Ops/Cluster.td"

#endif // SHALE_NN_OPS_TD
