//===- GroupedMatmul.cpp - Matmuls of groups of rows ----------------------===//
//
// The host does not know the sizes of groups, so there are blocks for as many tiles as any sizes
// need: each block goes through the ends of the groups until it finds its tile. The rows after the
// last group are a group, too, with sums of no terms.
//
// Ends that decrease or lie outside of the rows do not lead out of a buffer: a group ends at the
// largest end up to its own, within the rows.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/interfaces/ElementEmitter.h"
#include "lib/Target/CUDA/CUDA.h"
#include "lib/Target/CUDA/Kernels/Kernels.h"
#include "lib/Target/CUDA/Kernels/MatrixTile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;
using namespace shale::nn;

namespace {

/// Ends that are loaded before the first of them is used.
constexpr int64_t kBatch = 8;

class Groups {
public:
  Groups(Threads &t, Value ends, int64_t rows)
      : t(t), ends(ends), rows(rows), count(cast<MemRefType>(ends.getType()).getDimSize(0)) {}

  /// Emits `visit` for each group, in order, with the range of its rows. It maps values as the
  /// body of Threads::fold does. Returns the final values, and before them the end of all groups.
  using Visit =
      llvm::function_ref<Threads::Values(Value group, Value begin, Value end, ValueRange state)>;
  Threads::Values forEach(const Threads::Values &initial, Visit visit) {
    Threads::Values state{t.index(0)};
    llvm::append_range(state, initial);
    auto some = [&](int64_t number) {
      return [&, number](Value group, ValueRange before) {
        Threads::Values limits, state(before);
        for (int64_t i = 0; i < number; ++i)
          limits.push_back(endWithinRows(t.add(group, t.index(i))));
        for (auto [i, limit] : llvm::enumerate(limits)) {
          Value begin = state.front(), end = t.max(begin, limit);
          Threads::Values next =
              visit(t.add(group, t.index(i)), begin, end, ValueRange(state).drop_front());
          state.assign(1, end);
          llvm::append_range(state, next);
        }
        return state;
      };
    };
    Value whole = t.index(count / kBatch * kBatch);
    state = t.fold(t.index(0), whole, t.index(kBatch), state, some(kBatch));
    return t.fold(whole, t.index(count), t.index(1), state, some(1));
  }

private:
  Value endWithinRows(Value group) {
    Value end = t.load(ends, group);
    auto type = cast<IntegerType>(end.getType());
    int64_t most = type.getWidth() == 32 ? std::min<int64_t>(rows, INT32_MAX) : rows;
    auto number = [&](int64_t value) {
      return arith::ConstantOp::create(t.b, t.loc, t.b.getIntegerAttr(type, value)).getResult();
    };
    return t.toIndex(t.max(number(0), t.min(end, number(most))));
  }

  Threads &t;
  Value ends;
  int64_t rows, count;
};

/// The sizes of a matmul and its tiles. Groups are of rows, or of terms in a gradient.
struct Plan {
  Type element;
  int64_t groups, rows, columns, terms;
  TileSize tile;

  int64_t tilesAcross() const { return llvm::divideCeil(columns, tile.columns); }
  /// Whether there is nothing to multiply.
  bool isEmpty() const { return rows == 0 || columns == 0 || terms == 0; }
};

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

bool hasTile(Type element) { return element.isF32() || is16BitFloat(element); }

/// Whether all indices of a kernel fit in 32 bits, with those of tiles beyond the rows.
bool hasNarrowIndices(Operation *op, const Plan &plan) {
  constexpr int64_t most = int64_t(1) << 30;
  auto small = [](Value value) { return typeOf(value).getNumElements() < most; };
  return llvm::all_of(op->getOperands(), small) && small(op->getResult(0)) &&
         (plan.groups + 2) * plan.tile.rows + plan.rows < most;
}

/// Emits zeros for the whole result.
void emitZeros(Threads &t, const Launch &launch, Value result) {
  auto type = cast<MemRefType>(result.getType());
  Value zero = arith::ConstantOp::create(t.b, t.loc, t.b.getZeroAttr(type.getElementType()));
  Value first = t.add(t.mul(t.block(), t.index(launch.threads)), t.thread());
  t.forRange(first, t.index(type.getNumElements()), t.index(launch.blocks * launch.threads),
             [&](Value at) { t.store(zero, result, at); });
}

/// Begins a kernel. Returns whether there is something to multiply: else it emits zeros.
bool begin(Threads &t, Operation *op, const Plan &plan, const Launch &launch,
           gpu::GPUFuncOp function, Value result) {
  if (hasNarrowIndices(op, plan))
    function->setAttr(kNarrowIndex, t.b.getUnitAttr());
  if (plan.isEmpty())
    emitZeros(t, launch, result);
  return !plan.isEmpty();
}

struct GroupedKernel : cuda::OwnKernelOpInterface::ExternalModel<GroupedKernel, GroupedMatmulOp> {
  static Plan planOf(GroupedMatmulOp op) {
    Plan plan;
    plan.element = typeOf(op.getLhs()).getElementType();
    plan.groups = typeOf(op.getEnds()).getDimSize(0);
    plan.rows = typeOf(op.getLhs()).getDimSize(0);
    plan.terms = typeOf(op.getLhs()).getDimSize(1);
    plan.columns = typeOf(op.getResult()).getDimSize(1);
    plan.tile = MatrixTile::sizeOf(plan.element, plan.rows / plan.groups, plan.columns);
    return plan;
  }
  bool isSupported(Operation *op) const { return hasTile(getElementTypeOrSelf(op->getOperand(0))); }
  /// Each group, and the rows after the last one, has at most one tile that is not whole.
  Launch getLaunch(Operation *op) const {
    Plan plan = planOf(cast<GroupedMatmulOp>(op));
    int64_t down = llvm::divideCeil(plan.rows, plan.tile.rows) + plan.groups;
    return {std::max<int64_t>(1, down * plan.tilesAcross()), plan.tile.threads};
  }

  LogicalResult emit(Operation *raw, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
                     ValueRange results) const {
    auto op = cast<GroupedMatmulOp>(raw);
    Plan plan = planOf(op);
    Threads t(b, function);
    if (!begin(t, op, plan, getLaunch(op), function, results[0]))
      return success();
    Value across = t.index(plan.tilesAcross());
    Value down = arith::DivUIOp::create(b, t.loc, t.block(), across);
    Value column =
        t.mul(arith::RemUIOp::create(b, t.loc, t.block(), across), t.index(plan.tile.columns));
    auto [group, first, end] = findTile(t, plan, operands[2], down);
    Value inGroup = t.less(group, t.index(plan.groups));
    Value matrix =
        t.mul(t.min(group, t.index(plan.groups - 1)), t.index(plan.terms * plan.columns));
    bool transposed = op.getTransposeRhs();
    TileFactor lhs{operands[0], t.index(0), plan.rows, plan.terms, /*keepsLines=*/true, first};
    TileFactor rhs{operands[1], matrix, plan.columns, transposed ? plan.terms : plan.columns,
                   transposed,  column};
    Terms terms{t.index(0), t.select(inGroup, t.index(plan.terms), t.index(0)), plan.terms,
                /*whole=*/true};
    Output output{results[0],
                  t.index(0),
                  plan.columns,
                  first,
                  end,
                  column,
                  getElementTypeOrSelf(op.getResult())};
    MatrixTile::create(t, plan.element, plan.tile)->emit(lhs, rhs, terms, output);
    return success();
  }

private:
  struct Found {
    Value group, first, end; ///< the number of groups for a tile after them; rows
  };

  /// Finds the tile with this number. One that no group has begins after all rows.
  static Found findTile(Threads &t, const Plan &plan, Value ends, Value number) {
    Value height = t.index(plan.tile.rows);
    Value none = t.index(plan.groups);
    // The tiles of the groups before; then what is found.
    Threads::Values found =
        Groups(t, ends, plan.rows)
            .forEach({t.index(0), none, t.index(0), t.index(0)},
                     [&](Value group, Value begin, Value end, ValueRange state) -> Threads::Values {
                       Value size = t.sub(end, begin);
                       Value tiles = arith::DivUIOp::create(
                           t.b, t.loc, t.add(size, t.index(plan.tile.rows - 1)), height);
                       Value own = t.sub(number, state[0]);
                       // Unsigned: the tile of an earlier group has a negative number.
                       Value here =
                           arith::CmpIOp::create(t.b, t.loc, arith::CmpIPredicate::ult, own, tiles);
                       return {t.add(state[0], tiles), t.select(here, group, state[1]),
                               t.select(here, t.add(begin, t.mul(own, height)), state[2]),
                               t.select(here, end, state[3])};
                     });
    Value isFound = t.less(found[2], none);
    Value after = t.add(found[0], t.mul(t.sub(number, found[1]), height));
    return {found[2], t.select(isFound, found[3], after),
            t.select(isFound, found[4], t.index(plan.rows))};
  }
};

struct GroupedGradKernel
    : cuda::OwnKernelOpInterface::ExternalModel<GroupedGradKernel, GroupedMatmulGradOp> {
  static Plan planOf(GroupedMatmulGradOp op) {
    Plan plan;
    plan.element = typeOf(op.getLhs()).getElementType();
    plan.groups = typeOf(op.getEnds()).getDimSize(0);
    plan.rows = typeOf(op.getLhs()).getDimSize(1);
    plan.terms = typeOf(op.getLhs()).getDimSize(0);
    plan.columns = typeOf(op.getRhs()).getDimSize(1);
    plan.tile = MatrixTile::sizeOf(plan.element, plan.rows, plan.columns);
    return plan;
  }
  static int64_t tilesDown(const Plan &plan) { return llvm::divideCeil(plan.rows, plan.tile.rows); }
  bool isSupported(Operation *op) const { return hasTile(getElementTypeOrSelf(op->getOperand(0))); }
  Launch getLaunch(Operation *op) const {
    Plan plan = planOf(cast<GroupedMatmulGradOp>(op));
    return {std::max<int64_t>(1, plan.groups * tilesDown(plan) * plan.tilesAcross()),
            plan.tile.threads};
  }

  LogicalResult emit(Operation *raw, OpBuilder &b, gpu::GPUFuncOp function, ValueRange operands,
                     ValueRange results) const {
    auto op = cast<GroupedMatmulGradOp>(raw);
    Plan plan = planOf(op);
    Threads t(b, function);
    if (!begin(t, op, plan, getLaunch(op), function, results[0]))
      return success();
    auto div = [&](Value x, int64_t y) -> Value {
      return arith::DivUIOp::create(b, t.loc, x, t.index(y));
    };
    auto rem = [&](Value x, int64_t y) -> Value {
      return arith::RemUIOp::create(b, t.loc, x, t.index(y));
    };
    int64_t tiles = tilesDown(plan) * plan.tilesAcross();
    Value group = div(t.block(), tiles), tile = rem(t.block(), tiles);
    Value row = t.mul(div(tile, plan.tilesAcross()), t.index(plan.tile.rows));
    Value column = t.mul(rem(tile, plan.tilesAcross()), t.index(plan.tile.columns));
    Threads::Values range =
        Groups(t, operands[2], plan.terms)
            .forEach(
                {t.index(0), t.index(0)},
                [&](Value number, Value begin, Value end, ValueRange state) -> Threads::Values {
                  Value here =
                      arith::CmpIOp::create(b, t.loc, arith::CmpIPredicate::eq, number, group);
                  return {t.select(here, begin, state[0]), t.select(here, end, state[1])};
                });
    TileFactor lhs{operands[0], t.index(0), plan.rows, plan.rows, /*keepsLines=*/false, row};
    TileFactor rhs{operands[1],  t.index(0),           plan.columns,
                   plan.columns, /*keepsLines=*/false, column};
    Terms terms{range[1], range[2], plan.terms, /*whole=*/false};
    Output output{results[0],
                  t.mul(group, t.index(plan.rows * plan.columns)),
                  plan.columns,
                  row,
                  t.index(plan.rows),
                  column,
                  getElementTypeOrSelf(op.getResult())};
    MatrixTile::create(t, plan.element, plan.tile)->emit(lhs, rhs, terms, output);
    return success();
  }
};

} // namespace

void cuda::attachGroupedMatmulKernels(MLIRContext &context) {
  GroupedMatmulOp::attachInterface<GroupedKernel>(context);
  GroupedMatmulGradOp::attachInterface<GroupedGradKernel>(context);
}
