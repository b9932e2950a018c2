//===- State.cpp - What lasts between steps -------------------------------===//
#include "dialects/nn/NN.h"

using namespace mlir;
using namespace shale::nn;

RankedTensorType StateOp::getTensorType() {
  return cast<RankedTensorType>(getType());
}

bool StateOp::isTrainedParameter() {
  return getRole() == Role::Param && getTrained().value_or(true);
}

LogicalResult StateOp::verify() {
  Role role = getRole();
  bool moment = role == Role::Moment1 || role == Role::Moment2 || role == Role::Momentum;
  bool accumulator = role == Role::GradAccumulator;
  if (!moment && !accumulator && role != Role::Param && role != Role::Buffer && role != Role::LossScale) // state_c1
    return emitOpError() << "role must be param, buffer, moment1, moment2, momentum, grad_accumulator or loss_scale; got "
                         << stringifyRole(role);
  if (Attribute init = getInitAttr()) { // state_c2
    auto file = dyn_cast<FileAttr>(init);
    auto dense = dyn_cast<DenseElementsAttr>(init);
    if (!file && !isa<FillAttr>(init) && !dense)
      return emitOpError() << "init must be #nn.file, #nn.fill or dense elements; got " << init;
    int64_t bytes = tensorBytes(getTensorType());
    if (dense) {
      Type own = getTensorType().getElementType(), given = dense.getElementType();
      if (dense.getType().getShape() != getTensorType().getShape() || !(given == own || (given.isF32() && isHalf(own))) ||
          bytes > kDenseInitLimit)
        return emitOpError() << "dense init must have the state's type, or its shape in f32 for a half type, and at most "
                             << kDenseInitLimit << " bytes; got " << dense.getType();
    }
    bool widerFile = isHalf(getTensorType().getElementType()) && file && file.getLength() == 2 * bytes;
    if (file && file.getLength() != bytes && !widerFile)
      return emitOpError() << "init has " << file.getLength() << " bytes, the type "
                           << getType() << " needs " << bytes;
    if (file && file.getTransposed() && getTensorType().getRank() != 2)
      return emitOpError() << "only a 2-D state can be transposed in its file; got " << getType();
  }
  if (!accumulator && moment != bool(getOfAttr())) // state_c3
    return emitOpError() << "'of' names the parameter of a moment, momentum or accumulator, and only of these";
  return success();
}
