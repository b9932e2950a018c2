//===- Epilogue.h - What a library does with a matmul ---------------------===//
#ifndef SHALE_NN_EPILOGUE_H
#define SHALE_NN_EPILOGUE_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

#include "dialects/nn/EpilogueEnums.h.inc"

namespace shale::nn {

/// Checks the shapes of a matmul's operand `with`, its result and the values before activation
/// (null: not stored), of nn.matmul_epilogue or rt.gemm_epilogue. Returns what is wrong, or an
/// empty text.
std::string checkEpilogue(Epilogue epilogue, mlir::ShapedType with, mlir::ShapedType result,
                          mlir::ShapedType before);

} // namespace shale::nn

#endif // SHALE_NN_EPILOGUE_H
