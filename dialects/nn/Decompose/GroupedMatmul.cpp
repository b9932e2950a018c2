//===- GroupedMatmul.cpp - Matmuls of groups of rows, in simpler ops ------===//
//
// Rows are spread over the groups: [S, E * K], with zeros but for the own group of a row. One
// matmul with all matrices then does E times the work.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Decompose/Composer.h"
#include "dialects/nn/Ops/Compare.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

/// Returns x[s, k] as [S, E * K].
static Value spread(Composer &c, Value x, Value ends) {
  int64_t rows = Composer::type(x).getDimSize(0), columns = Composer::type(x).getDimSize(1),
          groups = Composer::type(ends).getDimSize(0);
  RankedTensorType table = Composer::type(ends).clone({rows, groups});
  Value zero = c.splat(Composer::type(ends).clone({1}), 0);
  Value begins =
      groups == 1 ? zero : c.concat({zero, c.slice(ends, 0, 0, groups - 1)}, {groups}, 0);
  Value row = c.iota(table, 0);
  Value inside = c.both(c.compare(Predicate::GE, row, c.alongColumns(begins, row)),
                        c.compare(Predicate::LT, row, c.alongColumns(ends, row)));
  SmallVector<int64_t> shape{rows, groups, columns};
  Value all = c.broadcast(x, shape, {0, 2});
  Value own = c.select(c.broadcast(inside, shape, {0, 1}), all, c.splat(all, 0));
  return c.reshape(own, {rows, groups * columns});
}

SmallVector<Value> GroupedMatmulOp::decompose(OpBuilder &b) {
  Composer c(b, *this);
  Value rhs = getTransposeRhs() ? c.transpose(getRhs(), {0, 2, 1}) : getRhs();
  ArrayRef<int64_t> shape = Composer::type(rhs).getShape();
  rhs = c.reshape(rhs, {shape[0] * shape[1], shape[2]});
  return {c.matmul(spread(c, getLhs(), getEnds()), rhs, false, false,
                   Composer::elementOf(getResult()))};
}

SmallVector<Value> GroupedMatmulGradOp::decompose(OpBuilder &b) {
  Composer c(b, *this);
  Value all = c.matmul(spread(c, getLhs(), getEnds()), getRhs(), true, false,
                       Composer::elementOf(getResult()));
  return {c.reshape(all, Composer::type(getResult()).getShape())};
}
