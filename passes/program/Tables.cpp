//===- Tables.cpp - The program's tables ----------------------------------===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/Bindings.h"
#include "dialects/nn/Ops/State.h"
#include "dialects/nn/Optimizers.h"
#include "lib/Analysis/ProgramSummary.h"
#include "lib/Codegen/ProgramData.h"
#include "lib/Interpreter/Tensor.h"
#include "lib/Target/Target.h"
#include "passes/program/FileFacts.h"
#include "passes/program/GroupTables.h"
#include "passes/program/KernelTables.h"
#include "passes/program/Program.h"
#include "passes/program/SummaryTables.h"
#include "shale/Runtime.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FileSystem.h"

using namespace mlir;
using namespace shale;
using namespace shale::abi;

namespace {
class Tables {
public:
  Tables(ModuleOp module, const ProgramOptions &options)
      : module(module), options(options), data(module, "shale") {}
  LogicalResult run();

private:
  Rows<ShaleAxis> axes();
  Rows<ShaleJointAxis> jointAxes();
  FailureOr<Rows<ShaleParameter>> parameters();
  FailureOr<Row<ShaleInit>> initOf(nn::StateOp state);
  FailureOr<Rows<ShaleGroup>> groups();
  FailureOr<Rows<ShaleState>> states();
  Rows<ShaleInput> inputs(rt::FuncOp step);
  Rows<const char *> names(StringRef what, ArrayAttr strings);
  int64_t tokensPerStep(rt::FuncOp step);
  StringRef strategyWord();
  Rows<ShaleParameter> kept();
  void findSlots();
  int64_t runtimeRole(nn::StateOp state);
  FailureOr<Rows<ShaleHyper>> hypers(rt::FuncOp step, const nn::Optimizer &optimizer);
  SmallVector<Attribute> foreignFlags(const nn::Optimizer &own);
  bool isTransient(StringRef name);
  /// Sets the fields that depend on the functions of the program and their memory.
  void describeFunctions(Row<ShaleProgram> &program, const ProgramSummary &summary);

  ModuleOp module;
  const ProgramOptions &options;
  ProgramData data;
  llvm::SmallVector<StringAttr, 0> slots; // names of the optimizer's state
  ParameterIndex parameterIndex;
  GroupIndex groupIndex;
};
} // namespace

Rows<ShaleAxis> Tables::axes() {
  std::vector<Row<ShaleAxis>> rows;
  auto add = [&](StringRef name, int64_t size, bool splitsBatch) {
    Row<ShaleAxis> row;
    row.name = data.text(name);
    row.size = size;
    row.splits_batch = splitsBatch;
    rows.push_back(std::move(row));
  };
  if (dist::MeshOp mesh = dist::getMesh(module))
    for (auto name : mesh.getAxes().getAsRange<StringAttr>())
      add(name, mesh.getSize(name), mesh.splitsInputs(name));
  else
    add("ranks", 1, true);
  return data.table<ShaleAxis>("axes", rows);
}

Rows<ShaleJointAxis> Tables::jointAxes() {
  std::vector<Row<ShaleJointAxis>> rows;
  if (dist::MeshOp mesh = dist::getMesh(module))
    for (StringRef name : mesh.getJointNames()) {
      Row<ShaleJointAxis> row;
      row.name = data.text(name);
      row.size = mesh.getSize(name);
      SmallVector<int32_t> members;
      for (StringRef member : dist::MeshOp::membersOf(name))
        members.push_back(int32_t(mesh.indexOf(member)));
      row.members = Rows<int32_t>{data.words("members", members).symbol, int64_t(members.size())};
      rows.push_back(std::move(row));
    }
  return data.table<ShaleJointAxis>("joint_axes", rows);
}

static void setFacts(Row<ShaleInit> &row, const FileFacts &facts) {
  row.hash = facts.hash;
  row.mean = facts.mean;
  row.deviation = facts.deviation;
}

/// Returns an initial value without a file, of zeros.
static Row<ShaleInit> emptyInit(ShaleInitKind kind) {
  Row<ShaleInit> row;
  row.kind = kind;
  row.transposed = 0;
  row.fill = 0;
  row.file = nullptr;
  row.file_size = 0;
  row.offset = 0;
  row.length = 0;
  row.type = SHALE_F32;
  setFacts(row, {});
  return row;
}

FailureOr<Row<ShaleInit>> Tables::initOf(nn::StateOp state) {
  RankedTensorType type = state.getTensorType();
  Attribute init = state.getInitAttr();
  auto place = dyn_cast_or_null<nn::FileAttr>(init);
  auto dense = dyn_cast_or_null<DenseElementsAttr>(init);
  Type stored = place   ? place.elementTypeFor(type.getElementType(), type.getNumElements())
                : dense ? dense.getElementType()
                        : type.getElementType();
  Row<ShaleInit> row = emptyInit(SHALE_INIT_FILL);
  row.type = runtimeType(stored);
  if (nn::FileAttr file = place) {
    SmallString<256> path(file.getPath());
    uint64_t size = 0;
    if (auto error = llvm::sys::fs::make_absolute(path))
      return state.emitOpError("cannot resolve ") << file.getPath() << ": " << error.message(),
             failure();
    auto error = llvm::sys::fs::file_size(path, size);
    row.kind = SHALE_INIT_FILE;
    row.transposed = file.getTransposed();
    row.file = data.text(embeddedPath(path, options.folder));
    row.offset = file.getOffset();
    row.length = file.getLength();
    if (error == std::errc::no_such_file_or_directory) // the program exits with 66 if the file is
                                                       // still missing
      return row;
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
    row.file_size = int64_t(size);
    setFacts(row, *facts);
    return row;
  }
  if (dense) {
    interp::Tensor value = interp::Tensor::fromAttr(dense);
    std::string bytes(value.byteSize(), 0);
    value.toBytes(bytes.data());
    row.kind = SHALE_INIT_DATA;
    row.file = data.text(bytes);
    row.length = int64_t(bytes.size());
    return row;
  }
  if (auto attr = dyn_cast_or_null<nn::FillAttr>(init))
    row.fill = attr.getValue().getValueAsDouble();
  return row;
}

static bool isParameter(nn::StateOp state) {
  return (state.getRole() == nn::Role::Param || state.getRole() == nn::Role::Divided ||
          state.getRole() == nn::Role::Buffer || state.getRole() == nn::Role::Running ||
          state.getRole() == nn::Role::LossScale || state.getRole() == nn::Role::Residual) &&
         !state->hasAttr(dist::kUnitAttr) && !state->hasAttr(nn::kPartAttr);
}

/// Returns the type of the value of which each rank has the part of its coordinates, from the type
/// of a residual: a dimension for each axis of the mesh comes first.
static RankedTensorType valueOfRanks(nn::StateOp residual) {
  RankedTensorType own = residual.getTensorType();
  SmallVector<int64_t> shape;
  dist::MeshOp mesh = dist::getMesh(residual);
  for (auto axis : mesh.getAxes().getAsRange<StringAttr>())
    shape.push_back(mesh.getSize(axis));
  llvm::append_range(shape, own.getShape());
  return own.clone(shape);
}

static bool isBuffer(nn::StateOp state) {
  return state.getRole() == nn::Role::Buffer || state.getRole() == nn::Role::Running;
}

FailureOr<Rows<ShaleParameter>> Tables::parameters() {
  std::vector<Row<ShaleParameter>> rows;
  for (auto state : module.getOps<nn::StateOp>()) {
    if (!isParameter(state))
      continue;
    FailureOr<Row<ShaleInit>> init = initOf(state);
    if (failed(init))
      return failure();
    std::vector<Address<const char>> aliases;
    if (ArrayAttr names = state.getNamesAttr())
      for (auto name : names.getAsRange<StringAttr>())
        if (name.getValue() != state.getSymName())
          aliases.push_back(data.text(name.getValue()));
    if (!aliases.empty())
      aliases.emplace_back(); // the end
    RankedTensorType type = state.getTensorType();
    if (state.getRole() == nn::Role::Residual)
      type = valueOfRanks(state);
    parameterIndex[state.getSymNameAttr()] = rows.size();
    Row<ShaleParameter> row;
    row.name = data.text(state.getSymName());
    row.aliases =
        Address<const char *const>{data.addresses<const char *>("aliases", aliases).symbol};
    row.type = runtimeType(type.getElementType());
    row.rank = type.getRank();
    row.dims = data.numbers("dims", type.getShape());
    row.count = type.getNumElements();
    row.trained = !isBuffer(state) && state.getRole() != nn::Role::LossScale &&
                  state.getRole() != nn::Role::Residual && state.getTrained().value_or(true);
    row.buffer = !isBuffer(state) ? 0 : isTransient(state.getSymName()) ? 2 : 1;
    row.init = *init;
    rows.push_back(std::move(row));
  }
  return data.table<ShaleParameter>("parameters", rows);
}

/// Whether the model's state_dict does not contain a buffer.
bool Tables::isTransient(StringRef name) {
  auto buffers = module->getAttrOfType<DictionaryAttr>(nn::kBuffersAttr);
  auto fields = buffers ? buffers.getAs<DictionaryAttr>(name) : DictionaryAttr();
  return fields && !fields.getAs<BoolAttr>("persistent").getValue();
}

/// Returns the table of buffers and parameters of the state_dict that are not state of the program.
Rows<ShaleParameter> Tables::kept() {
  std::vector<Row<ShaleParameter>> rows;
  auto add = [&](StringRef name, RankedTensorType type, nn::FileAttr file) {
    ShaleType element = type ? runtimeType(type.getElementType()) : SHALE_NO_TYPE;
    Row<ShaleParameter> row;
    row.name = data.text(name);
    row.aliases = nullptr;
    row.type = SHALE_NO_TYPE;
    row.rank = 0;
    row.dims = nullptr;
    row.count = 0;
    row.trained = 0;
    row.buffer = 1;
    row.init = emptyInit(SHALE_INIT_FILE);
    if (element != SHALE_NO_TYPE && llvm::sys::fs::exists(file.getPath())) {
      row.type = element;
      row.rank = type.getRank();
      row.dims = data.numbers("dims", type.getShape());
      row.count = type.getNumElements();
      uint64_t size = 0;
      (void)llvm::sys::fs::file_size(file.getPath(), size);
      row.init.type = element;
      row.init.file = data.text(embeddedPath(file.getPath(), options.folder));
      row.init.file_size = int64_t(size);
      row.init.offset = file.getOffset();
      row.init.length = file.getLength();
      setFacts(row.init, factsOfFile(file.getPath(), file.getOffset(), file.getLength(), type)
                             .value_or(FileFacts()));
    }
    rows.push_back(std::move(row));
  };
  if (auto buffers = module->getAttrOfType<DictionaryAttr>(nn::kBuffersAttr))
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
  if (auto absent = module->getAttrOfType<ArrayAttr>(nn::kAbsentAttr))
    for (StringRef name : absent.getAsValueRange<StringAttr>())
      add(name, RankedTensorType(), nn::FileAttr());
  return data.table<ShaleParameter>("kept", rows);
}

FailureOr<Rows<ShaleGroup>> Tables::groups() {
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
  return state.getRole() == nn::Role::LossScale  ? SHALE_ROLE_LOSS_SCALE
         : state.getRole() == nn::Role::Residual ? SHALE_ROLE_RESIDUAL
                                                 : SHALE_ROLE_PARAM;
}

/// Lists the names of the optimizer's state, in the order in which they first occur.
void Tables::findSlots() {
  llvm::SmallSetVector<StringAttr, 2> found;
  for (auto state : module.getOps<nn::StateOp>())
    if (state.getSlotAttr())
      found.insert(state.getSlotAttr());
  slots.assign(found.begin(), found.end());
}

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

/// Describes the scalars that @step reads.
FailureOr<Rows<ShaleHyper>> Tables::hypers(rt::FuncOp step, const nn::Optimizer &optimizer) {
  SmallVector<StringRef> names(step.getHyper().getAsValueRange<StringAttr>());
  const nn::FileSettings file(module);
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

/// Returns the flags of other optimizers.
SmallVector<Attribute> Tables::foreignFlags(const nn::Optimizer &own) {
  llvm::SmallSetVector<Attribute, 4> flags;
  for (const nn::Optimizer *optimizer : nn::getOptimizers())
    for (const nn::HyperParameter *hyper : nn::getHyperParameters(*optimizer))
      if (hyper->source == nn::HyperSource::Flag && !own.find(hyper->name))
        flags.insert(StringAttr::get(module.getContext(), hyper->flag()));
  return llvm::to_vector(flags);
}

/// Returns the offset of the host's block in the state table, where it follows the device's block.
static int64_t hostStateBegin(ModuleOp module) {
  auto bytes = module->getAttrOfType<IntegerAttr>(rt::kStateBytesAttr);
  return bytes ? bytes.getInt() : 0;
}

FailureOr<Rows<ShaleState>> Tables::states() {
  std::vector<Row<ShaleState>> rows;
  for (auto slot : module.getOps<rt::SlotOp>()) {
    auto state = module.lookupSymbol<nn::StateOp>(rt::stateNameOf(slot.getSymName()));
    // Gradients live within one step only: they are neither initialized nor saved.
    bool residual = state && state.getRole() == nn::Role::Residual;
    if (slot.getCategory() == rt::Category::Gradients && !residual)
      continue;
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
    Row<ShaleState> row;
    row.group = it->second;
    row.role = runtimeRole(state);
    row.type = runtimeType(type.getElementType());
    row.axis = axis;
    row.offset =
        slot.getOffset() + (slot.getMemory() == mem::Memory::Host ? hostStateBegin(module) : 0);
    row.local_count = type.getNumElements();
    rows.push_back(std::move(row));
  }
  return data.table<ShaleState>("states", rows);
}

Rows<ShaleInput> Tables::inputs(rt::FuncOp step) {
  std::vector<Row<ShaleInput>> rows;
  for (auto input : step.getInputs().getAsRange<DictionaryAttr>()) {
    auto type = cast<RankedTensorType>(input.getAs<TypeAttr>("type").getValue());
    auto bound = input.getAs<IntegerAttr>("bound"), ignored = input.getAs<IntegerAttr>("ignored");
    Row<ShaleInput> row;
    row.name = data.text(input.getAs<StringAttr>("name").getValue());
    row.binding = ShaleBinding(*nn::findBinding(input.getAs<StringAttr>("binding").getValue()));
    row.type = runtimeType(type.getElementType());
    row.rank = type.getRank();
    row.dims = data.numbers("dims", type.getShape());
    row.batch_dim = input.getAs<IntegerAttr>("batch_dim").getInt();
    row.bound = bound ? bound.getInt() : 0;
    row.ignored = ignored ? ignored.getInt() : 0;
    rows.push_back(std::move(row));
  }
  return data.table<ShaleInput>("inputs", rows);
}

Rows<const char *> Tables::names(StringRef what, ArrayAttr strings) {
  std::vector<Address<const char>> rows;
  for (auto name : strings.getAsRange<StringAttr>())
    rows.push_back(data.text(name.getValue()));
  return data.addresses<const char *>(what, rows);
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
    for (StringRef axis : mesh.getAxesThat(dist::splitsInputs))
      tokens *= mesh.getSize(axis);
  return tokens;
}

/// Returns the usual name of the strategy: full sharding within each of several replicas is
/// "hybrid".
StringRef Tables::strategyWord() {
  dist::Strategy strategy = dist::getStrategy(module);
  dist::MeshOp mesh = dist::getMesh(module);
  bool hybrid =
      dist::splitsParameters(strategy) && mesh && mesh.getRanksThat(dist::replicatesState) > 1;
  return hybrid ? "hybrid" : dist::stringifyStrategy(strategy);
}

void Tables::describeFunctions(Row<ShaleProgram> &program, const ProgramSummary &summary) {
  auto function = [&](StringRef name) {
    std::string symbol = ("shale_" + name).str();
    return data.addressOf<std::remove_pointer_t<ShaleFunction>>(
        module.lookupSymbol<rt::FuncOp>(name) ? StringRef(symbol) : StringRef());
  };
  program.accumulate = summary.microbatches;
  program.accumulate_first = function("accumulate_first");
  program.accumulate_next = function("accumulate");
  program.step = function("step");
  program.evaluate = function("evaluate");
  int64_t constantBytes = layOutConstants(module).bytes;
  program.constants =
      data.addressOf<const void>(constantBytes ? StringRef(kConstants) : StringRef());
  program.constant_bytes = constantBytes;
  DeviceCode code = deviceCode(module, data);
  program.device_code = code.bytes;
  program.device_code_bytes = code.size;
  program.device_kernels = code.kernels;
  program.kernels = kernelOperands(module, data);
  program.attends = summary.attentions > 0;
  program.allow_tf32 = module->hasAttr(rt::kAllowTf32Attr);
  program.sites = siteTable(module, data, summary);
  program.plan = planTable(data, summary);
  program.buffers = bufferTable(data, summary);
  program.transfers = transferTable(data, summary);
  program.state_bytes = summary.stateBytes.device;
  program.arena_bytes = summary.arenaBytes.device;
  program.host_state_bytes = summary.stateBytes.host;
  program.host_arena_bytes = summary.arenaBytes.host;
  program.comm_scratch_bytes = summary.commScratchBytes;
  program.flops_per_step = summary.flops - summary.recomputedFlops;
  program.host_limit = options.hostLimit;
  program.total_limit = options.totalLimit;
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
  const Target *target = targetOf(module);
  if (!target)
    return failure();
  FailureOr<ProgramSummary> summary = summarizeProgram(module);
  if (failed(summary))
    return failure();
  findSlots();
  FailureOr<Rows<ShaleParameter>> parameterTable = parameters();
  if (failed(parameterTable))
    return failure();
  FailureOr<Rows<ShaleGroup>> groupTable = groups();
  if (failed(groupTable))
    return failure();
  FailureOr<Rows<ShaleState>> stateTable = states();
  if (failed(stateTable))
    return failure();
  FailureOr<Rows<ShaleHyper>> hyperTable = hypers(step, *optimizer);
  if (failed(hyperTable))
    return failure();
  auto modelFile = module->getAttrOfType<StringAttr>(nn::kModelAttr);
  MLIRContext *context = module.getContext();

  Row<ShaleProgram> program;
  program.abi_version = SHALE_ABI_VERSION;
  program.world_size = summary->ranks;
  program.model = data.text(!modelFile               ? "program"
                            : options.folder.empty() ? modelFile.str()
                                                     : embeddedPath(modelFile, options.folder));
  program.target = data.text(target->getArchitecture());
  program.host = data.text(target->getHost().getArchitecture());
  program.strategy = data.text(strategyWord());
  program.optimizer = data.text(optimizer->name);
  program.describe = data.text(options.describe);
  program.reduces_at_end = dist::reducesAtEnd(dist::getStrategy(module));
  program.axes = axes();
  program.joint_axes = jointAxes();
  program.parameters = *parameterTable;
  program.groups = *groupTable;
  program.states = *stateTable;
  program.inputs = inputs(step);
  program.slots =
      names("slots", ArrayAttr::get(context, SmallVector<Attribute>(slots.begin(), slots.end())));
  program.foreign_flags = names("foreign_flags", ArrayAttr::get(context, foreignFlags(*optimizer)));
  program.hyper = *hyperTable;
  program.metrics = names("metrics", step.getMetrics());
  program.eval_metrics =
      names("eval_metrics", evaluate ? evaluate.getMetrics() : ArrayAttr::get(context, {}));
  program.kept = kept();
  program.tokens_per_step = tokensPerStep(step) * summary->microbatches;
  describeFunctions(program, *summary);
  data.define("shale_program", program, LLVM::Linkage::External);
  return success();
}

LogicalResult shale::defineProgramTables(ModuleOp module, const ProgramOptions &options) {
  return Tables(module, options).run();
}
