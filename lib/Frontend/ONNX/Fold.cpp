//===- Fold.cpp - Folds values that depend on shapes only -----------------===//
//
// A mask of a whole batch is the same for every row of the batch. So values are
// stored and computed with size 1 along dimensions in which they do not change,
// followed by a broadcast. A mask of 256 rows takes as long as a mask of one.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "lib/Frontend/ONNX/Importer.h"
#include "lib/Interpreter/Interpreter.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

// Limits of all folded values together and of an operand of an op, as multiples
// of the limit of one value.
static constexpr int64_t kTotalFactor = 16;
static constexpr int64_t kOperandFactor = 8;
/// Values of at most this many bytes are not compacted.
static constexpr int64_t kSmallBytes = int64_t(16) << 10;
/// Maximum bytes of operands and results of one op in the interpreter.
static constexpr int64_t kInterpreterBytes = int64_t(1) << 40;

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

DenseElementsAttr Importer::constantOf(Value value) {
  if (!value || !isKnown(value))
    return {};
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast<nn::ConstantOp>(op))
    return dyn_cast<DenseElementsAttr>(constant.getValue());
  auto it = computed.find(op);
  if (it != computed.end())
    return it->second;
  if (nn::tensorBytes(typeOf(value)) > options.foldLimit)
    return {};
  SmallVector<ElementsAttr> operands;
  for (Value operand : op->getOperands()) {
    DenseElementsAttr attr = constantOf(operand);
    if (!attr)
      return {};
    operands.push_back(attr);
  }
  auto results = interp::interpretConstant(op, operands, kInterpreterBytes);
  if (mlir::failed(results))
    return {};
  foldedBytes += nn::tensorBytes(typeOf(value));
  return computed[op] = results->front();
}

/// Returns a known value with size 1 along dimensions in which it is known not to
/// change; null if it cannot be computed.
DenseElementsAttr Importer::compactOf(Value value) {
  auto type = typeOf(value);
  if (auto constant = value.getDefiningOp<nn::ConstantOp>()) {
    auto attr = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!attr || !attr.isSplat())
      return attr;
    SmallVector<int64_t> ones(type.getRank(), 1);
    return attr.resizeSplat(RankedTensorType::get(ones, type.getElementType()));
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

/// Reduces every dimension in which the elements do not change to size 1.
static DenseElementsAttr compact(DenseElementsAttr attr) {
  auto type = cast<RankedTensorType>(attr.getType());
  SmallVector<int64_t> shape(type.getShape());
  if (attr.isSplat()) {
    shape.assign(shape.size(), 1);
    return attr.resizeSplat(RankedTensorType::get(shape, type.getElementType()));
  }
  ArrayRef<char> raw = attr.getRawData();
  int64_t element = raw.size() / std::max<int64_t>(1, attr.getNumElements());
  if (element * attr.getNumElements() != int64_t(raw.size()))
    return attr;
  // From the outside in: [outer, size, inner] equals its first slice everywhere.
  SmallVector<char> kept(raw.begin(), raw.end());
  int64_t outer = 1;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    int64_t size = shape[dim];
    int64_t inner = int64_t(kept.size()) / std::max<int64_t>(1, outer * size);
    bool same = size > 1 && inner > 0;
    for (int64_t o = 0; o < outer && same; ++o)
      for (int64_t i = 1; i < size && same; ++i)
        same = std::memcmp(&kept[o * size * inner], &kept[(o * size + i) * inner], inner) == 0;
    if (same) {
      for (int64_t o = 0; o < outer; ++o)
        std::memmove(&kept[o * inner], &kept[o * size * inner], inner);
      kept.resize(outer * inner);
      shape[dim] = 1;
    }
    outer *= shape[dim];
  }
  if (kept.size() == raw.size())
    return attr;
  return DenseElementsAttr::getFromRawBuffer(RankedTensorType::get(shape, type.getElementType()),
                                             kept);
}

/// Returns the result of `op` on operands of other sizes. Results are cached,
/// since each layer of a model computes the same mask.
DenseElementsAttr Importer::compute(Operation *op, RankedTensorType result,
                                    ArrayRef<DenseElementsAttr> operands) {
  std::vector<const void *> key{op->getName().getAsOpaquePointer(),
                                op->getPropertiesAsAttribute().getAsOpaquePointer(),
                                result.getAsOpaquePointer()};
  for (DenseElementsAttr operand : operands)
    key.push_back(operand.getAsOpaquePointer());
  DenseElementsAttr &known = answers[key];
  if (known)
    return known;
  Block block;
  SmallVector<Value> arguments;
  for (DenseElementsAttr operand : operands)
    arguments.push_back(block.addArgument(operand.getType(), op->getLoc()));
  OperationState state(op->getLoc(), op->getName(), arguments, TypeRange{result}, op->getAttrs());
  Operation *resized = Operation::create(state);
  block.push_back(resized);
  SmallVector<ElementsAttr> inputs(operands.begin(), operands.end());
  auto results = interp::interpretConstant(resized, inputs, kInterpreterBytes);
  if (mlir::succeeded(results) && results->size() == 1)
    known = results->front();
  return known;
}

/// Computes an elementwise op with size 1 along dimensions in which no operand
/// changes; null if that is not possible.
DenseElementsAttr Importer::computeCompact(Operation *op) {
  auto type = typeOf(op->getResult(0));
  SmallVector<DenseElementsAttr> operands;
  SmallVector<int64_t> shape(type.getRank(), 1), all;
  for (Value operand : op->getOperands()) {
    operands.push_back(compactOf(operand));
    if (!operands.back() || operands.back().getType().getRank() != type.getRank())
      return {};
    for (auto [size, other] : llvm::zip(shape, operands.back().getType().getShape()))
      size = std::max(size, other);
  }
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    all.push_back(dim);
  for (DenseElementsAttr &operand : operands) {
    auto wide = RankedTensorType::get(shape, operand.getElementType());
    if (operand.getType() == wide)
      continue;
    if (nn::tensorBytes(wide) > options.foldLimit * kOperandFactor)
      return {};
    if (operand.isSplat()) {
      operand = operand.resizeSplat(wide);
      continue;
    }
    Block block;
    Value argument = block.addArgument(operand.getType(), op->getLoc());
    OpBuilder inside(context);
    inside.setInsertionPointToEnd(&block);
    auto broadcast = nn::BroadcastOp::create(inside, op->getLoc(), wide, argument, all);
    auto results = interp::interpretConstant(broadcast, {operand}, kInterpreterBytes);
    if (mlir::failed(results))
      return {};
    operand = results->front();
  }
  auto result = RankedTensorType::get(shape, type.getElementType());
  return nn::tensorBytes(result) > options.foldLimit ? DenseElementsAttr()
                                                     : compute(op, result, operands);
}

/// Replaces `op` by a constant, followed by a broadcast if that is smaller.
FailureOr<Value> Importer::replaceFolded(Operation *op, DenseElementsAttr attr) {
  auto type = typeOf(op->getResult(0));
  int64_t bytes = nn::tensorBytes(cast<RankedTensorType>(attr.getType()));
  if (bytes > kSmallBytes)
    attr = compact(attr);
  if (!counted.insert(attr.getAsOpaquePointer()).second)
    bytes = 0;
  foldedBytes += bytes;
  if (foldedBytes > options.foldLimit * kTotalFactor) {
    refuse(foldedBytes);
    return failure();
  }
  Value value;
  if (attr.getType() != type && attr.isSplat())
    attr = attr.resizeSplat(type);
  value = nn::ConstantOp::create(builder, op->getLoc(), attr);
  if (attr.getType() != type) {
    SmallVector<int64_t> all;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      all.push_back(dim);
    value = nn::BroadcastOp::create(builder, op->getLoc(), type, value, all);
  }
  op->erase();
  return value;
}

void Importer::refuse(int64_t bytes) {
  error("what it computes from shapes and constants takes " + Twine(bytes >> 20) +
        " MiB, more than the " + Twine(options.foldLimit >> 20) + " MiB a folded value may have (" +
        Twine(options.foldLimit * kTotalFactor >> 20) +
        " MiB all together): use smaller dimensions (--dim)");
}

FailureOr<Value> Importer::fold(Operation *op) {
  Value value = op->getResult(0);
  if (isa<nn::ConstantOp, nn::IotaOp>(op) || op->getNumOperands() == 0 ||
      !llvm::all_of(op->getOperands(), isKnown))
    return value;
  auto type = typeOf(value);
  if (auto broadcast = dyn_cast<nn::BroadcastOp>(op)) {
    if (auto inner =
            broadcast.getInput().getDefiningOp<nn::BroadcastOp>()) { // one broadcast replaces both
      SmallVector<int64_t> dims;
      for (int64_t dim : inner.getDims())
        dims.push_back(broadcast.getDims()[dim]);
      broadcast.getInputMutable().assign(inner.getInput());
      broadcast.setDims(dims);
    }
    DenseElementsAttr attr = compactOf(op->getOperand(0));
    if (!attr || !attr.isSplat())
      return value;
    Value splat = nn::ConstantOp::create(
        builder, op->getLoc(), DenseElementsAttr::get(type, attr.getSplatValue<Attribute>()));
    op->erase();
    return splat;
  }
  if (isa<ElementwiseOpInterface>(op) && op->getNumResults() == 1 &&
      nn::tensorBytes(type) > kSmallBytes)
    if (DenseElementsAttr attr = computeCompact(op))
      return replaceFolded(op, attr);
  int64_t largest = 0;
  for (Type each : llvm::concat<const Type>(SmallVector<Type>(op->getOperandTypes()),
                                            SmallVector<Type>(op->getResultTypes())))
    largest = std::max(largest, nn::tensorBytes(cast<RankedTensorType>(each)));
  if (largest > options.foldLimit) {
    refuse(largest);
    return failure();
  }
  SmallVector<ElementsAttr> operands;
  for (Value operand : op->getOperands()) {
    DenseElementsAttr attr = constantOf(operand);
    if (!attr)
      return value;
    operands.push_back(attr);
  }
  auto results = interp::interpretConstant(op, operands, kInterpreterBytes);
  if (mlir::failed(results) || results->size() != 1)
    return value;
  return replaceFolded(op, results->front());
}
