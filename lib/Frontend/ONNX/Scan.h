//===- Scan.h - Takes tensor data out of an ONNX file ---------------------===//
#ifndef SHALE_FRONTEND_ONNX_SCAN_H
#define SHALE_FRONTEND_ONNX_SCAN_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace shale::onnx {

/// Returns the file's ModelProto with the data of every tensor replaced by its
/// place (offset and length in the file). Reads the wire format of Protocol
/// Buffers (protobuf.dev/programming-guides/encoding); fails on malformed input.
llvm::Expected<std::string> scanModel(llvm::StringRef file);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_SCAN_H
