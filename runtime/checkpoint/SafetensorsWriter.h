// Writes a safetensors file front to back: the header first, then the tensors'
// bytes in the order they were declared.
#ifndef SHALE_RUNTIME_CHECKPOINT_SAFETENSORSWRITER_H
#define SHALE_RUNTIME_CHECKPOINT_SAFETENSORSWRITER_H

#include "runtime/core/Files.h"
#include "runtime/core/Types.h"

#include <optional>

namespace shale::rt {

class SafetensorsWriter {
public:
  /// Declares the next tensor; all before the first begin().
  void declare(const std::string &name, Dtype type, const std::vector<int64_t> &shape);
  /// Creates the file and writes the header.
  /// `direct`: past the page cache, if the file is large.
  void begin(const std::string &path, bool direct = false);
  void append(const void *data, int64_t bytes) { file->append(data, bytes); }
  /// Offset in the file at which the data of the declared tensors starts.
  int64_t dataStart() const { return start; }
  int64_t position() const { return file->position(); }
  /// Syncs and closes; throws unless every declared byte was appended. Returns what is in the file,
  /// under `name`.
  WrittenFile finish(const std::string &name = "");

private:
  std::string header = "{\"__metadata__\":{\"format\":\"pt\"}";
  int64_t total = 0, start = 0;
  uint64_t headerSum = 0;
  std::optional<OutputFile> file;
};

} // namespace shale::rt

#endif
