//===- Evaluate.h - Values of terms over the arguments of an operation ----===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_EVALUATE_H
#define SHALE_FRONTEND_ONNX_RECORD_EVALUATE_H

#include "lib/Frontend/ONNX/Record/Form.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace shale::onnx {

/// A number that stands for minus infinity: the lowest of its type, or less.
inline constexpr llvm::StringLiteral kLowest = "lowest";

/// The arguments and facts about the graph from which a term is evaluated.
struct Surroundings {
  const llvm::StringMap<Argument> &arguments;
  /// Returns the sizes of a value's dimensions, -1 where one is not fixed; none if it has no type.
  llvm::function_ref<std::optional<llvm::SmallVector<int64_t>>(llvm::StringRef)> shapeOf;
  /// Whether the graph has a value of the exported program.
  llvm::function_ref<bool(llvm::StringRef)> isThere;
};

/// Whether terms may call a function of this name.
bool isTermFunction(llvm::StringRef name);

/// Returns the value of a term of arguments, numbers, lists and functions of these. `size` is the
/// number of elements that it is compared with. None if it is not known.
std::optional<Argument> evaluate(const Term &term, size_t size, const Surroundings &around);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_EVALUATE_H
