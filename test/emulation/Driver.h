// The emulated CUDA driver: its state and scheduler.
//
// Streams are queues. Work runs on the thread that waits for something, in an adversarial order:
// while the awaited thing is not complete, the scheduler chooses among all operations that may run.
#ifndef SHALE_TEST_EMULATION_DRIVER_H
#define SHALE_TEST_EMULATION_DRIVER_H

#include "EmulatedMemory.h"
#include "Faults.h"
#include "Fibers.h"
#include "Stub.h"
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace shale::stub {

using Lock = std::unique_lock<std::mutex>;

/// The work of an operation. One object may run several times, for example as a node of a graph.
class Work {
public:
  explicit Work(const char *name) : name(name) {}
  virtual ~Work() = default;
  /// Makes the state of one run.
  virtual void *begin() { return nullptr; }
  virtual bool ready(void *) { return true; }
  /// CUDA_ERROR_NOT_READY: goes on when ready() holds again. Other errors are sticky.
  virtual CUresult run(void *state) = 0;
  virtual void end(void *) {}
  /// What events say that a run takes, in seconds; negative: what it takes.
  virtual double seconds() const { return -1; }
  /// Whether run() is called without the driver's lock.
  virtual bool unlocked() const { return false; }
  const char *name;
};

template <typename Function> class FunctionWork final : public Work {
public:
  FunctionWork(const char *name, Function function) : Work(name), function(std::move(function)) {}
  CUresult run(void *) override { return function(); }

private:
  Function function;
};
template <typename Function> std::shared_ptr<Work> makeWork(const char *name, Function function) {
  return std::make_shared<FunctionWork<Function>>(name, std::move(function));
}

/// A point in the order of a stream.
struct Point {
  bool done = false;
  double time = 0; ///< of the driver's clock
};

/// Operations with dependencies.
struct Graph {
  struct Node {
    std::shared_ptr<Work> work; ///< null: only joins dependencies
    std::vector<int> after;
  };
  std::vector<Node> nodes;
};

/// A launch of a graph that runs.
struct GraphRun {
  std::shared_ptr<const Graph> graph;
  std::vector<void *> states;
  std::vector<int> missing;           ///< of each node, dependencies that have not run
  std::vector<std::vector<int>> next; ///< of each node, those that depend on it
  std::vector<int> ready;             ///< nodes without missing dependencies
  size_t left;                        ///< nodes that have not run
};

/// An element of a stream's queue. It may have any of the parts.
struct Operation {
  std::shared_ptr<Point> after; ///< cannot run before
  std::shared_ptr<Work> work;
  void *state = nullptr; ///< of the work
  std::shared_ptr<GraphRun> graph;
  std::shared_ptr<Point> signal; ///< done when it has run
};

struct Stream;

/// A capture that is under way.
struct Capture {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  Stream *origin;
  CUstreamCaptureMode mode;
  std::thread::id thread;
  bool invalid = false;
};

struct Stream {
  unsigned flags = 0;
  int number = 0; ///< from 1, in the order of creation
  std::deque<Operation> queue;
  bool used = false, busy = false, destroyed = false;
  std::shared_ptr<Capture> capture; ///< null: none
  std::vector<int> tails;           ///< of the capture: what the next node depends on
};

struct Event {
  unsigned flags = 0;
  int stream = 0;                   ///< number of the stream that recorded it last
  std::shared_ptr<Point> point;     ///< null: never recorded
  std::shared_ptr<Capture> capture; ///< recorded in it, else null
  std::vector<int> tails;
};

/// All state of the driver. `mutex` protects it.
class Driver {
public:
  static Driver &get();

  std::mutex mutex;
  bool initialized = false;
  CUresult sticky = CUDA_SUCCESS;
  int retained = 0; ///< references to the primary context

  // ---- calls of the API
  /// Checks at the start of a call: injected errors, the context and its sticky error.
  CUresult enter(const char *function, bool needsContext = true);
  /// Makes an error of the device sticky, and prints its message.
  CUresult fail(CUresult error, const std::string &message);

  // ---- streams
  Stream *find(CUstream stream);
  CUresult enqueue(Stream &stream, std::shared_ptr<Work> work);
  void push(Stream &stream, Operation operation);
  /// A point that is done when all that is now in the stream has run.
  std::shared_ptr<Point> mark(Stream &stream);
  /// Runs work until `done`. Returns the sticky error.
  CUresult wait(Lock &lock, const std::function<bool()> &done);
  CUresult waitFor(Lock &lock, std::shared_ptr<Point> point);
  CUresult waitForAll(Lock &lock);
  /// Runs what can run without waiting for other processes, or until `done`.
  CUresult advance(Lock &lock, const std::function<bool()> &done);
  /// Runs a blocking copy as the legacy stream does: after all work of blocking streams.
  CUresult runBlocking(Lock &lock, std::shared_ptr<Work> work);

  // ---- captures
  /// Fails if a capture forbids a call that waits, in this thread. Invalidates that capture.
  CUresult checkUnsafe();
  /// The same for a call that waits for `stream`.
  CUresult checkNotCapturing(Stream &stream);

  EmulatedMemory memory;

  emulation::Order order = emulation::Order::Random;
  std::mt19937_64 random;

  std::map<CUstream, std::unique_ptr<Stream>> streams;
  std::map<CUevent, std::unique_ptr<Event>> events;
  std::vector<std::shared_ptr<Capture>> captures;

private:
  Driver();
  /// Tries to run one operation. Nothing: none can ever run by itself; Polling: some may later.
  enum class Step { Ran, Polling, Nothing };
  Step step(Lock &lock);
  struct Candidate {
    Stream *stream;
    int node; ///< of the graph at its head; -1: the head itself
  };
  void finishHead(Stream &stream);
  CUresult runWork(Lock &lock, Work &work, void *state);
  void signal(const std::shared_ptr<Point> &point);
  void finishNode(GraphRun &run, int node);

  double clock = 0;            ///< seconds of all work that has run
  std::vector<Stream *> inUse; ///< by their first use
  std::vector<Candidate> candidates;
  Stream legacy;
};

/// The error of a name of the driver's API, or -1.
int parseError(const std::string &name);
const char *errorName(CUresult error); ///< null if unknown

} // namespace shale::stub

/// The start of an exported function: locks and checks.
#define SHALE_ENTER(function)                                                                      \
  Driver &driver = Driver::get();                                                                  \
  Lock lock(driver.mutex);                                                                         \
  if (CUresult failed = driver.enter(function))                                                    \
  return failed
#define SHALE_REQUIRE(condition, error)                                                            \
  if (!(condition))                                                                                \
  return error

#endif
