//===- FileFacts.h - Hash and statistics of initial values ----------------===//
#ifndef SHALE_PASSES_PROGRAM_FILEFACTS_H
#define SHALE_PASSES_PROGRAM_FILEFACTS_H

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace shale {

/// Values of the fields of ShaleInit with the same names.
struct FileFacts {
  int64_t hash = 0;
  double mean = 0, deviation = -1;
};

/// Computes the hash from SHALE_HASHED_BYTES bytes, in blocks if there are more, and mean and
/// deviation from at most 2^20 values in blocks spread evenly over the file's part. `offset` and
/// `length` are in bytes. The values have the element type of `type`, or f32 if only
/// that fits `length`. Returns nullopt if the file cannot be read.
std::optional<FileFacts> factsOfFile(llvm::StringRef path, int64_t offset, int64_t length,
                                     mlir::RankedTensorType type);

/// Returns the path of a file as a program has it: relative to `programFolder`, a real path, or
/// absolute if that is empty. A program may be started from any folder, and be moved together with
/// files beside it.
std::string embeddedPath(llvm::StringRef file, llvm::StringRef programFolder);

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_FILEFACTS_H
