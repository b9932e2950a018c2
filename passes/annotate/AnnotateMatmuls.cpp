//===- AnnotateMatmuls.cpp - Chooses matmuls of 8-bit floats --------------===//
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/annotate/Passes.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATEMATMULSPASS
#include "passes/annotate/Passes.h.inc"

/// Returns why the module cannot have matmuls of 8-bit floats, or an empty string.
static std::string findObstacle(ModuleOp module, const Target &target) {
  if (!target.has8BitMatmuls())
    return "--matmul-dtype fp8: target " + target.getName().str() +
           " has no matmuls of 8-bit floats: give another --target, or leave out --matmul-dtype";
  auto policy = module->getAttrOfType<nn::PrecisionAttr>(nn::kPrecisionAttr);
  if (!policy || !policy.getParam().isBF16())
    return "--matmul-dtype fp8 needs parameters that are used in bf16: give --param-dtype bf16, or "
           "leave out --matmul-dtype";
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (function.getResultAttr(i, nn::kGradientOfAttr))
        return "--matmul-dtype fp8 needs gradients that Shale derives, and the file computes its "
               "own: leave it out, or export the model without gradients";
  return "";
}

/// Whether an operand of the matmul is a parameter, or a view, part or cast of one.
static bool multipliesParameter(nn::MatmulOp matmul) {
  return llvm::any_of(matmul->getOperands(), [](Value operand) {
    while (Operation *op = operand.getDefiningOp()) {
      if (op->getNumOperands() != 1)
        return false;
      operand = op->getOperand(0);
    }
    nn::StateOp state = nn::getState(cast<BlockArgument>(operand));
    return state && (state.getRole() == nn::Role::Param || state.getRole() == nn::Role::Divided);
  });
}

/// Returns the matmuls from which a result follows without another matmul: those of the head.
static llvm::SetVector<Operation *> lastMatmuls(func::FuncOp function) {
  llvm::SetVector<Operation *> last;
  llvm::SetVector<Value> values;
  values.insert_range(function.getBody().front().getTerminator()->getOperands());
  for (size_t i = 0; i < values.size(); ++i) {
    Operation *op = values[i].getDefiningOp();
    if (isa_and_nonnull<nn::MatmulOp>(op))
      last.insert(op);
    else if (op)
      values.insert_range(op->getOperands());
  }
  return last;
}

namespace {
struct AnnotateMatmulsPass : impl::AnnotateMatmulsPassBase<AnnotateMatmulsPass> {
  using AnnotateMatmulsPassBase::AnnotateMatmulsPassBase;

  void runOnOperation() final {
    ModuleOp module = getOperation();
    const Target *target = targetOf(module);
    if (!target)
      return signalPassFailure();
    if (std::string obstacle = findObstacle(module, *target); !obstacle.empty()) {
      module.emitError(obstacle);
      return signalPassFailure();
    }
    int64_t marked = 0;
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock())
        marked += mark(function);
    if (marked == 0)
      module.emitWarning("--matmul-dtype fp8 has no effect: the model has no matmul of a matrix "
                         "and a parameter but those of its head");
  }

  /// Returns the number of matmuls that are annotated.
  int64_t mark(func::FuncOp function) {
    Type fine = Float8E4M3FNType::get(&getContext());
    ArrayAttr quantized = Builder(&getContext()).getTypeArrayAttr({fine, fine});
    llvm::SetVector<Operation *> head = lastMatmuls(function);
    int64_t marked = 0;
    for (auto matmul : function.getBody().front().getOps<nn::MatmulOp>()) {
      if (cast<RankedTensorType>(matmul.getType()).getRank() != 2 || !multipliesParameter(matmul))
        continue;
      if (head.contains(matmul)) {
        emitDecision(matmul.getLoc(), "annotate-matmuls",
                     "no other matmul follows on the way to the loss: operands stay as they are");
        continue;
      }
      matmul.setQuantizedAttr(quantized);
      ++marked;
    }
    return marked;
  }
};
} // namespace

} // namespace shale
