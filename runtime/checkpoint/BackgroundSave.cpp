// Copies the state and writes the copy in a thread.
#include "runtime/checkpoint/BackgroundSave.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <sys/resource.h>
#include <system_error>
#include <utility>

namespace shale::rt {

static constexpr int kLowestPriority = 19;

std::vector<StateCopy::Range> StateCopy::rangesOf(const ShaleProgram &program, int rank,
                                                  const std::string &form) {
  std::vector<Range> found;
  for (bool spread : {true, false}) // the sharded form and the full one
    if (spread ? form != "full" : form != "sharded")
      for (const Slice &slice : slicesOf(program, spread))
        if (slice.rank == rank && slice.bytes > 0)
          found.push_back({slice.offset, slice.offset + slice.bytes, 0});
  std::sort(found.begin(), found.end(),
            [](const Range &x, const Range &y) { return x.begin < y.begin; });
  std::vector<Range> merged;
  int64_t at = 0;
  for (const Range &range : found)
    // Ranges of device memory and of host memory, which begins at state_bytes, stay apart.
    if (!merged.empty() &&
        (range.begin < merged.back().end ||
         (range.begin == merged.back().end && range.begin != program.state_bytes)))
      merged.back().end = std::max(merged.back().end, range.end);
    else
      merged.push_back(range);
  for (Range &range : merged) {
    range.at = at;
    at += range.end - range.begin;
  }
  return merged;
}

int64_t StateCopy::bytesFor(const ShaleProgram &program, int rank, const std::string &form) {
  std::vector<Range> ranges = rangesOf(program, rank, form);
  return ranges.empty() ? 0 : ranges.back().at + ranges.back().end - ranges.back().begin;
}

StateCopy::StateCopy(const ShaleProgram &program, int rank, const std::string &form, Device &device)
    : ranges(rangesOf(program, rank, form)),
      memory(device.allocate(SHALE_SPACE_HOST, bytesFor(program, rank, form),
                             "the copy of the state for saves")) {
  constexpr int64_t page = 4096;
  auto provide = [data = memory->data(), bytes = bytesFor(program, rank, form)] {
    for (int64_t at = 0; at < bytes; at += page)
      const_cast<volatile char *>(data)[at] = 0;
  };
  try {
    provider = std::thread(provide);
  } catch (const std::system_error &) { // no more threads: the first copy is slower
  }
}

StateCopy::~StateCopy() {
  if (provider.joinable())
    provider.join();
}

void StateCopy::take(const State &state) {
  if (provider.joinable())
    provider.join();
  for (const Range &range : ranges)
    state.read(range.begin, memory->data() + range.at, range.end - range.begin);
}

void StateCopy::read(int64_t offset, void *target, int64_t bytes) const {
  auto after = std::upper_bound(ranges.begin(), ranges.end(), offset,
                                [](int64_t at, const Range &range) { return at < range.begin; });
  if (after == ranges.begin() || offset + bytes > std::prev(after)->end)
    fail(SHALE_EXIT_INTERNAL, "a save reads %lld bytes at offset %lld, which were not copied",
         (long long)bytes, (long long)offset);
  const Range &range = *std::prev(after);
  std::memcpy(target, memory->data() + range.at + (offset - range.begin), bytes);
}

BackgroundSave::~BackgroundSave() {
  if (thread.joinable())
    thread.join();
}

void BackgroundSave::start(const State &state, std::function<void(const StateReader &)> write) {
  if (thread.joinable())
    fail(SHALE_EXIT_INTERNAL, "a save starts before the one before it has ended");
  copy->take(state);
  written = false;
  thread = std::thread([this, write = std::move(write)] {
    // Steps come first: on Linux the priority is that of this thread. A step that waits for the
    // save leaves the processor to it.
    setpriority(PRIO_PROCESS, 0, kLowestPriority);
    try {
      write(*copy);
    } catch (...) {
      error = std::current_exception();
    }
    written = true;
  });
}

double BackgroundSave::finish() {
  auto start = std::chrono::steady_clock::now();
  if (thread.joinable())
    thread.join();
  std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  if (std::exception_ptr thrown = std::exchange(error, nullptr))
    std::rethrow_exception(thrown);
  return waited.count();
}

} // namespace shale::rt
