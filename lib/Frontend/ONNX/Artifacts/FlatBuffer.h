//===- FlatBuffer.h - Reads FlatBuffers without trust ---------------------===//
//
// The binary format of flatbuffers.dev/internals: tables that refer to their fields by offsets.
// Every offset is checked against the end of the data, and the number of tables that are
// visited is bounded by its size, so that offsets that share tables cannot multiply work.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_ARTIFACTS_FLATBUFFER_H
#define SHALE_FRONTEND_ONNX_ARTIFACTS_FLATBUFFER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

namespace shale::onnx {

/// The data, and the first error in it.
struct FlatBuffer {
  explicit FlatBuffer(llvm::StringRef bytes) : bytes(bytes), tablesLeft(bytes.size() / 4) {}

  const llvm::StringRef bytes;
  uint64_t tablesLeft; // that may still be opened; a table takes at least four bytes
  std::string error;   // with its place; empty if there is none

  /// Notes an error at a byte.
  void fail(uint64_t at, const llvm::Twine &what);
};

/// A table of a buffer. Fields have the numbers of their order in the schema. A field that is not
/// there is empty, and so is every field after an error of the buffer.
class FlatTable {
public:
  /// The root of a buffer; notes an error if the buffer's identifier is another one.
  FlatTable(FlatBuffer &buffer, llvm::StringRef identifier);

  /// Returns a number, or `missing` if the table has no such field.
  template <typename T> T number(unsigned field, T missing) const {
    if (uint64_t at = fieldAt(field, sizeof(T)))
      memcpy(&missing, buffer->bytes.data() + at, sizeof(T));
    return missing;
  }
  std::optional<FlatTable> table(unsigned field) const;
  llvm::StringRef string(unsigned field) const;
  /// Returns the tables of a vector.
  std::vector<FlatTable> tables(unsigned field) const;
  /// Returns the numbers of a vector of 64-bit integers; more than `most` are an error.
  std::vector<int64_t> integers(unsigned field, uint64_t most) const;

  /// Bytes of the data.
  struct Span {
    uint64_t offset = 0, length = 0;
  };
  /// Returns the place of a vector of bytes; none if there is no vector.
  std::optional<Span> span(unsigned field) const { return vectorAt(field, 1); }

private:
  FlatTable(FlatBuffer &buffer, uint64_t at) : buffer(&buffer) { open(at); }
  void open(uint64_t at);
  uint64_t fieldAt(unsigned field, uint64_t bytesOfField) const;
  uint64_t target(uint64_t at) const;
  std::optional<Span> vectorAt(unsigned field, uint64_t elementSize) const;

  FlatBuffer *buffer;
  uint64_t begin = 0, size = 0, fields = 0, fieldCount = 0;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_ARTIFACTS_FLATBUFFER_H
