//===- Muon.cpp - Muon, with AdamW for the rest ---------------------------===//
#include "dialects/nn/Decompose/Composer.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Optimizers/Real.h"
#include "mlir/IR/BuiltinOps.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::nn;

static constexpr llvm::StringLiteral slots[] = {"momentum"};
// Defaults are those of torch.optim.Muon.
static constexpr HyperParameter hypers[] = {
    {"lr", HyperSource::LearningRate},
    {"momentum", HyperSource::Flag, 0.95, 1, true, "decay of the momentum"},
    {"nesterov", HyperSource::Flag, 1, 1, false, "1: Nesterov's momentum; 0: standard momentum"},
    {"match_rms_adamw", HyperSource::Flag, 0, 1, false,
     "factor on the learning rate of a matrix; 1: 0.2 * sqrt(max(rows, columns)), for rates of AdamW's size; 0: sqrt(max(1, rows / columns))"},
    {"weight_decay", HyperSource::Flag, 0.1, 1e6, false, "weight decay of the matrices"},
};

// Those of nn.adamw.
static constexpr HyperParameter restHypers[] = {
    {"adamw_rate", HyperSource::OwnRate, 0, 0, false, "adamw_lr"},
    {"beta1", HyperSource::Flag, 0.9, 1, true, "decay of AdamW's first moment"},
    {"beta2", HyperSource::Flag, 0.999, 1, true, "decay of AdamW's second moment"},
    {"eps", HyperSource::Flag, 1e-8, 1e6, false, "added to the root of AdamW's second moment"},
    {"adamw_weight_decay", HyperSource::Flag, 0.01, 1e6, false,
     "weight decay of the parameters that AdamW updates"},
    {"bias1", HyperSource::BiasCorrection, 0, 0, false, "beta1"},
    {"bias2", HyperSource::BiasCorrection, 0, 0, false, "beta2"},
    {"adamw_lr", HyperSource::Flag, 0, 1e6, false,
     "learning rate of the parameters that AdamW updates, with the schedule of --lr; 0: that of --lr"},
};

static constexpr RestOptimizer rest{AdamwOp::getOptimizer, restHypers};

const Optimizer &MuonOp::getOptimizer() {
  static const Optimizer optimizer{"muon", slots, hypers, nullptr, 0, false, &rest};
  return optimizer;
}

LogicalResult MuonOp::verify() {
  auto param = cast<RankedTensorType>(getParam().getType());
  if (param.getRank() != 2) // muon_c2
    return emitOpError() << "updates matrices; got " << param;
  return success();
}

/// Jordan's approximation of the nearest semi-orthogonal matrix: five steps of the odd polynomial
/// whose coefficients his page derives (kellerjordan.github.io/posts/muon). The smaller side is
/// that of the square matmuls. Matmuls read their operands rounded to `compute`. A third
/// dimension stacks matrices.
static Value orthogonalize(Composer &b, Value x, Type compute) {
  constexpr double c1 = 3.4445, c3 = -4.7750, c5 = 2.0315;
  constexpr int steps = 5;
  ArrayRef<int64_t> sizes = Composer::type(x).getShape().take_back(2);
  bool tall = sizes[0] > sizes[1];
  Type real = Composer::elementOf(x);
  for (int i = 0; i < steps; ++i) {
    Value rounded = b.cast(x, compute);
    Value gram = b.matmul(rounded, rounded, tall, !tall, real);
    Value roundedGram = b.cast(gram, compute);
    Value square = b.matmul(roundedGram, roundedGram, false, false, real);
    Value terms = b.add(b.mul(b.splat(gram, c3), gram), b.mul(b.splat(square, c5), square));
    terms = b.cast(terms, compute);
    Value high = b.matmul(tall ? rounded : terms, tall ? terms : rounded, false, false, real);
    x = b.add(b.mul(b.splat(x, c1), x), high);
  }
  return x;
}

/// Returns the type in which the module computes matmuls: bf16 if its policy says so, else
/// the type of the update. The range of f16 is too small for the products of small elements.
static Type matmulType(Operation *op, Type real) {
  auto policy = op->getParentOfType<ModuleOp>()->getAttrOfType<PrecisionAttr>(nn::kPrecisionAttr);
  return policy && policy.getParam().isBF16() ? policy.getParam() : real;
}

SmallVector<Value> MuonOp::buildGroupUpdate(OpBuilder &builder, const GroupUpdate &group) {
  Composer b(builder, *this);
  Adaptor in(group.operands, *this);
  Type real = Composer::elementOf(in.getScale());
  Value g = b.cast(in.getGrad(), real), momentum = b.cast(in.getMomentum(), real);
  auto like = [&](Value scalar) { return b.scalar(scalar, g); };
  Value one = b.splat(in.getBeta(), 1);
  g = b.mul(g, like(in.getScale()));
  auto towards = [&](Value from, Value weight) {
    return b.add(from, b.mul(b.sub(g, from), like(weight)));
  };
  Value weight = b.sub(one, in.getBeta());
  Value ahead = towards(towards(momentum, weight), b.mul(weight, in.getNesterov()));

  SmallVector<Value> matrices = group.gatherParameters(ahead);
  for (Value &x : matrices) {
    constexpr double least = 1e-7; // of the norm
    Value squares = SumSquaresOp::create(builder, group.loc, Composer::type(one), x);
    x = b.div(x, b.scalar(b.sqrt(b.max(squares, b.splat(squares, least * least))), x));
  }
  Type compute = matmulType(*this, real);
  matrices = group.divideMatrices(matrices, [&](Value x) { return orthogonalize(b, x, compute); });
  for (Value &x : matrices) {
    auto rows = double(Composer::type(x).getDimSize(0));
    auto columns = double(Composer::type(x).getDimSize(1));
    auto share = [&](Value weight, double factor) {
      return b.mul(weight, b.splat(weight, factor));
    };
    Value factor =
        b.add(share(in.getMatchRmsAdamw(), 0.2 * std::sqrt(std::max(rows, columns))),
              share(b.sub(one, in.getMatchRmsAdamw()), std::sqrt(std::max(1.0, rows / columns))));
    x = b.mul(x, b.scalar(factor, x));
  }

  auto step = MuonStepOp::create(
      builder, group.loc, in.getParam(), in.getGrad(), in.getMomentum(), group.takeSlice(matrices),
      in.getEnable(), in.getScale(), in.getLr(), in.getBeta(), in.getWeightDecay(),
      /*rounding=*/ValueRange(), group.offset, /*factors=*/UpdateFactorsAttr(),
      /*numbers=*/DenseI64ArrayAttr(), updateRanges(builder, group));
  return {step.getNewParam(), step.getNewMomentum()};
}

SmallVector<Value> MuonStepOp::emitUpdate(const UpdateElement &at) {
  Adaptor in(at.operands, *this);
  auto [param, momentum, direction, g] =
      reals(at, in.getParam(), in.getMomentum(), in.getDirection(), in.getGrad());
  auto [lr, beta, weightDecay] = reals(at, in.getLr(), in.getBeta(), in.getWeightDecay());
  Real p = param * (1 - lr * weightDecay);
  return {p - lr * direction, momentum + (g - momentum) * (1 - beta), direction};
}
