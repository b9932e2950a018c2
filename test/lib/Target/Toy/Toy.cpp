//===- Toy.cpp - A target of the tests, and a shalec that has it ----------===//
//
// The smallest target: it calls no library, has no kernels with a schedule of
// their own, computes in f32 alone and makes no code. Its programs end at `rt`
// and are interpreted. docs/howto/add-a-target.md goes through it.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/Target.h"
#include "tools/driver/CommandLine.h"
#include "tools/driver/Compile.h"

using namespace mlir;
using namespace shale;

namespace {
// One operation per second of everything, on one memory.
const StringRef kMachine = R"(
  name = "abacus"
  source = "counted by hand"
  f32_matmuls = 1
  tf32_matmuls = 1
  f16_matmuls = 1
  attention_matmuls = 1
  attention_scores = 1
  device_memory = 4
  host_memory = 4
  host_copies = 4
  one_memory = true
  launch_latency = 1
  node_rate = 4
  node_latency = 1
)";

class ToyTarget final : public Target {
public:
  ToyTarget() : Target("toy:abacus") {}

  // Every op becomes part of a kernel.
  bool isLibraryCall(Operation *op) const override { return false; }
  bool hasOwnKernel(Operation *op) const override { return false; }
  bool takes16BitFloats(Operation *op) const override { return false; }
  bool hasFast16BitFloats() const override { return false; }

  // The interpreter runs the region itself.
  FailureOr<KernelInfo> generateKernel(ModuleOp module, StringRef name,
                                       Region &body) const override {
    return KernelInfo{1, 1, 0};
  }
  FailureOr<std::vector<KernelUsage>> lowerKernels(ModuleOp module) const override {
    return module.emitError("the abacus runs no code: stop at --emit rt");
  }
  LogicalResult emitObject(ModuleOp module, SmallVectorImpl<char> &object) const override {
    return failure();
  }
  std::vector<std::string> getLibraries() const override { return {}; }

  const Rates &getRates() const override { return *ratesNamed("abacus"); }
  std::vector<FixedCost> getFixedCosts(ModuleOp planned, int64_t ranks,
                                       int64_t threads) const override {
    return {{rt::Category::Fixed, "beads", 64}};
  }
};

std::unique_ptr<Target> makeTarget(StringRef architecture, std::string &error) {
  if (architecture == "abacus")
    return std::make_unique<ToyTarget>();
  error = "unknown toy '" + architecture.str() + "'; expected abacus";
  return nullptr;
}
} // namespace

int main(int argc, char **argv) {
  registerTargetKind("toy", {"abacus"}, {kMachine}, makeTarget);
  ParsedOptions parsed = parseOptions(argc, argv);
  return parsed.options ? compile(*parsed.options) : parsed.exitCode;
}
