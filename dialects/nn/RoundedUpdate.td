//===- RoundedUpdate.td - Updates that can round stochastically -----------===//
#ifndef SHALE_NN_ROUNDEDUPDATE_TD
#define SHALE_NN_ROUNDEDUPDATE_TD

include "mlir/IR/Interfaces.td"

def RoundedUpdateInterface : OpInterface<"RoundedUpdateOpInterface"> {
  let cppNamespace = "::shale::nn";
  let description = [{
    An update (`OptimizerUpdateOpInterface`) that can round new parameters of bf16 stochastically, as
    `nn.adamw` describes. Without the operands of `getRoundingOperands` it rounds to nearest.
    `shale-precision` adds them, and `shale-materialize-units` numbers the elements of flat groups.
  }];
  let methods = [
    InterfaceMethod<"Returns the operands of stochastic rounding: a seed and a step, scalars of i64, or none.",
    "::mlir::OperandRange", "getRoundingOperands", (ins), "", "return $_op.getRounding();">,
    InterfaceMethod<[{
      Returns the number of the first element of the parameter, or of each segment; empty if all are 0.
    }],
    "::llvm::ArrayRef<int64_t>", "getRoundedNumbers", (ins), "",
    "return $_op.getNumbers().value_or(::llvm::ArrayRef<int64_t>());">,
    InterfaceMethod<[{
      Makes the op round new parameters stochastically. `numbers` has the number of the first element of the parameter, or
      of each segment.
    }],
    "void", "roundStochastically",
    (ins "::mlir::Value":$seed, "::mlir::Value":$step, "::llvm::ArrayRef<int64_t>":$numbers), "", [{
      $_op.getRoundingMutable().assign(::mlir::ValueRange{seed, step});
      $_op.setNumbers(numbers);
    }]>
  ];
  let extraClassDeclaration = [{
    bool isRoundedStochastically() { return !getRoundingOperands().empty(); }
    /// Returns the number of the operand that is the seed; that of the step follows.
    unsigned getSeedNumber() { return getRoundingOperands().getBeginOperandIndex(); }
    /// Returns the number of the first element of the parameter, or of a segment.
    int64_t getRoundedNumber(size_t segment) {
      return getRoundedNumbers().empty() ? 0 : getRoundedNumbers()[segment];
    }
  }];
}

#endif // SHALE_NN_ROUNDEDUPDATE_TD
