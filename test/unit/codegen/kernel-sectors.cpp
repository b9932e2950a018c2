// kernel-sectors PROGRAM.mlir: counts the sectors of memory that the kernels of a planned program
// for a GPU touch, in the emulator, at the program's own sizes.
//
// A GPU moves memory in sectors of 32 bytes. The lanes of a warp that execute one access together
// touch the sectors in which their bytes are. The least possible number of a warp is that of the
// distinct bytes that it reads of a buffer, and of those that it writes, in sectors. A warp that
// reads bytes twice, or a part of a sector, touches more. A row that does not fit in registers
// must be read once for each of its reductions that depend on each other. Buffers below 1 MiB, such
// as biases and statistics of rows, stay in the cache and are not counted. A sample of the blocks
// runs.
//
// usage: kernel-sectors FILE of `shalec --target cuda:.. --emit rt` [KERNEL RATIO]... Prints a line
// per kernel: sectors touched, least possible, passes, ratio per pass. Exit code 1 if the ratio of
// a kernel is above 1.1. A RATIO allows more to kernels that have KERNEL in their name; it must be
// needed.
#include "KernelRunner.h"
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Ops/Sort.h"
#include "dialects/rt/RT.h"
#include "lib/Target/CUDA/GpuCode.h"
#include "lib/Target/CUDA/GpuSchedule.h"
#include "lib/Target/CUDA/Kernels/Kernels.h"
#include "mlir/Parser/Parser.h"
#include "passes/codegen/Kernel.h"
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>
#include <unordered_map>

using namespace shale;
using namespace shale::test;

namespace {

constexpr int64_t kSector = 32, kWarp = 32;
constexpr double kBar = 1.1;
/// Smaller buffers stay in the cache.
constexpr int64_t kLeastBytes = 1 << 20;

/// Memory of zeros that takes no room until it is written.
struct Buffer {
  char *start;
  int64_t bytes;
};

/// Indices are below `bound`, in no order.
Buffer makeBuffer(mlir::Type type, int64_t bound) {
  auto tensor = mlir::cast<mlir::RankedTensorType>(type);
  mlir::Type element = tensor.getElementType();
  int64_t size = nn::elementBytes(element), bytes = tensor.getNumElements() * size;
  void *memory = mmap(nullptr, bytes + kSector, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("kernel-sectors: mmap");
    std::exit(1);
  }
  auto *start = static_cast<char *>(memory);
  if (element.isInteger(64) || element.isInteger(32))
    for (int64_t i = 0; i < tensor.getNumElements(); ++i) {
      int64_t index = i * 7919 % bound;
      std::memcpy(start + i * size, &index, size);
    }
  return {start, bytes};
}

/// Counts sectors, buffer by buffer.
class Counter final : public emulation::Observer {
public:
  explicit Counter(const std::vector<Buffer> &buffers) : buffers(buffers) {}

  void access(const ShaleThread &thread, const void *address, int32_t bytes, bool write,
              int32_t site) override {
    int64_t warp = thread.thread / kWarp;
    if (thread.block != block) {
      finishBlock();
      block = thread.block;
    }
    auto place = reinterpret_cast<uintptr_t>(address);
    int64_t time = ++times[{thread.thread, site}];
    std::set<uintptr_t> &request = requests[{warp, site, time, bufferOf(address), write}];
    auto &bytesOf = touchedBytes[{warp, bufferOf(address), write}];
    for (uintptr_t at = place; at < place + bytes; ++at) {
      request.insert(at / kSector);
      bytesOf[at / kSector] |= 1u << at % kSector;
    }
  }

  void finishBlock() {
    for (auto &[key, sectors] : requests)
      counts[{std::get<3>(key), std::get<4>(key)}].touched += sectors.size();
    for (auto &[key, masks] : touchedBytes) {
      int64_t bytes = 0;
      for (auto [sector, mask] : masks)
        bytes += __builtin_popcount(mask);
      counts[{std::get<1>(key), std::get<2>(key)}].least += (bytes + kSector - 1) / kSector;
    }
    requests.clear();
    touchedBytes.clear();
    times.clear();
  }

  struct Count {
    int64_t touched = 0, least = 0;
    double ratio() const { return least ? double(touched) / least : 1; }
  };
  std::map<std::pair<size_t, bool>, Count> counts; // by buffer, reads and writes apart

private:
  size_t bufferOf(const void *address) const {
    size_t i = 0;
    while (address < buffers[i].start || address >= buffers[i].start + buffers[i].bytes)
      ++i;
    return i;
  }

  const std::vector<Buffer> &buffers;
  int64_t block = -1;
  std::map<std::pair<int64_t, int32_t>, int64_t> times; // by thread and site
  /// By warp, site, time, buffer and direction.
  std::map<std::tuple<int64_t, int32_t, int64_t, size_t, bool>, std::set<uintptr_t>> requests;
  std::map<std::tuple<int64_t, size_t, bool>, std::unordered_map<uintptr_t, uint32_t>> touchedBytes;
};

/// Returns the rows of the tables that a kernel looks up, or few if it has none.
int64_t boundOf(rt::KernelOp kernel) {
  int64_t bound = 64;
  kernel.getBody().walk([&](mlir::Operation *op) {
    if (auto lookup = mlir::dyn_cast<nn::EmbeddingOp>(op))
      bound = lookup.getTable().getType().getDimSize(0);
    if (auto sum = mlir::dyn_cast<nn::EmbeddingGradOp>(op))
      bound = sum.getResult().getType().getDimSize(0);
    if (auto sort = mlir::dyn_cast<nn::ArgsortOp>(op))
      bound = sort.getBound();
    if (auto sum = mlir::dyn_cast<nn::SortedEmbeddingGradOp>(op))
      bound = sum.getGrad().getType().getDimSize(0);
  });
  return bound;
}

/// Lets the sorted indices of a sum be spread evenly over the rows of the table.
void fillStarts(rt::KernelOp kernel, llvm::ArrayRef<Buffer> buffers) {
  kernel.getBody().walk([&](nn::SortedEmbeddingGradOp op) {
    auto *starts = reinterpret_cast<int32_t *>(
        buffers[mlir::cast<mlir::BlockArgument>(op.getStarts()).getArgNumber()].start);
    int64_t rows = op.getResult().getType().getDimSize(0),
            count = op.getGrad().getType().getDimSize(0);
    for (int64_t row = 0; row <= rows; ++row)
      starts[row] = int32_t(row * count / rows);
  });
}

/// Returns how often a row must be read that does not fit in registers: the reductions of the
/// longest chain and, if results have its size, once more.
int64_t passesOf(rt::KernelOp kernel, const RowForm &form) {
  llvm::DenseMap<mlir::Value, int64_t> before;
  int64_t passes = 1;
  mlir::Block &body = kernel.getBody().front();
  for (mlir::Operation &op : body) {
    int64_t own = 0;
    for (mlir::Value operand : op.getOperands())
      own = std::max(own, before.lookup(operand));
    if (mlir::isa<nn::ReduceOp>(op))
      passes = std::max(passes, ++own);
    if (&op == body.getTerminator() && llvm::any_of(op.getOperands(), [&](mlir::Value result) {
          return before.lookup(result) == own && nn::elements(result) == form.rows * form.columns;
        }))
      passes = std::max(passes, own + 1);
    for (mlir::Value result : op.getResults())
      before[result] = own;
  }
  return passes;
}

/// Returns the passes over memory that the schedule of a kernel needs.
int64_t passesOf(rt::KernelOp kernel) {
  if (llvm::any_of(kernel.getBody().front(),
                   [](mlir::Operation &op) { return mlir::isa<cuda::OwnKernelOpInterface>(op); }))
    return 1;
  mlir::FailureOr<RowForm> form = cuda::chooseForm(kernel.getBody());
  if (failed(form) || form->flat)
    return 1;
  return cuda::chooseSchedule(*form, kernel.getBody()).chunks > 0 ? 1 : passesOf(kernel, *form);
}

/// Runs a sample of a kernel's blocks. Returns the ratio of the sectors touched to the least
/// number.
double measure(rt::KernelOp kernel, const Target &target, const Target &host) {
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(kernel.getLoc());
  auto info = target.generateKernel(*module, "kernel", kernel.getBody());
  if (failed(info))
    return INFINITY;
  auto lowered = cuda::lowerToHost(*module);
  if (failed(lowered))
    return INFINITY;
  Machine machine(*module, host);
  const cuda::HostKernel &code = lowered->front();
  std::vector<Buffer> buffers;
  int64_t bound = boundOf(kernel);
  for (mlir::Type type : kernel.getFunctionType().getInputs())
    buffers.push_back(makeBuffer(type, bound));
  for (mlir::Type type : kernel.getFunctionType().getResults())
    buffers.push_back(makeBuffer(type, bound));
  fillStarts(kernel, buffers);
  std::vector<void *> args;
  emulation::Options options;
  for (const Buffer &buffer : buffers) {
    args.push_back(buffer.start);
    options.buffers.push_back({buffer.start, buffer.bytes});
  }
  llvm::sort(options.buffers);
  options.races = false;
  Counter counter(buffers);
  options.observer = &counter;
  for (int64_t block : {int64_t(0), info->rows / 2, info->rows - 1})
    if (!llvm::is_contained(options.sample, block))
      options.sample.push_back(block);
  emulation::Result result = emulation::run(
      {machine.find<ShaleThreadFunction>("kernel"), info->rows, code.threads, code.sharedBytes},
      args.data(), options);
  counter.finishBlock();
  for (const Buffer &buffer : buffers)
    munmap(buffer.start, buffer.bytes + kSector);
  std::string name = kernel.getSymName().str();
  if (!result.error.empty()) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), result.error.c_str());
    return INFINITY;
  }
  int64_t passes = passesOf(kernel);
  Counter::Count all;
  for (auto &[key, count] : counter.counts) {
    if (buffers[key.first].bytes < kLeastBytes)
      continue;
    all.touched += count.touched;
    all.least += count.least * (key.second ? 1 : passes);
  }
  auto print = [](const std::string &what, const Counter::Count &count, int64_t passes) {
    std::printf("%-60s %9lld %9lld %2lld %6.3f\n", what.c_str(), (long long)count.touched,
                (long long)count.least, (long long)passes, count.ratio());
  };
  print(name, all, passes);
  if (all.ratio() > kBar)
    for (auto &[key, count] : counter.counts)
      print(std::string(key.second ? "  writes" : "  reads") + " buffer " +
                std::to_string(key.first),
            count, 1);
  return all.ratio();
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 2 || argc % 2 != 0) {
    std::fprintf(stderr, "usage: kernel-sectors PROGRAM.mlir [KERNEL RATIO]...\n");
    return 64;
  }
  mlir::MLIRContext context;
  prepare(context);
  auto program = mlir::parseSourceFile<mlir::ModuleOp>(argv[1], &context);
  if (!program)
    return 1;
  std::string error;
  const Target *target = targetOf(*program), *host = findTarget("cpu:native", error);
  int kernels = 0, above = 0;
  std::vector<bool> used(argc);
  for (auto kernel : program->getOps<rt::KernelOp>()) {
    double ratio = measure(kernel, *target, *host), bar = kBar;
    for (int i = 2; i < argc; i += 2)
      if (kernel.getSymName().contains(argv[i])) {
        bar = std::atof(argv[i + 1]);
        used[i] = true;
        if (ratio <= kBar) {
          std::printf("%s needs no bar of its own\n", argv[i]);
          ++above;
        }
      }
    ++kernels;
    above += ratio > bar;
  }
  for (int i = 2; i < argc; i += 2)
    if (!used[i]) {
      std::printf("%s is in the name of no kernel\n", argv[i]);
      ++above;
    }
  std::printf("%d kernels, %d above their bar\n", kernels, above);
  return kernels == 0 || above > 0;
}
