//===- ConstantFolder.cpp - Computes ops on constants ---------------------===//
//
// A mask of a whole batch is the same for every row of the batch. So values are
// stored and computed with size 1 along dimensions in which they do not change,
// followed by a broadcast. A mask of 256 rows takes as long as a mask of one.
// The sharding rule of an op says along which dimensions this is possible.
//
// Values that would be too large stay ops, which the program computes.
//
//===----------------------------------------------------------------------===//
#include "lib/Folding/ConstantFolder.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "lib/Folding/Fold.h"

using namespace mlir;
using namespace shale;

/// Limit of all folded values together.
static constexpr int64_t kTotalBytes = int64_t(1) << 30;
/// Limit of an operand of an op, as a multiple of the limit of a value.
static constexpr int64_t kOperandFactor = 8;
/// A value of more than kPairBytes bytes with kPairFactor times as many elements
/// as each of its operands combines all pairs of positions. It stays an op: a
/// mask of attention is recognized by the comparison that computes it.
static constexpr int64_t kPairFactor = 256;
static constexpr int64_t kPairBytes = int64_t(256) << 10;
/// Values of at most this many bytes are not compacted.
static constexpr int64_t kSmallBytes = int64_t(16) << 10;
/// Values of at most this many bytes are always computed: shapes may need them.
static constexpr int64_t kShapeBytes = 1024;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Whether a value can be computed now: a constant, or an op that is not folded
/// (broadcast, iota) but whose operands can be computed.
static bool isKnown(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<nn::ConstantOp, nn::IotaOp>(op))
    return true;
  auto broadcast = dyn_cast<nn::BroadcastOp>(op);
  return broadcast && isKnown(broadcast.getInput());
}

DenseElementsAttr ConstantFolder::constantOf(Value value) {
  if (!value || !isKnown(value))
    return {};
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast<nn::ConstantOp>(op))
    return dyn_cast<DenseElementsAttr>(constant.getValue());
  auto it = computed.find(op);
  if (it != computed.end())
    return it->second;
  if (nn::tensorBytes(typeOf(value)) > limit)
    return {};
  DenseElementsAttr attr = computeWhole(op);
  if (!attr)
    return {};
  foldedBytes += nn::tensorBytes(typeOf(value));
  return computed[op] = attr;
}

DenseElementsAttr ConstantFolder::distinctOf(Value value) {
  if (!value || !isKnown(value) || llvm::is_contained(typeOf(value).getShape(), 0))
    return constantOf(value);
  bool isConstant = isa<nn::ConstantOp>(value.getDefiningOp());
  return isConstant || nn::tensorBytes(typeOf(value)) <= limit ? compactOf(value)
                                                               : DenseElementsAttr();
}

/// Returns the result of an op on its whole operands; null if they are not known, or if the op is
/// not folded.
DenseElementsAttr ConstantFolder::computeWhole(Operation *op) {
  SmallVector<DenseElementsAttr> operands;
  for (Value operand : op->getOperands())
    if (!operands.emplace_back(constantOf(operand)))
      return {};
  return folding::fold(op, operands);
}

/// Returns a known value with size 1 along dimensions in which it is known not to
/// change; null if it cannot be computed.
DenseElementsAttr ConstantFolder::compactOf(Value value) {
  auto type = typeOf(value);
  if (auto constant = value.getDefiningOp<nn::ConstantOp>()) {
    auto attr = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!attr || !attr.isSplat())
      return attr;
    SmallVector<int64_t> ones(type.getRank(), 1);
    return attr.resizeSplat(RankedTensorType::get(ones, type.getElementType()));
  }
  if (auto iota = value.getDefiningOp<nn::IotaOp>()) {
    SmallVector<int64_t> line(type.getRank(), 1);
    line[iota.getDim()] = type.getDimSize(iota.getDim());
    Block block;
    OpBuilder inside(value.getContext());
    inside.setInsertionPointToEnd(&block);
    return folding::fold(nn::IotaOp::create(inside, iota.getLoc(), type.clone(line), iota.getDim()),
                         ArrayRef<folding::TypedBuffer>());
  }
  auto broadcast = value.getDefiningOp<nn::BroadcastOp>();
  if (!broadcast)
    return constantOf(value);
  DenseElementsAttr inner = compactOf(broadcast.getInput());
  if (!inner)
    return {};
  SmallVector<int64_t> shape(type.getRank(), 1);
  for (auto [dim, size] : llvm::zip(broadcast.getDims(), inner.getType().getShape()))
    shape[dim] = size;
  return inner.reshape(RankedTensorType::get(shape, type.getElementType()));
}

/// Returns the result of an op with factors of its rule reduced to size 1, as if each was split by
/// an axis of its size: `local` has the result's type and these axes. Operands repeat along
/// dimensions of size 1 to their `types`. Results are cached, since each layer of a model computes
/// the same mask.
DenseElementsAttr ConstantFolder::compute(Operation *op, LocalForm local,
                                          ArrayRef<DenseElementsAttr> operands,
                                          ArrayRef<RankedTensorType> types) {
  std::vector<const void *> key{op->getName().getAsOpaquePointer(),
                                op->getPropertiesAsAttribute().getAsOpaquePointer(),
                                local.types.front().getAsOpaquePointer()};
  for (auto [operand, type] : llvm::zip_equal(operands, types))
    key.insert(key.end(), {operand.getAsOpaquePointer(), type.getAsOpaquePointer()});
  DenseElementsAttr &known = answers[key];
  if (known)
    return known;
  Block block;
  SmallVector<folding::TypedBuffer> buffers;
  for (auto [operand, type] : llvm::zip_equal(operands, types)) {
    local.operands.push_back(block.addArgument(type, op->getLoc()));
    std::optional<folding::TypedBuffer> buffer = folding::TypedBuffer::of(operand);
    if (!buffer)
      return {};
    buffers.push_back(buffer->repeated(type.getShape()));
  }
  OpBuilder inside(op->getContext());
  inside.setInsertionPointToEnd(&block);
  if (auto partitionable = dyn_cast<PartitionableOpInterface>(op)) {
    if (mlir::failed(partitionable.partition(inside, local)))
      return {};
  } else {
    inside.create(
        OperationState(op->getLoc(), op->getName(), local.operands, local.types, op->getAttrs()));
  }
  if (!llvm::hasSingleElement(block) || block.front().getNumOperands() != operands.size())
    return {};
  return known = folding::fold(&block.front(), buffers);
}

/// Returns for each factor whether it can be reduced to size 1: it is parallel, no operand changes
/// along it, and each dimension that has it consists of such factors. `sizes`: of the operands,
/// with size 1 along dimensions in which they do not change.
static SmallVector<bool> findReducible(const ShardingRule &rule,
                                       ArrayRef<ArrayRef<int64_t>> sizes) {
  SmallVector<bool> reducible;
  for (const Factor &factor : rule.factors)
    reducible.push_back(factor.kind == FactorKind::Parallel);
  for (auto [operand, shape] : llvm::zip_equal(rule.operands, sizes))
    for (auto [factors, size] : llvm::zip_equal(operand, shape))
      for (int64_t factor : factors)
        reducible[factor] = reducible[factor] && size == 1;
  for (bool changed = true; changed;) {
    changed = false;
    for (const TensorFactors &dims : llvm::concat<const TensorFactors>(rule.operands, rule.results))
      for (const auto &factors : dims) {
        if (llvm::all_of(factors, [&](int64_t factor) { return reducible[factor]; }))
          continue;
        for (int64_t factor : factors) {
          changed |= reducible[factor];
          reducible[factor] = false;
        }
      }
  }
  return reducible;
}

/// Returns the shape of an operand or result with size 1 along its reducible factors.
static SmallVector<int64_t> reducedShape(RankedTensorType type, const TensorFactors &dims,
                                         ArrayRef<bool> reducible) {
  SmallVector<int64_t> shape(type.getShape());
  for (auto [size, factors] : llvm::zip_equal(shape, dims))
    if (!factors.empty() && reducible[factors.front()])
      size = 1;
  return shape;
}

/// Computes an op with size 1 along dimensions in which no operand changes, as far as the op's
/// sharding rule allows; null if that is not possible, or if the result is `tooLarge`.
DenseElementsAttr ConstantFolder::computeCompact(Operation *op, bool &tooLarge) {
  auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
  if (!sharded)
    return {};
  SmallVector<DenseElementsAttr> operands;
  SmallVector<ArrayRef<int64_t>> sizes;
  int64_t most = 1;
  for (Value operand : op->getOperands()) {
    operands.push_back(compactOf(operand));
    if (!operands.back() || operands.back().getType().getRank() != typeOf(operand).getRank())
      return {};
    sizes.push_back(operands.back().getType().getShape());
    most = std::max(most, operands.back().getNumElements());
  }
  ShardingRule rule = sharded.getShardingRule();
  SmallVector<bool> reducible = findReducible(rule, sizes);
  LocalForm local;
  for (auto [factor, isReduced] : llvm::zip_equal(rule.factors, reducible)) {
    local.axes.emplace_back();
    if (isReduced && factor.size > 1)
      local.axes.back().push_back({"", factor.size});
  }
  auto type = typeOf(op->getResult(0));
  auto result = type.clone(reducedShape(type, rule.results.front(), reducible));
  local.types.push_back(result);
  int64_t bytes = nn::tensorBytes(result);
  tooLarge = bytes > limit || (bytes > kPairBytes && result.getNumElements() / kPairFactor >= most);
  SmallVector<RankedTensorType> types;
  for (auto [value, attr, dims] : llvm::zip_equal(op->getOperands(), operands, rule.operands)) {
    SmallVector<int64_t> shape = reducedShape(typeOf(value), dims, reducible);
    types.push_back(RankedTensorType::get(shape, attr.getElementType()));
    tooLarge |= nn::tensorBytes(types.back()) > limit * kOperandFactor;
    if (tooLarge)
      return {};
  }
  return compute(op, local, operands, types);
}

/// Replaces `op` by a constant, followed by a broadcast if that is smaller.
Value ConstantFolder::replace(Operation *op, DenseElementsAttr attr) {
  auto type = typeOf(op->getResult(0));
  int64_t bytes = nn::tensorBytes(cast<RankedTensorType>(attr.getType()));
  if (bytes > kSmallBytes)
    attr = nn::reduceRepeated(attr);
  if (!counted.insert(attr.getAsOpaquePointer()).second)
    bytes = 0;
  foldedBytes += bytes;
  if (attr.getType() != type && attr.isSplat())
    attr = attr.resizeSplat(type);
  Value value = nn::ConstantOp::create(builder, op->getLoc(), attr);
  if (attr.getType() != type) {
    auto all = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank()));
    value = nn::BroadcastOp::create(builder, op->getLoc(), type, value, all);
  }
  op->erase();
  return value;
}

/// Joins a broadcast with the one that it repeats, and returns a splat in its place if it repeats
/// one number.
Value ConstantFolder::foldBroadcast(nn::BroadcastOp broadcast) {
  if (auto inner = broadcast.getInput().getDefiningOp<nn::BroadcastOp>()) {
    SmallVector<int64_t> dims;
    for (int64_t dim : inner.getDims())
      dims.push_back(broadcast.getDims()[dim]);
    broadcast.getInputMutable().assign(inner.getInput());
    broadcast.setDims(dims);
  }
  DenseElementsAttr attr = compactOf(broadcast.getInput());
  if (!attr || !attr.isSplat())
    return broadcast;
  auto values =
      DenseElementsAttr::get(typeOf(broadcast.getResult()), attr.getSplatValue<Attribute>());
  Value splat = nn::ConstantOp::create(builder, broadcast.getLoc(), values);
  broadcast->erase();
  return splat;
}

/// Returns the bytes of the largest operand or result.
static int64_t largestBytes(Operation *op) {
  int64_t largest = 0;
  for (Type each : llvm::concat<const Type>(SmallVector<Type>(op->getOperandTypes()),
                                            SmallVector<Type>(op->getResultTypes())))
    largest = std::max(largest, nn::tensorBytes(cast<RankedTensorType>(each)));
  return largest;
}

Value ConstantFolder::fold(Operation *op) {
  Value value = op->getResult(0);
  if (isa<nn::ConstantOp, nn::IotaOp>(op) || op->getNumOperands() == 0 ||
      !llvm::all_of(op->getOperands(), isKnown))
    return value;
  if (auto broadcast = dyn_cast<nn::BroadcastOp>(op))
    return foldBroadcast(broadcast);
  int64_t largest = largestBytes(op);
  if (largest > kShapeBytes && foldedBytes > kTotalBytes)
    return value;
  if (op->getNumResults() == 1 && largest > std::min(kSmallBytes, limit)) {
    bool tooLarge = false;
    if (DenseElementsAttr attr = computeCompact(op, tooLarge))
      return replace(op, attr);
    if (tooLarge)
      return value;
  }
  if (largest > limit)
    return value;
  DenseElementsAttr attr = computeWhole(op);
  return attr ? replace(op, attr) : value;
}
