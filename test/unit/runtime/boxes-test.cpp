// Parts of parameters that tensor axes split: places of elements, and checkpoints that one mesh
// writes and another reads.
#include "runtime/checkpoint/Box.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Export.h"
#include "runtime/checkpoint/Layout.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Rank.h"
#include "runtime/data/SafetensorsReader.h"
#include "runtime/device/host/HostDevice.h"

#include <condition_variable>
#include <cstring>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <unistd.h>

using namespace shale::rt;

namespace {
/// The parameter's element at each place of the box, found by looking at every element.
std::vector<int64_t> elementsOf(const Box &box) {
  int64_t whole = 1;
  for (int64_t n : box.dims)
    whole *= n;
  std::vector<int64_t> found;
  for (int64_t e = 0; e < whole; ++e) {
    int64_t rest = e;
    bool inside = true;
    for (size_t d = box.dims.size(); d-- > 0; rest /= box.dims[d]) {
      int64_t index = rest % box.dims[d];
      inside &= index >= box.start[d] && index < box.start[d] + box.size[d];
    }
    if (inside)
      found.push_back(e);
  }
  return found;
}

TEST(Box, PlacesOfElements) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    Box box;
    int64_t whole = 1;
    for (int d = 0, rank = 1 + random() % 4; d < rank; ++d) {
      box.dims.push_back(1 + random() % 5);
      box.start.push_back(random() % box.dims.back());
      box.size.push_back(1 + random() % (box.dims.back() - box.start.back()));
      whole *= box.dims.back();
    }
    std::vector<int64_t> want = elementsOf(box), got(want.size(), -1);
    ASSERT_EQ(box.count(), int64_t(want.size()));
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_EQ(box.globalOf(i), want[i]);
    for (int64_t e = 0; e <= whole; ++e)
      ASSERT_EQ(box.below(e), std::lower_bound(want.begin(), want.end(), e) - want.begin());
    int64_t begin = random() % want.size(), end = begin + random() % (want.size() - begin + 1);
    forRuns(box, begin, end, [&](int64_t local, int64_t global, int64_t count) {
      ASSERT_GT(count, 0);
      for (int64_t i = 0; i < count; ++i)
        got.at(local + i) = global + i;
    });
    for (int64_t i = begin; i < end; ++i)
      ASSERT_EQ(got[i], want[i]);
    EXPECT_EQ(std::count(got.begin(), got.end(), -1), int64_t(got.size()) - (end - begin));
  }
}

/// Ranks that are threads of this process.
class Threads {
public:
  explicit Threads(int ranks) : ranks(ranks) {}
  /// Runs `body(rank, peers)` on every rank and returns the worst code of their errors, or 0.
  int run(const std::function<void(int, Peers &)> &body) {
    std::vector<std::thread> threads;
    std::vector<int> codes(ranks, 0);
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        Mine peers(*this, r);
        try {
          body(r, peers);
        } catch (const Error &error) {
          codes[r] = error.code;
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    return *std::max_element(codes.begin(), codes.end());
  }

private:
  struct Mine final : Peers {
    Mine(Threads &all, int rank) : all(all), rank(rank) {}
    int64_t agree(int64_t value) override {
      if (rank != 0) {
        send(0, &value, sizeof value);
        receive(0, &value, sizeof value);
        return value;
      }
      for (int r = 1; r < all.ranks; ++r) {
        int64_t other;
        receive(r, &other, sizeof other);
        value = std::max(value, other);
      }
      for (int r = 1; r < all.ranks; ++r)
        send(r, &value, sizeof value);
      return value;
    }
    std::vector<std::string> gather(const std::string &text) override {
      int64_t size = text.size();
      if (rank != 0) {
        send(0, &size, sizeof size);
        send(0, text.data(), size);
        return {};
      }
      std::vector<std::string> texts{text};
      for (int r = 1; r < all.ranks; ++r) {
        receive(r, &size, sizeof size);
        texts.emplace_back(size, ' ');
        receive(r, texts.back().data(), size);
      }
      return texts;
    }
    void send(int to, const void *data, int64_t bytes) override {
      std::lock_guard lock(all.mutex);
      all.boxes[{rank, to}].emplace_back(static_cast<const char *>(data), bytes);
      all.changed.notify_all();
    }
    void receive(int from, void *data, int64_t bytes) override {
      std::unique_lock lock(all.mutex);
      std::vector<std::string> &box = all.boxes[{from, rank}];
      all.changed.wait(lock, [&] { return !box.empty(); });
      ASSERT_EQ(int64_t(box.front().size()), bytes);
      std::memcpy(data, box.front().data(), bytes);
      box.erase(box.begin());
    }
    std::string nameOf(int rank) const override { return "rank " + std::to_string(rank); }
    std::vector<int> findSilent(const std::vector<int> &, double) override { return {}; }
    Threads &all;
    int rank;
  };

  int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::vector<std::string>> boxes;
};

/// Three parameters on a mesh replica x fsdp x tp: `in` [4, 8, 6], in two parts which tensor axes
/// split along dimension 1; `out` [8, 6], split along dimension 0; `norm` [6], whole. Each with a
/// moment.
struct Tables {
  Tables(int64_t replica, int64_t fsdp, int64_t tp, bool full) {
    axes[0] = {"replica", replica, SHALE_AXIS_REPLICA, 0};
    axes[1] = {"fsdp", fsdp, SHALE_AXIS_SHARD, 0};
    axes[2] = {"tp", tp, SHALE_AXIS_TENSOR, 0};
    const char *names[] = {"in", "out", "norm"};
    const std::vector<int64_t> *shapes[] = {&in, &out, &norm};
    for (int p = 0; p < 3; ++p) {
      parameters[p].name = names[p];
      parameters[p].rank = shapes[p]->size();
      parameters[p].dims = shapes[p]->data();
      parameters[p].count = 1;
      for (int64_t n : *shapes[p])
        parameters[p].count *= n;
      parameters[p].trained = 1;
    }
    bool splits = tp > 1;
    // With tensor axes, `in` is divided into two parts of 4 indices each along dimension 1.
    inSize[1] = splits ? 4 / tp : 8;
    outSize[0] = 8 / tp;
    int64_t part = 24 * inSize[1], after = 192 / tp;
    segments[0] = {0, 1, 0, part, splits ? 3 : 0, 0, in.data(), zeros, inSize, inAxes};
    segments[1] = {1, 1, 192, 48 / tp, splits ? 2 : 0, 0, out.data(), zeros, outSize, outAxes};
    segments[2] = {0, 1, after - part, part, 3, 0, in.data(), second, inSize, inAxes};
    segments[3] = {2, 1, 0, 6, 0, 0, nullptr, nullptr, nullptr, nullptr};
    groups[0] = {"matrices", 240, splits ? 3 : 2, 0, segments};
    groups[1] = {"vectors", 12, 1, 0, segments + 3};
    int axis = full && fsdp > 1 ? 1 : -1;
    int64_t at = 0;
    for (int s = 0; s < 4; ++s) {
      int64_t local = groups[s / 2].count / (axis < 0 ? 1 : fsdp);
      states[s] = {s / 2, s % 2 ? SHALE_ROLE_SLOT : SHALE_ROLE_PARAM, SHALE_F32, axis, at, local};
      at += 64 * ((local * 4 + 63) / 64);
    }
    program.abi_version = SHALE_ABI_VERSION;
    program.world_size = replica * fsdp * tp;
    program.accumulate = 1;
    program.step = [](ShaleRank *, char *, char *, const void *const *, const float *, float *) {};
    program.model = "m.onnx", program.strategy = full ? "full" : "none";
    program.optimizer = "momentum";
    program.slots = slots, program.slot_count = 1;
    program.axes = axes, program.axis_count = 3;
    program.parameters = parameters, program.parameter_count = 3;
    program.groups = groups, program.group_count = 2;
    program.states = states, program.state_count = 4;
    program.state_bytes = at;
    checkProgram(program);
  }

  std::vector<int64_t> in{4, 8, 6}, out{8, 6}, norm{6};
  int64_t zeros[3] = {0, 0, 0}, second[3] = {0, 4, 0}, inSize[3] = {4, 8, 6}, outSize[2] = {8, 6};
  int32_t inAxes[3] = {-1, 2, -1}, outAxes[2] = {2, -1};
  ShaleAxis axes[3];
  ShaleParameter parameters[3] = {};
  ShaleSegment segments[4];
  ShaleGroup groups[2];
  ShaleState states[4];
  const char *slots[1] = {"momentum"};
  ShaleProgram program{};
};

float valueOf(int parameter, int32_t role, int64_t element) {
  return 1000 * parameter + 10000 * role + element;
}

/// Calls `use(address, wanted value)` for every element that a rank holds, with its bytes.
void forElements(const ShaleProgram &program, int rank,
                 const std::function<void(int64_t, float)> &use) {
  for (const Piece &piece : localPieces(program, rank)) {
    // Independent of Box: every element is looked at.
    std::vector<int64_t> places;
    if (piece.box.isWhole())
      for (int64_t e = 0; e < piece.whole; ++e)
        places.push_back(e);
    else
      places = elementsOf(piece.box);
    for (int64_t e = piece.begin; e < piece.end; ++e)
      use(piece.offset + (e - piece.begin) * 4, valueOf(piece.parameter, piece.role, places[e]));
  }
}

class Boxes : public ::testing::Test {
protected:
  void SetUp() override {
    char pattern[] = "/tmp/shale-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    work = pattern;
  }
  void TearDown() override { removeTree(work); }

  int save(const Tables &tables, const std::string &out, const std::string &form) {
    return Threads(tables.program.world_size).run([&](int rank, Peers &peers) {
      HostDevice device(tables.program);
      State state(tables.program, device);
      forElements(tables.program, rank,
                  [&](int64_t at, float value) { state.write(at, &value, 4); });
      Position position;
      position.step = 3;
      saveCheckpoint(tables.program, rank, state, peers, out, form, 1 << 30, 0, position);
    });
  }
  int load(const Tables &tables, const std::string &out) {
    return Threads(tables.program.world_size).run([&](int rank, Peers &peers) {
      HostDevice device(tables.program);
      State state(tables.program, device);
      Position position;
      ASSERT_TRUE(loadCheckpoint(tables.program, rank, state, peers, out, "must", position));
      forElements(tables.program, rank, [&](int64_t at, float value) {
        float got;
        state.read(at, &got, 4);
        ASSERT_EQ(got, value) << "rank " << rank << ", byte " << at;
      });
    });
  }
  std::string work;
};

struct Mesh {
  int64_t replica, fsdp, tp;
  bool full;
};
const Mesh kMeshes[] = {{1, 1, 1, false}, {1, 1, 2, false}, {1, 1, 4, false}, {1, 2, 2, true},
                        {1, 2, 2, false}, {1, 4, 1, true},  {2, 1, 2, false}, {2, 2, 2, true}};

TEST_F(Boxes, EveryElementIsStoredOnce) {
  for (const Mesh &mesh : kMeshes)
    for (bool spread : {false, true}) {
      Tables tables(mesh.replica, mesh.fsdp, mesh.tp, mesh.full);
      std::map<std::pair<int, int>, std::vector<int>> times;
      for (const Piece &piece : piecesOf(tables.program, spread)) {
        std::vector<int> &own = times[{piece.parameter, piece.role}];
        own.resize(piece.whole);
        forRuns(piece.box, piece.begin, piece.end, [&](int64_t, int64_t global, int64_t count) {
          for (int64_t e = 0; e < count; ++e)
            ++own.at(global + e);
        });
      }
      ASSERT_EQ(times.size(), 6u);
      for (const auto &[key, own] : times)
        EXPECT_EQ(std::count(own.begin(), own.end(), 1), int64_t(own.size())) << key.first;
    }
}

TEST_F(Boxes, EveryMeshReadsWhatAnotherWrote) {
  int number = 0;
  for (const Mesh &from : kMeshes)
    for (const char *form : {"sharded", "full"}) {
      std::string out = work + "/" + std::to_string(number++);
      ASSERT_EQ(save(Tables(from.replica, from.fsdp, from.tp, from.full), out, form), 0);
      for (const Mesh &to : kMeshes)
        ASSERT_EQ(load(Tables(to.replica, to.fsdp, to.tp, to.full), out), 0)
            << form << ", fsdp " << from.fsdp << " tp " << from.tp << " to fsdp " << to.fsdp
            << " tp " << to.tp;
    }
}

TEST_F(Boxes, ExportsHaveTheSameBytes) {
  std::string want;
  int number = 0;
  for (const Mesh &mesh : kMeshes) {
    Tables tables(mesh.replica, mesh.fsdp, mesh.tp, mesh.full);
    std::string folder = work + "/" + std::to_string(number++);
    ASSERT_EQ(save(tables, folder, "full"), 0);
    std::ifstream file(listCheckpoints(folder).at(0) + "/model.safetensors", std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    want = want.empty() ? bytes : want;
    EXPECT_EQ(bytes, want);
  }
  ASSERT_GT(want.size(), size_t(192 + 48 + 6) * 4);
}

/// What a manifest that was changed on purpose may claim, and the sums are right.
TEST_F(Boxes, LiesAboutBoxesAre65) {
  Tables tables(1, 1, 2, false);
  auto code = [&](const std::function<void(Manifest &)> &change) {
    std::string out = work + "/lies";
    removeTree(out);
    EXPECT_EQ(save(tables, out, "sharded"), 0);
    std::string folder = listCheckpoints(out).at(0);
    Manifest manifest = readManifest(folder);
    EXPECT_FALSE(manifest.pieces.at(0).box.isWhole());
    change(manifest);
    std::ofstream(folder + "/manifest.json") << manifestText(tables.program, manifest);
    return load(tables, out);
  };
  auto first = [](Manifest &m) -> Box & { return m.pieces.at(0).box; };
  EXPECT_EQ(code([](Manifest &) {}), 0);
  EXPECT_EQ(code([&](Manifest &m) { first(m).start[1] += 1; }), 65);
  EXPECT_EQ(code([&](Manifest &m) { first(m).size[1] = int64_t(1) << 62; }), 65);
  EXPECT_EQ(code([&](Manifest &m) { first(m).dims[0] *= 2; }), 65);
  EXPECT_EQ(code([&](Manifest &m) { first(m).dims.assign(40, 1); }), 65);
  EXPECT_EQ(code([&](Manifest &m) { first(m).dims[0] = int64_t(1) << 60; }), 65);
  EXPECT_EQ(code([&](Manifest &m) { first(m).size.pop_back(); }), 65);
  EXPECT_EQ(code([&](Manifest &m) { first(m).start = {0, 2, 0}; }), 65); // the other rank's
  EXPECT_EQ(code([&](Manifest &m) { m.pieces.at(0).end = 49; }), 65);
  EXPECT_EQ(code([&](Manifest &m) { m.pieces.erase(m.pieces.begin()); }), 65);
  EXPECT_EQ(code([&](Manifest &m) { m.pieces.push_back(m.pieces.at(0)); }), 65);
}

TEST(BoxTables, InconsistentOnesAre70) {
  auto broken = [](const std::function<void(Tables &)> &change) {
    Tables tables(1, 2, 2, true);
    change(tables);
    try {
      checkProgram(tables.program);
    } catch (const Error &error) {
      return error.code;
    }
    return 0;
  };
  EXPECT_EQ(broken([](Tables &) {}), 0);
  EXPECT_EQ(broken([](Tables &t) { t.inAxes[1] = 3; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.inAxes[1] = 1; }), 70); // the other segment has axis 2
  EXPECT_EQ(broken([](Tables &t) { t.in[1] = 7; }), 70);     // ends before the second part
  EXPECT_EQ(broken([](Tables &t) { t.second[1] = -4; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.inSize[1] = 0; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.segments[0].count = 47; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.parameters[0].count = 96, t.in[0] = 2; }), 70);
}
} // namespace
