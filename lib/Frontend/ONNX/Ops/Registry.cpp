//===- Registry.cpp - All op handlers -------------------------------------===//
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Support/MergeTables.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

mlir::LogicalResult Operator::import(Node &node) const {
  mlir::FailureOr<MetNeeds> met = checkNeeds(node, needs);
  if (mlir::failed(met))
    return mlir::failure();
  node.setMet(std::move(*met));
  return handler(node);
}

Operator HandlerRegistry::find(StringRef domain, StringRef type, int64_t version) const {
  auto it = table.find((domain + "::" + type).str());
  if (it == table.end())
    return {};
  auto newest = it->second.upper_bound(version);
  return newest == it->second.begin() ? Operator() : std::prev(newest)->second;
}

llvm::Error HandlerRegistry::merge(const HandlerRegistry &other) {
  return mergeTables(table, other.table, "operator", "a handler");
}

HandlerRegistry &onnx::getHandlers() {
  static HandlerRegistry registry = [] {
    HandlerRegistry all;
    for (Family *add : {registerAttentionOps, registerControlOps, registerConvOps, registerDataOps,
                        registerElementwiseOps, registerFourierOps, registerIndexOps,
                        registerLossOps, registerMatmulOps, registerNormOps, registerRandomOps,
                        registerRecurrentOps, registerReduceOps, registerResizeOps})
      add(all);
    return all;
  }();
  return registry;
}
