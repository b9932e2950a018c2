//===- Data.cpp - Data movement -------------------------------------------===//
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Verify.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

/// Fails unless each array has one entry per dimension.
static LogicalResult verifyLengths(Operation *op, int64_t rank,
                                   ArrayRef<ArrayRef<int64_t>> arrays) {
  for (ArrayRef<int64_t> array : arrays)
    if (int64_t(array.size()) != rank)
      return op->emitOpError() << "needs one entry per dimension, " << rank << "; got "
                               << array.size();
  return success();
}

// ---- reshape

LogicalResult ReshapeOp::verify() {
  auto in = tensorOf(getInput()), out = cast<RankedTensorType>(getType());
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
  auto in = tensorOf(getInput());
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
  auto in = tensorOf(getInput()), out = cast<RankedTensorType>(getType());
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
  auto in = tensorOf(getInput());
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
  auto in = tensorOf(getInput());
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
  auto first = tensorOf(getInputs().front());
  if (failed(verifyDim(*this, getDim(), first.getRank()))) // concat_c1
    return failure();
  SmallVector<int64_t> shape(first.getShape());
  for (Value value : getInputs().drop_front()) {
    auto type = tensorOf(value);
    bool fits =
        type.getRank() == first.getRank() && type.getElementType() == first.getElementType();
    for (int64_t i = 0; fits && i < type.getRank(); ++i)
      fits = i == int64_t(getDim()) || type.getDimSize(i) == first.getDimSize(i);
    if (!fits) // concat_c2
      return emitOpError() << "operand shapes must be equal except in dim " << getDim() << "; got "
                           << first << " and " << type;
    if (llvm::AddOverflow(shape[getDim()], type.getDimSize(getDim()), shape[getDim()]))
      return emitOpError() << "dim " << getDim() << " overflows 64 bits";
  }
  return verifyResult(*this, first.getElementType(), shape); // concat_c2
}

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 ? OpFoldResult(getInputs().front()) : OpFoldResult();
}

//===- Where elements come from -------------------------------------------===//

shale::ViewPlace ReshapeOp::getViewPlace(unsigned) { return {}; }

bool SliceOp::isViewOf(unsigned) {
  RankedTensorType from = tensorOf(getInput()), to = tensorOf(getResult());
  if (from.getRank() == 0 || from.getShape().drop_front() != to.getShape().drop_front() ||
      getStrides()[0] != 1 || tensorBytes(from) < 0)
    return false;
  return getViewPlace(0).offset % kViewAlignment == 0;
}

shale::ViewPlace SliceOp::getViewPlace(unsigned) {
  RankedTensorType from = tensorOf(getInput());
  int64_t bytes = elementBytes(from.getElementType());
  for (int64_t size : from.getShape().drop_front())
    bytes *= size;
  shale::ViewPlace place;
  place.offset = getStarts()[0] * bytes;
  return place;
}

shale::MovedElements SliceOp::getMovedElements(unsigned) {
  bool whole = tensorOf(getInput()).getNumElements() == tensorOf(getResult()).getNumElements();
  return whole ? shale::MovedElements::All : shale::MovedElements::Some;
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Data.cpp.inc"

void shale::nn::registerDataOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Data.cpp.inc"
      >();
}
