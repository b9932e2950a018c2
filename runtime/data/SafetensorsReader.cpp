// Format (huggingface/safetensors): u64 header length, JSON header
// {name: {dtype, shape, data_offsets: [begin, end]}}, data. The offsets are
// from the end of the header and tile the rest of the file.
#include "runtime/data/SafetensorsReader.h"
#include "runtime/core/Error.h"
#include "runtime/data/Foreign.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

namespace shale::rt {

namespace {
constexpr uint64_t headerLimit = 100'000'000;
constexpr size_t tensorLimit = 200'000;
constexpr size_t rankLimit = 32;

/// Collects tensors from parser events. Unlike a DOM, it detects duplicate keys and
/// does not build values that the format does not allow.
class HeaderHandler : public nlohmann::json_sax<nlohmann::json> {
public:
  explicit HeaderHandler(std::map<std::string, TensorInfo> &table) : table(table) {}
  std::string error;

  bool null() override { return bad("null"); }
  bool boolean(bool) override { return bad("a boolean"); }
  bool number_integer(number_integer_t) override { return bad("a negative number"); }
  bool number_float(number_float_t, const string_t &) override {
    return bad("a number that is not a 64-bit integer");
  }
  bool binary(binary_t &) override { return bad("binary data"); }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth != 3 || !inArray)
      return bad("a number");
    if (value > static_cast<uint64_t>(INT64_MAX))
      return bad("a number beyond 2^63");
    if (numbers.size() == rankLimit)
      return bad("too many numbers");
    numbers.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool string(string_t &value) override {
    if (depth == 2 && inMetadata)
      return true;
    if (depth != 2 || field != "dtype")
      return bad("a string");
    if (!dtypeNamed(value, current.type))
      return refuse("tensor '" + printable(name) + "' has dtype '" + printable(value) +
                    "', which is not supported");
    return true;
  }
  bool start_object(size_t) override {
    if (inArray || ++depth > 2)
      return bad("an object");
    if (depth == 2) {
      current = TensorInfo();
      fields = 0;
    }
    return true;
  }
  bool key(string_t &value) override {
    if (depth == 1) {
      name = value;
      inMetadata = name == "__metadata__";
      if (inMetadata ? metadataSeen : table.count(name) != 0)
        return refuse("'" + printable(name) + "' is defined twice");
      metadataSeen |= inMetadata;
      if (table.size() == tensorLimit)
        return refuse("more than 200000 tensors");
      return true;
    }
    field = value;
    if (inMetadata)
      return true;
    int bit = field == "dtype" ? 1 : field == "shape" ? 2 : field == "data_offsets" ? 4 : 0;
    if (bit == 0 || (fields & bit))
      return refuse("tensor '" + printable(name) + "': key '" + printable(field) +
                    (bit ? "' is defined twice" : "' is unknown"));
    fields |= bit;
    return true;
  }
  bool end_object() override {
    if (depth-- == 1 || inMetadata)
      return true;
    if (fields != 7)
      return refuse("tensor '" + printable(name) + "' lacks dtype, shape or data_offsets");
    table.emplace(name, current);
    return true;
  }
  bool start_array(size_t) override {
    if (depth != 2 || inMetadata || inArray || field == "dtype")
      return bad("an array");
    inArray = true;
    ++depth;
    numbers.clear();
    return true;
  }
  bool end_array() override {
    inArray = false;
    --depth;
    if (field == "shape") {
      current.shape = numbers;
      return true;
    }
    if (numbers.size() != 2)
      return refuse("tensor '" + printable(name) + "': data_offsets are not two numbers");
    current.offset = numbers[0];
    if (numbers[1] < numbers[0])
      return refuse("tensor '" + printable(name) + "' ends before it begins");
    current.bytes = numbers[1] - numbers[0];
    return true;
  }
  bool parse_error(size_t position, const std::string &,
                   const nlohmann::detail::exception &) override {
    return refuse("the header is not JSON at byte " + std::to_string(position));
  }

private:
  bool refuse(const std::string &message) {
    if (error.empty())
      error = message;
    return false;
  }
  bool bad(const char *what) {
    return refuse("the header has " + std::string(what) + " where none belongs" +
                  (name.empty() ? "" : ", at '" + printable(name) + "'"));
  }
  std::map<std::string, TensorInfo> &table;
  std::string name, field;
  TensorInfo current;
  std::vector<int64_t> numbers;
  int depth = 0, fields = 0;
  bool inArray = false, inMetadata = false, metadataSeen = false;
};

/// Computes element count and size in 64 bits and checks them against the offsets.
void checkSize(const std::string &path, const std::string &name, TensorInfo &tensor) {
  int64_t count = 1;
  for (int64_t size : tensor.shape)
    if (__builtin_mul_overflow(count, size, &count))
      fail(SHALE_EXIT_DATA, "'%s': tensor '%s' has more elements than 2^63", path.c_str(),
           printable(name).c_str());
  int64_t bytes = 0;
  if (__builtin_mul_overflow(count, sizeOf(tensor.type), &bytes) || bytes != tensor.bytes)
    fail(SHALE_EXIT_DATA,
         "'%s': tensor '%s' has %lld bytes, its shape and type need another "
         "number",
         path.c_str(), printable(name).c_str(), (long long)tensor.bytes);
  tensor.count = count;
}

/// Checks that the tensors, sorted by offset, tile the data: no hole, overlap or tail.
void checkTiling(const std::string &path, std::map<std::string, TensorInfo> &table,
                 int64_t dataStart, int64_t dataBytes) {
  std::vector<std::pair<const std::string *, TensorInfo *>> order;
  for (auto &entry : table)
    order.emplace_back(&entry.first, &entry.second);
  std::sort(order.begin(), order.end(), [](const auto &x, const auto &y) {
    return std::make_pair(x.second->offset, x.second->bytes) <
           std::make_pair(y.second->offset, y.second->bytes);
  });
  int64_t at = 0;
  for (auto &[name, tensor] : order) {
    if (tensor->offset != at || tensor->bytes > dataBytes - at)
      fail(SHALE_EXIT_DATA,
           "'%s': tensor '%s' is at data byte %lld with %lld bytes, expected at "
           "%lld of %lld",
           path.c_str(), printable(*name).c_str(), (long long)tensor->offset,
           (long long)tensor->bytes, (long long)at, (long long)dataBytes);
    at += tensor->bytes;
    tensor->offset += dataStart;
  }
  if (at != dataBytes)
    fail(SHALE_EXIT_DATA, "'%s': %lld bytes after the last tensor", path.c_str(),
         (long long)(dataBytes - at));
}
} // namespace

SafetensorsReader::SafetensorsReader(InputFile file) : input(std::move(file)) {
  const std::string &path = input.path();
  uint64_t length = 0;
  if (input.size() < 8)
    fail(SHALE_EXIT_DATA, "'%s' is not a safetensors file: %lld bytes", path.c_str(),
         (long long)input.size());
  input.readAt(0, &length, 8);
  if (length > headerLimit || length > static_cast<uint64_t>(input.size()) - 8) {
    if (ForeignKind kind = foreignKind(input); kind.name)
      fail(SHALE_EXIT_DATA, "'%s' is %s, not a safetensors file: %s", path.c_str(), kind.name,
           kind.remedy);
    fail(SHALE_EXIT_DATA, "'%s' is not a safetensors file: a header of %llu bytes in %lld",
         path.c_str(), (unsigned long long)length, (long long)input.size());
  }
  std::string header(length, '\0');
  input.readAt(8, header.data(), length);
  size_t last = header.find_last_not_of(' ');
  if (header.empty() || header[0] != '{' || last == std::string::npos || header[last] != '}')
    fail(SHALE_EXIT_DATA, "'%s': the safetensors header is not one JSON object", path.c_str());
  HeaderHandler handler(table);
  bool parsed = nlohmann::json::sax_parse(header.begin(), header.begin() + last + 1, &handler);
  if (!parsed || !handler.error.empty())
    fail(SHALE_EXIT_DATA, "'%s': %s", path.c_str(),
         handler.error.empty() ? "the header is not JSON" : handler.error.c_str());
  for (auto &entry : table)
    checkSize(path, entry.first, entry.second);
  int64_t start = 8 + static_cast<int64_t>(length);
  checkTiling(path, table, start, input.size() - start);
}

const TensorInfo *SafetensorsReader::find(const std::string &name) const {
  auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

} // namespace shale::rt
