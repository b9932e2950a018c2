//===- Tables.cpp - The program's tables ----------------------------------===//
//
// Rows have the fields of the structs of include/shale/Runtime.h in their order,
// including `pad_` fields.
//
//===----------------------------------------------------------------------===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/State.h"
#include "dialects/nn/Optimizers.h"
#include "lib/Analysis/ProgramSummary.h"
#include "lib/Codegen/ConstantData.h"
#include "lib/Interpreter/Tensor.h"
#include "lib/Target/Target.h"
#include "passes/program/FileFacts.h"
#include "passes/program/GroupTables.h"
#include "passes/program/KernelTables.h"
#include "passes/program/Program.h"
#include "shale/Runtime.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace shale;

namespace {
class Tables {
public:
  Tables(ModuleOp module, const ProgramOptions &options)
      : module(module), options(options), data(module, "shale") {}
  LogicalResult run();

private:
  Datum axes();
  FailureOr<Datum> parameters();
  FailureOr<Datum> initOf(nn::StateOp state);
  FailureOr<Datum> groups();
  FailureOr<Datum> states();
  Datum inputs(rt::FuncOp step);
  Datum names(StringRef what, ArrayAttr strings);
  Datum sites(const ProgramSummary &summary);
  Datum plan(const ProgramSummary &summary);
  Datum buffers(const ProgramSummary &summary);
  Datum transfers(const ProgramSummary &summary);
  int64_t tokensPerStep(rt::FuncOp step);
  StringRef strategyWord();
  Datum kept();
  void findSlots();
  int64_t runtimeRole(nn::StateOp state);
  FailureOr<Datum> hypers(rt::FuncOp step, const nn::Optimizer &optimizer);
  SmallVector<Attribute> foreignFlags(const nn::Optimizer &own);
  bool isTransient(StringRef name);
  Datum dims(ArrayRef<int64_t> shape) {
    std::vector<Datum> values;
    for (int64_t size : shape)
      values.push_back(data.i64(size));
    return data.array("dims", std::move(values));
  }

  ModuleOp module;
  const ProgramOptions &options;
  ConstantData data;
  int64_t axisCount = 0, stateCount = 0, keptCount = 0;
  llvm::SmallVector<StringAttr, 0> slots; // names of the optimizer's state
  ParameterIndex parameterIndex;
  GroupIndex groupIndex;
};
} // namespace

Datum Tables::axes() {
  std::vector<Datum> rows;
  if (dist::MeshOp mesh = dist::getMesh(module))
    for (auto [name, kind, size] :
         llvm::zip(mesh.getAxes().getAsRange<StringAttr>(), mesh.getKinds(), mesh.getSizes()))
      rows.push_back(
          data.fields({data.string(name.getValue()), data.i64(size), data.i32(kind), data.i32(0)}));
  else
    rows.push_back(
        data.fields({data.string("ranks"), data.i64(1), data.i32(SHALE_AXIS_SHARD), data.i32(0)}));
  axisCount = rows.size();
  return data.array("axes", std::move(rows));
}

FailureOr<Datum> Tables::initOf(nn::StateOp state) {
  RankedTensorType type = state.getTensorType();
  Attribute init = state.getInitAttr();
  auto place = dyn_cast_or_null<nn::FileAttr>(init);
  auto dense = dyn_cast_or_null<DenseElementsAttr>(init);
  Type stored = place   ? place.elementTypeFor(type.getElementType(), type.getNumElements())
                : dense ? dense.getElementType()
                        : type.getElementType();
  auto row = [&](int64_t kind, bool transposed, double fill, const Datum &file, int64_t size,
                 int64_t offset, int64_t length, const FileFacts &facts = {}) {
    return data.fields({data.i32(kind), data.i32(transposed), data.f64(fill), file, data.i64(size),
                        data.i64(offset), data.i64(length), data.i64(facts.hash),
                        data.f64(facts.mean), data.f64(facts.deviation),
                        data.i32(runtimeType(stored)), data.i32(0)});
  };
  if (nn::FileAttr file = place) {
    SmallString<256> path(file.getPath());
    uint64_t size = 0;
    if (auto error = llvm::sys::fs::make_absolute(path))
      return state.emitOpError("cannot resolve ") << file.getPath() << ": " << error.message(),
             failure();
    auto error = llvm::sys::fs::file_size(path, size);
    if (error == std::errc::no_such_file_or_directory) // the program exits with 66 if the file is
                                                       // still missing
      return row(SHALE_INIT_FILE, file.getTransposed(), 0,
                 data.string(embeddedPath(path, options.folder)), 0, file.getOffset(),
                 file.getLength());
    if (error)
      return state.emitOpError("cannot find its initial values in ")
                 << path << ": " << error.message(),
             failure();
    if (uint64_t(file.getOffset()) > size || uint64_t(file.getLength()) > size - file.getOffset())
      return state.emitOpError("its initial values end beyond ")
                 << path << " of " << size << " bytes",
             failure();
    std::optional<FileFacts> facts =
        factsOfFile(path, file.getOffset(), file.getLength(), type.clone(stored));
    if (!facts)
      return state.emitOpError("cannot read its initial values in ") << path, failure();
    return row(SHALE_INIT_FILE, file.getTransposed(), 0,
               data.string(embeddedPath(path, options.folder)), size, file.getOffset(),
               file.getLength(), *facts);
  }
  if (dense) {
    interp::Tensor value = interp::Tensor::fromAttr(dense);
    std::string bytes(value.byteSize(), 0);
    value.toBytes(bytes.data());
    return row(SHALE_INIT_DATA, false, 0, data.string(bytes), 0, 0, bytes.size());
  }
  double fill = 0;
  if (auto attr = dyn_cast_or_null<nn::FillAttr>(init))
    fill = attr.getValue().getValueAsDouble();
  return row(SHALE_INIT_FILL, false, fill, data.null(), 0, 0, 0);
}

static bool isParameter(nn::StateOp state) {
  return (state.getRole() == nn::Role::Param || state.getRole() == nn::Role::Divided ||
          state.getRole() == nn::Role::Buffer || state.getRole() == nn::Role::Running ||
          state.getRole() == nn::Role::LossScale) &&
         !state->hasAttr(dist::kUnitAttr) && !state->hasAttr(nn::kPartAttr);
}

static bool isBuffer(nn::StateOp state) {
  return state.getRole() == nn::Role::Buffer || state.getRole() == nn::Role::Running;
}

FailureOr<Datum> Tables::parameters() {
  std::vector<Datum> rows;
  for (auto state : module.getOps<nn::StateOp>()) {
    if (!isParameter(state))
      continue;
    FailureOr<Datum> init = initOf(state);
    if (failed(init))
      return failure();
    std::vector<Datum> aliases;
    if (ArrayAttr names = state.getNamesAttr())
      for (auto name : names.getAsRange<StringAttr>())
        if (name.getValue() != state.getSymName())
          aliases.push_back(data.string(name.getValue()));
    if (!aliases.empty())
      aliases.push_back(data.null());
    RankedTensorType type = state.getTensorType();
    parameterIndex[state.getSymNameAttr()] = rows.size();
    rows.push_back(
        data.fields({data.string(state.getSymName()), data.array("aliases", std::move(aliases)),
                     data.i32(runtimeType(type.getElementType())), data.i32(type.getRank()),
                     dims(type.getShape()), data.i64(type.getNumElements()),
                     data.i32(!isBuffer(state) && state.getRole() != nn::Role::LossScale &&
                              state.getTrained().value_or(true)),
                     data.i32(!isBuffer(state)                  ? 0
                              : isTransient(state.getSymName()) ? 2
                                                                : 1),
                     *init}));
  }
  return data.array("parameters", std::move(rows));
}

/// Whether the model's state_dict does not contain a buffer.
bool Tables::isTransient(StringRef name) {
  auto buffers = module->getAttrOfType<DictionaryAttr>("nn.buffers");
  auto fields = buffers ? buffers.getAs<DictionaryAttr>(name) : DictionaryAttr();
  return fields && !fields.getAs<BoolAttr>("persistent").getValue();
}

/// Returns the table of buffers and parameters of the state_dict that are not state of the program.
Datum Tables::kept() {
  std::vector<Datum> rows;
  auto add = [&](StringRef name, RankedTensorType type, nn::FileAttr file) {
    int64_t element = type ? runtimeType(type.getElementType()) : -1;
    bool known = element >= 0 && llvm::sys::fs::exists(file.getPath());
    FileFacts facts;
    if (known)
      facts = factsOfFile(file.getPath(), file.getOffset(), file.getLength(), type).value_or(facts);
    uint64_t size = 0;
    if (known)
      (void)llvm::sys::fs::file_size(file.getPath(), size);
    Datum init = data.fields(
        {data.i32(SHALE_INIT_FILE), data.i32(0), data.f64(0),
         known ? data.string(embeddedPath(file.getPath(), options.folder)) : data.null(),
         data.i64(size), data.i64(known ? file.getOffset() : 0),
         data.i64(known ? file.getLength() : 0), data.i64(facts.hash), data.f64(facts.mean),
         data.f64(facts.deviation), data.i32(known ? element : 0), data.i32(0)});
    rows.push_back(data.fields(
        {data.string(name), data.null(), data.i32(known ? element : -1),
         data.i32(known ? type.getRank() : 0), known ? dims(type.getShape()) : data.null(),
         data.i64(known ? type.getNumElements() : 0), data.i32(0), data.i32(1), init}));
  };
  if (auto buffers = module->getAttrOfType<DictionaryAttr>("nn.buffers"))
    for (NamedAttribute entry : buffers) {
      auto fields = cast<DictionaryAttr>(entry.getValue());
      if (!fields.getAs<BoolAttr>("persistent").getValue() ||
          module.lookupSymbol<nn::StateOp>(entry.getName()))
        continue;
      auto type = fields.getAs<TypeAttr>("type");
      add(entry.getName(), type ? cast<RankedTensorType>(type.getValue()) : RankedTensorType(),
          fields.getAs<nn::FileAttr>("init"));
    }
  // Parameters that no op reads.
  if (auto absent = module->getAttrOfType<ArrayAttr>("nn.absent"))
    for (StringRef name : absent.getAsValueRange<StringAttr>())
      add(name, RankedTensorType(), nn::FileAttr());
  keptCount = rows.size();
  return data.array("kept", std::move(rows));
}

FailureOr<Datum> Tables::groups() {
  // State outside of units is a group of its own.
  SmallVector<Operation *> alone;
  for (auto state : module.getOps<nn::StateOp>())
    if (isParameter(state) && module.lookupSymbol<rt::SlotOp>(rt::slotName(state.getSymName())))
      alone.push_back(state);
  return groupTable(module, data, parameterIndex, alone, groupIndex);
}

int64_t Tables::runtimeRole(nn::StateOp state) {
  if (StringAttr slot = state.getSlotAttr())
    return SHALE_ROLE_SLOT + int64_t(llvm::find(slots, slot) - slots.begin());
  return state.getRole() == nn::Role::LossScale ? SHALE_ROLE_LOSS_SCALE : SHALE_ROLE_PARAM;
}

/// Lists the names of the optimizer's state, in the order in which they first occur.
void Tables::findSlots() {
  llvm::SmallSetVector<StringAttr, 2> found;
  for (auto state : module.getOps<nn::StateOp>())
    if (state.getSlotAttr())
      found.insert(state.getSlotAttr());
  slots.assign(found.begin(), found.end());
}

static int64_t runtimeSource(nn::HyperSource source) {
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
  case nn::HyperSource::NormLimit:
    return SHALE_HYPER_NORM_LIMIT;
  }
  llvm_unreachable("a source without a number");
}

/// Describes the scalars that @step reads.
FailureOr<Datum> Tables::hypers(rt::FuncOp step, const nn::Optimizer &optimizer) {
  SmallVector<StringRef> names(step.getHyper().getAsValueRange<StringAttr>());
  const nn::FileSettings file(module);
  std::vector<Datum> rows;
  for (StringRef name : names) {
    const nn::HyperParameter *found = optimizer.find(name);
    if (!found)
      return step.emitOpError("reads '") << name << "', but optimizer '" << optimizer.name
                                         << "' has no such hyper-parameter",
             failure();
    const nn::HyperParameter &hyper = *found;
    int64_t source = runtimeSource(hyper.source), base = -1;
    if (source >= SHALE_HYPER_BIAS_CORRECTION && !hyper.text.empty()) {
      base = llvm::find(names, hyper.text) - names.begin();
      if (base == int64_t(names.size()))
        return step.emitOpError("reads '")
                   << name << "' without '" << hyper.text << "', from which it is computed",
               failure();
    }
    rows.push_back(
        data.fields({data.string(name), data.string(hyper.text), data.f64(file.value(hyper)),
                     data.f64(hyper.low), data.f64(hyper.high), data.i32(hyper.highExcluded),
                     data.i32(source), data.i32(base), data.i32(file.fixed(name).has_value()),
                     data.i64(file.counter(hyper).first), data.i64(file.counter(hyper).step)}));
  }
  return data.array("hyper", std::move(rows));
}

/// Returns the flags of other optimizers.
SmallVector<Attribute> Tables::foreignFlags(const nn::Optimizer &own) {
  llvm::SmallSetVector<Attribute, 4> flags;
  for (const nn::Optimizer *optimizer : nn::getOptimizers())
    for (const nn::HyperParameter &hyper : optimizer->hypers)
      if (hyper.source == nn::HyperSource::Flag && !own.find(hyper.name))
        flags.insert(StringAttr::get(module.getContext(), hyper.flag()));
  return llvm::to_vector(flags);
}

/// Returns the offset of the host's block in the state table, where it follows the device's block.
static int64_t hostStateBegin(ModuleOp module) {
  auto bytes = module->getAttrOfType<IntegerAttr>(rt::kStateBytesAttr);
  return bytes ? bytes.getInt() : 0;
}

FailureOr<Datum> Tables::states() {
  std::vector<Datum> rows;
  for (auto slot : module.getOps<rt::SlotOp>()) {
    // Gradients live within one step only: they are neither initialized nor saved.
    if (slot.getCategory() == rt::Category::Gradients)
      continue;
    auto state = module.lookupSymbol<nn::StateOp>(rt::stateNameOf(slot.getSymName()));
    if (!state)
      return slot.emitOpError("belongs to no nn.state"), failure();
    std::pair<StringAttr, int64_t> key;
    if (auto unit = state->getAttrOfType<FlatSymbolRefAttr>(dist::kUnitAttr)) {
      auto group = state->getAttrOfType<IntegerAttr>(dist::kGroupAttr);
      key = {unit.getAttr(), group ? group.getInt() : 0};
    } else {
      key = {state.getOfAttr() ? state.getOfAttr().getAttr() : state.getSymNameAttr(), -1};
    }
    auto it = groupIndex.find(key);
    if (it == groupIndex.end())
      return state.emitOpError("belongs to no group"), failure();
    auto type = cast<RankedTensorType>(slot.getType());
    int64_t axis = slot.getAxis() ? axisIndex(module, *slot.getAxis()) : -1;
    if (slot.getAxis() && axis < 0)
      return slot.emitOpError() << "the mesh has no axis \"" << *slot.getAxis() << "\"", failure();
    rows.push_back(
        data.fields({data.i32(it->second), data.i32(runtimeRole(state)),
                     data.i32(runtimeType(type.getElementType())), data.i32(axis),
                     data.i64(slot.getOffset() +
                              (slot.getMemory() == mem::Memory::Host ? hostStateBegin(module) : 0)),
                     data.i64(type.getNumElements())}));
  }
  stateCount = rows.size();
  return data.array("states", std::move(rows));
}

Datum Tables::inputs(rt::FuncOp step) {
  std::vector<Datum> rows;
  for (auto input : step.getInputs().getAsRange<DictionaryAttr>()) {
    auto type = cast<RankedTensorType>(input.getAs<TypeAttr>("type").getValue());
    auto bound = input.getAs<IntegerAttr>("bound"), ignored = input.getAs<IntegerAttr>("ignored");
    rows.push_back(data.fields({data.string(input.getAs<StringAttr>("name").getValue()),
                                data.string(input.getAs<StringAttr>("binding").getValue()),
                                data.i32(runtimeType(type.getElementType())),
                                data.i32(type.getRank()), dims(type.getShape()),
                                data.i32(input.getAs<IntegerAttr>("batch_dim").getInt()),
                                data.i32(0), data.i64(bound ? bound.getInt() : 0),
                                data.i64(ignored ? ignored.getInt() : 0)}));
  }
  return data.array("inputs", std::move(rows));
}

Datum Tables::names(StringRef what, ArrayAttr strings) {
  std::vector<Datum> rows;
  for (auto name : strings.getAsRange<StringAttr>())
    rows.push_back(data.string(name.getValue()));
  return data.array(what, std::move(rows));
}

Datum Tables::sites(const ProgramSummary &summary) {
  std::vector<Datum> rows;
  for (const CollectiveSite &site : summary.sites) {
    int64_t kind = site.kind == CollectiveKind::AllGather       ? SHALE_ALL_GATHER
                   : site.kind == CollectiveKind::ReduceScatter ? SHALE_REDUCE_SCATTER
                                                                : SHALE_ALL_REDUCE;
    rows.push_back(
        data.fields({data.string(site.name), data.i32(kind), data.i32(axisIndex(module, site.axis)),
                     data.i64(site.sentBytes), data.i64(site.times), data.i32(site.bucket),
                     data.i32(site.bucketSize)}));
  }
  return data.array("sites", std::move(rows));
}

Datum Tables::plan(const ProgramSummary &summary) {
  std::vector<Datum> rows;
  for (const PlanLine &line : summary.lines)
    rows.push_back(
        data.fields({data.string(rt::stringifyCategory(line.category)), data.string(line.what),
                     data.string(mem::stringifyMemory(line.memory)), data.i64(line.bytes)}));
  return data.array("plan", std::move(rows));
}

Datum Tables::buffers(const ProgramSummary &summary) {
  std::vector<Datum> rows;
  for (const PlannedBuffer &buffer : summary.buffers)
    rows.push_back(
        data.fields({data.string(buffer.name), data.string(rt::stringifyCategory(buffer.category)),
                     data.string((buffer.memory == mem::Memory::Host ? "host " : "") +
                                 rt::stringifySpace(buffer.space).str()),
                     data.i64(buffer.offset), data.i64(buffer.bytes), data.i64(buffer.padding)}));
  return data.array("buffers", std::move(rows));
}

Datum Tables::transfers(const ProgramSummary &summary) {
  std::vector<Datum> rows;
  for (const MemoryCopy &copy : summary.copies)
    rows.push_back(data.fields({data.string(copy.name), data.string(copy.source),
                                data.i64(copy.bytes), data.i64(copy.times),
                                data.i32(copy.target == mem::Memory::Host), data.i32(0)}));
  return data.array("transfers", std::move(rows));
}

/// Returns the elements of the first input (the tokens of a language model) over all ranks.
int64_t Tables::tokensPerStep(rt::FuncOp step) {
  if (step.getInputs().empty())
    return 0;
  auto input = cast<DictionaryAttr>(step.getInputs()[0]);
  int64_t tokens =
      cast<RankedTensorType>(input.getAs<TypeAttr>("type").getValue()).getNumElements();
  dist::MeshOp mesh = dist::getMesh(module);
  if (mesh && input.getAs<IntegerAttr>("batch_dim").getInt() >= 0)
    for (StringRef axis : mesh.getDataAxes())
      tokens *= mesh.getSize(axis);
  return tokens;
}

/// Returns the usual name of the strategy: full sharding within each of several replicas is
/// "hybrid".
StringRef Tables::strategyWord() {
  dist::Strategy strategy = dist::getStrategy(module);
  dist::MeshOp mesh = dist::getMesh(module);
  bool hybrid =
      dist::splitsParameters(strategy) && mesh && mesh.getRanksOf(dist::AxisKind::Replica) > 1;
  return hybrid ? "hybrid" : dist::stringifyStrategy(strategy);
}

LogicalResult Tables::run() {
  auto step = module.lookupSymbol<rt::FuncOp>("step");
  auto evaluate = module.lookupSymbol<rt::FuncOp>("evaluate");
  if (!step)
    return module.emitError("a program needs an rt.func @step");
  for (auto other : module.getOps<rt::FuncOp>())
    if (other.getInputs() != step.getInputs())
      return other.emitOpError("must have the inputs of @step: one table serves all");
  const nn::Optimizer *optimizer = nn::getOptimizer(module);
  if (!optimizer)
    return module.emitError("a program needs the attribute '")
           << nn::kOptimizerAttr << "', set by --shale-autodiff";
  FailureOr<ProgramSummary> summary = summarizeProgram(module);
  if (failed(summary))
    return failure();
  findSlots();
  Datum axisTable = axes();
  FailureOr<Datum> parameterTable = parameters();
  if (failed(parameterTable))
    return failure();
  FailureOr<Datum> groupTable = groups();
  if (failed(groupTable))
    return failure();
  FailureOr<Datum> stateTable = states();
  if (failed(stateTable))
    return failure();
  Datum keptTable = kept();
  auto modelFile = module->getAttrOfType<StringAttr>("nn.model");
  std::string model = !modelFile               ? "program"
                      : options.folder.empty() ? modelFile.str()
                                               : embeddedPath(modelFile, options.folder);
  auto function = [&](StringRef name) {
    return module.lookupSymbol<rt::FuncOp>(name) ? data.address(("shale_" + name).str())
                                                 : data.null();
  };
  const Target *target = targetOf(module);
  if (!target)
    return failure();
  FailureOr<Datum> hyperTable = hypers(step, *optimizer);
  if (failed(hyperTable))
    return failure();
  ArrayAttr slotNames =
      ArrayAttr::get(module.getContext(), SmallVector<Attribute>(slots.begin(), slots.end()));
  ArrayAttr foreign = ArrayAttr::get(module.getContext(), foreignFlags(*optimizer));
  ArrayAttr evalMetrics =
      evaluate ? evaluate.getMetrics() : ArrayAttr::get(module.getContext(), {});
  int64_t constantBytes = layOutConstants(module).bytes, codeBytes = 0, kernelCount = 0;
  Datum code = deviceCode(module, data, codeBytes),
        kernels = deviceKernels(module, data, kernelCount);
  int64_t launchedCount = 0;
  Datum operandTable = kernelOperands(module, data, launchedCount);
  Datum program = data.fields({data.i32(SHALE_ABI_VERSION),
                               data.i32(summary->ranks),
                               data.string(model),
                               data.string(target->getArchitecture()),
                               data.string(target->getHost().getArchitecture()),
                               data.string(strategyWord()),
                               data.string(optimizer->name),
                               data.string(options.describe),
                               data.i32(axisCount),
                               data.i32(parameterIndex.size()),
                               data.i32(groupIndex.size()),
                               data.i32(stateCount),
                               data.i32(step.getInputs().size()),
                               data.i32(step.getHyper().size()),
                               data.i32(step.getMetrics().size()),
                               data.i32(evalMetrics.size()),
                               data.i32(summary->sites.size()),
                               data.i32(summary->lines.size()),
                               data.i32(summary->buffers.size()),
                               data.i32(summary->microbatches),
                               data.i32(keptCount),
                               data.i32(slotNames.size()),
                               data.i32(foreign.size()),
                               data.i32(dist::reducesAtEnd(dist::getStrategy(module))),
                               axisTable,
                               *parameterTable,
                               *groupTable,
                               *stateTable,
                               inputs(step),
                               names("slots", slotNames),
                               names("foreign_flags", foreign),
                               *hyperTable,
                               names("metrics", step.getMetrics()),
                               names("eval_metrics", evalMetrics),
                               sites(*summary),
                               plan(*summary),
                               buffers(*summary),
                               transfers(*summary),
                               keptTable,
                               data.i64(summary->stateBytes.device),
                               data.i64(summary->arenaBytes.device),
                               data.i64(summary->stateBytes.host),
                               data.i64(summary->arenaBytes.host),
                               data.i64(int64_t(summary->copies.size())),
                               data.i64(summary->commScratchBytes),
                               data.i64(tokensPerStep(step) * summary->microbatches),
                               data.i64(summary->flops - summary->recomputedFlops),
                               function("accumulate_first"),
                               function("accumulate"),
                               data.address("shale_step"),
                               evaluate ? data.address("shale_evaluate") : data.null(),
                               constantBytes ? data.address(kConstants) : data.null(),
                               data.i64(constantBytes),
                               code,
                               data.i64(codeBytes),
                               kernels,
                               data.i64(kernelCount),
                               data.i64(summary->attentions > 0),
                               data.i64(module->hasAttr(rt::kAllowTf32Attr)),
                               data.i64(options.hostLimit),
                               data.i64(options.totalLimit),
                               operandTable,
                               data.i64(launchedCount)});
  data.define("shale_program", program, LLVM::Linkage::External);
  return success();
}

LogicalResult shale::defineProgramTables(ModuleOp module, const ProgramOptions &options) {
  return Tables(module, options).run();
}
