//===- Optimizer.cpp - Parameter updates ----------------------------------===//
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/Rounding.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

/// Checks how an update rounds new parameters.
static LogicalResult verifyRounding(RoundedUpdateOpInterface op) {
  size_t count = op.getRoundingOperands().size();
  Type element = cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  if (count != 0 && count != 2) // adamw_c3, assign_c3
    return op->emitOpError() << "is rounded by a seed and a step; got " << count << " operands";
  if (count != 0 && !element.isBF16())
    return op->emitOpError() << "rounds a parameter of bf16 stochastically; got " << element;
  auto update = cast<OptimizerUpdateOpInterface>(op.getOperation());
  ArrayAttr segments = update.getGroupSegments();
  ArrayRef<int64_t> numbers = op.getRoundedNumbers();
  if (!numbers.empty()) { // adamw_c4, assign_c4
    if (count == 0)
      return op->emitOpError() << "'numbers' are for stochastic rounding only";
    if (size_t expected = segments ? segments.size() : 1; numbers.size() != expected)
      return op->emitOpError() << "needs " << expected << " numbers; got " << numbers.size();
    for (int64_t number : numbers)
      if (number < 0 || number > kMostRounded || number % kRoundedTogether != 0)
        return op->emitOpError() << "numbers must be multiples of " << kRoundedTogether
                                 << " from 0 to 2^48; got " << number;
  }
  if (count != 0 && segments) // adamw_c5, assign_c5
    for (auto segment : segments.getAsRange<UpdateRangeAttr>())
      if (segment.getOffset() % kRoundedTogether != 0)
        return op->emitOpError() << "segments must begin at multiples of " << kRoundedTogether
                                 << " to be rounded stochastically; got " << segment;
  return success();
}

LogicalResult shale::nn::verifyRanges(Operation *op) { // c1, c2 of NN_UpdatesRanges
  if (failed(verifyRounding(cast<RoundedUpdateOpInterface>(op))))
    return failure();
  auto update = cast<OptimizerUpdateOpInterface>(op);
  ArrayAttr segments = update.getGroupSegments();
  Value offset = update.getGroupOffset();
  if (!segments) {
    if (offset)
      return op->emitOpError() << "'offset' needs 'segments'";
    return success();
  }
  if (update.getUpdateFactors())
    return op->emitOpError() << "'factors' are those of 'segments'";
  auto type = cast<RankedTensorType>(update.getParameterOperand().get().getType());
  if (type.getRank() != 1)
    return op->emitOpError() << "'segments' needs 1-D operands; got " << type;
  int64_t end = 0;
  for (auto segment : segments.getAsRange<UpdateRangeAttr>()) {
    if (segment.getOffset() < end || segment.getCount() < 0 ||
        segment.getCount() > INT64_MAX - segment.getOffset())
      return op->emitOpError() << "segments must ascend and not overlap; " << segment
                               << " begins before " << end;
    end = segment.getOffset() + segment.getCount();
  }
  if (!offset && end > type.getNumElements())
    return op->emitOpError() << "segments end at " << end << ", beyond " << type;
  return success();
}

ArrayAttr shale::nn::updateRanges(Builder &builder, const GroupUpdate &group) {
  SmallVector<Attribute> ranges;
  for (const GroupUpdate::Segment &segment : group.segments)
    ranges.push_back(UpdateRangeAttr::get(builder.getContext(), segment.offset,
                                          ShapedType::getNumElements(segment.shape),
                                          segment.factors));
  return builder.getArrayAttr(ranges);
}

LogicalResult shale::nn::verifyOneParameter(Operation *op) { // c1 of NN_UpdatesOneParameter
  auto update = cast<OptimizerUpdateOpInterface>(op);
  if (update.getGroupOffset() || update.getGroupSegments())
    return op->emitOpError() << "updates one parameter: it takes no 'offset' and no 'segments'";
  return verifyRounding(cast<RoundedUpdateOpInterface>(op));
}

SmallVector<Value> AssignOp::emitUpdate(const UpdateElement &at) {
  return {Adaptor(at.operands, *this).getGrad()};
}

LogicalResult AdafactorOp::verify() {
  auto param = cast<RankedTensorType>(getParam().getType());
  auto moment = cast<RankedTensorType>(getMoment().getType());
  if (tensorBytes(param) < 0)
    return emitOpError() << "cannot update " << param << ": it is too large";
  // In a partitioned module the parameter may be a part, whose moment is that of the whole.
  auto module = (*this)->getParentOfType<ModuleOp>();
  bool isPart = module && module->hasAttr(dist::kPartitionedAttr);
  int64_t least =
      param.getRank() < 2 ? param.getNumElements() : Factors::of(param.getShape()).size();
  if (isPart && moment.getRank() == 1 && moment.getNumElements() >= least)
    return success();
  if (param.getRank() < 2 && moment.getShape() != param.getShape()) // adafactor_c2
    return emitOpError() << "the moment must have the shape of " << param << "; got " << moment;
  if (param.getRank() >= 2 && moment.getShape() != ArrayRef(Factors::of(param.getShape()).size()))
    return emitOpError() << "the moment of " << param << " must be 1-D with "
                         << Factors::of(param.getShape()).size() << " elements; got " << moment;
  return success();
}

//===- Gradients ----------------------------------------------------------===//

LogicalResult SumSquaresOp::verify() {
  if (getInputs().empty()) // sum_squares_c1
    return emitOpError() << "needs at least one operand";
  for (Type type : getInputs().getTypes())
    if (Type element = cast<RankedTensorType>(type).getElementType();
        element != getType().getElementType() &&
        shale::accumulatorType(element) != getType().getElementType())
      return emitOpError() << "operands must have the result's element type; got " << type;
  return success();
}

int64_t SumSquaresOp::getFlops() {
  int64_t flops = 0;
  for (Type type : getInputs().getTypes())
    flops += 2 * cast<RankedTensorType>(type).getNumElements();
  return flops;
}

LogicalResult AccumulateOp::verify() {
  if (getInto() && getInto().getType() != getType()) // accumulate_c1
    return emitOpError() << "'into' must have the type of the gradient, " << getType() << "; got "
                         << getInto().getType();
  return success();
}

//===- Custom directives of the assembly format ---------------------------===//

namespace shale::nn {
/// Parses the types of an update: the parameter's, then those of gradient and state
/// if they differ (`tensor<8xf32> grad tensor<8xbf16> state tensor<8xbf16>`).
static ParseResult parseUpdateTypes(OpAsmParser &parser, Type &param, Type &grad, Type &state) {
  if (parser.parseType(param))
    return failure();
  grad = state = param;
  if (succeeded(parser.parseOptionalKeyword("grad")) && parser.parseType(grad))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("state")) && parser.parseType(state))
    return failure();
  return success();
}

static void printUpdateTypes(OpAsmPrinter &printer, Operation *, Type param, Type grad,
                             Type state) {
  printer << param;
  if (grad != param)
    printer << " grad " << grad;
  if (state != param)
    printer << " state " << state;
}
} // namespace shale::nn

//===- Generated definitions ----------------------------------------------===//

#include "dialects/nn/RoundedUpdate.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Optimizer.cpp.inc"

void shale::nn::registerOptimizerOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Optimizer.cpp.inc"
      >();
}
