//===- Data.cpp - Constants and data movement -----------------------------===//
#include "dialects/nn/NN.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

static RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Fails unless `op`'s result 0 has the given element type and shape.
static LogicalResult verifyResult(Operation *op, Type element, ArrayRef<int64_t> shape) {
  auto expected = RankedTensorType::get(shape, element);
  if (op->getResult(0).getType() != expected)
    return op->emitOpError() << "result must be " << expected << "; got "
                             << op->getResult(0).getType();
  return success();
}

static LogicalResult verifyDim(Operation *op, int64_t dim, int64_t rank) {
  if (dim < 0 || dim >= rank)
    return op->emitOpError() << "dim " << dim << " must be in [0, " << rank << ")";
  return success();
}

/// Fails unless each array has one entry per dimension.
static LogicalResult verifyLengths(Operation *op, int64_t rank,
                                   ArrayRef<ArrayRef<int64_t>> arrays) {
  for (ArrayRef<int64_t> array : arrays)
    if (int64_t(array.size()) != rank)
      return op->emitOpError() << "needs one entry per dimension, " << rank << "; got "
                               << array.size();
  return success();
}

// ---- constant

void ConstantOp::build(OpBuilder &, OperationState &state, ElementsAttr value) {
  state.addAttribute(getValueAttrName(state.name), value);
  state.addTypes(value.getType());
}

LogicalResult ConstantOp::verify() {
  if (getValue().getShapedType() != getType()) // constant_c1
    return emitOpError() << "value is " << getValue().getShapedType() << ", the result "
                         << getType();
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

// ---- iota

LogicalResult IotaOp::verify() { // iota_c1
  return verifyDim(*this, getDim(), cast<RankedTensorType>(getType()).getRank());
}

// ---- reshape

LogicalResult ReshapeOp::verify() {
  auto in = tensor(getInput()), out = cast<RankedTensorType>(getType());
  if (in.getElementType() != out.getElementType() ||
      in.getNumElements() != out.getNumElements()) // reshape_c1
    return emitOpError() << "must keep the number of elements and the element type; got " << in
                         << " and " << out;
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto inner = getInput().getDefiningOp<ReshapeOp>()) { // reshape(reshape(x)) -> reshape(x)
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  if (auto value = dyn_cast_or_null<DenseElementsAttr>(adaptor.getInput()))
    return value.reshape(cast<ShapedType>(getType()));
  return {};
}

// ---- transpose

LogicalResult TransposeOp::verify() {
  auto in = tensor(getInput());
  ArrayRef<int64_t> perm = getPerm();
  llvm::SmallBitVector seen(in.getRank());
  bool permutation = int64_t(perm.size()) == in.getRank();
  for (int64_t p : perm) {
    if (!permutation || p < 0 || p >= in.getRank() || seen.test(p)) {
      permutation = false;
      break;
    }
    seen.set(p);
  }
  if (!permutation) // transpose_c1
    return emitOpError() << "perm must be a permutation of the " << in.getRank() << " dimensions";
  SmallVector<int64_t> shape =
      llvm::map_to_vector(perm, [&](int64_t p) { return in.getDimSize(p); });
  return verifyResult(*this, in.getElementType(), shape); // transpose_c2
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  ArrayRef<int64_t> perm = getPerm();
  if (llvm::equal(perm, llvm::seq<int64_t>(0, perm.size())))
    return getInput();
  if (auto inner =
          getInput().getDefiningOp<TransposeOp>()) { // transpose(transpose(x)) -> transpose(x)
    SmallVector<int64_t> combined =
        llvm::map_to_vector(perm, [&](int64_t p) { return inner.getPerm()[p]; });
    setPerm(combined);
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return {};
}

// ---- broadcast

LogicalResult BroadcastOp::verify() {
  auto in = tensor(getInput()), out = cast<RankedTensorType>(getType());
  ArrayRef<int64_t> dims = getDims();
  int64_t previous = -1;
  bool fits = int64_t(dims.size()) == in.getRank();
  for (int64_t dim : dims) {
    fits = fits && dim > previous && dim < out.getRank();
    previous = dim;
  }
  if (!fits) // broadcast_c1
    return emitOpError()
           << "dims must name one result dimension per operand dimension, strictly increasing";
  for (auto [i, dim] : llvm::enumerate(dims))
    if (in.getDimSize(i) != 1 && in.getDimSize(i) != out.getDimSize(dim)) // broadcast_c2
      return emitOpError() << "operand dimension " << i << " has size " << in.getDimSize(i)
                           << ", result dimension " << dim << " has " << out.getDimSize(dim);
  if (in.getElementType() != out.getElementType()) // broadcast_c3
    return emitOpError() << "element types must be equal; got " << in << " and " << out;
  return success();
}

OpFoldResult BroadcastOp::fold(FoldAdaptor adaptor) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto splat = dyn_cast_or_null<SplatElementsAttr>(adaptor.getInput()))
    return SplatElementsAttr::get(cast<ShapedType>(getType()), splat.getSplatValue<Attribute>());
  return {};
}

// ---- slice

LogicalResult SliceOp::verify() {
  auto in = tensor(getInput());
  if (failed(
          verifyLengths(*this, in.getRank(), {getStarts(), getLimits(), getStrides()}))) // slice_c1
    return failure();
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < in.getRank(); ++i) {
    int64_t start = getStarts()[i], limit = getLimits()[i], stride = getStrides()[i];
    if (start < 0 || start > limit || limit > in.getDimSize(i) || stride < 1) // slice_c1
      return emitOpError() << "dimension " << i << " of size " << in.getDimSize(i)
                           << " has no slice from " << start << " to " << limit << " by " << stride;
    shape.push_back(llvm::divideCeil(limit - start, stride));
  }
  return verifyResult(*this, in.getElementType(), shape); // slice_c2
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult();
}

// ---- pad

LogicalResult PadOp::verify() {
  auto in = tensor(getInput());
  if (failed(verifyLengths(*this, in.getRank(), {getLow(), getHigh(), getInterior()}))) // pad_c1
    return failure();
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < in.getRank(); ++i) {
    int64_t low = getLow()[i], high = getHigh()[i], interior = getInterior()[i];
    int64_t size = in.getDimSize(i);
    if (low < 0 || high < 0 || interior < 0) // pad_c1
      return emitOpError() << "padding of dimension " << i << " must not be negative";
    int64_t padded;
    if (llvm::MulOverflow(interior, std::max<int64_t>(size - 1, 0), padded) ||
        llvm::AddOverflow(padded, size, padded) || llvm::AddOverflow(padded, low, padded) ||
        llvm::AddOverflow(padded, high, padded)) // pad_c2
      return emitOpError() << "dimension " << i << " overflows 64 bits";
    shape.push_back(padded);
  }
  return verifyResult(*this, in.getElementType(), shape); // pad_c2
}

OpFoldResult PadOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult();
}

// ---- concat

LogicalResult ConcatOp::verify() {
  if (getInputs().empty()) // concat_c1
    return emitOpError() << "needs at least one operand";
  auto first = tensor(getInputs().front());
  if (failed(verifyDim(*this, getDim(), first.getRank()))) // concat_c1
    return failure();
  SmallVector<int64_t> shape(first.getShape());
  for (Value value : getInputs().drop_front()) {
    auto type = tensor(value);
    bool fits =
        type.getRank() == first.getRank() && type.getElementType() == first.getElementType();
    for (int64_t i = 0; fits && i < type.getRank(); ++i)
      fits = i == int64_t(getDim()) || type.getDimSize(i) == first.getDimSize(i);
    if (!fits) // concat_c2
      return emitOpError() << "operands must agree but along dim " << getDim() << "; got " << first
                           << " and " << type;
    if (llvm::AddOverflow(shape[getDim()], type.getDimSize(getDim()), shape[getDim()]))
      return emitOpError() << "dim " << getDim() << " overflows 64 bits";
  }
  return verifyResult(*this, first.getElementType(), shape); // concat_c2
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 ? OpFoldResult(getInputs().front()) : OpFoldResult();
}

// ---- gather, gather_nd

LogicalResult GatherOp::verify() {
  auto in = tensor(getInput()), indices = tensor(getIndices());
  if (failed(verifyDim(*this, getDim(), in.getRank()))) // gather_c1
    return failure();
  SmallVector<int64_t> shape(in.getShape().take_front(getDim()));
  llvm::append_range(shape, indices.getShape());
  llvm::append_range(shape, in.getShape().drop_front(getDim() + 1));
  return verifyResult(*this, in.getElementType(), shape); // gather_c2
}

/// Returns the shape of the elements that index tuples pick from `in`.
static FailureOr<SmallVector<int64_t>> pickedShape(Operation *op, RankedTensorType in,
                                                   RankedTensorType indices, int64_t batch) {
  if (batch < 0 || batch > in.getRank() || batch >= indices.getRank() ||
      in.getShape().take_front(batch) != indices.getShape().take_front(batch)) // gather_nd_c1
    return op->emitOpError() << "the first " << batch << " dimensions of " << in << " and "
                             << indices << " must be equal",
           failure();
  int64_t tuple = indices.getShape().back();
  if (tuple > in.getRank() - batch) // gather_nd_c2
    return op->emitOpError() << "index tuples of " << tuple
                             << " are longer than the rank that remains, " << in.getRank() - batch,
           failure();
  SmallVector<int64_t> shape(indices.getShape().drop_back());
  llvm::append_range(shape, in.getShape().drop_front(batch + tuple));
  return shape;
}

LogicalResult GatherNdOp::verify() {
  auto in = tensor(getInput());
  auto shape = pickedShape(*this, in, tensor(getIndices()), getBatchDims());
  return failed(shape) ? failure()
                       : verifyResult(*this, in.getElementType(), *shape); // gather_nd_c3
}

LogicalResult GatherNdGradOp::verify() {
  auto whole = tensor(getResult()), grad = tensor(getGrad());
  auto shape = pickedShape(*this, whole, tensor(getIndices()), getBatchDims());
  if (failed(shape))
    return failure();
  bool element = grad.getElementType() == whole.getElementType() ||
                 accumulatorType(grad.getElementType()) == whole.getElementType();
  if (!element || grad.getShape() != ArrayRef<int64_t>(*shape)) // gather_nd_grad_c1
    return emitOpError() << "grad must be what nn.gather_nd picks of the result, "
                         << whole.clone(*shape) << "; got " << grad;
  return success();
}

// ---- cumsum, reduce

LogicalResult CumsumOp::verify() { // cumsum_c1
  return verifyDim(*this, getDim(), tensor(getInput()).getRank());
}

LogicalResult ReduceOp::verify() {
  auto in = tensor(getInput());
  int64_t previous = -1;
  llvm::SmallBitVector reduced(in.getRank());
  for (int64_t dim : getDims()) {
    if (dim <= previous || dim >= in.getRank()) // reduce_c1
      return emitOpError() << "dims must be strictly increasing dimensions of " << in << "; got "
                           << dim;
    reduced.set(dim);
    previous = dim;
  }
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < in.getRank(); ++i)
    if (!reduced.test(i))
      shape.push_back(in.getDimSize(i));
  if (getType() == RankedTensorType::get(shape, accumulatorType(in.getElementType()))) // reduce_c2
    return success();
  return verifyResult(*this, in.getElementType(), shape); // reduce_c2
}

int64_t ReduceOp::getFlops() { return tensor(getInput()).getNumElements(); }

//===- Where elements come from -------------------------------------------===//

shale::ViewPlace ReshapeOp::getViewPlace(unsigned) { return {}; }

shale::MovedElements SliceOp::getMovedElements(unsigned) {
  bool whole = tensor(getInput()).getNumElements() == tensor(getResult()).getNumElements();
  return whole ? shale::MovedElements::All : shale::MovedElements::Some;
}

std::optional<shale::IndexRange> GatherOp::getIndexRange(unsigned number) {
  if (number != getIndicesMutable().getOperandNumber())
    return std::nullopt;
  return shale::IndexRange{tensor(getInput()).getDimSize(getDim())};
}

std::optional<shale::IndexRange> GatherNdOp::getIndexRange(unsigned number) {
  ArrayRef<int64_t> sizes =
      tensor(getInput()).getShape().slice(getBatchDims(), tensor(getIndices()).getShape().back());
  // All indices of a tuple have the same range only if the dimensions have the same size.
  if (number != getIndicesMutable().getOperandNumber() || sizes.empty() || !llvm::all_equal(sizes))
    return std::nullopt;
  return shale::IndexRange{sizes.front()};
}
