// How the emulated cuBLASLt and NCCL put work on streams of the emulated driver. Tests only.
#ifndef SHALE_TEST_EMULATION_STUB_H
#define SHALE_TEST_EMULATION_STUB_H

#pragma GCC visibility push(default)
#include <cuda.h>

extern "C" {

/// An operation of a stream. While the stream captures, it becomes a node of the graph and runs at
/// each launch of it. The driver's lock is held in all functions: they must not call the driver.
struct ShaleStubWork {
  const char *name; ///< lives forever
  void *data;
  /// Makes the state of one run, when the operation or its graph is enqueued. May be null: the
  /// state is `data` then.
  void *(*begin)(void *data);
  /// Whether run() may be called now; polled. May be null: always.
  int (*ready)(void *state);
  /// Runs. CUDA_ERROR_NOT_READY: calls ready() and run() again, later. Other errors are sticky.
  CUresult (*run)(void *state);
  void (*end)(void *state); ///< Frees the state of one run. May be null.
  void (*drop)(void *data); ///< Frees `data`. May be null.
  /// What events say that a run takes, in seconds; negative: what it takes.
  double seconds = -1;
};

/// Enqueues an operation, and takes over its data even if it fails.
CUresult shale_stub_enqueue(CUstream stream, const ShaleStubWork *work);

/// The host's address of device or pinned memory. Null if [address, address + bytes) is not within
/// one allocation. To be called in ShaleStubWork::run.
void *shale_stub_address(CUdeviceptr address, size_t bytes);

/// Whether [address, address + bytes) is within one allocation of device memory: CUDA_SUCCESS, or
/// an error. Fails while this thread captures, too. Takes the driver's lock.
CUresult shale_stub_check_device(CUdeviceptr address, size_t bytes);

/// Runs work of streams until done(data) is not 0.
CUresult shale_stub_wait(int (*done)(void *), void *data);
}

#pragma GCC visibility pop

#endif
