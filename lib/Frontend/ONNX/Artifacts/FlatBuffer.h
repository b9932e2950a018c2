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
#include "llvm/Support/Error.h"
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

namespace shale::onnx {

/// A table of a FlatBuffer. Fields have the numbers of their order in the schema. A wrong offset or
/// length is an error that names its place.
class FlatTable {
public:
  /// Returns the root of a buffer; fails if its identifier is another one.
  static llvm::Expected<FlatTable> root(llvm::StringRef bytes, llvm::StringRef identifier);

  /// Returns a number, or `missing` if the table has no such field.
  template <typename T> llvm::Expected<T> number(unsigned field, T missing) const {
    llvm::Expected<uint64_t> at = fieldAt(field, sizeof(T));
    if (!at)
      return at.takeError();
    T value = missing;
    if (*at)
      memcpy(&value, bytes.data() + *at, sizeof(T));
    return value;
  }
  llvm::Expected<std::optional<FlatTable>> table(unsigned field) const;
  /// Returns a string; empty if there is none.
  llvm::Expected<llvm::StringRef> string(unsigned field) const;
  /// Returns the tables of a vector; none if there is no vector.
  llvm::Expected<std::vector<FlatTable>> tables(unsigned field) const;
  /// Returns the numbers of a vector of 64-bit integers; fails if there are more than `most`.
  llvm::Expected<std::vector<int64_t>> integers(unsigned field, uint64_t most) const;

  /// Bytes of the data.
  struct Span {
    uint64_t offset = 0, length = 0;
  };
  /// Returns the place of a vector of bytes; none if there is no vector.
  llvm::Expected<std::optional<Span>> span(unsigned field) const;

private:
  FlatTable(llvm::StringRef bytes, std::shared_ptr<uint64_t> budget)
      : bytes(bytes), budget(std::move(budget)) {}
  llvm::Error open(uint64_t at);
  llvm::Expected<uint64_t> fieldAt(unsigned field, uint64_t size) const;
  llvm::Expected<uint64_t> target(uint64_t at) const;
  llvm::Expected<uint64_t> referredAt(unsigned field) const;
  llvm::Expected<std::optional<Span>> vectorAt(unsigned field, uint64_t elementSize) const;

  llvm::StringRef bytes;
  std::shared_ptr<uint64_t> budget; // tables that may still be opened, of all tables of the buffer
  uint64_t begin = 0, size = 0, fields = 0, fieldCount = 0;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_ARTIFACTS_FLATBUFFER_H
