//===- HyperTables.cpp - Tables of hyper-parameters -----------------------===//
#include "passes/program/HyperTables.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace shale;
using namespace shale::abi;

static ShaleHyperSource runtimeSource(nn::HyperSource source) {
  switch (source) {
  case nn::HyperSource::Flag:
    return SHALE_HYPER_FLAG;
  case nn::HyperSource::LearningRate:
    return SHALE_HYPER_LEARNING_RATE;
  case nn::HyperSource::BiasCorrection:
    return SHALE_HYPER_BIAS_CORRECTION;
  case nn::HyperSource::StepPower:
    return SHALE_HYPER_STEP_POWER;
  case nn::HyperSource::PreviousEnable:
    return SHALE_HYPER_PREVIOUS_ENABLE;
  case nn::HyperSource::InverseDecay:
    return SHALE_HYPER_INVERSE_DECAY;
  case nn::HyperSource::AfterFirst:
    return SHALE_HYPER_AFTER_FIRST;
  case nn::HyperSource::OwnRate:
    return SHALE_HYPER_OWN_RATE;
  case nn::HyperSource::NormLimit:
    return SHALE_HYPER_NORM_LIMIT;
  }
  llvm_unreachable("a source without a number");
}

FailureOr<Rows<ShaleHyper>> shale::hyperTable(rt::FuncOp step, ProgramData &data,
                                              const nn::Optimizer &optimizer) {
  SmallVector<StringRef> names(step.getHyper().getAsValueRange<StringAttr>());
  const nn::FileSettings file(step->getParentOfType<ModuleOp>());
  std::vector<Row<ShaleHyper>> rows;
  for (StringRef name : names) {
    const nn::HyperParameter *found = optimizer.find(name);
    if (!found)
      return step.emitOpError("reads '") << name << "', but optimizer '" << optimizer.name
                                         << "' has no such hyper-parameter",
             failure();
    const nn::HyperParameter &hyper = *found;
    ShaleHyperSource source = runtimeSource(hyper.source);
    int64_t base = -1;
    if (source >= SHALE_HYPER_BIAS_CORRECTION && !hyper.text.empty()) {
      base = llvm::find(names, hyper.text) - names.begin();
      if (base == int64_t(names.size()))
        return step.emitOpError("reads '")
                   << name << "' without '" << hyper.text << "', from which it is computed",
               failure();
    }
    Row<ShaleHyper> row;
    row.name = data.text(name);
    row.text = data.text(hyper.text);
    row.value = file.value(hyper);
    row.low = hyper.low;
    row.high = hyper.high;
    row.high_excluded = hyper.highExcluded;
    row.source = source;
    row.base = base;
    row.fixed = file.fixed(name).has_value();
    row.first = file.counter(hyper).first;
    row.step = file.counter(hyper).step;
    rows.push_back(std::move(row));
  }
  return data.table<ShaleHyper>("hyper", rows);
}

ArrayAttr shale::foreignFlags(MLIRContext *context, const nn::Optimizer &own) {
  llvm::SmallSetVector<Attribute, 4> flags;
  for (const nn::Optimizer *optimizer : nn::getOptimizers())
    for (const nn::HyperParameter *hyper : nn::getHyperParameters(*optimizer))
      if (hyper->source == nn::HyperSource::Flag && !own.find(hyper->name))
        flags.insert(StringAttr::get(context, hyper->flag()));
  return ArrayAttr::get(context, flags.getArrayRef());
}
