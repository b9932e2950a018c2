// Streams, events, host functions, and work of the other emulated libraries.
#include "Driver.h"
#include "Faults.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>

using namespace shale::stub;

Stream *Driver::find(CUstream stream) {
  auto found = streams.find(stream);
  return found == streams.end() || found->second->destroyed ? nullptr : found->second.get();
}

namespace {

Event *find(Driver &driver, CUevent event) {
  auto found = driver.events.find(event);
  return found == driver.events.end() ? nullptr : found->second.get();
}

class HostFunction final : public Work {
public:
  HostFunction(CUhostFn function, void *data)
      : Work("a host function"), function(function), data(data) {}
  CUresult run(void *) override {
    function(data);
    return CUDA_SUCCESS;
  }
  bool unlocked() const override { return true; }

private:
  CUhostFn function;
  void *data;
};

/// Work of another library.
class ForeignWork final : public Work {
public:
  explicit ForeignWork(const ShaleStubWork &work) : Work(work.name), work(work) {}
  ~ForeignWork() override {
    if (work.drop)
      work.drop(work.data);
  }
  void *begin() override { return work.begin ? work.begin(work.data) : work.data; }
  bool ready(void *state) override { return !work.ready || work.ready(state); }
  CUresult run(void *state) override { return work.run(state); }
  double seconds() const override { return work.seconds; }
  void end(void *state) override {
    if (work.end)
      work.end(state);
  }

private:
  ShaleStubWork work;
};

/// Waits for 32-bit numbers in memory, and stores of them.
class MemoryOperations final : public Work {
public:
  MemoryOperations(Driver &driver, std::vector<CUstreamBatchMemOpParams> all)
      : Work("operations on memory"), driver(driver), all(std::move(all)) {}
  void *begin() override { return new size_t(0); }
  bool ready(void *state) override { return canRun(all[*static_cast<size_t *>(state)]); }
  CUresult run(void *state) override {
    size_t &next = *static_cast<size_t *>(state);
    for (; next < all.size(); ++next) {
      if (!canRun(all[next]))
        return CUDA_ERROR_NOT_READY;
      if (all[next].operation == CU_STREAM_MEM_OP_WRITE_VALUE_32)
        __atomic_store_n(place(all[next].writeValue.address), all[next].writeValue.value,
                         __ATOMIC_RELEASE);
    }
    return CUDA_SUCCESS;
  }
  void end(void *state) override { delete static_cast<size_t *>(state); }

private:
  uint32_t *place(CUdeviceptr address) const {
    return reinterpret_cast<uint32_t *>(driver.memory.resolve(address, sizeof(uint32_t)));
  }
  bool canRun(const CUstreamBatchMemOpParams &op) const {
    return op.operation != CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
           __atomic_load_n(place(op.waitValue.address), __ATOMIC_ACQUIRE) == op.waitValue.value;
  }

  Driver &driver;
  std::vector<CUstreamBatchMemOpParams> all;
};

CUresult createStream(Driver &driver, CUstream *made, unsigned flags) {
  SHALE_REQUIRE(made && flags <= CU_STREAM_NON_BLOCKING, CUDA_ERROR_INVALID_VALUE);
  auto stream = std::make_unique<Stream>();
  stream->flags = flags;
  static int created = 0;
  stream->number = ++created;
  *made = reinterpret_cast<CUstream>(stream.get());
  driver.streams[*made] = std::move(stream);
  return CUDA_SUCCESS;
}

/// Whether a wait has no effect because SHALE_STUB_DROP names its streams; `waiter` 0 is the
/// process. Each pair of streams that waits is printed once.
bool isDropped(int waiter, const Event &event) {
  static const std::string drop = setting("SHALE_STUB_DROP", "");
  static std::set<std::string> seen;
  if (drop.empty())
    return false;
  std::string pair = std::to_string(waiter) + "<" + std::to_string(event.stream);
  if (seen.insert(pair).second)
    std::fprintf(stderr, "shale stub: wait %s%s\n", pair.c_str(), pair == drop ? " dropped" : "");
  return pair == drop;
}

} // namespace

// ---- streams

CUresult cuStreamCreate(CUstream *made, unsigned flags) {
  SHALE_ENTER("cuStreamCreate");
  return createStream(driver, made, flags);
}

CUresult cuStreamCreateWithPriority(CUstream *made, unsigned flags, int) {
  SHALE_ENTER("cuStreamCreateWithPriority");
  return createStream(driver, made, flags);
}

CUresult cuStreamDestroy(CUstream handle) {
  SHALE_ENTER("cuStreamDestroy");
  Stream *stream = driver.find(handle);
  SHALE_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
  if (stream->capture)
    stream->capture->invalid = true;
  stream->capture = nullptr;
  // Work that is left runs later.
  stream->destroyed = true;
  if (!stream->used)
    driver.streams.erase(handle);
  else
    driver.mark(*stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  SHALE_ENTER("cuStreamSynchronize");
  Stream *stream = driver.find(handle);
  SHALE_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
  if (CUresult failed = driver.checkNotCapturing(*stream))
    return failed;
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  CUresult result = driver.waitFor(lock, driver.mark(*stream));
  if (result == CUDA_SUCCESS)
    driver.memory.printSums();
  return result;
}

CUresult cuStreamQuery(CUstream handle) {
  SHALE_ENTER("cuStreamQuery");
  Stream *stream = driver.find(handle);
  SHALE_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
  if (CUresult failed = driver.checkNotCapturing(*stream))
    return failed;
  if (CUresult failed = driver.checkUnsafe())
    return failed;
  return driver.advance(lock, [&] { return stream->queue.empty(); });
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent eventHandle, unsigned flags) {
  SHALE_ENTER("cuStreamWaitEvent");
  Stream *stream = driver.find(handle);
  Event *event = find(driver, eventHandle);
  SHALE_REQUIRE(stream && event, CUDA_ERROR_INVALID_HANDLE);
  SHALE_REQUIRE(flags == 0, CUDA_ERROR_INVALID_VALUE);
  if (isDropped(stream->number, *event))
    return CUDA_SUCCESS;
  if (event->capture || stream->capture) {
    if (stream->capture && stream->capture->invalid)
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!event->capture) {
      SHALE_REQUIRE(event->point, CUDA_SUCCESS);
      stream->capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (event->capture->invalid)
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (std::find(driver.captures.begin(), driver.captures.end(), event->capture) ==
        driver.captures.end())
      return CUDA_ERROR_CAPTURED_EVENT; // of a capture that has ended
    if (stream->capture && stream->capture != event->capture) {
      stream->capture->invalid = event->capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_MERGE;
    }
    std::vector<int> after = event->tails;
    if (stream->capture)
      after.insert(after.end(), stream->tails.begin(), stream->tails.end());
    std::sort(after.begin(), after.end());
    after.erase(std::unique(after.begin(), after.end()), after.end());
    if (stream->capture) {
      stream->tails = after;
      return CUDA_SUCCESS;
    }
    // A stream that joins the capture has a node of its own, which must be joined back.
    stream->capture = event->capture;
    stream->capture->graph->nodes.push_back({nullptr, after});
    stream->tails = {int(stream->capture->graph->nodes.size()) - 1};
    return CUDA_SUCCESS;
  }
  if (!event->point || event->point->done)
    return CUDA_SUCCESS;
  Operation operation;
  operation.after = event->point;
  driver.push(*stream, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp(CUstream handle, unsigned count, CUstreamBatchMemOpParams *ops,
                            unsigned flags) {
  SHALE_ENTER("cuStreamBatchMemOp");
  Stream *stream = driver.find(handle);
  SHALE_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
  SHALE_REQUIRE(count > 0 && ops && flags == 0, CUDA_ERROR_INVALID_VALUE);
  for (unsigned i = 0; i < count; ++i) {
    bool waits = ops[i].operation == CU_STREAM_MEM_OP_WAIT_VALUE_32;
    SHALE_REQUIRE(waits || ops[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_32,
                  CUDA_ERROR_NOT_SUPPORTED);
    SHALE_REQUIRE(waits ? ops[i].waitValue.flags == CU_STREAM_WAIT_VALUE_EQ
                        : ops[i].writeValue.flags == CU_STREAM_WRITE_VALUE_DEFAULT,
                  CUDA_ERROR_NOT_SUPPORTED);
    SHALE_REQUIRE(
        driver.memory.resolve(waits ? ops[i].waitValue.address : ops[i].writeValue.address,
                              sizeof(uint32_t)),
        CUDA_ERROR_INVALID_VALUE);
  }
  return driver.enqueue(*stream,
                        std::make_shared<MemoryOperations>(
                            driver, std::vector<CUstreamBatchMemOpParams>(ops, ops + count)));
}

// ---- events

CUresult cuEventCreate(CUevent *made, unsigned flags) {
  SHALE_ENTER("cuEventCreate");
  SHALE_REQUIRE(made, CUDA_ERROR_INVALID_VALUE);
  auto event = std::make_unique<Event>();
  event->flags = flags;
  *made = reinterpret_cast<CUevent>(event.get());
  driver.events[*made] = std::move(event);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent handle) {
  SHALE_ENTER("cuEventDestroy");
  return driver.events.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecord(CUevent handle, CUstream streamHandle) {
  SHALE_ENTER("cuEventRecord");
  Stream *stream = driver.find(streamHandle);
  Event *event = find(driver, handle);
  SHALE_REQUIRE(stream && event, CUDA_ERROR_INVALID_HANDLE);
  if (stream->capture && stream->capture->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  event->stream = stream->number;
  event->capture = stream->capture;
  event->tails = stream->tails;
  event->point = stream->capture ? nullptr : driver.mark(*stream);
  return CUDA_SUCCESS;
}

/// Whether the host may look at an event now.
static CUresult checkVisible(Driver &driver, Event *event) {
  SHALE_REQUIRE(event, CUDA_ERROR_INVALID_HANDLE);
  if (event->capture) {
    event->capture->invalid = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  return driver.checkUnsafe();
}

CUresult cuEventQuery(CUevent handle) {
  SHALE_ENTER("cuEventQuery");
  Event *event = find(driver, handle);
  if (CUresult failed = checkVisible(driver, event))
    return failed;
  std::shared_ptr<Point> point = event->point;
  return driver.advance(lock, [&] { return !point || point->done; });
}

CUresult cuEventSynchronize(CUevent handle) {
  SHALE_ENTER("cuEventSynchronize");
  Event *event = find(driver, handle);
  if (CUresult failed = checkVisible(driver, event))
    return failed;
  if (!event->point || isDropped(0, *event))
    return CUDA_SUCCESS;
  return driver.waitFor(lock, event->point);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent startHandle, CUevent endHandle) {
  SHALE_ENTER("cuEventElapsedTime");
  Event *start = find(driver, startHandle), *end = find(driver, endHandle);
  SHALE_REQUIRE(start && end && start->point && end->point &&
                    !((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING),
                CUDA_ERROR_INVALID_HANDLE);
  SHALE_REQUIRE(milliseconds, CUDA_ERROR_INVALID_VALUE);
  SHALE_REQUIRE(start->point->done && end->point->done, CUDA_ERROR_NOT_READY);
  *milliseconds = float((end->point->time - start->point->time) * 1e3);
  return CUDA_SUCCESS;
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void *data) {
  SHALE_ENTER("cuLaunchHostFunc");
  Stream *stream = driver.find(handle);
  SHALE_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
  SHALE_REQUIRE(function, CUDA_ERROR_INVALID_VALUE);
  return driver.enqueue(*stream, std::make_shared<HostFunction>(function, data));
}

// ---- other libraries

CUresult shale_stub_enqueue(CUstream handle, const ShaleStubWork *work) {
  auto own = std::make_shared<ForeignWork>(*work);
  Driver &driver = Driver::get();
  Lock lock(driver.mutex);
  if (CUresult failed = driver.enter("shale_stub_enqueue"))
    return failed;
  Stream *stream = driver.find(handle);
  SHALE_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
  return driver.enqueue(*stream, own);
}

CUresult shale_stub_wait(int (*done)(void *), void *data) {
  SHALE_ENTER("shale_stub_wait");
  return driver.wait(lock, [&] { return done(data) != 0; });
}
