//===- Reshard.cpp - Converts a value to another layout -------------------===//
#include "passes/sharding/Reshard.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Data.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;

namespace shale {
inline namespace sharding {

namespace {

/// A value that is being converted from one layout to another.
struct Transition {
  OpBuilder &builder;
  Location loc;
  Value value;
  Layout now;
  const Layout &to;
  dist::MeshOp mesh;

  RankedTensorType scaled(int64_t dim, int64_t times, int64_t by) {
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] = shape[dim] * times / by;
    return RankedTensorType::get(shape, type.getElementType());
  }
  /// Whether `axis` is the next axis of dimension `dim` in the target.
  bool isNext(int64_t dim, StringRef axis) {
    const AxisList &have = now.dims[dim], &want = to.dims[dim];
    return have.size() < want.size() && want[have.size()] == axis &&
           std::equal(have.begin(), have.end(), want.begin());
  }
  void scatter(StringRef axis, int64_t dim);
  void scatterPartial();
  void reducePartial(bool overValues);
  void exchange();
  void gather();
  void slice();
};

} // namespace

// P -> S of a sum over the next axis of dimension `dim`.
void Transition::scatter(StringRef axis, int64_t dim) {
  value = dist::ReduceScatterOp::create(builder, loc, scaled(dim, 1, mesh.getSize(axis)),
                                        dist::Reduction::Sum, value, axis, dim);
  now.dims[dim].push_back(axis);
  now.removePartial(axis);
}

// P -> S of sums, in the order of the target's axes. The runtime has no reduce-scatter of maxima:
// they are reduced and then sliced.
void Transition::scatterPartial() {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [axis, kind] : now.partial) {
      int64_t dim = to.dimOf(axis);
      if (dim < 0)
        continue;
      if (kind != dist::Reduction::Sum) {
        value = dist::AllReduceOp::create(builder, loc, kind, value, axis);
        now.removePartial(axis);
        changed = true;
        break;
      }
      if (!isNext(dim, axis))
        continue;
      scatter(axis, dim);
      changed = true;
      break;
    }
  }
}

// P -> R, over the axes that split values or over the others.
void Transition::reducePartial(bool overValues) {
  auto partial = now.partial;
  for (auto [axis, kind] : partial) {
    if (to.partialOn(axis) || mesh.splitsValues(axis) != overValues)
      continue;
    value = dist::AllReduceOp::create(builder, loc, kind, value, axis);
    now.removePartial(axis);
  }
}

// S(d) -> S(e), if the axis is the minor axis of d and the next one of e.
void Transition::exchange() {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [dim, axes] : llvm::enumerate(now.dims)) {
      if (axes.empty())
        continue;
      StringRef axis = axes.back();
      int64_t target = to.dimOf(axis), source = dim;
      int64_t size = mesh.getSize(axis);
      if (target < 0 || target == source || !isNext(target, axis))
        continue;
      auto type = cast<RankedTensorType>(value.getType());
      SmallVector<int64_t> shape(type.getShape());
      shape[target] /= size;
      shape[source] *= size;
      value = dist::AllToAllOp::create(builder, loc,
                                       RankedTensorType::get(shape, type.getElementType()), value,
                                       axis, target, source);
      now.dims[source].pop_back();
      now.dims[target].push_back(axis);
      changed = true;
      break;
    }
  }
}

// S -> R: minor axes first, until a prefix of the target's axes is left.
void Transition::gather() {
  for (auto [dim, axes] : llvm::enumerate(now.dims)) {
    const AxisList &want = to.dims[dim];
    while (!axes.empty() &&
           !(axes.size() <= want.size() && std::equal(axes.begin(), axes.end(), want.begin()))) {
      StringRef axis = axes.pop_back_val();
      value = dist::AllGatherOp::create(builder, loc, scaled(dim, mesh.getSize(axis), 1), value,
                                        axis, dim);
    }
  }
}

// R -> S: major axes first. A sum over an axis that is the next one only now, as other axes were
// gathered, is scattered: slices of it would be of different elements on each rank of the axis.
void Transition::slice() {
  for (auto [dim, axes] : llvm::enumerate(now.dims))
    while (axes.size() < to.dims[dim].size()) {
      StringRef axis = to.dims[dim][axes.size()];
      if (now.partialOn(axis)) {
        scatter(axis, dim);
        continue;
      }
      value =
          dist::SliceOp::create(builder, loc, scaled(dim, 1, mesh.getSize(axis)), value, axis, dim);
      axes.push_back(axis);
    }
}

Value reshard(OpBuilder &builder, Location loc, Value value, Layout from, const Layout &to,
              dist::MeshOp mesh) {
  Transition transition{builder, loc, value, std::move(from), to, mesh};
  transition.scatterPartial();
  transition.reducePartial(/*overValues=*/true);
  transition.exchange();
  transition.gather();
  transition.slice();
  transition.reducePartial(/*overValues=*/false);
  return transition.value;
}

Value choose(OpBuilder &builder, Location loc, Value condition, Value yes, Value no) {
  auto type = cast<RankedTensorType>(yes.getType());
  if (type.getRank() > 0)
    condition = nn::BroadcastOp::create(builder, loc, type.clone(builder.getI1Type()), condition,
                                        ArrayRef<int64_t>{});
  return nn::SelectOp::create(builder, loc, type, condition, yes, no);
}

Value onFirstRank(OpBuilder &builder, Location loc, Value value, StringRef axis) {
  if (matchPattern(value, m_AnyZeroFloat()))
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  Value coordinate = dist::CoordinateOp::create(builder, loc, scalar, axis);
  Value first =
      nn::CompareOp::create(builder, loc, scalar.clone(builder.getI1Type()), nn::Predicate::EQ,
                            coordinate, nn::splat(builder, loc, scalar, 0));
  return choose(builder, loc, first, value, nn::splat(builder, loc, type, 0));
}

} // namespace sharding
} // namespace shale
