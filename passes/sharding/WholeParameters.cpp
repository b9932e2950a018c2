//===- WholeParameters.cpp - The parameters of a group across ranks -------===//
#include "passes/sharding/WholeParameters.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "passes/sharding/Reshard.h"

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

//===- Parts --------------------------------------------------------------===//

/// Returns what tensor axes split of a parameter.
static TensorLayout layoutOf(nn::StateOp param) {
  auto sharding = param->getAttrOfType<dist::ShardingAttr>(dist::kShardingAttr);
  return sharding ? TensorLayout::from(sharding)
                  : TensorLayout::replicated(param.getTensorType().getRank());
}

// A parameter that is not divided is a list of its own.
LogicalResult WholeParameters::findWholes() {
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
  return success();
}

LogicalResult WholeParameters::findFirstParts() {
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
  return success();
}

//===- Sums ---------------------------------------------------------------===//

/// Adds up 1-D values of which each rank has the part of its slice, and of what tensor axes leave
/// of the parameters, in one all-reduce for each axis.
SmallVector<Value> WholeParameters::sumOverSlices(ValueRange parts) {
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

/// Gives each segment the sum over the elements of its whole parameter, from means over the
/// elements of segments. If no parameter is divided, `firsts` are the places themselves and means
/// stay means.
Value WholeParameters::addParts(Value means) {
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
  SmallVector<Value> totals(firsts.size()), all;
  for (auto [place, first] : llvm::enumerate(firsts)) {
    Value own = sliceOf(builder, loc, sums, 0, place, place + 1), &total = totals[first];
    total = total ? Value(nn::AddOp::create(builder, loc, own.getType(), total, own)) : own;
  }
  for (int64_t first : firsts)
    all.push_back(totals[first]);
  return nn::ConcatOp::create(builder, loc, type, all, 0);
}

SmallVector<Value> WholeParameters::sum(ValueRange parts) {
  SmallVector<Value> sums = sumOverSlices(parts);
  for (Value &each : sums)
    each = addParts(each);
  return sums;
}

//===- Whole tensors ------------------------------------------------------===//

SmallVector<Value> WholeParameters::gather(Value slice) {
  Location loc = group.getLoc();
  if (group.updateAxis())
    slice = dist::AllGatherOp::create(builder, loc, typeOf(slice).clone({group.attr.getCount()}),
                                      slice, group.updateAxis().getValue(), 0);
  auto gatherPart = [&](int64_t place) -> Value {
    nn::StateOp param = group.params[place];
    auto segment = cast<dist::SegmentAttr>(group.attr.getSegments()[place]);
    Location own = withValueName(param.getLoc(), param.getSymName());
    int64_t begin = segment.getOffset();
    Value flat = sliceOf(builder, own, slice, 0, begin, begin + segment.getCount());
    Value part = nn::ReshapeOp::create(builder, own,
                                       typeOf(flat).clone(segment.getShape().asArrayRef()), flat);
    TensorLayout layout = layoutOf(param);
    return reshard(builder, own, part, layout, TensorLayout::replicated(layout.dims.size()), mesh);
  };
  SmallVector<Value> tensors;
  for (ArrayRef<int64_t> places : wholes) {
    SmallVector<Value> parts(llvm::map_range(places, gatherPart));
    if (parts.size() > 1) {
      nn::StateOp first = group.params[places.front()];
      auto part = first->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
      nn::StateOp whole = nn::getState(first, part.getWhole());
      parts = {nn::ConcatOp::create(builder, loc,
                                    typeOf(parts[0]).clone(whole.getTensorType().getShape()), parts,
                                    part.getDim())};
    }
    tensors.push_back(parts.front());
  }
  return tensors;
}

/// The largest number of ranks per matrix among which matrices are divided. With more ranks the
/// stack of matrices is mostly padding, and exchanging it takes longer than the work that is saved.
constexpr int64_t kRanksPerMatrix = 4;

SmallVector<Value> WholeParameters::divide(ValueRange matrices,
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
    for (StringRef axis : axesByPriority(mesh))
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
    TensorLayout divided = TensorLayout::replicated(3);
    divided.dims[0].assign(axes.begin(), axes.end());
    Value own = reshard(builder, loc, all, TensorLayout::replicated(3), divided, mesh);
    bool single = stacked == ranks;
    own = function(single ? reshaped(own, {rows, columns}) : own);
    if (single)
      own = reshaped(own, {1, rows, columns});
    all = reshard(builder, loc, own, divided, TensorLayout::replicated(3), mesh);
    for (auto [place, i] : llvm::enumerate(members)) {
      Value x = reshaped(sliceOf(builder, loc, all, 0, place, place + 1), {rows, columns});
      results[i] = isTall(matrices[i]) ? transposed(x) : x;
    }
  }
  return results;
}

Value WholeParameters::take(ValueRange tensors) {
  Location loc = group.getLoc();
  SmallVector<Value> values;
  SmallVector<Attribute> names;
  for (auto [places, tensor] : llvm::zip_equal(wholes, tensors))
    for (int64_t place : places) {
      nn::StateOp param = group.params[place];
      Value value = tensor;
      if (auto part = param->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
          part && places.size() > 1) {
        int64_t begin = part.getBegin(), dim = part.getDim();
        value =
            sliceOf(builder, loc, value, dim, begin, begin + param.getTensorType().getDimSize(dim));
      }
      TensorLayout layout = layoutOf(param);
      values.push_back(
          reshard(builder, loc, value, TensorLayout::replicated(layout.dims.size()), layout, mesh));
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

} // namespace shale
