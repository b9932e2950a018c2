// Writes what a GPU did: a line for each kernel, copy and fill, "START END STREAM NAME" in
// nanoseconds, to the file of SHALE_ACTIVITY. The driver loads this library into a process by
// CUDA_INJECTION64_PATH; kernel_times.py builds it and reads the file. Source: CUPTI's activity
// API, docs.nvidia.com/cupti.
#include <cstdio>
#include <cstdlib>
#include <cupti.h>
#include <initializer_list>

namespace {
FILE *file = nullptr;
constexpr size_t kBytes = 64 << 10; // of a buffer of records: a program that is killed loses one

void line(uint64_t start, uint64_t end, uint32_t stream, const char *name) {
  std::fprintf(file, "%llu %llu %u %s\n", (unsigned long long)start, (unsigned long long)end,
               stream, name);
}

void CUPTIAPI request(uint8_t **buffer, size_t *size, size_t *records) {
  *buffer = (uint8_t *)std::aligned_alloc(8, kBytes), *size = *buffer ? kBytes : 0, *records = 0;
}

void CUPTIAPI complete(CUcontext, uint32_t, uint8_t *buffer, size_t, size_t valid) {
  CUpti_Activity *record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS)
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      auto *one = (CUpti_ActivityKernel10 *)record;
      line(one->start, one->end, one->streamId, one->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      auto *one = (CUpti_ActivityMemcpy6 *)record;
      line(one->start, one->end, one->streamId, "copy");
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      auto *one = (CUpti_ActivityMemset4 *)record;
      line(one->start, one->end, one->streamId, "fill");
    }
  std::free(buffer);
  std::fflush(file);
}

void finish() {
  cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  std::fclose(file);
}
} // namespace

extern "C" int InitializeInjection() {
  const char *path = std::getenv("SHALE_ACTIVITY");
  if (!path || !(file = std::fopen(path, "w")))
    return 0;
  for (CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                  CUPTI_ACTIVITY_KIND_MEMSET})
    if (cuptiActivityEnable(kind) != CUPTI_SUCCESS)
      return 0;
  if (cuptiActivityRegisterCallbacks(request, complete) != CUPTI_SUCCESS)
    return 0;
  cuptiActivityFlushPeriod(500); // milliseconds
  std::atexit(finish);
  return 1;
}
