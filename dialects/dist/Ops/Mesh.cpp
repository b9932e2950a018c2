//===- Mesh.cpp - The mesh and layouts on it ------------------------------===//
#include "dialects/dist/Dist.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace shale;
using namespace shale::dist;

SmallVector<StringRef> MeshOp::getJointNames() {
  SmallVector<StringRef> names;
  if (getJoint())
    llvm::append_range(names, getJoint()->getAsValueRange<StringAttr>());
  return names;
}

LogicalResult MeshOp::verify() {
  if (getAxes().empty() || getAxes().size() != getSizes().size() ||
      getAxes().size() != getKinds().size())
    return emitOpError("must have at least one axis, and one kind and size per axis"); // mesh_c1
  for (int32_t kind : getKinds())
    if (!symbolizeAxisKind(kind)) // mesh_c1
      return emitOpError("has an axis of unknown kind ") << kind;
  llvm::StringSet<> names;
  int64_t ranks = 1;
  for (auto [axis, size] : llvm::zip(getAxes(), getSizes())) {
    StringRef name = cast<StringAttr>(axis).getValue();
    if (name.contains(kJoin)) // mesh_c4
      return emitOpError("axis '") << name << "' has a '" << kJoin << "' in its name";
    if (name.empty() || !names.insert(name).second) // mesh_c1
      return emitOpError("axis '") << name << "' is empty or named twice";
    if (size < 1 || size > (1 << 20)) // mesh_c2
      return emitOpError("axis '") << name << "' has size " << size << ", expected 1 to 1048576";
    ranks *= size;
    if (ranks > (1 << 20)) // mesh_c2
      return emitOpError("has more than 1048576 ranks");
  }
  for (StringRef joint : getJointNames()) { // mesh_c4
    int64_t last = -1;
    SmallVector<StringRef, 2> members = membersOf(joint);
    for (StringRef member : members) {
      int64_t index = indexOf(member);
      if (index <= last || index >= int64_t(getAxes().size()) || members.size() < 2)
        return emitOpError("joint axis '")
               << joint << "' does not join several axes in the order of the mesh";
      last = index;
    }
    if (!names.insert(joint).second)
      return emitOpError("joint axis '") << joint << "' is named twice";
  }
  if (getMesh(getOperation()) != *this) // mesh_c3
    return emitOpError("is the second mesh of its module");
  return success();
}

SmallVector<StringRef, 2> MeshOp::membersOf(StringRef axis) {
  SmallVector<StringRef, 2> members;
  axis.split(members, kJoin);
  return members;
}

StringAttr MeshOp::without(StringAttr axis, ArrayRef<StringRef> members) {
  SmallVector<StringRef, 2> left;
  if (axis)
    left = membersOf(axis);
  llvm::erase_if(left, [&](StringRef member) { return llvm::is_contained(members, member); });
  return left.empty() ? StringAttr() : StringAttr::get(axis.getContext(), llvm::join(left, kJoin));
}

StringRef MeshOp::join(ArrayRef<StringRef> members) {
  auto name = StringAttr::get(getContext(), llvm::join(members, kJoin));
  SmallVector<Attribute> joint;
  if (getJoint())
    joint.append(getJoint()->begin(), getJoint()->end());
  if (!llvm::is_contained(joint, name)) {
    joint.push_back(name);
    setJointAttr(ArrayAttr::get(getContext(), joint));
  }
  return name.getValue();
}

int64_t MeshOp::indexOf(StringRef axis) {
  SmallVector<StringRef> names(getAxes().getAsValueRange<StringAttr>());
  llvm::append_range(names, getJointNames());
  auto *found = llvm::find(names, axis);
  return found == names.end() ? -1 : found - names.begin();
}

int64_t MeshOp::getSize(StringRef axis) {
  int64_t index = indexOf(axis), size = 1;
  if (index < 0)
    return 0;
  int64_t mostAxes = getSizes().size();
  for (StringRef member : membersOf(axis)) {
    int64_t place = indexOf(member);
    if (place < 0 || place >= mostAxes)
      return 0; // of IR that is not verified yet
    size *= getSizes()[place];
  }
  return size;
}

bool MeshOp::splits(StringRef axis) {
  int64_t least = (*this)->getParentOp()->hasAttr(kKeepSingleRankAttr) ? 1 : 2;
  return getSize(axis) >= least;
}

int64_t MeshOp::getRankCount() {
  int64_t ranks = 1;
  for (int64_t size : getSizes())
    ranks *= size;
  return ranks;
}

int64_t MeshOp::getCoordinate(int64_t rank, StringRef axis) {
  SmallVector<StringRef, 2> members = membersOf(axis);
  int64_t coordinate = 0, stride = 1;
  for (int64_t i = getSizes().size() - 1; i >= 0; --i) {
    if (llvm::is_contained(members, cast<StringAttr>(getAxes()[i]).getValue())) {
      coordinate += rank % getSizes()[i] * stride;
      stride *= getSizes()[i];
    }
    rank /= getSizes()[i];
  }
  return coordinate;
}

AxisRole dist::rolesOf(AxisKind kind) {
  switch (kind) {
  case AxisKind::Replica:
    return AxisRole::Batch | AxisRole::Replicate;
  case AxisKind::Shard:
    return AxisRole::Batch | AxisRole::State;
  case AxisKind::Tensor:
    return AxisRole::Values;
  case AxisKind::Expert:
    return AxisRole::Batch | AxisRole::State | AxisRole::Experts;
  }
  llvm_unreachable("unknown kind of axis");
}

AxisRole MeshOp::getRoles(StringRef axis) {
  if (getSize(axis) == 0)
    return AxisRole();
  auto roles = AxisRole(~0u); // those that all members have
  for (StringRef member : membersOf(axis))
    roles = roles & rolesOf(AxisKind(getKinds()[indexOf(member)]));
  return roles;
}

SmallVector<StringRef> MeshOp::getAxesThat(RolesPredicate holds) {
  SmallVector<StringRef> axes;
  for (auto [name, kind] : llvm::zip(getAxes(), getKinds()))
    if (holds(rolesOf(AxisKind(kind))))
      axes.push_back(cast<StringAttr>(name).getValue());
  return axes;
}

int64_t MeshOp::getRanksThat(RolesPredicate holds) {
  int64_t ranks = 1;
  for (StringRef axis : getAxesThat(holds))
    ranks *= getSize(axis);
  return ranks;
}

LogicalResult ConstrainOp::verify() {
  if (!getSharding().getPartial().empty()) // constrain_c3
    return emitOpError("cannot make a value partial");
  return getSharding().verifyFits(*this, getInput().getType()); // constrain_c1, constrain_c2
}

/// The gradient has the layout of the value.
LogicalResult ConstrainOp::buildGradient(OpBuilder &builder, ArrayRef<Value> resultGrads,
                                         ArrayRef<bool> wanted,
                                         SmallVectorImpl<Value> &operandGrads) {
  if (resultGrads[0] && wanted[0])
    operandGrads[0] = ConstrainOp::create(builder, getLoc(), resultGrads[0], getSharding());
  return success();
}

ShardingRule ConstrainOp::getShardingRule() {
  ShardingRule rule;
  TensorFactors dims;
  for (int64_t size : cast<RankedTensorType>(getInput().getType()).getShape()) {
    dims.emplace_back().push_back(rule.factors.size());
    rule.factors.push_back({size, FactorKind::Parallel});
  }
  rule.operands = {dims};
  rule.results = {dims};
  rule.linear = {0};
  rule.additive = true;
  return rule;
}

LogicalResult CoordinateOp::verify() {
  MeshOp mesh = getMesh(getOperation());
  if (mesh && mesh.getSize(getAxis()) == 0) // coordinate_c1
    return emitOpError("the mesh has no axis '") << getAxis() << "'";
  return success();
}

bool ConstrainOp::movesOnly() { return true; }
