// record-kernels PROGRAM.mlir PREFIX: runs every kernel of a planned program for a GPU in the
// emulator, and records what a GPU needs to do the same and to compare the bits.
//
// usage: record-kernels FILE of `shalec --target cuda:.. --emit rt`, and where to write
//   PREFIX.code   the kernels for the program's GPUs, as cuModuleLoadData() takes them
//   PREFIX.bytes  buffers of each kernel in turn: all before the launch, then all after it
//   PREFIX.json   {"kernels": [{"name", "function" in the code, "blocks", "threads", "buffers":
//                 [{"bytes", "type"}], "arguments": numbers of buffers}]}
// Values are random from a fixed seed; results that are not written yet are bytes 0xff. Kernels on
// the host are left out. Exit code 1 after an error, which is printed.
#include "KernelRunner.h"
#include "dialects/nn/Ops/Cluster.h"
#include "lib/Target/CUDA/GpuCode.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include <cstdio>

using namespace shale;
using namespace shale::test;
using interp::Tensor;

namespace {

int fail(const llvm::Twine &message) {
  std::fprintf(stderr, "record-kernels: error: %s\n", message.str().c_str());
  return 1;
}

/// A kernel with its buffers.
struct Recorded {
  rt::KernelOp kernel;
  KernelInfo info;
  std::string function;
  std::vector<std::vector<char>> buffers;
  llvm::json::Array described;   ///< the buffers
  std::vector<size_t> arguments; ///< numbers of buffers
};

llvm::json::Object describe(mlir::Type type, size_t bytes) {
  std::string text;
  llvm::raw_string_ostream(text) << mlir::cast<mlir::RankedTensorType>(type).getElementType();
  return llvm::json::Object{{"bytes", int64_t(bytes)}, {"type", text}};
}

/// Makes the buffers of a launch. A result takes the place of its operand where the plan may do so.
void fillBuffers(Recorded &recorded) {
  mlir::Block &body = recorded.kernel.getBody().front();
  auto module = wrapKernel(recorded.kernel);
  for (const auto &[value, argument] :
       llvm::zip_equal(kernelArguments(*module), body.getArguments())) {
    recorded.arguments.push_back(recorded.buffers.size());
    value.toBytes(recorded.buffers.emplace_back(value.byteSize()).data());
    recorded.described.push_back(describe(argument.getType(), value.byteSize()));
  }
  auto aliases = recorded.kernel.getAliasesAttr();
  for (auto [i, result] : llvm::enumerate(body.getTerminator()->getOperandTypes())) {
    int64_t alias = aliases ? aliases.asArrayRef()[i] : -1;
    recorded.arguments.push_back(alias >= 0 ? size_t(alias) : recorded.buffers.size());
    if (alias >= 0)
      continue;
    auto tensor = mlir::cast<mlir::RankedTensorType>(result);
    Tensor shape(*interp::elementOf(tensor.getElementType()), tensor.getShape());
    recorded.buffers.emplace_back(shape.byteSize(), char(0xff));
    recorded.described.push_back(describe(result, shape.byteSize()));
  }
}

/// Runs a kernel. Returns what the emulator found wrong.
std::string emulate(Recorded &recorded, const cuda::HostKernel &kernel, Machine &machine) {
  std::vector<void *> args;
  emulation::Options options;
  for (size_t buffer : recorded.arguments)
    args.push_back(recorded.buffers[buffer].data());
  for (std::vector<char> &buffer : recorded.buffers)
    options.buffers.push_back({buffer.data(), int64_t(buffer.size())});
  emulation::Launch launch{machine.find<ShaleThreadFunction>(kernel.name), recorded.info.rows,
                           kernel.threads, kernel.sharedBytes};
  return emulation::run(launch, args.data(), options).error;
}

/// Returns the code that lowerKernels() made.
llvm::StringRef codeOf(mlir::ModuleOp module) {
  auto global = module.lookupSymbol<mlir::LLVM::GlobalOp>(kDeviceCode);
  return global ? mlir::cast<mlir::StringAttr>(global.getValueAttr()).getValue() : "";
}

bool write(const std::string &path, llvm::function_ref<void(llvm::raw_ostream &)> body) {
  std::error_code error;
  llvm::raw_fd_ostream file(path, error);
  if (!error) {
    body(file);
    file.close();
    error = file.error();
    file.clear_error();
  }
  return !error || (fail(path + ": " + error.message()), false);
}

int record(mlir::ModuleOp program, const std::string &prefix) {
  const Target *target = targetOf(program);
  std::string error;
  const Target *host = findTarget("cpu:native", error);
  if (!target || !host)
    return fail("no target: " + error);
  mlir::OwningOpRef<mlir::ModuleOp> onDevice = mlir::ModuleOp::create(program.getLoc());
  std::vector<Recorded> all;
  for (auto kernel : program.getOps<rt::KernelOp>()) {
    if (kernel.getHost())
      continue;
    std::string name = "kernel_" + std::to_string(all.size());
    auto info = target->generateKernel(*onDevice, name, kernel.getBody());
    if (failed(info))
      return fail("no code for kernel " + kernel.getSymName());
    all.push_back({kernel, *info, name, {}, {}, {}});
    fillBuffers(all.back());
  }
  mlir::OwningOpRef<mlir::ModuleOp> onHost = onDevice->clone();
  auto lowered = cuda::lowerToHost(*onHost);
  if (all.empty() || failed(lowered) || failed(target->lowerKernels(*onDevice)))
    return fail("no kernels, or they are not lowered");
  Machine machine(*onHost, *host);

  llvm::json::Array kernels;
  auto contents = [](llvm::raw_ostream &os, const Recorded &recorded) {
    for (const std::vector<char> &buffer : recorded.buffers)
      os.write(buffer.data(), buffer.size());
  };
  bool written = write(prefix + ".bytes", [&](llvm::raw_ostream &os) {
    for (Recorded &recorded : all) {
      auto kernel = llvm::find_if(*lowered, [&](auto &k) { return k.name == recorded.function; });
      contents(os, recorded);
      error = kernel == lowered->end() ? "not lowered" : emulate(recorded, *kernel, machine);
      if (!error.empty()) {
        error = recorded.kernel.getSymName().str() + ": " + error;
        return;
      }
      contents(os, recorded);
      kernels.push_back(llvm::json::Object{{"name", recorded.kernel.getSymName()},
                                           {"function", recorded.function},
                                           {"blocks", recorded.info.rows},
                                           {"threads", kernel->threads},
                                           {"buffers", std::move(recorded.described)},
                                           {"arguments", llvm::json::Array(recorded.arguments)}});
    }
  });
  if (!error.empty())
    return fail(error);
  size_t count = kernels.size();
  written = written &&
            write(prefix + ".code", [&](llvm::raw_ostream &os) { os << codeOf(*onDevice); }) &&
            write(prefix + ".json", [&](llvm::raw_ostream &os) {
              os << llvm::json::Value(llvm::json::Object{{"kernels", std::move(kernels)}});
            });
  if (written)
    std::printf("%zu kernels recorded\n", count);
  return written ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: record-kernels PROGRAM.mlir PREFIX\n");
    return 64;
  }
  mlir::MLIRContext context;
  prepare(context);
  auto program = mlir::parseSourceFile<mlir::ModuleOp>(argv[1], &context);
  return program ? record(*program, argv[2]) : 1;
}
