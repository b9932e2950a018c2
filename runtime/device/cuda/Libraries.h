// Where NVIDIA's libraries are searched.
#ifndef SHALE_RUNTIME_DEVICE_CUDA_LIBRARIES_H
#define SHALE_RUNTIME_DEVICE_CUDA_LIBRARIES_H

#include <string>

namespace shale::rt::cuda {

/// Sets the folder that is searched before the loader's: --cuda-libraries. Call it before the
/// device is opened.
void setLibraryFolder(const std::string &folder);

} // namespace shale::rt::cuda

#endif
