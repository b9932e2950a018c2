//===- FileFacts.cpp - Hash and statistics of initial values --------------===//
#include "passes/program/FileFacts.h"
#include "lib/Support/InputFile.h"
#include "shale/Runtime.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace shale;

static constexpr int64_t kBlockElements = 1 << 14, kMostBlocks = 64;

/// Returns the value at an address; `type` is a float type of 16, 32 or 64 bits.
static double valueAt(FloatType type, const char *at) {
  if (type.isF32()) {
    float value;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }
  uint64_t bits = 0;
  std::memcpy(&bits, at, type.getWidth() / 8);
  APFloat value(type.getFloatSemantics(), APInt(type.getWidth(), bits));
  bool lost;
  value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return value.convertToDouble();
}

std::optional<FileFacts> shale::factsOfFile(StringRef path, int64_t offset, int64_t length,
                                            RankedTensorType type) {
  ToolError wrong;
  std::unique_ptr<llvm::MemoryBuffer> file = openInput(path, wrong);
  int64_t fileSize = file ? file->getBufferSize() : 0;
  if (!file || offset < 0 || length < 0 || offset > fileSize || length > fileSize - offset)
    return std::nullopt;
  StringRef data = file->getBuffer().substr(offset, length);
  FileFacts facts;
  int64_t parts = length > SHALE_HASHED_BYTES ? SHALE_HASHED_BLOCKS : 1;
  int64_t partBytes = parts > 1 ? SHALE_HASHED_BYTES / SHALE_HASHED_BLOCKS : length;
  std::string hashed;
  for (int64_t k = 0; k < parts; ++k)
    hashed += data.substr(k * (length - partBytes) / (SHALE_HASHED_BLOCKS - 1), partBytes);
  facts.hash = llvm::xxh3_64bits(hashed);

  auto element = dyn_cast<FloatType>(type.getElementType());
  int64_t count = type.getNumElements();
  if (!element || count == 0 || length % count != 0)
    return facts;
  if (int64_t(element.getWidth() / 8) * count != length)
    element = Float32Type::get(type.getContext());
  int64_t size = element.getWidth() / 8;
  if (size * count != length || (size != 2 && size != 4 && size != 8))
    return facts;
  int64_t blocks = (count + kBlockElements - 1) / kBlockElements;
  int64_t taken = std::min(blocks, kMostBlocks);
  // Sums are of differences from the first value: sums of squares lose no precision to
  // a large mean, and equal values have a deviation of exactly 0.
  double first = 0, sum = 0, squares = 0;
  int64_t values = 0;
  for (int64_t b = 0; b < taken; ++b) {
    int64_t begin = blocks * b / taken * kBlockElements,
            end = std::min(begin + kBlockElements, count);
    for (int64_t i = 0; i < end - begin; ++i) {
      double value = valueAt(element, data.data() + (begin + i) * size);
      if (values++ == 0)
        first = value;
      sum += value - first;
      squares += (value - first) * (value - first);
    }
  }
  double mean = sum / values;
  facts.mean = first + mean;
  facts.deviation = std::sqrt(std::max(0.0, squares / values - mean * mean));
  if (!std::isfinite(facts.mean) || !std::isfinite(facts.deviation))
    facts.mean = 0, facts.deviation = -1;
  return facts;
}

std::string shale::embeddedPath(StringRef file, StringRef programFolder) {
  namespace path = llvm::sys::path;
  SmallString<256> full(file), folder;
  (void)llvm::sys::fs::make_absolute(full);
  if (programFolder.empty())
    return full.str().str();
  // A link in the place of the file stays: what it points to may change its name.
  if (llvm::sys::fs::real_path(path::parent_path(full), folder))
    folder = path::parent_path(full);
  auto from = path::begin(programFolder), fromEnd = path::end(programFolder);
  auto to = path::begin(folder), toEnd = path::end(folder);
  for (; from != fromEnd && to != toEnd && *from == *to; ++from)
    ++to;
  SmallString<256> relative;
  for (; from != fromEnd; ++from)
    path::append(relative, "..");
  for (; to != toEnd; ++to)
    path::append(relative, *to);
  path::append(relative, path::filename(full));
  return relative.str().str();
}
