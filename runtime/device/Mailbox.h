// Memory through which the process and compiled functions exchange values: on one side the process
// reads and writes, on the other side compiled functions. One block if the device shares its
// memory.
#ifndef SHALE_RUNTIME_DEVICE_MAILBOX_H
#define SHALE_RUNTIME_DEVICE_MAILBOX_H

#include "runtime/device/Device.h"

namespace shale::rt {

class Mailbox {
public:
  /// `what` names it in messages.
  Mailbox(Device &device, int64_t bytes, const char *what)
      : device(device), ours(device.allocate(SHALE_SPACE_HOST, bytes, what)),
        theirs(device.sharesMemory() ? nullptr : device.allocate(SHALE_SPACE_DEVICE, bytes, what)) {
  }

  /// The process's side and that of compiled functions.
  char *host() const { return ours->data(); }
  char *compiled() const { return theirs ? theirs->data() : ours->data(); }

  /// Copy the process's side to compiled functions, before a call, and back, after it.
  void push() {
    if (theirs)
      device.write(theirs->data(), ours->data(), ours->size());
  }
  void pull() {
    if (theirs)
      device.read(ours->data(), theirs->data(), ours->size());
  }

private:
  Device &device;
  std::unique_ptr<Memory> ours, theirs;
};

} // namespace shale::rt

#endif
