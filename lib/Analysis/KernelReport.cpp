//===- KernelReport.cpp - What each kernel of a program takes -------------===//
#include "lib/Analysis/KernelReport.h"
#include "dialects/rt/KernelCode.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace shale;

void shale::recordCode(rt::KernelOp kernel, const KernelInfo &info, ArrayRef<KernelUsage> usage) {
  Builder b(kernel.getContext());
  SmallVector<NamedAttribute> code;
  if (info.scratch)
    code.push_back(b.getNamedAttr("scratch", b.getI64IntegerAttr(info.scratch)));
  if (info.threads)
    code.push_back(b.getNamedAttr("threads", b.getI64IntegerAttr(info.threads)));
  SmallVector<Attribute> entries;
  for (const KernelUsage &use : usage) {
    SmallVector<NamedAttribute> entry;
    entry.push_back(b.getNamedAttr("architecture", b.getStringAttr(use.architecture)));
    for (auto [name, value] :
         {std::pair("registers", use.registers), std::pair("shared", use.sharedBytes),
          std::pair("stack", use.stackBytes), std::pair("spilled", use.spilledBytes)})
      entry.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(value)));
    entries.push_back(b.getDictionaryAttr(entry));
  }
  if (!entries.empty())
    code.push_back(b.getNamedAttr("usage", b.getArrayAttr(entries)));
  if (!code.empty())
    kernel->setDiscardableAttr(rt::kCodeAttr, b.getDictionaryAttr(code));
}

namespace {

int64_t numberIn(DictionaryAttr dictionary, StringRef name) {
  auto number = dictionary ? dictionary.getAs<IntegerAttr>(name) : IntegerAttr();
  return number ? number.getInt() : 0;
}

struct Kernel {
  std::string name;
  int64_t rows = 0, grain = 0, scratch = 0, threads = 0;
  int64_t launches = 0; ///< in the text of all functions
  SmallVector<DictionaryAttr> usage;
};

FailureOr<std::vector<Kernel>> collect(ModuleOp module) {
  llvm::MapVector<StringRef, Kernel> kernels;
  for (auto op : module.getOps<rt::KernelOp>()) {
    if (!op.getRows() || !op.getGrain())
      return op.emitOpError() << "is not compiled; there is nothing to report";
    auto code = op->getAttrOfType<DictionaryAttr>(rt::kCodeAttr);
    Kernel kernel;
    kernel.name = op.getSymName().str();
    kernel.rows = *op.getRows();
    kernel.grain = *op.getGrain();
    kernel.scratch = numberIn(code, "scratch");
    kernel.threads = numberIn(code, "threads");
    if (auto usage = code ? code.getAs<ArrayAttr>("usage") : ArrayAttr())
      llvm::append_range(kernel.usage, usage.getAsRange<DictionaryAttr>());
    kernels[op.getSymName()] = std::move(kernel);
  }
  module.walk([&](rt::LaunchOp launch) { ++kernels[launch.getKernel()].launches; });
  // Unless the library computes the epilogue.
  module.walk([&](rt::GemmEpilogueOp gemm) { ++kernels[gemm.getKernel()].launches; });
  std::vector<Kernel> list;
  for (auto &[name, kernel] : kernels)
    list.push_back(std::move(kernel));
  return list;
}

StringRef architectureOf(DictionaryAttr usage) {
  return usage.getAs<StringAttr>("architecture").getValue();
}

void printRows(ArrayRef<Kernel> kernels, StringRef target, raw_ostream &os) {
  os << "kernels of " << target << ": " << kernels.size() << "\n";
  os << llvm::formatv("{0,12} {1,10} {2,10} {3,9}  {4}\n", "rows", "grain", "scratch", "launches",
                      "kernel");
  for (const Kernel &kernel : kernels)
    os << llvm::formatv("{0,12} {1,10} {2,10} {3,9}  {4}\n", kernel.rows, kernel.grain,
                        kernel.scratch, kernel.launches, kernel.name);
}

/// Prints entry `place` (one architecture) of the usage of each kernel. `kind` is the name of the
/// target's kind.
void printBlocks(ArrayRef<Kernel> kernels, StringRef kind, size_t place, raw_ostream &os) {
  int64_t most = 0, spilled = 0;
  for (const Kernel &kernel : kernels) {
    most = std::max(most, numberIn(kernel.usage[place], "registers"));
    spilled += numberIn(kernel.usage[place], "spilled");
  }
  os << "kernels of " << kind << ":" << architectureOf(kernels.front().usage[place]) << ": "
     << kernels.size() << ", at most " << most << " registers, " << spilled << " bytes spilled\n";
  os << llvm::formatv("{0,12} {1,8} {2,10} {3,8} {4,8} {5,8} {6,9}  {7}\n", "blocks", "threads",
                      "registers", "shared", "stack", "spilled", "launches", "kernel");
  for (const Kernel &kernel : kernels) {
    DictionaryAttr use = kernel.usage[place];
    os << llvm::formatv("{0,12} {1,8} {2,10} {3,8} {4,8} {5,8} {6,9}  {7}\n", kernel.rows,
                        kernel.threads, numberIn(use, "registers"), numberIn(use, "shared"),
                        numberIn(use, "stack"), numberIn(use, "spilled"), kernel.launches,
                        kernel.name);
  }
}

llvm::json::Object toJson(const Kernel &kernel) {
  llvm::json::Object object{{"name", kernel.name}, {"launches", kernel.launches}};
  if (kernel.usage.empty()) {
    object["rows"] = kernel.rows;
    object["grain"] = kernel.grain;
    object["scratch"] = kernel.scratch;
    return object;
  }
  object["blocks"] = kernel.rows;
  object["threads"] = kernel.threads;
  llvm::json::Object usage;
  for (DictionaryAttr use : kernel.usage) {
    llvm::json::Object numbers;
    for (StringRef name : {"registers", "shared", "stack", "spilled"})
      numbers[name] = numberIn(use, name);
    usage[architectureOf(use)] = std::move(numbers);
  }
  object["usage"] = std::move(usage);
  return object;
}

} // namespace

LogicalResult shale::reportKernels(ModuleOp module, ReportForm form, raw_ostream &os) {
  const Target *target = targetOf(module);
  FailureOr<std::vector<Kernel>> kernels = collect(module);
  if (!target || failed(kernels))
    return failure();
  if (form == ReportForm::Json) {
    llvm::json::Array list;
    for (const Kernel &kernel : *kernels)
      list.push_back(toJson(kernel));
    llvm::json::Object report{{"target", target->getName()}, {"kernels", std::move(list)}};
    os << llvm::formatv("{0:2}", llvm::json::Value(std::move(report))) << "\n";
    return success();
  }
  // Kernels on host memory are among those of a GPU's program.
  std::vector<Kernel> onDevice, onHost;
  for (Kernel &kernel : *kernels)
    (kernel.usage.empty() ? onHost : onDevice).push_back(std::move(kernel));
  if (!onDevice.empty())
    for (size_t place = 0; place < onDevice.front().usage.size(); ++place)
      printBlocks(onDevice, target->getName().split(':').first, place, os);
  if (!onHost.empty() || onDevice.empty())
    printRows(onHost, (onDevice.empty() ? *target : target->getHost()).getName(), os);
  return success();
}
