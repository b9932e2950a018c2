//===- Aliases.h - Results that reuse operands' buffers -------------------===//
//
// `aliases [0, -1]` on ops whose region becomes a kernel: nn.cluster, rt.kernel.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_NN_OPS_ALIASES_H
#define SHALE_NN_OPS_ALIASES_H

#include "mlir/IR/OpImplementation.h"

namespace shale::nn {

/// Parses and prints the part after the types: aliases if there are any,
/// attributes, and the region with `arguments`.
mlir::ParseResult
parseKernelBody(mlir::OpAsmParser &parser, mlir::OperationState &state,
                mlir::StringAttr aliasesName, llvm::ArrayRef<mlir::OpAsmParser::Argument> arguments,
                llvm::function_ref<mlir::ParseResult()> afterAttributes = nullptr);
void printKernelBody(mlir::OpAsmPrinter &printer, mlir::Operation *op,
                     mlir::DenseI64ArrayAttr aliases, llvm::ArrayRef<llvm::StringRef> elided);

/// Checks that there is one entry per result: -1, or an input (called `what`) of
/// the same type that no other result uses.
mlir::LogicalResult verifyAliases(mlir::Operation *op, llvm::ArrayRef<int64_t> aliases,
                                  mlir::TypeRange inputs, mlir::TypeRange results,
                                  llvm::StringRef what);

} // namespace shale::nn

#endif // SHALE_NN_OPS_ALIASES_H
