// Registers and deregisters device memory.
#include "runtime/comm/nccl/Registration.h"

namespace shale::rt {

ncclResult_t Registration::add(ncclComm_t comm, const Memory &block) {
  void *handle = nullptr;
  ncclResult_t result =
      library.ncclCommRegister(comm, block.data(), static_cast<size_t>(block.size()), &handle);
  if (result == ncclSuccess && handle) // none with NCCL_LOCAL_REGISTER=0
    handles.push_back({comm, handle});
  return result;
}

void Registration::clear() {
  for (; !handles.empty(); handles.pop_back())
    library.ncclCommDeregister(handles.back().first, handles.back().second);
}

} // namespace shale::rt
