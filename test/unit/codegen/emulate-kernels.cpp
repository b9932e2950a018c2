// emulate-kernels PROGRAM.mlir: runs every kernel of a planned program for a GPU in the emulator,
// on random values, and compares it with the interpreter in f64.
//
// usage: emulate-kernels FILE of `shalec --target cuda:.. --emit rt`. Exit code 1 after a
// difference.
#include "KernelRunner.h"
#include "dialects/nn/Ops/Cluster.h"
#include "dialects/rt/RT.h"
#include "lib/Target/Target.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <cstdio>
#include <gtest/gtest.h>

using namespace shale;
using namespace shale::test;
using interp::Tensor;

namespace {

/// Makes a module with @f, which has the kernel as its only op.
mlir::OwningOpRef<mlir::ModuleOp> wrap(rt::KernelOp kernel) {
  mlir::OpBuilder b(kernel.getContext());
  mlir::Location loc = kernel.getLoc();
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::ModuleOp::create(loc);
  b.setInsertionPointToEnd(module->getBody());
  mlir::Block &body = kernel.getBody().front();
  mlir::Operation *yield = body.getTerminator();
  auto function = mlir::func::FuncOp::create(
      b, loc, "f", b.getFunctionType(body.getArgumentTypes(), yield->getOperandTypes()));
  b.setInsertionPointToEnd(function.addEntryBlock());
  auto cluster = nn::ClusterOp::create(b, loc, yield->getOperandTypes(), function.getArguments(),
                                       kernel.getAliasesAttr());
  mlir::func::ReturnOp::create(b, loc, cluster.getResults());
  mlir::IRMapping mapping;
  kernel.getBody().cloneInto(&cluster.getBody(), mapping);
  mlir::Operation *end = cluster.getBody().front().getTerminator();
  b.setInsertionPoint(end);
  nn::YieldOp::create(b, loc, end->getOperands());
  end->erase();
  return module;
}

/// Rates, scales and norms are positive.
std::vector<Tensor> argumentsOf(mlir::ModuleOp module) {
  std::vector<Tensor> arguments = randomArguments(module, 1, 7);
  for (Tensor &argument : arguments)
    if (argument.isFloat() && argument.size() == 1)
      argument.mutableFloats()[0] = std::abs(argument.mutableFloats()[0]) + 0.1;
  for (Tensor &argument : arguments)
    argument.roundToElement();
  return arguments;
}

bool has16BitFloats(rt::KernelOp kernel) {
  auto is = [](mlir::Value value) {
    return is16BitFloat(mlir::cast<mlir::RankedTensorType>(value.getType()).getElementType());
  };
  bool found = llvm::any_of(kernel.getBody().getArguments(), is);
  kernel.getBody().walk(
      [&](mlir::Operation *op) { found = found || llvm::any_of(op->getResults(), is); });
  return found;
}

struct Difference {
  double most = 0;
  int64_t finite = 0; ///< elements that are numbers on both sides
};

Difference compare(const Tensor &found, const Tensor &expected) {
  Difference difference;
  double scale = 1;
  for (int64_t i = 0; i < found.size(); ++i)
    if (std::isfinite(expected.number(i)))
      scale = std::max(scale, std::abs(expected.number(i)));
  for (int64_t i = 0; i < found.size(); ++i) {
    double x = found.number(i), y = expected.number(i);
    if (std::isfinite(x) != std::isfinite(y))
      difference.most = INFINITY;
    if (!std::isfinite(x) || !std::isfinite(y))
      continue;
    ++difference.finite;
    difference.most = std::max(difference.most, std::abs(x - y) / scale);
  }
  return difference;
}

std::string file;

TEST(Emulate, EveryKernelOfAProgram) {
  mlir::MLIRContext context;
  prepare(context);
  auto program = mlir::parseSourceFile<mlir::ModuleOp>(file, &context);
  ASSERT_TRUE(program) << file;
  const Target *target = targetOf(*program);
  ASSERT_TRUE(target);
  int kernels = 0;
  double worst = 0;
  for (auto kernel : program->getOps<rt::KernelOp>()) {
    SCOPED_TRACE(kernel.getSymName().str());
    auto module = wrap(kernel);
    std::vector<Tensor> arguments = argumentsOf(*module), expected = interpret(*module, arguments);
    RunOptions options;
    options.target = target->getName().str();
    options.fuse = false;
    options.dropBarriers = true;
    std::vector<Tensor> found = runNative(*module, arguments, options);
    // The kernel rounds what has a 16-bit type, the reference does not.
    bool halves = has16BitFloats(kernel);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      Difference difference = compare(found[i], expected[i]);
      double bar = halves ? 0.02 : 1e-5;
      EXPECT_LT(difference.most, bar) << "result " << i;
      EXPECT_GT(difference.finite, 0) << "result " << i << " has no finite element";
      if (!halves)
        worst = std::max(worst, difference.most);
    }
    ++kernels;
  }
  EXPECT_GT(kernels, 0);
  std::printf(
      "%d kernels equal the interpreter; largest difference of those without 16-bit floats %.1e\n",
      kernels, worst);
}

} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    std::fprintf(stderr, "usage: emulate-kernels PROGRAM.mlir\n");
    return 64;
  }
  file = argv[1];
  return RUN_ALL_TESTS();
}
