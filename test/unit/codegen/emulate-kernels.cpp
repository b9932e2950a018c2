// emulate-kernels PROGRAM.mlir: runs every kernel of a planned program for a GPU in the emulator,
// on random values, and compares it with the interpreter in f64.
//
// usage: emulate-kernels FILE of `shalec --target cuda:.. --emit rt`. Exit code 1 after a
// difference.
#include "KernelRunner.h"
#include "dialects/rt/RT.h"
#include "lib/Target/Target.h"
#include "mlir/Parser/Parser.h"
#include <cmath>
#include <cstdio>
#include <gtest/gtest.h>

using namespace shale;
using namespace shale::test;
using interp::Tensor;

namespace {

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

/// Whether a result has 8-bit floats.
bool is8Bit(const Tensor &tensor) {
  return tensor.element() == interp::Element::F8E4M3 || tensor.element() == interp::Element::F8E5M2;
}

/// Compares 8-bit floats, to which the reference is rounded here. The kernel rounds numbers of f32:
/// where they are next to the middle between two neighbours it may take the other one, which
/// happens at few elements, `percent`.
void compare8Bit(const Tensor &found, const Tensor &expected, int64_t percent) {
  std::vector<char> bytes(found.size()), wanted(found.size());
  found.toBytes(bytes.data());
  Tensor rounded(found.element(), found.shape());
  for (int64_t i = 0; i < found.size(); ++i)
    rounded.mutableFloats()[i] = interp::roundFloat(found.element(), expected.number(i));
  rounded.toBytes(wanted.data());
  int64_t different = 0, finite = 0;
  for (int64_t i = 0; i < found.size(); ++i) {
    finite += std::isfinite(expected.number(i));
    if (std::isnan(expected.number(i)) && std::isnan(found.number(i)))
      continue;
    // Codes of neighbours of one sign are consecutive; the zeros have two.
    int away = std::abs((bytes[i] & 0x7f) - (wanted[i] & 0x7f));
    EXPECT_LE(away, 1) << "element " << i << " of " << expected.number(i);
    different += bytes[i] != wanted[i];
  }
  EXPECT_LE(100 * different, percent * found.size()) << "elements that are not the nearest";
  EXPECT_GT(finite, 0);
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
    auto module = wrapKernel(kernel);
    std::vector<Tensor> arguments = kernelArguments(*module),
                        expected = interpret(*module, arguments);
    RunOptions options;
    options.target = target->getName().str();
    options.fuse = false;
    options.dropBarriers = true;
    std::vector<Tensor> found = runNative(*module, arguments, options);
    // The kernel rounds what has a 16-bit type, the reference does not.
    bool narrow = has16BitFloats(kernel);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      SCOPED_TRACE("result " + std::to_string(i));
      if (is8Bit(found[i])) {
        // What the kernel rounded to 16 bits before is off by up to a sixteenth of a distance.
        compare8Bit(found[i], expected[i], narrow ? 10 : 1);
        continue;
      }
      Difference difference = compare(found[i], expected[i]);
      double bar = narrow ? 0.02 : 1e-5;
      EXPECT_LT(difference.most, bar) << "result " << i;
      EXPECT_GT(difference.finite, 0) << "result " << i << " has no finite element";
      if (!narrow)
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
