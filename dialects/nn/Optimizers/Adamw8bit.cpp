//===- Adamw8bit.cpp - AdamW with 8-bit moments ---------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/Blocks.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

static constexpr llvm::StringLiteral slots[] = {"moment1_8bit", "moment2_8bit"};

/// The words of a parameter's state: those of its blocks.
static SmallVector<int64_t> blockShape(ArrayRef<int64_t> param) {
  int64_t count = ShapedType::getNumElements(param);
  return {int64_t(llvm::divideCeil(count, kMomentBlock)) * kBlockWords};
}

const Optimizer &Adamw8bitOp::getOptimizer() {
  static const Optimizer optimizer{"adamw8bit", slots,        AdamwOp::getOptimizer().hypers,
                                   blockShape,  kMomentBlock, /*integerState=*/true};
  return optimizer;
}

LogicalResult Adamw8bitOp::verify() {
  int64_t count = elements(getParam()), block = getOptimizer().stateBlock; // adamw8bit_c3
  if (tensorBytes(cast<RankedTensorType>(getParam().getType())) < 0)
    return emitOpError() << "cannot update " << getParam().getType() << ": it is too large";
  SmallVector<int64_t> shape = getOptimizer().stateShape({count});
  if (cast<RankedTensorType>(getMoment1().getType()).getShape() != ArrayRef(shape))
    return emitOpError() << "the state of " << getParam().getType() << " must be 1-D with "
                         << shape.front() << " words; got " << getMoment1().getType();
  if (ArrayAttr segments = getSegmentsAttr())
    for (auto segment : segments.getAsRange<UpdateRangeAttr>())
      if (segment.getOffset() % block != 0 || count % block != 0)
        return emitOpError() << "segments and slices must begin at multiples of " << block
                             << " elements; got " << segment << " in " << getParam().getType();
  return success();
}

SmallVector<Value> Adamw8bitOp::buildGroupUpdate(OpBuilder &builder, const GroupUpdate &group) {
  Adaptor in(group.operands, *this);
  OperationState state(
      group.loc, getOperationName(), group.operands,
      {in.getParam().getType(), in.getMoment1().getType(), in.getMoment2().getType()},
      (*this)->getAttrs());
  state.propertiesAttr = (*this)->getPropertiesAsAttribute();
  auto made = cast<Adamw8bitOp>(builder.create(state));
  made.setSegments(group.offset, updateRanges(builder, group));
  return SmallVector<Value>(made->getResults());
}

//===- Codes --------------------------------------------------------------===//

/// The bits of f32 1, of which a code's magnitude is the distance in steps of 2^20: three bits of
/// the significand.
static constexpr int64_t kOne = 0x3F800000, kStep = 20;

static int64_t highest(Moment moment) { return moment == Moment::First ? 127 : 255; }

namespace {
/// Integer arithmetic on scalars or vectors.
struct Bits {
  OpBuilder &b;
  Location loc;
  Value like; ///< an i32

  Value number(int64_t value) {
    Attribute attr = b.getI32IntegerAttr(static_cast<int32_t>(value));
    if (auto wide = dyn_cast<VectorType>(like.getType()))
      attr = DenseElementsAttr::get(wide, attr);
    return arith::ConstantOp::create(b, loc, cast<TypedAttr>(attr));
  }
  template <typename Op> Value make(Value x, int64_t y) { return Op::create(b, loc, x, number(y)); }
  Value compare(arith::CmpIPredicate predicate, Value x, int64_t y) {
    return arith::CmpIOp::create(b, loc, predicate, x, number(y));
  }
  Value select(Value condition, Value yes, Value no) {
    return arith::SelectOp::create(b, loc, condition, yes, no);
  }
};
} // namespace

Value shale::nn::emitDecoded(OpBuilder &b, Location loc, Moment moment, Value word, int64_t number,
                             Value scale) {
  Bits bits{b, loc, word};
  Value code = bits.make<arith::AndIOp>(bits.make<arith::ShRUIOp>(word, 8 * number), 255);
  Value magnitude = bits.make<arith::AndIOp>(code, highest(moment));
  Value value = bits.make<arith::AddIOp>(bits.make<arith::ShLIOp>(magnitude, kStep),
                                         kOne - (highest(moment) << kStep));
  value = bits.select(bits.compare(arith::CmpIPredicate::eq, magnitude, 0), bits.number(0), value);
  if (moment == Moment::First) {
    Value sign = bits.make<arith::ShLIOp>(bits.make<arith::AndIOp>(code, 128), 24);
    value = arith::OrIOp::create(b, loc, value, sign);
  }
  Value real = arith::BitcastOp::create(b, loc, likeShape(value, b.getF32Type()), value);
  return arith::MulFOp::create(b, loc, real, scale);
}

Value shale::nn::emitCode(OpBuilder &b, Location loc, Moment moment, Value value, int64_t number,
                          Value scale) {
  Type integer = likeShape(value, b.getI32Type());
  Value raw = arith::BitcastOp::create(b, loc, integer, value);
  Bits bits{b, loc, raw};
  Value zero = constantLike(b, loc, value.getType(), 0),
        one = constantLike(b, loc, value.getType(), 1);
  Value some = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, scale, zero);
  Value safe = bits.select(some, scale, one);
  Value size =
      arith::BitcastOp::create(b, loc, value.getType(), bits.make<arith::AndIOp>(raw, INT32_MAX));
  Value ratio =
      arith::BitcastOp::create(b, loc, integer, arith::DivFOp::create(b, loc, size, safe));
  // A half of the step is added, and the rest dropped.
  Value rounded = bits.make<arith::AddIOp>(ratio, int64_t(1) << (kStep - 1));
  Value code = bits.make<arith::SubIOp>(bits.make<arith::ShRUIOp>(rounded, kStep),
                                        (kOne >> kStep) - highest(moment));
  code = bits.make<arith::MinSIOp>(bits.make<arith::MaxSIOp>(code, 0), highest(moment));
  if (moment == Moment::First) {
    // Machines differ in the sign of a NaN.
    Value isNumber = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::ORD, value, value);
    Value sign = bits.make<arith::AndIOp>(bits.make<arith::ShRUIOp>(raw, 24), 128);
    code = arith::OrIOp::create(b, loc, code, bits.select(isNumber, sign, bits.number(0)));
  } else {
    Value positive = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, value, zero);
    code = bits.select(positive, bits.make<arith::MaxSIOp>(code, 1), code);
  }
  return bits.make<arith::ShLIOp>(code, 8 * number);
}
