// Gloo's transport interface over a mesh.
#include "runtime/comm/gloo/Transport.h"

#include <algorithm>
#include <gloo/common/error.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/unbound_buffer.h>

namespace shale::rt {

namespace {
using Milliseconds = std::chrono::milliseconds;

/// The name of a connection with a rank of the mesh.
class MeshAddress final : public gloo::transport::Address {
public:
  explicit MeshAddress(std::string name) : name(std::move(name)) {}
  std::string str() const override { return name; }
  std::vector<char> bytes() const override { return {name.begin(), name.end()}; }

private:
  std::string name;
};

/// Tells Gloo's algorithms that a rank of the group is connected.
class MeshPair final : public gloo::transport::Pair {
public:
  MeshPair(int rank, std::string name) : rank(rank), name(std::move(name)) {}
  const gloo::transport::Address &address() const override { return name; }
  void connect(const std::vector<char> &) override {} // the mesh is connected
  void close() override {}                            // the mesh stays connected
  void setSync(bool, bool) override {}
  // Buffers that are bound to a connection belong to algorithms that Shale does not use.
  std::unique_ptr<gloo::transport::Buffer> createSendBuffer(int, void *, size_t) override {
    throw gloo::InvalidOperationException("the mesh has no bound buffers");
  }
  std::unique_ptr<gloo::transport::Buffer> createRecvBuffer(int, void *, size_t) override {
    throw gloo::InvalidOperationException("the mesh has no bound buffers");
  }
  void send(gloo::transport::UnboundBuffer *buffer, uint64_t slot, size_t offset,
            size_t bytes) override {
    buffer->send(rank, slot, offset, bytes);
  }
  void recv(gloo::transport::UnboundBuffer *buffer, uint64_t slot, size_t offset,
            size_t bytes) override {
    buffer->recv(rank, slot, offset, bytes);
  }

private:
  int rank; // of the group
  MeshAddress name;
};

class MeshContext final : public gloo::transport::Context {
public:
  MeshContext(std::shared_ptr<Mesh> mesh, uint32_t channel, std::vector<int> ranks, int self)
      : Context(self, static_cast<int>(ranks.size())), mesh(std::move(mesh)), channel(channel),
        ranks(std::move(ranks)) {
    for (int other = 0; other < size; ++other)
      if (other != self)
        createPair(other);
  }

  std::unique_ptr<gloo::transport::Pair> &createPair(int other) override {
    pairs_[other] = std::make_unique<MeshPair>(other, mesh->nameOf(ranks[other]));
    return pairs_[other];
  }
  std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void *data,
                                                                      size_t bytes) override;

  const std::shared_ptr<Mesh> mesh;
  const uint32_t channel;
  const std::vector<int> ranks; // of the mesh, by rank of the group
};

class MeshBuffer final : public gloo::transport::UnboundBuffer {
public:
  MeshBuffer(MeshContext &context, void *data, size_t bytes)
      : UnboundBuffer(data, bytes), context(context) {}
  ~MeshBuffer() override { context.mesh->forget(transfers); }

  static void *operator new(size_t bytes) { return messageMemory()->allocate(bytes); }
  static void operator delete(void *memory, size_t bytes) {
    messageMemory()->deallocate(memory, bytes);
  }

  using UnboundBuffer::waitRecv;
  using UnboundBuffer::waitSend;
  bool waitRecv(int *rank, Milliseconds timeout) override { return wait(false, rank, timeout); }
  bool waitSend(int *rank, Milliseconds timeout) override { return wait(true, rank, timeout); }
  void abortWaitRecv() override { abort(); }
  void abortWaitSend() override { abort(); }

  void send(int to, uint64_t slot, size_t offset, size_t bytes) override {
    auto [data, count] = rangeOf(offset, bytes);
    context.mesh->send(context.ranks.at(to), context.channel, slot, data, count, transfers);
  }
  void recv(int from, uint64_t slot, size_t offset, size_t bytes) override {
    auto [data, count] = rangeOf(offset, bytes);
    context.mesh->receive(context.ranks.at(from), context.channel, slot, data, count, transfers);
  }
  void recv(std::vector<int> from, uint64_t slot, size_t offset, size_t bytes) override {
    if (from.size() != 1)
      throw gloo::InvalidOperationException("a message is received from one rank");
    recv(from.front(), slot, offset, bytes);
  }

private:
  std::pair<char *, size_t> rangeOf(size_t offset, size_t bytes) const {
    if (bytes == kUnspecifiedByteCount)
      bytes = size - std::min(offset, size);
    if (offset > size || bytes > size - offset)
      throw gloo::InvalidOperationException("a transfer leaves its buffer");
    return {static_cast<char *>(ptr) + offset, bytes};
  }

  bool wait(bool sent, int *rank, Milliseconds timeout) {
    if (timeout == gloo::transport::kUnsetTimeout)
      timeout = context.getTimeout();
    int other = context.mesh->wait(transfers, sent, timeout);
    if (other < 0)
      return false;
    if (rank)
      *rank = static_cast<int>(std::find(context.ranks.begin(), context.ranks.end(), other) -
                               context.ranks.begin());
    return true;
  }

  void abort() {
    std::lock_guard<std::mutex> lock(transfers.mutex);
    transfers.aborted = true;
    transfers.changed.notify_all();
  }

  MeshContext &context;
  Awaited transfers;
};

std::unique_ptr<gloo::transport::UnboundBuffer> MeshContext::createUnboundBuffer(void *data,
                                                                                 size_t bytes) {
  return std::make_unique<MeshBuffer>(*this, data, bytes);
}

class GroupContext final : public gloo::Context {
public:
  explicit GroupContext(std::shared_ptr<MeshContext> own) : Context(own->rank, own->size) {
    transportContext_ = std::move(own);
  }
};
} // namespace

GlooContext makeContext(std::shared_ptr<Mesh> mesh, uint32_t channel, std::vector<int> ranks) {
  int self = static_cast<int>(std::find(ranks.begin(), ranks.end(), mesh->rank()) - ranks.begin());
  return std::make_shared<GroupContext>(
      std::make_shared<MeshContext>(std::move(mesh), channel, std::move(ranks), self));
}

} // namespace shale::rt
