//===- Sort.cpp - Orders of elements --------------------------------------===//
//
// The first K elements of a line: a heap of K indices, whose root comes last, takes
// each later element that comes before its root. Then the roots are taken one after
// another, from the back of the result on. The order of indices is a counting sort.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Sort.h"
#include "lib/Target/CPU/Kernels/Kernels.h"
#include "lib/Target/CPU/Kernels/Loops.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace shale::cpu;
using namespace shale::nn;

namespace {

/// Emits the first `count` elements of lines of `size`.
class LineOrder {
public:
  LineOrder(Loops &l, TopKOp op, Value input, Value values, Value indices)
      : l(l), smallest(op.getSmallest()), type(getElementTypeOrSelf(op.getInput())),
        number(getElementTypeOrSelf(op.getIndices())),
        size(tensorOf(op.getInput()).getShape().back()),
        count(tensorOf(op.getIndices()).getShape().back()), input(input), values(values),
        indices(indices) {}

  void emit(Value row) {
    line = l.mul(row, l.index(size));
    heap = l.mul(row, l.index(count));
    l.forRange(l.index(0), l.index(count), [&](Value i) { setItem(i, i); });
    l.forRange(l.index(0), l.index(count / 2), [&](Value i) {
      Value at = l.sub(l.index(count / 2 - 1), i);
      sink(at, item(at), l.index(count));
    });
    l.forRange(l.index(count), l.index(size), [&](Value i) {
      when(before(i, item(l.index(0))), [&] { sink(l.index(0), i, l.index(count)); });
    });
    l.forRange(l.index(0), l.index(count), [&](Value i) {
      Value last = l.sub(l.index(count - 1), i), moved = item(last), root = item(l.index(0));
      sink(l.index(0), moved, last);
      setItem(last, root);
    });
    l.forRange(l.index(0), l.index(count), [&](Value i) {
      memref::StoreOp::create(l.b, l.loc, element(item(i)), values, l.add(heap, i));
    });
  }

private:
  Value element(Value i) { return memref::LoadOp::create(l.b, l.loc, input, l.add(line, i)); }
  Value item(Value at) {
    return l.toIndex(memref::LoadOp::create(l.b, l.loc, indices, l.add(heap, at)));
  }
  void setItem(Value at, Value i) {
    Value index = arith::IndexCastOp::create(l.b, l.loc, number, i);
    memref::StoreOp::create(l.b, l.loc, index, indices, l.add(heap, at));
  }
  /// Whether element i of the line comes before element j.
  Value before(Value i, Value j) {
    Value x = l.loadScalar(input, l.add(line, i), type),
          y = l.loadScalar(input, l.add(line, j), type);
    return l.comesBefore(x, i, y, j, smallest);
  }
  Value truth(bool value) { return arith::ConstantOp::create(l.b, l.loc, l.b.getBoolAttr(value)); }

  void when(Value condition, llvm::function_ref<void()> body) {
    auto branch = scf::IfOp::create(l.b, l.loc, condition);
    OpBuilder::InsertionGuard guard(l.b);
    l.b.setInsertionPoint(branch.thenBlock()->getTerminator());
    body();
  }

  /// Puts `moved` at a place of the heap's first `length` items, or below it: items that come after
  /// it move up.
  void sink(Value at, Value moved, Value length) {
    Type index = l.b.getIndexType();
    auto loop = scf::WhileOp::create(l.b, l.loc, TypeRange{index, index}, ValueRange{at, at});
    OpBuilder::InsertionGuard guard(l.b);
    // Before: the place, and its child that comes last. Goes on if that comes after `moved`.
    Block *test = l.b.createBlock(&loop.getBefore(), {}, {index, index}, {l.loc, l.loc});
    Value here = test->getArgument(0);
    Value left = l.add(l.add(here, here), l.index(1)), right = l.add(left, l.index(1));
    auto child = scf::IfOp::create(l.b, l.loc, TypeRange{l.b.getI1Type(), index},
                                   l.less(left, length), /*withElseRegion=*/true);
    {
      OpBuilder::InsertionGuard inner(l.b);
      l.b.setInsertionPointToStart(child.elseBlock());
      scf::YieldOp::create(l.b, l.loc, ValueRange{truth(false), here});
      l.b.setInsertionPointToStart(child.thenBlock());
      Value other = l.select(l.less(right, length), right, left);
      Value later = l.select(before(item(left), item(other)), other, left);
      scf::YieldOp::create(l.b, l.loc, ValueRange{before(moved, item(later)), later});
    }
    scf::ConditionOp::create(l.b, l.loc, child.getResult(0), ValueRange{here, child.getResult(1)});
    Block *step = l.b.createBlock(&loop.getAfter(), {}, {index, index}, {l.loc, l.loc});
    setItem(step->getArgument(0), item(step->getArgument(1)));
    scf::YieldOp::create(l.b, l.loc, ValueRange{step->getArgument(1), step->getArgument(1)});
    l.b.setInsertionPointAfter(loop);
    setItem(loop.getResult(0), moved);
  }

  Loops &l;
  bool smallest;
  Type type, number; ///< of elements and of indices
  int64_t size, count;
  Value input, values, indices;
  Value line, heap; ///< the first element of the line, and of its results
};

struct TopKKernel : OwnKernelOpInterface::ExternalModel<TopKKernel, TopKOp> {
  int64_t getRows(Operation *raw) const {
    int64_t rows = 1;
    for (int64_t size : tensorOf(cast<TopKOp>(raw).getInput()).getShape().drop_back())
      rows *= size;
    return rows;
  }
  int64_t getGrain(Operation *raw) const {
    constexpr int64_t elementsAtLeast = 4096;
    int64_t size = tensorOf(cast<TopKOp>(raw).getInput()).getShape().back();
    return std::max<int64_t>(1, elementsAtLeast / std::max<int64_t>(1, size));
  }
  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results,
                     Value begin, Value end, int64_t lanes) const {
    auto op = cast<TopKOp>(raw);
    Loops l(b, op.getLoc(), lanes);
    if (tensorOf(op.getIndices()).getNumElements() > 0)
      l.forRange(begin, end, [&](Value row) {
        LineOrder(l, op, operands[0], results[0], results[1]).emit(row);
      });
    return success();
  }
};

struct ArgsortKernel : OwnKernelOpInterface::ExternalModel<ArgsortKernel, ArgsortOp> {
  int64_t getRows(Operation *) const { return 1; }
  LogicalResult emit(Operation *raw, OpBuilder &b, ValueRange operands, ValueRange results, Value,
                     Value, int64_t lanes) const {
    auto op = cast<ArgsortOp>(raw);
    Location loc = op.getLoc();
    Loops l(b, loc, lanes);
    Value indices = operands[0], order = results[0], starts = results[1];
    Value none = l.index(0), bound = l.index(op.getBound()),
          count = l.index(elements(op.getIndices()));
    auto load = [&](Value from, Value at) {
      return l.toIndex(memref::LoadOp::create(b, loc, from, at));
    };
    auto store = [&](Value value, Value to, Value at) {
      memref::StoreOp::create(b, loc, arith::IndexCastOp::create(b, loc, b.getI32Type(), value), to,
                              at);
    };
    auto valueOf = [&](Value position) {
      Value value = load(indices, position);
      // Unsigned: a negative index is larger than every bound.
      Value inside = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, value, bound);
      return l.select(inside, value, bound);
    };
    Value size = l.add(bound, l.index(1));
    l.forRange(none, size, [&](Value value) { store(none, starts, value); });
    l.forRange(none, count, [&](Value position) {
      Value value = valueOf(position);
      store(l.add(load(starts, value), l.index(1)), starts, value);
    });
    // Counts become ends, then, from the last position on, starts.
    l.forRange(l.index(1), size, [&](Value value) {
      store(l.add(load(starts, value), load(starts, l.sub(value, l.index(1)))), starts, value);
    });
    l.forRange(none, count, [&](Value i) {
      Value position = l.sub(l.sub(count, i), l.index(1)), value = valueOf(position);
      Value place = l.sub(load(starts, value), l.index(1));
      store(position, order, place);
      store(place, starts, value);
    });
    return success();
  }
};

} // namespace

void shale::cpu::attachSortKernels(MLIRContext &context) {
  TopKOp::attachInterface<TopKKernel>(context);
  ArgsortOp::attachInterface<ArgsortKernel>(context);
}
