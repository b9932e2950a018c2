// The data files of a run.
#include "runtime/data/OpenedFiles.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <filesystem>

namespace shale::rt {

std::vector<std::string> dataFiles(const std::string &path) {
  std::error_code error;
  auto isFolder = [&](const std::string &name) {
    return std::filesystem::is_directory(name, error);
  };
  std::vector<std::string> files;
  size_t comma = path.find(',');
  if (comma != std::string::npos && !exists(path)) {
    for (size_t at = 0; at <= path.size();) {
      size_t end = std::min(path.find(',', at), path.size());
      if (end > at)
        for (const std::string &file : dataFiles(path.substr(at, end - at)))
          files.push_back(file);
      at = end + 1;
    }
    return files;
  }
  if (!isFolder(path))
    return {path};
  for (const std::string &name : listFolder(path))
    if (name[0] != '.' &&
        (endsWith(name, ".bin") || endsWith(name, ".npy") || endsWith(name, ".safetensors")))
      files.push_back(path + "/" + name);
  if (files.empty())
    fail(SHALE_EXIT_NO_INPUT, "folder '%s' has no .bin, .npy or .safetensors file", path.c_str());
  std::sort(files.begin(), files.end());
  return files;
}

OpenedFiles::OpenedFiles(const std::string &path, const TokenOptions &options) : list(path) {
  if (!path.empty())
    for (const std::string &file : dataFiles(path)) {
      if (endsWith(file, ".safetensors"))
        ofTensors.push_back(std::make_unique<SafetensorsReader>(file));
      else
        ofTokens.push_back(std::make_unique<TokenFile>(file, options));
    }
  if (!ofTensors.empty() && !ofTokens.empty())
    fail(SHALE_EXIT_DATA, "'%s' has files of tokens and of batches (.safetensors); give one kind",
         path.c_str());
}

std::vector<DataFile> OpenedFiles::sampled(const std::vector<int64_t> &ends) const {
  std::vector<const InputFile *> opened;
  for (const auto &file : ofTensors)
    opened.push_back(&file->file());
  for (const auto &file : ofTokens)
    opened.push_back(&file->input());
  std::vector<DataFile> found;
  int64_t most = sampledBytes(opened.size());
  for (size_t f = 0; f < opened.size(); ++f) {
    int64_t rows = f < ends.size() ? ends[f] - (f > 0 ? ends[f - 1] : 0) : 0;
    found.push_back({printable(baseName(opened[f]->path())), opened[f]->size(), rows,
                     sampledHash(*opened[f], most)});
  }
  return found;
}

} // namespace shale::rt
