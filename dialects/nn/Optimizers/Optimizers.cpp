//===- Optimizers.cpp - The list of optimizers ----------------------------===//
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace shale::nn;

llvm::ArrayRef<const Optimizer *> shale::nn::getOptimizers() {
  static const Optimizer *const all[] = {&AdamwOp::getOptimizer(), &SgdOp::getOptimizer(),
                                         &LionOp::getOptimizer(), &AdafactorOp::getOptimizer()};
  return all;
}

const Optimizer *shale::nn::findOptimizer(llvm::StringRef name) {
  auto found = llvm::find_if(getOptimizers(),
                             [&](const Optimizer *optimizer) { return optimizer->name == name; });
  return found == getOptimizers().end() ? nullptr : *found;
}

const Optimizer *shale::nn::getOptimizer(mlir::Operation *module) {
  auto name = module->getAttrOfType<mlir::StringAttr>(kOptimizerAttr);
  return name ? findOptimizer(name) : nullptr;
}

const HyperParameter *Optimizer::find(llvm::StringRef wanted) const {
  for (const HyperParameter *hyper : getHyperParameters(*this))
    if (hyper->name == wanted)
      return hyper;
  return nullptr;
}

std::string shale::nn::listOptimizers(llvm::StringRef separator) {
  return llvm::join(
      llvm::map_range(getOptimizers(), [](const Optimizer *optimizer) { return optimizer->name; }),
      separator);
}

std::vector<const HyperParameter *> shale::nn::getHyperParameters(const Optimizer &optimizer) {
  std::vector<const HyperParameter *> all;
  for (const HyperParameter &hyper : optimizer.hypers)
    all.push_back(&hyper);
  all.push_back(&kClipGradNorm);
  all.push_back(&kPreviousEnable);
  return all;
}

std::string HyperParameter::flag() const {
  std::string flag = name.str();
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}
