// The data files of a run.
#ifndef SHALE_RUNTIME_DATA_OPENEDFILES_H
#define SHALE_RUNTIME_DATA_OPENEDFILES_H

#include "runtime/data/DataFiles.h"
#include "runtime/data/SafetensorsReader.h"
#include "runtime/data/Tokens.h"

#include <memory>
#include <string>
#include <vector>

namespace shale::rt {

/// Returns the files of a comma-separated list of files and folders. A folder stands
/// for its .bin, .npy and .safetensors files, sorted by name. Fails with exit code 66
/// for a folder without any.
std::vector<std::string> dataFiles(const std::string &path);

/// Opens data files: either files of tokens or files of batches (.safetensors).
class OpenedFiles {
public:
  /// `path` is as for dataFiles(); without it there are no files. Fails with exit code 65 if the
  /// files are of both kinds.
  OpenedFiles(const std::string &path, const TokenOptions &options);

  const std::string &path() const { return list; }
  size_t count() const { return ofTensors.size() + ofTokens.size(); }
  /// Returns what a checkpoint stores of the files, in their order. Reads samples of them. `ends`
  /// has the number of rows up to the end of each file; files without an end have no rows.
  std::vector<DataFile> sampled(const std::vector<int64_t> &ends) const;

  /// Returns the files of batches, and those of tokens: one of the lists is empty.
  const std::vector<std::unique_ptr<SafetensorsReader>> &tensors() const { return ofTensors; }
  const std::vector<std::unique_ptr<TokenFile>> &tokens() const { return ofTokens; }

private:
  std::string list;
  std::vector<std::unique_ptr<SafetensorsReader>> ofTensors;
  std::vector<std::unique_ptr<TokenFile>> ofTokens;
};

} // namespace shale::rt

#endif
