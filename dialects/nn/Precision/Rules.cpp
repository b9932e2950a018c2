//===- Rules.cpp - Types of the float operands and results of ops ---------===//
//
// Ops that are not listed here use the interface's default: every float follows
// the others.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/Epilogue.h"
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Norm.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Ops/Random.h"
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Ops/Sdpa.h"
#include "dialects/nn/Ops/Sort.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

#define OPERAND(OP) Numeric OP::getOperandNumeric([[maybe_unused]] unsigned number)
#define RESULT(OP) Numeric OP::getResultNumeric([[maybe_unused]] unsigned number)

// ---- data movement

bool ReshapeOp::movesOnly() { return true; }
bool TransposeOp::movesOnly() { return true; }
bool BroadcastOp::movesOnly() { return true; }
bool SliceOp::movesOnly() { return true; }
bool PadOp::movesOnly() { return true; }
bool ConcatOp::movesOnly() { return true; }
bool GatherOp::movesOnly() { return true; }
bool GatherNdOp::movesOnly() { return true; }
bool EmbeddingOp::movesOnly() { return true; }
bool ArgsortOp::movesOnly() { return true; }

// ---- sums

OPERAND(MatmulOp) { return Numeric::Compute; }
RESULT(MatmulOp) { return Numeric::Accumulates; }
OPERAND(GroupedMatmulOp) { return number == 2 ? Numeric::Any : Numeric::Compute; }
RESULT(GroupedMatmulOp) { return Numeric::Accumulates; }
OPERAND(GroupedMatmulGradOp) { return number == 2 ? Numeric::Any : Numeric::Compute; }
RESULT(GroupedMatmulGradOp) { return Numeric::Accumulates; }
OPERAND(ExpertMatmulOp) { return number == 2 ? Numeric::Any : Numeric::Compute; }
RESULT(ExpertMatmulOp) { return Numeric::Accumulates; }
OPERAND(ExpertMatmulGradOp) { return number == 2 ? Numeric::Any : Numeric::Compute; }
RESULT(ExpertMatmulGradOp) { return Numeric::Accumulates; }
OPERAND(MatmulAddOp) { return number == 0 ? Numeric::Full : Numeric::Compute; }
RESULT(MatmulAddOp) { return Numeric::Full; }
OPERAND(MatmulEpilogueOp) { return Numeric::Compute; }
RESULT(MatmulEpilogueOp) { return Numeric::Compute; }
OPERAND(ReduceOp) { return Numeric::Any; }
RESULT(ReduceOp) { return Numeric::Full; }
OPERAND(CumsumOp) { return Numeric::Full; }
RESULT(CumsumOp) { return Numeric::Full; }
OPERAND(EmbeddingGradOp) { return Numeric::Any; }
RESULT(EmbeddingGradOp) { return Numeric::Full; }
// Rounding before the order would make ties.
OPERAND(TopKOp) { return Numeric::Full; }
RESULT(TopKOp) { return Numeric::Full; }
OPERAND(SortedEmbeddingGradOp) { return number == 2 ? Numeric::Any : Numeric::Full; }
RESULT(SortedEmbeddingGradOp) { return Numeric::Full; }
OPERAND(GatherNdGradOp) { return Numeric::Any; }
RESULT(GatherNdGradOp) { return Numeric::Full; }

// ---- random numbers

OPERAND(UniformOp) { return Numeric::Any; }
RESULT(UniformOp) { return Numeric::Full; }

// ---- norms: statistics in f32, x and result of one type

OPERAND(LayerNormOp) { return number == 0 ? Numeric::Follows : Numeric::Any; }
RESULT(LayerNormOp) { return number == 0 ? Numeric::Follows : Numeric::Full; }
OPERAND(LayerNormGradOp) {
  return number == 0 || number == 4 ? Numeric::Follows : number == 1 ? Numeric::Any : Numeric::Full;
}
RESULT(LayerNormGradOp) { return number == 0 ? Numeric::Follows : Numeric::Full; }
OPERAND(RmsNormOp) { return number == 0 ? Numeric::Follows : Numeric::Any; }
RESULT(RmsNormOp) { return number == 0 ? Numeric::Follows : Numeric::Full; }
OPERAND(RmsNormGradOp) {
  return number == 0 || number == 3 ? Numeric::Follows : number == 1 ? Numeric::Any : Numeric::Full;
}
RESULT(RmsNormGradOp) { return number == 0 ? Numeric::Follows : Numeric::Full; }

// ---- attention: q, k, v and the result in the compute type, lse in f32

OPERAND(AttentionOp) { return number < 3 ? Numeric::Compute : Numeric::Any; }
RESULT(AttentionOp) { return number == 0 ? Numeric::Compute : Numeric::Full; }
OPERAND(AttentionGradOp) {
  return number == 4 ? Numeric::Full : number < 6 ? Numeric::Compute : Numeric::Any;
}
RESULT(AttentionGradOp) { return Numeric::Compute; }
OPERAND(SdpaOp) { return Numeric::Compute; }
RESULT(SdpaOp) { return number == 0 ? Numeric::Compute : Numeric::Full; }
OPERAND(SdpaGradOp) {
  return number == getInputs().size() + 1 ? Numeric::Full : Numeric::Compute; // lse
}
RESULT(SdpaGradOp) { return Numeric::Compute; }
OPERAND(RopeOp) { return number == 0 ? Numeric::Follows : Numeric::Any; }
RESULT(RopeOp) { return Numeric::Follows; }

// ---- loss

OPERAND(CrossEntropyOp) { return Numeric::Any; }
RESULT(CrossEntropyOp) { return Numeric::Full; }
OPERAND(CrossEntropyGradOp) { return number == 0 ? Numeric::Follows : Numeric::Full; }
RESULT(CrossEntropyGradOp) { return Numeric::Follows; }

// ---- sums of gradients, in f32; updates declare their types in Optimizer.td

OPERAND(AccumulateOp) { return Numeric::Accumulates; }
RESULT(AccumulateOp) { return Numeric::Full; }
OPERAND(SumSquaresOp) { return Numeric::Any; }
RESULT(SumSquaresOp) { return Numeric::Full; }
