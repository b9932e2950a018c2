#include "NcclWork.h"
#include "Floats.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>

using namespace shale::stub;

void Communicator::fail(ncclResult_t result, const std::string &message) {
  std::fprintf(stderr, "shale stub: NCCL rank %d of %d: %s\n", link ? link->rank : -1,
               link ? link->ranks : 0, message.c_str());
  ncclResult_t none = ncclSuccess;
  error.compare_exchange_strong(none, result);
}

size_t shale::stub::sizeOf(ncclDataType_t type) {
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclUint32:
  case ncclFloat32:
    return 4;
  case ncclInt64:
  case ncclUint64:
  case ncclFloat64:
    return 8;
  default:
    return 0;
  }
}

namespace {

// ---- reductions

template <typename Sum> Sum combine(ncclRedOp_t op, Sum x, Sum y) {
  return op == ncclProd  ? x * y
         : op == ncclMax ? std::max(x, y)
         : op == ncclMin ? std::min(x, y)
                         : x + y;
}

template <typename Type> Type store(double value) { return Type(value); }
template <> BFloat store<BFloat>(double value) { return BFloat::of(float(value)); }
template <> Half store<Half>(double value) { return Half::of(float(value)); }

/// Reduces elements of all ranks in the order of the ranks, in the type `Sum`.
template <typename Type, typename Sum>
void reduce(const std::vector<const char *> &parts, uint64_t count, ncclRedOp_t op, char *to) {
  for (uint64_t i = 0; i < count; ++i) {
    Sum value = Sum(reinterpret_cast<const Type *>(parts[0])[i]);
    for (size_t rank = 1; rank < parts.size(); ++rank)
      value = combine(op, value, Sum(reinterpret_cast<const Type *>(parts[rank])[i]));
    if (op == ncclAvg)
      value /= Sum(parts.size());
    if constexpr (sizeof(Type) == 2)
      reinterpret_cast<Type *>(to)[i] = store<Type>(value);
    else
      reinterpret_cast<Type *>(to)[i] = Type(value);
  }
}

void reduce(ncclDataType_t type, const std::vector<const char *> &parts, uint64_t count,
            ncclRedOp_t op, char *to) {
  switch (type) {
  case ncclInt8:
    return reduce<int8_t, int8_t>(parts, count, op, to);
  case ncclUint8:
    return reduce<uint8_t, uint8_t>(parts, count, op, to);
  case ncclInt32:
    return reduce<int32_t, int32_t>(parts, count, op, to);
  case ncclUint32:
    return reduce<uint32_t, uint32_t>(parts, count, op, to);
  case ncclInt64:
    return reduce<int64_t, int64_t>(parts, count, op, to);
  case ncclUint64:
    return reduce<uint64_t, uint64_t>(parts, count, op, to);
  case ncclFloat16:
    return reduce<Half, float>(parts, count, op, to);
  case ncclBfloat16:
    return reduce<BFloat, float>(parts, count, op, to);
  case ncclFloat32:
    return reduce<float, float>(parts, count, op, to);
  default:
    return reduce<double, double>(parts, count, op, to);
  }
}

// ---- operations

const char *const kinds[] = {"ncclAllGather", "ncclReduceScatter", "ncclAllReduce",
                             "ncclBroadcast", "ncclSend",          "ncclRecv"};

std::string describe(const Message &message) {
  auto kind = static_cast<Kind>(message.kind);
  std::string text = std::string(kinds[message.kind]) + " of " + std::to_string(message.count) +
                     " elements of type " + std::to_string(message.type);
  if (kind == Kind::ReduceScatter || kind == Kind::AllReduce)
    text += ", op " + std::to_string(message.op);
  if (kind == Kind::Broadcast)
    text += ", root " + std::to_string(message.root);
  if (message.registered)
    text += ", on registered memory";
  return text;
}

/// Compares the fields that must be equal on all ranks.
bool agree(const Message &x, const Message &y) {
  return x.kind == y.kind && x.type == y.type && x.op == y.op && x.root == y.root &&
         x.count == y.count && x.registered == y.registered;
}

/// A call that runs.
struct Item {
  Call call;
  uint64_t number = 0; // of the message
  bool posted = false, done = false;
};

/// The calls of a group.
struct Group {
  std::shared_ptr<Communicator> communicator;
  std::vector<Call> calls;
};

/// One run of a group.
class Run {
public:
  explicit Run(const Group &group)
      : communicator(*group.communicator), link(*communicator.link), ticket(communicator.begun++) {
    for (const Call &call : group.calls)
      items.push_back({call});
  }
  bool ready() {
    if (ended())
      return true;
    if (communicator.finished != ticket)
      return false;
    return std::any_of(items.begin(), items.end(),
                       [&](const Item &item) { return canPost(item) || canFinish(item); });
  }
  /// Does one thing that can be done.
  CUresult run() {
    try {
      CUresult result = CUDA_SUCCESS;
      for (Item &item : items)
        if (!ended() && (canPost(item) || canFinish(item))) {
          result = canPost(item) ? post(item) : finish(item);
          break;
        }
      bool done = ended() || std::all_of(items.begin(), items.end(),
                                         [](const Item &item) { return item.done; });
      if (result != CUDA_SUCCESS || !done)
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_NOT_READY;
    } catch (const std::runtime_error &error) {
      communicator.fail(ncclSystemError, error.what());
    }
    communicator.finished = std::max(communicator.finished.load(), ticket + 1);
    return CUDA_SUCCESS;
  }

private:
  /// Whether the communicator does nothing any more: aborted, or failed.
  bool ended() const { return communicator.aborted || communicator.error.load() != ncclSuccess; }
  static bool isPair(const Item &item) {
    return item.call.kind == Kind::Send || item.call.kind == Kind::Receive;
  }
  bool canPost(const Item &item) const {
    if (item.posted || item.call.silent)
      return false;
    if (item.call.kind == Kind::Receive)
      return true;
    if (item.call.kind == Kind::Send)
      return link.canSend(item.call.peer) && isFirst(item, &Item::posted);
    return link.canPost() && isFirst(item, &Item::posted);
  }
  bool canFinish(const Item &item) const {
    if (!item.posted || item.done || !isFirst(item, &Item::done))
      return false;
    if (item.call.kind == Kind::Receive)
      return link.canReceive(item.call.peer);
    if (item.call.kind == Kind::Send)
      return link.wasReceived(item.call.peer, item.number);
    return link.allPosted(item.number);
  }
  /// Whether all items before that go the same way have a flag.
  bool isFirst(const Item &item, bool Item::*flag) const {
    for (const Item &other : items) {
      if (&other == &item)
        return true;
      bool same = isPair(item)
                      ? other.call.kind == item.call.kind && other.call.peer == item.call.peer
                      : !isPair(other);
      if (same && !(other.*flag))
        return false;
    }
    return true;
  }

  CUresult post(Item &item) {
    const Call &call = item.call;
    item.posted = true;
    if (call.kind == Kind::Receive)
      return CUDA_SUCCESS;
    Message message = {int32_t(call.kind), call.type, 0, 0, call.registered, call.count, 0, 0};
    if (call.kind == Kind::AllReduce || call.kind == Kind::ReduceScatter)
      message.op = call.op;
    message.root = call.kind == Kind::Broadcast ? call.peer : 0;
    message.bytes = call.count * sizeOf(call.type);
    if (call.kind == Kind::ReduceScatter)
      message.bytes *= link.ranks;
    if (call.kind == Kind::Broadcast && call.peer != link.rank)
      message.bytes = 0;
    auto *data = static_cast<const char *>(shale_stub_address(call.from, message.bytes));
    if (!data && message.bytes)
      return stray(call, "sends from");
    item.number =
        call.kind == Kind::Send ? link.send(call.peer, message, data) : link.post(message, data);
    return CUDA_SUCCESS;
  }

  CUresult finish(Item &item) {
    const Call &call = item.call;
    item.done = true;
    if (call.kind == Kind::Send)
      return CUDA_SUCCESS;
    if (call.kind == Kind::Receive)
      return receive(call);
    const Message own = link.posted(link.rank, item.number);
    std::vector<const char *> parts;
    for (int peer = 0; peer < link.ranks; ++peer) {
      const Message &other = link.posted(peer, item.number);
      if (!agree(own, other)) {
        communicator.fail(ncclInvalidUsage, "collective " + std::to_string(item.number) + " is " +
                                                describe(own) + ", but " + describe(other) +
                                                " at rank " + std::to_string(peer));
        return CUDA_SUCCESS;
      }
      parts.push_back(other.bytes ? link.data(peer, other) : nullptr);
    }
    uint64_t bytes = call.count * sizeOf(call.type);
    uint64_t result = call.kind == Kind::AllGather ? bytes * link.ranks : bytes;
    auto *to = static_cast<char *>(shale_stub_address(call.to, result));
    if (!to)
      return stray(call, "writes to");
    if (call.kind == Kind::AllGather)
      for (int peer = 0; peer < link.ranks; ++peer)
        std::memcpy(to + peer * bytes, parts[peer], bytes);
    if (call.kind == Kind::Broadcast)
      std::memcpy(to, parts[call.peer], bytes);
    if (call.kind == Kind::ReduceScatter)
      for (const char *&part : parts)
        part += link.rank * bytes;
    if (call.kind == Kind::ReduceScatter || call.kind == Kind::AllReduce)
      reduce(call.type, parts, call.count, call.op, to);
    link.finish(item.number);
    return CUDA_SUCCESS;
  }

  CUresult receive(const Call &call) {
    const Message &message = link.receive(call.peer);
    if (message.count != call.count || message.type != call.type ||
        message.registered != int32_t(call.registered)) {
      communicator.fail(ncclInvalidUsage, "ncclRecv of " + std::to_string(call.count) +
                                              " elements of type " + std::to_string(call.type) +
                                              (call.registered ? ", on registered memory," : "") +
                                              " from rank " + std::to_string(call.peer) +
                                              ", which calls " + describe(message));
      return CUDA_SUCCESS;
    }
    auto *to = static_cast<char *>(shale_stub_address(call.to, message.bytes));
    if (!to)
      return stray(call, "writes to");
    std::memcpy(to, link.data(call.peer, message), message.bytes);
    link.finishReceive(call.peer);
    return CUDA_SUCCESS;
  }

  CUresult stray(const Call &call, const char *does) {
    std::fprintf(stderr,
                 "shale stub: NCCL rank %d: %s of %llu elements %s memory that is not in one "
                 "allocation\n",
                 link.rank, kinds[int(call.kind)], (unsigned long long)call.count, does);
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  }

  Communicator &communicator;
  Link &link;
  uint64_t ticket;
  std::vector<Item> items;
};

} // namespace

CUresult shale::stub::enqueue(std::shared_ptr<Communicator> communicator, CUstream stream,
                              std::vector<Call> calls) {
  ShaleStubWork work;
  work.name = "an operation of NCCL";
  work.data = new Group{std::move(communicator), std::move(calls)};
  work.begin = [](void *data) -> void * { return new Run(*static_cast<Group *>(data)); };
  work.ready = [](void *run) -> int { return static_cast<Run *>(run)->ready(); };
  work.run = [](void *run) { return static_cast<Run *>(run)->run(); };
  work.end = [](void *run) { delete static_cast<Run *>(run); };
  work.drop = [](void *data) { delete static_cast<Group *>(data); };
  return shale_stub_enqueue(stream, &work);
}
