// Connects ranks over Gloo, and exchanges between steps.
#include "runtime/comm/gloo/Gloo.h"
#include "runtime/core/Rank.h"

#include <algorithm>
#include <cstdlib>
#include <gloo/allgather.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <thread>

namespace shale::rt {

namespace {
using std::chrono::milliseconds;

class GlooPeers final : public Peers {
public:
  GlooPeers(GlooContext world, milliseconds timeout)
      : world(std::move(world)), timeout(timeout), values(this->world->size) {}

  int64_t agree(int64_t value) override;
  std::vector<std::string> gather(const std::string &text) override;
  void send(int to, const void *data, int64_t bytes) override;
  void receive(int from, void *data, int64_t bytes) override;
  std::vector<int> findSilent(const std::vector<int> &ranks, double seconds) override;

private:
  GlooContext world;
  milliseconds timeout;
  std::vector<int64_t> values; // of agree(), by rank
  uint64_t worldSlot = 0;
};

int64_t GlooPeers::agree(int64_t value) {
  orPeerFailure("agreement between steps", timeout, [&] {
    gloo::AllgatherOptions options(world);
    options.setTag(static_cast<uint32_t>(worldSlot++));
    options.setTimeout(timeout);
    options.setInput(&value, 1);
    options.setOutput(values.data(), values.size());
    gloo::allgather(options);
  });
  return *std::max_element(values.begin(), values.end());
}

void GlooPeers::send(int to, const void *data, int64_t bytes) {
  orPeerFailure("sending state", timeout, [&] {
    auto buffer = world->createUnboundBuffer(const_cast<void *>(data), bytes);
    buffer->send(to, 0x7eull << 56);
    if (!buffer->waitSend(timeout))
      fail(SHALE_EXIT_PEER, "sending state to rank %d was aborted", to);
  });
}

void GlooPeers::receive(int from, void *data, int64_t bytes) {
  orPeerFailure("receiving state", timeout, [&] {
    auto buffer = world->createUnboundBuffer(data, bytes);
    buffer->recv(from, 0x7eull << 56);
    if (!buffer->waitRecv(timeout))
      fail(SHALE_EXIT_PEER, "receiving state from rank %d was aborted", from);
  });
}

std::vector<std::string> GlooPeers::gather(const std::string &text) {
  int64_t length = text.size();
  if (world->rank != 0) {
    send(0, &length, sizeof(length));
    if (length)
      send(0, text.data(), length);
    return {};
  }
  std::vector<std::string> texts{text};
  for (int r = 1; r < world->size; ++r) {
    receive(r, &length, sizeof(length));
    texts.emplace_back(length, '\0');
    if (length)
      receive(r, texts.back().data(), length);
  }
  return texts;
}

std::vector<int> GlooPeers::findSilent(const std::vector<int> &ranks, double seconds) {
  constexpr uint64_t slot = 0x7dull << 56;
  milliseconds limit(static_cast<int64_t>(seconds * 1000));
  // Gloo closes all connections when one wait runs out, so all ranks are waited for at once.
  std::vector<char> told(ranks.size(), 0);
  std::vector<std::thread> waits;
  for (size_t i = 0; i < ranks.size(); ++i)
    waits.emplace_back([&, i] {
      char out = 1, in = 0;
      try {
        auto send = world->createUnboundBuffer(&out, 1),
             receive = world->createUnboundBuffer(&in, 1);
        send->send(ranks[i], slot);
        receive->recv(ranks[i], slot);
        // Until the other rank has been told, too: this one may end right after.
        told[i] = receive->waitRecv(limit) && send->waitSend(limit);
      } catch (const std::exception &) { // it did not answer, or its connection is closed
      }
    });
  for (std::thread &wait : waits)
    wait.join();
  std::vector<int> silent;
  for (size_t i = 0; i < ranks.size(); ++i)
    if (!told[i])
      silent.push_back(ranks[i]);
  return silent;
}

} // namespace

std::unique_ptr<Peers> makeGlooPeers(GlooContext world, milliseconds timeout) {
  return std::make_unique<GlooPeers>(std::move(world), timeout);
}

Connection connectGloo(const ShaleProgram &program, const Rendezvous &rendezvous,
                       double timeoutSeconds, bool collectives, const Admit &admit) {
  milliseconds timeout(static_cast<int64_t>(timeoutSeconds * 1000));
  Connection connection;
  orPeerFailure("rendezvous", timeout, [&] {
    std::unique_ptr<gloo::rendezvous::Store> store = openStore(rendezvous, timeout);
    gloo::transport::tcp::attr attr;
    const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
    if (interface && rendezvous.localSize != rendezvous.worldSize)
      attr.iface = interface;
    else
      attr.hostname = ownAddress(rendezvous);
    auto device = gloo::transport::tcp::CreateDevice(attr);
    auto join = [&](const std::string &prefix, int rank, int size) {
      auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
      context->setTimeout(timeout);
      gloo::rendezvous::PrefixStore scoped(prefix, *store);
      context->connectFullMesh(scoped, device);
      return context;
    };
    // The device's own collectives have a watchdog, which is to report first: it knows more.
    connection.peers = makeGlooPeers(join("world", rendezvous.rank, rendezvous.worldSize),
                                     collectives ? timeout : timeout + timeout / 2);
    admit(*connection.peers);
    if (!collectives)
      return;
    std::vector<GlooContext> perAxis;
    std::vector<int64_t> own = coordinatesOf(program, rendezvous.rank);
    for (int a = 0; a < program.axis_count; ++a) {
      int size = static_cast<int>(program.axes[a].size);
      if (size == 1) {
        perAxis.push_back(nullptr);
        continue;
      }
      std::string prefix = format("axis%d", a);
      for (int b = 0; b < program.axis_count; ++b)
        prefix += b == a ? ".x" : format(".%lld", (long long)own[b]);
      perAxis.push_back(join(prefix, static_cast<int>(own[a]), size));
    }
    connection.collectives = makeGlooCollectives(program, std::move(perAxis), timeout);
  });
  return connection;
}

} // namespace shale::rt
