//===- HyperTables.h - Tables of hyper-parameters -------------------------===//
#ifndef SHALE_PASSES_PROGRAM_HYPERTABLES_H
#define SHALE_PASSES_PROGRAM_HYPERTABLES_H

#include "dialects/nn/Optimizers.h"
#include "dialects/rt/RT.h"
#include "lib/Codegen/ProgramData.h"
#include "mlir/IR/BuiltinOps.h"

namespace shale {

/// Returns the table of the scalars that @step reads. Fails after an error if the optimizer does
/// not have one of them, or if one is computed from a scalar that @step does not read.
mlir::FailureOr<abi::Rows<ShaleHyper>> hyperTable(rt::FuncOp step, abi::ProgramData &data,
                                                  const nn::Optimizer &optimizer);

/// Returns the flags of other optimizers, as strings.
mlir::ArrayAttr foreignFlags(mlir::MLIRContext *context, const nn::Optimizer &own);

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_HYPERTABLES_H
