//===- Unit.cpp - Units of parameters -------------------------------------===//
#include "dialects/dist/Runs.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::dist;

//===- Unit ---------------------------------------------------------------===//

/// Segments of parameters begin at multiples of this many bytes, so that a parameter of a
/// gathered unit is aligned for vector loads.
static LogicalResult verifySegments(UnitOp unit, GroupAttr group, llvm::StringSet<> &params) {
  if (!group.getType().isIntOrFloat())
    return unit.emitOpError("group '")
           << group.getName().getValue() << "' must store integers or floats";
  int64_t bytes = (group.getType().getIntOrFloatBitWidth() + 7) / 8;
  int64_t end = 0;
  for (Attribute entry : group.getSegments()) {
    auto segment = dyn_cast<SegmentAttr>(entry);
    if (!segment)
      return unit.emitOpError("segments of a group must be dist.segment");
    StringRef param = segment.getParam().getValue();
    int64_t count = segment.getCount(), offset = segment.getOffset(), stop;
    if (count < 0 || offset < end || llvm::AddOverflow(offset, count, stop) ||
        stop > group.getCount() ||
        (!group.getSlot() && offset * bytes % kSegmentAlignment != 0)) // unit_c3
      return unit.emitOpError("segment '")
             << param << "' must begin after the one before it, at a multiple of "
             << kSegmentAlignment << " bytes, and end within the group";
    if (!params.insert(param).second) // unit_c4
      return unit.emitOpError("parameter '") << param << "' is in two segments";
    end = stop;
  }
  return success();
}

LogicalResult UnitOp::verify() {
  llvm::StringSet<> params, names;
  for (Attribute entry : getGroups()) {
    auto group = cast<GroupAttr>(entry);
    if (!names.insert(group.getName().getValue()).second) // unit_c4
      return emitOpError("has two groups '") << group.getName().getValue() << "'";
    llvm::StringSet<> own; // of a group of optimizer state
    if (failed(verifySegments(*this, group, group.getSlot() ? own : params)))
      return failure();
  }
  return success();
}

LogicalResult UnitOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto mesh = symbols.lookupNearestSymbolFrom<MeshOp>(*this, getMeshAttr());
  if (!mesh) // unit_c1
    return emitOpError("there is no mesh ") << getMeshAttr();
  if (getAxis() && mesh.getSize(*getAxis()) == 0) // unit_c1
    return emitOpError("the mesh has no axis '") << *getAxis() << "'";
  SmallVector<StringRef, 2> members;
  if (getAxis())
    members = MeshOp::membersOf(*getAxis());
  for (Attribute entry : getGroups()) {
    auto group = cast<GroupAttr>(entry);
    for (Attribute axis : group.getAxes()) {
      auto name = dyn_cast<StringAttr>(axis);
      if (!name || mesh.getSize(name) == 0 ||
          (llvm::is_contained(members, name.getValue()) && !mesh.splitsExperts(name))) // unit_c5
        return emitOpError("group '") << group.getName().getValue() << "' names " << axis
                                      << ", which is not another axis of the mesh";
    }
    StringAttr storage = getAxisOf(group);
    int64_t size = storage ? mesh.getSize(storage) : 1;
    if (size == 0) // unit_c5
      return emitOpError("group '") << group.getName().getValue() << "' is stored over '"
                                    << storage.getValue() << "', which is not an axis of the mesh";
    if (group.getCount() < 0 || group.getCount() % size != 0) // unit_c2
      return emitOpError("group '") << group.getName().getValue() << "' has " << group.getCount()
                                    << " elements, not a multiple of the axis' size " << size;
  }
  return success();
}

GroupAttr UnitOp::getGroup(int64_t index) {
  if (index < 0 || index >= static_cast<int64_t>(getGroups().size()))
    return {};
  return cast<GroupAttr>(getGroups()[index]);
}

StringAttr UnitOp::getAxisOf(GroupAttr group) {
  SmallVector<StringRef> used(group.getAxes().getAsValueRange<StringAttr>());
  return MeshOp::without(getAxisAttr(), used);
}

//===- Users of units -----------------------------------------------------===//

/// Returns the group that `op` names, or null after an error; `unit` is set.
template <typename OpT>
static GroupAttr lookupGroup(OpT op, SymbolTableCollection &symbols, UnitOp &unit) {
  unit = symbols.lookupNearestSymbolFrom<UnitOp>(op, op.getUnitAttr());
  GroupAttr group = unit ? unit.getGroup(op.getGroup()) : GroupAttr();
  if (!group) // unit_gather_c1, unit_view_c1, unit_pack_c1
    op.emitOpError("there is no unit ") << op.getUnitAttr() << " with a group " << op.getGroup();
  return group;
}

static bool isFlat(Type type, int64_t count, Type element) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 1 && tensor.getDimSize(0) == count &&
         tensor.getElementType() == element;
}

LogicalResult UnitGatherOp::verifySymbolUses(SymbolTableCollection &symbols) {
  UnitOp unit;
  GroupAttr group = lookupGroup(*this, symbols, unit);
  if (!group)
    return failure();
  if (unit.getAxisOf(group) != getAxisAttr()) // unit_gather_c1
    return emitOpError("gathers over '")
           << getAxis() << "', which is not the axis of unit " << getUnitAttr();
  int64_t size = getAxisSize(*this, getAxis());
  int64_t slice = size == 0 ? 0 : group.getCount() / size;
  EncodedBlock block = getEncoding() ? blockOf(*getEncoding()) : EncodedBlock{1, 1};
  if (getEncoding() && (slice % block.elements != 0 || !isa<FloatType>(group.getType())))
    return emitOpError("gathers ") // unit_gather_c3
           << slice << " elements of " << group.getType() << ", which are not floats in blocks of "
           << block.elements;
  auto words = [&](int64_t count) { return count / block.elements * block.words; };
  Type word = IntegerType::get(getContext(), 32);
  if (getEncoding() && isFlat(getInput().getType(), words(slice), word) &&
      isFlat(getResult().getType(), words(group.getCount()), word))
    return success();
  if (size == 0 ||
      (!isFlat(getInput().getType(), group.getCount() / size, group.getType()) &&
       !isFlat(getInput().getType(), group.getCount() / size, group.getWire())) ||
      !isFlat(getResult().getType(), group.getCount(), group.getWire())) // unit_gather_c2
    return emitOpError("expected ")
           << group.getCount() << " elements of " << group.getWire() << " from shards of "
           << group.getType() << " over " << size << " ranks";
  return success();
}

bool UnitGatherOp::gathersWords() {
  return getEncodingAttr() &&
         cast<RankedTensorType>(getResult().getType()).getElementType().isInteger();
}

Attribute UnitGatherOp::getSentEncoding() {
  return gathersWords() ? getEncodingAttr() : EncodingAttr();
}
StringRef UnitGatherOp::getCollectiveAxis() { return getAxis(); }
CollectiveKind UnitGatherOp::getCollectiveKind() { return CollectiveKind::AllGather; }

ViewPlace UnitViewOp::getViewPlace(unsigned) {
  auto unit = SymbolTable::lookupNearestSymbolFrom<UnitOp>(*this, getUnitAttr());
  SegmentAttr segment = unit.getGroup(getGroup()).getSegment(getParam());
  int64_t bits = cast<RankedTensorType>(getInput().getType()).getElementTypeBitWidth();
  return ViewPlace{0, segment.getOffset() * static_cast<int64_t>(llvm::divideCeil(bits, 8))};
}

LogicalResult UnitViewOp::verifySymbolUses(SymbolTableCollection &symbols) {
  UnitOp unit;
  GroupAttr group = lookupGroup(*this, symbols, unit);
  if (!group)
    return failure();
  SegmentAttr segment = group.getSegment(getParam());
  if (!segment) // unit_view_c1
    return emitOpError("the group has no parameter ") << getParamAttr();
  Type element = cast<RankedTensorType>(getInput().getType()).getElementType();
  auto result = cast<RankedTensorType>(getResult().getType());
  if (!isFlat(getInput().getType(), group.getCount(), element) ||
      (element != group.getType() && element != group.getWire()) ||
      result.getElementType() != element ||
      findRun(group, getParam(), result.getShape()).empty()) // unit_view_c2
    return emitOpError("types do not fit segment ") << segment;
  return success();
}

LogicalResult UnitPackOp::verifySymbolUses(SymbolTableCollection &symbols) {
  UnitOp unit;
  GroupAttr group = lookupGroup(*this, symbols, unit);
  if (!group)
    return failure();
  Type element = cast<RankedTensorType>(getResult().getType()).getElementType();
  if (element != accumulatorType(group.getReduce()))
    element = group.getReduce();
  if (getParams().size() != getInputs().size() ||
      !isFlat(getResult().getType(), group.getCount(), element)) // unit_pack_c2
    return emitOpError("expected one operand per name and a result of ")
           << group.getCount() << " elements of " << group.getReduce();
  llvm::StringSet<> seen;
  for (auto [param, input] : llvm::zip(getParams(), getInputs())) {
    StringRef name = cast<FlatSymbolRefAttr>(param).getValue();
    SegmentAttr segment = group.getSegment(name);
    if (!segment || !seen.insert(name).second) // unit_pack_c1
      return emitOpError("the group has no parameter '") << name << "', or it is named twice";
    auto type = cast<RankedTensorType>(input.getType());
    SmallVector<SegmentAttr, 3> run = findRun(group, name, type.getShape());
    if (run.empty() || type.getElementType() != element) // unit_pack_c2
      return emitOpError("type ") << type << " does not fit segment " << segment;
    for (SegmentAttr covered : ArrayRef(run).drop_front())
      if (!seen.insert(covered.getParam().getValue()).second) // unit_pack_c1
        return emitOpError("the operand of '") << name << "' also has " << covered.getParam();
  }
  return success();
}
