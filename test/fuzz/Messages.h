//===- Messages.h - Mutations of protocol buffers -------------------------===//
#ifndef SHALE_TEST_FUZZ_MESSAGES_H
#define SHALE_TEST_FUZZ_MESSAGES_H

#include "test/fuzz/Context.h"
#include <optional>
#include <vector>

namespace shale::fuzz {

/// A field of a message, as it is encoded. Bytes that are a message themselves may be changed
/// field by field.
struct Field {
  uint64_t tag;
  uint64_t number = 0; ///< wire type 0
  std::string bytes;   ///< all others

  unsigned type() const { return tag & 7; }
};

inline std::optional<uint64_t> readNumber(llvm::StringRef &text) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !text.empty(); shift += 7) {
    uint8_t byte = text.front();
    text = text.drop_front();
    value |= uint64_t(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return value;
  }
  return std::nullopt;
}

inline void writeNumber(uint64_t value, std::string &out) {
  for (; value > 0x7f; value >>= 7)
    out += char(value | 0x80);
  out += char(value);
}

/// Returns the fields of a message; nothing if the text is none.
inline std::optional<std::vector<Field>> readMessage(llvm::StringRef text) {
  std::vector<Field> fields;
  while (!text.empty()) {
    std::optional<uint64_t> tag = readNumber(text);
    if (!tag || *tag >> 3 == 0 || *tag >> 3 > 10000)
      return std::nullopt;
    Field field{*tag, 0, ""};
    uint64_t length = field.type() == 1 ? 8 : 4;
    if (field.type() == 0 || field.type() == 2) {
      std::optional<uint64_t> number = readNumber(text);
      if (!number)
        return std::nullopt;
      field.number = length = *number;
    }
    if (field.type() != 0) {
      if ((field.type() != 1 && field.type() != 2 && field.type() != 5) || length > text.size())
        return std::nullopt;
      field.bytes = text.take_front(length).str();
      text = text.drop_front(length);
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

inline std::string writeMessage(const std::vector<Field> &fields) {
  std::string out;
  for (const Field &field : fields) {
    writeNumber(field.tag, out);
    if (field.type() == 0)
      writeNumber(field.number, out);
    if (field.type() == 2)
      writeNumber(field.bytes.size(), out);
    out += field.bytes;
  }
  return out;
}

/// Returns the message with one field changed, at any depth; "" if the text is no message.
inline std::string mutateMessage(llvm::StringRef text, Random &random) {
  std::optional<std::vector<Field>> fields = readMessage(text);
  if (!fields || fields->empty())
    return "";
  size_t index = random.below(fields->size()), other = random.below(fields->size());
  Field &field = (*fields)[index];
  switch (random.below(12)) {
  case 0:
    fields->erase(fields->begin() + index);
    break;
  case 1:
    fields->insert(fields->begin() + other, Field(field));
    break;
  case 2: // a name, a tensor or a node in the place of another
    if ((*fields)[other].tag == field.tag)
      field = (*fields)[other];
    else
      std::swap(field, (*fields)[other]);
    break;
  default: // deeper, or the field itself
    if (field.type() == 0) {
      field.number = random.integer();
    } else if (std::string inner = mutateMessage(field.bytes, random);
               field.type() == 2 && !inner.empty() && random.below(8)) {
      field.bytes = std::move(inner);
    } else {
      std::vector<uint8_t> bytes(field.bytes.begin(), field.bytes.end());
      size_t most = field.type() == 2 ? bytes.size() + 16 : bytes.size();
      bytes.resize(std::max<size_t>(most, 1));
      size_t made = LLVMFuzzerMutate(bytes.data(), field.bytes.size(), bytes.size());
      if (field.type() == 2)
        field.bytes.assign(bytes.begin(), bytes.begin() + made);
      else
        field.bytes.assign(bytes.begin(), bytes.begin() + field.bytes.size());
    }
  }
  return writeMessage(*fields);
}

} // namespace shale::fuzz

#endif // SHALE_TEST_FUZZ_MESSAGES_H
