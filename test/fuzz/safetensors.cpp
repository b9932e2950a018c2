// Fuzzes safetensors files, as weights and as data: the first line is the JSON header, the rest the
// values. The length before the header is right, unless the first character is '!'.
#include "runtime/data/SafetensorsReader.h"
#include "test/fuzz/Runtime.h"

using namespace shale;
using namespace shale::fuzz;

static bool isObject(const std::string &header) {
  return Tree::parse(header, nullptr, false).is_object();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string text(reinterpret_cast<const char *>(data), size);
  size_t end = std::min(text.find('\n'), text.size());
  std::string header = text.substr(0, end), values = end < size ? text.substr(end + 1) : "";
  uint64_t length = header.size();
  if (!header.empty() && header[0] == '!')
    length = header.size() > 8 ? std::hash<std::string>()(header) : header.size() * 1000;
  std::string file(reinterpret_cast<const char *>(&length), 8);
  MemoryFile memory(file + header + values);
  return check(isObject(header), [&] {
    rt::SafetensorsReader reader(memory.path());
    for (const auto &[name, tensor] : reader.tensors()) {
      // The reader allowed this memory: it is inside the file.
      if (tensor.bytes < 0 || tensor.bytes > int64_t(values.size()) ||
          tensor.count * rt::sizeOf(tensor.type) != tensor.bytes)
        std::abort();
      std::vector<char> bytes(tensor.bytes);
      reader.file().readAt(tensor.offset, bytes.data(), tensor.bytes);
    }
  });
}

/// Changes the header; often the values then get the size that it needs.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  std::string text(reinterpret_cast<char *>(data), size);
  size_t end = std::min(text.find('\n'), text.size());
  std::string header = mutateJson(text.substr(0, end), random);
  std::replace(header.begin(), header.end(), '\n', ' ');
  std::string values = end < size ? text.substr(end + 1) : "";
  if (Tree tree = Tree::parse(header, nullptr, false); tree.is_object() && random.below(2)) {
    uint64_t largest = 0;
    for (auto &[name, tensor] : tree.items())
      if (tensor.is_object() && tensor.contains("data_offsets") &&
          tensor["data_offsets"].is_array() && tensor["data_offsets"].size() == 2 &&
          tensor["data_offsets"][1].is_number_unsigned())
        largest = std::max(largest, tensor["data_offsets"][1].get<uint64_t>());
    values.resize(std::min<uint64_t>(largest, 4096), 'v');
  }
  std::string made = header + "\n" + values;
  if (made.size() > most)
    return size;
  std::copy(made.begin(), made.end(), data);
  return made.size();
}
