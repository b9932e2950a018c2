//===- Reshard.cpp - Converts a value to another layout -------------------===//
#include "passes/sharding/Reshard.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Sharding/Rules.h"
#include "mlir/IR/Matchers.h"
#include <utility>

using namespace mlir;

namespace shale {
inline namespace sharding {

namespace {

/// A value that is being converted from one layout to another.
struct Transition {
  OpBuilder &builder;
  Location loc;
  Value value;
  TensorLayout now;
  const TensorLayout &to;
  dist::MeshOp mesh;

  /// Builds what `make` builds from each block of dimension `dim`: from a value, the type of the
  /// result, which has `times` / `by` as many elements, and the dimension.
  void change(int64_t dim, int64_t blocks, int64_t times, int64_t by,
              llvm::function_ref<Value(Type, Value, int64_t)> make) {
    value = nn::inBlocks(builder, loc, value, dim, blocks, [&](Value part, int64_t along) {
      auto type = cast<RankedTensorType>(part.getType());
      SmallVector<int64_t> shape(type.getShape());
      shape[along] = shape[along] * times / by;
      return make(type.clone(shape), part, along);
    });
  }
  /// Returns the next axis of dimension `dim` in the target; none if others come first.
  std::optional<DimAxis> nextOf(int64_t dim) {
    const DimAxes &have = now.dims[dim], &want = to.dims[dim];
    if (have.size() < want.size() && std::equal(have.begin(), have.end(), want.begin()))
      return want[have.size()];
    return std::nullopt;
  }
  bool isNext(int64_t dim, StringRef axis) {
    std::optional<DimAxis> next = nextOf(dim);
    return next && next->name == axis;
  }
  bool canJoin(ArrayRef<DimAxis> axes);
  StringRef joined(ArrayRef<DimAxis> axes);
  void scatter(int64_t dim);
  void scatterPartial();
  void reducePartial(bool overValues);
  void exchange();
  void gather();
  void slice();
};

} // namespace

/// Whether one collective can run over axes that follow each other in a dimension. Those of data
/// stay apart: units reduce and gather over them.
bool Transition::canJoin(ArrayRef<DimAxis> axes) {
  int64_t last = -1;
  return axes.size() == 1 || llvm::all_of(axes, [&](const DimAxis &axis) {
           int64_t before = std::exchange(last, mesh.indexOf(axis));
           return last > before && axis.blocks == axes.front().blocks && mesh.splitsValues(axis);
         });
}

StringRef Transition::joined(ArrayRef<DimAxis> axes) {
  SmallVector<StringRef, 2> members(axes.begin(), axes.end());
  return members.size() == 1 ? members.front() : mesh.join(members);
}

// P -> S of a sum over the next axis of dimension `dim`, and over those behind it that are partial,
// too.
void Transition::scatter(int64_t dim) {
  ArrayRef<DimAxis> next = ArrayRef(to.dims[dim]).drop_front(now.dims[dim].size());
  size_t count = 1;
  while (count < next.size() && now.partialOn(next[count]) == dist::Reduction::Sum &&
         canJoin(next.take_front(count + 1)))
    ++count;
  ArrayRef<DimAxis> axes = next.take_front(count);
  StringRef axis = joined(axes);
  change(dim, axes.front().blocks, 1, mesh.getSize(axis),
         [&](Type type, Value part, int64_t along) {
           return dist::ReduceScatterOp::create(builder, loc, type, dist::Reduction::Sum, part,
                                                axis, along)
               .getResult();
         });
  for (const DimAxis &each : axes) {
    now.dims[dim].push_back(each);
    now.removePartial(each);
  }
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
      scatter(dim);
      changed = true;
      break;
    }
  }
}

// P -> R, over the axes that split values or over the others.
void Transition::reducePartial(bool overValues) {
  auto reduce = [&](ArrayRef<DimAxis> axes, dist::Reduction kind) {
    value = dist::AllReduceOp::create(builder, loc, kind, value, joined(axes));
    for (const DimAxis &axis : axes)
      now.removePartial(axis);
  };
  auto partial = now.partial;
  SmallVector<DimAxis, 2> sums;
  for (auto [axis, kind] : partial) {
    if (to.partialOn(axis) || mesh.splitsValues(axis) != overValues)
      continue;
    if (kind == dist::Reduction::Sum && overValues)
      sums.push_back(axis);
    else
      reduce(DimAxis(axis), kind);
  }
  llvm::sort(sums,
             [&](const DimAxis &a, const DimAxis &b) { return mesh.indexOf(a) < mesh.indexOf(b); });
  if (!sums.empty())
    reduce(sums, dist::Reduction::Sum);
}

// S(d) -> S(e), if the axis is the minor axis of d and the next one of e.
void Transition::exchange() {
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [dim, axes] : llvm::enumerate(now.dims)) {
      if (axes.empty())
        continue;
      DimAxis axis = axes.back();
      int64_t target = to.dimOf(axis), source = dim;
      int64_t size = mesh.getSize(axis);
      if (target < 0 || target == source || !isNext(target, axis))
        continue;
      DimAxis next = *nextOf(target);
      change(target, next.blocks, 1, size, [&](Type, Value part, int64_t split) {
        int64_t from = source + (source > target && split > target);
        return nn::inBlocks(builder, loc, part, from, axis.blocks,
                            [&](Value own, int64_t concat) -> Value {
                              int64_t at = split + (concat > from && from < split);
                              auto type = cast<RankedTensorType>(own.getType());
                              SmallVector<int64_t> shape(type.getShape());
                              shape[at] /= size;
                              shape[concat] *= size;
                              return dist::AllToAllOp::create(builder, loc, type.clone(shape), own,
                                                              axis.name, at, concat);
                            });
      });
      now.dims[source].pop_back();
      now.dims[target].push_back(next);
      changed = true;
      break;
    }
  }
}

// S -> R: minor axes first, until a prefix of the target's axes is left.
void Transition::gather() {
  for (auto [dim, axes] : llvm::enumerate(now.dims)) {
    const DimAxes &want = to.dims[dim];
    while (!axes.empty() &&
           !(axes.size() <= want.size() && std::equal(axes.begin(), axes.end(), want.begin()))) {
      size_t common = std::mismatch(axes.begin(), axes.end(), want.begin(), want.end()).first -
                      axes.begin(); // axes that stay
      size_t first = axes.size() - 1;
      while (first > common && canJoin(ArrayRef(axes).drop_front(first - 1)))
        --first;
      StringRef axis = joined(ArrayRef(axes).drop_front(first));
      change(dim, axes.back().blocks, mesh.getSize(axis), 1,
             [&](Type type, Value part, int64_t along) {
               return dist::AllGatherOp::create(builder, loc, type, part, axis, along).getResult();
             });
      axes.truncate(first);
    }
  }
}

// R -> S: major axes first. A sum over an axis that is the next one only now, as other axes were
// gathered, is scattered: slices of it would be of different elements on each rank of the axis.
void Transition::slice() {
  for (auto [dim, axes] : llvm::enumerate(now.dims))
    while (axes.size() < to.dims[dim].size()) {
      DimAxis axis = to.dims[dim][axes.size()];
      if (now.partialOn(axis)) {
        scatter(dim);
        continue;
      }
      change(dim, axis.blocks, 1, mesh.getSize(axis), [&](Type type, Value part, int64_t along) {
        return dist::SliceOp::create(builder, loc, type, part, axis.name, along).getResult();
      });
      axes.push_back(axis);
    }
}

Value reshard(OpBuilder &builder, Location loc, Value value, TensorLayout from,
              const TensorLayout &to, dist::MeshOp mesh) {
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
