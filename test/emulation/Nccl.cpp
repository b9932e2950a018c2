// The emulated NCCL: its functions.
#include "Faults.h"
#include "NcclWork.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <unistd.h>

using namespace shale::stub;

struct ncclComm {};

namespace {

std::mutex mutex; // of the communicators and the counter of operations
std::map<ncclComm_t, std::shared_ptr<Communicator>> communicators;
int worldRank = -1; // the rank in the first communicator
long operations = 0;
thread_local std::string lastError;

const char *const names[] = {"ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
                             "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
                             "ncclRemoteError",   "ncclInProgress"};
const char *const texts[] = {"no error",
                             "unhandled cuda error",
                             "unhandled system error",
                             "internal error",
                             "invalid argument",
                             "invalid usage",
                             "remote process exited or there was a network error",
                             "NCCL operation in progress"};

int parseResult(const std::string &name) {
  auto found = std::find(std::begin(names), std::end(names), name);
  return found == std::end(names) ? -1 : int(found - std::begin(names));
}

ncclResult_t fail(ncclResult_t result, const std::string &message) {
  lastError = message;
  return result;
}

#define ENTER(function)                                                                            \
  if (int error = injected((function), parseResult))                                               \
  return fail(static_cast<ncclResult_t>(error), std::string("injected into ") + (function))
#define REQUIRE(condition, message)                                                                \
  if (!(condition))                                                                                \
  return fail(ncclInvalidArgument, message)

/// Appends a line to the file that NCCL's own variables name, if they ask for lines about a
/// subsystem.
void log(const char *subsystem, const std::string &line) {
  std::string file = setting("NCCL_DEBUG_FILE", "");
  if (file.empty() || setting("NCCL_DEBUG", "") != "INFO" ||
      setting("NCCL_DEBUG_SUBSYS", "") != subsystem)
    return;
  std::FILE *out = std::fopen(file.c_str(), "a");
  if (!out)
    stop("NCCL_DEBUG_FILE: cannot write " + file);
  std::fprintf(out, "stand-in:%d:%d [0] NCCL INFO %s\n", int(getpid()), int(getpid()),
               line.c_str());
  std::fclose(out);
}

std::shared_ptr<Communicator> find(ncclComm_t handle) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = communicators.find(handle);
  return found == communicators.end() ? nullptr : found->second;
}

/// Makes a communicator that has not connected.
ncclResult_t open(const std::string &name, int ranks, int rank,
                  std::shared_ptr<Communicator> &made) {
  made = std::make_shared<Communicator>();
  std::string error;
  try {
    made->link = Link::open(name, ranks, rank, error);
  } catch (const std::runtime_error &failure) {
    return fail(ncclSystemError, failure.what());
  }
  REQUIRE(made->link, error);
  made->error = ncclInProgress;
  return ncclSuccess;
}

/// Goes on with connecting.
ncclResult_t connect(Communicator &communicator) {
  if (communicator.error != ncclInProgress)
    return communicator.error;
  try {
    if (communicator.link->connect())
      communicator.error = ncclSuccess;
  } catch (const std::runtime_error &failure) {
    communicator.error = ncclSystemError;
    lastError = failure.what();
  }
  return communicator.error;
}

/// Whether a setting, RANK@N, names this rank and the operation that is being counted.
bool isNamed(const char *name) {
  std::string text = setting(name, "");
  if (text.empty())
    return false;
  int rank;
  long number;
  char end;
  if (std::sscanf(text.c_str(), "%d@%ld%c", &rank, &number, &end) != 2)
    stop(std::string(name) + ": '" + text + "' is not RANK@N");
  return rank == worldRank && number == operations;
}

ncclResult_t start(ncclComm_t *handle, const std::shared_ptr<Communicator> &made, bool blocking) {
  bool hangs = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (worldRank < 0)
      worldRank = made->link->rank;
    *handle = new ncclComm;
    communicators[*handle] = made;
    hangs = isNamed("SHALE_STUB_HANG");
  }
  while (hangs)
    pause();
  ncclResult_t result;
  while ((result = connect(*made)) == ncclInProgress && blocking && !made->aborted)
    usleep(200);
  return result;
}

ncclResult_t initialize(ncclComm_t *handle, int ranks, const ncclUniqueId &id, int rank,
                        bool blocking) {
  REQUIRE(handle && ranks > 0 && ranks <= kMaxRanks && rank >= 0 && rank < ranks,
          "the rank is not below the number of ranks");
  *handle = nullptr;
  std::string name(id.internal, strnlen(id.internal, sizeof(id.internal)));
  REQUIRE(name.rfind("/shale-nccl-", 0) == 0, "the id is not from ncclGetUniqueId");
  CUcontext context = nullptr;
  if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
    return fail(ncclUnhandledCudaError, "no context is current");
  std::shared_ptr<Communicator> made;
  if (ncclResult_t failed = open(name, ranks, rank, made))
    return failed;
  return start(handle, made, blocking);
}

// ---- groups

struct Grouped {
  std::shared_ptr<Communicator> communicator;
  CUstream stream;
  std::vector<Call> calls;
};
thread_local int groupDepth = 0;
thread_local std::vector<Grouped> grouped;
thread_local ncclResult_t groupError = ncclSuccess;

/// Offers a value to all ranks and waits on the host for theirs. Empty if the communicator is
/// aborted meanwhile.
std::vector<Link::Color> exchange(Communicator &communicator, Link::Color own) {
  Link &link = *communicator.link;
  uint64_t number = communicator.exchanges++;
  while (!link.canOffer(number) && !communicator.aborted)
    usleep(200);
  link.offer(number, own);
  std::vector<Link::Color> all;
  while ((all = link.colors(number)).empty() && !communicator.aborted)
    usleep(200);
  return all;
}

/// Waits on the host for all ranks, at the first operation of a communicator: NCCL connects them
/// then.
void meet(Communicator &communicator) {
  if (!std::exchange(communicator.met, true))
    exchange(communicator, {});
}

ncclResult_t launch(std::vector<Grouped> all) {
  for (Grouped &group : all)
    meet(*group.communicator);
  for (Grouped &group : all)
    if (CUresult failed = enqueue(group.communicator, group.stream, std::move(group.calls))) {
      const char *name = "?";
      cuGetErrorName(failed, &name);
      return fail(ncclUnhandledCudaError, name);
    }
  return ncclSuccess;
}

/// Appends a line about a collective to the log. `mutex` is held.
void log(const Communicator &communicator, const Call &call) {
  static const char *const kinds[] = {"AllGather", "ReduceScatter", "AllReduce",
                                      "Broadcast", "Send",          "Recv"};
  char line[160];
  // NCCL's has the buffers, the operator, the root and the stream, too.
  std::snprintf(line, sizeof(line), "%s: opCount %lx count %zu datatype %d [nranks=%d]",
                kinds[static_cast<int>(call.kind)], operations, size_t(call.count), int(call.type),
                communicator.link->ranks);
  log("COLL", line);
}

/// Logs and counts an operation. Returns whether its data is never posted.
bool isSilent(Communicator &communicator, const Call &call) {
  std::unique_lock<std::mutex> lock(mutex);
  log(communicator, call);
  ++operations;
  if (isNamed("SHALE_STUB_ASYNC"))
    communicator.failsAfter = static_cast<int64_t>(communicator.begun.load());
  bool hangs = isNamed("SHALE_STUB_HANG");
  if (isNamed("SHALE_STUB_STOP"))
    raise(SIGSTOP);
  bool silent = isNamed("SHALE_STUB_SILENT");
  lock.unlock();
  if (hangs)
    for (;;)
      pause();
  return silent;
}

bool overlap(CUdeviceptr x, CUdeviceptr y, uint64_t xBytes, uint64_t yBytes) {
  return x < y + yBytes && y < x + xBytes;
}

ncclResult_t checkCall(const Link &link, const Call &call) {
  REQUIRE(sizeOf(call.type) > 0, "the type is not supported");
  REQUIRE(call.op >= ncclSum && call.op < ncclNumOps, "the operator is not supported");
  REQUIRE(call.peer >= 0 && call.peer < link.ranks, "the peer or root is no rank");
  uint64_t bytes = call.count * sizeOf(call.type), ranks = link.ranks, own = link.rank;
  if (call.kind == Kind::AllGather)
    REQUIRE(call.from == call.to + own * bytes ||
                !overlap(call.from, call.to, bytes, bytes * ranks),
            "buffers overlap, but not in place");
  if (call.kind == Kind::ReduceScatter)
    REQUIRE(call.to == call.from + own * bytes ||
                !overlap(call.from, call.to, bytes * ranks, bytes),
            "buffers overlap, but not in place");
  if (call.kind == Kind::AllReduce || call.kind == Kind::Broadcast)
    REQUIRE(call.from == call.to || !overlap(call.from, call.to, bytes, bytes),
            "buffers overlap, but not in place");
  return ncclSuccess;
}

/// Whether [start, start + bytes) is in one registered range. `mutex` is held.
bool isRegistered(const Communicator &communicator, CUdeviceptr start, uint64_t bytes) {
  return std::any_of(communicator.registered.begin(), communicator.registered.end(),
                     [&](const auto &entry) {
                       auto [from, size] = entry.second;
                       return start >= from && bytes <= size && start - from <= size - bytes;
                     });
}

/// Whether all memory that a call reads and writes is registered.
bool isRegistered(const Communicator &communicator, const Call &call) {
  uint64_t bytes = call.count * sizeOf(call.type), ranks = communicator.link->ranks;
  bool reads = call.kind != Kind::Receive, writes = call.kind != Kind::Send;
  std::lock_guard<std::mutex> lock(mutex);
  return (!reads || isRegistered(communicator, call.from,
                                 call.kind == Kind::ReduceScatter ? bytes * ranks : bytes)) &&
         (!writes || isRegistered(communicator, call.to,
                                  call.kind == Kind::AllGather ? bytes * ranks : bytes));
}

/// Whether any memory is registered.
bool hasRegistered(const Communicator &communicator) {
  std::lock_guard<std::mutex> lock(mutex);
  return !communicator.registered.empty();
}

/// Prints the number of registered blocks. `mutex` is held.
void tellRegistered(const Communicator &communicator) {
  if (setting("SHALE_STUB_REGISTERED", "0") == "1")
    std::fprintf(stderr, "shale stub: NCCL rank %d of %d: registered blocks: %zu\n",
                 communicator.link->rank, communicator.link->ranks, communicator.registered.size());
}

ncclResult_t issue(ncclComm_t handle, cudaStream_t cudaStream, Call call) {
  std::shared_ptr<Communicator> communicator = find(handle);
  ncclResult_t result = ncclSuccess;
  if (!communicator)
    result = fail(ncclInvalidArgument, "the communicator does not exist");
  else if (communicator->aborted || communicator->error != ncclSuccess)
    result = fail(ncclInvalidUsage, "the communicator has failed or has not connected");
  else
    result = checkCall(*communicator->link, call);
  if (result == ncclSuccess) {
    call.registered = isRegistered(*communicator, call);
    // Before anything is registered, the program connects the ranks.
    if (!call.registered && hasRegistered(*communicator) &&
        setting("SHALE_STUB_REGISTERED", "0") == "1")
      result = fail(ncclInvalidUsage, "the memory is not registered");
  }
  if (result != ncclSuccess) {
    groupError = groupDepth ? result : groupError;
    return result;
  }
  if (call.count == 0)
    return ncclSuccess;
  call.silent = isSilent(*communicator, call);
  auto *stream = reinterpret_cast<CUstream>(cudaStream);
  if (groupDepth == 0)
    return launch({{communicator, stream, {call}}});
  auto same = std::find_if(grouped.begin(), grouped.end(), [&](const Grouped &other) {
    return other.communicator == communicator && other.stream == stream;
  });
  if (same == grouped.end())
    same = grouped.insert(same, {communicator, stream, {}});
  same->calls.push_back(call);
  return ncclSuccess;
}

CUdeviceptr number(const void *address) { return reinterpret_cast<CUdeviceptr>(address); }

/// Waits for what the communicator has begun.
ncclResult_t drain(Communicator &communicator) {
  auto done = [](void *data) -> int {
    auto *of = static_cast<Communicator *>(data);
    return of->aborted || of->error.load() != ncclSuccess || of->finished == of->begun;
  };
  return shale_stub_wait(done, &communicator) == CUDA_SUCCESS ? ncclSuccess
                                                              : ncclUnhandledCudaError;
}

ncclResult_t forget(ncclComm_t handle) {
  std::lock_guard<std::mutex> lock(mutex);
  communicators.erase(handle);
  delete handle;
  return ncclSuccess;
}

} // namespace

// ---- the library

ncclResult_t ncclGetVersion(int *version) {
  ENTER("ncclGetVersion");
  REQUIRE(version, "the pointer is null");
  *version =
      std::stoi(setting("SHALE_STUB_NCCL_VERSION", std::to_string(NCCL_VERSION_CODE).c_str()));
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
  return result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t) { return lastError.c_str(); }

ncclResult_t ncclMemAlloc(void **made, size_t bytes) {
  ENTER("ncclMemAlloc");
  REQUIRE(made, "the pointer is null");
  CUdeviceptr memory = 0;
  if (cuMemAlloc(&memory, bytes) != CUDA_SUCCESS)
    return fail(ncclUnhandledCudaError, "cuMemAlloc failed");
  *made = reinterpret_cast<void *>(memory);
  return ncclSuccess;
}

ncclResult_t ncclMemFree(void *memory) {
  ENTER("ncclMemFree");
  return cuMemFree(number(memory)) == CUDA_SUCCESS
             ? ncclSuccess
             : fail(ncclUnhandledCudaError, "cuMemFree failed");
}

// ---- communicators

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  ENTER("ncclGetUniqueId");
  REQUIRE(id, "the pointer is null");
  std::string name = makeSharedName();
  if (name.empty())
    return fail(ncclSystemError, "no shared memory");
  *id = {};
  name.copy(id->internal, sizeof(id->internal) - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *handle, int ranks, ncclUniqueId id, int rank) {
  ENTER("ncclCommInitRank");
  return initialize(handle, ranks, id, rank, true);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *handle, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  ENTER("ncclCommInitRankConfig");
  ncclConfig_t plain = NCCL_CONFIG_INITIALIZER;
  REQUIRE(!config || config->magic == plain.magic, "the config is not initialized");
  auto text = [](int value) {
    return value == NCCL_CONFIG_UNDEF_INT ? std::string("unset") : std::to_string(value);
  };
  log("INIT", "ncclCommInitRankConfig rank " + std::to_string(rank) + " nranks " +
                  std::to_string(ranks) + " comm " +
                  (config && config->commName ? config->commName : "unset") + " maxCTAs " +
                  text(config ? config->maxCTAs : NCCL_CONFIG_UNDEF_INT) + " launch order " +
                  setting("NCCL_LAUNCH_ORDER_IMPLICIT", "unset"));
  return initialize(handle, ranks, id, rank, !config || config->blocking != 0);
}

ncclResult_t ncclCommSplit(ncclComm_t handle, int color, int key, ncclComm_t *made,
                           ncclConfig_t *config) {
  ENTER("ncclCommSplit");
  std::shared_ptr<Communicator> communicator = find(handle);
  REQUIRE(communicator && made, "the communicator does not exist");
  REQUIRE(color >= 0 || color == NCCL_SPLIT_NOCOLOR, "the color is negative");
  if (communicator->aborted || communicator->error != ncclSuccess)
    return fail(ncclInvalidUsage, "the communicator has failed or has not connected");
  *made = nullptr;
  Link &link = *communicator->link;
  uint64_t number = communicator->exchanges;
  std::vector<Link::Color> colors = exchange(*communicator, {color, key});
  if (communicator->aborted)
    return fail(ncclInvalidUsage, "the communicator was aborted");
  if (color == NCCL_SPLIT_NOCOLOR)
    return ncclSuccess;
  std::vector<std::pair<int, int>> members; // key, rank
  for (int rank = 0; rank < link.ranks; ++rank)
    if (colors[rank].color == color)
      members.push_back({colors[rank].key, rank});
  std::sort(members.begin(), members.end());
  int rank =
      int(std::find(members.begin(), members.end(), std::pair(key, link.rank)) - members.begin());
  std::shared_ptr<Communicator> child;
  if (ncclResult_t failed =
          open(link.name + "." + std::to_string(number) + "-" + std::to_string(color),
               int(members.size()), rank, child))
    return failed;
  return start(made, child, !config || config->blocking != 0);
}

ncclResult_t ncclCommCount(const ncclComm_t handle, int *count) {
  ENTER("ncclCommCount");
  std::shared_ptr<Communicator> communicator = find(handle);
  REQUIRE(communicator && count, "the communicator does not exist");
  *count = communicator->link->ranks;
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t handle, int *rank) {
  ENTER("ncclCommUserRank");
  std::shared_ptr<Communicator> communicator = find(handle);
  REQUIRE(communicator && rank, "the communicator does not exist");
  *rank = communicator->link->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *result) {
  std::shared_ptr<Communicator> communicator = find(handle);
  REQUIRE(communicator && result, "the communicator does not exist");
  *result = connect(*communicator);
  // The caller sees that the operations have finished before it asks for the second time.
  int64_t before = communicator->failsAfter;
  if (before >= 0 && communicator->finished >= static_cast<uint64_t>(before) &&
      ++communicator->asked > 1)
    communicator->fail(*result = ncclRemoteError, "SHALE_STUB_ASYNC names this rank");
  // An injected error is one of the communicator.
  if (int error = injected("ncclCommGetAsyncError", parseResult)) {
    communicator->fail(static_cast<ncclResult_t>(error), "injected");
    *result = static_cast<ncclResult_t>(error);
  }
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  ENTER("ncclCommAbort");
  std::shared_ptr<Communicator> communicator = find(handle);
  REQUIRE(communicator, "the communicator does not exist");
  communicator->aborted = true;
  return forget(handle);
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  ENTER("ncclCommFinalize");
  std::shared_ptr<Communicator> communicator = find(handle);
  REQUIRE(communicator, "the communicator does not exist");
  return drain(*communicator);
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  ENTER("ncclCommDestroy");
  std::shared_ptr<Communicator> communicator = find(handle);
  REQUIRE(communicator, "the communicator does not exist");
  if (ncclResult_t failed = drain(*communicator))
    return failed;
  return forget(handle);
}

ncclResult_t ncclCommRegister(const ncclComm_t handle, void *memory, size_t bytes, void **made) {
  ENTER("ncclCommRegister");
  std::shared_ptr<Communicator> communicator = find(handle);
  REQUIRE(communicator && memory && bytes && made, "a pointer is null, or there are no bytes");
  if (setting("SHALE_STUB_UNREGISTERED", "-1") == std::to_string(worldRank))
    return fail(ncclSystemError, "SHALE_STUB_UNREGISTERED names this rank");
  REQUIRE(shale_stub_check_device(number(memory), bytes) == CUDA_SUCCESS,
          "the memory is not in one allocation of device memory, or the thread captures");
  std::lock_guard<std::mutex> lock(mutex);
  *made = new char;
  communicator->registered[*made] = {number(memory), bytes};
  tellRegistered(*communicator);
  return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t handle, void *made) {
  ENTER("ncclCommDeregister");
  std::shared_ptr<Communicator> communicator = find(handle);
  REQUIRE(communicator, "the communicator does not exist");
  std::lock_guard<std::mutex> lock(mutex);
  if (communicator->registered.erase(made) == 0) {
    std::fprintf(stderr, "shale stub: NCCL rank %d: ncclCommDeregister of an unknown handle\n",
                 communicator->link->rank);
    return fail(ncclInvalidArgument, "the handle is not of memory registered here");
  }
  delete static_cast<char *>(made);
  tellRegistered(*communicator);
  return ncclSuccess;
}

// ---- operations

ncclResult_t ncclGroupStart() {
  ENTER("ncclGroupStart");
  ++groupDepth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  ENTER("ncclGroupEnd");
  if (groupDepth == 0)
    return fail(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--groupDepth > 0)
    return ncclSuccess;
  std::vector<Grouped> all;
  all.swap(grouped);
  ncclResult_t result = std::exchange(groupError, ncclSuccess);
  return result == ncclSuccess ? launch(std::move(all)) : result;
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t handle, cudaStream_t stream) {
  ENTER("ncclAllGather");
  return issue(handle, stream, {Kind::AllGather, number(from), number(to), count, type});
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t handle, cudaStream_t stream) {
  ENTER("ncclReduceScatter");
  return issue(handle, stream, {Kind::ReduceScatter, number(from), number(to), count, type, op});
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t handle, cudaStream_t stream) {
  ENTER("ncclAllReduce");
  return issue(handle, stream, {Kind::AllReduce, number(from), number(to), count, type, op});
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root,
                           ncclComm_t handle, cudaStream_t stream) {
  ENTER("ncclBroadcast");
  return issue(handle, stream,
               {Kind::Broadcast, number(from), number(to), count, type, ncclSum, root});
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t handle, cudaStream_t stream) {
  ENTER("ncclSend");
  return issue(handle, stream, {Kind::Send, number(from), 0, count, type, ncclSum, peer});
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t handle,
                      cudaStream_t stream) {
  ENTER("ncclRecv");
  return issue(handle, stream, {Kind::Receive, 0, number(to), count, type, ncclSum, peer});
}
