// Times algorithms in turn, several times: a GPU at its power limit changes its clock all the time,
// so that two times compare only if they are of the same moment (docs/measurements/h200.md).
//
// Matmuls are timed where the step computes them: addresses select algorithms, and neighbours in
// memory matter. Operands in the state are only read. The arena holds nothing before the first step
// and may be written. A result in the state goes to a place of the arena with the same alignment.
#include "runtime/device/cuda/BlasTuner.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace shale::rt::cuda {

namespace {

constexpr double kMargin = 0.98; // of the first proposal's time, below which another replaces it
constexpr int kRounds = 5;
// One measurement takes at least this time, because events resolve about half a microsecond.
constexpr double kLeastMilliseconds = 0.1;
constexpr int kMostRepeats = 16;
constexpr int64_t kAlignment = 256; // a result is moved by a multiple of it

// The choice to compute a matmul and its epilogue apart. No algorithm has this text.
const char *const kApart = "0";

struct Bytes {
  uintptr_t begin, end;
  bool overlaps(const Bytes &other) const { return begin < other.end && other.begin < end; }
  bool within(const Bytes &other) const { return other.begin <= begin && end <= other.end; }
};

/// Returns the bytes of `batch` row-major matrices that follow one another.
Bytes bytesOf(const void *start, Dtype type, int64_t batch, int64_t rows, int64_t columns,
              int64_t leading) {
  auto begin = reinterpret_cast<uintptr_t>(start);
  return {begin, begin + sizeOf(type) * ((batch * rows - 1) * leading + columns)};
}

/// Returns the words of an algorithm as hexadecimal digits.
std::string textOf(const cublasLtMatmulAlgo_t &algorithm) {
  std::string text;
  for (uint64_t word : algorithm.data)
    text += format("%016llx", (unsigned long long)word);
  return text;
}

/// Reads what textOf() wrote. Returns false for any other text.
bool parse(const std::string &text, cublasLtMatmulAlgo_t &algorithm) {
  constexpr size_t kDigits = 16, kWords = sizeof(algorithm.data) / sizeof(algorithm.data[0]);
  if (text.size() != kDigits * kWords ||
      text.find_first_not_of("0123456789abcdef") != std::string::npos)
    return false;
  for (size_t i = 0; i < kWords; ++i)
    algorithm.data[i] = std::stoull(text.substr(i * kDigits, kDigits), nullptr, 16);
  return true;
}

CUdeviceptr number(const void *address) { return reinterpret_cast<CUdeviceptr>(address); }

} // namespace

double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

size_t fastest(const std::vector<double> &times) {
  size_t best = std::min_element(times.begin(), times.end()) - times.begin();
  return times.empty() || times[best] >= kMargin * times[0] ? 0 : best;
}

BlasTuner::BlasTuner(Blas &blas, CUstream stream, const std::string &gpu,
                     std::function<void(const Launch &)> launch)
    : blas(blas), cu(driver()), stream(stream), gpu(gpu), launch(std::move(launch)) {}

// The driver's version is not part of it: algorithms are cuBLASLt's, and a run that is resumed
// after an update of the driver should have the same bits.
std::string BlasTuner::machine() const { return gpu + ", cuBLASLt " + blas.version(); }

void BlasTuner::begin(char *memory, int64_t bytes) {
  scratch = memory;
  scratchBytes = bytes;
  // These are between 2^-7 and 2 as f32 and bf16, and between 1 and 2 as f16, with either sign. As
  // 8-bit floats they are of all sizes, and a few are NaN.
  numbers.resize((size_t(4) << 20) / sizeof(uint16_t));
  uint64_t random = 0x9e3779b97f4a7c15;
  for (uint16_t &value : numbers) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    value = static_cast<uint16_t>((random >> 32 & 0x8000) | (0x3c00 + (random >> 48 & 0x3ff)));
  }
}

void BlasTuner::end() {
  if (scratchBytes > 0)
    must(cu.cuMemsetD8Async(number(scratch), 0, scratchBytes, stream), "clear memory");
  must(cu.cuStreamSynchronize(stream), "clear memory"); // nothing reads `numbers` any more
  numbers = {};
  scratch = nullptr;
  scratchBytes = 0;
}

/// Fills the bytes of an operand with random numbers if they are in the scratch memory: matmuls of
/// zeros take less power and run at a higher clock, and those of earlier matmuls may overflow.
void BlasTuner::fill(uintptr_t begin, uintptr_t end) {
  auto first = reinterpret_cast<uintptr_t>(scratch);
  if (begin < first || end > first + scratchBytes)
    return;
  uintptr_t filled = std::min<uintptr_t>(end, begin + numbers.size() * sizeof(uint16_t));
  must(cu.cuMemcpyHtoDAsync(begin, numbers.data(), filled - begin, stream), "fill memory");
  for (uintptr_t more; filled < end; filled += more) {
    more = std::min(filled - begin, end - filled);
    must(cu.cuMemcpyDtoDAsync(filled, begin, more, stream), "fill memory");
  }
}

/// Fills the operand of the epilogue. Returns whether what it stores is in [begin, end).
bool BlasTuner::placeEpilogue(const Matmul &p, uintptr_t begin, uintptr_t end) {
  auto bytes = [&](const void *start, int64_t rows) {
    return bytesOf(start, p.type, 1, rows, p.n, p.n);
  };
  Bytes with = bytes(p.epilogue.with, p.epilogue.kind == SHALE_EPILOGUE_GELU_GRAD ? p.m : 1);
  fill(with.begin, with.end);
  return !p.epilogue.before || bytes(p.epilogue.before, p.m).within({begin, end});
}

/// Returns the matmul with a result that may be overwritten: in the scratch memory, with the
/// alignment of C, and apart from A and B. Its address is null if there is no room, or if there is
/// an epilogue and its results are not in the scratch memory.
Matmul BlasTuner::place(const Matmul &p) {
  Bytes a = p.transposeA ? bytesOf(p.a, p.type, p.batch, p.k, p.m, p.lda)
                         : bytesOf(p.a, p.type, p.batch, p.m, p.k, p.lda);
  Bytes b = p.transposeB ? bytesOf(p.b, p.typeOfB(), p.batch, p.n, p.k, p.ldb)
                         : bytesOf(p.b, p.typeOfB(), p.batch, p.k, p.n, p.ldb);
  Bytes c = bytesOf(p.c, p.resultType, p.batch, p.m, p.n, p.ldc);
  Bytes all = {reinterpret_cast<uintptr_t>(scratch),
               reinterpret_cast<uintptr_t>(scratch) + scratchBytes};
  fill(a.begin, a.end);
  fill(b.begin, b.end);
  Matmul placed = p;
  if (p.epilogue)
    placed.c = placeEpilogue(p, all.begin, all.end) && c.within(all) ? p.c : nullptr;
  if (p.epilogue || c.within(all))
    return placed;
  placed.c = nullptr;
  for (uintptr_t start : {all.begin, a.end, b.end}) {
    start = (start + kAlignment - 1) / kAlignment * kAlignment + c.begin % kAlignment;
    Bytes own = {start, start + (c.end - c.begin)};
    if (!own.within(all) || own.overlaps(a) || own.overlaps(b))
      continue;
    placed.c = reinterpret_cast<void *>(start);
    break;
  }
  return placed;
}

void BlasTuner::record(CUevent event) { must(cu.cuEventRecord(event, stream), "record an event"); }

double BlasTuner::millisecondsBetween(CUevent start, CUevent end) const {
  float milliseconds = 0;
  must(cu.cuEventElapsedTime(&milliseconds, start, end), "time a matmul");
  return milliseconds;
}

std::vector<double> BlasTuner::timesOf(const Matmul &p, size_t count,
                                       const std::function<bool(size_t)> &run) {
  while (events.size() < count + 3) {
    events.emplace_back();
    must(cu.cuEventCreate(&events.back(), CU_EVENT_DEFAULT), "create an event");
  }
  CUevent start = events[count + 1], end = events[count + 2];
  record(start);
  // The first run of an algorithm loads its kernels.
  std::vector<size_t> runs;
  for (size_t i = 0; i < count; ++i)
    if (run(i))
      runs.push_back(i);
  std::vector<double> medians(count, INFINITY);
  if (runs.empty())
    return medians;
  auto multiply = [&](size_t i) {
    if (!run(i))
      die(SHALE_EXIT_INTERNAL, "cuBLASLt refuses an algorithm of " + keyOf(p) + " that it took");
  };
  record(events[0]);
  multiply(runs[0]);
  record(events[1]);
  must(cu.cuStreamSynchronize(stream), "multiply matrices");
  double once = millisecondsBetween(events[0], events[1]);
  int repeats = static_cast<int>(
      std::clamp(std::ceil(kLeastMilliseconds / std::max(once, 1e-3)), 1.0, double(kMostRepeats)));
  std::vector<std::vector<double>> times(runs.size());
  for (int round = 0; round < kRounds; ++round) {
    // The GPU is busy when the first measurement begins, so that no time includes a launch.
    multiply(runs.back());
    record(events[0]);
    for (size_t i = 0; i < runs.size(); ++i) {
      for (int repeat = 0; repeat < repeats; ++repeat)
        multiply(runs[i]);
      record(events[i + 1]);
    }
    must(cu.cuStreamSynchronize(stream), "multiply matrices");
    for (size_t i = 0; i < runs.size(); ++i)
      times[i].push_back(millisecondsBetween(events[i], events[i + 1]) / repeats);
  }
  record(end);
  must(cu.cuStreamSynchronize(stream), "multiply matrices");
  spent += millisecondsBetween(start, end) * 1e-3;
  for (size_t i = 0; i < runs.size(); ++i)
    medians[runs[i]] = medianOf(times[i]);
  return medians;
}

/// Returns microseconds for the file of choices.
static double microseconds(double milliseconds) {
  return std::isfinite(milliseconds) ? std::round(milliseconds * 1e5) / 1e2 : 0;
}

Choice BlasTuner::choose(const Matmul &matmul, bool timed) {
  if (matmul.epilogue)
    return timed ? chooseEpilogue(matmul) : Choice{kApart};
  std::vector<cublasLtMatmulAlgo_t> algorithms = blas.candidates(matmul);
  if (!timed)
    return {textOf(algorithms[0])};
  Matmul own = place(matmul);
  if (!own.c)
    return {textOf(algorithms[0])};
  std::vector<double> times = timesOf(own, algorithms.size(), [&](size_t i) {
    return blas.tryMultiply(own, algorithms[i], stream);
  });
  size_t best = fastest(times);
  if (!std::isfinite(times[best])) // the step says why none runs
    return {textOf(algorithms[0])};
  return {textOf(algorithms[best]), microseconds(times[0]), microseconds(times[best])};
}

/// Times the algorithms after the matmul and the kernel that computes the epilogue.
Choice BlasTuner::chooseEpilogue(const Matmul &matmul) {
  std::vector<cublasLtMatmulAlgo_t> algorithms = blas.candidates(matmul);
  Matmul own = place(matmul);
  if (algorithms.empty() || !own.c)
    return {kApart};
  std::vector<double> times = timesOf(own, algorithms.size() + 1, [&](size_t i) {
    if (i > 0)
      return blas.tryMultiply(own, algorithms[i - 1], stream);
    blas.multiply(own.alone(), stream);
    own.launchEpilogue(launch);
    return true;
  });
  size_t best = fastest(times);
  return {best == 0 ? kApart : textOf(algorithms[best - 1]), microseconds(times[0]),
          microseconds(times[best])};
}

bool BlasTuner::use(const Matmul &matmul, const std::string &text) {
  if (matmul.epilogue && text == kApart) {
    blas.dropEpilogue(matmul);
    return true;
  }
  cublasLtMatmulAlgo_t algorithm = {};
  return parse(text, algorithm) && blas.use(matmul, algorithm);
}

} // namespace shale::rt::cuda
