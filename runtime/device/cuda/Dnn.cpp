// Attention by cuDNN, with one plan per shape.
#include "runtime/device/cuda/Dnn.h"
#include "runtime/device/cuda/DnnGraph.h"
#include "runtime/device/cuda/Driver.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <vector>

// The library in which the frontend looks up cuDNN's functions.
void *cudnn_frontend::cudnn_dlhandle = nullptr;

namespace shale::rt::cuda {

namespace {

// The version that docs/measurements/h200.md has measured. With versions up to 9.15 the frontend
// copies lengths from the host for some shapes, which a CUDA graph would read again at each replay;
// before 9.18 there is no deterministic gradient for compute capability 10.
constexpr size_t kLeastVersion = 91900;

#define SHALE_DNN_FUNCTIONS(X)                                                                     \
  X(cudnnGetVersion)                                                                               \
  X(cudnnGetErrorString)                                                                           \
  X(cudnnCreate)                                                                                   \
  X(cudnnSetStream)

struct Library {
  SHALE_DNN_FUNCTIONS(SHALE_DECLARE_FUNCTION)
};

std::string versionText(size_t version) {
  return format("%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
}

/// Opens cuDNN once. Throws with exit code 69.
const Library &dnnLibrary() {
  static const Library opened = [] {
    // cuDNN compiles kernels with NVRTC.
    openForOthers("libnvrtc-builtins.so.13.*");
    openForOthers("libnvrtc.so.13");
    // Would change the bits of a deterministic gradient, and its workspace.
    unsetenv("CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT");
    DynamicLibrary library("libcudnn.so.9", "this program needs cuDNN 9");
    Library functions;
    SHALE_DNN_FUNCTIONS(SHALE_FIND_FUNCTION)
    if (size_t version = functions.cudnnGetVersion(); version < kLeastVersion)
      fail(SHALE_EXIT_UNAVAILABLE,
           "cuDNN has version %s; this program needs %s or later: name the folder of a newer one "
           "with --cuda-libraries, or compile the program with --attention generated",
           versionText(version).c_str(), versionText(kLeastVersion).c_str());
    fe::cudnn_dlhandle = library.opened();
    return functions;
  }();
  return opened;
}

/// Describes an attention for messages.
std::string describe(const Attention &a) {
  return format(
      "%s%s%s%s of %lld rows, %lld heads (%lld of keys), %lld positions (%lld of keys) and "
      "%lld features (%lld of values), %s",
      a.isGradient() && a.deterministic ? "the deterministic " : "the ",
      a.isGradient() ? "gradient of " : "", a.causal ? "causal attention" : "attention",
      a.window > 0 ? format(" in a window of %lld", (long long)a.window).c_str() : "",
      (long long)a.batch, (long long)a.heads, (long long)a.keyHeads, (long long)a.length,
      (long long)a.keyLength, (long long)a.depth, (long long)a.valueDepth, nameOf(a.type));
}

/// cuDNN's message in one line.
std::string oneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

/// Returns different messages one after another.
std::string distinct(const std::vector<std::string> &messages) {
  std::string text;
  std::set<std::string> seen;
  for (const std::string &message : messages)
    if (seen.insert(message).second)
      text += (text.empty() ? "" : "; ") + message;
  return text.empty() ? "it proposes none" : text;
}

/// All of an attention but its addresses.
using Key = std::vector<int64_t>;

Key keyOf(const Attention &a) {
  int32_t scale;
  std::memcpy(&scale, &a.scale, sizeof(scale));
  Key key = {a.batch,  a.heads,         a.keyHeads,       a.length,        a.keyLength,
             a.depth,  a.valueDepth,    a.causal,         a.deterministic, scale,
             a.window, int64_t(a.type), a.lse != nullptr, a.isGradient(),  a.workspaceBytes};
  for (const Attention::Tensor *tensor : {&a.query, &a.key, &a.value, &a.output, &a.outputGradient,
                                          &a.queryGradient, &a.keyGradient, &a.valueGradient})
    key.insert(key.end(), std::begin(tensor->strides), std::end(tensor->strides));
  return key;
}

/// A plan that is ready to run.
struct DnnPlan {
  std::shared_ptr<fe::graph::Graph> graph;
  int64_t index = -1;
};

} // namespace

struct Dnn::State {
  const Library &library = dnnLibrary();
  cudnnHandle_t handle = nullptr;
  int architecture = 0;
  std::map<Key, DnnPlan> plans;

  [[noreturn]] void refuse(const Attention &a, const std::string &why) const {
    die(SHALE_EXIT_UNAVAILABLE,
        format("cuDNN %s has no plan for %s on GPUs of compute capability %d.%d: %s; compile the "
               "program with --attention generated",
               versionText(library.cudnnGetVersion()).c_str(), describe(a).c_str(),
               architecture / 10, architecture % 10, oneLine(why).c_str()));
  }

  const DnnPlan &prepare(const Attention &a) {
    auto [place, isNew] = plans.try_emplace(keyOf(a));
    if (isNew)
      place->second = choose(a);
    return place->second;
  }

  /// Takes the first plan of the heuristics that fits the workspace.
  DnnPlan choose(const Attention &a) const {
    auto graph = attentionGraph(a, architecture);
    if (fe::error_t error = proposePlans(*graph, handle, a.deterministic); error.is_bad())
      refuse(a, error.get_message());
    int64_t least = INT64_MAX;
    std::vector<std::string> reasons;
    for (int64_t i = 0; i < graph->get_execution_plan_count(); ++i) {
      int64_t bytes = 0;
      fe::error_t error = graph->build_plan_at_index(i);
      if (error.is_good())
        error = graph->get_workspace_size_plan_at_index(i, bytes);
      if (error.is_bad())
        reasons.push_back(error.get_message());
      else if (bytes <= a.workspaceBytes)
        return {graph, i};
      else
        least = std::min(least, bytes);
    }
    if (least == INT64_MAX)
      refuse(a, distinct(reasons));
    die(SHALE_EXIT_NO_FIT,
        format("cuDNN %s needs %lld bytes of workspace for %s, but the program planned %lld bytes; "
               "compile the program with --attention generated",
               versionText(library.cudnnGetVersion()).c_str(), (long long)least,
               describe(a).c_str(), (long long)a.workspaceBytes));
  }

  /// Enqueues a plan. Returns what went wrong, or nothing.
  std::string run(const DnnPlan &plan, const Attention &a, CUstream stream) const {
    if (cudnnStatus_t status = library.cudnnSetStream(handle, stream);
        status != CUDNN_STATUS_SUCCESS)
      return library.cudnnGetErrorString(status);
    std::vector<void *> places = {a.query.data, a.key.data, a.value.data, a.output.data};
    if (a.lse)
      places.push_back(a.lse);
    if (a.isGradient())
      places.insert(places.end(), {a.outputGradient.data, a.queryGradient.data, a.keyGradient.data,
                                   a.valueGradient.data});
    fe::error_t error = plan.graph->execute_plan_at_index(
        handle, places.data(), static_cast<int>(places.size()), a.workspace, plan.index);
    return error.is_good() ? "" : error.get_message();
  }
};

void Dnn::check() { dnnLibrary(); }

Dnn::Dnn(CUdevice device) : state(std::make_unique<State>()) {
  auto [major, minor] = computeCapability(device);
  state->architecture = major * 10 + minor;
  if (cudnnStatus_t status = state->library.cudnnCreate(&state->handle);
      status != CUDNN_STATUS_SUCCESS)
    fail(SHALE_EXIT_UNAVAILABLE, "cuDNN does not start: %s",
         state->library.cudnnGetErrorString(status));
}

Dnn::~Dnn() = default;

void Dnn::attend(const Attention &a, CUstream stream) {
  std::string error;
  try {
    const DnnPlan &plan = state->prepare(a);
    error = state->run(plan, a, stream);
  } catch (const std::exception &thrown) { // by the frontend
    error = thrown.what();
  }
  if (!error.empty())
    die(SHALE_EXIT_INTERNAL,
        format("cuDNN cannot compute %s: %s", describe(a).c_str(), oneLine(error).c_str()));
}

} // namespace shale::rt::cuda
