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
  switch (parent) {
  case Message::Model:
    return field == 7    ? Message::Graph
           : field == 20 ? Message::Training
           : field == 25 ? Message::Function
                         : Message::Other;
  case Message::Graph:
    return field == 1    ? Message::Node
           : field == 5  ? Message::Tensor
           : field == 15 ? Message::Sparse
                         : Message::Other;
  case Message::Node:
    return field == 5 ? Message::Attribute : Message::Other;
  case Message::Attribute:
    return field == 5 ? Message::Tensor : field == 6 ? Message::Graph : Message::Other;
  case Message::Function:
    return field == 7 ? Message::Node : field == 11 ? Message::Attribute : Message::Other;
  case Message::Training:
    return field == 1 || field == 2 ? Message::Graph : Message::Other;
  case Message::Sparse:
    return field == 1 ? Message::Tensor : Message::Other;
  default:
    return Message::Other;
  }
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
        if (end - at < 8)
          return malformed(at, "a number ends early");
        at += 8;
        break;
      case 5:
        if (end - at < 4)
          return malformed(at, "a number ends early");
        at += 4;
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
