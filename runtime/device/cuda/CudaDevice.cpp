// An NVIDIA GPU as the device: memory, kernels, copies and graphs.
#include "runtime/device/cuda/CudaDevice.h"
#include "runtime/device/host/Host.h"

#include <cstring>
#include <nlohmann/json.hpp>

namespace shale::rt::cuda {

namespace {

CUdeviceptr address(const void *pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

/// Memory of the GPU, or pinned memory of the host.
class CudaMemory final : public Memory {
public:
  CudaMemory(const Driver &cu, ShaleSpace space, int64_t bytes,
             std::map<const char *, int64_t> &pinned)
      : cu(cu), space(space), pinned(pinned) {
    length = bytes;
  }
  ~CudaMemory() override {
    // After an error of the device both fail. The process ends anyway.
    if (start && space == SHALE_SPACE_DEVICE)
      cu.cuMemFree(address(start));
    if (start && space == SHALE_SPACE_HOST) {
      pinned.erase(start);
      cu.cuMemFreeHost(start);
    }
  }
  CUresult allocate() {
    void *made = nullptr;
    CUdeviceptr onDevice = 0;
    CUresult result = space == SHALE_SPACE_DEVICE
                          ? cu.cuMemAlloc(&onDevice, length)
                          : cu.cuMemHostAlloc(&made, length, CU_MEMHOSTALLOC_PORTABLE);
    if (result != CUDA_SUCCESS)
      return result;
    start = space == SHALE_SPACE_DEVICE ? reinterpret_cast<char *>(onDevice)
                                        : static_cast<char *>(made);
    if (space == SHALE_SPACE_HOST)
      pinned[start] = length;
    return result;
  }

private:
  const Driver &cu;
  ShaleSpace space;
  std::map<const char *, int64_t> &pinned;
};

/// An event of a stream.
class CudaMark final : public Mark {
public:
  CudaMark(const Driver &cu, CUstream stream) : cu(cu), stream(stream) {
    // The thread sleeps while it waits: kernels of the host need its core.
    require(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC),
            "create an event");
  }
  void set() override { must(cu.cuEventRecord(event, stream), "record an event"); }
  void wait() override { must(cu.cuEventSynchronize(event), "finish its work"); }

private:
  const Driver &cu;
  CUstream stream;
  CUevent event = nullptr;
};

} // namespace

CudaDevice::CudaDevice(const ShaleProgram &program, int ordinal, bool graphs)
    : program(program), cu(driver()), graphs(graphs) {
  require(cu.cuDeviceGet(&device, ordinal), "open the GPU");
  char text[256] = "";
  require(cu.cuDeviceGetName(text, sizeof(text), device), "open the GPU");
  name = text;
  require(cu.cuDevicePrimaryCtxRetain(&context, device), "use the GPU");
  require(cu.cuCtxSetCurrent(context), "use the GPU");
  for (CUstream *stream : {&compute, &toDevice, &toHost})
    require(cu.cuStreamCreate(stream, CU_STREAM_NON_BLOCKING), "create a stream");
  for (int64_t i = 0; i < program.transfer_count; ++i) {
    Transfer transfer;
    for (CUevent *event : {&transfer.ready, &transfer.done})
      require(cu.cuEventCreate(event, CU_EVENT_DISABLE_TIMING), "create an event");
    transfers.push_back(transfer);
  }
  loadKernels();
  workspace = allocate(SHALE_SPACE_DEVICE, SHALE_BLAS_WORKSPACE, "cuBLASLt's workspace");
  blas = std::make_unique<Blas>(address(workspace->data()), workspace->size());
  if (program.attends)
    dnn = std::make_unique<Dnn>(device);
  auto [major, minor] = computeCapability(device);
  matmuls = std::make_unique<BlasTuner>(
      *blas, compute, format("%s, compute capability %d.%d", name.c_str(), major, minor),
      [this](const Launch &kernel) { launch(kernel); });
}

void CudaDevice::loadKernels() {
  if (program.device_kernel_count == 0)
    return;
  CUmodule code = nullptr;
  if (CUresult result = cu.cuModuleLoadData(&code, program.device_code); result != CUDA_SUCCESS) {
    bool foreign = result == CUDA_ERROR_NO_BINARY_FOR_GPU;
    fail(foreign ? SHALE_EXIT_USAGE : exitCode(result, SHALE_EXIT_UNAVAILABLE),
         "%s does not load the program's kernels, which are for %s: %s%s", name.c_str(),
         program.target, cu.explain(result).c_str(),
         foreign ? "; compile it with --target cuda:ARCHITECTURE for this GPU" : "");
  }
  for (int64_t i = 0; i < program.device_kernel_count; ++i) {
    const ShaleDeviceKernel *kernel = program.device_kernels[i];
    CUfunction function = nullptr;
    if (CUresult result = cu.cuModuleGetFunction(&function, code, kernel->name);
        result != CUDA_SUCCESS)
      fail(SHALE_EXIT_INTERNAL, "the program's code has no kernel '%s': %s", kernel->name,
           cu.explain(result).c_str());
    // At its first launch a kernel would be loaded while a collective of a rank that waits for this
    // one is running, and other calls of the driver would wait for that.
    require(cu.cuFuncLoad(function), "load the program's kernels");
    kernels[kernel] = function;
  }
}

std::string CudaDevice::describe() const { return name + " (" + program.target + ")"; }

std::string CudaDevice::uuid() const {
  CUuuid bytes = {};
  require(cu.cuDeviceGetUuid(&bytes, device), "identify the GPU");
  std::string text;
  for (char byte : bytes.bytes)
    text += format("%02x", static_cast<unsigned char>(byte));
  return text;
}

std::unique_ptr<Memory> CudaDevice::allocate(ShaleSpace space, int64_t bytes, const char *what) {
  if (bytes < 0)
    fail(SHALE_EXIT_INTERNAL, "the program asks for %lld bytes of %s", (long long)bytes, what);
  auto memory = std::make_unique<CudaMemory>(cu, space, bytes, pinned);
  if (bytes == 0)
    return memory;
  int64_t before = usedBytes();
  if (CUresult result = memory->allocate(); result != CUDA_SUCCESS) {
    size_t unused = 0, all = 0;
    bool known = space == SHALE_SPACE_DEVICE && cu.cuMemGetInfo(&unused, &all) == CUDA_SUCCESS;
    std::string room =
        known ? format(" (%s has %zu of %zu bytes free)", name.c_str(), unused, all) : "";
    fail(
        exitCode(result, SHALE_EXIT_UNAVAILABLE),
        "cannot allocate %lld bytes of %s memory for %s: %s%s; use fewer rows per rank, more ranks or "
        "--shard full",
        (long long)bytes, space == SHALE_SPACE_DEVICE ? "device" : "pinned", what,
        cu.explain(result).c_str(), room.c_str());
  }
  if (space == SHALE_SPACE_DEVICE) {
    blocks.push_back({what, bytes, usedBytes() - before});
    require(cu.cuMemsetD8Async(address(memory->data()), 0, bytes, compute), "clear memory");
  } else {
    std::memset(memory->data(), 0, bytes);
  }
  return memory;
}

/// Returns the bytes of the GPU that any process has in use; 0 if the driver does not tell.
int64_t CudaDevice::usedBytes() const {
  size_t unused = 0, all = 0;
  return cu.cuMemGetInfo(&unused, &all) == CUDA_SUCCESS ? all - unused : 0;
}

std::string CudaDevice::reportMemory() {
  nlohmann::json list = nlohmann::json::array();
  for (const Block &block : blocks)
    list.push_back({{"what", block.what}, {"bytes", block.bytes}, {"counted", block.counted}});
  return nlohmann::json{{"blocks", list}, {"used", usedBytes()}}.dump();
}

bool CudaDevice::isHost(const void *pointer) const {
  auto *place = static_cast<const char *>(pointer);
  auto next = pinned.upper_bound(place);
  return next != pinned.begin() && place < std::prev(next)->first + std::prev(next)->second;
}

void CudaDevice::read(void *target, const char *source, int64_t bytes) {
  if (!isHost(source))
    must(cu.cuMemcpyDtoHAsync(target, address(source), bytes, compute), "copy to the host");
  finish();
  if (isHost(source))
    std::memcpy(target, source, bytes);
}

void CudaDevice::write(char *target, const void *source, int64_t bytes) {
  if (!isHost(target))
    must(cu.cuMemcpyHtoDAsync(address(target), source, bytes, compute), "copy from the host");
  finish();
  if (isHost(target))
    std::memcpy(target, source, bytes);
}

void CudaDevice::finish() { must(cu.cuStreamSynchronize(compute), "finish its work"); }

std::unique_ptr<Mark> CudaDevice::makeMark() { return std::make_unique<CudaMark>(cu, compute); }

/// Runs `body` on the host when the work before it is done.
void CudaDevice::onHost(std::function<void()> body) {
  if (!hostThread)
    hostThread = std::make_unique<HostThread>(cu, compute,
                                              allocate(SHALE_SPACE_HOST, 4, "the host's progress"));
  hostThread->enqueue(std::move(body), capturing);
}

void CudaDevice::launch(const Launch &launch) {
  if (launch.rows <= 0)
    return;
  if (launch.space == SHALE_SPACE_HOST) {
    onHost([launch, args = std::vector<void *>(launch.args, launch.args + launch.count),
            threads = hostThreads()] {
      Launch own = launch;
      own.args = args.data();
      setHostThreads(threads);
      launchOnThreads(own);
    });
    return;
  }
  auto *kernel = static_cast<const ShaleDeviceKernel *>(launch.kernel);
  std::vector<void *> places(launch.count);
  for (int32_t i = 0; i < launch.count; ++i)
    places[i] = const_cast<void **>(&launch.args[i]);
  must(cu.cuLaunchKernel(kernels.at(kernel), static_cast<unsigned>(launch.rows), 1, 1,
                         kernel->threads, 1, 1, 0, compute, places.data(), nullptr),
       "launch a kernel");
}

void CudaDevice::multiply(const Matmul &matmul) {
  if (matmul.groups)
    fail(SHALE_EXIT_INTERNAL, "matmuls of groups of rows are not compiled for this device");
  if (!matmul.epilogue || blas->usesEpilogue(matmul))
    return blas->multiply(matmul, compute);
  blas->multiply(matmul.alone(), compute);
  matmul.launchEpilogue([&](const Launch &kernel) { launch(kernel); });
}

void CudaDevice::attend(const Attention &attention) { dnn->attend(attention, compute); }

void CudaDevice::copy(void *target, const void *source, int64_t bytes) {
  if (isHost(target))
    return onHost([=] { std::memcpy(target, source, bytes); });
  must(cu.cuMemcpyDtoDAsync(address(target), address(source), bytes, compute), "copy memory");
}

void CudaDevice::copyAcross(void *target, const void *source, int64_t bytes) {
  must(isHost(target) ? cu.cuMemcpyDtoHAsync(target, address(source), bytes, compute)
                      : cu.cuMemcpyHtoDAsync(address(target), source, bytes, compute),
       isHost(target) ? "copy to the host" : "copy from the host");
}

void CudaDevice::fill(void *target, int byte, int64_t bytes) {
  if (isHost(target))
    return onHost([=] { std::memset(target, byte, bytes); });
  must(cu.cuMemsetD8Async(address(target), static_cast<unsigned char>(byte), bytes, compute),
       "fill memory");
}

void CudaDevice::store(int64_t *target, int64_t value) {
  // Two stores of constants, which a graph can hold.
  for (int half = 0; half < 2; ++half)
    must(cu.cuMemsetD32Async(address(target) + 4 * half,
                             static_cast<unsigned>(static_cast<uint64_t>(value) >> 32 * half), 1,
                             compute),
         "store a number");
}

void CudaDevice::startCopy(int32_t index, void *target, const void *source, int64_t bytes) {
  Transfer &transfer = transfers[index];
  bool out = isHost(target);
  CUstream stream = out ? toHost : toDevice;
  order(stream, transfer.ready, compute);
  must(out ? cu.cuMemcpyDtoHAsync(target, address(source), bytes, stream)
           : cu.cuMemcpyHtoDAsync(address(target), source, bytes, stream),
       out ? "copy to the host" : "copy from the host");
  must(cu.cuEventRecord(transfer.done, stream), "record an event");
}

void CudaDevice::waitCopy(int32_t index) {
  must(cu.cuStreamWaitEvent(compute, transfers[index].done, 0), "wait for an event");
}

CUgraphExec CudaDevice::capture(ShaleFunction function, const std::function<void()> &body) {
  must(cu.cuStreamBeginCapture(compute, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "capture the step");
  capturing = true;
  if (follower)
    follower->beginCapture(function);
  body();
  if (follower)
    follower->endCapture();
  capturing = false;
  CUgraph graph = nullptr;
  must(cu.cuStreamEndCapture(compute, &graph), "capture the step");
  CUgraphExec exec = nullptr;
  must(cu.cuGraphInstantiate(&exec, graph, 0), "instantiate the step's graph");
  must(cu.cuGraphDestroy(graph), "release a graph");
  return exec;
}

void CudaDevice::call(ShaleFunction function, bool observed, const std::function<void()> &body) {
  if (!graphs || observed)
    return body();
  // The first call loads what libraries load late, which a capture may not do.
  auto [place, isFirst] = captured.try_emplace(function, nullptr);
  if (isFirst)
    return body();
  if (!place->second)
    place->second = capture(function, body);
  must(cu.cuGraphLaunch(place->second, compute), "run the step");
  if (follower)
    follower->launched(function);
}

} // namespace shale::rt::cuda
