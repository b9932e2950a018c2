// The file that keeps the algorithms of matmuls, and what is refused as such.
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/device/MatmulFile.h"

#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace shale::rt;

namespace {

const char *const kMachine = "some GPU, cuBLASLt 13.1.0";

Choices someChoices() {
  return {{"F32 NN 1 x 2 x 3 x 4", {"00ff", 12.5, 10.25}}, {"BF16 TN 1 x 8 x 8 x 8", {"abcd"}}};
}

bool same(const Choices &x, const Choices &y) {
  return std::equal(x.begin(), x.end(), y.begin(), y.end(), [](const auto &a, const auto &b) {
    return a.first == b.first && a.second.algorithm == b.second.algorithm &&
           a.second.first == b.second.first && a.second.best == b.second.best;
  });
}

/// Returns why a text is refused; "" if it is not.
std::string refusal(const std::string &text, const std::string &machine = kMachine) {
  try {
    parseMatmuls(text, machine);
    return "";
  } catch (const Error &error) {
    EXPECT_EQ(error.code, SHALE_EXIT_DATA);
    return error.what();
  }
}

/// Writes a changed body with the checksum that belongs to it, as a forger would.
std::string sealed(const std::function<void(nlohmann::json &)> &change) {
  auto file = nlohmann::json::parse(matmulText(kMachine, someChoices()));
  change(file["body"]);
  std::string body = file["body"].dump();
  file["xxh3"] = format("%016llx", (unsigned long long)XXH3_64bits(body.data(), body.size()));
  return file.dump();
}

struct Folder {
  std::string path;
  Folder() {
    char name[] = "/tmp/shale-matmuls-XXXXXX";
    path = mkdtemp(name);
    makeFolders(path + "/out");
  }
  ~Folder() { removeTree(path); }
  std::string write(const std::string &name, const std::string &text) const {
    std::ofstream(path + "/" + name) << text;
    return path + "/" + name;
  }
};

} // namespace

TEST(MatmulFiles, TextHoldsTheChoices) {
  EXPECT_TRUE(same(parseMatmuls(matmulText(kMachine, someChoices()), kMachine), someChoices()));
  EXPECT_TRUE(parseMatmuls(matmulText(kMachine, {}), kMachine).empty());
  EXPECT_EQ(refusal(sealed([](nlohmann::json &) {})), "");
}

TEST(MatmulFiles, EachCutAndEachChangedByteIsRefused) {
  std::string text = matmulText(kMachine, someChoices());
  for (size_t bytes = 0; bytes + 1 < text.size(); ++bytes) // the last is a line's end
    ASSERT_NE(refusal(text.substr(0, bytes)), "") << bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    std::string changed = text;
    changed[i] ^= 1;
    Choices choices;
    try {
      choices = parseMatmuls(changed, kMachine);
    } catch (const Error &error) {
      EXPECT_EQ(error.code, SHALE_EXIT_DATA);
      continue;
    }
    ASSERT_TRUE(same(choices, someChoices())) << "byte " << i; // a space between values
  }
}

TEST(MatmulFiles, OtherMachinesAndVersionsAreRefused) {
  EXPECT_EQ(refusal(matmulText("another GPU, cuBLASLt 13.1.0", someChoices())),
            "is for another GPU, cuBLASLt 13.1.0, and this is some GPU, cuBLASLt 13.1.0");
  EXPECT_EQ(refusal(sealed([](nlohmann::json &body) { body["format"] = 99; })),
            "was written by another version of Shale");
  // What a terminal would obey is not printed.
  EXPECT_EQ(refusal(sealed([](nlohmann::json &body) { body["machine"] = "\x1b[2J"; })),
            "is for ?[2J, and this is some GPU, cuBLASLt 13.1.0");
}

TEST(MatmulFiles, BadContentsAreRefused) {
  for (const char *text : {"", "{}", "[]", "null", "7", "\"text\"", "{\"body\": 1, \"xxh3\": \"\"}",
                           "{\"body\": {}, \"xxh3\": 5}", "\xff\xfe", "{\"body\": {\"format\": 1"})
    EXPECT_NE(refusal(text).find("is damaged"), std::string::npos) << text;
  EXPECT_NE(refusal(std::string(1 << 20, '[')).find("is damaged"), std::string::npos);
  using nlohmann::json;
  const std::vector<std::function<void(json &)>> changes = {
      [](json &body) { body.erase("matmuls"); },
      [](json &body) { body["machine"] = 1; },
      [](json &body) { body["machine"] = ""; },
      [](json &body) { body["machine"] = std::string(100000, 'x'); },
      [](json &body) { body["matmuls"] = "text"; },
      [](json &body) { body["matmuls"] = {1, 2}; },
      [](json &body) { body["matmuls"][0].erase("algorithm"); },
      [](json &body) { body["matmuls"][0].erase("matmul"); },
      [](json &body) { body["matmuls"][0]["matmul"] = nullptr; },
      [](json &body) { body["matmuls"][0]["matmul"] = std::string(5000, 'x'); },
      [](json &body) { body["matmuls"][1]["algorithm"] = "xyz"; },
      [](json &body) { body["matmuls"][1]["algorithm"] = ""; },
      [](json &body) { body["matmuls"][1]["algorithm"] = std::string(5000, 'a'); },
      [](json &body) { body["matmuls"][1]["us"] = -1; },
      [](json &body) { body["matmuls"][1]["us"] = "fast"; },
      [](json &body) { body["matmuls"][1]["first_us"] = nullptr; }};
  for (size_t i = 0; i < changes.size(); ++i)
    EXPECT_EQ(refusal(sealed(changes[i])).rfind("is damaged (", 0), 0u) << i;
}

TEST(MatmulFiles, AFileIsReplacedAndReadAgain) {
  Folder folder;
  MatmulFile file(folder.path + "/train", folder.path + "/out");
  EXPECT_TRUE(file.load(kMachine).empty());
  EXPECT_EQ(file.store(kMachine, {}), file.first());
  EXPECT_EQ(file.store(kMachine, someChoices()), folder.path + "/train.matmuls.json");
  EXPECT_TRUE(same(file.load(kMachine), someChoices()));
  EXPECT_TRUE(file.load("another").empty());
  EXPECT_EQ(listFolder(folder.path).size(), 2u); // and "out"
}

TEST(MatmulFiles, OneWarningNamesTheFile) {
  Folder folder;
  MatmulFile file(folder.path + "/train", folder.path + "/out");
  auto warning = [&](const std::string &name, const std::string &text) {
    folder.write(name, text);
    testing::internal::CaptureStderr();
    EXPECT_TRUE(file.load(kMachine).empty());
    return testing::internal::GetCapturedStderr();
  };
  const std::string name = "train.matmuls.json", path = folder.path + "/" + name;
  const std::string end = ": its algorithms of matmuls are not used\n";
  std::string good = matmulText(kMachine, someChoices());
  std::string said = warning(name, good.substr(0, 100));
  EXPECT_EQ(said.rfind("warning: '" + path + "' is damaged (", 0), 0u) << said;
  EXPECT_EQ(said.find('\n'), said.size() - 1) << said;
  EXPECT_EQ(said.substr(said.size() - end.size()), end);
  said = warning(name, matmulText("another", {}));
  EXPECT_EQ(said, "warning: '" + path + "' is for another, and this is " + kMachine + end);
  said = warning(name, "");
  EXPECT_EQ(said.rfind("warning: '" + path + "' is damaged (", 0), 0u) << said;
  said = warning(name, std::string((16 << 20) + 1, ' '));
  EXPECT_EQ(said,
            "warning: '" + path + "' has 16777217 bytes, more than the 16777216 it may have" + end);
}

// The path is taken by a folder, which also root cannot replace.
TEST(MatmulFiles, AnotherFolderTakesTheFile) {
  Folder folder;
  makeFolders(folder.path + "/train.matmuls.json/x");
  MatmulFile file(folder.path + "/train", folder.path + "/out");
  EXPECT_EQ(file.store(kMachine, someChoices()), folder.path + "/out/train.matmuls.json");
  EXPECT_EQ(listFolder(folder.path).size(), 2u); // no temporary file is left
  testing::internal::CaptureStderr();
  EXPECT_TRUE(same(file.load(kMachine), someChoices()));
  std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("is not a regular file: its algorithms"), std::string::npos) << said;

  MatmulFile nowhere(folder.path + "/train", folder.path + "/missing");
  testing::internal::CaptureStderr();
  EXPECT_EQ(nowhere.store(kMachine, someChoices()), "");
  said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("the next start may choose other algorithms"), std::string::npos) << said;
}
