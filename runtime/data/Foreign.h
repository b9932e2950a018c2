// Files of other kinds that are given as data or weights by mistake.
#ifndef SHALE_RUNTIME_DATA_FOREIGN_H
#define SHALE_RUNTIME_DATA_FOREIGN_H

#include "runtime/core/Files.h"

#include <string>

namespace shale::rt {

/// A kind of file that is recognized by its first bytes.
struct ForeignKind {
  const char *name = nullptr;   // "a gzip file"; null: none of the known kinds
  const char *remedy = nullptr; // what to do with it, as data or weights
};

/// The name of .npy files.
extern const char kNpyFile[];

/// Recognizes PyTorch checkpoints, pickles, archives, compressed files, tables, images, ONNX and
/// other formats by at least three bytes of which files of tokens and of safetensors have other
/// ones. Sources: the formats' specifications; PyTorch's torch/serialization.py.
ForeignKind foreignKind(const InputFile &file);

inline bool isNpy(const ForeignKind &kind) { return kind.name == kNpyFile; }

} // namespace shale::rt

#endif
