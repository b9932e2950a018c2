//===- FlatBuffer.cpp - Reads FlatBuffers without trust -------------------===//
#include "lib/Frontend/ONNX/Artifacts/FlatBuffer.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Endian.h"

using namespace shale::onnx;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

static Error malformed(uint64_t at, const llvm::Twine &what) {
  return llvm::createStringError("malformed at byte " + llvm::Twine(at) + ": " + what);
}

static uint32_t read32(StringRef bytes, uint64_t at) {
  return llvm::support::endian::read32le(bytes.data() + at);
}

static uint16_t read16(StringRef bytes, uint64_t at) {
  return llvm::support::endian::read16le(bytes.data() + at);
}

Expected<FlatTable> FlatTable::root(StringRef bytes, StringRef identifier) {
  if (bytes.size() < 8 || bytes.substr(4, 4) != identifier)
    return llvm::createStringError("it does not begin as a FlatBuffer '" + identifier + "'");
  // A table takes at least four bytes.
  FlatTable table(bytes, std::make_shared<uint64_t>(bytes.size() / 4));
  if (Error error = table.open(read32(bytes, 0)))
    return error;
  return table;
}

/// Makes this the table at `at`: a signed distance back to its list of fields, then the fields.
Error FlatTable::open(uint64_t at) {
  if (*budget == 0)
    return malformed(at, "more tables are referred to than fit the file");
  --*budget;
  if (at > bytes.size() || bytes.size() - at < 4)
    return malformed(at, "a table beyond the end");
  int64_t list = int64_t(at) - int32_t(read32(bytes, at));
  if (list < 0 || uint64_t(list) > bytes.size() || bytes.size() - list < 4)
    return malformed(at, "a list of fields outside of the file");
  uint64_t listSize = read16(bytes, list), tableSize = read16(bytes, list + 2);
  if (listSize < 4 || listSize % 2 || listSize > bytes.size() - list)
    return malformed(list, "a list of fields with a wrong length");
  if (tableSize < 4 || tableSize > bytes.size() - at)
    return malformed(at, "a table with a wrong length");
  begin = at;
  size = tableSize;
  fields = list + 4;
  fieldCount = (listSize - 4) / 2;
  return Error::success();
}

/// Returns where a field of `size` bytes is; 0 if the table has none.
Expected<uint64_t> FlatTable::fieldAt(unsigned field, uint64_t bytesOfField) const {
  uint64_t offset = field < fieldCount ? read16(bytes, fields + 2 * field) : 0;
  if (offset == 0)
    return 0;
  if (offset < 4 || offset > size || bytesOfField > size - offset)
    return malformed(begin, "field " + llvm::Twine(field) + " is outside of its table");
  return begin + offset;
}

/// Returns the place that the offset at `at` refers to.
Expected<uint64_t> FlatTable::target(uint64_t at) const {
  uint64_t to = at + read32(bytes, at);
  if (to > bytes.size() || bytes.size() - to < 4)
    return malformed(at, "an offset beyond the end");
  return to;
}

/// Returns the place that an offset in a field refers to; 0 if the table has no such field. No
/// offset refers to place 0, as it is relative to its own place, which is not there.
Expected<uint64_t> FlatTable::referredAt(unsigned field) const {
  Expected<uint64_t> at = fieldAt(field, 4);
  return at && *at ? target(*at) : std::move(at);
}

Expected<std::optional<FlatTable>> FlatTable::table(unsigned field) const {
  Expected<uint64_t> to = referredAt(field);
  if (!to)
    return to.takeError();
  if (!*to)
    return std::nullopt;
  FlatTable result(bytes, budget);
  if (Error error = result.open(*to))
    return error;
  return result;
}

/// Returns the elements of a vector, checked against the end.
Expected<std::optional<FlatTable::Span>> FlatTable::vectorAt(unsigned field,
                                                             uint64_t elementSize) const {
  Expected<uint64_t> to = referredAt(field);
  if (!to)
    return to.takeError();
  if (!*to)
    return std::nullopt;
  uint64_t count = read32(bytes, *to);
  if (count > (bytes.size() - *to - 4) / elementSize)
    return malformed(*to, "a vector that ends beyond the end");
  return Span{*to + 4, count};
}

Expected<std::optional<FlatTable::Span>> FlatTable::span(unsigned field) const {
  return vectorAt(field, 1);
}

Expected<StringRef> FlatTable::string(unsigned field) const {
  Expected<std::optional<Span>> span = vectorAt(field, 1);
  if (!span)
    return span.takeError();
  return *span ? bytes.substr((*span)->offset, (*span)->length) : StringRef();
}

Expected<std::vector<int64_t>> FlatTable::integers(unsigned field, uint64_t most) const {
  Expected<std::optional<Span>> span = vectorAt(field, 8);
  if (!span)
    return span.takeError();
  std::vector<int64_t> values;
  if (*span && (*span)->length > most)
    return malformed((*span)->offset, "a vector of more than " + llvm::Twine(most) + " numbers");
  for (uint64_t i = 0; *span && i < (*span)->length; ++i)
    values.push_back(
        int64_t(llvm::support::endian::read64le(bytes.data() + (*span)->offset + 8 * i)));
  return values;
}

Expected<std::vector<FlatTable>> FlatTable::tables(unsigned field) const {
  Expected<std::optional<Span>> span = vectorAt(field, 4);
  if (!span)
    return span.takeError();
  std::vector<FlatTable> result;
  for (uint64_t i = 0; *span && i < (*span)->length; ++i) {
    Expected<uint64_t> to = target((*span)->offset + 4 * i);
    if (!to)
      return to.takeError();
    FlatTable table(bytes, budget);
    if (Error error = table.open(*to))
      return error;
    result.push_back(std::move(table));
  }
  return result;
}
