// Which operation of which stream runs next.
#include "Driver.h"

#include <algorithm>
#include <chrono>
#include <unistd.h>

using namespace shale::stub;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

void Driver::signal(const std::shared_ptr<Point> &point) {
  if (point) {
    point->done = true;
    point->time = clock;
  }
}

void Driver::push(Stream &stream, Operation operation) {
  if (!stream.used)
    inUse.push_back(&stream);
  stream.used = true;
  stream.queue.push_back(std::move(operation));
}

std::shared_ptr<Point> Driver::mark(Stream &stream) {
  auto point = std::make_shared<Point>();
  Operation operation;
  operation.signal = point;
  push(stream, std::move(operation));
  return point;
}

void Driver::finishHead(Stream &stream) {
  signal(stream.queue.front().signal);
  stream.queue.pop_front();
  if (stream.destroyed && stream.queue.empty()) {
    inUse.erase(std::find(inUse.begin(), inUse.end(), &stream));
    streams.erase(reinterpret_cast<CUstream>(&stream));
  }
}

void Driver::finishNode(GraphRun &run, int node) {
  --run.left;
  for (int next : run.next[node])
    if (--run.missing[next] == 0)
      run.ready.push_back(next);
}

CUresult Driver::runWork(Lock &lock, Work &work, void *state) {
  double start = now();
  if (work.unlocked())
    lock.unlock();
  CUresult result = work.run(state);
  if (work.unlocked())
    lock.lock();
  clock += work.seconds() < 0 ? now() - start : work.seconds();
  return result;
}

Driver::Step Driver::step(Lock &lock) {
  bool polling = false;
  candidates.clear();
  for (Stream *stream : inUse) {
    polling = polling || stream->busy;
    if (stream->busy || stream->queue.empty())
      continue;
    Operation &head = stream->queue.front();
    if (head.after && !head.after->done)
      continue;
    if (!head.graph) {
      if (!head.work || head.work->ready(head.state))
        candidates.push_back({stream, -1});
      else
        polling = true;
      continue;
    }
    GraphRun &run = *head.graph;
    if (run.left == 0)
      candidates.push_back({stream, -1});
    else if (run.ready.empty())
      polling = true; // another thread runs a node
    for (int node : run.ready) {
      Work *work = run.graph->nodes[node].work.get();
      if (!work || work->ready(run.states[node]))
        candidates.push_back({stream, node});
      else
        polling = true;
    }
  }
  if (candidates.empty())
    return polling ? Step::Polling : Step::Nothing;

  size_t chosen = order == emulation::Order::First  ? 0
                  : order == emulation::Order::Last ? candidates.size() - 1
                                                    : random() % candidates.size();
  auto [stream, node] = candidates[chosen];
  Operation &head = stream->queue.front();
  CUresult result = CUDA_SUCCESS;
  const char *name = "";
  if (node < 0) {
    if (head.work) {
      name = head.work->name;
      stream->busy = true;
      result = runWork(lock, *head.work, head.state);
      stream->busy = false;
      if (result == CUDA_ERROR_NOT_READY)
        return Step::Ran;
      head.work->end(head.state);
    }
    finishHead(*stream);
  } else {
    std::shared_ptr<GraphRun> run = head.graph;
    run->ready.erase(std::find(run->ready.begin(), run->ready.end(), node));
    if (std::shared_ptr<Work> work = run->graph->nodes[node].work) {
      name = work->name;
      result = runWork(lock, *work, run->states[node]);
      if (result == CUDA_ERROR_NOT_READY) {
        run->ready.push_back(node);
        return Step::Ran;
      }
      work->end(run->states[node]);
    }
    finishNode(*run, node);
  }
  if (result != CUDA_SUCCESS)
    fail(result, std::string(name) + " failed");
  return Step::Ran;
}

CUresult Driver::wait(Lock &lock, const std::function<bool()> &done) {
  int idle = 0;
  while (sticky == CUDA_SUCCESS && !done()) {
    Step made = step(lock);
    if (made == Step::Ran)
      idle = 0;
    if (made == Step::Nothing)
      stop("deadlock: no operation of any stream can run");
    if (made == Step::Polling) {
      lock.unlock();
      if (++idle < 10)
        std::this_thread::yield();
      else
        usleep(50);
      lock.lock();
    }
  }
  return sticky;
}

CUresult Driver::waitFor(Lock &lock, std::shared_ptr<Point> point) {
  return wait(lock, [&] { return point->done; });
}

CUresult Driver::waitForAll(Lock &lock) {
  return wait(lock, [&] {
    return std::all_of(inUse.begin(), inUse.end(),
                       [](Stream *stream) { return stream->queue.empty(); });
  });
}

CUresult Driver::advance(Lock &lock, const std::function<bool()> &done) {
  // A query may well be too early.
  bool one = order == emulation::Order::Random && random() % 4 == 0;
  while (sticky == CUDA_SUCCESS && !done())
    if (step(lock) != Step::Ran || one)
      break;
  if (sticky != CUDA_SUCCESS)
    return sticky;
  return done() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult Driver::runBlocking(Lock &lock, std::shared_ptr<Work> work) {
  for (auto &[handle, stream] : streams) {
    if (stream->flags & CU_STREAM_NON_BLOCKING)
      continue;
    SHALE_REQUIRE(!stream->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (stream->queue.empty())
      continue;
    Operation operation;
    operation.after = mark(*stream);
    push(legacy, std::move(operation));
  }
  Operation operation;
  operation.state = work->begin();
  operation.work = std::move(work);
  operation.signal = std::make_shared<Point>();
  std::shared_ptr<Point> point = operation.signal;
  push(legacy, std::move(operation));
  return waitFor(lock, point);
}
