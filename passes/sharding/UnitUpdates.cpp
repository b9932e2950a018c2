//===- UnitUpdates.cpp - Updates of flat groups ---------------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "passes/sharding/Reshard.h"
#include "passes/sharding/UnitRewriter.h"

using namespace mlir;

namespace shale {

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

static Value sliceOf(OpBuilder &builder, Location loc, Value value, int64_t dim, int64_t begin,
                     int64_t end) {
  RankedTensorType type = typeOf(value);
  SmallVector<int64_t> shape(type.getShape()), starts(shape.size()), limits(shape),
      strides(shape.size(), 1);
  starts[dim] = begin, limits[dim] = end, shape[dim] = end - begin;
  return nn::SliceOp::create(builder, loc, type.clone(shape), value, starts, limits, strides);
}

/// Adds up 1-D values of which each rank has the part of its slice, and of what tensor axes leave
/// of the parameters, in one all-reduce for each axis.
SmallVector<Value> UnitRewriter::sumOverSlices(Group &group, ValueRange parts) {
  AxisList axes;
  if (group.updateAxis())
    axes.push_back(group.updateAxis());
  for (auto axis : group.attr.getAxes().getAsRange<StringAttr>())
    axes.push_back(axis.getValue());
  if (axes.empty())
    return parts;
  Location loc = group.unit.getLoc();
  int64_t count = 0;
  for (Value part : parts)
    count += typeOf(part).getNumElements();
  Value joined = parts.front();
  if (parts.size() > 1)
    joined = nn::ConcatOp::create(builder, loc, typeOf(joined).clone({count}), parts, 0);
  for (StringRef axis : axes)
    joined = dist::AllReduceOp::create(builder, loc, dist::Reduction::Sum, joined, axis);
  if (parts.size() == 1)
    return {joined};
  SmallVector<Value> sums;
  int64_t begin = 0;
  for (Value part : parts) {
    int64_t end = begin + typeOf(part).getNumElements();
    sums.push_back(sliceOf(builder, loc, joined, 0, begin, end));
    begin = end;
  }
  return sums;
}

//===- Whole parameters ---------------------------------------------------===//

/// Returns what tensor axes split of a parameter.
static Layout layoutOf(nn::StateOp param) {
  auto sharding = param->getAttrOfType<dist::ShardingAttr>(dist::kShardingAttr);
  return sharding ? Layout::from(sharding) : Layout::replicated(param.getTensorType().getRank());
}

/// Returns the parameters of a group by the one that they are parts of. A parameter that is not
/// divided is a list of its own. Fails after an error if the group lacks a part.
static FailureOr<SmallVector<SmallVector<int64_t>>> wholesOf(const Group &group) {
  SmallVector<SmallVector<int64_t>> wholes;
  llvm::MapVector<StringRef, std::pair<size_t, int64_t>> divided; // its list; indices found
  for (auto [place, param] : llvm::enumerate(group.params)) {
    nn::StateOp state = param;
    auto part = state->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
    if (!part) {
      wholes.push_back({int64_t(place)});
      continue;
    }
    auto [it, isNew] = divided.try_emplace(part.getWhole().getValue(), wholes.size(), 0);
    if (isNew)
      wholes.emplace_back();
    auto &[list, found] = it->second;
    wholes[list].push_back(place);
    // Parts are in order: they were made so.
    if (part.getBegin() == found && part.getPadding() == 0)
      found += state.getTensorType().getDimSize(part.getDim());
  }
  for (auto &[name, list] : divided) {
    nn::StateOp first = group.params[wholes[list.first].front()];
    nn::StateOp whole = nn::getState(first, FlatSymbolRefAttr::get(first.getContext(), name));
    int64_t dim = first->getAttrOfType<nn::PartAttr>(nn::kPartAttr).getDim();
    if (!whole || whole.getTensorType().getDimSize(dim) != list.second)
      return first.emitError("the update of '")
             << name << "' needs the whole matrix, which tensor axes divide in parts that are "
             << "padded or split in different ways: --optimizer-for '" << name
             << "=adamw', or a mesh without tensor axes";
  }
  return wholes;
}

/// Returns, for each parameter of a group, the first one that is a part of the same parameter.
/// Fails after an error if other parts are in another group.
static FailureOr<SmallVector<int64_t>> firstPartsOf(const Group &group) {
  SmallVector<int64_t> firsts;
  llvm::MapVector<StringRef, std::pair<int64_t, int64_t>> divided; // its first part; indices found
  for (auto [place, param] : llvm::enumerate(group.params)) {
    nn::StateOp state = param;
    firsts.push_back(place);
    auto part = state->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
    if (!part)
      continue;
    auto &[first, found] =
        divided.try_emplace(part.getWhole().getValue(), int64_t(place), 0).first->second;
    firsts.back() = first;
    found += state.getTensorType().getDimSize(part.getDim()) - part.getPadding();
  }
  for (auto &[name, list] : divided) {
    nn::StateOp first = group.params[list.first];
    nn::StateOp whole = nn::getState(first, FlatSymbolRefAttr::get(first.getContext(), name));
    int64_t dim = first->getAttrOfType<nn::PartAttr>(nn::kPartAttr).getDim();
    if (!whole || whole.getTensorType().getDimSize(dim) != list.second)
      return first.emitError("the update of '")
             << name
             << "' needs sums over the parameter, of which tensor axes split some parts and "
             << "leave others whole: --tensor '" << name
             << "=whole', --optimizer adamw, or a mesh without tensor axes";
  }
  return firsts;
}

/// Gives each segment the sum over the elements of its whole parameter, from means over the
/// elements of segments. If no parameter is divided, `firsts` are the places themselves and means
/// stay means.
static Value addParts(OpBuilder &builder, Group &group, ArrayRef<int64_t> firsts, Value means) {
  auto isFirst = [&](auto each) { return int64_t(each.index()) == each.value(); };
  if (llvm::all_of(llvm::enumerate(firsts), isFirst))
    return means;
  Location loc = group.unit.getLoc();
  RankedTensorType type = typeOf(means);
  SmallVector<float> counts;
  for (auto segment : group.attr.getSegments().getAsRange<dist::SegmentAttr>())
    counts.push_back(float(segment.getCount()));
  Value weights =
      nn::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, ArrayRef<float>(counts)));
  Value sums = nn::MulOp::create(builder, loc, type, means, weights);
  SmallVector<Value> wholes(firsts.size()), all;
  for (auto [place, first] : llvm::enumerate(firsts)) {
    Value own = sliceOf(builder, loc, sums, 0, place, place + 1), &whole = wholes[first];
    whole = whole ? Value(nn::AddOp::create(builder, loc, own.getType(), whole, own)) : own;
  }
  for (int64_t first : firsts)
    all.push_back(wholes[first]);
  return nn::ConcatOp::create(builder, loc, type, all, 0);
}

SmallVector<Value>
UnitRewriter::gatherParameters(Group &group, ArrayRef<SmallVector<int64_t>> lists, Value slice) {
  Location loc = group.getLoc();
  if (group.updateAxis())
    slice = dist::AllGatherOp::create(builder, loc, typeOf(slice).clone({group.attr.getCount()}),
                                      slice, group.updateAxis().getValue(), 0);
  auto gather = [&](int64_t place) -> Value {
    nn::StateOp param = group.params[place];
    auto segment = cast<dist::SegmentAttr>(group.attr.getSegments()[place]);
    Location own = withValueName(param.getLoc(), param.getSymName());
    int64_t begin = segment.getOffset();
    Value flat = sliceOf(builder, own, slice, 0, begin, begin + segment.getCount());
    Value part = nn::ReshapeOp::create(builder, own,
                                       typeOf(flat).clone(segment.getShape().asArrayRef()), flat);
    Layout layout = layoutOf(param);
    return reshard(builder, own, part, layout, Layout::replicated(layout.dims.size()), mesh);
  };
  SmallVector<Value> wholes;
  for (ArrayRef<int64_t> places : lists) {
    SmallVector<Value> parts(llvm::map_range(places, gather));
    if (parts.size() > 1) {
      nn::StateOp first = group.params[places.front()];
      auto part = first->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
      nn::StateOp whole = nn::getState(first, part.getWhole());
      parts = {nn::ConcatOp::create(builder, loc,
                                    typeOf(parts[0]).clone(whole.getTensorType().getShape()), parts,
                                    part.getDim())};
    }
    wholes.push_back(parts.front());
  }
  return wholes;
}

/// The largest number of ranks per matrix among which matrices are divided. With more ranks the
/// stack of matrices is mostly padding, and exchanging it takes longer than the work that is saved.
constexpr int64_t kRanksPerMatrix = 4;

SmallVector<Value> UnitRewriter::divideMatrices(Group &group, ValueRange matrices,
                                                llvm::function_ref<Value(Value)> function) {
  Location loc = group.getLoc();
  auto isTall = [](Value x) { return typeOf(x).getDimSize(0) > typeOf(x).getDimSize(1); };
  auto transposed = [&](Value x) -> Value {
    ArrayRef<int64_t> shape = typeOf(x).getShape();
    return nn::TransposeOp::create(builder, loc, typeOf(x).clone({shape[1], shape[0]}), x,
                                   ArrayRef<int64_t>{1, 0});
  };
  auto reshaped = [&](Value x, ArrayRef<int64_t> shape) -> Value {
    return nn::ReshapeOp::create(builder, loc, typeOf(x).clone(shape), x);
  };
  SmallVector<Value> results(matrices.size());
  llvm::MapVector<std::pair<int64_t, int64_t>, SmallVector<size_t>> classes; // by rows and columns
  for (auto [i, x] : llvm::enumerate(matrices)) {
    auto sizes = std::minmax(typeOf(x).getDimSize(0), typeOf(x).getDimSize(1));
    classes[sizes].push_back(i);
  }
  for (auto &[sizes, members] : classes) {
    auto [rows, columns] = sizes;
    int64_t count = members.size(), ranks = 1;
    AxisList axes;
    for (StringRef axis : sumAxes)
      if (int64_t size = mesh.getSize(axis);
          size > 1 && count > 1 && ranks * size <= kRanksPerMatrix * count) {
        axes.push_back(axis);
        ranks *= size;
      }
    if (axes.empty()) {
      for (size_t i : members)
        results[i] = function(matrices[i]);
      continue;
    }
    SmallVector<Value> parts;
    for (size_t i : members)
      parts.push_back(reshaped(isTall(matrices[i]) ? transposed(matrices[i]) : matrices[i],
                               {1, rows, columns}));
    RankedTensorType type = typeOf(parts.front());
    int64_t stacked = llvm::alignTo(count, ranks);
    if (stacked > count)
      parts.push_back(nn::splat(builder, loc, type.clone({stacked - count, rows, columns}), 0));
    Value all = nn::ConcatOp::create(builder, loc, type.clone({stacked, rows, columns}), parts, 0);
    Layout divided = Layout::replicated(3);
    divided.dims[0].assign(axes.begin(), axes.end());
    Value own = reshard(builder, loc, all, Layout::replicated(3), divided, mesh);
    bool single = stacked == ranks;
    own = function(single ? reshaped(own, {rows, columns}) : own);
    if (single)
      own = reshaped(own, {1, rows, columns});
    all = reshard(builder, loc, own, divided, Layout::replicated(3), mesh);
    for (auto [place, i] : llvm::enumerate(members)) {
      Value x = reshaped(sliceOf(builder, loc, all, 0, place, place + 1), {rows, columns});
      results[i] = isTall(matrices[i]) ? transposed(x) : x;
    }
  }
  return results;
}

Value UnitRewriter::takeSlice(Group &group, ArrayRef<SmallVector<int64_t>> lists,
                              ValueRange wholes) {
  Location loc = group.getLoc();
  SmallVector<Value> values;
  SmallVector<Attribute> names;
  for (auto [places, whole] : llvm::zip_equal(lists, wholes))
    for (int64_t place : places) {
      nn::StateOp param = group.params[place];
      Value value = whole;
      if (auto part = param->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
          part && places.size() > 1) {
        int64_t begin = part.getBegin(), dim = part.getDim();
        value =
            sliceOf(builder, loc, value, dim, begin, begin + param.getTensorType().getDimSize(dim));
      }
      Layout layout = layoutOf(param);
      values.push_back(
          reshard(builder, loc, value, Layout::replicated(layout.dims.size()), layout, mesh));
      names.push_back(FlatSymbolRefAttr::get(param));
    }
  RankedTensorType flat = typeOf(values.front()).clone({group.attr.getCount()});
  Value packed = dist::UnitPackOp::create(builder, loc, flat, group.unit.getSymName(), group.index,
                                          builder.getArrayAttr(names), values);
  if (!group.updateAxis())
    return packed;
  return dist::SliceOp::create(builder, loc, flat.clone({units.updatedCount(group)}), packed,
                               group.updateAxis().getValue(), 0);
}

/// Lets an update that is not elementwise build its ops for the flat group or its slice.
LogicalResult UnitRewriter::buildTogether(Group &group, ValueRange operands) {
  GroupValues &values = valuesOf(group);
  auto update = cast<GroupUpdateOpInterface>(values.updates.front().getOperation());
  FailureOr<SmallVector<SmallVector<int64_t>>> wholes = SmallVector<SmallVector<int64_t>>();
  if (update.gathersParameters() && failed(wholes = wholesOf(group)))
    return failure();
  FailureOr<SmallVector<int64_t>> firsts = SmallVector<int64_t>();
  if (update->hasTrait<nn::NeedsMeansOnly>() && failed(firsts = firstPartsOf(group)))
    return failure();
  SmallVector<GroupUpdate::Segment> segments;
  for (auto [i, segment] :
       llvm::enumerate(group.attr.getSegments().getAsRange<dist::SegmentAttr>())) {
    const std::vector<int64_t> &places = group.moments.front().places;
    segments.push_back({segment.getOffset(), segment.getShape().asArrayRef(), segment.getFactors(),
                        places.empty() ? segment.getOffset() : places[i]});
  }
  auto sum = [&](ValueRange parts) {
    SmallVector<Value> sums = sumOverSlices(group, parts);
    for (Value &each : sums)
      each = addParts(builder, group, *firsts, each);
    return sums;
  };
  auto gather = [&](Value slice) { return gatherParameters(group, *wholes, slice); };
  auto divide = [&](ValueRange matrices, llvm::function_ref<Value(Value)> function) {
    return divideMatrices(group, matrices, function);
  };
  auto take = [&](ValueRange values) { return takeSlice(group, *wholes, values); };
  values.results =
      update.buildGroupUpdate(builder, {group.unit.getLoc(), operands, slicedOffset(group),
                                        segments, sum, gather, divide, take});
  return success();
}

//===- One update per group -----------------------------------------------===//

LogicalResult UnitRewriter::rewriteUpdate(OptimizerUpdateOpInterface update) {
  Value parameter = update.getParameterOperand().get();
  Group &group = *states.lookup(parameter).first;
  if (--valuesOf(group).updatesToCome > 0)
    return success();
  if (failed(buildUpdate(group)))
    return failure();
  keepResiduals(group);
  return success();
}

/// Returns the element of the group at which this rank's slice begins, or null if the rank updates
/// the whole group.
Value UnitRewriter::slicedOffset(Group &group) {
  if (!group.updateAxis())
    return {};
  Location loc = withValueName(group.unit.getLoc(), "offset");
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  Value coordinate = dist::CoordinateOp::create(builder, loc, scalar, group.updateAxis());
  return nn::MulOp::create(builder, loc, coordinate,
                           nn::splat(builder, loc, scalar, units.updatedCount(group)));
}

/// Returns the step by which the group is rounded. If tensor axes split its parameters, the number
/// of the rank's piece is added as the high word, since the elements of all pieces have the same
/// numbers.
Value UnitRewriter::stepOfPiece(Group &group, Value step) {
  Location loc = group.getLoc();
  Value piece;
  for (auto axis : group.attr.getAxes().getAsRange<StringAttr>()) {
    Value own = dist::CoordinateOp::create(builder, loc, step.getType(), axis.getValue());
    if (piece) {
      Value size = nn::splat(builder, loc, typeOf(step), double(mesh.getSize(axis.getValue())));
      piece = nn::MulOp::create(builder, loc, piece, size);
      own = nn::AddOp::create(builder, loc, step.getType(), piece, own);
    }
    piece = own;
  }
  if (!piece)
    return step;
  piece = nn::MulOp::create(builder, loc, piece, nn::splat(builder, loc, typeOf(step), 0x1p32));
  return nn::AddOp::create(builder, loc, step.getType(), step, piece);
}

/// Numbers the elements of each parameter of a group that is rounded stochastically.
void UnitRewriter::numberElements(Group &group, ValueRange operands) {
  GroupValues &values = valuesOf(group);
  OptimizerUpdateOpInterface first = values.updates.front();
  auto like = dyn_cast<nn::RoundedUpdateOpInterface>(first.getOperation());
  if (!like || !like.isRoundedStochastically())
    return;
  llvm::StringMap<int64_t> numbers;
  for (OptimizerUpdateOpInterface update : values.updates) {
    nn::StateOp param = nn::getState(cast<BlockArgument>(update.getParameterOperand().get()));
    numbers[param.getSymName()] =
        cast<nn::RoundedUpdateOpInterface>(update.getOperation()).getRoundedNumber(0);
  }
  SmallVector<int64_t> inOrder;
  for (nn::StateOp param : group.params)
    inOrder.push_back(numbers.lookup(param.getSymName()));
  unsigned seed = like.getSeedNumber();
  values.results[0].getDefiningOp<nn::RoundedUpdateOpInterface>().roundStochastically(
      operands[seed], operands[seed + 1], inOrder);
}

/// Clones the update for the flat group or its slice.
void UnitRewriter::buildElementwise(Group &group, ValueRange operands) {
  GroupValues &values = valuesOf(group);
  OptimizerUpdateOpInterface first = values.updates.front();
  SmallVector<Attribute> segments;
  for (auto segment : group.attr.getSegments().getAsRange<dist::SegmentAttr>())
    segments.push_back(nn::UpdateRangeAttr::get(builder.getContext(), segment.getOffset(),
                                                segment.getCount(), segment.getFactors()));
  Value offset = slicedOffset(group);
  SmallVector<Type> types{operands[first.getParameterOperand().getOperandNumber()].getType()};
  for (Value moment : values.moments)
    types.push_back(moment.getType());
  OperationState state(group.unit.getLoc(), first->getName(), operands, types, first->getAttrs());
  state.propertiesAttr = first->getPropertiesAsAttribute();
  auto made = cast<OptimizerUpdateOpInterface>(builder.create(state));
  made.setSegments(offset, builder.getArrayAttr(segments));
  values.results.assign(made->result_begin(), made->result_end());
}

/// Builds one update of the flat group, which replaces the updates of its
/// parameters. These must agree in everything but parameter, gradient, state
/// and factors.
LogicalResult UnitRewriter::buildUpdate(Group &group) {
  GroupValues &values = valuesOf(group);
  if (failed(reduceGradients(group)))
    return failure();
  OptimizerUpdateOpInterface first = values.updates.front();
  Location loc = group.unit.getLoc();
  SmallVector<OpOperand *> own = first.getOwnOperands();

  Value param = values.atRest;
  bool sliceParam = group.updateAxis() && !group.param.axis;
  if (sliceParam)
    param = dist::SliceOp::create(
        builder, loc, RankedTensorType::get({units.updatedCount(group)}, group.attr.getType()),
        param, group.updateAxis().getValue(), 0);
  SmallVector<Value> operands;
  for (OpOperand &operand : first->getOpOperands()) {
    if (llvm::is_contained(own, &operand)) {
      operands.push_back(param); // replaced below
      continue;
    }
    for (OptimizerUpdateOpInterface other : values.updates)
      if (other->getName() != first->getName() ||
          other->getNumOperands() != first->getNumOperands() ||
          other->getOperand(operand.getOperandNumber()) != operand.get())
        return other->emitOpError("differs from the update of another "
                                  "parameter of group '")
               << group.attr.getName().getValue() << "' of unit '" << group.unit.getSymName()
               << "'";
    operands.push_back(lookup(operand.get()));
  }
  if (auto rounded = dyn_cast<nn::RoundedUpdateOpInterface>(first.getOperation());
      rounded && rounded.isRoundedStochastically()) {
    Value &step = operands[rounded.getSeedNumber() + 1];
    step = stepOfPiece(group, step);
  }
  operands[first.getGradientOperand().getOperandNumber()] = values.gradient;
  for (auto [operand, moment] : llvm::zip(first.getStateOperands(), values.moments))
    operands[operand->getOperandNumber()] = moment;

  if (isa<ElementwiseUpdateOpInterface>(first.getOperation()))
    buildElementwise(group, operands);
  else if (failed(buildTogether(group, operands)))
    return failure();
  numberElements(group, operands);
  if (sliceParam)
    values.results[0] = dist::AllGatherOp::create(
        builder, loc, values.atRest.getType(), values.results[0], group.updateAxis().getValue(), 0);
  if (group.copy.op) {
    // Rounded before it is sent.
    Value rounded = values.results[0];
    auto type = cast<RankedTensorType>(rounded.getType());
    rounded = nn::CastOp::create(builder, loc, type.clone(group.attr.getWire()), rounded);
    if (group.param.axis)
      rounded = dist::AllGatherOp::create(builder, loc, values.whole.getType(), rounded,
                                          group.param.axis.getValue(), 0);
    values.newCopy = rounded;
  }
  return success();
}

} // namespace shale
