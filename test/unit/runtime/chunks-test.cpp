// Chunks of a checkpoint: what ranks of another mesh read, damage in each, and lies about them.
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/Verify.h"
#include "test/unit/runtime/Forge.h"
#include "test/unit/runtime/Meshes.h"

#include <random>

using namespace shale::rt;
using nlohmann::json;

namespace {
constexpr int64_t kScale = 32, kChunk = 8192;
const Mesh kBoth = {1, 2, 2, true};

TEST(Chunks, PartsAreOfRowsThatFit) {
  auto parts = [](const std::vector<int64_t> &size, int64_t chunkBytes = savedChunkBytes) {
    Chunks chunks = chunksFor(size, 4, chunkBytes);
    EXPECT_EQ(chunks.elements, chunkBytes / 4);
    return std::make_pair(chunks.row, chunks.parts);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(parts({4096, 4096}), Pair(4096, 8));
  EXPECT_EQ(parts({4096, 1024}), Pair(1024, 4)); // parts of 1 KiB
  EXPECT_EQ(parts({4096, 1020}), Pair(1020, 2)); // four equal ones are shorter
  EXPECT_EQ(parts({4096, 256}), Pair(1, 1));
  EXPECT_EQ(parts({4096, 4095}), Pair(1, 1)); // not even
  EXPECT_EQ(parts({1 << 20}), Pair(1, 1));
  EXPECT_EQ(parts({512, 256, 3, 3}), Pair(2304, 8));
  EXPECT_EQ(parts({3, 4096, 4096}), Pair(4096, 8)); // rows of [4096, 4096] do not fit
  EXPECT_EQ(parts({2, 1 << 21}), Pair(1, 1));
  EXPECT_EQ(parts({0, 7}), Pair(1, 1));
  EXPECT_EQ(parts({7, 0}), Pair(1, 1));
  EXPECT_EQ(parts({}), Pair(1, 1));
  EXPECT_EQ(parts({3, int64_t(1) << 62, int64_t(1) << 62}), Pair(1, 1));
}

/// Each checksum is that of the bytes that are found by looking at each element, however the bytes
/// are divided when they are added.
TEST(Chunks, SumsCoverEachElementOnce) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    Chunks chunks;
    chunks.elements = 1 + random() % 40;
    chunks.parts = 1 + random() % mostParts;
    chunks.row = chunks.parts * (1 + random() % 6);
    int64_t begin = random() % 50, count = random() % 200;
    std::vector<uint16_t> data(count);
    for (uint16_t &value : data)
      value = uint16_t(random());
    std::vector<std::string> bytes(chunks.of(count) * chunks.parts);
    for (int64_t i = 0; i < count; ++i) {
      int64_t column = (begin + i) % chunks.row, part = column / (chunks.row / chunks.parts);
      bytes.at(i / chunks.elements * chunks.parts + part)
          .append(reinterpret_cast<char *>(&data[i]), 2);
    }
    std::vector<uint64_t> want;
    for (const std::string &text : bytes)
      want.push_back(checksumOf(text));
    ChunkSums sums(chunks, begin, 2);
    for (int64_t at = 0, n; at < count; at += n) {
      n = std::min<int64_t>(random() % 30, count - at);
      sums.add(reinterpret_cast<char *>(data.data() + at), n * 2);
    }
    ASSERT_EQ(sums.finish(), want);
  }
}

/// Makes a checkpoint one of an older program: one checksum for each piece.
void makeOld(const std::string &folder, int version) {
  forge(folder, [&](json &body) {
    body["version"] = version;
    body.erase("chunk_bytes");
    for (json &piece : body["pieces"]) {
      std::string file = readText(folder + "/" + piece["file"].get<std::string>(), 1 << 30);
      int64_t count = piece["end"].get<int64_t>() - piece["begin"].get<int64_t>();
      uint64_t sum = checksumOf(file.substr(piece["offset"].get<int64_t>(), count * 4));
      piece["xxh3"] = format("%016llx", (unsigned long long)sum);
      piece.erase("parts");
    }
  });
}

TEST_F(Checkpoints, AMeshReadsLittleMoreThanItStores) {
  std::string out = work + "/out";
  const Mesh others[] = {{1, 4, 1, true}, {1, 1, 2, false}, {1, 1, 4, false}, {1, 1, 1, false}};
  ASSERT_EQ(save(Tables(kBoth, kScale), out, "sharded", kChunk), 0);
  auto share = [&](const Mesh &mesh) {
    EXPECT_EQ(load(Tables(mesh, kScale), out), 0) << said[0];
    return most;
  };
  EXPECT_EQ(share(kBoth), 1);
  for (const Mesh &mesh : others) {
    EXPECT_LE(share(mesh), 1.2) << "fsdp " << mesh.fsdp << " tp " << mesh.tp;
    RecordProperty(format("fsdp%dtp%d", int(mesh.fsdp), int(mesh.tp)), std::to_string(most));
  }
  // One checksum for a piece: the same elements, but whole pieces are read for them.
  makeOld(listCheckpoints(out).at(0), 2);
  EXPECT_EQ(share(kBoth), 1);
  EXPECT_GT(share({1, 1, 4, false}), 1.9);
  // The other way round, and from the full form, in which rows are whole.
  for (const Mesh &mesh : others)
    for (const char *form : {"sharded", "full"}) {
      removeTree(out);
      ASSERT_EQ(save(Tables(mesh, kScale), out, form, kChunk), 0);
      EXPECT_LE(share(kBoth), 1.2) << form << ", fsdp " << mesh.fsdp << " tp " << mesh.tp;
    }
}

class SmallChunks : public Checkpoints {
protected:
  /// Saves on `mesh` in chunks of 256 bytes and returns the folder.
  std::string saved(const Mesh &mesh) {
    EXPECT_TRUE(removeTree(out()) || !exists(out()));
    EXPECT_EQ(save(Tables(mesh), out(), "sharded", 256), 0);
    return listCheckpoints(out()).at(0);
  }
  std::string out() const { return work + "/out"; }
  /// Loads on one rank. Returns "CODE message".
  std::string loaded() {
    int code = load(Tables({1, 1, 1, false}), out());
    return code == 0 ? "0" : std::to_string(code) + " " + said[0];
  }
};

TEST_F(SmallChunks, AFlippedByteOfEachIsNoticed) {
  std::string folder = saved(kBoth);
  Manifest manifest = readManifest(folder);
  int64_t places = 0, padding = 0;
  for (const StoredPiece &piece : manifest.pieces) {
    std::string path = folder + "/" + piece.file, bytes = readText(path, 1 << 20);
    int64_t chunk = piece.chunks.elements * 4;
    EXPECT_LE(chunk, 256);
    for (int64_t at = 0; at < piece.bytes(); at += 23, ++places) {
      std::string other = bytes;
      other[piece.offset + at] ^= 1 << at % 8;
      std::ofstream(path) << other;
      int64_t begin = at / chunk * chunk, end = std::min(begin + chunk, piece.bytes());
      std::string range = format("bytes %lld to %lld", (long long)(piece.offset + begin),
                                 (long long)(piece.offset + end - 1));
      std::string error = loaded();
      bool isPadding = !piece.box.isWhole() && elementsOf(piece.box)[piece.begin + at / 4] < 0;
      if (!isPadding || error != "0") { // nobody reads a part that has only padding
        ASSERT_EQ(error.rfind("65 '" + path + "' is damaged: the checksum of " + range, 0), 0u)
            << error;
        ASSERT_EQ(load(Tables({1, 1, 4, false}), out()), 65); // a rank that holds it
      }
      padding += isPadding;
      CheckedFolder checked = checkFolder(folder);
      ASSERT_EQ(checked.problems.size(), 1u);
      ASSERT_NE(checked.problems[0].find(range), std::string::npos) << checked.problems[0];
    }
    std::ofstream(path) << bytes;
  }
  EXPECT_GT(places, 80);
  EXPECT_GT(padding, 0);
  EXPECT_EQ(loaded(), "0");
}

/// A rank does not read what it does not need: damage there is the matter of others.
TEST_F(SmallChunks, DamageOfColumnsIsNoticedByTheirRank) {
  std::string folder = saved({1, 1, 1, false});
  Manifest manifest = readManifest(folder);
  const StoredPiece &in = *std::find_if(manifest.pieces.begin(), manifest.pieces.end(),
                                        [](const StoredPiece &p) { return p.parameter == "in"; });
  std::string path = folder + "/" + in.file, bytes = readText(path, 1 << 20);
  bytes[in.offset + in.bytes() - 1] ^= 1; // of index 7 of dimension 1
  std::ofstream(path) << bytes;
  EXPECT_EQ(load(Tables({1, 1, 4, false}), out()), 65);
  // Rank 0 reports what the others found, once.
  EXPECT_EQ(said[0].rfind("rank 3: '", 0), 0u) << said[0];
  EXPECT_NE(said[0].find("is damaged: the checksum of bytes"), std::string::npos) << said[0];
  for (int rank = 1; rank < 4; ++rank)
    EXPECT_EQ(said[rank], "");
}

TEST_F(SmallChunks, LiesAre65) {
  auto error = [&](const std::function<void(json &, json &)> &change) {
    forge(saved(kBoth), [&](json &body) {
      for (json &piece : body["pieces"])
        if (piece["parameter"] == "in")
          return change(body, piece);
      FAIL() << "no piece";
    });
    return loaded();
  };
  auto expect = [&](const std::string &what, const std::function<void(json &, json &)> &change) {
    std::string said = error(change), place = listCheckpoints(out()).at(0) + "/manifest.json'";
    EXPECT_EQ(said.rfind("65 '" + place, 0), 0u) << said;
    EXPECT_NE(said.find(what), std::string::npos) << said;
  };
  EXPECT_EQ(error([](json &, json &) {}), "0");
  auto sums = [](json &piece) -> std::string & { return piece["xxh3"].get_ref<std::string &>(); };
  // The number of checksums.
  const std::string digits = "digits of checksums for";
  expect(digits, [&](json &, json &p) { sums(p).resize(sums(p).size() - 16); });
  expect(digits, [&](json &, json &p) { sums(p) += std::string(16, '0'); });
  expect(digits, [&](json &, json &p) { sums(p) += std::string(int(mostParts) * 16, '0'); });
  expect(digits, [&](json &, json &p) { sums(p) += "0"; });
  expect(digits, [&](json &, json &p) { sums(p).clear(); });
  expect(digits, [&](json &, json &p) { p["end"] = INT64_MAX; });
  expect(digits, [&](json &, json &p) { p["end"] = int64_t(1) << 40; });
  expect(digits, [&](json &, json &p) { p.erase("parts"); });
  expect(digits, [&](json &body, json &) { body["chunk_bytes"] = 64; });
  expect("ends before it begins", [&](json &, json &p) { p["begin"] = p["end"], p["end"] = 0; });
  expect("is not 16 hexadecimal digits", [&](json &, json &p) { sums(p)[3] = 'x'; });
  expect("type must be string", [&](json &, json &p) { p["xxh3"] = 7; });
  // Their division.
  const std::string equal = "the parts of a row are not equal", number = "is not a number from 0";
  expect(equal, [](json &, json &p) { p["parts"]["count"] = 0; });
  expect(equal, [](json &, json &p) { p["parts"]["row"] = 0; });
  expect(equal, [](json &, json &p) { p["parts"]["row"] = 9; });
  expect(number, [](json &, json &p) { p["parts"]["count"] = mostParts + 1; });
  expect(number, [](json &, json &p) { p["parts"]["count"] = -1; });
  expect(number, [](json &, json &p) { p["parts"]["row"] = INT64_MAX; });
  for (int64_t bytes : {int64_t(0), int64_t(63), int64_t(100)})
    expect("is not a multiple of 64", [&](json &body, json &) { body["chunk_bytes"] = bytes; });
  expect(number, [](json &body, json &) { body["chunk_bytes"] = int64_t(1) << 40; });
  expect("chunk_bytes", [](json &body, json &) { body.erase("chunk_bytes"); });
  // Another division than that of the checksums.
  std::string said = error([](json &, json &p) { p["parts"]["row"] = 8 * 7; });
  EXPECT_EQ(said.rfind("65 ", 0), 0u) << said;
  EXPECT_NE(said.find("the checksum of bytes"), std::string::npos) << said;
  // The version.
  for (int version : {0, 4})
    expect("version 1 to 3", [&](json &body, json &) { body["version"] = version; });
  expect("version 1 to 3", [&](json &body, json &) { body["version"] = 3.0; });
}

TEST_F(SmallChunks, ShortFilesAre65) {
  std::string folder = saved(kBoth), name = "shard-00002.safetensors", path = folder + "/" + name;
  std::string bytes = readText(path, 1 << 20);
  std::ofstream(path) << bytes.substr(0, bytes.size() - 1);
  std::string error = loaded();
  EXPECT_EQ(error.rfind("65 '" + path + "' has ", 0), 0u) << error;
  // A manifest that has the size of the short file.
  forge(folder, [&](json &body) { body["files"][name] = bytes.size() - 1; });
  error = loaded();
  EXPECT_EQ(error.rfind("65 '" + folder + "/manifest.json' is damaged: ", 0), 0u) << error;
  EXPECT_NE(error.find("is not inside its file"), std::string::npos) << error;
}

TEST_F(SmallChunks, OlderVersionsAreRead) {
  for (int version : {1, 2}) {
    std::string folder = saved(kBoth);
    makeOld(folder, version);
    EXPECT_EQ(loaded(), "0");
    EXPECT_EQ(load(Tables({1, 4, 1, true}), out()), 0);
    EXPECT_TRUE(checkFolder(folder).problems.empty());
    std::string path = folder + "/shard-00001.safetensors", bytes = readText(path, 1 << 20);
    bytes.back() ^= 1;
    std::ofstream(path) << bytes;
    EXPECT_EQ(loaded().rfind("65 '" + path + "' is damaged: the checksum of ", 0), 0u);
    EXPECT_EQ(checkFolder(folder).problems.size(), 1u);
  }
}
} // namespace
