// Reads a checkpoint that ONNX Runtime wrote, and damaged copies of it.
#include "lib/Frontend/ONNX/Artifacts/Checkpoint.h"
#include "llvm/Support/MemoryBuffer.h"

#include <gtest/gtest.h>
#include <random>

using namespace shale::onnx;

namespace {

std::string fixture() {
  auto file = llvm::MemoryBuffer::getFile(MODELS "/artifacts/checkpoint");
  EXPECT_TRUE(bool(file));
  return file ? (*file)->getBuffer().str() : "";
}

/// Whether every tensor of a checkpoint lies within `bytes`.
bool isWithin(const Checkpoint &checkpoint, size_t bytes) {
  auto within = [&](const std::vector<CheckpointTensor> &tensors) {
    for (const CheckpointTensor &tensor : tensors)
      if (!tensor.isExternal && (tensor.offset < 0 || tensor.length < 0 ||
                                 size_t(tensor.offset) + size_t(tensor.length) > bytes))
        return false;
    return true;
  };
  return within(checkpoint.trained) && within(checkpoint.frozen);
}

/// Reads a damaged checkpoint: an error with a text, or tensors within it.
bool survives(const std::string &bytes) {
  llvm::Expected<Checkpoint> read = readCheckpoint(bytes);
  if (read)
    return isWithin(*read, bytes.size());
  return !llvm::toString(read.takeError()).empty();
}

TEST(Checkpoint, HasTheParameters) {
  std::string bytes = fixture();
  llvm::Expected<Checkpoint> read = readCheckpoint(bytes);
  ASSERT_TRUE(bool(read)) << llvm::toString(read.takeError());
  EXPECT_EQ(read->trained.size(), 16u);
  ASSERT_EQ(read->frozen.size(), 1u);
  const CheckpointTensor &frozen = read->frozen.front();
  EXPECT_EQ(frozen.name, "wpe.weight");
  EXPECT_EQ(frozen.dims, (std::vector<int64_t>{12, 16}));
  EXPECT_EQ(frozen.dataType, 1);
  EXPECT_EQ(frozen.length, 12 * 16 * 4);
  EXPECT_TRUE(read->groups.empty());
}

TEST(Checkpoint, RefusesCuts) {
  std::string bytes = fixture();
  for (size_t size = 0; size < bytes.size(); size += size < 512 ? 1 : 61)
    EXPECT_TRUE(survives(bytes.substr(0, size))) << "cut at byte " << size;
}

TEST(Checkpoint, SurvivesDamage) {
  const std::string bytes = fixture();
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = bytes;
    for (int i = round % 3; i >= 0; --i) {
      size_t at = random() % damaged.size();
      damaged[at] = static_cast<char>(round % 2 ? random() : ~damaged[at]);
    }
    ASSERT_TRUE(survives(damaged)) << "round " << round;
  }
  // Offsets, lengths and lists of fields are mostly at the front.
  for (size_t at = 0; at + 4 <= 1024; at += 2)
    for (uint32_t value : {0u, 1u, 0x7fffffffu, 0xffffffffu, 0x80000000u, uint32_t(bytes.size())}) {
      std::string damaged = bytes;
      memcpy(damaged.data() + at, &value, sizeof(value));
      ASSERT_TRUE(survives(damaged)) << "value " << value << " at byte " << at;
    }
}

// A vector whose elements are all the same table, which again has a vector of it, would be read
// forever.
TEST(Checkpoint, BoundsSharedTables) {
  // A list of four fields, of which the last is at byte 4 of a table of 8 bytes.
  std::string bytes(8, '\0');
  auto put32 = [&](uint32_t value) { bytes.append(reinterpret_cast<const char *>(&value), 4); };
  auto put16 = [&](uint16_t value) { bytes.append(reinterpret_cast<const char *>(&value), 2); };
  memcpy(bytes.data() + 4, "ODTC", 4);
  for (uint16_t value : {12, 12, 8, 4, 4, 4}) // at 8: version at 8; module, groups at 4
    put16(value);
  uint32_t root = uint32_t(bytes.size());
  put32(root - 8);
  put32(8); // module and groups: of the vector 4 bytes on
  put32(2); // version
  uint32_t count = 40000;
  put32(count);
  for (uint32_t i = 0; i < count; ++i)
    put32(uint32_t(root - bytes.size())); // wraps around to the root
  memcpy(bytes.data(), &root, 4);
  EXPECT_TRUE(survives(bytes));
}

} // namespace
