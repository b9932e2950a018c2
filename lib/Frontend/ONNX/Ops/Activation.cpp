//===- Activation.cpp - Activations decomposed into simpler ops -----------===//
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static Value clamped(Node &node, Value value, double low, double high) {
  return bounded(node, bounded(node, value, low, nn::Predicate::LE), high, nn::Predicate::GE);
}

/// x where it is above `threshold`, else `other`.
static Value above(Node &node, Value x, double threshold, Operand other) {
  return node.select(node.binary(x, threshold, nn::Predicate::GT), x, other);
}

/// exp(min(x, 0) / divisor) - 1: the branch that is not taken must not overflow, or its gradient is
/// NaN.
static Value negativeExponential(Node &node, Value x, double divisor) {
  return node.expm1(scaled(node, bounded(node, x, 0, nn::Predicate::GT), 1 / divisor));
}

static Value importElu(Node &node) {
  Value x = node.input(0), low = negativeExponential(node, x, 1);
  return above(node, x, 0, scaled(node, low, node.floatAttr("alpha", 1)));
}

static Value importCelu(Node &node) {
  double alpha = node.floatAttr("alpha", 1);
  if (alpha == 0)
    return node.error("alpha is 0, by which it divides");
  Value x = node.input(0);
  return above(node, x, 0, scaled(node, negativeExponential(node, x, alpha), alpha));
}

static Value importSelu(Node &node) {
  Value x = node.input(0);
  double alpha = node.floatAttr("alpha", 1.67326319217681884765625);
  Value low = scaled(node, negativeExponential(node, x, 1), alpha);
  return scaled(node, above(node, x, 0, low), node.floatAttr("gamma", 1.05070102214813232421875));
}

static Value importSoftplus(Node &node) { return softplus(node, node.input(0)); }

/// x * tanh(log(1 + exp(x)))
static Value importMish(Node &node) {
  return node.mul(node.input(0), node.tanh(softplus(node, node.input(0))));
}

static Value importHardSigmoid(Node &node) {
  Value line = scaled(node, node.input(0), node.floatAttr("alpha", 0.2));
  return clamped(node, node.add(line, node.floatAttr("beta", 0.5)), 0, 1);
}

static Value importHardSwish(Node &node) {
  Value line = node.add(scaled(node, node.input(0), 1.0 / 6), 0.5);
  return node.mul(node.input(0), clamped(node, line, 0, 1));
}

static Value importSoftsign(Node &node) {
  return node.div(node.input(0), node.add(node.abs(node.input(0)), 1));
}

static Value importThresholdedRelu(Node &node) {
  return above(node, node.input(0), node.floatAttr("alpha", 1), 0);
}

/// x where it is not negative, else slope * x; the slope is broadcast to x.
static Value importPRelu(Node &node) {
  Value x = node.input(0), low = node.mul(x, node.input(1));
  if (!low || low.getType() != x.getType())
    return node.error("its slope must be broadcastable to its operand");
  return above(node, x, 0, low);
}

void onnx::registerActivationOps(HandlerRegistry &r) {
  r.add("", "Celu", 12, importCelu, floats(1));
  r.add("", "Elu", 6, importElu, floats(1));
  r.add("", "HardSigmoid", 6, importHardSigmoid, floats(1));
  r.add("", "HardSwish", 14, importHardSwish, floats(1));
  r.add("", "Mish", 18, importMish, floats(1));
  r.add("", "PRelu", 9, importPRelu, floats(2));
  r.add("", "Selu", 6, importSelu, floats(1));
  r.add("", "Softplus", 1, importSoftplus, floats(1));
  r.add("", "Softsign", 1, importSoftsign, floats(1));
  r.add("", "ThresholdedRelu", 10, importThresholdedRelu, floats(1));
}
