//===- SafeTensors.h - Reads and writes safetensors files -----------------===//
//
// The safetensors format: eight bytes of header length, a JSON header of name,
// dtype, shape and byte range, then the bytes
// (https://github.com/huggingface/safetensors#format).
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERPRETER_SAFETENSORS_H
#define SHALE_INTERPRETER_SAFETENSORS_H

#include "lib/Interpreter/Tensor.h"
#include "llvm/Support/Error.h"
#include <map>

namespace shale::interp {

using NamedTensors = std::map<std::string, Tensor>;

/// Reads all tensors. The error names the file and what is wrong with it.
llvm::Expected<NamedTensors> readSafeTensors(llvm::StringRef path);

/// Writes tensors in the order of their names. The error names the file.
llvm::Error writeSafeTensors(llvm::StringRef path, const NamedTensors &tensors);

} // namespace shale::interp

#endif // SHALE_INTERPRETER_SAFETENSORS_H
