//===- Scan.cpp - Takes tensor data out of an ONNX file -------------------===//
//
// libprotobuf copies every `bytes` field and reads at most 2 GiB. Weights must be
// neither copied nor limited, so the file is scanned once at the level of the
// wire format, and only the rest (nodes, names, shapes) is parsed.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Reader/Model.h"
#include "llvm/Support/LEB128.h"

using namespace shale;
using llvm::StringRef;

namespace {

enum class Message { Model, Graph, Node, Attribute, Tensor, Function, Training, Sparse, Other };

/// Returns the message that a length-delimited field holds, if tensors may be
/// below it.
Message childOf(Message parent, uint64_t field) {
  using M = Message;
  static constexpr std::tuple<Message, uint64_t, Message> known[] = {
      {M::Model, 7, M::Graph},    {M::Model, 20, M::Training},     {M::Model, 25, M::Function},
      {M::Graph, 1, M::Node},     {M::Graph, 5, M::Tensor},        {M::Graph, 15, M::Sparse},
      {M::Node, 5, M::Attribute}, {M::Attribute, 5, M::Tensor},    {M::Attribute, 6, M::Graph},
      {M::Function, 7, M::Node},  {M::Function, 11, M::Attribute}, {M::Training, 1, M::Graph},
      {M::Training, 2, M::Graph}, {M::Sparse, 1, M::Tensor}};
  for (auto [of, number, child] : known)
    if (of == parent && number == field)
      return child;
  return Message::Other;
}

constexpr uint64_t kFloatData = 4, kRawData = 9, kDoubleData = 10;
constexpr uint64_t kPlaceOffset = 1000, kPlaceLength = 1001;
constexpr int kMaxDepth = 100; // libprotobuf's own limit

llvm::Error malformed(size_t offset, const char *what) {
  return onnx::errorOf("malformed at byte {}: {}", offset, what);
}

/// Reads a number at `at`, and moves `at` behind it. Returns false if it does not end, or is larger
/// than 64 bits.
bool readVarint(StringRef file, size_t &at, size_t end, uint64_t &value) {
  unsigned size;
  const char *error = nullptr;
  const uint8_t *begin = file.bytes_begin() + at, *limit = begin + std::min<size_t>(end - at, 10);
  value = llvm::decodeULEB128(begin, &size, limit, &error);
  at += size;
  return !error;
}

/// Appends the message in bytes [begin, end) of the file, without the data of its tensors.
llvm::Error scan(StringRef file, Message kind, size_t begin, size_t end, int depth,
                 llvm::raw_ostream &out) {
  if (depth > kMaxDepth)
    return malformed(begin, "messages are nested too deeply");
  bool hasPlace = false;
  for (size_t at = begin; at < end;) {
    size_t start = at;
    uint64_t tag, length;
    if (!readVarint(file, at, end, tag))
      return malformed(at, "a field ends early");
    uint64_t field = tag >> 3, wire = tag & 7;
    if (field == 0)
      return malformed(start, "field number 0");
    if (wire == 0) {
      if (!readVarint(file, at, end, length))
        return malformed(at, "a number ends early");
    } else if (wire == 1 || wire == 5) {
      if (length = wire == 1 ? 8 : 4; end - at < length)
        return malformed(at, "a number ends early");
      at += length;
    } else if (wire != 2) {
      return malformed(start, "a wire type that does not exist");
    } else {
      if (!readVarint(file, at, end, length) || length > end - at)
        return malformed(at, "a field is longer than what is there");
      size_t body = at;
      at += length;
      if (kind == Message::Tensor &&
          (field == kRawData || field == kFloatData || field == kDoubleData)) {
        if (length == 0)
          continue;
        if (std::exchange(hasPlace, true))
          return malformed(start, "a tensor has its data in two places");
        for (uint64_t value : {kPlaceOffset << 3, uint64_t(body), kPlaceLength << 3, length})
          llvm::encodeULEB128(value, out);
        continue;
      }
      if (Message child = childOf(kind, field); child != Message::Other) {
        std::string inner;
        llvm::raw_string_ostream os(inner);
        if (llvm::Error error = scan(file, child, body, at, depth + 1, os))
          return error;
        llvm::encodeULEB128(tag, out);
        llvm::encodeULEB128(inner.size(), out);
        out << inner;
        continue;
      }
    }
    if (field < kPlaceOffset)
      out << file.slice(start, at);
  }
  return llvm::Error::success();
}

} // namespace

llvm::Expected<std::string> onnx::scanModel(StringRef file) {
  std::string out;
  llvm::raw_string_ostream os(out);
  if (llvm::Error error = scan(file, Message::Model, 0, file.size(), 0, os))
    return error;
  return out;
}
