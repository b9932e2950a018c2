//===- FileFacts.h - What a program records of its weights' files ---------===//
#ifndef SHALE_PASSES_PROGRAM_FILEFACTS_H
#define SHALE_PASSES_PROGRAM_FILEFACTS_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace shale {

/// As the fields of ShaleInit.
struct FileFacts {
  int64_t hash = 0;
  double mean = 0, deviation = -1;
};

/// Reads the beginning of the values for the hash and at most a million of them, in
/// blocks spread evenly over the file's part, for mean and deviation. The values are
/// of the type's elements, or f32 where they take as many bytes. Nothing where the
/// file cannot be read.
std::optional<FileFacts> factsOfFile(llvm::StringRef path, int64_t offset, int64_t length, mlir::RankedTensorType type);

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_FILEFACTS_H
