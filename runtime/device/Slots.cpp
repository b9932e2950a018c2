// Slots for the values of calls and for their results.
#include "runtime/device/Slots.h"
#include "runtime/core/Error.h"

namespace shale::rt {

ValueSlots::ValueSlots(Device &device, int64_t bytes, bool mirrored) : device(device) {
  if (!device.sharesMemory())
    theirs = device.allocate(SHALE_SPACE_DEVICE, bytes, "inputs");
  onHost = device.allocate(SHALE_SPACE_HOST, theirs && mirrored ? bytes : 0, "the host's inputs");
  for (int i = 0; i < count(); ++i) {
    ours[i] = device.allocate(SHALE_SPACE_HOST, bytes, "inputs");
    copied[i] = device.makeMark();
  }
}

int ValueSlots::next() {
  copied[current]->wait();
  return current;
}

void ValueSlots::push(const char *word, int64_t offset) {
  if (!theirs)
    return;
  device.copyAcross(theirs->data(), at(current), theirs->size());
  copied[current]->set();
  if (word)
    device.copy(theirs->data() + offset, word, 4);
  if (onHost->size() > 0)
    device.copyAcross(onHost->data(), theirs->data(), onHost->size());
  current = 1 - current;
}

ResultSlots::ResultSlots(Device &device, int64_t bytes) : device(device) {
  if (!device.sharesMemory())
    theirs = device.allocate(SHALE_SPACE_DEVICE, bytes, "metrics");
  for (int i = 0; i < (theirs ? 2 : 1); ++i) {
    ours[i] = device.allocate(SHALE_SPACE_HOST, bytes, "metrics");
    copied[i] = device.makeMark();
  }
}

void ResultSlots::pull() {
  if (pulls - reads > 1)
    fail(SHALE_EXIT_INTERNAL, "metrics of a call were not read before they were overwritten");
  int64_t slot = pulls++ % 2;
  if (!theirs)
    return;
  device.copyAcross(ours[slot]->data(), theirs->data(), theirs->size());
  copied[slot]->set();
}

const char *ResultSlots::read() {
  if (reads >= pulls)
    fail(SHALE_EXIT_INTERNAL, "metrics were read before a call wrote them");
  int64_t slot = reads++ % 2;
  if (!theirs)
    return ours[0]->data();
  copied[slot]->wait();
  return ours[slot]->data();
}

} // namespace shale::rt
