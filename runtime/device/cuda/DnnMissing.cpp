// In place of Dnn.cpp where the headers of cuDNN are missing.
#include "runtime/device/cuda/Dnn.h"

namespace shale::rt::cuda {

struct Dnn::State {};

void Dnn::check() {
  fail(SHALE_EXIT_UNAVAILABLE,
       "this program needs cuDNN, but Shale was built without its headers: "
       "compile the program with --attention generated, or build Shale with "
       "the headers of cuDNN and cudnn-frontend");
}

Dnn::Dnn(CUdevice) { check(); }
Dnn::~Dnn() = default;
void Dnn::attend(const Attention &, CUstream) {}

} // namespace shale::rt::cuda
