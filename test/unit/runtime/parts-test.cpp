// Parts of the runtime: readers on good and hostile files, schedules, the
// data's order, types, sums and the layout of shards.
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/checkpoint/StateLayout.h"
#include "runtime/comm/Collectives.h"
#include "runtime/comm/Cores.h"
#include "runtime/core/Error.h"
#include "runtime/core/Rank.h"
#include "runtime/data/Batches.h"
#include "runtime/data/Order.h"
#include "runtime/data/SafetensorsReader.h"
#include "runtime/data/Tokens.h"
#include "runtime/device/host/Floats16.h"
#include "runtime/device/host/Host.h"
#include "runtime/program/flags/Options.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <malloc.h>
#include <map>
#include <set>
#include <thread>
#include <unistd.h>

using namespace shale::rt;

namespace {
class Files : public TemporaryFolder {};

std::string little(uint64_t value, int bytes = 8) {
  return std::string(reinterpret_cast<char *>(&value), bytes);
}

int codeOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return error.code;
  }
  return 0;
}

class Safetensors : public Files {
protected:
  int read(const std::string &header, size_t data) {
    return readRaw(little(header.size()) + header + std::string(data, 'd'));
  }
  int readRaw(const std::string &bytes) {
    std::string path = put("x.safetensors", bytes);
    return codeOf([&] { SafetensorsReader reader(path); });
  }
};

TEST_F(Safetensors, GoodFiles) {
  EXPECT_EQ(read("{}", 0), 0);
  EXPECT_EQ(read("{\"__metadata__\":{\"a\":\"b\"}}", 0), 0);
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,"
                 "8]}}    ",
                 8),
            0);
  // Order of keys and of tensors is free; an empty tensor may share an offset.
  EXPECT_EQ(read("{\"b\":{\"data_offsets\":[8,8],\"shape\":[0,3],\"dtype\":\"I64\"},"
                 "\"c\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[8,9]},"
                 "\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}",
                 9),
            0);
}

TEST_F(Safetensors, HostileFilesAre65) {
  const std::string t = "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}";
  EXPECT_EQ(readRaw(""), 65);
  EXPECT_EQ(readRaw("1234567"), 65);
  EXPECT_EQ(readRaw(little(~0ull) + "{}"), 65);
  EXPECT_EQ(readRaw(little(3) + "{}"), 65);
  EXPECT_EQ(readRaw(little(0)), 65);
  EXPECT_EQ(readRaw(little(1ull << 63) + "{}"), 65);
  EXPECT_EQ(read(" {}", 0), 65);
  EXPECT_EQ(read("{}\n", 0), 65);
  EXPECT_EQ(read(std::string("{}\0", 3), 0), 65);
  EXPECT_EQ(read("\xef\xbb\xbf{}", 0), 65);
  EXPECT_EQ(read("[]", 0), 65);
  EXPECT_EQ(read("{\"a\":1}", 0), 65);
  EXPECT_EQ(read("{\"\xff\":" + t + "}", 8), 65);
  EXPECT_EQ(read("{\"a\":" + t + ",\"a\":" + t + "}", 8), 65);
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],"
                 "\"data_offsets\":[0,8]}}",
                 8),
            65);
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8), 65);
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"Q5\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8), 65);
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}", 8), 65);
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"F32\",\"shape\":[2.0],\"data_offsets\":[0,8]}}", 8), 65);
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"F32\",\"shape\":[[2]],\"data_offsets\":[0,8]}}", 8), 65);
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296],"
                 "\"data_offsets\":[0,8]}}",
                 8),
            65);
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8), 65);
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8), 65);
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,9]}}", 8), 65);
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[4,12]}}", 12),
            65);                                               // hole
  EXPECT_EQ(read("{\"a\":" + t + ",\"b\":" + t + "}", 8), 65); // overlap
  EXPECT_EQ(read("{\"a\":" + t + "}", 9), 65);                 // tail
  EXPECT_EQ(read("{\"a\":" + t + "}", 7), 65);                 // cut
  EXPECT_EQ(read("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":["
                 "18446744073709551608,18446744073709551616]}}",
                 8),
            65);
  EXPECT_EQ(read("{\"__metadata__\":{\"a\":1}}", 0), 65);
  EXPECT_EQ(read("{\"__metadata__\":{\"a\":[\"b\"]}}", 0), 65);
  EXPECT_EQ(read("{\"__metadata__\":{},\"__metadata__\":{}}", 0), 65);
  EXPECT_EQ(read("{\"a\":" + std::string(100000, '[') + "}", 0), 65);
  std::string deep;
  for (int i = 0; i < 50000; ++i)
    deep += "{\"a\":";
  EXPECT_EQ(read(deep + std::string(50000, '}'), 0), 65);
}

TEST_F(Safetensors, EveryCutAndEveryFlippedHeaderByteIsHandled) {
  std::string header = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
  std::string whole = little(header.size()) + header + "12345678";
  for (size_t n = 0; n < whole.size(); ++n)
    EXPECT_EQ(readRaw(whole.substr(0, n)), 65) << n;
  for (size_t n = 0; n < 8 + header.size(); ++n)
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = whole;
      other[n] ^= 1 << bit;
      int code = readRaw(other);
      EXPECT_TRUE(code == 65 || code == 0) << n;
    }
}

// A program that reads tokens and a padding mask. A missing mask is reported by name and filled
// with ones.
TEST_F(Safetensors, AMissingMaskIsNamed) {
  int64_t dims[] = {2, 3};
  ShaleInput inputs[] = {{"tokens", SHALE_BINDING_TOKENS, SHALE_I64, 2, dims, 0, 9, 0},
                         {"mask", SHALE_BINDING_ONES, SHALE_I64, 2, dims, 0, 2, 0}};
  ShaleProgram program{};
  program.inputs = inputs;
  program.input_count = 2;
  for (bool hasMask : {false, true}) {
    SafetensorsWriter writer;
    writer.declare("tokens", Dtype::I64, {1, 2, 3});
    if (hasMask)
      writer.declare("mask", Dtype::I64, {1, 2, 3});
    DataOptions options;
    options.path = work + "/data.safetensors";
    writer.begin(options.path);
    int64_t values[] = {1, 0, 1, 1, 1, 0};
    writer.append(values, sizeof values);
    if (hasMask)
      writer.append(values, sizeof values);
    writer.finish();
    Batches batches(program, 0, options);
    const char *filled = batches.filledWithOnes();
    EXPECT_EQ(filled ? std::string(filled) : "", hasMask ? "" : "mask");
    int64_t tokens[6], mask[6];
    void *buffers[] = {tokens, mask};
    batches.fill(0, 0, buffers);
    for (int i = 0; i < 6; ++i)
      EXPECT_EQ(mask[i], hasMask ? values[i] : 1);
  }
}

TEST_F(Safetensors, WrittenFilesAreReadBack) {
  SafetensorsWriter writer;
  writer.declare("a \"quoted\"\n", Dtype::F32, {2, 2});
  writer.declare("b", Dtype::I64, {});
  std::string path = work + "/w.safetensors";
  writer.begin(path);
  float a[] = {1, 2, 3, 4};
  int64_t b = -7, back = 0;
  writer.append(a, 16);
  EXPECT_THROW(writer.finish(), Error); // b is missing
  writer.append(&b, 8);
  writer.finish();
  SafetensorsReader reader(path);
  const TensorInfo *found = reader.find("b");
  ASSERT_TRUE(found && reader.find("a \"quoted\"\n"));
  reader.file().readAt(found->offset, &back, 8);
  EXPECT_EQ(back, -7);
}

TEST_F(Files, Tokens) {
  auto count = [&](const std::string &name, const std::string &bytes,
                   const char *type = "uint16") -> int64_t {
    std::string path = put(name, bytes);
    int64_t n = 0;
    int code = codeOf([&] { n = TokenFile(path, {type}).count(); });
    return code ? -code : n;
  };
  EXPECT_EQ(count("a.txt", "hello"), -65); // unknown vocabulary
  EXPECT_EQ(count("a.bin", "hello!"), 3);
  EXPECT_EQ(count("a.bin", "hello"), -65);
  EXPECT_EQ(count("a.bin", "hello", "uint8"), 5);
  EXPECT_EQ(count("a.bin", "12345678", "uint32"), 2);
  auto llmc = [](int magic, int version, int tokens) {
    std::string head = little(magic, 4) + little(version, 4) + little(tokens, 4);
    return head + std::string(1024 - head.size(), '\0');
  };
  EXPECT_EQ(count("a.bin", llmc(20240520, 1, 3) + "123456"), 3);
  EXPECT_EQ(count("a.bin", llmc(20240801, 7, 1) + "1234"), 1);
  EXPECT_EQ(count("a.bin", llmc(20240520, 1, 4) + "123456"), -65);
  EXPECT_EQ(count("a.bin", llmc(20240520, 1, -1) + "123456"), -65);
  EXPECT_EQ(count("a.bin", llmc(20240520, 2, 3) + "123456"), -65);
  EXPECT_EQ(count("a.bin", llmc(20240522, 1, 3) + "123456"), -65);
  EXPECT_EQ(codeOf([&] { TokenFile(work + "/none.bin", {}); }), 66);
  EXPECT_EQ(codeOf([&] { TokenFile(work, {"uint8", true}); }), 65);
}

TEST(Cores, AreSharedByTheRanksThatMayRunOnThem) {
  auto on = [](const char *host, int first, int count) {
    RankCores cores{host, {}};
    for (int cpu = first; cpu < first + count; ++cpu)
      cores.cpus.push_back(cpu);
    return cores;
  };
  using Threads = std::vector<int>;
  EXPECT_EQ(shareCores({on("a", 0, 8)}), (Threads{8}));
  EXPECT_EQ(shareCores({on("a", 0, 8), on("a", 0, 8)}), (Threads{4, 4}));
  // Cores with equal numbers on another host are different cores.
  EXPECT_EQ(shareCores({on("a", 0, 8), on("b", 0, 8), on("b", 0, 8)}), (Threads{8, 4, 4}));
  // Ranks bound by the launcher: each to its own core; two of three to the same core.
  EXPECT_EQ(shareCores({on("a", 0, 4), on("a", 4, 4)}), (Threads{4, 4}));
  EXPECT_EQ(shareCores({on("a", 0, 4), on("a", 0, 4), on("a", 4, 2)}), (Threads{2, 2, 2}));
  EXPECT_EQ(shareCores({on("a", 0, 6), on("a", 4, 6)}), (Threads{5, 5}));
  // More ranks than cores; three ranks on ten cores; a rank without a list of cores.
  EXPECT_EQ(shareCores({on("a", 0, 1), on("a", 0, 1)}), (Threads{1, 1}));
  EXPECT_EQ(shareCores({on("a", 0, 10), on("a", 0, 10), on("a", 0, 10)}), (Threads{3, 3, 3}));
  EXPECT_EQ(shareCores({on("a", 0, 0), on("a", 0, 2)}), (Threads{1, 2}));
}

TEST_F(Files, BytesOnlyWhereTheyAreTokens) {
  std::string path = put("a.json", "{\"text\": 1}");
  auto count = [&](const TokenOptions &options) {
    int64_t n = 0;
    int code = codeOf([&] { n = TokenFile(path, options).count(); });
    return code ? -int64_t(code) : n;
  };
  EXPECT_EQ(count({"uint16", false, 256}), 11);
  EXPECT_EQ(count({"uint16", false, 257}), -65);
  EXPECT_EQ(count({"uint16", false, 0}), -65);
  EXPECT_EQ(count({"uint8", true, 50257}), 11);
  EXPECT_EQ(count({"uint16", true, 50257}), -65); // 11 bytes
}

/// Tokens written by numpy's astype() and read as another type.
TEST_F(Files, WiderTokensThanSaidAreRecognized) {
  auto file = [&](int bytes, int64_t vocabulary, int n = 500) {
    std::string text;
    for (int64_t i = 0; i < n; ++i)
      text += little(static_cast<uint64_t>(i * i * 31 + 7 * i) % vocabulary, bytes);
    return put("t.bin", text);
  };
  auto code = [&](const std::string &path, const char *type, int64_t vocabulary,
                  const char *word = "") {
    try {
      TokenFile(path, {type, false, vocabulary});
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      return error.code;
    }
    return 0;
  };
  for (int64_t vocabulary : {300, 50257, 65536, 128256, 1 << 20}) {
    const char *sixtyFour = "--token-dtype int64", *thirtyTwo = "--token-dtype uint32";
    EXPECT_EQ(code(file(8, vocabulary), "uint16", vocabulary, sixtyFour), 65);
    EXPECT_EQ(code(file(8, vocabulary), "uint32", vocabulary, sixtyFour), 65);
    EXPECT_EQ(code(file(4, vocabulary), "uint16", vocabulary, thirtyTwo), 65);
    EXPECT_EQ(code(file(8, vocabulary), "int64", vocabulary), 0);
    EXPECT_EQ(code(file(4, vocabulary), "uint32", vocabulary), 0);
    EXPECT_EQ(code(file(4, vocabulary), "int32", vocabulary), 0);
    if (vocabulary <= 65536) {
      EXPECT_EQ(code(file(2, vocabulary), "uint16", vocabulary), 0);
    }
  }
  EXPECT_EQ(code(file(8, 50257), "uint16", 0, "int64"), 65); // unknown type
  // Too few numbers to decide, and a file of padding only.
  EXPECT_EQ(code(file(8, 50257, 10), "uint16", 50257), 0);
  EXPECT_EQ(code(put("z.bin", std::string(4000, '\0')), "uint16", 50257), 0);
  // Padding first, then wide tokens.
  std::string padded(80000, '\0');
  padded += readText(file(8, 50257, 9000), 1 << 20);
  EXPECT_EQ(code(put("p.bin", padded), "uint16", 50257, "int64"), 65);
}

/// Ids of 70,000 that were cast to 16 bits have wrapped, and all of them are valid.
TEST_F(Files, TokensTooNarrowForTheVocabularyAreRefused) {
  auto refused = [&](const std::string &path, const char *type, bool typed, int64_t vocabulary) {
    try {
      TokenFile(path, {type, typed, vocabulary});
    } catch (const Error &error) {
      EXPECT_EQ(error.code, 65);
      for (const std::string &word :
           {std::string("holds tokens of"), std::to_string(vocabulary), std::string("32 bits"),
            std::string("pass --token-dtype uint")})
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
      return true;
    }
    return false;
  };
  std::string tokens;
  for (int64_t i = 0; i < 500; ++i)
    tokens += little(i * i * 31 % 70000 % 65536, 2);
  std::string bin = put("t.bin", tokens);
  EXPECT_TRUE(refused(bin, "uint16", false, 70000));
  EXPECT_TRUE(refused(bin, "uint16", false, 65537));
  EXPECT_FALSE(refused(bin, "uint16", false, 65536));
  EXPECT_FALSE(refused(bin, "uint16", true, 70000)); // as the user says
  EXPECT_FALSE(refused(bin, "uint16", false, 0));    // not known
  std::string head = little(20240520, 4) + little(1, 4) + little(500, 4);
  EXPECT_TRUE(refused(put("c.bin", head + std::string(1024 - head.size(), '\0') + tokens), "uint16",
                      false, 128256));
  auto npy = [&](const std::string &type, const std::string &data) {
    std::string text = "{'descr': '" + type + "', 'fortran_order': False, 'shape': (500,), }  \n";
    return put("x.npy",
               "\x93NUMPY" + std::string("\1\0", 2) + little(text.size(), 2) + text + data);
  };
  EXPECT_TRUE(refused(npy("<u2", tokens), "uint16", false, 70000));
  EXPECT_TRUE(refused(npy("<i2", tokens), "uint16", false, 70000));
  EXPECT_TRUE(refused(npy("|u1", tokens.substr(0, 500)), "uint16", false, 300));
  EXPECT_FALSE(refused(npy("<i4", tokens + tokens), "uint16", false, 70000));
}

TEST_F(Files, DataFilesOfFoldersAndLists) {
  for (const char *name : {"b.bin", "a.bin", ".hidden.bin", "note.txt", "c,d.bin"})
    put(name, "1234");
  auto names = [&](const std::string &path) {
    std::string text;
    for (const std::string &file : dataFiles(path))
      text += baseName(file) + " ";
    return text;
  };
  EXPECT_EQ(names(work), "a.bin b.bin c,d.bin ");
  EXPECT_EQ(names(work + "/b.bin," + work + "/a.bin"), "b.bin a.bin ");
  EXPECT_EQ(names(work + "/c,d.bin"), "c,d.bin ");
  EXPECT_EQ(names(work + "/b.bin," + work), "b.bin a.bin b.bin c,d.bin ");
  EXPECT_EQ(names("none.bin"), "none.bin ");
  makeFolders(work + "/empty");
  EXPECT_EQ(codeOf([&] { dataFiles(work + "/empty"); }), 66);
}

TEST_F(Files, Npy) {
  auto npy = [&](const std::string &dictionary, const std::string &data, char version = 1) {
    std::string bytes = "\x93NUMPY";
    bytes += version;
    bytes += '\0';
    bytes += little(dictionary.size(), version == 1 ? 2 : 4) + dictionary + data;
    std::string path = put("x.npy", bytes);
    int64_t n = 0;
    int code = codeOf([&] { n = TokenFile(path, {}).count(); });
    return code ? -int64_t(code) : n;
  };
  auto dict = [](const std::string &type, const std::string &shape) {
    return "{'descr': '" + type + "', 'fortran_order': False, 'shape': " + shape + ", }  \n";
  };
  EXPECT_EQ(npy(dict("<u2", "(3,)"), "123456"), 3);
  EXPECT_EQ(npy(dict("<i8", "(1,)"), "12345678", 2), 1);
  EXPECT_EQ(npy(dict("<i4", "(0,)"), ""), 0);
  EXPECT_EQ(npy(dict("<u2", "(4,)"), "123456"), -65);
  EXPECT_EQ(npy(dict("<u2", "(3, 1)"), "123456"), -65);
  EXPECT_EQ(npy(dict("<u2", "()"), "12"), -65);
  EXPECT_EQ(npy(dict("<u2", "(999999999999999999999999,)"), "12"), -65);
  EXPECT_EQ(npy(dict("<u8", "(2305843009213693953,)"), "12345678"), -65);
  EXPECT_EQ(npy(dict("|O", "(3,)"), "123456"), -65);
  EXPECT_EQ(npy(dict("<f4", "(1,)"), "1234"), -65);
  EXPECT_EQ(npy(dict(">u2", "(3,)"), "123456"), -65);
  EXPECT_EQ(npy("", "123456"), -65);
  EXPECT_EQ(npy("{'descr'", ""), -65);
  EXPECT_EQ(npy("{'descr':", ""), -65);
  EXPECT_EQ(npy("{'descr': '<u2', 'shape': (", ""), -65);
  EXPECT_EQ(npy(dict("<u2", "(3,)"), "123456", 9), -65);
}

/// Two parameters in one group of 48 elements, sharded over `ranks`.
struct Tables {
  int64_t dims[1] = {20}, scalar[1] = {0};
  ShaleAxis axis{"fsdp", 3, 1};
  ShaleParameter parameters[2] = {};
  ShaleSegment segments[2] = {{0, 0, 20, 0, nullptr, nullptr, nullptr, nullptr},
                              {1, 32, 1, 0, nullptr, nullptr, nullptr, nullptr}};
  ShaleGroup group{"g", 48, nullptr, 2};
  ShaleState states[3] = {};
  const char *slots[1] = {"moment1"};
  ShaleProgram program{};
  Tables() {
    parameters[0].name = "a";
    parameters[0].rank = 1;
    parameters[0].dims = dims;
    parameters[0].count = 20;
    parameters[1].name = "b";
    parameters[1].count = 1;
    parameters[1].dims = scalar;
    group.segments = segments;
    states[0] = {0, SHALE_ROLE_PARAM, SHALE_F32, 0, 0, 16};
    states[1] = {0, SHALE_ROLE_PARAM, SHALE_BF16, -1, 64, 48}; // a narrow copy
    states[2] = {0, SHALE_ROLE_SLOT, SHALE_F32, -1, 192, 48};
    program.abi_version = SHALE_ABI_VERSION;
    program.world_size = 3;
    program.accumulate = 1;
    program.step = [](ShaleRank *, char *, char *, const void *const *, const float *, float *) {};
    program.model = "m.onnx";
    program.strategy = "full";
    program.optimizer = "adamw";
    program.slots = slots;
    program.slot_count = 1;
    program.axes = &axis;
    program.axis_count = 1;
    program.parameters = parameters;
    program.parameter_count = 2;
    program.groups = &group;
    program.group_count = 1;
    program.states = states;
    program.state_count = 3;
    program.state_bytes = 384;
  }
};

TEST(Layout, EveryElementOnce) {
  Tables tables;
  checkProgram(tables.program);
  for (bool spread : {false, true}) {
    std::map<std::pair<int, int>, int64_t> at;
    for (const Piece &piece : piecesOf(tables.program, spread)) {
      int64_t &end = at[{piece.parameter, piece.role}];
      EXPECT_EQ(piece.begin, end);
      EXPECT_EQ(piece.type, Dtype::F32); // never the narrow copy
      end = piece.end;
      if (piece.role == SHALE_ROLE_PARAM) {
        EXPECT_EQ(piece.rank, piece.parameter == 0 ? piece.begin / 16 : 2);
      } else if (!spread) {
        EXPECT_EQ(piece.rank, 0);
      }
    }
    EXPECT_EQ(at.size(), 4u);
    EXPECT_EQ((at[{0, SHALE_ROLE_PARAM}]), 20);
    EXPECT_EQ((at[{1, SHALE_ROLE_SLOT}]), 1);
  }
  // Rank 1 holds elements 16 to 19 of a, all of both in the copy and the
  // moments.
  std::vector<Piece> local = localPieces(tables.program, 1);
  ASSERT_EQ(local.size(), 5u);
  EXPECT_EQ(local[0].begin, 16);
  EXPECT_EQ(local[0].end, 20);
  EXPECT_EQ(local[0].offset, 0);
  EXPECT_EQ(local[2].offset, 64 + 32 * 2);
}

/// The parts of a batch are those of the axes that split it, whatever their names.
TEST(Layout, PartsOfBatch) {
  ShaleAxis axes[] = {{"tp", 2, 1}, {"fsdp", 3, 0}, {"hosts", 4, 1}};
  ShaleProgram program{};
  program.axes = axes, program.axis_count = 3;
  EXPECT_EQ(dataParts(program), 8);
  EXPECT_EQ(dataPart(program, 0), 0);
  EXPECT_EQ(dataPart(program, 4 + 3), 3);
  EXPECT_EQ(dataPart(program, 12 + 2 * 4 + 1), 5);
}

/// Ranks along a joint axis are those that differ in no other coordinate, also with an axis between
/// its members.
TEST(Layout, RanksOfAJointAxis) {
  ShaleAxis axes[] = {{"a", 2, 0}, {"b", 3, 1}, {"c", 2, 0}};
  int32_t members[] = {0, 2};
  ShaleJointAxis joint{"a+c", 4, members, 2};
  ShaleProgram program{};
  program.axes = axes, program.axis_count = 3;
  program.joint_axes = &joint, program.joint_axis_count = 1;
  EXPECT_EQ(meshSize(program), 12);
  EXPECT_EQ(axisTotal(program), 4);
  EXPECT_EQ(axisSize(program, 3), 4);
  EXPECT_STREQ(axisName(program, 3), "a+c");
  EXPECT_EQ(ranksAlong(program, 9, 1), (std::vector<int>{7, 9, 11}));
  EXPECT_EQ(ranksAlong(program, 9, 3), (std::vector<int>{2, 3, 8, 9}));
  EXPECT_EQ(coordinatesOf(program, 9), (std::vector<int64_t>{1, 1, 1, 3}));
  EXPECT_EQ(coordinatesOf(program, 8), (std::vector<int64_t>{1, 1, 0, 2}));
}

TEST(Layout, InconsistentTablesAre70) {
  auto broken = [](const std::function<void(Tables &)> &change) {
    Tables tables;
    change(tables);
    return codeOf([&] { checkProgram(tables.program); });
  };
  EXPECT_EQ(broken([](Tables &) {}), 0);
  EXPECT_EQ(broken([](Tables &t) { t.program.abi_version = 99; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.program.world_size = 4; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.segments[1].offset = 48; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.segments[1].parameter = 2; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.states[0].local_count = 48; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.states[2].offset = 200; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.states[0].axis = 1; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.axis.splits_batch = 2; }), 70);
  EXPECT_EQ(broken([](Tables &t) { t.axis.splits_batch = -1; }), 70);
  static const int32_t beyond[] = {0, 1};
  static const ShaleJointAxis joint{"ranks+more", 2, beyond, 2};
  EXPECT_EQ(
      broken([](Tables &t) { t.program.joint_axes = &joint, t.program.joint_axis_count = 1; }), 70);
}

class Manifests : public Files {};

TEST_F(Manifests, EveryFlippedByteIsNoticed) {
  Tables tables;
  put("shard.safetensors", std::string(100, 's'));
  Manifest manifest;
  manifest.position.step = 7;
  manifest.files["shard.safetensors"] = {"shard.safetensors", 100};
  manifest.pieces.push_back({"a", "param", Dtype::F32, 0, 20, "shard.safetensors", 10, {42}});
  std::string text = manifestText(tables.program, manifest);
  auto code = [&](const std::string &bytes) {
    put("manifest.json", bytes);
    return codeOf([&] { readManifest(work); });
  };
  ASSERT_EQ(code(text), 0);
  EXPECT_EQ(readManifest(work).position.step, 7);
  for (size_t n = 0; n < text.size(); ++n) {
    std::string other = text;
    other[n] ^= 1;
    EXPECT_EQ(code(other), 65) << n;
    ASSERT_TRUE(n % 7 || code(text.substr(0, n)) == 65) << n;
  }
  put("shard.safetensors", std::string(99, 's'));
  EXPECT_EQ(code(text), 65); // the size of the file changed
}

TEST_F(Manifests, LiesAre65) {
  Tables tables;
  put("shard.safetensors", std::string(100, 's'));
  auto code = [&](const std::function<void(Manifest &)> &change) {
    Manifest manifest;
    manifest.files["shard.safetensors"] = {"shard.safetensors", 100};
    manifest.pieces.push_back({"a", "param", Dtype::F32, 0, 20, "shard.safetensors", 10, {42}});
    change(manifest);
    put("manifest.json", manifestText(tables.program, manifest));
    return codeOf([&] { readManifest(work); });
  };
  EXPECT_EQ(code([](Manifest &) {}), 0);
  EXPECT_EQ(code([](Manifest &m) { m.pieces[0].end = 23; }), 65);
  EXPECT_EQ(code([](Manifest &m) { m.pieces[0].begin = 21; }), 65);
  EXPECT_EQ(code([](Manifest &m) { m.pieces[0].begin = -1; }), 65);
  EXPECT_EQ(code([](Manifest &m) { m.pieces[0].end = INT64_MAX; }), 65);
  EXPECT_EQ(code([](Manifest &m) { m.pieces[0].offset = INT64_MAX; }), 65);
  EXPECT_EQ(code([](Manifest &m) { m.pieces[0].file = "other"; }), 65);
  EXPECT_EQ(code([](Manifest &m) { m.files["../shard"].bytes = 1; }), 65);
  EXPECT_EQ(code([](Manifest &m) { m.files["/etc/passwd"].bytes = 1; }), 65);
  EXPECT_EQ(code([](Manifest &m) { m.position.step = -1; }), 65);
}

TEST(Order, IsAPermutationOfEveryEpoch) {
  for (int64_t size : {1, 2, 3, 17, 64, 1000}) {
    for (uint64_t epoch : {0, 1}) {
      std::set<int64_t> seen;
      for (int64_t i = 0; i < size; ++i) {
        int64_t w = shuffled(7, epoch, size, i);
        ASSERT_TRUE(w >= 0 && w < size);
        seen.insert(w);
      }
      EXPECT_EQ(seen.size(), size_t(size));
    }
  }
  int differ = 0;
  for (int64_t i = 0; i < 100; ++i)
    differ += shuffled(1, 0, 100, i) != shuffled(2, 0, 100, i);
  EXPECT_GT(differ, 80);
}

TEST(Schedule, Shapes) {
  Options o;
  o.lr = 1;
  o.minLr = 0.1;
  o.steps = 100;
  o.warmup = 10;
  for (const char *name : {"constant", "cosine", "linear", "wsd"}) {
    o.schedule = name;
    EXPECT_DOUBLE_EQ(learningRate(o, 0), 0.1);
    EXPECT_DOUBLE_EQ(learningRate(o, 9), 1);
    EXPECT_DOUBLE_EQ(learningRate(o, 10), 1);
  }
  o.schedule = "cosine";
  EXPECT_NEAR(learningRate(o, 55), 0.55, 1e-12);
  EXPECT_DOUBLE_EQ(learningRate(o, 100), 0.1);
  o.schedule = "linear";
  EXPECT_NEAR(learningRate(o, 55), 0.55, 1e-12);
  o.schedule = "wsd";
  EXPECT_DOUBLE_EQ(learningRate(o, 79), 1);
  EXPECT_NEAR(learningRate(o, 90), 0.55, 1e-12);
  o.schedule = "constant";
  EXPECT_DOUBLE_EQ(learningRate(o, 99), 1);
}

TEST(Schedule, ADecayInsideTheWarmUpIsRefused) {
  Options o;
  o.steps = 100, o.schedule = "wsd", o.decayFraction = 0.8, o.warmup = 50;
  std::string wrong = checkSteps(o);
  for (const char *word : {"from step 20 of 100", "warm-up of 50 steps", "--warmup 20 or less",
                           "--decay-fraction 0.5 or less"})
    EXPECT_NE(wrong.find(word), std::string::npos) << wrong;
  o.warmup = 20;
  EXPECT_EQ(checkSteps(o), "");
  o.warmup = 50, o.decayFraction = 0.5;
  EXPECT_EQ(checkSteps(o), "");
  o.decayFraction = 0.51;
  EXPECT_NE(checkSteps(o), "");
  o.schedule = "cosine";
  EXPECT_EQ(checkSteps(o), "");
  // Fractions that are not exact.
  o.schedule = "wsd", o.steps = 10, o.decayFraction = 0.1, o.warmup = 9;
  EXPECT_EQ(checkSteps(o), "");
  o.steps = 1, o.warmup = 1, o.decayFraction = 1;
  EXPECT_NE(checkSteps(o), "");
}

TEST(Schedule, RatesOfTheirOwn) {
  Options o;
  o.steps = 110, o.warmup = 10, o.schedule = "cosine", o.lr = 1, o.minLr = 0.1;
  for (int64_t step : {0, 9, 55, 109}) {
    EXPECT_NEAR(ownRate(o, step, 0.02), 0.02 * learningRate(o, step), 1e-12);
    EXPECT_DOUBLE_EQ(ownRate(o, step, 0), learningRate(o, step));
  }
  o.lr = 0; // the others stay as they are
  EXPECT_DOUBLE_EQ(ownRate(o, 9, 0.02), 0.02);
  EXPECT_DOUBLE_EQ(ownRate(o, 9, 0), 0);
}

TEST(Types, HalfPrecisionRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float wide = f16ToFloat(uint16_t(bits));
    if (std::isnan(wide))
      EXPECT_TRUE(std::isnan(f16ToFloat(floatToF16(wide))));
    else
      ASSERT_EQ(floatToF16(wide), bits);
    float brain = bf16ToFloat(uint16_t(bits));
    if (!std::isnan(brain))
      ASSERT_EQ(floatToBf16(brain), bits);
    else
      EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBf16(brain))));
  }
  EXPECT_EQ(floatToF16(65519.0f), 0x7bff);
  EXPECT_EQ(floatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(floatToF16(2049.0f), floatToF16(2048.0f)); // tie to even
  EXPECT_EQ(floatToF16(2051.0f), floatToF16(2052.0f));
  EXPECT_EQ(floatToBf16(1.00390625f), 0x3f80); // tie to even
  EXPECT_EQ(floatToBf16(1.01171875f), 0x3f82);
}

TEST(Sum, IsInOrderAndRoundedOnce) {
  std::vector<float> a(3000, 1e8f), b(3000, 1.0f), c(3000, -1e8f), out(3000);
  const void *abc[] = {a.data(), b.data(), c.data()};
  sumInOrder(SHALE_F32, abc, 3, out.data(), 3000);
  EXPECT_EQ(out, std::vector<float>(3000, (1e8f + 1.0f) - 1e8f));
  uint16_t one = floatToBf16(1), small = floatToBf16(0.00390625f), result = 0;
  const void *addends[] = {&one, &small, &small};
  sumInOrder(SHALE_BF16, addends, 3, &result, 1); // each addend alone would be rounded away
  EXPECT_EQ(bf16ToFloat(result), 1.0078125f);
}

/// Small integers: every sum is exact, so cutting into pieces changes no result.
std::vector<uint16_t> wholeNumbers(Dtype type, int64_t count, int seed) {
  std::vector<uint16_t> values(count);
  for (int64_t i = 0; i < count; ++i) {
    float value = float((i * 7 + seed) % 11 - 5);
    values[i] = type == Dtype::BF16 ? floatToBf16(value) : floatToF16(value);
  }
  return values;
}

TEST(Floats16, VectorsRoundAsScalarsDo) {
  std::vector<float> values;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += 65521) {
    uint32_t word = bits;
    float value;
    std::memcpy(&value, &word, 4);
    if (!std::isnan(value))
      values.push_back(value);
  }
  for (Dtype type : {Dtype::BF16, Dtype::F16}) {
    std::vector<uint16_t> rounded(values.size());
    narrow(type, values.data(), rounded.data(), values.size());
    std::vector<float> wide(values.size());
    widen(type, rounded.data(), wide.data(), wide.size());
    for (size_t i = 0; i < values.size(); ++i) {
      bool bf16 = type == Dtype::BF16;
      ASSERT_EQ(rounded[i], bf16 ? floatToBf16(values[i]) : floatToF16(values[i])) << values[i];
      ASSERT_EQ(wide[i], bf16 ? bf16ToFloat(rounded[i]) : f16ToFloat(rounded[i]));
    }
    std::vector<float> nan(16, std::nanf(""));
    uint16_t kept[16];
    narrow(type, nan.data(), kept, 16);
    for (uint16_t bits : kept)
      EXPECT_TRUE(std::isnan(type == Dtype::BF16 ? bf16ToFloat(bits) : f16ToFloat(bits)));
  }
}

TEST(Matmul, Of16BitFloatsInPieces) {
  // More than one panel in each dimension, and no multiple of a panel.
  for (auto [m, n, k] :
       {std::array<int64_t, 3>{800, 900, 400}, {5, 1700, 30}, {1600, 3, 1}, {3, 2, 0}})
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true})
        for (Dtype type : {Dtype::BF16, Dtype::F16})
          for (Dtype resultType : {type, Dtype::F32}) {
            std::vector<uint16_t> a = wholeNumbers(type, m * k + 1, 1),
                                  b = wholeNumbers(type, k * n + 1, 2);
            std::vector<float> c(m * n, -1);
            multiply({transposeA, transposeB, m, n, k, 1, a.data(), transposeA ? m : k, b.data(),
                      transposeB ? k : n, 0, c.data(), n, type, resultType});
            auto number = [&](const std::vector<uint16_t> &v, int64_t i) {
              return type == Dtype::BF16 ? bf16ToFloat(v[i]) : f16ToFloat(v[i]);
            };
            for (int64_t i = 0; i < m; i += 1 + m / 13)
              for (int64_t j = 0; j < n; j += 1 + n / 17) {
                float sum = 0;
                for (int64_t l = 0; l < k; ++l)
                  sum += number(a, transposeA ? l * m + i : i * k + l) *
                         number(b, transposeB ? j * k + l : l * n + j);
                float got = c[i * n + j];
                if (resultType != Dtype::F32) {
                  uint16_t bits = reinterpret_cast<const uint16_t *>(c.data())[i * n + j];
                  got = type == Dtype::BF16 ? bf16ToFloat(bits) : f16ToFloat(bits);
                  sum = type == Dtype::BF16 ? bf16ToFloat(floatToBf16(sum))
                                            : f16ToFloat(floatToF16(sum));
                }
                ASSERT_EQ(got, sum) << m << "x" << n << "x" << k << " at " << i << "," << j << " "
                                    << nameOf(type) << " to " << nameOf(resultType);
              }
          }
}

// Random values, so that every order of adding has its own bits; shapes whose pieces are large and
// small, and no multiple of a unit.
TEST(Matmul, BitsDoNotDependOnThreads) {
  int threads = hostThreads();
  for (auto [m, n, k] : {std::array<int64_t, 3>{1024, 384, 256},
                         {1000, 1531, 300},
                         {257, 2100, 384},
                         {53, 6000, 1024},
                         {900, 64, 96}})
    for (bool transposeA : {false, true})
      for (bool transposeB : {false, true}) {
        std::vector<float> a(m * k), b(k * n), one(m * n), several(m * n);
        uint32_t state = 7;
        for (std::vector<float> *values : {&a, &b})
          for (float &value : *values)
            value = static_cast<float>(static_cast<int32_t>(state = state * 1664525 + 1013904223)) /
                    (1 << 30);
        auto matmul = [&, m = m, n = n, k = k](int count, std::vector<float> &c) {
          setHostThreads(count);
          multiply({transposeA, transposeB, m, n, k, 1, a.data(), transposeA ? m : k, b.data(),
                    transposeB ? k : n, 0, c.data(), n});
        };
        matmul(1, one);
        for (int count : {2, 3, 4, 7}) {
          matmul(count, several);
          EXPECT_EQ(std::memcmp(one.data(), several.data(), one.size() * sizeof(float)), 0)
              << m << "x" << n << "x" << k << (transposeA ? " A" : "") << (transposeB ? " B" : "")
              << ", " << count << " threads";
        }
      }
  setHostThreads(threads);
}

} // namespace

// Matmuls of many sizes on a new thread: its heap stays as large as the library's memory
// for the largest matmul, instead of a multiple of it.
TEST(Matmuls, BuffersDoNotPileUp) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "another allocator";
#endif
  const char *tunables = std::getenv("GLIBC_TUNABLES");
  if (!tunables || !std::strstr(tunables, "tcache_count=0"))
    GTEST_SKIP() << "needs GLIBC_TUNABLES as the launcher sets it";
  constexpr int64_t kRows = 96, kDepth = 384, kMost = 2016, kUnit = 96;
  std::vector<float> a(kRows * kDepth, 1), b(kDepth * kMost, 1), c(kRows * kMost);
  auto matmul = [&](int64_t columns) {
    multiplyOnThread({false, true, kRows, columns, kDepth, 1, a.data(), kDepth, b.data(), kDepth, 0,
                      c.data(), columns});
  };
  int64_t grown = 0;
  std::thread([&] {
    auto held = [] {
      struct mallinfo2 info = mallinfo2();
      return static_cast<int64_t>(info.arena + info.hblkhd);
    };
    int64_t before = held();
    for (int times = 0; times < 4; ++times)
      for (int64_t columns = kUnit; columns <= kMost; columns += kUnit)
        matmul(columns);
    grown = held() - before;
  }).join();
  int64_t largest = 4 * (kMost * kDepth + kDepth * kRows) + 8192;
  EXPECT_LE(grown, largest + largest / 4);
  EXPECT_EQ(c[0], kDepth);
}

/// A program does not start on a CPU without its instructions. It starts on a newer CPU.
TEST(Cpu, MissingInstructionsAre69) {
  for (const char *target : {"x86-64-v4", "x86-64-v9"}) {
    try {
      checkCpu(target, 3);
      ADD_FAILURE() << target;
    } catch (const Error &error) {
      EXPECT_EQ(error.code, SHALE_EXIT_UNAVAILABLE);
      EXPECT_NE(std::string(error.what()).find(target), std::string::npos);
    }
  }
  for (const char *target : {"x86-64", "x86-64-v2", "x86-64-v3"})
    EXPECT_NO_THROW(checkCpu(target, 3)) << target;
}
