// OpenMP threads of kernels and matmuls, in C: GCC compiles this file, so that they are those of
// libgomp, which oneDNN uses. The OpenMP of clang, the compiler of the C++ sources, is another
// library with threads of its own.
#include "runtime/core/Threads.h"

#include <omp.h>

void shale_on_threads(void (*part)(void *, int64_t, int64_t), void *context) {
#pragma omp parallel
  part(context, omp_get_thread_num(), omp_get_num_threads());
}

int shale_in_parallel(void) { return omp_in_parallel(); }

int shale_threads(void) { return omp_get_max_threads(); }

void shale_set_threads(int threads) { omp_set_num_threads(threads); }
