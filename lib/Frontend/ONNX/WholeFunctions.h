//===- WholeFunctions.h - Functions that are imported as one op -----------===//
#ifndef SHALE_FRONTEND_ONNX_WHOLEFUNCTIONS_H
#define SHALE_FRONTEND_ONNX_WHOLEFUNCTIONS_H

#include "lib/Frontend/ONNX/Building.h"
#include "lib/Frontend/ONNX/Model.h"

namespace shale::onnx {

/// Domain of the functions for operators of PyTorch that a traced file keeps whole. Their bodies
/// compute them by standard operators (tools/export/shale_export/translations.py).
inline constexpr llvm::StringLiteral kAtenDomain = "shale.aten";

/// Returns a digest of what a function computes, in hexadecimal: of its operators, their attributes
/// and how they are connected. Names of values, and what describes the file, do not count.
std::string digestOf(const FunctionProto &function);

/// Imports a call of a function by an op that computes the same, and sets the call's results. The
/// function must have the body that the export writes, not only its name. Returns false, with no
/// error, if the body is to be imported instead: it is another one, or no op fits the operands.
bool importWhole(const FunctionProto &function, Node &node);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_WHOLEFUNCTIONS_H
