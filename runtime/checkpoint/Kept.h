// What the model's state_dict has beside the program's parameters: buffers that the
// step holds as constants, and parameters that nothing reads. They are written
// beside the trained parameters as they were.
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

/// At the start of a run, by rank 0: copies those that --init's files have to the
/// output's folder, where a run that goes on finds them.
void storeKept(const ShaleProgram &program, const InitOptions &init,
               const std::string &out);

/// Those whose values are known: stored by storeKept(), or in the model's own file.
/// `missing`: names of the others.
std::vector<KeptTensor> findKept(const ShaleProgram &program,
                                 const std::string &out,
                                 std::vector<std::string> &missing);

} // namespace shale::rt

#endif
