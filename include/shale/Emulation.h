/* How GPU kernels that are compiled for the CPU call their emulator.
 *
 * A kernel is one function, which computes one thread. The emulator
 * (test/emulation) runs the threads of a block as fibers. Plain C; tests only.
 */
#ifndef SHALE_EMULATION_H
#define SHALE_EMULATION_H

#include <stdint.h>

typedef struct ShaleThread ShaleThread;

/* What a kernel reads of the thread that runs it. A site is the number of a barrier,
 * a shuffle or an access to memory in its kernel, in the order of the code. */
struct ShaleThread {
  int64_t thread, block;
  void *shared; /* the block's shared memory */
  /* Waits for all threads of the block. */
  void (*barrier)(ShaleThread *, int32_t site);
  /* Exchanges 32 bits within a warp: mode 0: of the thread whose number differs by xor `offset`;
   * 1: of thread - offset; 2: of thread + offset; 3: of thread `offset`. Returns them, and in bit
   * 32 whether that thread exists. */
  int64_t (*shuffle)(ShaleThread *, int32_t value, int32_t offset, int32_t width, int32_t mode,
                     int32_t site);
  /* Notes an access to memory, before it. */
  void (*access)(ShaleThread *, const void *address, int32_t bytes, int32_t write, int32_t site);
};

/* A kernel; `args` are its buffers. */
typedef void (*ShaleThreadFunction)(ShaleThread *, void *const *args);

/* A kernel of a module. A module for the emulated GPU is a shared library that exports
 * `const ShaleEmulatedKernel shale_emulated_kernels[]`; an entry without a name ends it. */
typedef struct ShaleEmulatedKernel {
  const char *name;
  ShaleThreadFunction function;
  int32_t threads;      /* of a block */
  int32_t arguments;    /* pointers to buffers */
  int64_t shared_bytes; /* of a block */
} ShaleEmulatedKernel;

#endif /* SHALE_EMULATION_H */
