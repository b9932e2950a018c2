//===- FlatBuffer.cpp - Reads FlatBuffers without trust -------------------===//
#include "lib/Frontend/ONNX/Artifacts/FlatBuffer.h"
#include "llvm/Support/Endian.h"

using namespace shale::onnx;
using llvm::StringRef;
using llvm::Twine;

template <typename T> static T read(StringRef bytes, uint64_t at) {
  return llvm::support::endian::read<T, llvm::endianness::little>(bytes.data() + at);
}

/// Whether `count` bytes are there.
static bool has(StringRef bytes, uint64_t at, uint64_t count) {
  return at <= bytes.size() && bytes.size() - at >= count;
}

void FlatBuffer::fail(uint64_t at, const Twine &what) {
  if (error.empty())
    error = ("malformed at byte " + Twine(at) + ": " + what).str();
}

FlatTable::FlatTable(FlatBuffer &buffer, StringRef identifier) : buffer(&buffer) {
  if (buffer.bytes.size() < 8 || buffer.bytes.substr(4, 4) != identifier)
    buffer.error = ("it does not begin as a FlatBuffer '" + identifier + "'").str();
  else
    open(read<uint32_t>(buffer.bytes, 0));
}

/// Makes this the table at `at`: a signed distance back to its list of fields, then the fields.
void FlatTable::open(uint64_t at) {
  StringRef bytes = buffer->bytes;
  if (buffer->tablesLeft == 0)
    return buffer->fail(at, "more tables are referred to than fit the file");
  --buffer->tablesLeft;
  if (!has(bytes, at, 4))
    return buffer->fail(at, "a table beyond the end");
  int64_t list = int64_t(at) - read<int32_t>(bytes, at);
  if (list < 0 || !has(bytes, list, 4))
    return buffer->fail(at, "a list of fields outside of the file");
  uint64_t listSize = read<uint16_t>(bytes, list), tableSize = read<uint16_t>(bytes, list + 2);
  if (listSize < 4 || listSize % 2 || !has(bytes, list, listSize))
    return buffer->fail(list, "a list of fields with a wrong length");
  if (tableSize < 4 || !has(bytes, at, tableSize))
    return buffer->fail(at, "a table with a wrong length");
  begin = at;
  size = tableSize;
  fields = list + 4;
  fieldCount = (listSize - 4) / 2;
}

/// Returns where a field of `bytesOfField` bytes is; 0 if the table has none.
uint64_t FlatTable::fieldAt(unsigned field, uint64_t bytesOfField) const {
  bool isThere = buffer->error.empty() && field < fieldCount;
  uint64_t offset = isThere ? read<uint16_t>(buffer->bytes, fields + 2 * field) : 0;
  if (offset == 0)
    return 0;
  if (offset >= 4 && offset <= size && bytesOfField <= size - offset)
    return begin + offset;
  buffer->fail(begin, "field " + Twine(field) + " is outside of its table");
  return 0;
}

/// Returns the place that the offset at `at` refers to; 0 after an error, and for place 0. No
/// offset refers to place 0, as it is relative to its own place, which is not there.
uint64_t FlatTable::target(uint64_t at) const {
  uint64_t to = at ? at + read<uint32_t>(buffer->bytes, at) : 0;
  if (to == 0 || has(buffer->bytes, to, 4))
    return to;
  buffer->fail(at, "an offset beyond the end");
  return 0;
}

std::optional<FlatTable> FlatTable::table(unsigned field) const {
  uint64_t to = target(fieldAt(field, 4));
  return to ? std::optional(FlatTable(*buffer, to)) : std::nullopt;
}

/// Returns the elements of a vector, checked against the end.
std::optional<FlatTable::Span> FlatTable::vectorAt(unsigned field, uint64_t elementSize) const {
  uint64_t to = target(fieldAt(field, 4));
  if (!to)
    return std::nullopt;
  uint64_t count = read<uint32_t>(buffer->bytes, to);
  if (count <= (buffer->bytes.size() - to - 4) / elementSize)
    return Span{to + 4, count};
  buffer->fail(to, "a vector that ends beyond the end");
  return std::nullopt;
}

StringRef FlatTable::string(unsigned field) const {
  Span span = vectorAt(field, 1).value_or(Span());
  return buffer->bytes.substr(span.offset, span.length);
}

std::vector<int64_t> FlatTable::integers(unsigned field, uint64_t most) const {
  Span span = vectorAt(field, 8).value_or(Span());
  std::vector<int64_t> values;
  if (span.length > most)
    buffer->fail(span.offset, "a vector of more than " + Twine(most) + " numbers");
  for (uint64_t i = 0; i < span.length && buffer->error.empty(); ++i)
    values.push_back(read<int64_t>(buffer->bytes, span.offset + 8 * i));
  return values;
}

std::vector<FlatTable> FlatTable::tables(unsigned field) const {
  Span span = vectorAt(field, 4).value_or(Span());
  std::vector<FlatTable> result;
  for (uint64_t i = 0; i < span.length && buffer->error.empty(); ++i)
    if (uint64_t to = target(span.offset + 4 * i))
      result.push_back(FlatTable(*buffer, to));
  return result;
}
