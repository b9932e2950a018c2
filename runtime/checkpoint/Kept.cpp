// Tensors that are copied from the initial weights to the trained ones.
#include "runtime/checkpoint/Kept.h"
#include "runtime/checkpoint/Given.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <optional>
#include <unistd.h>

namespace shale::rt {

namespace {
constexpr int64_t chunkBytes = 1 << 20;

std::string storePath(const std::string &out) { return out + "/.kept.safetensors"; }
} // namespace

void storeKept(const ShaleProgram &program, const InitOptions &init, const std::string &out) {
  std::string path = storePath(out);
  unlink(path.c_str()); // of another run
  if (program.kept_count == 0 || init.source.empty() || init.source.compare(0, 7, "random:") == 0)
    return;
  GivenWeights given(program, init.source, init.renames);
  if (given.carried().empty())
    return;
  SafetensorsWriter writer;
  for (const auto &[name, tensor] : given.carried())
    writer.declare(name, tensor.info.type, tensor.info.shape);
  std::string temporary = temporaryName(path);
  writer.begin(temporary);
  std::vector<char> buffer(chunkBytes);
  for (const auto &[name, tensor] : given.carried())
    for (int64_t at = 0; at < tensor.info.bytes; at += chunkBytes) {
      int64_t n = std::min(chunkBytes, tensor.info.bytes - at);
      tensor.file->readAt(tensor.info.offset + at, buffer.data(), n);
      writer.append(buffer.data(), n);
    }
  writer.finish(baseName(path));
  renameFile(temporary, path);
}

std::vector<KeptTensor> findKept(const ShaleProgram &program, const std::string &out,
                                 std::vector<std::string> &missing) {
  std::vector<KeptTensor> kept;
  std::optional<SafetensorsReader> store;
  if (program.kept_count > 0 && exists(storePath(out)))
    store.emplace(storePath(out));
  for (int k = 0; k < program.kept_count; ++k) {
    const ShaleParameter &row = program.kept[k];
    const TensorInfo *info = store ? store->find(row.name) : nullptr;
    if (info) {
      kept.push_back(
          {row.name, info->type, info->shape, store->file().path(), info->offset, info->bytes});
      continue;
    }
    if (row.type < 0 || !row.init.file) {
      missing.push_back(row.name);
      continue;
    }
    try {
      InputFile file = openInitial(row.init);
      checkHash(row, file);
      kept.push_back({row.name,
                      static_cast<Dtype>(row.type),
                      {row.dims, row.dims + row.rank},
                      file.path(),
                      row.init.offset,
                      row.init.length});
    } catch (const Error &) {
      missing.push_back(row.name); // training does not need the model's files
    }
  }
  return kept;
}

} // namespace shale::rt
