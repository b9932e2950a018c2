//===- Checkpoint.cpp - ONNX Runtime's training checkpoint ----------------===//
//
// A checkpoint is a FlatBuffer (flatbuffers.dev/internals): tables that refer to their fields by
// offsets. Every offset is checked against the end of the data, and the number of tables that are
// visited is bounded by its size, so that offsets that share tables cannot multiply work. Field
// numbers are those of ONNX Runtime's public schema ort_training_checkpoint.fbs, version 2.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Artifacts/Checkpoint.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Endian.h"
#include <cstring>

using namespace shale::onnx;
using llvm::Expected;
using llvm::StringRef;
using llvm::Twine;

template <typename T> static T read(StringRef bytes, uint64_t at) {
  return llvm::support::endian::read<T, llvm::endianness::little>(bytes.data() + at);
}

/// Whether `count` bytes are there.
static bool has(StringRef bytes, uint64_t at, uint64_t count) {
  return at <= bytes.size() && bytes.size() - at >= count;
}

namespace {

/// The data, and the first error in it.
struct FlatBuffer {
  explicit FlatBuffer(StringRef bytes) : bytes(bytes), tablesLeft(bytes.size() / 4) {}

  const StringRef bytes;
  uint64_t tablesLeft; // that may still be opened; a table takes at least four bytes
  std::string error;   // with its place; empty if there is none

  /// Notes an error at a byte.
  void fail(uint64_t at, const Twine &what) {
    if (error.empty())
      error = ("malformed at byte " + Twine(at) + ": " + what).str();
  }
};

/// A table of a buffer. Fields have the numbers of their order in the schema. A field that is not
/// there is empty, and so is every field after an error of the buffer.
class FlatTable {
public:
  /// The root of a buffer; notes an error if the buffer's identifier is another one.
  FlatTable(FlatBuffer &buffer, StringRef identifier) : buffer(&buffer) {
    if (buffer.bytes.size() < 8 || buffer.bytes.substr(4, 4) != identifier)
      buffer.error = ("it does not begin as a FlatBuffer '" + identifier + "'").str();
    else
      open(read<uint32_t>(buffer.bytes, 0));
  }

  /// Returns a number, or `missing` if the table has no such field.
  template <typename T> T number(unsigned field, T missing) const {
    if (uint64_t at = fieldAt(field, sizeof(T)))
      memcpy(&missing, buffer->bytes.data() + at, sizeof(T));
    return missing;
  }
  std::optional<FlatTable> table(unsigned field) const {
    uint64_t to = target(fieldAt(field, 4));
    return to ? std::optional(FlatTable(*buffer, to)) : std::nullopt;
  }

  StringRef string(unsigned field) const {
    Span span = vectorAt(field, 1).value_or(Span());
    return buffer->bytes.substr(span.offset, span.length);
  }

  /// Returns the tables of a vector.
  std::vector<FlatTable> tables(unsigned field) const {
    Span span = vectorAt(field, 4).value_or(Span());
    std::vector<FlatTable> result;
    for (uint64_t i = 0; i < span.length && buffer->error.empty(); ++i)
      if (uint64_t to = target(span.offset + 4 * i))
        result.push_back(FlatTable(*buffer, to));
    return result;
  }

  /// Returns the numbers of a vector of 64-bit integers; more than `most` are an error.
  std::vector<int64_t> integers(unsigned field, uint64_t most) const {
    Span span = vectorAt(field, 8).value_or(Span());
    std::vector<int64_t> values;
    if (span.length > most)
      buffer->fail(span.offset, "a vector of more than " + Twine(most) + " numbers");
    for (uint64_t i = 0; i < span.length && buffer->error.empty(); ++i)
      values.push_back(read<int64_t>(buffer->bytes, span.offset + 8 * i));
    return values;
  }

  /// Bytes of the data.
  struct Span {
    uint64_t offset = 0, length = 0;
  };
  /// Returns the place of a vector of bytes; none if there is no vector.
  std::optional<Span> span(unsigned field) const { return vectorAt(field, 1); }

private:
  FlatTable(FlatBuffer &buffer, uint64_t at) : buffer(&buffer) { open(at); }
  /// Makes this the table at `at`: a signed distance back to its list of fields, then the fields.
  void open(uint64_t at) {
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
  uint64_t fieldAt(unsigned field, uint64_t bytesOfField) const {
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
  uint64_t target(uint64_t at) const {
    uint64_t to = at ? at + read<uint32_t>(buffer->bytes, at) : 0;
    if (to == 0 || has(buffer->bytes, to, 4))
      return to;
    buffer->fail(at, "an offset beyond the end");
    return 0;
  }

  /// Returns the elements of a vector, checked against the end.
  std::optional<Span> vectorAt(unsigned field, uint64_t elementSize) const {
    uint64_t to = target(fieldAt(field, 4));
    if (!to)
      return std::nullopt;
    uint64_t count = read<uint32_t>(buffer->bytes, to);
    if (count <= (buffer->bytes.size() - to - 4) / elementSize)
      return Span{to + 4, count};
    buffer->fail(to, "a vector that ends beyond the end");
    return std::nullopt;
  }

  FlatBuffer *buffer;
  uint64_t begin = 0, size = 0, fields = 0, fieldCount = 0;
};

constexpr int32_t kVersion = 2;
constexpr uint64_t kMostDims = 64;

namespace checkpoint {
enum { Version, Module, Groups };
} // namespace checkpoint
namespace module {
enum { Trained, Frozen, IsNominal, HasExternalData };
} // namespace module
namespace group {
enum { Name, Step, LearningRate, States };
} // namespace group
namespace state {
enum { Parameter, Moments };
} // namespace state
namespace tensor {
enum { Name, Doc, Dims, DataType, RawData, Strings, ExternalOffset };
} // namespace tensor

CheckpointTensor readTensor(const FlatTable &table, FlatBuffer &buffer) {
  CheckpointTensor result;
  result.name = table.string(tensor::Name);
  result.dims = table.integers(tensor::Dims, kMostDims);
  result.dataType = table.number<int32_t>(tensor::DataType, 0);
  std::optional<FlatTable::Span> data = table.span(tensor::RawData);
  int64_t external = table.number<int64_t>(tensor::ExternalOffset, -1);
  if (bool(data) == (external >= 0) && buffer.error.empty())
    buffer.error = ("tensor '" + result.name.take_front(200) + "' has " +
                    (data ? "data inside and outside the file" : "no data"))
                       .str();
  result.isExternal = external >= 0;
  result.offset = data ? int64_t(data->offset) : external;
  result.length = data ? int64_t(data->length) : -1;
  return result;
}

std::vector<CheckpointTensor> readTensors(const FlatTable &table, unsigned field,
                                          FlatBuffer &buffer) {
  std::vector<CheckpointTensor> tensors;
  for (const FlatTable &one : table.tables(field))
    tensors.push_back(readTensor(one, buffer));
  return tensors;
}

CheckpointGroup readGroup(const FlatTable &table, FlatBuffer &buffer) {
  CheckpointGroup result;
  result.step = table.number<int64_t>(group::Step, 0);
  result.learningRate = table.number<float>(group::LearningRate, 0);
  for (const FlatTable &one : table.tables(group::States)) {
    StringRef parameter = one.string(state::Parameter);
    for (CheckpointTensor &moment : readTensors(one, state::Moments, buffer)) {
      moment.name = parameter;
      result.moments.push_back(std::move(moment));
    }
  }
  return result;
}

} // namespace

Expected<Checkpoint> shale::onnx::readCheckpoint(StringRef bytes) {
  FlatBuffer buffer(bytes);
  FlatTable root(buffer, "ODTC");
  auto version = root.number<int32_t>(checkpoint::Version, 0);
  if (buffer.error.empty() && version != kVersion)
    return llvm::createStringError("it has version " + llvm::Twine(version) + ", Shale reads " +
                                   llvm::Twine(kVersion) +
                                   ", which ONNX Runtime 1.17 to 1.19 writes");
  std::optional<FlatTable> state = root.table(checkpoint::Module);
  if (buffer.error.empty() && !state)
    return llvm::createStringError("it has no parameters");
  Checkpoint result;
  if (state && state->number<uint8_t>(module::IsNominal, 0))
    return llvm::createStringError("it has the names of parameters without their values: save it "
                                   "without nominal_checkpoint");
  if (state) {
    result.trained = readTensors(*state, module::Trained, buffer);
    result.frozen = readTensors(*state, module::Frozen, buffer);
  }
  for (const FlatTable &one : root.tables(checkpoint::Groups))
    result.groups.push_back(readGroup(one, buffer));
  if (!buffer.error.empty())
    return llvm::createStringError(buffer.error);
  return result;
}
