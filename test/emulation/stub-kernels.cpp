// Kernels of a module for the emulated GPU, written by hand: the interface of compiled kernels.
#include "shale/Emulation.h"

namespace {

constexpr int32_t kThreads = 64;

float *element(ShaleThread *thread, void *buffer, int64_t index, int32_t write, int32_t site) {
  float *address = static_cast<float *>(buffer) + index;
  thread->access(thread, address, sizeof(float), write, site);
  return address;
}

/// y[i] = x[i] + 1
void addOne(ShaleThread *thread, void *const *args) {
  int64_t i = thread->block * kThreads + thread->thread;
  float x = *element(thread, args[0], i, 0, 0);
  *element(thread, args[1], i, 1, 1) = x + 1;
}

/// y[i] = 2 x[i]
void twice(ShaleThread *thread, void *const *args) {
  int64_t i = thread->block * kThreads + thread->thread;
  float x = *element(thread, args[0], i, 0, 0);
  *element(thread, args[1], i, 1, 1) = 2 * x;
}

/// y[block] = the sum of the block's elements of x, by shuffles and shared memory.
void sum(ShaleThread *thread, void *const *args) {
  union {
    float value;
    int32_t bits;
  } both;
  both.value = *element(thread, args[0], thread->block * kThreads + thread->thread, 0, 0);
  for (int32_t offset = 16; offset > 0; offset /= 2) {
    float mine = both.value;
    both.bits = int32_t(thread->shuffle(thread, both.bits, offset, 32, 0, 1));
    both.value += mine;
  }
  if (thread->thread % 32 == 0)
    *element(thread, thread->shared, thread->thread / 32, 1, 2) = both.value;
  thread->barrier(thread, 3);
  if (thread->thread == 0) {
    float total = *element(thread, thread->shared, 0, 0, 4);
    total += *element(thread, thread->shared, 1, 0, 5);
    *element(thread, args[1], thread->block, 1, 6) = total;
  }
}

/// Half of the threads wait at a barrier.
void diverge(ShaleThread *thread, void *const *) {
  if (thread->thread < kThreads / 2)
    thread->barrier(thread, 0);
}

} // namespace

extern "C" {
__attribute__((visibility("default"))) extern const ShaleEmulatedKernel shale_emulated_kernels[];
const ShaleEmulatedKernel shale_emulated_kernels[] = {
    {"add_one", addOne, kThreads, 2, 0}, {"twice", twice, kThreads, 2, 0},
    {"sum", sum, kThreads, 2, 8},        {"diverge", diverge, kThreads, 0, 0},
    {nullptr, nullptr, 0, 0, 0},
};
}
