//===- Rebuild.cpp - What partition and materialize-units share -----------===//
#include "passes/sharding/Rebuild.h"
#include "dialects/nn/Ops/Elementwise.h"

using namespace mlir;

namespace shale {
inline namespace sharding {

dist::MeshOp meshOfFunctions(ModuleOp module) {
  dist::MeshOp mesh = dist::getMesh(module);
  if (mesh && !module.getOps<func::FuncOp>().empty())
    return mesh;
  module.emitError("has no mesh, or no function to partition");
  return {};
}

LogicalResult rebuildFunction(func::FuncOp function, func::FuncOp fresh, CopyUnsharded &listener,
                              llvm::function_ref<LogicalResult(Operation *)> rebuild) {
  for (Operation &op : function.getBody().front()) {
    listener.current = &op;
    if (failed(rebuild(&op))) {
      fresh.erase();
      return failure();
    }
  }
  function.erase();
  return success();
}

void returnFrom(func::FuncOp fresh, OpBuilder &builder, Location loc, ValueRange results) {
  func::ReturnOp::create(builder, loc, results);
  fresh.setFunctionType(builder.getFunctionType(fresh.getArgumentTypes(), results.getTypes()));
}

void ElementReduction::add(const AxisList &axes, Value part) {
  auto it = llvm::find_if(classes, [&](auto &c) { return c.first == axes; });
  if (it == classes.end())
    it = classes.insert(classes.end(), {axes, {}});
  it->second.push_back(part);
}

Value ElementReduction::build(OpBuilder &builder) {
  Value total;
  for (auto &[axes, operands] : classes) {
    OperationState state(op->getLoc(), op->getName(), operands, op->getResultTypes(),
                         op->getAttrs());
    Value part = builder.create(state)->getResult(0);
    removeLayouts(part.getDefiningOp());
    for (StringRef axis : axes)
      part = dist::AllReduceOp::create(builder, op->getLoc(), dist::Reduction::Sum, part, axis);
    total = total ? nn::AddOp::create(builder, op->getLoc(), total, part) : part;
  }
  return total;
}

} // namespace sharding
} // namespace shale
