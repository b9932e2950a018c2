// Writes safetensors files in one pass.
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/core/Error.h"

#include <nlohmann/json.hpp>

namespace shale::rt {

void SafetensorsWriter::declare(const std::string &name, Dtype type,
                                const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  int64_t end = total + count * sizeOf(type);
  header +=
      "," + nlohmann::json(name).dump() + ":" +
      nlohmann::json({{"dtype", nameOf(type)}, {"shape", shape}, {"data_offsets", {total, end}}})
          .dump();
  total = end;
}

void SafetensorsWriter::begin(const std::string &path, bool direct) {
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  uint64_t length = header.size();
  file.emplace(path);
  if (direct)
    file->expect(8 + length + total);
  file->append(&length, 8);
  file->append(header.data(), length);
  start = file->position();
  headerSum = file->checksum();
}

WrittenFile SafetensorsWriter::finish(const std::string &name) {
  if (file->position() != start + total)
    fail(SHALE_EXIT_INTERNAL, "a safetensors file got %lld of %lld bytes",
         (long long)(file->position() - start), (long long)total);
  file->finish();
  return {name, file->position(), start, headerSum, file->checksum()};
}

} // namespace shale::rt
