// Runs work on the host in order with a stream of the GPU.
#include "runtime/device/cuda/HostThread.h"

#include <utility>

namespace shale::rt::cuda {

HostThread::HostThread(const Driver &cu, CUstream stream, std::unique_ptr<Memory> done)
    : cu(cu), stream(stream), done(std::move(done)), thread([this] { run(); }) {}

HostThread::~HostThread() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    ending = true;
  }
  woken.notify_one();
  thread.join();
}

void HostThread::run() {
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    woken.wait(lock, [&] { return next || ending; });
    if (!next)
      return;
    Work *work = std::exchange(next, nullptr);
    lock.unlock();
    work->body();
    if (work->once)
      delete work;
    // Release order: a GPU that reads this number also reads the results of the work.
    __atomic_store_n(reinterpret_cast<uint32_t *>(done->data()), 1, __ATOMIC_RELEASE);
    lock.lock();
  }
}

void HostThread::wake(Work *work) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    next = work;
  }
  woken.notify_one();
}

void HostThread::enqueue(std::function<void()> body, bool captured) {
  Work *work = captured ? &captives.emplace_back(Work{std::move(body), false, this})
                        : new Work{std::move(body), true, this};
  CUhostFn run = [](void *data) {
    auto *work = static_cast<Work *>(data);
    work->thread->wake(work);
  };
  must(cu.cuLaunchHostFunc(stream, run, work), "call the host");
  CUstreamBatchMemOpParams ops[2] = {};
  ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  ops[0].waitValue.value = 1;
  ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  ops[1].writeValue.value = 0;
  ops[1].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;
  ops[0].waitValue.address = ops[1].writeValue.address =
      reinterpret_cast<CUdeviceptr>(done->data());
  must(cu.cuStreamBatchMemOp(stream, 2, ops, 0), "wait for the host");
}

} // namespace shale::rt::cuda
