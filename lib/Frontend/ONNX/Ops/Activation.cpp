//===- Activation.cpp - Activations decomposed into simpler ops -----------===//
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static Value scaled(Node &node, Value value, double factor) {
  if (!value || factor == 1)
    return value;
  return node.binary<nn::MulOp>(value, node.constant(Node::type(value), factor));
}

static Value shifted(Node &node, Value value, double by) {
  return value ? node.binary<nn::AddOp>(value, node.constant(Node::type(value), by)) : Value();
}

static Value clamped(Node &node, Value value, double low, double high) {
  auto bound = [&](double number) {
    return value ? node.constant(Node::type(value), number) : Value();
  };
  value = bounded(node, value, bound(low), nn::Predicate::LE);
  return bounded(node, value, bound(high), nn::Predicate::GE);
}

/// x where it is above `threshold`, else `other`.
static Value above(Node &node, Value x, double threshold, Value other) {
  Value condition = node.binary(x, node.constant(Node::type(x), threshold), nn::Predicate::GT);
  return condition && other ? node.create<nn::SelectOp>(x.getType(), condition, x, other) : Value();
}

/// exp(min(x, 0) / divisor) - 1: the branch that is not taken must not overflow, or its gradient is
/// NaN.
static Value negativeExponential(Node &node, Value x, double divisor) {
  Value low = bounded(node, x, node.constant(Node::type(x), 0), nn::Predicate::GT);
  Value power = scaled(node, low, 1 / divisor);
  return node.unary<nn::Expm1Op>(power);
}

static LogicalResult importElu(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0);
  node.set(0, above(node, x, 0,
                    scaled(node, negativeExponential(node, x, 1), node.floatAttr("alpha", 1))));
  return success();
}

static LogicalResult importCelu(Node &node) {
  double alpha = node.floatAttr("alpha", 1);
  if (failed(node.requireFloats(1)))
    return failure();
  if (alpha == 0)
    return node.error("alpha is 0, by which it divides");
  Value x = node.input(0);
  node.set(0, above(node, x, 0, scaled(node, negativeExponential(node, x, alpha), alpha)));
  return success();
}

static LogicalResult importSelu(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0);
  Value low = scaled(node, negativeExponential(node, x, 1),
                     node.floatAttr("alpha", 1.67326319217681884765625));
  node.set(
      0, scaled(node, above(node, x, 0, low), node.floatAttr("gamma", 1.05070102214813232421875)));
  return success();
}

static LogicalResult importSoftplus(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  node.set(0, softplus(node, node.input(0)));
  return success();
}

/// x * tanh(log(1 + exp(x)))
static LogicalResult importMish(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0);
  node.set(0, node.binary<nn::MulOp>(x, node.unary<nn::TanhOp>(softplus(node, x))));
  return success();
}

static LogicalResult importHardSigmoid(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value line = shifted(node, scaled(node, node.input(0), node.floatAttr("alpha", 0.2)),
                       node.floatAttr("beta", 0.5));
  node.set(0, clamped(node, line, 0, 1));
  return success();
}

static LogicalResult importHardSwish(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value gate = clamped(node, shifted(node, scaled(node, node.input(0), 1.0 / 6), 0.5), 0, 1);
  node.set(0, node.binary<nn::MulOp>(node.input(0), gate));
  return success();
}

static LogicalResult importSoftsign(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  node.set(0, node.binary<nn::DivOp>(node.input(0),
                                     shifted(node, node.unary<nn::AbsOp>(node.input(0)), 1)));
  return success();
}

static LogicalResult importThresholdedRelu(Node &node) {
  if (failed(node.requireFloats(1)))
    return failure();
  Value x = node.input(0);
  node.set(0, above(node, x, node.floatAttr("alpha", 1), node.constant(Node::type(x), 0)));
  return success();
}

/// x where it is not negative, else slope * x; the slope is broadcast to x.
static LogicalResult importPRelu(Node &node) {
  if (failed(node.requireFloats(2)))
    return failure();
  Value x = node.input(0);
  Value low = node.binary<nn::MulOp>(x, node.input(1));
  if (!low || low.getType() != x.getType())
    return node.error("its slope must be broadcastable to its operand");
  node.set(0, above(node, x, 0, low));
  return success();
}

void onnx::registerActivationOps(HandlerRegistry &r) {
  r.add("", "Celu", 12, importCelu);
  r.add("", "Elu", 6, importElu);
  r.add("", "HardSigmoid", 6, importHardSigmoid);
  r.add("", "HardSwish", 14, importHardSwish);
  r.add("", "Mish", 18, importMish);
  r.add("", "PRelu", 9, importPRelu);
  r.add("", "Selu", 6, importSelu);
  r.add("", "Softplus", 1, importSoftplus);
  r.add("", "Softsign", 1, importSoftsign);
  r.add("", "ThresholdedRelu", 10, importThresholdedRelu);
}
