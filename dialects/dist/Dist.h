//===- Dist.h - The dist dialect: distribution over ranks -----------------===//
#ifndef SHALE_DIST_DIST_H
#define SHALE_DIST_DIST_H

#include "dialects/interfaces/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/dist/Axes.h"

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.h.inc"

#include "dialects/dist/DistDialect.h.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/dist/DistTypes.h.inc"

#define GET_OP_CLASSES
#include "dialects/dist/DistOps.h.inc"

namespace shale::dist {

// Names of the discardable attributes, which DistDialect.td lists and describes.
inline constexpr llvm::StringLiteral kShardingAttr = DistDialect::ShardingAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kShardingsAttr =
    DistDialect::ShardingsAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kFactorsAttr = DistDialect::FactorsAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kPartitionedAttr =
    DistDialect::PartitionedAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kTensorAttr = DistDialect::TensorAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kPlanAttr = DistDialect::PlanAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kPlanCostsAttr =
    DistDialect::PlanCostsAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kStrategyAttr = DistDialect::StrategyAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kKeepGatheredAttr =
    DistDialect::KeepGatheredAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kKeepSingleRankAttr =
    DistDialect::KeepSingleRankAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kQuantizeGathersAttr =
    DistDialect::QuantizeGathersAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kQuantizeReductionsAttr =
    DistDialect::QuantizeReductionsAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kWideSumsAttr = DistDialect::WideSumsAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kReduceOnceAttr =
    DistDialect::ReduceOnceAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kPartialAttr = DistDialect::PartialAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kBucketAttr = DistDialect::BucketAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kUnitAttr = DistDialect::UnitAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kGroupAttr = DistDialect::GroupAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kCopyAttr = DistDialect::CopyAttrHelper::getNameStr();
inline constexpr llvm::StringLiteral kAxisAttr = DistDialect::AxisAttrHelper::getNameStr();

/// Parameters start at multiples of this many bytes in a flat group.
inline constexpr int64_t kSegmentAlignment = 64;

/// The elements of a block of an encoding, and the 32-bit words in which it is sent.
struct EncodedBlock {
  int64_t elements, words;
};
constexpr EncodedBlock blockOf(Encoding encoding) {
  switch (encoding) {
  case Encoding::Int8:
    return {256, 65};
  }
  return {1, 1};
}

/// Returns the strategy of the module that `op` is in (or is); Strategy::None without the
/// attribute.
Strategy getStrategy(mlir::Operation *op);

// Whether each rank stores only its slice of the parameters, gradients or optimizer state.
inline bool splitsParameters(Strategy strategy) { return strategy == Strategy::Full; }
inline bool splitsGradients(Strategy strategy) {
  return strategy == Strategy::Grad || strategy == Strategy::Full;
}
inline bool splitsOptimizer(Strategy strategy) { return strategy != Strategy::None; }
/// Whether gradients stay whole until the update and are reduced to slices there.
inline bool reducesAtEnd(Strategy strategy) {
  return splitsOptimizer(strategy) && !splitsGradients(strategy);
}

/// Returns the mesh of the module that `op` is in (or is), or null.
MeshOp getMesh(mlir::Operation *op);

/// Returns the size of `axis` on the mesh around `op`; 0 when there is none.
int64_t getAxisSize(mlir::Operation *op, llvm::StringRef axis);

/// Creates the collective of a kind along dimension 0: a sum, if it reduces; an all-to-all from
/// dimension 0 to 1.
mlir::Operation *createCollective(mlir::OpBuilder &builder, mlir::Location loc, CollectiveKind kind,
                                  mlir::RankedTensorType type, mlir::Value input,
                                  mlir::StringAttr axis);

/// Replaces `collective` by a `dist.start` at its place, followed directly by
/// the `dist.wait`; they may be moved apart later. Discardable attributes go to
/// all three. The collective itself moves into the region.
std::pair<StartOp, WaitOp> splitCollective(mlir::OpBuilder &builder,
                                           CollectiveOpInterface collective);

} // namespace shale::dist

#endif // SHALE_DIST_DIST_H
