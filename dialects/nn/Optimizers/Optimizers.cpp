//===- Optimizers.cpp - All optimizers ------------------------------------===//
#include "dialects/nn/Optimizers.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Ops/State.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <cmath>
#include <limits>

using namespace shale::nn;

template <typename Op> using Description = decltype(Op::getOptimizer());

/// Returns the descriptions of those ops that are optimizers' updates.
template <typename... Ops> static std::vector<const Optimizer *> describe() {
  std::vector<const Optimizer *> all;
  auto add = [&](auto *op) {
    using Op = std::remove_pointer_t<decltype(op)>;
    if constexpr (llvm::is_detected<Description, Op>::value)
      all.push_back(&Op::getOptimizer());
  };
  (add(static_cast<Ops *>(nullptr)), ...);
  return all;
}

static std::vector<const Optimizer *> listDefaultFirst() {
  std::vector<const Optimizer *> all = describe<
#define GET_OP_LIST
#include "dialects/nn/Ops/Optimizer.cpp.inc"
      >();
  std::stable_partition(all.begin(), all.end(), [](const Optimizer *optimizer) {
    return optimizer == &AdamwOp::getOptimizer();
  });
  return all;
}

llvm::ArrayRef<const Optimizer *> shale::nn::getOptimizers() {
  static const std::vector<const Optimizer *> all = listDefaultFirst();
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

const Optimizer &shale::nn::getOptimizer(StateOp param, const Optimizer &main) {
  auto name = param->getAttrOfType<mlir::StringAttr>(kOptimizerAttr);
  const Optimizer *found = name ? findOptimizer(name) : nullptr;
  return found ? *found : main;
}

const Optimizer *shale::nn::getOptimizerOf(StateOp param) {
  const Optimizer *main = getOptimizer(param->getParentOfType<mlir::ModuleOp>());
  return main ? &getOptimizer(param, *main) : nullptr;
}

llvm::ArrayRef<HyperParameter> shale::nn::getOperandHypers(const Optimizer &main,
                                                           const Optimizer &own) {
  if (main.rest && &main.rest->optimizer() == &own)
    return main.rest->hypers.take_front(own.hypers.size());
  return own.hypers;
}

std::vector<const HyperParameter *> shale::nn::getHyperParameters(const Optimizer &optimizer) {
  std::vector<const HyperParameter *> all;
  llvm::StringSet<> names;
  for (llvm::ArrayRef<HyperParameter> list :
       {optimizer.hypers,
        optimizer.rest ? optimizer.rest->hypers : llvm::ArrayRef<HyperParameter>()})
    for (const HyperParameter &hyper : list)
      if (names.insert(hyper.name).second)
        all.push_back(&hyper);
  all.push_back(&kClipGradNorm);
  all.push_back(&kNormLimit);
  all.push_back(&kPreviousEnable);
  return all;
}

double HyperParameter::derived(double base, double t) const {
  switch (source) {
  case HyperSource::BiasCorrection:
    return t > 0 ? 1 - std::pow(base, t) : 1;
  case HyperSource::StepPower:
    return std::pow(t, text.empty() ? value : base);
  case HyperSource::InverseDecay:
    return 1 / (1 + t * base);
  case HyperSource::AfterFirst:
    return t > 0 ? base : 1;
  case HyperSource::PreviousEnable:
    return 1;
  case HyperSource::NormLimit:
    return std::numeric_limits<double>::infinity();
  case HyperSource::Flag:
  case HyperSource::LearningRate:
  case HyperSource::OwnRate: // of the process, which has the schedule
    return base;
  }
  llvm_unreachable("a source without a value");
}

FileSettings::FileSettings(mlir::Operation *module)
    : hypers(module->getAttrOfType<mlir::DictionaryAttr>(kHypersAttr)),
      defaults(module->getAttrOfType<mlir::DictionaryAttr>(kHyperDefaultsAttr)),
      count(module->getAttrOfType<mlir::DenseI64ArrayAttr>(kCounterAttr)) {}

std::optional<double> FileSettings::fixed(llvm::StringRef name) const {
  auto value = hypers ? hypers.getAs<mlir::FloatAttr>(name) : mlir::FloatAttr();
  return value ? std::optional(value.getValueAsDouble()) : std::nullopt;
}

double FileSettings::value(const HyperParameter &hyper) const {
  if (std::optional<double> value = fixed(hyper.name))
    return *value;
  auto value = defaults ? defaults.getAs<mlir::FloatAttr>(hyper.name) : mlir::FloatAttr();
  return value ? value.getValueAsDouble() : hyper.value;
}

UpdateCounter FileSettings::counter(const HyperParameter &hyper) const {
  return count ? UpdateCounter{count[0], count[1]} : hyper.counter();
}

std::string HyperParameter::flag() const {
  std::string flag = name.str();
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}
