//===- LoopNest.cpp - Nested loops that ops are inserted into -------------===//
#include "lib/Codegen/LoopNest.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace shale;

void LoopNest::pushScope(Block *block, Operation *before) {
  scopes.push_back(std::make_unique<Scope>(Scope{block, before, {}, {}, {}, {}}));
  setInsertion();
}

LoopNest::Scopes LoopNest::takeDeeper(unsigned depth) {
  Scopes deeper;
  for (unsigned i = depth + 1; i < scopes.size(); ++i)
    deeper.push_back(std::move(scopes[i]));
  scopes.resize(depth + 1);
  return deeper;
}

void LoopNest::putBack(Scopes deeper) {
  for (std::unique_ptr<Scope> &scope : deeper)
    scopes.push_back(std::move(scope));
}

void LoopNest::setInsertion(unsigned depth) {
  Scope &scope = *scopes[depth];
  if (scope.before)
    b.setInsertionPoint(scope.before);
  else
    b.setInsertionPointToEnd(scope.block);
}

unsigned LoopNest::insertionDepth() const {
  for (unsigned i = scopes.size(); i-- > 0;)
    if (scopes[i]->block == b.getInsertionBlock())
      return i;
  return depth();
}

scf::ForOp LoopNest::openLoop(Value lower, Value upper, int64_t step, ValueRange values) {
  setInsertion();
  Value stride = constantIndex(step);
  auto loop = scf::ForOp::create(b, loc, lower, upper, stride, values);
  // Values of this scope that the body uses are emitted before the loop.
  scope().before = loop;
  Block *body = loop.getBody();
  pushScope(body, body->mightHaveTerminator() ? body->getTerminator() : nullptr);
  return loop;
}

ValueRange LoopNest::closeLoop(scf::ForOp loop, ValueRange values) {
  setInsertion();
  if (!scope().before)
    scf::YieldOp::create(b, loc, values);
  popScope();
  Operation *next = loop->getNextNode();
  scope().before = next;
  setInsertion();
  return loop.getResults();
}

Value LoopNest::constantIndex(int64_t value) {
  return arith::ConstantIndexOp::create(b, loc, value);
}
