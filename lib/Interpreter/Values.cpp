//===- Values.cpp - Generates initial and random values -------------------===//
#include "dialects/nn/Optimizers.h"
#include "lib/Interpreter/Program.h"
#include "lib/Support/InputFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cmath>
#include <limits>

using namespace mlir;

namespace shale::interp {

namespace {

/// SplitMix64 (Steele, Lea and Flood 2014): the i-th output of a stream.
struct Stream {
  uint64_t key;
  uint64_t bits(uint64_t i) const {
    uint64_t z = key + (i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  /// Uniform in [0, 1).
  double uniform(uint64_t i) const { return (bits(i) >> 11) * 0x1p-53; }
};

/// Returns the FNV-1a hash of a name.
uint64_t hashName(StringRef name) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (unsigned char c : name)
    hash = (hash ^ c) * 0x100000001b3ull;
  return hash;
}

/// Returns hyper-parameters under which a training step is well conditioned and every term of an
/// update counts: the defaults, or a half where they are 0.
double hyperValue(StringRef name) {
  if (name == nn::kNormLimit.name) // an update that is left out would hide the terms
    return std::numeric_limits<double>::infinity();
  if (name == nn::kClipGradNorm.name || name == nn::kPreviousEnable.name)
    return 1;
  for (const nn::Optimizer *optimizer : nn::getOptimizers())
    for (const nn::HyperParameter *each : nn::getHyperParameters(*optimizer))
      if (const nn::HyperParameter &hyper = *each; hyper.name == name) {
        if (hyper.source == nn::HyperSource::LearningRate ||
            hyper.source == nn::HyperSource::OwnRate)
          return 1e-3;
        if (hyper.source == nn::HyperSource::StepPower)
          return hyper.text.empty() ? 5e-4 : 0.5; // a bound of the learning rate; a weight
        if (hyper.source == nn::HyperSource::InverseDecay ||
            hyper.source == nn::HyperSource::AfterFirst)
          return 0.5;
        if (hyper.low > 0 && hyper.value == hyper.low) // a bound, which is out of reach by default
          return hyper.low / 1024;
        double base = hyper.source == nn::HyperSource::BiasCorrection ? hyperValue(hyper.text) : 0;
        return base != 0 ? 1 - base * base : hyper.value != 0 ? hyper.value : 0.5;
      }
  return 1;
}

/// Returns the range [low, high) of uniform random values. Moments are positive (some are squares),
/// 1-D parameters (such as norm scales) are around 0.5, matrices are small.
std::pair<double, double> rangeOf(const ValueSpec &spec) {
  switch (spec.role) {
  case nn::Role::Param:
    return spec.shape.size() > 1 ? std::pair(-0.25, 0.25) : std::pair(0.0, 1.0);
  case nn::Role::Moment:
    return {1e-4, 1e-3};
  case nn::Role::Residual:
    return {-1e-4, 1e-4};
  case nn::Role::LossScale:
    return {1, 2};
  default:
    return {-1, 1};
  }
}

} // namespace

Tensor randomValue(const ValueSpec &spec, uint64_t seed) {
  Tensor result(spec.element, spec.shape);
  Stream stream{hashName(spec.name) ^ (seed * 0xd1342543de82ef95ull)};
  if (spec.role == nn::Role::Hyper && result.isFloat()) {
    result.fill(hyperValue(spec.name));
  } else if (spec.binding == nn::Binding::Ones) {
    result.fill(1);
  } else if (spec.binding == nn::Binding::Arange && !spec.shape.empty()) {
    for (int64_t i = 0; i < result.size(); ++i)
      result.setNumber(i, i % spec.shape.back());
  } else if (result.isFloat()) {
    auto [low, high] = rangeOf(spec);
    double *values = result.mutableFloats();
    for (int64_t i = 0; i < result.size(); ++i)
      values[i] = low + (high - low) * stream.uniform(i);
  } else {
    int64_t *values = result.mutableInts();
    for (int64_t i = 0; i < result.size(); ++i) {
      values[i] = stream.bits(2 * i) % std::max<int64_t>(spec.limit, 1);
      if (spec.ignored && stream.bits(2 * i + 1) % 8 == 0)
        values[i] = *spec.ignored;
    }
  }
  result.roundToElement();
  return result;
}

static llvm::Expected<Tensor> readFile(nn::FileAttr file, const ValueSpec &spec, StringRef folder) {
  SmallString<128> path(file.getPath());
  if (!llvm::sys::path::is_absolute(path) && !llvm::sys::fs::exists(path)) {
    path = folder;
    llvm::sys::path::append(path, file.getPath());
  }
  SmallVector<int64_t> shape = spec.shape;
  bool transposed = file.getTransposed() && shape.size() == 2;
  if (transposed)
    std::swap(shape[0], shape[1]);
  // A file may hold another type than the state (nn.state, C2).
  Element element = spec.element;
  int64_t count = 1;
  for (int64_t size : shape)
    if (__builtin_mul_overflow(count, size, &count))
      return llvm::createStringError("its type is too large");
  if (isFloat(element))
    element = *elementOf(file.elementTypeFor(typeOf(file.getContext(), element), count));
  bool other = element != spec.element;
  int64_t bytes = bytesOf(element);
  for (int64_t size : shape)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return llvm::createStringError("its type is too large");
  if (bytes != file.getLength() || file.getOffset() < 0)
    return llvm::createStringError("the file holds %lld bytes of it at %lld, its type has %lld",
                                   (long long)file.getLength(), (long long)file.getOffset(),
                                   (long long)bytes);
  ToolError wrong;
  std::unique_ptr<llvm::MemoryBuffer> buffer = openInput(path, wrong);
  if (!buffer)
    return llvm::createStringError(wrong.message);
  StringRef data = buffer->getBuffer();
  if (static_cast<uint64_t>(file.getOffset()) > data.size() ||
      static_cast<uint64_t>(bytes) > data.size() - file.getOffset())
    return llvm::createStringError(path.str() + ": is too short for it");
  Tensor stored = Tensor::fromBytes(element, shape, data.data() + file.getOffset());
  if (other)
    stored = stored.rounded(spec.element);
  if (!transposed)
    return stored;
  Tensor result(spec.element, spec.shape);
  Cell *to = result.mutableCells();
  const Cell *from = stored.cells();
  walk(result.shape(), {1, shape[1]}, 0, [&](int64_t i, int64_t offset) { to[i] = from[offset]; });
  return result;
}

llvm::Expected<Tensor> readInit(const ValueSpec &spec, StringRef folder) {
  if (auto file = dyn_cast_or_null<nn::FileAttr>(spec.init))
    return readFile(file, spec, folder);
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(spec.init))
    return Tensor::fromAttr(dense).rounded(spec.element);
  Tensor result(spec.element, spec.shape);
  auto fill = dyn_cast_or_null<nn::FillAttr>(spec.init);
  result.fill(fill ? fill.getValue().getValueAsDouble() : 0);
  result.roundToElement();
  return result;
}

} // namespace shale::interp
