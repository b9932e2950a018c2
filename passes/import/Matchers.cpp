//===- Matchers.cpp - Helpers of the recovery patterns --------------------===//
#include "passes/import/Matchers.h"
#include "dialects/nn/NN.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include <cmath>

using namespace mlir;
using namespace shale;

bool recover::isClose(double a, double b) { return std::abs(a - b) <= 1e-5 * std::abs(b) + 1e-12; }

DenseElementsAttr recover::constantOf(Value value) {
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  return constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
}

std::optional<double> recover::splatOf(Value value) {
  while (auto broadcast = value.getDefiningOp<nn::BroadcastOp>())
    value = broadcast.getInput();
  DenseElementsAttr attr = constantOf(value);
  if (!attr || attr.getNumElements() == 0 || (!attr.isSplat() && attr.getNumElements() != 1) ||
      !isa<FloatType>(attr.getElementType()))
    return std::nullopt;
  APFloat number = *attr.getValues<APFloat>().begin();
  bool inexact;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
  return number.convertToDouble();
}

bool recover::isSplat(Value value, double number) {
  std::optional<double> splat = splatOf(value);
  return splat && isClose(*splat, number);
}

bool recover::eitherOrder(Operation *op, llvm::function_ref<bool(Value, Value)> body) {
  return body(op->getOperand(0), op->getOperand(1)) || body(op->getOperand(1), op->getOperand(0));
}

Value recover::peelScale(Value value, double &scale) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<nn::MulOp>(op)) {
      std::optional<double> right = splatOf(op->getOperand(1)), left = splatOf(op->getOperand(0));
      if (!right && !left)
        break;
      scale *= right ? *right : *left;
      value = op->getOperand(right ? 0 : 1);
    } else if (isa<nn::DivOp>(op)) {
      std::optional<double> divisor = splatOf(op->getOperand(1));
      if (!divisor || *divisor == 0)
        break;
      scale /= *divisor;
      value = op->getOperand(0);
    } else {
      break;
    }
  }
  return value;
}

Value recover::peelUnits(Value value) {
  auto sizes = [](Value v) {
    SmallVector<int64_t> kept;
    llvm::copy_if(tensor(v).getShape(), std::back_inserter(kept),
                  [](int64_t size) { return size != 1; });
    return kept;
  };
  while (auto reshape = value.getDefiningOp<nn::ReshapeOp>()) {
    if (sizes(reshape.getInput()) != sizes(value))
      break;
    value = reshape.getInput();
  }
  return value;
}

Value recover::peelRowBroadcast(Value value) {
  auto broadcast = value.getDefiningOp<nn::BroadcastOp>();
  if (!broadcast)
    return {};
  RankedTensorType in = tensor(broadcast.getInput()), out = tensor(value);
  // One element per row: the input has every dimension but the last in full.
  SmallVector<int64_t> rows(out.getRank(), 1);
  for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
    rows[dim] = in.getDimSize(i);
  if (rows.empty() || rows.back() != 1 ||
      ArrayRef<int64_t>(rows).drop_back() != out.getShape().drop_back())
    return {};
  return broadcast.getInput();
}

/// Whether the graph computes gradients. Its backward half reads intermediate values of the forward
/// half, which the patterns would compute a second time.
static bool hasGradients(Operation *root) {
  auto function = dyn_cast<FunctionOpInterface>(root);
  if (!function) {
    bool found = false;
    root->walk([&](FunctionOpInterface inner) { found |= hasGradients(inner); });
    return found;
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (function.getResultAttr(i, nn::kGradientOfAttr))
      return true;
  return false;
}

void recover::applyRecovery(Operation *root, RewritePatternSet patterns) {
  if (!hasGradients(root))
    applyPatterns(root, std::move(patterns));
}

void recover::applyPatterns(Operation *root, RewritePatternSet patterns) {
  GreedyRewriteConfig config;
  config.enableFolding(false);
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  (void)applyPatternsGreedily(root, std::move(patterns), config);
}

void recover::inherit(Operation *from, Operation *to) {
  to->setLoc(from->getLoc());
  if (Attribute scope = from->getAttr(nn::kScopeAttr))
    to->setAttr(nn::kScopeAttr, scope);
}
