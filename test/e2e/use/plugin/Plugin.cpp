//===- Plugin.cpp - What the plug-in adds ---------------------------------===//
#include "shale/Plugin.h"
#include "Acme.h"
#include "lib/Frontend/ONNX/Node.h"
#include "lib/Interpreter/Interpreter.h"
#include "mlir/IR/DialectRegistry.h"

using namespace acme;
using namespace mlir;
using namespace shale;

/// com.acme Snake: one operand, float attribute alpha (default 1).
static LogicalResult importSnake(onnx::Node &node) {
  if (failed(node.require(1)))
    return failure();
  onnx::Tensor x = node.input(0);
  double alpha = node.floatAttr("alpha", 1);
  if (!x.hasFloats() || !(alpha > 0))
    return node.error("needs floats and a positive alpha");
  node.set(0, node.create<SnakeOp>(x.getType(), x, node.builder.getF64FloatAttr(alpha)));
  return success();
}

/// The op in f64; the interpreter rounds the result to its type.
static LogicalResult evaluateSnake(SnakeOp op, interp::Call &call) {
  double alpha = op.getAlpha().convertToDouble();
  const interp::Tensor &x = call.operand(0);
  interp::Tensor &y = call.result();
  for (int64_t i = 0; i < x.size(); ++i) {
    double sine = std::sin(alpha * x.floats()[i]);
    y.mutableFloats()[i] = x.floats()[i] + sine * sine / alpha;
  }
  return success();
}

const PluginInfo *shaleGetPlugin() {
  static const PluginInfo info = {
      SHALE_ABI,
      "acme",
      "1.0",
      [](DialectRegistry &registry) { registry.insert<AcmeDialect>(); },
      registerAcmePasses,
      [](onnx::HandlerRegistry &registry) { registry.add("com.acme", "Snake", 1, importSnake); },
      [](interp::Registry &registry) { registry.add<SnakeOp>(evaluateSnake); }};
  return &info;
}
