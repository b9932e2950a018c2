//===- Footprint.cpp - Memory of libraries and the process per rank -------===//
#include "lib/Target/CPU/Footprint.h"
#include "lib/Target/CPU/CPU.h"
#include "lib/Target/CPU/Kernels/Kernels.h"
#include "shale/Runtime.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;

// Measured on x86-64 Debian 12 (docs/memory.md): resident pages of a program with
// a few hundred kernels, without its blocks. 11 MB are pages of libraries, 3.5 MB
// are code that oneDNN compiles.
static constexpr int64_t kProcessBytes = 16 << 20;
// Measured: 350 bytes of code and data per call in the program's functions.
static constexpr int64_t kCallBytes = 384;
// Small blocks of a thread's heap, fragmentation around its largest buffer, and the
// used part of its stack.
static constexpr int64_t kThreadBytes = 256 << 10;
// Gloo allocates a few hundred bytes per pair and per message in flight. Socket
// buffers belong to the kernel.
static constexpr int64_t kConnectionBytes = 16 << 10;
// Two buffers in which parameters are gathered and converted, or one write buffer
// (runtime/checkpoint).
static constexpr int64_t kSavingBytes = 1 << 20;

int64_t cpu::matmulWorkspace(int64_t m, int64_t n, int64_t k) {
  // The blocking of oneDNN 2.6 for AVX-512, the largest of all its CPU kinds.
  int64_t columns = llvm::alignTo(std::clamp<int64_t>(n, 48, SHALE_GEMM_COLUMNS), 48);
  int64_t rows = llvm::alignTo(std::clamp<int64_t>(m, 8, SHALE_GEMM_BLOCK), 8);
  int64_t depth = std::clamp<int64_t>(k, 128, SHALE_GEMM_BLOCK);
  return 4 * (columns * depth + depth * rows) + 8192;
}

int64_t cpu::matmulPanels(int64_t m, int64_t n, int64_t k, bool rounds) {
  int64_t rows = std::min<int64_t>(m, SHALE_GEMM_PANEL),
          columns = std::min<int64_t>(n, SHALE_GEMM_PANEL);
  int64_t depth = std::min<int64_t>(k, SHALE_GEMM_BLOCK);
  return 4 * (llvm::alignTo(rows * depth, 16) + llvm::alignTo(columns * depth, 16) +
              (rounds ? llvm::alignTo(rows * columns, 16) : 0));
}

std::vector<FixedCost> CpuTarget::getFixedCosts(ModuleOp module, int64_t ranks,
                                                int64_t threads) const {
  int64_t matmul = 0, scratch = 0, calls = 0;
  auto add = [&](auto gemm) {
    auto shape = gemm.getShape();
    if (gemm.getA().getType().getElementType().isF32()) {
      matmul = std::max(matmul, cpu::matmulWorkspace(shape.m, shape.n, shape.k));
      return;
    }
    int64_t m = std::min<int64_t>(shape.m, SHALE_GEMM_PANEL),
            n = std::min<int64_t>(shape.n, SHALE_GEMM_PANEL);
    matmul =
        std::max(matmul, cpu::matmulWorkspace(m, n, std::min<int64_t>(shape.k, SHALE_GEMM_BLOCK)));
    bool rounds = is16BitFloat(gemm.getC().getType().getElementType());
    scratch = std::max(scratch, cpu::matmulPanels(shape.m, shape.n, shape.k, rounds));
  };
  for (auto function : module.getOps<rt::FuncOp>()) {
    function.walk([&](rt::GemmOp gemm) { add(gemm); });
    function.walk([&](rt::GroupedGemmOp gemm) { add(gemm); });
  }
  for (auto kernel : module.getOps<rt::KernelOp>())
    kernel.getBody().walk(
        [&](cpu::OwnKernelOpInterface own) { scratch = std::max(scratch, own.getScratch()); });
  for (auto function : module.getOps<rt::FuncOp>())
    for (Operation &op : function.getBody().front())
      calls += !isPure(&op);
  std::string many = std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  return {{rt::Category::Workspace, "panels of matmuls, " + many, threads * matmul},
          {rt::Category::Workspace, "scratch of kernels, " + many,
           threads * int64_t(llvm::alignTo(scratch, 4096))},
          {rt::Category::Communication, "connections, bounded", (ranks - 1) * 2 * kConnectionBytes},
          {rt::Category::Fixed, "pieces of what is saved", kSavingBytes},
          {rt::Category::Fixed, "heap and stacks, " + many, threads * kThreadBytes},
          {rt::Category::Fixed, "process, code and libraries, measured",
           int64_t(llvm::alignTo(kProcessBytes + calls * kCallBytes, 4096))}};
}
