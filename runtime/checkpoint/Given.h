// Weights that --init names: one safetensors file, or a model folder as written by
// Hugging Face's libraries, with one file or with shards and an index.
#ifndef SHALE_RUNTIME_CHECKPOINT_GIVEN_H
#define SHALE_RUNTIME_CHECKPOINT_GIVEN_H

#include "runtime/checkpoint/Renames.h"
#include "runtime/data/SafetensorsReader.h"
#include "shale/Runtime.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace shale::rt {

class GivenWeights {
public:
  /// Opens the files and finds every parameter by its name or, if it is tied,
  /// by any of its names. `renames` are OLD=NEW, applied in order to the names in
  /// the files, as Renames describes; a tensor whose name becomes empty is not read. A name that
  /// the program lacks may then differ by a prefix, one for the whole model ("transformer."). Masks
  /// and position numbers that the program lacks are not read (Masks.h). All other tensors that are
  /// missing, left over or of another shape or kind are reported in one error with exit code 65. A
  /// buffer may be missing.
  GivenWeights(const ShaleProgram &program, const std::string &source,
               const std::vector<std::string> &renames);

  struct Tensor {
    const InputFile *file = nullptr; // null: a missing buffer
    TensorInfo info;
    std::string name; // in the file
    std::string own;  // in the program; "" if it is not read
  };
  const Tensor &of(int parameter) const { return found[parameter]; }
  /// Names of missing buffers, which keep the values of the program's own file.
  const std::vector<std::string> &missingBuffers() const { return buffers; }
  /// Says what was done to the file's names without a flag; "" if nothing.
  const std::string &note() const { return fitted; }
  /// Tensors of the model's state_dict that the program does not use, by their names
  /// in the program.
  const std::map<std::string, Tensor> &carried() const { return beside; }
  /// Checks that tensors under different names of one tied parameter hold the same values.
  void checkTied() const;

private:
  void open(const std::string &source);
  void openIndex(const InputFile &index);
  void match(const ShaleProgram &program, const std::string &source, const Renames &renames);

  std::vector<std::unique_ptr<SafetensorsReader>> files;
  std::vector<Tensor> all;   // of the files, by name
  std::vector<Tensor> found; // by parameter
  std::vector<std::pair<Tensor, Tensor>> tied;
  std::vector<std::string> buffers;
  std::string fitted;
  std::map<std::string, Tensor> beside;
};

/// Whether a file of this name describes a model (configuration, tokenizer), and is copied to the
/// folder of the trained weights.
bool describesModel(const std::string &name);

/// Copies the files of a model folder that describe the model to another folder; does nothing if
/// the source is not a folder.
void copyModelFiles(const std::string &source, const std::string &target);

} // namespace shale::rt

#endif
