//===- Refusal.h - Why a file is refused ----------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RULES_REFUSAL_H
#define SHALE_FRONTEND_ONNX_RULES_REFUSAL_H

#include "lib/Frontend/ONNX/Reader/Model.h"

namespace shale::onnx {

/// The reasons for which a file is refused. Refusals.def has the messages.
enum class Reason {
#define REFUSAL(reason, message, remedy) reason,
#include "lib/Frontend/ONNX/Rules/Refusals.def"
};

/// An error about a file, with its remedy.
struct Refusal {
  /// `node`: at which the error is; null: the whole file. `parts`: of the message and its remedy.
  Refusal(Reason reason, const NodeProto *node, llvm::ArrayRef<Said> parts);

  const NodeProto *node;
  std::string text;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RULES_REFUSAL_H
