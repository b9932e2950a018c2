// Memory through which the process and compiled functions exchange values. A device that is not the
// host has one block of its own, and the process two, the slots: while a call uses what was copied
// from one slot, the process fills the other. On the host all are one block.
#ifndef SHALE_RUNTIME_DEVICE_SLOTS_H
#define SHALE_RUNTIME_DEVICE_SLOTS_H

#include "runtime/device/Device.h"

namespace shale::rt {

/// Memory for the values that the process passes to calls. For each call the process fills
/// at(next()), then calls push().
class ValueSlots {
public:
  /// `mirrored`: kernels on the host read the values, too.
  ValueSlots(Device &device, int64_t bytes, bool mirrored);

  int count() const { return theirs ? 2 : 1; }
  /// Address of slot `index`.
  char *at(int index) const { return ours[index]->data(); }
  /// Returns the index of the slot to fill next. Waits until the device has copied what it held.
  int next();
  /// Enqueues the copy of that slot, which later calls read. If `word` is not null, then the 32
  /// bits at this address in the device's memory replace those at `offset` bytes of the copy, with
  /// the value that they have when the copy runs.
  void push(const char *word = nullptr, int64_t offset = 0);

  /// Returns the address from which compiled functions read.
  char *compiled() const { return theirs ? theirs->data() : ours[0]->data(); }
  /// Returns the address from which kernels on the host read; null unless `mirrored`.
  char *mirror() const { return theirs ? onHost->data() : ours[0]->data(); }

private:
  Device &device;
  std::unique_ptr<Memory> ours[2], theirs, onHost;
  std::unique_ptr<Mark> copied[2]; // the slot may be filled again
  int current = 0;
};

/// Memory for the values that calls return. The process calls pull() after each call, and later
/// read() once per pull(), in the same order, at most two pulls behind.
class ResultSlots {
public:
  ResultSlots(Device &device, int64_t bytes);

  /// Returns the memory to which compiled functions write.
  const Memory &memory() const { return theirs ? *theirs : *ours[0]; }
  char *compiled() const { return memory().data(); }
  void pull();
  /// Waits for the first results that were not read, and returns them. They stay until the second
  /// pull() after theirs.
  const char *read();

private:
  Device &device;
  std::unique_ptr<Memory> ours[2], theirs;
  std::unique_ptr<Mark> copied[2];
  int64_t pulls = 0, reads = 0;
};

} // namespace shale::rt

#endif
