//===- Scan.cpp - Takes tensor data out of an ONNX file -------------------===//
//
// libprotobuf copies every `bytes` field and reads at most 2 GiB. Weights must be
// neither copied nor limited, so the file is scanned once at the level of the
// wire format, and only the rest (nodes, names, shapes) is parsed.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Model.h"

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
  return llvm::createStringError("malformed at byte " + llvm::Twine(offset) + ": " + what);
}

void putVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

class Scanner {
public:
  explicit Scanner(StringRef file) : file(file) {}

  llvm::Error message(Message kind, size_t begin, size_t end, int depth, std::string &out) {
    if (depth > kMaxDepth)
      return malformed(begin, "messages are nested too deeply");
    bool hasPlace = false;
    for (size_t at = begin; at < end;) {
      size_t start = at;
      uint64_t tag, length;
      if (!varint(at, end, tag))
        return malformed(at, "a field ends early");
      uint64_t field = tag >> 3;
      if (field == 0)
        return malformed(start, "field number 0");
      switch (tag & 7) {
      case 0:
        if (!varint(at, end, length))
          return malformed(at, "a number ends early");
        break;
      case 1:
      case 5:
        if (length = (tag & 7) == 1 ? 8 : 4; end - at < length)
          return malformed(at, "a number ends early");
        at += length;
        break;
      case 2: {
        if (!varint(at, end, length) || length > end - at)
          return malformed(at, "a field is longer than what is there");
        size_t body = at;
        at += length;
        if (kind == Message::Tensor &&
            (field == kRawData || field == kFloatData || field == kDoubleData)) {
          if (length == 0)
            continue;
          if (hasPlace)
            return malformed(start, "a tensor has its data in two places");
          hasPlace = true;
          putVarint(out, kPlaceOffset << 3);
          putVarint(out, body);
          putVarint(out, kPlaceLength << 3);
          putVarint(out, length);
          continue;
        }
        Message child = childOf(kind, field);
        if (child != Message::Other) {
          std::string inner;
          if (llvm::Error error = message(child, body, at, depth + 1, inner))
            return error;
          putVarint(out, tag);
          putVarint(out, inner.size());
          out += inner;
          continue;
        }
        break;
      }
      default:
        return malformed(start, "a wire type that does not exist");
      }
      if (field < kPlaceOffset)
        out.append(file.data() + start, at - start);
    }
    return llvm::Error::success();
  }

private:
  bool varint(size_t &at, size_t end, uint64_t &value) {
    value = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7) {
      uint8_t byte = file[at++];
      value |= uint64_t(byte & 0x7f) << shift;
      if (!(byte & 0x80))
        return true;
    }
    return false;
  }

  StringRef file;
};

} // namespace

llvm::Expected<std::string> onnx::scanModel(StringRef file) {
  std::string out;
  if (llvm::Error error = Scanner(file).message(Message::Model, 0, file.size(), 0, out))
    return error;
  return out;
}
