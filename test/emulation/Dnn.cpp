// The emulated cuDNN: engines, plans and their execution. It interprets the operations of a graph
// one by one, whatever they add up to.
#include "DnnGraph.h"
#include "Faults.h"
#include "Stub.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>

using namespace shale::stub;

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

thread_local std::string lastError;

#define NAME(status) {CUDNN_STATUS_##status, "CUDNN_STATUS_" #status}
const struct {
  cudnnStatus_t status;
  const char *name;
} statuses[] = {
    NAME(SUCCESS),
    NAME(NOT_INITIALIZED),
    NAME(BAD_PARAM),
    NAME(BAD_PARAM_NULL_POINTER),
    NAME(BAD_PARAM_MISALIGNED_POINTER),
    NAME(BAD_PARAM_NOT_FINALIZED),
    NAME(BAD_PARAM_OUT_OF_BOUND),
    NAME(BAD_PARAM_SIZE_INSUFFICIENT),
    NAME(BAD_PARAM_SHAPE_MISMATCH),
    NAME(BAD_PARAM_DUPLICATED_ENTRIES),
    NAME(BAD_PARAM_ATTRIBUTE_TYPE),
    NAME(BAD_PARAM_DESCRIPTOR_TYPE),
    NAME(NOT_SUPPORTED),
    NAME(NOT_SUPPORTED_GRAPH_PATTERN),
    NAME(NOT_SUPPORTED_SHAPE),
    NAME(NOT_SUPPORTED_DATA_TYPE),
    NAME(INTERNAL_ERROR),
    NAME(EXECUTION_FAILED),
};

/// A way to compute a graph.
struct Engine {
  int64_t number;
  cudnnBackendHeurMode_t mode; ///< of the heuristics that propose it; COUNT: none does
  bool deterministic;          ///< or in another order at every call, where the order is free
  int parts;                   ///< of each sum
  int64_t extra;               ///< bytes of workspace that nothing needs
  bool ordered;                ///< adds up in order, in f32, instead of keeping the shared matrix
};
// Numbers 5 and 17 are those that the frontend asks for by itself on compute capability 10.
const Engine engines[] = {
    {0, CUDNN_HEUR_MODE_A, false, 1, 256, false},
    {1, CUDNN_HEUR_MODE_A, true, 1, 128, false},
    {2, CUDNN_HEUR_MODE_FALLBACK, true, 3, 0, false},
    {5, CUDNN_HEUR_MODES_COUNT, true, 2, 64, true},
    {17, CUDNN_HEUR_MODES_COUNT, true, 4, 64, true},
};
constexpr int64_t kEngines = 18;

const Engine *engineOf(int64_t number) {
  for (const Engine &engine : engines)
    if (engine.number == number)
      return &engine;
  return nullptr;
}

int64_t roundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// A matrix that is multiplied both as it is and transposed, so that blocks which own rows of one
/// matmul own no rows of the other. -1: none.
int sharedMatrix(const DnnOperations &graph) {
  for (const DnnOperation &reshape : graph.operations)
    if (reshape.kind == DnnOperation::Reshape && graph.operand(reshape.x).isVirtual)
      for (const DnnOperation &matmul : graph.operations)
        if (matmul.kind == DnnOperation::Matmul && matmul.x == reshape.x)
          return reshape.x;
  return -1;
}

/// Whether the matmul of the shared matrix is summed up in memory of its own, in any order.
bool accumulates(const DnnOperations &graph, int shared) {
  for (const DnnOperation &matmul : graph.operations)
    if (matmul.kind == DnnOperation::Matmul && matmul.x == shared)
      for (const DnnOperation &reader : graph.operations)
        if (reader.x == matmul.y && !graph.operand(matmul.y).isVirtual)
          return true;
  return false;
}

/// Bytes of what kernels must keep in memory between them: matmuls whose matrices are then added
/// up, and a shared matrix that is not accumulated.
int64_t scratchBytes(const DnnOperations &graph, const Engine &engine) {
  int64_t bytes = engine.extra;
  for (const DnnOperation &sum : graph.operations) {
    const DnnOperation *maker = sum.kind == DnnOperation::Reduction ? graph.maker(sum.x) : nullptr;
    if (maker && maker->kind == DnnOperation::Matmul && graph.operand(sum.x).isVirtual)
      bytes += graph.operand(sum.x).elements() *
               (engine.ordered ? 4 : graph.operand(sum.x).elementBytes());
  }
  int shared = sharedMatrix(graph);
  if (shared >= 0 && !engine.ordered && !accumulates(graph, shared)) {
    const std::vector<int64_t> &sizes = graph.operand(shared).sizes;
    bytes += 2 * sizes[0] * sizes[1] * roundUp(sizes[2], 64) * roundUp(sizes[3], 128);
  }
  return bytes;
}

/// An engine for a graph.
struct Choice {
  std::shared_ptr<const DnnOperations> graph;
  const Engine *engine;

  bool deterministic() const { return engine->deterministic || sharedMatrix(*graph) < 0; }
  int64_t workspace() const { return scratchBytes(*graph, *engine); }
};

std::shared_ptr<const DnnOperations> operationsOf(const Part &graph) {
  return std::static_pointer_cast<const DnnOperations>(graph->made);
}

cudnnStatus_t finishTensor(Descriptor &d) {
  auto tensor = std::make_shared<DnnTensor>();
  tensor->number = d.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
  tensor->type = d.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
  tensor->sizes = d.all<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS);
  tensor->strides = d.all<int64_t>(CUDNN_ATTR_TENSOR_STRIDES);
  tensor->isVirtual = d.get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false, 0);
  tensor->byValue = d.get<bool>(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false, 0);
  tensor->alignment = d.get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  SHALE_DNN_REQUIRE(tensor->sizes.size() == tensor->strides.size(), BAD_PARAM_SHAPE_MISMATCH,
                    "a tensor has other strides than sizes");
  for (size_t i = 0; i < tensor->sizes.size(); ++i)
    SHALE_DNN_REQUIRE(tensor->sizes[i] > 0 && tensor->strides[i] >= 0 &&
                          tensor->sizes[i] < (1 << 24),
                      NOT_SUPPORTED_SHAPE, "a tensor has an unsupported size or stride");
  SHALE_DNN_REQUIRE(d.get<int>(CUDNN_ATTR_TENSOR_REORDERING_MODE, CUDNN_TENSOR_REORDERING_NONE,
                               0) == CUDNN_TENSOR_REORDERING_NONE,
                    NOT_SUPPORTED, "a tensor is reordered");
  for (auto type : {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16, CUDNN_DATA_INT32,
                    CUDNN_DATA_BOOLEAN})
    if (tensor->type == type)
      return d.made = tensor, CUDNN_STATUS_SUCCESS;
  return refuse(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE, "a tensor has an unsupported type");
}

cudnnStatus_t finishEngine(Descriptor &d) {
  auto choice = std::make_shared<Choice>();
  choice->graph = operationsOf(d.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH));
  choice->engine = engineOf(d.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
  SHALE_DNN_REQUIRE(choice->engine, NOT_SUPPORTED, "the stand-in has no such engine");
  d.made = choice;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t finishPack(Descriptor &d) {
  SHALE_DNN_REQUIRE(d.attributes[CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS].count ==
                        d.attributes[CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS].count,
                    BAD_PARAM_SHAPE_MISMATCH, "there are more numbers than addresses, or fewer");
  return CUDNN_STATUS_SUCCESS;
}

/// The engine configurations that the heuristics of a mode propose.
std::vector<Part> proposals(const Descriptor &heuristics) {
  std::vector<Part> configurations;
  Part graph = heuristics.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  for (const Engine &known : engines) {
    if (known.mode != heuristics.get<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE))
      continue;
    auto engine = std::make_shared<Descriptor>();
    engine->type = CUDNN_BACKEND_ENGINE_DESCRIPTOR;
    engine->attributes[CUDNN_ATTR_ENGINE_OPERATION_GRAPH] = {1, {}, {graph}};
    auto *number = reinterpret_cast<const char *>(&known.number);
    engine->attributes[CUDNN_ATTR_ENGINE_GLOBAL_INDEX] = {1, {number, number + 8}, {}};
    finishEngine(*engine);
    engine->finalized = true;
    auto configuration = std::make_shared<Descriptor>();
    configuration->type = CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    configuration->attributes[CUDNN_ATTR_ENGINECFG_ENGINE] = {1, {}, {engine}};
    configuration->made = engine->made;
    configuration->finalized = true;
    configurations.push_back(configuration);
  }
  return configurations;
}

template <typename Type>
cudnnStatus_t answer(const std::vector<Type> &made, int64_t requested, int64_t *count,
                     void *values) {
  if (count)
    *count = static_cast<int64_t>(made.size());
  if (values)
    std::copy_n(made.begin(), std::min<int64_t>(requested, made.size()),
                static_cast<Type *>(values));
  return CUDNN_STATUS_SUCCESS;
}

/// A tensor that has an address.
struct Bound {
  int index;
  CUdeviceptr address;
  bool written;
};

/// A plan with addresses, on a stream.
struct Run {
  Choice choice;
  std::vector<Bound> tensors;
  std::map<int, std::vector<char>> constants; ///< by tensor: what was passed by value
  CUdeviceptr workspace;
};

/// Checks that nothing that is written overlaps something else, row by row.
bool checkOverlaps(const Run &run) {
  struct Range {
    CUdeviceptr begin, end;
    int64_t tensor; ///< -1: the workspace
    bool written;
  };
  std::vector<Range> ranges;
  if (int64_t bytes = run.choice.workspace())
    ranges.push_back({run.workspace, run.workspace + bytes, -1, true});
  for (const Bound &bound : run.tensors) {
    const DnnTensor &tensor = run.choice.graph->operand(bound.index);
    DnnTensor rows = tensor;
    // Rows along the dimension whose elements are adjacent.
    size_t adjacent =
        std::find(tensor.strides.begin(), tensor.strides.end(), 1) - tensor.strides.begin();
    int64_t width = adjacent < 4 ? rows.sizes[adjacent] : 1;
    if (adjacent < 4)
      rows.sizes[adjacent] = 1;
    for (int64_t row = 0; row < rows.elements(); ++row) {
      int64_t rest = row, offset = 0;
      for (int i = 3; i >= 0; --i) {
        offset += rest % rows.sizes[i] * rows.strides[i];
        rest /= rows.sizes[i];
      }
      CUdeviceptr begin = bound.address + offset * tensor.elementBytes();
      ranges.push_back(
          {begin, begin + width * tensor.elementBytes(), tensor.number, bound.written});
    }
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range &a, const Range &b) { return a.begin < b.begin; });
  CUdeviceptr written = 0, touched = 0; // ends of what begins before
  for (const Range &range : ranges) {
    if (range.begin < written || (range.written && range.begin < touched)) {
      std::fprintf(stderr,
                   "shale stub: cudnnBackendExecute: tensor %lld overlaps something, and one of "
                   "them is written\n",
                   (long long)range.tensor);
      return false;
    }
    touched = std::max(touched, range.end);
    if (range.written)
      written = std::max(written, range.end);
  }
  return true;
}

CUresult runPlan(void *data) {
  static std::atomic<uint64_t> runs = 0;
  Run &run = *static_cast<Run *>(data);
  const DnnOperations &graph = *run.choice.graph;
  std::map<int, char *> places;
  for (const Bound &bound : run.tensors) {
    const DnnTensor &tensor = graph.operand(bound.index);
    places[bound.index] = static_cast<char *>(shale_stub_address(bound.address, tensor.extent()));
    if (!places[bound.index]) {
      std::fprintf(stderr,
                   "shale stub: cudnnBackendExecute: tensor %lld, %lld bytes, is not in one "
                   "allocation\n",
                   (long long)tensor.number, (long long)tensor.extent());
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
  }
  for (auto &[index, bytes] : run.constants)
    places[index] = bytes.data();
  int64_t bytes = run.choice.workspace();
  char *workspace = bytes ? static_cast<char *>(shale_stub_address(run.workspace, bytes)) : nullptr;
  if (bytes && !workspace) {
    std::fprintf(stderr,
                 "shale stub: cudnnBackendExecute: the workspace, %lld bytes, is not in one "
                 "allocation\n",
                 (long long)bytes);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  if (!checkOverlaps(run))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  // Whatever else lies in the workspace is lost, before the work and after it.
  if (workspace)
    std::memset(workspace, 0xff, bytes);
  DnnOrder order{run.choice.engine->parts, 0};
  if (!run.choice.deterministic())
    order.start = ++runs * 5;
  computeOperations(graph, order, [&](int index) { return places.at(index); });
  if (workspace)
    std::memset(workspace, 0xff, bytes);
  return CUDA_SUCCESS;
}

/// Takes the addresses of a variant pack.
cudnnStatus_t bind(const Descriptor &pack, Run &run) {
  const DnnOperations &graph = *run.choice.graph;
  std::vector<bool> bound(graph.tensors.size());
  auto numbers = pack.all<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  auto addresses = pack.all<const char *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  for (size_t i = 0; i < numbers.size(); ++i) {
    int index = graph.find(numbers[i]);
    std::string name = "tensor " + std::to_string(numbers[i]);
    SHALE_DNN_REQUIRE(index >= 0, BAD_PARAM, name + " is not in the graph");
    const DnnTensor &tensor = graph.operand(index);
    SHALE_DNN_REQUIRE(!bound[index], BAD_PARAM_DUPLICATED_ENTRIES, name + " is given twice");
    SHALE_DNN_REQUIRE(!tensor.isVirtual, BAD_PARAM, name + " is virtual");
    SHALE_DNN_REQUIRE(addresses[i], BAD_PARAM_NULL_POINTER, name + " has no address");
    bound[index] = true;
    if (tensor.byValue) {
      run.constants[index].assign(addresses[i], addresses[i] + tensor.extent());
      continue;
    }
    auto address = reinterpret_cast<CUdeviceptr>(addresses[i]);
    SHALE_DNN_REQUIRE(address % tensor.alignment == 0, BAD_PARAM_MISALIGNED_POINTER,
                      name + " is not aligned");
    run.tensors.push_back({index, address, graph.maker(index) != nullptr});
  }
  for (size_t i = 0; i < graph.tensors.size(); ++i)
    SHALE_DNN_REQUIRE(bound[i] || graph.tensors[i].isVirtual, BAD_PARAM,
                      "tensor " + std::to_string(graph.tensors[i].number) + " is not given");
  run.workspace = reinterpret_cast<CUdeviceptr>(
      pack.get<const char *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, nullptr, 0));
  SHALE_DNN_REQUIRE(run.workspace || run.choice.workspace() == 0, BAD_PARAM_NULL_POINTER,
                    "the plan needs a workspace");
  return CUDNN_STATUS_SUCCESS;
}

} // namespace

cudnnStatus_t shale::stub::refuse(cudnnStatus_t status, const std::string &text) {
  lastError = text;
  return status;
}

int shale::stub::parseDnnStatus(const std::string &name) {
  for (auto &known : statuses)
    if (name == known.name)
      return known.status;
  return -1;
}

cudnnStatus_t shale::stub::finish(Descriptor &d) {
  switch (d.type) {
  case CUDNN_BACKEND_TENSOR_DESCRIPTOR:
    return finishTensor(d);
  case CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR: {
    auto operations = std::make_shared<DnnOperations>();
    d.made = operations;
    return readOperations(d, *operations);
  }
  case CUDNN_BACKEND_ENGINE_DESCRIPTOR:
    return finishEngine(d);
  case CUDNN_BACKEND_ENGINECFG_DESCRIPTOR:
    d.made = d.part(CUDNN_ATTR_ENGINECFG_ENGINE)->made;
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR:
    d.made = d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)->made;
    return CUDNN_STATUS_SUCCESS;
  case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    return finishPack(d);
  default:
    return CUDNN_STATUS_SUCCESS;
  }
}

cudnnStatus_t shale::stub::compute(const Descriptor &d, cudnnBackendAttributeName_t name,
                                   int64_t requested, int64_t *count, void *values, bool &known) {
  known = true;
  switch (name) {
  case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
    return answer(std::vector<int64_t>{kEngines}, requested, count, values);
  case CUDNN_ATTR_ENGINEHEUR_RESULTS: {
    std::vector<Part> made = proposals(d);
    if (count)
      *count = static_cast<int64_t>(made.size());
    auto *handles = static_cast<cudnnBackendDescriptor_t *>(values);
    for (size_t i = 0; values && i < made.size() && i < size_t(requested); ++i)
      static_cast<Holder *>(handles[i])->body = std::const_pointer_cast<Descriptor>(made[i]);
    return CUDNN_STATUS_SUCCESS;
  }
  case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
    std::vector<cudnnBackendNumericalNote_t> notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE};
    if (!d.as<Choice>().deterministic())
      notes.push_back(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    return answer(notes, requested, count, values);
  }
  case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
    return answer(std::vector<cudnnBackendBehaviorNote_t>{CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION},
                  requested, count, values);
  case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
  case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
    return answer(std::vector<int64_t>{d.as<Choice>().workspace()}, requested, count, values);
  case CUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED:
    return answer(std::vector<int32_t>{64 << 10}, requested, count, values);
  default:
    known = false;
    return CUDNN_STATUS_SUCCESS;
  }
}

// ---- the library

size_t cudnnGetVersion() {
  // The frontend makes the operations of this version, with the headers of a later one, too.
  return std::stoul(setting("SHALE_STUB_CUDNN_VERSION", "91900"));
}

const char *cudnnGetErrorString(cudnnStatus_t status) {
  for (auto &known : statuses)
    if (known.status == status)
      return known.name;
  return "CUDNN_UNKNOWN_STATUS";
}

void cudnnGetLastErrorString(char *message, size_t size) {
  std::snprintf(message, size, "%s", lastError.c_str());
  lastError.clear();
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  SHALE_DNN_ENTER("cudnnCreate");
  SHALE_DNN_REQUIRE(handle, BAD_PARAM_NULL_POINTER, "no place for the handle");
  CUcontext context = nullptr;
  SHALE_DNN_REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS && context, NOT_INITIALIZED,
                    "no context is current");
  *handle = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  SHALE_DNN_ENTER("cudnnDestroy");
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  SHALE_DNN_ENTER("cudnnSetStream");
  SHALE_DNN_REQUIRE(handle, BAD_PARAM_NULL_POINTER, "no handle");
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream) {
  SHALE_DNN_ENTER("cudnnGetStream");
  SHALE_DNN_REQUIRE(handle && stream, BAD_PARAM_NULL_POINTER, "no handle");
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  SHALE_DNN_ENTER("cudnnBackendExecute");
  SHALE_DNN_REQUIRE(handle && plan && pack, BAD_PARAM_NULL_POINTER, "a null pointer");
  SHALE_DNN_REQUIRE(of(plan).finalized && of(pack).finalized, BAD_PARAM_NOT_FINALIZED,
                    "the plan or the variant pack is not finalized");
  SHALE_DNN_REQUIRE(of(plan).type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
                        of(pack).type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
                    BAD_PARAM_DESCRIPTOR_TYPE, "no plan or no variant pack");
  auto run = std::make_unique<Run>();
  run->choice = of(plan).as<Choice>();
  if (cudnnStatus_t failed = bind(of(pack), *run))
    return failed;
  ShaleStubWork work = {
      "cudnnBackendExecute", run.release(), nullptr, nullptr, runPlan, nullptr, [](void *data) {
        delete static_cast<Run *>(data);
      }};
  CUresult result = shale_stub_enqueue(reinterpret_cast<CUstream>(handle->stream), &work);
  SHALE_DNN_REQUIRE(result == CUDA_SUCCESS, EXECUTION_FAILED, "the stream takes no work");
  return CUDNN_STATUS_SUCCESS;
}
