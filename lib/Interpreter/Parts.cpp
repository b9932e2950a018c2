//===- Parts.cpp - Values that are parts of others ------------------------===//
#include "dialects/nn/Ops/State.h"
#include "lib/Interpreter/Program.h"
#include <algorithm>

using namespace mlir;

namespace shale::interp {

std::optional<ValuePart> ValuePart::of(nn::StateOp state) {
  nn::StateOp param = state && state.getOf() ? nn::getState(state, state.getOfAttr()) : state;
  auto attr = param ? param->getAttrOfType<nn::PartAttr>(nn::kPartAttr) : nn::PartAttr();
  nn::StateOp whole = attr ? nn::getState(param, attr.getWhole()) : nn::StateOp();
  if (!whole || state.getTensorType().getShape() != param.getTensorType().getShape())
    return std::nullopt;
  ValuePart part;
  part.whole = whole.getSymName().str();
  if (state != param)
    part.whole += "." + state.getSlot().value_or(nn::stringifyRole(state.getRole())).str();
  part.shape.assign(whole.getTensorType().getShape());
  part.dim = attr.getDim();
  part.begin = attr.getBegin();
  part.padding = attr.getPadding();
  ArrayRef<int64_t> own = state.getTensorType().getShape();
  if (part.dim < 0 || part.dim >= int64_t(own.size()) || own.size() != part.shape.size())
    return std::nullopt;
  part.size = own[part.dim];
  int64_t taken = part.size - part.padding;
  if (part.begin < 0 || part.padding < 0 || taken < 0 || part.begin > part.shape[part.dim] - taken)
    return std::nullopt;
  return part;
}

std::pair<int64_t, int64_t> ValuePart::layout() const {
  int64_t outer = 1, inner = 1;
  for (int64_t n : ArrayRef(shape).take_front(dim))
    outer *= n;
  for (int64_t n : ArrayRef(shape).drop_front(dim + 1))
    inner *= n;
  return {outer, inner};
}

Tensor ValuePart::take(const Tensor &all) const {
  SmallVector<int64_t> own(shape);
  own[dim] = size;
  Tensor value(all.element(), own);
  value.fill(0);
  auto [outer, inner] = layout();
  for (int64_t o = 0; o < outer; ++o)
    std::copy_n(all.cells() + (o * shape[dim] + begin) * inner, (size - padding) * inner,
                value.mutableCells() + o * size * inner);
  return value;
}

bool ValuePart::put(const Tensor &value, Tensor &all) const {
  auto [outer, inner] = layout();
  for (int64_t o = 0; o < outer; ++o) {
    int64_t from = o * size * inner, end = from + (size - padding) * inner;
    std::copy(value.cells() + from, value.cells() + end,
              all.mutableCells() + (o * shape[dim] + begin) * inner);
    for (int64_t i = end; i < from + size * inner; ++i)
      if (value.number(i) != 0)
        return false;
  }
  return true;
}

void ValueSpec::describe(nn::StateOp state) {
  role = state.getRole();
  init = state.getInitAttr();
  part = ValuePart::of(state);
  auto attr = state->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
  if (nn::StateOp whole = part && attr ? nn::getState(state, attr.getWhole()) : nn::StateOp())
    init = whole.getInitAttr();
}

LogicalResult LogicalValues::set(StringRef name, const std::optional<ValuePart> &part, Tensor value,
                                 Operation *op) {
  if (!part) {
    set(name, std::move(value));
    return success();
  }
  auto [at, inserted] = tensors.try_emplace(part->whole);
  if (inserted) {
    at->second = Tensor(value.element(), part->shape);
    at->second.fill(0);
  }
  if (!part->put(value, at->second))
    return op->emitError("'") << name << "' has padding that is not 0";
  return success();
}

std::optional<Tensor> LogicalValues::find(StringRef name,
                                          const std::optional<ValuePart> &part) const {
  const Tensor *known = find(part ? StringRef(part->whole) : name);
  if (!known)
    return std::nullopt;
  return part ? part->take(*known) : *known;
}

} // namespace shale::interp
