// Weights that --init names: one safetensors file, or the folder of a model as
// Hugging Face's libraries write it, with one file or with shards and an index.
#ifndef SHALE_RUNTIME_CHECKPOINT_GIVEN_H
#define SHALE_RUNTIME_CHECKPOINT_GIVEN_H

#include "runtime/data/SafetensorsReader.h"
#include "shale/Runtime.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shale::rt {

class GivenWeights {
public:
  /// Opens the files and finds every parameter by its name or, where it is tied,
  /// by any of its names. `renames` are OLD=NEW, applied in their order to the
  /// files' names: OLD is a regular expression that is matched at the start of a
  /// name, what it matches is replaced by NEW ($1: its first group); a name that
  /// becomes empty is not read. What is missing, left over or of another shape or
  /// kind is one error with exit code 65. A buffer may be missing.
  GivenWeights(const ShaleProgram &program, const std::string &source,
               const std::vector<std::string> &renames);

  struct Tensor {
    const InputFile *file = nullptr; // null: a buffer that is not there
    TensorInfo info;
    std::string name; // in the file
  };
  const Tensor &of(int parameter) const { return found[parameter]; }
  /// Buffers that keep the values of the program's own file.
  const std::vector<std::string> &missingBuffers() const { return buffers; }
  /// Tensors of the model's state_dict that the program has no use for, under the
  /// program's names.
  const std::map<std::string, Tensor> &carried() const { return beside; }
  /// Two tensors under the names of one tied parameter must hold the same values.
  void checkTied() const;

private:
  void open(const std::string &source);
  void openIndex(const std::string &path);
  void match(const ShaleProgram &program, const std::string &source,
             const std::vector<std::string> &renames);

  std::vector<std::unique_ptr<SafetensorsReader>> files;
  std::vector<Tensor> all; // of the files, by name
  std::vector<Tensor> found; // by parameter
  std::vector<std::pair<Tensor, Tensor>> tied;
  std::vector<std::string> buffers;
  std::map<std::string, Tensor> beside;
};

/// The new name, by the rules of the constructor. Exit code 64 for a rename that
/// is none.
std::string renamed(std::string name, const std::vector<std::string> &renames);

/// Copies what describes the model beside its weights (configuration, tokenizer)
/// from a model's folder to another; nothing for a source that is no folder.
void copyModelFiles(const std::string &source, const std::string &target);

} // namespace shale::rt

#endif
