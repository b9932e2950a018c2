// Parts of parameters that tensor axes split: places of elements, and checkpoints that one mesh
// writes and another reads.
#include "runtime/checkpoint/Manifest.h"
#include "test/unit/runtime/Meshes.h"

#include <fstream>
#include <random>

using namespace shale::rt;

namespace {
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
    bool padded = box.dims.size() > 1 && round % 2;
    if (padded)
      box.size.back() = box.dims.back() - box.start.back() + 1 + random() % 3;
    ASSERT_EQ(box.isPadded(), padded);
    std::vector<int64_t> want = elementsOf(box), got(want.size(), -1);
    ASSERT_EQ(box.count(), int64_t(want.size()));
    for (size_t i = 0; i < want.size(); ++i)
      if (want[i] >= 0)
        ASSERT_EQ(box.globalOf(i), want[i]);
    // The first place of an element that is not below; padding is with the row before it.
    for (int64_t e = 0; e <= whole; ++e)
      ASSERT_EQ(box.below(e), std::find_if(want.begin(), want.end(), [&](int64_t at) {
                                return at >= e;
                              }) - want.begin());
    int64_t begin = random() % want.size(), end = begin + random() % (want.size() - begin + 1);
    forRuns(box, begin, end, [&](int64_t local, int64_t global, int64_t count) {
      ASSERT_GT(count, 0);
      for (int64_t i = 0; i < count; ++i)
        got.at(local + i) = global + i;
    });
    for (int64_t i = begin; i < end; ++i)
      ASSERT_EQ(got[i], want[i]);
    int64_t held = box.held(begin, end);
    EXPECT_EQ(held, end - begin - std::count(want.begin() + begin, want.begin() + end, -1));
    EXPECT_EQ(std::count(got.begin(), got.end(), -1), int64_t(got.size()) - held);
  }
}

const Mesh kMeshes[] = {{1, 1, 1, false}, {1, 1, 2, false}, {1, 1, 4, false}, {1, 2, 2, true},
                        {1, 2, 2, false}, {1, 4, 1, true},  {2, 1, 2, false}, {2, 2, 2, true}};

TEST_F(Checkpoints, EveryElementIsStoredOnce) {
  for (const Mesh &mesh : kMeshes)
    for (bool spread : {false, true}) {
      Tables tables(mesh);
      std::map<std::pair<int, int>, std::vector<int>> times;
      for (const Piece &piece : piecesOf(tables.program, spread)) {
        std::vector<int> &own = times[{piece.parameter, piece.role}];
        own.resize(piece.whole);
        forRuns(piece.box, piece.begin, piece.end, [&](int64_t, int64_t global, int64_t count) {
          for (int64_t e = 0; e < count; ++e)
            ++own.at(global + e);
        });
      }
      ASSERT_EQ(times.size(), 10u);
      for (const auto &[key, own] : times)
        EXPECT_EQ(std::count(own.begin(), own.end(), 1), int64_t(own.size())) << key.first;
    }
}

TEST_F(Checkpoints, EveryMeshReadsWhatAnotherWrote) {
  int number = 0;
  for (const Mesh &from : kMeshes)
    for (const char *form : {"sharded", "full"}) {
      std::string out = work + "/" + std::to_string(number++);
      ASSERT_EQ(save(Tables(from), out, form), 0);
      for (const Mesh &to : kMeshes)
        ASSERT_EQ(load(Tables(to), out), 0) << form << ", fsdp " << from.fsdp << " tp " << from.tp
                                            << " to fsdp " << to.fsdp << " tp " << to.tp;
    }
}

TEST_F(Checkpoints, ExportsHaveTheSameBytes) {
  std::string want;
  int number = 0;
  for (const Mesh &mesh : kMeshes) {
    Tables tables(mesh);
    std::string folder = work + "/" + std::to_string(number++);
    ASSERT_EQ(save(tables, folder, "full"), 0);
    std::ifstream file(listCheckpoints(folder).at(0) + "/model.safetensors", std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(file)), {});
    want = want.empty() ? bytes : want;
    EXPECT_EQ(bytes, want);
  }
  ASSERT_GT(want.size(), size_t(192 + 48 + 6 + 42 + 42) * 4);
}

/// What a manifest that was changed on purpose may claim, and the sums are right.
TEST_F(Checkpoints, LiesAboutBoxesAre65) {
  Tables tables({1, 1, 2, false});
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
  EXPECT_EQ(code([&](Manifest &m) { first(m).start[2] += 1; }), 65); // rows end with padding
  EXPECT_EQ(code([&](Manifest &m) { first(m).size[2] = int64_t(1) << 62; }), 65);
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
    Tables tables({1, 2, 2, true});
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
  EXPECT_EQ(broken([](Tables &t) { t.rows = {3, 14}; }), 0); // padding on both ranks
  EXPECT_EQ(broken([](Tables &t) { t.columns = {14, 3}; }), 0);
  EXPECT_EQ(broken([](Tables &t) { t.parameters[4].count = 0, t.columns[1] = 0; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.inSize[0] = 5; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.parameters[3].count = 0, t.rows[0] = 0; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.segments[0].count = 47; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.parameters[0].count = 96, t.in[1] = 4; }), 70);
}
} // namespace
