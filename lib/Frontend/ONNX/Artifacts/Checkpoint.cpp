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

using namespace shale::onnx;
using llvm::createStringError;
using llvm::StringRef;
using llvm::Twine;

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
  /// Whether `count` bytes are there.
  bool has(uint64_t at, uint64_t count) const {
    return at <= bytes.size() && bytes.size() - at >= count;
  }
  template <typename T> T read(uint64_t at) const {
    return llvm::support::endian::read<T, llvm::endianness::little>(bytes.data() + at);
  }
};

/// A table of a buffer. Fields have the numbers of their order in the schema. A field that is not
/// there is empty, and so is every field of no table, and after an error of the buffer.
class FlatTable {
public:
  /// The root of a buffer; notes an error if the buffer's identifier is another one.
  FlatTable(FlatBuffer &buffer, StringRef identifier) : buffer(&buffer) {
    if (buffer.bytes.size() < 8 || buffer.bytes.substr(4, 4) != identifier)
      buffer.error = ("it does not begin as a FlatBuffer '" + identifier + "'").str();
    else
      open(buffer.read<uint32_t>(0));
  }
  /// Whether it is a table. No table begins at 0: its list of fields would have no length.
  explicit operator bool() const { return begin != 0; }

  /// Returns a number, or `missing` if the table has no such field.
  template <typename T> T number(unsigned field, T missing) const {
    uint64_t at = fieldAt(field, sizeof(T));
    return at ? buffer->read<T>(at) : missing;
  }
  FlatTable table(unsigned field) const { return FlatTable(*buffer, target(fieldAt(field, 4))); }

  /// Returns the bytes of a vector's elements; null if there is no vector.
  StringRef vector(unsigned field, uint64_t elementSize = 1) const {
    uint64_t to = target(fieldAt(field, 4));
    uint64_t count = to ? buffer->read<uint32_t>(to) : 0;
    if (to && count <= (buffer->bytes.size() - to - 4) / elementSize)
      return buffer->bytes.substr(to + 4, count * elementSize);
    if (to)
      buffer->fail(to, "a vector that ends beyond the end");
    return {};
  }
  /// Returns the tables of a vector.
  std::vector<FlatTable> tables(unsigned field) const {
    std::vector<FlatTable> result;
    StringRef rest = vector(field, 4);
    for (; !rest.empty() && buffer->error.empty(); rest = rest.drop_front(4))
      result.push_back(FlatTable(*buffer, target(offsetOf(rest))));
    return result;
  }
  /// Returns the numbers of a vector of 64-bit integers; more than `most` are an error.
  std::vector<int64_t> integers(unsigned field, uint64_t most) const {
    StringRef rest = vector(field, 8);
    std::vector<int64_t> values;
    if (rest.size() > most * 8)
      buffer->fail(offsetOf(rest), "a vector of more than " + Twine(most) + " numbers");
    for (; !rest.empty() && buffer->error.empty(); rest = rest.drop_front(8))
      values.push_back(buffer->read<int64_t>(offsetOf(rest)));
    return values;
  }
  /// Returns the place of a part of the data.
  uint64_t offsetOf(StringRef part) const { return part.data() - buffer->bytes.data(); }

private:
  /// The table at a place; no table if that is 0.
  FlatTable(FlatBuffer &buffer, uint64_t at) : buffer(&buffer) {
    if (at)
      open(at);
  }
  /// Makes this the table at `at`: a signed distance back to its list of fields, then the fields.
  void open(uint64_t at) {
    if (buffer->tablesLeft == 0)
      return buffer->fail(at, "more tables are referred to than fit the file");
    --buffer->tablesLeft;
    if (!buffer->has(at, 4))
      return buffer->fail(at, "a table beyond the end");
    int64_t list = int64_t(at) - buffer->read<int32_t>(at);
    if (list < 0 || !buffer->has(list, 4))
      return buffer->fail(at, "a list of fields outside of the file");
    uint64_t listSize = buffer->read<uint16_t>(list), tableSize = buffer->read<uint16_t>(list + 2);
    if (listSize < 4 || listSize % 2 || !buffer->has(list, listSize))
      return buffer->fail(list, "a list of fields with a wrong length");
    if (tableSize < 4 || !buffer->has(at, tableSize))
      return buffer->fail(at, "a table with a wrong length");
    begin = at, size = tableSize;
    fields = list + 4, fieldCount = (listSize - 4) / 2;
  }

  /// Returns where a field of `bytesOfField` bytes is; 0 if the table has none.
  uint64_t fieldAt(unsigned field, uint64_t bytesOfField) const {
    bool isThere = buffer->error.empty() && field < fieldCount;
    uint64_t offset = isThere ? buffer->read<uint16_t>(fields + 2 * field) : 0;
    if (offset == 0 || (offset >= 4 && offset <= size && bytesOfField <= size - offset))
      return offset ? begin + offset : 0;
    buffer->fail(begin, "field " + Twine(field) + " is outside of its table");
    return 0;
  }

  /// Returns the place that the offset at `at` refers to; 0 after an error, and for place 0. No
  /// offset refers to place 0, as it is relative to its own place, which is not there.
  uint64_t target(uint64_t at) const {
    uint64_t to = at ? at + buffer->read<uint32_t>(at) : 0;
    if (to == 0 || buffer->has(to, 4))
      return to;
    buffer->fail(at, "an offset beyond the end");
    return 0;
  }

  FlatBuffer *buffer;
  uint64_t begin = 0, size = 0, fields = 0, fieldCount = 0;
};

constexpr int32_t kReadVersion = 2;
constexpr uint64_t kMostDims = 64;

// The fields of each table that is read, in the schema's order.
enum CheckpointField { kVersion, kModule, kGroups };
enum ModuleField { kTrained, kFrozen, kIsNominal };
enum GroupField { kGroupName, kStep, kLearningRate, kStates };
enum StateField { kParameter, kMoments };
enum TensorField { kName, kDoc, kDims, kDataType, kRawData, kStrings, kExternalOffset };

std::vector<CheckpointTensor> readTensors(const FlatTable &table, unsigned field,
                                          FlatBuffer &buffer) {
  std::vector<CheckpointTensor> tensors;
  for (const FlatTable &one : table.tables(field)) {
    CheckpointTensor &tensor = tensors.emplace_back();
    tensor.name = one.vector(kName);
    tensor.dims = one.integers(kDims, kMostDims);
    tensor.dataType = one.number<int32_t>(kDataType, 0);
    StringRef data = one.vector(kRawData);
    int64_t external = one.number<int64_t>(kExternalOffset, -1);
    bool isInside = data.data();
    tensor.isExternal = external >= 0;
    if (isInside == tensor.isExternal && buffer.error.empty())
      buffer.error = ("tensor '" + tensor.name.take_front(200) + "' has " +
                      (isInside ? "data inside and outside the file" : "no data"))
                         .str();
    tensor.offset = isInside ? int64_t(one.offsetOf(data)) : external;
    tensor.length = isInside ? int64_t(data.size()) : -1;
  }
  return tensors;
}

CheckpointGroup readGroup(const FlatTable &table, FlatBuffer &buffer) {
  CheckpointGroup result;
  result.step = table.number<int64_t>(kStep, 0);
  result.learningRate = table.number<float>(kLearningRate, 0);
  for (const FlatTable &state : table.tables(kStates)) {
    StringRef parameter = state.vector(kParameter);
    for (CheckpointTensor &moment : readTensors(state, kMoments, buffer)) {
      moment.name = parameter;
      result.moments.push_back(std::move(moment));
    }
  }
  return result;
}

} // namespace

llvm::Expected<Checkpoint> shale::onnx::readCheckpoint(StringRef bytes) {
  FlatBuffer buffer(bytes);
  FlatTable root(buffer, "ODTC");
  auto version = root.number<int32_t>(kVersion, 0);
  if (buffer.error.empty() && version != kReadVersion)
    return createStringError("it has version " + Twine(version) + ", Shale reads " +
                             Twine(kReadVersion) + ", which ONNX Runtime 1.17 to 1.19 writes");
  FlatTable state = root.table(kModule);
  if (buffer.error.empty() && !state)
    return createStringError("it has no parameters");
  if (state.number<uint8_t>(kIsNominal, 0))
    return createStringError("it has the names of parameters without their values: save it "
                             "without nominal_checkpoint");
  Checkpoint result;
  result.trained = readTensors(state, kTrained, buffer);
  result.frozen = readTensors(state, kFrozen, buffer);
  for (const FlatTable &one : root.tables(kGroups))
    result.groups.push_back(readGroup(one, buffer));
  if (!buffer.error.empty())
    return createStringError(buffer.error);
  return result;
}
