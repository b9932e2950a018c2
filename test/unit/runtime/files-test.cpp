// Files of a run that are hostile, damaged, in the way, or left by a killed process.
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Initial.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/Renames.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/checkpoint/Verify.h"
#include "runtime/core/Error.h"
#include "runtime/core/Json.h"
#include "runtime/data/SafetensorsReader.h"
#include "runtime/data/Tokens.h"
#include "runtime/metrics/LogFile.h"
#include "runtime/metrics/Metrics.h"
#include "test/unit/runtime/Forge.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace shale::rt;

namespace {
class Disk : public TemporaryFolder {
protected:
  std::string text(const std::string &name) { return readText(work + "/" + name, 1 << 30); }
};

/// Runs `body`; returns the exit code and the message of the error, or 0.
std::pair<int, std::string> errorOf(const std::function<void()> &body) {
  try {
    body();
  } catch (const Error &error) {
    return {error.code, error.what()};
  }
  return {0, ""};
}
int codeOf(const std::function<void()> &body) { return errorOf(body).first; }

/// Writes 17 MiB and a rest in pieces of all sizes. Returns whether the file and its checksum are
/// right.
bool isWhole(const std::string &path, bool announced) {
  std::string bytes(17 * (1 << 20) + 1234, '\0');
  std::minstd_rand random(1);
  for (char &byte : bytes)
    byte = char(random());
  OutputFile file(path);
  if (announced)
    file.expect(bytes.size());
  for (size_t at = 0, n = 1; at < bytes.size(); at += n, n = random() % 700001) {
    n = std::min(n, bytes.size() - at);
    file.append(bytes.data() + at, n);
    if (file.position() != int64_t(at + n))
      return false;
  }
  file.finish();
  return readText(path, 1 << 30) == bytes && file.checksum() == checksumOf(bytes);
}

TEST_F(Disk, LargeFilesAreWrittenPastThePageCache) {
  EXPECT_TRUE(isWhole(work + "/direct", true));
  EXPECT_TRUE(isWhole(work + "/buffered", false));
  std::string memory =
      "/dev/shm/shale-test-" + std::to_string(getpid()); // perhaps without O_DIRECT
  EXPECT_TRUE(isWhole(memory, true));
  unlink(memory.c_str());
  // A full device: the error names file and offset, whether a block or the rest is written.
  rlimit before{}, limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, SIG_IGN);
  for (int64_t bytes : {3 << 20, (17 << 20) + 100}) {
    limit = {rlim_t(bytes), before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    auto [code, said] = errorOf([&] { isWhole(work + "/full", true); });
    EXPECT_EQ(code, SHALE_EXIT_IO);
    EXPECT_NE(said.find("/full' at offset " + std::to_string(bytes)), std::string::npos) << said;
  }
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, SIG_DFL);
}

TEST_F(Disk, OnlyRegularFilesAreOpened) {
  std::string fifo = work + "/fifo.npy", link = work + "/link";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(codeOf([&] { InputFile file(fifo); }), 65);
  EXPECT_EQ(codeOf([&] { TokenFile file(fifo, {}); }), 65);
  EXPECT_EQ(codeOf([&] { readText(fifo, 100); }), 65);
  EXPECT_EQ(codeOf([&] { SafetensorsReader reader(fifo); }), 65);
  EXPECT_EQ(codeOf([&] { InputFile file("/dev/zero"); }), 65);
  EXPECT_EQ(codeOf([&] { InputFile file(work); }), 65);
  EXPECT_EQ(codeOf([&] { InputFile file(work + "/none"); }), 66);
  EXPECT_EQ(codeOf([&] { LogFile file(fifo); }), 74);
  EXPECT_EQ(codeOf([&] { openRegular(fifo, O_RDWR); }), 74);
  EXPECT_EQ(codeOf([&] { openRegular("/dev/null", O_WRONLY); }), 74);
  // A metrics file of an earlier run that is none: it is replaced, or read by nobody.
  ASSERT_EQ(mkfifo((work + "/metrics.jsonl").c_str(), 0600), 0);
  EXPECT_EQ(codeOf([&] { Metrics metrics(work + "/metrics.jsonl", 1); }), 65);
  EXPECT_EQ(codeOf([&] { Metrics metrics(work + "/metrics.jsonl", 0); }), 0);
  // What is written does not go through a link that lies in its place.
  put("target", "precious");
  ASSERT_EQ(symlink("target", link.c_str()), 0);
  OutputFile file(link);
  file.append("x", 1);
  file.finish();
  EXPECT_EQ(text("target"), "precious");
  EXPECT_EQ(text("link"), "x");
}

TEST_F(Disk, LinksOfAModelFolderStayInIt) {
  makeFolders(work + "/hub/blobs");
  makeFolders(work + "/hub/snapshots/abc/inner");
  std::string folder = work + "/hub/snapshots/abc";
  put("hub/blobs/1", "{}");
  put("secret", "password");
  put("hub/secret", "password");
  auto link = [&](const std::string &target, const std::string &name) {
    ASSERT_EQ(symlink(target.c_str(), (folder + "/" + name).c_str()), 0);
  };
  link("../../blobs/1", "config.json");
  link("inner/file", "a.json");
  link("../../../secret", "b.json");
  link("../../secret", "c.json");
  link("../../../hub/blobs/1", "d.json");
  put("hub/snapshots/abc/inner/file", "{}");
  auto open = [&](const std::string &name) { return errorOf([&] { openInFolder(folder, name); }); };
  EXPECT_EQ(open("config.json").first, 0);
  EXPECT_EQ(open("a.json").first, 0);
  EXPECT_EQ(open("d.json").first, 0);
  for (const char *name : {"b.json", "c.json"}) {
    auto [code, message] = open(name);
    EXPECT_EQ(code, 65) << name;
    EXPECT_NE(message.find(folder + "/" + name), std::string::npos) << message;
    EXPECT_NE(message.find("secret"), std::string::npos) << message;
  }
  // The folder itself may be reached by a link. Without "snapshots" there are no blobs.
  ASSERT_EQ(symlink("hub/snapshots/abc", (work + "/model").c_str()), 0);
  EXPECT_EQ(codeOf([&] { openInFolder(work + "/model", "config.json"); }), 0);
  ASSERT_EQ(rename((work + "/hub/snapshots").c_str(), (work + "/hub/other").c_str()), 0);
  EXPECT_EQ(codeOf([&] { openInFolder(work + "/hub/other/abc", "config.json"); }), 65);
}

TEST_F(Disk, CopiesGiveNobodyMoreRights) {
  auto copied = [&](mode_t mode) {
    std::string from = put("from", "text"), to = work + "/to";
    EXPECT_EQ(chmod(from.c_str(), mode), 0);
    copyFile(InputFile(from), to);
    EXPECT_EQ(text("to"), "text");
    struct stat info;
    EXPECT_EQ(stat(to.c_str(), &info), 0);
    return info.st_mode & 07777;
  };
  mode_t before = umask(022);
  EXPECT_EQ(copied(0600), 0600u);
  EXPECT_EQ(copied(0640), 0640u);
  EXPECT_EQ(copied(0755), 0644u);
  EXPECT_EQ(copied(0666), 0644u);
  EXPECT_EQ(copied(0400), 0400u);
  umask(before);
}

TEST(Printable, EscapesAndCuts) {
  EXPECT_EQ(printable("plain \xc3\xa9\xe2\x82\xac"), "plain \xc3\xa9\xe2\x82\xac");
  EXPECT_EQ(printable("a\x1b[31mb\n\r\x07"), "a\\x1b[31mb\\x0a\\x0d\\x07");
  EXPECT_EQ(printable(std::string("\0x", 2)), "\\x00x");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m"); // CSI as one character
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "x"),
            "\\xe2\\x80\\xaex"); // right to left
  EXPECT_EQ(printable("\xc0\xaf\xff\xed\xa0\x80"), "\\xc0\\xaf\\xff\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xf0\x9f"), "\\xf0\\x9f");
  std::string cut = printable(std::string(10'000'000, 'n') + "end");
  EXPECT_LT(cut.size(), 250u);
  EXPECT_NE(cut.find("(10000003 bytes)"), std::string::npos);
  EXPECT_EQ(cut.substr(cut.size() - 3), "end");
  std::string wide;
  for (int i = 0; i < 300; ++i)
    wide += "\xe2\x82\xac";
  EXPECT_EQ(printable(wide).find("\\x"), std::string::npos); // cut between characters
}

TEST_F(Disk, MessagesOfReadersAreEscaped) {
  std::string name = "\\u001b[2J" + std::string(1 << 20, 'n');
  std::string header = "{\"" + name + "\":{\"dtype\":\"F99\",\"shape\":[],\"data_offsets\":[0,4]}}";
  uint64_t size = header.size();
  std::string path =
      put("x.safetensors", std::string(reinterpret_cast<char *>(&size), 8) + header + "dddd");
  auto [code, message] = errorOf([&] { SafetensorsReader reader(path); });
  EXPECT_EQ(code, 65);
  EXPECT_LT(message.size(), 1000u);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_NE(message.find("\\x1b"), std::string::npos) << message;
}

TEST(Json, DepthIsBounded) {
  auto parses = [](const std::string &text) {
    try {
      parseJson(text);
    } catch (const std::exception &) {
      return false;
    }
    return true;
  };
  std::string open(32, '['), close(32, ']');
  EXPECT_TRUE(parses(open + close));
  EXPECT_FALSE(parses("[" + open + close + "]"));
  EXPECT_TRUE(parses("\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\""));
  EXPECT_FALSE(parses(std::string(1'000'000, '[')));
  std::string objects;
  for (int i = 0; i < 200'000; ++i)
    objects += "{\"a\":";
  EXPECT_FALSE(parses(objects));
  EXPECT_FALSE(parses("\"\\"));
}

/// A program with two parameters on one rank, and a checkpoint of it.
struct Saved {
  int64_t dims[1] = {1000};
  ShaleParameter parameters[2] = {};
  ShaleProgram program{};
  Manifest manifest;

  explicit Saved(const std::string &folder, bool sums = true) {
    parameters[0].name = "a";
    parameters[1].name = "b";
    for (ShaleParameter &parameter : parameters) {
      parameter.rank = 1;
      parameter.dims = dims;
      parameter.count = 1000;
    }
    program.model = "m.onnx";
    program.strategy = "full";
    program.optimizer = "adamw";
    program.parameters = parameters;
    program.parameter_count = 2;
    makeFolders(folder);
    manifest.sums = sums;
    manifest.position.step = 7;
    for (int shard = 0; shard < 2; ++shard) {
      std::string name = format("shard-%05d.safetensors", shard);
      SafetensorsWriter writer;
      writer.declare(std::string("param/") + parameters[shard].name, Dtype::F32, {1000});
      writer.begin(folder + "/" + name);
      std::string data(4000, '\0');
      for (int i = 0; i < 4000; ++i)
        data[i] = static_cast<char>(i * 7 + shard);
      manifest.pieces.push_back({parameters[shard].name,
                                 "param",
                                 Dtype::F32,
                                 0,
                                 1000,
                                 name,
                                 writer.position(),
                                 {checksumOf(data)}});
      writer.append(data.data(), data.size());
      manifest.files[name] = writer.finish(name);
    }
    write(folder);
  }
  void write(const std::string &folder) {
    replaceFile(folder + "/manifest.json", manifestText(program, manifest));
  }
};

TEST_F(Disk, EveryFlippedByteOfACheckpointIsFound) {
  Saved saved(work);
  CheckedFolder whole = checkFolder(work);
  EXPECT_TRUE(whole.problems.empty());
  EXPECT_EQ(whole.step, 7);
  EXPECT_EQ(whole.files, 2);
  EXPECT_TRUE(whole.sums);
  std::mt19937 random(1);
  auto flip = [&](const std::string &name, size_t from, size_t to, const std::string &range,
                  size_t stride = 1) {
    std::string bytes = text(name);
    for (size_t at = from; at < std::min(to, bytes.size()); at += stride) {
      std::string other = bytes;
      other[at] ^= 1 << random() % 8;
      put(name, other);
      CheckedFolder checked = checkFolder(work);
      ASSERT_EQ(checked.problems.size(), 1u) << name << " " << at;
      EXPECT_NE(checked.problems[0].find(work + "/" + name + "'"), std::string::npos);
      EXPECT_NE(checked.problems[0].find(range), std::string::npos) << checked.problems[0];
      // A restored run reads the headers and, on one rank or another, the pieces.
      if (range.find("param") == std::string::npos) {
        EXPECT_EQ(codeOf([&] { readManifest(work); }), 65) << name << " " << at;
      }
    }
    put(name, bytes);
  };
  flip("manifest.json", 0, SIZE_MAX, "damaged", 11); // Manifests flips every byte
  for (const auto &[name, file] : saved.manifest.files) {
    size_t header = file.headerBytes;
    flip(name, 0, header, format("bytes 0 to %zu (header)", header - 1));
    flip(name, header, SIZE_MAX,
         format("bytes %zu to %zu (%s, param)", header, header + 3999, name[10] == '0' ? "a" : "b"),
         29);
  }
  EXPECT_TRUE(checkFolder(work).problems.empty());
  // Missing, short and added bytes.
  put("shard-00001.safetensors", text("shard-00001.safetensors") + "x");
  EXPECT_EQ(checkFolder(work).problems.size(), 1u);
  ASSERT_TRUE(removeTree(work + "/shard-00001.safetensors"));
  EXPECT_EQ(checkFolder(work).problems.size(), 1u);
}

TEST_F(Disk, CheckpointsOfOlderProgramsAreRead) {
  Saved saved(work, /*sums=*/false);
  forge(work, [](nlohmann::json &body) {
    body["version"] = 1;
    body.erase("chunk_bytes");
  });
  EXPECT_EQ(text("manifest.json").find("checksums"), std::string::npos);
  EXPECT_EQ(readManifest(work).position.step, 7);
  CheckedFolder checked = checkFolder(work);
  EXPECT_TRUE(checked.problems.empty());
  EXPECT_FALSE(checked.sums);
  std::string bytes = text("shard-00000.safetensors");
  bytes.back() ^= 1;
  put("shard-00000.safetensors", bytes);
  EXPECT_EQ(checkFolder(work).problems.size(), 1u); // by the checksum of the piece
}

TEST_F(Disk, ManifestsAreBounded) {
  put("manifest.json", std::string(1'000'000, '[') + std::string(1'000'000, ']'));
  EXPECT_EQ(codeOf([&] { readManifest(work); }), 65);
  std::string deep;
  for (int i = 0; i < 1'000'000; ++i)
    deep += "{\"body\":";
  put("manifest.json", deep + "1" + std::string(1'000'000, '}'));
  EXPECT_EQ(codeOf([&] { readManifest(work); }), 65);
  Saved saved(work);
  auto code = [&](auto change) {
    Manifest before = saved.manifest;
    change(saved.manifest.position);
    saved.write(work);
    saved.manifest = before;
    return codeOf([&] { readManifest(work); });
  };
  EXPECT_EQ(code([](Position &) {}), 0);
  EXPECT_EQ(code([](Position &p) { p.row = int64_t(1) << 60; }), 0);
  EXPECT_EQ(code([](Position &p) { p.row = (int64_t(1) << 60) + 1; }), 65);
  EXPECT_EQ(code([](Position &p) { p.row = INT64_MAX; }), 65);
  EXPECT_EQ(code([](Position &p) { p.row = -1; }), 65);
  EXPECT_EQ(code([](Position &p) { p.step = INT64_MAX; }), 65);
}

// The texts that a reader has to refuse are made of a good one, with the checksum of what they say.
TEST_F(Disk, ManifestsOfAnotherFormAreRefused) {
  Saved saved(work);
  std::string good = text("manifest.json");
  size_t item = good.find("   {\n    \"begin\"");
  ASSERT_NE(item, std::string::npos);
  auto codeWith = [&](const std::string &from, const std::string &to) {
    std::string other = good;
    size_t at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    put("manifest.json", other.replace(at, from.size(), to));
    return codeOf([&] { readManifest(work); });
  };
  EXPECT_EQ(codeWith("{", "{"), 0);
  EXPECT_EQ(codeWith("\"\n}\n", "\"\n}"), 65);            // without its end
  EXPECT_EQ(codeWith("\"\n}\n", "\"\n}\n\n"), 65);        // with more than its end
  EXPECT_EQ(codeWith("\n   {", "\n    {"), 65);           // indented by another number of spaces
  EXPECT_EQ(codeWith("\"begin\": ", "\"begin\":  "), 65); // two spaces after a key
  EXPECT_EQ(codeWith(" \"body\"", " \"bodies\""), 65);
  const std::function<void(nlohmann::json &)> lies[] = {
      [](nlohmann::json &body) { body["pieces"].push_back(5); },
      [](nlohmann::json &body) { body["pieces"].push_back({{"x", 1}}); },
      [](nlohmann::json &body) { body["pieces"] = {{"a", 1}}; },
      [](nlohmann::json &body) { body["pieces"] = "none"; },
      [](nlohmann::json &body) { body.erase("pieces"); },
      [](nlohmann::json &body) { body["data"] = 7; },
      [](nlohmann::json &body) { body["data"] = {{{"name", "a"}, {"bytes", 1}, {"rows", 1}}}; },
      [](nlohmann::json &body) {
        body["data"] = {{{"name", "a"}, {"bytes", -1}, {"rows", 1}, {"hash", "0123456789abcdef"}}};
      }};
  for (const auto &lie : lies) {
    put("manifest.json", good);
    forge(work, lie);
    EXPECT_EQ(codeOf([&] { readManifest(work); }), 65) << text("manifest.json");
  }
  put("manifest.json", good);
  forge(work, [](nlohmann::json &body) { body["pieces"] = nlohmann::json::array(); });
  EXPECT_EQ(codeOf([&] { EXPECT_TRUE(readManifest(work).pieces.empty()); }), 0);
}

// A manifest that a reader would refuse for its size is not written.
TEST_F(Disk, TheWriterOfAManifestHasTheBoundOfItsReader) {
  Saved saved(work);
  std::string whole = text("manifest.json"), written;
  auto write = [&](int64_t most) {
    written.clear();
    ManifestWriter writer(
        saved.program, saved.manifest, [&](const std::string &part) { written += part; }, most);
    for (const StoredPiece &piece : saved.manifest.pieces)
      writer.add(piece);
    writer.finish();
  };
  EXPECT_EQ(codeOf([&] { write(whole.size()); }), 0);
  EXPECT_EQ(written, whole);
  for (size_t most : {whole.size() - 1, whole.size() / 2, size_t(10)}) {
    EXPECT_EQ(codeOf([&] { write(most); }), 74);
    EXPECT_LE(written.size(), most);
  }
}

TEST_F(Disk, NpyHeadersAreReadStrictly) {
  auto count = [&](const std::string &dictionary) -> int64_t {
    std::string bytes = "\x93NUMPY";
    bytes += std::string("\x01\x00", 2);
    uint16_t length = static_cast<uint16_t>(dictionary.size());
    bytes +=
        std::string(reinterpret_cast<char *>(&length), 2) + dictionary + std::string(40000, '\0');
    std::string path = put("x.npy", bytes);
    int64_t n = 0;
    int code = codeOf([&] { n = TokenFile(path, {}).count(); });
    return code ? -code : n;
  };
  auto of = [&](const std::string &shape) {
    return count("{'descr': '<u2', 'fortran_order': False, 'shape': " + shape + ", }   \n");
  };
  EXPECT_EQ(of("(20000,)"), 20000);
  EXPECT_EQ(of("( 20000 , )"), 20000);
  for (const char *shape :
       {"(-20000,)", "(abc20000,)", "(20000.5,)", "(20000)", "20000", "(20000,,)", "(,)", "(20000,",
        "()", "[20000]", "(20000,) x", "(20000L,)", "(+20000,)", "(2e4,)", "(20000, 1)",
        "(99999999999999999999,)"})
    EXPECT_EQ(of(shape), -65) << shape;
  std::string rest = "'fortran_order': False, 'shape': (20000,)}";
  EXPECT_EQ(count("{\"descr\":\"<u2\"," + rest), 20000);
  for (const char *start :
       {"{'descr': '<f4', 'descr': '<u2', ", "{'descr': '<u2', 'descr': '<u2', ",
        "{'x': 1, 'descr': '<u2', ", "{'descr': [('a', '<u2')], ", "{'descr': '<\\x752', ",
        "{'descr' '<u2', ", "{'descr': '<u2' ", "'descr': '<u2', ", "{'descr': <u2, ", "{"})
    EXPECT_EQ(count(start + rest), -65) << start;
  EXPECT_EQ(count("{'descr': '<u2', 'fortran_order': 0, 'shape': (20000,)}"), -65);
  EXPECT_EQ(count("{'descr': '<u2', 'fortran_order': False, 'shape': (20000,)} {}"), -65);
}

TEST_F(Disk, MetricsWaitForRoom) {
  std::string path = work + "/log", line(100, 'x');
  line.back() = '\n';
  signal(SIGXFSZ, SIG_IGN);
  rlimit before{}, small{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = 250; // no room from the third line on, of which a part is written
  LogFile file(path);
  testing::internal::CaptureStderr();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  for (int i = 0; i < 5; ++i)
    file.append(line.data(), line.size());
  std::string full = testing::internal::GetCapturedStderr();
  EXPECT_EQ(text("log").size(), 250u);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_NE(full.find("wait in memory"), std::string::npos) << full;
  EXPECT_EQ(full.find("warning"), full.rfind("warning")); // one
  testing::internal::CaptureStderr();
  file.append(line.data(), line.size());
  EXPECT_NE(testing::internal::GetCapturedStderr().find("written again"), std::string::npos);
  std::string all;
  for (int i = 0; i < 6; ++i)
    all += line;
  EXPECT_EQ(text("log"), all);
  // What waits is bounded.
  testing::internal::CaptureStderr();
  small.rlim_cur = all.size();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string block(1 << 20, 'y');
  for (int i = 0; i < 20; ++i)
    file.append(block.data(), block.size());
  file.finish();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  file.finish();
  std::string lost = testing::internal::GetCapturedStderr();
  EXPECT_NE(lost.find("further metrics are lost"), std::string::npos) << lost;
  EXPECT_NE(lost.find("4 records are lost"), std::string::npos) << lost;
  EXPECT_EQ(text("log").size(), all.size() + (16 << 20));
}

TEST_F(Disk, MetricsContinueAtAStep) {
  put("m", "{\"step\": 0}\n{\"step\": 1}\n" + std::string(1'000'000, '[') + "\nnoise\n" +
               std::string(2 << 20, 'x') + "\n{\"step\": 2}\n{\"step\": 3}\n{\"step\"");
  Metrics metrics(work + "/m", 3);
  EXPECT_EQ(text("m"), "{\"step\": 0}\n{\"step\": 1}\n{\"step\": 2}\n");
}

TEST_F(Disk, LeftoversOfKilledProcessesAreRemoved) {
  makeFolders(work + "/run");
  put("run/metrics.jsonl.shale-tmp-123", "");
  put("run/model.safetensors.shale-tmp-4", "");
  for (const char *kept : {"notes.tmp-123", "x.shale-tmp-", "x.shale-tmp-12a", "metrics.jsonl"})
    put(std::string("run/") + kept, "");
  removeTemporaries(work + "/run");
  EXPECT_EQ(listFolder(work + "/run").size(), 4u);
  EXPECT_EQ(temporaryName("a").find("a.shale-tmp-"), 0u);
}

TEST(RenamesOfTensors, AreRegularExpressionsAtTheStart) {
  auto renamed = [](const std::string &name, const std::vector<std::string> &rules) {
    return Renames(rules).apply(name);
  };
  EXPECT_EQ(renamed("model.a", {"model\\.="}), "a");
  EXPECT_EQ(renamed("a", {"=model."}), "model.a");
  EXPECT_EQ(renamed("x.model.a", {"model="}), "x.model.a");
  EXPECT_EQ(renamed("h.12.w", {"h\\.([0-9]+)\\.(.)=layers[$1]/$2/$&/$$/$x"}),
            "layers[12]/w/h.12.w/$/$x");
  EXPECT_EQ(renamed("attn.mask", {".*mask=", "x=y"}), "");
  EXPECT_EQ(renamed("abc", {"a=b", "bb=c"}), "cc");
  EXPECT_EQ(renamed("a=b.c", {"a=b.=x"}), "xc");
  EXPECT_EQ(codeOf([&] { Renames({"nothing"}); }), 64);
  EXPECT_EQ(codeOf([&] { Renames({"(=x"}); }), 64);
  EXPECT_EQ(codeOf([&] { Renames({"(a)\\1=x"}); }), 64);
  EXPECT_EQ(codeOf([&] { Renames({"(a)=$2"}); }), 64);
  // Linear: patterns on which a backtracking matcher takes forever.
  std::string longName(100'000, 'a');
  EXPECT_EQ(renamed(longName, {"(.*)*x="}), longName);
  EXPECT_EQ(renamed(longName, {"(a+)+b="}), longName);
  EXPECT_EQ(renamed(longName, {"(a|aa)+$=b"}), "b");
}

TEST_F(Disk, ChangedWeightsOfEqualSizeAreNoticed) {
  for (int64_t length :
       {int64_t(100), int64_t(SHALE_HASHED_BYTES), int64_t(3) * SHALE_HASHED_BYTES + 5}) {
    std::string data(length, '\0');
    for (int64_t i = 0; i < length; ++i)
      data[i] = static_cast<char>(i * 31 >> 3);
    int64_t block = length > SHALE_HASHED_BYTES ? SHALE_HASHED_BYTES / SHALE_HASHED_BLOCKS : length;
    std::string hashed;
    for (int64_t k = 0; k < (block < length ? SHALE_HASHED_BLOCKS : 1); ++k)
      hashed += data.substr(k * (length - block) / (SHALE_HASHED_BLOCKS - 1), block);
    ShaleParameter parameter{};
    parameter.name = "a";
    parameter.init.offset = 64;
    parameter.init.length = length;
    parameter.init.hash = static_cast<int64_t>(checksumOf(hashed));
    auto code = [&](int64_t change) {
      std::string bytes = std::string(64, 'h') + data;
      if (change >= 0)
        bytes[64 + change] ^= 1;
      std::string path = put("weights", bytes);
      return codeOf([&] { checkHash(parameter, InputFile(path)); });
    };
    EXPECT_EQ(code(-1), 0);
    EXPECT_EQ(code(0), 65);
    EXPECT_EQ(code(length - 1), 65);
    EXPECT_EQ(code(31 * (length - block) / 63 + 5), 65);
  }
}
/// Bytes of other formats at their places, behind which a file goes on.
struct Foreign {
  const char *name, *kind, *remedy;
  std::string bytes;
};

const Foreign kForeign[] = {
    {"x.pt", "a PyTorch checkpoint", "torch.save_file",
     std::string("PK\3\4\0\0\x08\x08") + std::string(22, '\0') + "x/data.pkl"},
    {"old.pt", "a PyTorch checkpoint", "torch.save_file",
     std::string("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.")},
    {"x.npz", "an .npz file", "unpack",
     std::string("PK\3\4\0\0\x08\x08") + std::string(22, '\0') + "x.npy"},
    {"x.zip", "a zip file", "unpack",
     std::string("PK\3\4\0\0\x08\x08") + std::string(22, '\0') + "x.txt"},
    {"x.pkl", "a pickle", "convert", std::string("\x80\x04\x95\x20\0\0\0\0\0\0\0", 11)},
    {"old.pkl", "a pickle", "convert", std::string("\x80\x03}q\0X\1\0\0\0", 10)},
    {"data.arrow", "an Arrow file", "tokenize",
     std::string("\xff\xff\xff\xff\x78\2\0\0\x10\0\0\0\0\0\n\0", 16)},
    {"x.gz", "a gzip file", "unpack", std::string("\x1f\x8b\x08\x08\1\2\3\4", 8)},
    {"x.xz", "an xz file", "unpack",
     std::string("\xfd"
                 "7zXZ\0\0\4",
                 8)},
    {"x.zst", "a zstd file", "unpack", std::string("\x28\xb5\x2f\xfd\4\5\6\7", 8)},
    {"x.parquet", "a Parquet file", "tokenize", "PAR1....."},
    {"x.arrow", "an Arrow file", "tokenize", "ARROW1...."},
    {"x.h5", "an HDF5 file", "convert", "\x89HDF\r\n\x1a\n..."},
    {"x.tar", "a tar file", "unpack", std::string(257, 'a') + "ustar"},
    {"x.onnx", "an ONNX model", "shalec", std::string("\x08\x0a\x12\x07pytorch\x1a\x03")},
    {"x.bin", "a .safetensors file", "extension", std::string("\x20\0\0\0\0\0\0\0{\"a\":{", 14)},
    {"y.bin", "a .npy file", "extension", std::string("\x93NUMPY\1\0", 8)},
    {"x.png", "an image", "convert", "\x89PNG\r\n\x1a\n..."},
    {"x.gguf", "a GGUF model", "--init", std::string("GGUF\3\0\0\0", 8)},
};

TEST_F(Disk, FilesOfOtherKindsAreNotTrainedOn) {
  for (const Foreign &one : kForeign) {
    std::string path = put(one.name, one.bytes + std::string(400, '\1') + ".");
    TokenOptions bytes; // of a model with one token per byte
    bytes.vocabulary = 256;
    auto [code, message] = errorOf([&] { TokenFile file(path, bytes); });
    EXPECT_EQ(code, 65) << one.name;
    EXPECT_NE(message.find(std::string("is ") + one.kind), std::string::npos) << message;
    EXPECT_NE(message.find(one.remedy), std::string::npos) << message;
    if (one.name == std::string("x.bin"))
      continue;
    std::tie(code, message) = errorOf([&] { SafetensorsReader reader(path); });
    EXPECT_EQ(code, 65) << one.name;
    EXPECT_NE(message.find(one.kind), std::string::npos) << message;
  }
}

TEST_F(Disk, TokensThatBeginLikeAnotherFormatAreTokens) {
  // The user gave the type.
  std::string path = put("tokens", std::string("\x1f\x8b\x08\x08", 4) + std::string(400, '\1'));
  TokenOptions typed;
  typed.type = "uint8", typed.typed = true, typed.vocabulary = 256;
  EXPECT_EQ(TokenFile(path, typed).count(), 404);
  // Three of four bytes, and text.
  TokenOptions plain;
  plain.vocabulary = 256;
  for (std::string text :
       {std::string("\x1f\x8b\x09\x08", 4), std::string("PK\3"), std::string("PAR2"),
        std::string("\x80\x03}q\0Xu", 7), std::string("{\"a\": 1}"), std::string()})
    EXPECT_EQ(TokenFile(put("text", text), plain).count(), int64_t(text.size()));
}

} // namespace
