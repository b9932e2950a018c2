//===- Cluster.cpp - Ops that become one kernel ---------------------------===//
#include "dialects/nn/Ops/Cluster.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"

using namespace mlir;

namespace shale::interp {

void registerCluster(Registry &registry) {
  registry.addLockstep<nn::ClusterOp>([](MutableArrayRef<Call> calls) -> LogicalResult {
    auto op = cast<nn::ClusterOp>(calls[0].op);
    RankValues arguments;
    for (Call &call : calls)
      arguments.push_back(std::move(call.operands));
    auto results = calls[0].interpreter.runBlock(op.getBody().front(), std::move(arguments));
    if (failed(results))
      return failure();
    for (auto [call, values] : llvm::zip(calls, *results))
      call.results = std::move(values);
    return success();
  });
}

} // namespace shale::interp
