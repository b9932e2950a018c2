//===- KernelRunner.cpp - Runs functions of nn ops by generated kernels ---===//
#include "KernelRunner.h"
#include "dialects/nn/Ops/Cluster.h"
#include "lib/Options/Options.h"
#include "lib/Target/CUDA/GpuCode.h"
#include "lib/Target/Target.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/codegen/Kernel.h"
#include "passes/codegen/Passes.h"
#include "passes/fusion/Passes.h"
#include "shale/InitAll.h"
#include "shale/Runtime.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace shale;
using interp::Tensor;

/// A plain version of the runtime's sgemm.
extern "C" void *shale_scratch(int64_t bytes, int64_t offset) {
  thread_local std::vector<char> block;
  block.resize(std::max<size_t>(block.size(), bytes + 64));
  return reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(block.data()) + 63) / 64 * 64) +
         offset;
}

/// Keeps the upper half, in the low half of the register: kernels pass values that are exact.
static float narrowToBFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits >>= 16;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

extern "C" void shale_gemm_thread(int32_t ta, int32_t tb, int64_t m, int64_t n, int64_t k,
                                  float alpha, const float *a, int64_t lda, const float *b,
                                  int64_t ldb, float beta, float *c, int64_t ldc) {
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum +=
            double(ta ? a[l * lda + i] : a[i * lda + l]) * (tb ? b[j * ldb + l] : b[l * ldb + j]);
      c[i * ldc + j] = float(alpha * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]));
    }
}

void test::prepare(MLIRContext &context) {
  DialectRegistry registry;
  registerAllDialects(registry);
  context.appendDialectRegistry(registry);
  context.loadAllAvailableDialects();
  context.loadDialect<cf::ControlFlowDialect, affine::AffineDialect, ub::UBDialect>();
}

OwningOpRef<ModuleOp> test::parse(MLIRContext &context, const std::string &text) {
  return parseSourceString<ModuleOp>(text, &context);
}

std::vector<Tensor> test::randomArguments(ModuleOp module, unsigned seed, int64_t bound) {
  std::mt19937 random(seed);
  std::vector<Tensor> arguments;
  auto function = module.lookupSymbol<func::FuncOp>("f");
  for (Type type : function.getArgumentTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    Tensor value(*interp::elementOf(tensor.getElementType()), tensor.getShape());
    for (int64_t i = 0; i < value.size(); ++i) {
      if (value.isFloat())
        value.mutableFloats()[i] = std::normal_distribution<float>()(random);
      else
        value.mutableInts()[i] = tensor.getElementType().isInteger(1)
                                     ? random() % 2
                                     : int64_t(random() % (bound + 1)) - 1;
    }
    value.roundToElement();
    arguments.push_back(value);
  }
  return arguments;
}

OwningOpRef<ModuleOp> test::wrapKernel(rt::KernelOp kernel) {
  OpBuilder b(kernel.getContext());
  Location loc = kernel.getLoc();
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  b.setInsertionPointToEnd(module->getBody());
  Block &body = kernel.getBody().front();
  Operation *yield = body.getTerminator();
  auto function = func::FuncOp::create(
      b, loc, "f", b.getFunctionType(body.getArgumentTypes(), yield->getOperandTypes()));
  b.setInsertionPointToEnd(function.addEntryBlock());
  auto cluster = nn::ClusterOp::create(b, loc, yield->getOperandTypes(), function.getArguments(),
                                       kernel.getAliasesAttr());
  func::ReturnOp::create(b, loc, cluster.getResults());
  IRMapping mapping;
  kernel.getBody().cloneInto(&cluster.getBody(), mapping);
  Operation *end = cluster.getBody().front().getTerminator();
  b.setInsertionPoint(end);
  nn::YieldOp::create(b, loc, end->getOperands());
  end->erase();
  return module;
}

std::vector<Tensor> test::kernelArguments(ModuleOp module) {
  std::vector<Tensor> arguments = randomArguments(module, 1, 7);
  for (Tensor &argument : arguments)
    if (argument.isFloat() && argument.size() == 1)
      argument.mutableFloats()[0] = std::abs(argument.mutableFloats()[0]) + 0.1;
  for (Tensor &argument : arguments)
    argument.roundToElement();
  return arguments;
}

std::vector<Tensor> test::interpret(ModuleOp module, const std::vector<Tensor> &arguments) {
  interp::Options options;
  options.asF64 = true;
  interp::Interpreter interpreter(options);
  auto values = interpreter.run(module.lookupSymbol<func::FuncOp>("f"), {arguments});
  EXPECT_TRUE(succeeded(values));
  return succeeded(values) ? (*values)[0] : std::vector<Tensor>();
}

test::Machine::Machine(ModuleOp kernels, const Target &target) {
  llvm::SmallVector<char, 0> code;
  EXPECT_TRUE(succeeded(target.emitObject(kernels, code)));
  llvm::InitializeNativeTarget();
  jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::orc::SymbolMap symbols;
  symbols[jit->mangleAndIntern("shale_scratch")] = {
      llvm::orc::ExecutorAddr::fromPtr(&shale_scratch), llvm::JITSymbolFlags::Exported};
  symbols[jit->mangleAndIntern("shale_gemm_thread")] = {
      llvm::orc::ExecutorAddr::fromPtr(&shale_gemm_thread), llvm::JITSymbolFlags::Exported};
  // libgcc has it since version 13. Code for the emulator has its own.
  symbols[jit->mangleAndIntern("__truncsfbf2")] = {
      llvm::orc::ExecutorAddr::fromPtr(&narrowToBFloat),
      llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Weak};
  llvm::cantFail(jit->getMainJITDylib().define(llvm::orc::absoluteSymbols(symbols)));
  jit->getMainJITDylib().addGenerator(
      llvm::cantFail(llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
          jit->getDataLayout().getGlobalPrefix())));
  llvm::cantFail(jit->addObjectFile(
      llvm::MemoryBuffer::getMemBufferCopy(StringRef(code.data(), code.size()), "kernels")));
}

test::Machine::Machine(Machine &&) = default;
test::Machine::~Machine() = default;

void *test::Machine::lookup(const std::string &name) {
  return llvm::cantFail(jit->lookup(name)).toPtr<void *>();
}

namespace {

/// Buffers of a launch.
using Buffers = std::vector<std::pair<char *, int64_t>>;

std::vector<Tensor> launch(nn::ClusterOp cluster, const std::vector<Tensor> &operands,
                           llvm::function_ref<void(void *const *, Buffers)> run) {
  std::vector<std::vector<char>> buffers;
  for (const Tensor &operand : operands) {
    buffers.emplace_back(operand.byteSize());
    operand.toBytes(buffers.back().data());
  }
  for (Type type : cluster.getResultTypes()) {
    auto tensor = cast<RankedTensorType>(type);
    Tensor shape(*interp::elementOf(tensor.getElementType()), tensor.getShape());
    // Fill results with NaN or a wrong number, so that missing writes are detected.
    buffers.emplace_back(shape.byteSize(), char(0xff));
  }
  // Results overwrite operands wherever the kernel allows it.
  auto placeOf = [&](size_t result) {
    int64_t alias = cluster.getAliases() ? (*cluster.getAliases())[result] : -1;
    return alias >= 0 ? size_t(alias) : operands.size() + result;
  };
  std::vector<void *> args;
  for (size_t i = 0; i < buffers.size(); ++i)
    args.push_back(buffers[i < operands.size() ? i : placeOf(i - operands.size())].data());
  Buffers views;
  for (std::vector<char> &buffer : buffers)
    views.push_back({buffer.data(), int64_t(buffer.size())});
  run(args.data(), views);
  std::vector<Tensor> results;
  for (auto [i, type] : llvm::enumerate(cluster.getResultTypes())) {
    auto tensor = cast<RankedTensorType>(type);
    results.push_back(Tensor::fromBytes(*interp::elementOf(tensor.getElementType()),
                                        tensor.getShape(), buffers[placeOf(i)].data()));
  }
  return results;
}

} // namespace

namespace {

/// Runs kernels on the CPU.
struct NativeKernels {
  test::Machine machine;

  void run(const std::string &name, const KernelInfo &info, int64_t chunk, void *const *args) {
    auto kernel = machine.find<ShaleKernel>(name);
    chunk = chunk == 0 ? info.rows : (chunk + info.grain - 1) / info.grain * info.grain;
    for (int64_t row = 0; row < info.rows; row += chunk)
      kernel(args, row, std::min(info.rows, row + chunk));
  }
};

/// Runs kernels in the emulator.
struct EmulatedKernels {
  std::vector<cuda::HostKernel> kernels;
  test::Machine machine;

  /// Runs a kernel in several orders of its threads, and without each of its barriers.
  void run(const std::string &name, const KernelInfo &info, bool dropBarriers, void *const *args,
           const Buffers &buffers) {
    auto kernel = llvm::find_if(kernels, [&](auto &k) { return k.name == name; });
    ASSERT_NE(kernel, kernels.end());
    emulation::Launch launch{machine.find<ShaleThreadFunction>(name), info.rows, kernel->threads,
                             kernel->sharedBytes};
    std::vector<char> before = contents(buffers), first;
    auto attempt = [&](emulation::Order order, int32_t dropped) {
      restore(buffers, before);
      emulation::Options options;
      options.order = order;
      options.dropped = dropped;
      for (auto [start, size] : buffers)
        options.buffers.push_back({start, size});
      return emulation::run(launch, args, options);
    };
    std::set<int32_t> barriers;
    for (emulation::Order order :
         {emulation::Order::Random, emulation::Order::Last, emulation::Order::First}) {
      emulation::Result result = attempt(order, -1);
      barriers = result.barriers;
      EXPECT_EQ(result.error, "") << name;
      if (first.empty())
        first = contents(buffers);
      EXPECT_TRUE(first == contents(buffers)) << name << " depends on the order of its threads";
    }
    for (int32_t barrier : dropBarriers ? barriers : std::set<int32_t>()) {
      bool found = false;
      for (emulation::Order order : {emulation::Order::First, emulation::Order::Last})
        found = found || !attempt(order, barrier).error.empty() || first != contents(buffers);
      EXPECT_TRUE(found) << name << " runs without its barrier at site " << barrier;
    }
    restore(buffers, first);
  }

private:
  static std::vector<char> contents(const Buffers &buffers) {
    std::vector<char> bytes;
    for (auto [start, size] : buffers)
      bytes.insert(bytes.end(), start, start + size);
    return bytes;
  }
  static void restore(const Buffers &buffers, const std::vector<char> &bytes) {
    const char *from = bytes.data();
    for (auto [start, size] : buffers) {
      std::copy(from, from + size, start);
      from += size;
    }
  }
};

} // namespace

struct test::CompiledKernels::Code {
  OwningOpRef<ModuleOp> module; // fused; a cluster is a kernel
  DenseMap<Operation *, std::pair<std::string, KernelInfo>> infos;
  std::optional<NativeKernels> native;
  std::optional<EmulatedKernels> emulator;
};

test::CompiledKernels::CompiledKernels(ModuleOp original, const RunOptions &options)
    : dropBarriers(options.dropBarriers), code(std::make_unique<Code>()) {
  code->module = original.clone();
  ModuleOp module = *code->module;
  std::string error;
  const Target *target = findTarget(options.target, error);
  const Target *host = findTarget("cpu:native", error);
  if (!target || !host) {
    ADD_FAILURE() << error;
    return;
  }
  module->setAttr(nn::kTargetAttr, StringAttr::get(module->getContext(), target->getName()));
  PassManager pm(module->getContext());
  if (options.fuse)
    buildFusionPipeline(pm, CompileOptions(), {options.singletons});
  EXPECT_TRUE(succeeded(pm.run(module)));
  isolateOwnKernels(module, *target);
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module->getLoc());
  module->walk([&](nn::ClusterOp cluster) {
    std::string name = "kernel_" + std::to_string(code->infos.size());
    FailureOr<KernelInfo> info = target->generateKernel(*kernels, name, cluster.getBody());
    EXPECT_TRUE(succeeded(info));
    if (succeeded(info))
      code->infos[cluster] = {name, *info};
  });
  if (StringRef(options.target).starts_with("cuda:")) {
    auto lowered = cuda::lowerToHost(*kernels);
    EXPECT_TRUE(succeeded(lowered));
    if (succeeded(lowered))
      code->emulator.emplace(EmulatedKernels{std::move(*lowered), test::Machine(*kernels, *host)});
  } else {
    EXPECT_TRUE(succeeded(target->lowerKernels(*kernels)));
    code->native.emplace(NativeKernels{test::Machine(*kernels, *target)});
  }
}

test::CompiledKernels::~CompiledKernels() = default;

int test::CompiledKernels::count() const { return code->infos.size(); }

std::vector<Tensor> test::CompiledKernels::run(const std::vector<Tensor> &arguments,
                                               int64_t chunk) {
  interp::Interpreter interpreter{interp::Options()};
  DenseMap<Value, Tensor> values;
  auto function = code->module->lookupSymbol<func::FuncOp>("f");
  for (auto [argument, value] : llvm::zip(function.getArguments(), arguments))
    values[argument] = value;
  std::vector<Tensor> results;
  for (Operation &op : function.getBody().front()) {
    std::vector<Tensor> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values[operand]);
    if (isa<func::ReturnOp>(op))
      return operands;
    if (auto cluster = dyn_cast<nn::ClusterOp>(op)) {
      auto &[name, info] = code->infos[&op];
      results = launch(cluster, operands,
                       [&, &name = name, &info = info](void *const *args, const Buffers &views) {
                         if (code->native)
                           code->native->run(name, info, chunk, args);
                         else if (code->emulator)
                           code->emulator->run(name, info, dropBarriers, args, views);
                       });
    } else {
      auto computed = interpreter.runOp(&op, {operands});
      EXPECT_TRUE(succeeded(computed));
      results = (*computed)[0];
    }
    for (auto [result, value] : llvm::zip(op.getResults(), results))
      values[result] = value;
  }
  return {};
}

std::vector<Tensor> test::runNative(ModuleOp module, const std::vector<Tensor> &arguments,
                                    const RunOptions &options, int *kernelCount) {
  CompiledKernels kernels(module, options);
  if (kernelCount)
    *kernelCount = kernels.count();
  return kernels.run(arguments);
}
