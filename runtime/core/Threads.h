// OpenMP threads. Only Threads.c names OpenMP.
#ifndef SHALE_RUNTIME_CORE_THREADS_H
#define SHALE_RUNTIME_CORE_THREADS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Calls part(context, thread, threads) once on each thread of a new parallel region. OpenMP may
/// start fewer threads than shale_threads().
void shale_on_threads(void (*part)(void *context, int64_t thread, int64_t threads), void *context);

/// Whether the caller runs within a parallel region.
int shale_in_parallel(void);

/// Threads of the next parallel region.
int shale_threads(void);
void shale_set_threads(int threads);

#ifdef __cplusplus
}

namespace shale::rt {

/// shale_on_threads with a callable part(thread, threads).
template <typename Part> void onThreads(Part part) {
  shale_on_threads([](void *context, int64_t thread,
                      int64_t threads) { (*static_cast<Part *>(context))(thread, threads); },
                   &part);
}

} // namespace shale::rt
#endif

#endif // SHALE_RUNTIME_CORE_THREADS_H
