//===- OwnKernelForm.cpp - Bodies of dedicated kernels --------------------===//
#include "lib/Codegen/OwnKernelForm.h"
#include "dialects/nn/Ops/Cast.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace shale;

LogicalResult shale::checkUpdateFloats(OptimizerUpdateOpInterface update) {
  for (OpOperand *own : update.getOwnOperands())
    if (Type element = getElementTypeOrSelf(own->get());
        !element.isInteger() && !element.isF32() && !is16BitFloat(element))
      return update->emitOpError()
             << "has a kernel for f32 and 16-bit floats only; got " << element;
  return success();
}

bool shale::isStoredCast(Operation *user) {
  return isa<nn::CastOp>(user) && getElementTypeOrSelf(user->getOperand(0)).isF32() &&
         is16BitFloat(getElementTypeOrSelf(user->getResult(0)));
}

OwnKernelForm shale::findOwnKernelForm(Region &body) {
  Block &block = body.front();
  if (block.getOperations().size() < 2)
    return {};
  OwnKernelForm form;
  form.op = &block.front();
  SmallVector<Value> yielded = llvm::to_vector_of<Value>(form.op->getResults());
  for (Operation &op : llvm::drop_begin(block.without_terminator())) {
    auto result = isStoredCast(&op) ? dyn_cast<OpResult>(op.getOperand(0)) : OpResult();
    if (!result || result.getOwner() != form.op)
      return {};
    form.casts.push_back(
        {result.getResultNumber(), getElementTypeOrSelf(op.getResult(0)), Value()});
    yielded.push_back(op.getResult(0));
  }
  return llvm::equal(yielded, block.getTerminator()->getOperands()) ? form : OwnKernelForm();
}
