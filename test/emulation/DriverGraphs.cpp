// Captures of streams, and graphs.
#include "Driver.h"

#include <algorithm>

using namespace shale::stub;

namespace {

/// A graph that can be launched.
struct Executable {
  std::shared_ptr<const Graph> graph;
  std::shared_ptr<Point> last; ///< of its last launch: the next one waits for it
};

std::map<CUgraph, std::shared_ptr<Graph>> graphs;
std::map<CUgraphExec, std::unique_ptr<Executable>> executables;

/// Whether some node is not among `tails` and what they depend on.
bool hasUnjoined(const Graph &graph, const std::vector<int> &tails) {
  std::vector<bool> reached(graph.nodes.size());
  std::vector<int> open = tails;
  while (!open.empty()) {
    int node = open.back();
    open.pop_back();
    if (reached[node])
      continue;
    reached[node] = true;
    open.insert(open.end(), graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  }
  return std::find(reached.begin(), reached.end(), false) != reached.end();
}

std::shared_ptr<GraphRun> startRun(const std::shared_ptr<const Graph> &graph) {
  auto run = std::make_shared<GraphRun>();
  size_t count = graph->nodes.size();
  run->graph = graph;
  run->next.resize(count);
  run->left = count;
  for (size_t node = 0; node < count; ++node) {
    const Graph::Node &made = graph->nodes[node];
    run->states.push_back(made.work ? made.work->begin() : nullptr);
    run->missing.push_back(int(made.after.size()));
    for (int before : made.after)
      run->next[before].push_back(int(node));
    if (made.after.empty())
      run->ready.push_back(int(node));
  }
  return run;
}

} // namespace

CUresult Driver::enqueue(Stream &stream, std::shared_ptr<Work> work) {
  if (!stream.capture) {
    Operation operation;
    operation.state = work->begin();
    operation.work = std::move(work);
    push(stream, std::move(operation));
    return CUDA_SUCCESS;
  }
  if (stream.capture->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  std::vector<Graph::Node> &nodes = stream.capture->graph->nodes;
  nodes.push_back({std::move(work), stream.tails});
  stream.tails = {int(nodes.size()) - 1};
  return CUDA_SUCCESS;
}

CUresult Driver::checkUnsafe() {
  for (const std::shared_ptr<Capture> &capture : captures)
    if (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
        (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
         capture->thread == std::this_thread::get_id())) {
      capture->invalid = true;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  return CUDA_SUCCESS;
}

CUresult Driver::checkNotCapturing(Stream &stream) {
  if (!stream.capture)
    return CUDA_SUCCESS;
  stream.capture->invalid = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult cuStreamBeginCapture(CUstream handle, CUstreamCaptureMode mode) {
  SHALE_ENTER("cuStreamBeginCapture");
  Stream *stream = driver.find(handle);
  SHALE_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
  SHALE_REQUIRE(mode >= CU_STREAM_CAPTURE_MODE_GLOBAL && mode <= CU_STREAM_CAPTURE_MODE_RELAXED,
                CUDA_ERROR_INVALID_VALUE);
  SHALE_REQUIRE(!stream->capture, CUDA_ERROR_ILLEGAL_STATE);
  stream->capture = std::make_shared<Capture>();
  stream->capture->origin = stream;
  stream->capture->mode = mode;
  stream->capture->thread = std::this_thread::get_id();
  stream->tails.clear();
  driver.captures.push_back(stream->capture);
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *made) {
  SHALE_ENTER("cuStreamEndCapture");
  Stream *stream = driver.find(handle);
  SHALE_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
  SHALE_REQUIRE(made, CUDA_ERROR_INVALID_VALUE);
  *made = nullptr;
  std::shared_ptr<Capture> capture = stream->capture;
  SHALE_REQUIRE(capture, CUDA_ERROR_ILLEGAL_STATE);
  SHALE_REQUIRE(capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
                    capture->thread == std::this_thread::get_id(),
                CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  if (capture->origin != stream) {
    capture->invalid = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  bool unjoined = hasUnjoined(*capture->graph, stream->tails);
  for (auto &[other, joined] : driver.streams)
    if (joined->capture == capture) {
      joined->capture = nullptr;
      joined->tails.clear();
    }
  driver.captures.erase(std::find(driver.captures.begin(), driver.captures.end(), capture));
  SHALE_REQUIRE(!capture->invalid, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  SHALE_REQUIRE(!unjoined, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  *made = reinterpret_cast<CUgraph>(capture->graph.get());
  graphs[*made] = capture->graph;
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status) {
  SHALE_ENTER("cuStreamIsCapturing");
  Stream *stream = driver.find(handle);
  SHALE_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
  SHALE_REQUIRE(status, CUDA_ERROR_INVALID_VALUE);
  *status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
            : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiate(CUgraphExec *made, CUgraph handle, unsigned long long) {
  SHALE_ENTER("cuGraphInstantiate");
  auto found = graphs.find(handle);
  SHALE_REQUIRE(made && found != graphs.end(), CUDA_ERROR_INVALID_VALUE);
  auto executable = std::make_unique<Executable>();
  executable->graph = found->second;
  *made = reinterpret_cast<CUgraphExec>(executable.get());
  executables[*made] = std::move(executable);
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream) {
  SHALE_ENTER("cuGraphUpload");
  SHALE_REQUIRE(driver.find(stream), CUDA_ERROR_INVALID_HANDLE);
  SHALE_REQUIRE(executables.count(handle), CUDA_ERROR_INVALID_VALUE);
  return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream streamHandle) {
  SHALE_ENTER("cuGraphLaunch");
  Stream *stream = driver.find(streamHandle);
  SHALE_REQUIRE(stream, CUDA_ERROR_INVALID_HANDLE);
  auto found = executables.find(handle);
  SHALE_REQUIRE(found != executables.end(), CUDA_ERROR_INVALID_VALUE);
  if (CUresult failed = driver.checkNotCapturing(*stream)) // no graphs in graphs
    return failed;
  Executable &executable = *found->second;
  Operation operation;
  operation.after = executable.last;
  operation.graph = startRun(executable.graph);
  operation.signal = executable.last = std::make_shared<Point>();
  driver.push(*stream, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  SHALE_ENTER("cuGraphExecDestroy");
  // Launches that have not run keep the graph.
  return executables.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroy(CUgraph handle) {
  SHALE_ENTER("cuGraphDestroy");
  return graphs.erase(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
