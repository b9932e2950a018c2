// Tensors of the model's state_dict that are not parameters of the program: buffers
// that the step uses as constants, and parameters that nothing reads. They are written
// unchanged beside the trained parameters.
#ifndef SHALE_RUNTIME_CHECKPOINT_KEPT_H
#define SHALE_RUNTIME_CHECKPOINT_KEPT_H

#include "runtime/checkpoint/Initial.h"
#include "runtime/core/Types.h"

#include <string>
#include <vector>

namespace shale::rt {

struct KeptTensor {
  std::string name;
  Dtype type = Dtype::F32;
  std::vector<int64_t> shape;
  std::string file;
  int64_t offset = 0, bytes = 0;
};

/// Copies the kept tensors in --init's files to the output folder, where a resumed run
/// finds them. Rank 0 calls it at the start of a run.
void storeKept(const ShaleProgram &program, const InitOptions &init, const std::string &out);

/// Returns the kept tensors whose values are known: stored by storeKept(), or in the
/// model's own file. Sets `missing` to the names of the others.
std::vector<KeptTensor> findKept(const ShaleProgram &program, const std::string &out,
                                 std::vector<std::string> &missing);

} // namespace shale::rt

#endif
