// Reads safetensors files as untrusted input: header size, duplicate names,
// types, shapes and offsets are checked in 64 bits before any allocation that
// depends on them.
#ifndef SHALE_RUNTIME_DATA_SAFETENSORSREADER_H
#define SHALE_RUNTIME_DATA_SAFETENSORSREADER_H

#include "runtime/core/Files.h"
#include "runtime/core/Types.h"

#include <map>

namespace shale::rt {

struct TensorInfo {
  Dtype type = Dtype::F32;
  std::vector<int64_t> shape;
  int64_t count = 0;
  int64_t offset = 0; // into the file
  int64_t bytes = 0;
};

class SafetensorsReader {
public:
  explicit SafetensorsReader(const std::string &path) : SafetensorsReader(InputFile(path)) {}
  explicit SafetensorsReader(InputFile file);
  const TensorInfo *find(const std::string &name) const;
  const std::map<std::string, TensorInfo> &tensors() const { return table; }
  const InputFile &file() const { return input; }

private:
  InputFile input;
  std::map<std::string, TensorInfo> table;
};

} // namespace shale::rt

#endif
