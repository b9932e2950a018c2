//===- CUDA.cpp - NVIDIA GPUs ---------------------------------------------===//
#include "lib/Target/CUDA/CUDA.h"
#include "dialects/nn/Ops/Epilogue.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Quantize.h"
#include "dialects/nn/Ops/Sdpa.h"
#include "lib/Target/CPU/CPU.h"
#include "lib/Target/CUDA/AttentionBytes.h"
#include "lib/Target/CUDA/Kernels/Kernels.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/IR/DialectRegistry.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

#include "lib/Target/CUDA/Kernels/OwnKernel.cpp.inc"

/// The architectures of the A100, of the H100 and H200, and of the B200, with the lowest PTX
/// version that has each.
static constexpr Architecture kArchitectures[] = {{"sm_80", "ptx70", 80, "a100"},
                                                  {"sm_90a", "ptx80", 90, "h100"},
                                                  {"sm_100a", "ptx86", 100, "b200"},
                                                  {"emulated", "", 90, ""}};

CudaTarget::CudaTarget(StringRef names, std::vector<Architecture> architectures)
    : Target(("cuda:" + names).str()), architectures(std::move(architectures)),
      host(std::make_unique<CpuTarget>("x86-64-v3", 8)) {}

/// Whether cuDNN computes this attention, or gradient of an attention. It has no gradient for one
/// position.
template <typename OpT> static bool isInCudnn(OpT op, ArrayRef<Architecture> architectures) {
  nn::AttentionSizes s = op.getSizes();
  auto fits = [](int64_t depth) { return depth > 0 && depth <= 128 && depth % 8 == 0; };
  // On compute capability 9.0 the gradient without the causal mask may be NaN where half of the
  // last 128 keys is missing and all scores of a position are below -88 (cuDNN 9.20 to 9.26,
  // github.com/pytorch/pytorch/issues/196678).
  bool wrong =
      !op.getCausal() && s.keyLength % 128 == 64 &&
      llvm::any_of(architectures, [](const Architecture &a) { return a.capability == 90; });
  return is16BitFloat(getElementTypeOrSelf(op.getInputs().front())) && fits(s.depth) &&
         fits(s.valueDepth) && s.batch > 0 && s.length > 1 && s.keyLength > 1 && !wrong;
}

#ifdef SHALE_WITH_CUDNN
static constexpr bool kCallsCudnn = true;
#else // the runtime was built without the headers of cuDNN or of its frontend
static constexpr bool kCallsCudnn = false;
#endif

/// Whether cuBLASLt has matmuls with these operands and an epilogue. The rows of values before an
/// activation begin at multiples of 16 bytes.
static bool isInCublas(nn::MatmulEpilogueOp op) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  auto lhs = cast<RankedTensorType>(op.getLhs().getType());
  return is16BitFloat(type.getElementType()) && type.getNumElements() > 0 &&
         lhs.getNumElements() > 0 && type.getDimSize(1) % 8 == 0;
}

bool CudaTarget::isLibraryCall(Operation *op) const {
  if (auto matmul = dyn_cast<nn::MatmulEpilogueOp>(op))
    return isInCublas(matmul);
  if (auto sdpa = dyn_cast<nn::SdpaOp>(op))
    return kCallsCudnn && isInCudnn(sdpa, architectures);
  if (auto sdpa = dyn_cast<nn::SdpaGradOp>(op))
    return kCallsCudnn && isInCudnn(sdpa, architectures);
  return isa<nn::MatmulOp, nn::MatmulAddOp, nn::QuantizedMatmulOp>(op) &&
         !getElementTypeOrSelf(op->getResult(0)).isF64();
}

bool CudaTarget::has8BitMatmuls() const {
  return llvm::all_of(architectures, [](const Architecture &a) { return a.capability >= 90; });
}

int64_t CudaTarget::workspaceBytes(Operation *op) const {
  auto most = [&](auto sdpa, bool gradient, bool deterministic) {
    nn::AttentionSizes s = sdpa.getSizes();
    AttentionSizes sizes{s.batch,     s.heads, s.keyHeads,  s.length,
                         s.keyLength, s.depth, s.valueDepth};
    int64_t bytes = 0;
    for (const Architecture &architecture : architectures)
      bytes =
          std::max(bytes, attentionBytes(sizes, gradient, deterministic, architecture.capability));
    return bytes;
  };
  if (auto sdpa = dyn_cast<nn::SdpaOp>(op))
    return most(sdpa, /*gradient=*/false, /*deterministic=*/false);
  if (auto sdpa = dyn_cast<nn::SdpaGradOp>(op))
    return most(sdpa, /*gradient=*/true, sdpa.getDeterministic());
  return 0;
}

int64_t CudaTarget::reductionParts(int64_t results, int64_t each, bool trailing) const {
  // The rates of column reductions are constant from about 400 to 1500 blocks
  // (docs/measurements/h200.md, section C). A launch costs more than a few thousand elements.
  constexpr int64_t blocks = 512, strip = 128, leastRow = 4096, leastColumn = 64;
  int64_t alone = trailing ? results : llvm::divideCeil(results, strip);
  int64_t most = each / (trailing ? leastRow : leastColumn);
  return results == 0 ? 1 : std::clamp<int64_t>(blocks / alone, 1, std::max<int64_t>(1, most));
}

int64_t CudaTarget::paddedSize(int64_t size, Type element) const {
  // Matmuls of 16-bit floats whose rows do not begin at multiples of 16 bytes take two to six
  // times as long, and large ones are fastest at multiples of 128
  // (docs/measurements/h200.md, section D).
  constexpr int64_t vector = 8, small = 64, large = 1024, tile = 128;
  if (!is16BitFloat(element) || size % vector == 0 || size < small)
    return size;
  return llvm::alignTo(size, size >= large ? tile : vector);
}

bool CudaTarget::joinsMatmuls(Type element) const {
  // On an H100 the gradients of query, key and value of Llama 1B take 563 instead of 641 us, those
  // of gate and up 3.07 instead of 3.13 ms (docs/measurements/gpu.md), and f32 sums of f32 are not
  // rounded.
  return is16BitFloat(element);
}

bool CudaTarget::sortsLookups(int64_t rows, int64_t indices) const {
  // The kernel of nn.embedding_grad adds one occurrence of a row after another; three launches cost
  // more than that of few indices. Sorted positions are 32-bit numbers.
  constexpr int64_t least = 1024;
  return indices >= least && indices < INT32_MAX && rows < INT32_MAX;
}

bool CudaTarget::hasOwnKernel(Operation *op) const {
  auto own = dyn_cast<cuda::OwnKernelOpInterface>(op);
  return own && own.isSupported();
}

bool CudaTarget::storesCasts(Operation *op) const {
  auto own = dyn_cast<cuda::OwnKernelOpInterface>(op);
  return own && own.storesCasts();
}

static std::unique_ptr<Target> makeTarget(StringRef names, std::string &error) {
  std::vector<Architecture> chosen;
  SmallVector<StringRef> parts;
  names.split(parts, ',');
  for (StringRef name : parts) {
    auto known =
        llvm::find_if(kArchitectures, [&](const Architecture &a) { return a.name == name; });
    if (known == std::end(kArchitectures)) {
      SmallVector<StringRef> all;
      for (const Architecture &architecture : kArchitectures)
        all.push_back(architecture.name);
      error = "unknown GPU architecture '" + name.str() + "'; expected " + llvm::join(all, ", ") +
              ", or a list of them";
      return nullptr;
    }
    if (llvm::any_of(chosen, [&](const Architecture &a) { return a.name == name; })) {
      error = "GPU architecture '" + name.str() + "' is listed twice";
      return nullptr;
    }
    chosen.push_back(*known);
  }
  if (chosen.size() > 1 &&
      llvm::any_of(chosen, [](const Architecture &a) { return a.isEmulated(); })) {
    error = "'emulated' cannot be in a list of GPU architectures";
    return nullptr;
  }
  return std::make_unique<CudaTarget>(names, std::move(chosen));
}

/// The GPUs among the choices of --machine.
static constexpr StringRef kMachines[] = {
#include "lib/Target/CUDA/Machines.inc"
};

void shale::registerCudaTarget() {
  registerTargetKind("cuda", {"sm_80", "sm_90a", "sm_100a", "emulated"}, kMachines, makeTarget);
}

const Rates &CudaTarget::getRates() const {
  const Rates *machine = ratesNamed(architectures.front().machine);
  return machine ? *machine : host->getRates();
}

void shale::registerCudaKernels(DialectRegistry &registry) {
  registry.insert<gpu::GPUDialect, NVVM::NVVMDialect>();
  // convert-gpu-to-nvvm also converts the dialects with these interfaces.
  arith::registerConvertArithToLLVMInterface(registry);
  cf::registerConvertControlFlowToLLVMInterface(registry);
  registerConvertMemRefToLLVMInterface(registry);
  vector::registerConvertVectorToLLVMInterface(registry);
  registry.addExtension(+[](MLIRContext *context, nn::NNDialect *) {
    // Passes that generate kernels do not depend on the dialects of a target.
    context->loadDialect<gpu::GPUDialect, NVVM::NVVMDialect>();
    cuda::attachGroupedMatmulKernels(*context);
    cuda::attachSortKernels(*context);
    cuda::attachSortedSumKernels(*context);
    cuda::attachTableKernels(*context);
    cuda::attachUpdateKernels(*context);
  });
}
