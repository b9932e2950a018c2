//===- State.cpp - State kept between steps -------------------------------===//
#include "dialects/nn/Ops/State.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace shale::nn;

RankedTensorType StateOp::getTensorType() { return cast<RankedTensorType>(getType()); }

bool StateOp::isTrainedParameter() {
  return getRole() == Role::Param && getTrained().value_or(true);
}

LogicalResult StateOp::verify() {
  for (NamedAttribute attribute : (*this)->getDiscardableAttrs()) // state_c5
    if (!attribute.getName().strref().contains('.'))
      return emitOpError() << "has no attribute '" << attribute.getName().strref() << "'";
  Role role = getRole();
  bool moment = role == Role::Moment;
  bool accumulator = role == Role::GradAccumulator;
  if (!moment && !accumulator && role != Role::Param && role != Role::Buffer &&
      role != Role::Running && role != Role::Divided && role != Role::Residual &&
      role != Role::LossScale) // state_c1
    return emitOpError()
           << "role must be param, buffer, running, divided, moment, grad_accumulator, residual or loss_scale; got "
           << stringifyRole(role);
  if (Attribute init = getInitAttr()) { // state_c2
    auto file = dyn_cast<FileAttr>(init);
    auto dense = dyn_cast<DenseElementsAttr>(init);
    if (!file && !isa<FillAttr>(init) && !dense)
      return emitOpError() << "init must be #nn.file, #nn.fill or dense elements; got " << init;
    RankedTensorType type = getTensorType();
    Type element = type.getElementType();
    int64_t bytes = tensorBytes(type);
    if (dense && (dense.getType().getShape() != type.getShape() || bytes > kDenseInitLimit ||
                  isa<FloatType>(element) != isa<FloatType>(dense.getElementType())))
      return emitOpError()
             << "dense init must have the state's shape, floats for floats, and at most "
             << kDenseInitLimit << " bytes; got " << dense.getType();
    if (file) {
      if (file.getType() && !isa<FloatType>(element))
        return emitOpError() << "init has elements of " << file.getType() << " for a state of "
                             << getType();
      if (bytes > 0)
        bytes =
            tensorBytes(type.clone(file.elementTypeFor(element, bytes / elementBytes(element))));
      if (file.getLength() != bytes)
        return emitOpError() << "init has " << file.getLength() << " bytes, the type " << getType()
                             << " needs " << bytes;
    }
    if (file && file.getTransposed() && getTensorType().getRank() != 2)
      return emitOpError() << "only a 2-D state can be transposed in its file; got " << getType();
  }
  if (!accumulator && moment != bool(getOfAttr())) // state_c3
    return emitOpError()
           << "'of' names the parameter of a moment or accumulator, and only of these";
  StringRef slot = getSlot().value_or("");
  bool plain =
      !slot.empty() && llvm::all_of(slot, [](char c) { return llvm::isAlnum(c) || c == '_'; });
  if (moment != bool(getSlotAttr()) ||
      (moment && (!plain || slot == "param" || slot == "loss_scale"))) // state_c4
    return emitOpError()
           << "a moment, and nothing else, has a slot: letters, digits and '_', not 'param' or 'loss_scale'; got '"
           << slot << "'";
  return success();
}

//===- Custom directives of the assembly format ---------------------------===//

namespace shale::nn {
/// `role = param`: the keyword of an enum case, without dialect prefix; a moment names its slot:
/// `moment("momentum")`.
static ParseResult parseStateRole(OpAsmParser &parser, RoleAttr &role, StringAttr &slot) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef keyword;
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<Role> value = symbolizeRole(keyword);
  if (!value)
    return parser.emitError(loc) << "unknown role '" << keyword << "'";
  role = RoleAttr::get(parser.getContext(), *value);
  if (failed(parser.parseOptionalLParen()))
    return success();
  return failure(parser.parseAttribute(slot) || parser.parseRParen());
}

static void printStateRole(OpAsmPrinter &printer, Operation *, RoleAttr role, StringAttr slot) {
  printer << stringifyRole(role.getValue());
  if (slot)
    printer << "(" << slot << ")";
}
} // namespace shale::nn

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/State.cpp.inc"

void shale::nn::registerStateOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/State.cpp.inc"
      >();
}
