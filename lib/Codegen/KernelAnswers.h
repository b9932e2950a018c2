//===- KernelAnswers.h - Answers about kernels that are asked again -------===//
#ifndef SHALE_CODEGEN_KERNELANSWERS_H
#define SHALE_CODEGEN_KERNELANSWERS_H

#include "mlir/IR/Region.h"
#include <string>

namespace shale {

/// Returns what `compute` returns for a kernel's body. A search over plans asks the same about the
/// same kernels for each plan, so answers are kept for the process, by `question` and the text of
/// the body without locations. The answer must depend on nothing else, and must not name the
/// kernel. Keeps at most 64 MiB; after that, new answers are computed each time. Thread-safe.
std::string answerOnce(llvm::StringRef question, mlir::Region &body,
                       llvm::function_ref<std::string()> compute);

} // namespace shale

#endif // SHALE_CODEGEN_KERNELANSWERS_H
