// Connects ranks, and exchanges between steps.
#include "runtime/comm/gloo/Gloo.h"
#include "runtime/core/Rank.h"

#include <algorithm>
#include <numeric>

namespace shale::rt {

namespace {
using std::chrono::milliseconds;

constexpr uint64_t stateSlot = 0x7eull << 56, agreeSlot = 0x7dull << 56;
// The longest text of a rank, and the bytes by which memory for it grows while it arrives.
constexpr int64_t longestText = int64_t(1) << 30, textPiece = int64_t(1) << 20;

class GlooPeers final : public Peers {
public:
  GlooPeers(std::shared_ptr<Mesh> mesh, GlooContext world, milliseconds timeout)
      : mesh(std::move(mesh)), world(std::move(world)), timeout(timeout), said(this->world->size) {}

  int64_t agree(int64_t value) override;
  int64_t agreeAndTell(int64_t value, double number, std::vector<double> &all) override;
  std::vector<std::string> gather(const std::string &text) override;
  void send(int to, const void *data, int64_t bytes) override;
  void receive(int from, void *data, int64_t bytes) override;
  std::vector<int> findSilent(const std::vector<int> &ranks, double seconds) override {
    return mesh->findSilent(ranks, seconds);
  }
  std::string nameOf(int rank) const override { return mesh->nameOf(rank); }
  void leave() override { mesh->leave(); }

private:
  struct Said {
    int64_t value;
    double number;
  };
  int64_t agreeOn(Said own);
  std::string receiveText(int from);

  std::shared_ptr<Mesh> mesh;
  GlooContext world;
  milliseconds timeout;
  std::vector<Said> said; // in agreeOn(), by rank
  uint64_t agreements = 0;
};

int64_t GlooPeers::agree(int64_t value) { return agreeOn({value, 0}); }

int64_t GlooPeers::agreeAndTell(int64_t value, double number, std::vector<double> &all) {
  int64_t largest = agreeOn({value, number});
  all.clear();
  for (const Said &one : said)
    if (world->rank == 0)
      all.push_back(one.number);
  return largest;
}

/// Rank 0 collects what the ranks say and sends the largest value back: it alone is connected with
/// all.
int64_t GlooPeers::agreeOn(Said own) {
  int64_t largest = own.value;
  orPeerFailure("agreement between steps", [&] {
    uint64_t slot = agreeSlot | 2 * agreements++;
    auto answer = world->createUnboundBuffer(&largest, sizeof(largest));
    if (world->rank != 0) {
      auto message = world->createUnboundBuffer(&own, sizeof(own));
      answer->recv(0, slot + 1);
      message->send(0, slot);
      message->waitSend(timeout);
      answer->waitRecv(timeout);
      return;
    }
    said[0] = own;
    auto others = world->createUnboundBuffer(said.data(), said.size() * sizeof(Said));
    for (int rank = 1; rank < world->size; ++rank)
      others->recv(rank, slot, rank * sizeof(Said), sizeof(Said));
    for (int rank = 1; rank < world->size; ++rank)
      others->waitRecv(timeout);
    for (const Said &one : said)
      largest = std::max(largest, one.value);
    for (int rank = 1; rank < world->size; ++rank)
      answer->send(rank, slot + 1);
    for (int rank = 1; rank < world->size; ++rank)
      answer->waitSend(timeout);
  });
  return largest;
}

void GlooPeers::send(int to, const void *data, int64_t bytes) {
  orPeerFailure("sending state", [&] {
    auto buffer = world->createUnboundBuffer(const_cast<void *>(data), bytes);
    buffer->send(to, stateSlot);
    buffer->waitSend(timeout);
  });
}

void GlooPeers::receive(int from, void *data, int64_t bytes) {
  orPeerFailure("receiving state", [&] {
    auto buffer = world->createUnboundBuffer(data, bytes);
    buffer->recv(from, stateSlot);
    buffer->waitRecv(timeout);
  });
}

std::string GlooPeers::receiveText(int from) {
  int64_t length = 0;
  receive(from, &length, sizeof(length));
  if (length < 0 || length > longestText)
    fail(SHALE_EXIT_PEER, "%s sends a text of %lld bytes; at most %lld are possible",
         mesh->nameOf(from).c_str(), (long long)length, (long long)longestText);
  std::string text;
  for (int64_t at = 0; at < length; at += textPiece) {
    int64_t bytes = std::min(textPiece, length - at);
    text.resize(at + bytes);
    receive(from, text.data() + at, bytes);
  }
  return text;
}

std::vector<std::string> GlooPeers::gather(const std::string &text) {
  int64_t length = text.size();
  std::vector<std::string> texts;
  if (world->rank == 0) {
    texts.push_back(text);
    for (int rank = 1; rank < world->size; ++rank)
      texts.push_back(receiveText(rank));
    return texts;
  }
  if (length > longestText)
    fail(SHALE_EXIT_INTERNAL, "a text of %lld bytes is too long to be gathered", (long long)length);
  send(0, &length, sizeof(length));
  for (int64_t at = 0; at < length; at += textPiece)
    send(0, text.data() + at, std::min(textPiece, length - at));
  return texts;
}

} // namespace

std::unique_ptr<Peers> makeGlooPeers(std::shared_ptr<Mesh> mesh, int ranks, milliseconds timeout,
                                     int group) {
  std::vector<int> all(ranks);
  std::iota(all.begin(), all.end(), 0);
  GlooContext world = makeContext(mesh, group, all);
  return std::make_unique<GlooPeers>(std::move(mesh), std::move(world), timeout);
}

Connection connectGloo(const ShaleProgram &program, const Rendezvous &rendezvous,
                       double timeoutSeconds, bool collectives, bool writers, const Admit &admit) {
  milliseconds timeout(static_cast<int64_t>(timeoutSeconds * 1000));
  std::shared_ptr<Mesh> mesh;
  orPeerFailure("rendezvous", [&] {
    Secret secret = secretOf(rendezvous);
    Mesh::Options options;
    options.timeout = timeout;
    // The device's own collectives have a watchdog, which is to report first: it knows more.
    if (!collectives)
      options.grace = milliseconds(5000);
    AxisSizes axes;
    for (int axis = 0; axis < program.axis_count; ++axis)
      axes.push_back(program.axes[axis].size);
    JointAxes joint;
    for (int j = 0; j < program.joint_axis_count; ++j) {
      const ShaleJointAxis &each = program.joint_axes[j];
      joint.emplace_back(each.members, each.members + each.member_count);
    }
    mesh = std::make_shared<Mesh>(rendezvous.rank, join(rendezvous, secret, timeout, axes, joint),
                                  options);
  });
  Connection connection;
  connection.peers =
      makeGlooPeers(mesh, rendezvous.worldSize, collectives ? timeout : timeout + timeout / 2);
  admit(*connection.peers);
  if (writers)
    connection.writers = makeGlooPeers(mesh, rendezvous.worldSize, timeout, axisTotal(program) + 1);
  if (!collectives)
    return connection;
  std::vector<GlooContext> perAxis(axisTotal(program));
  for (int axis = 0; axis < axisTotal(program); ++axis)
    if (axisSize(program, axis) > 1)
      perAxis[axis] = makeContext(mesh, axis + 1, ranksAlong(program, rendezvous.rank, axis));
  connection.collectives = makeGlooCollectives(program, std::move(perAxis), timeout);
  return connection;
}

} // namespace shale::rt
