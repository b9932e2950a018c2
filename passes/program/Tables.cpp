//===- Tables.cpp - The program's tables ----------------------------------===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/Bindings.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/ProgramSummary.h"
#include "lib/Target/Target.h"
#include "passes/program/FileFacts.h"
#include "passes/program/GroupTables.h"
#include "passes/program/HyperTables.h"
#include "passes/program/KernelTables.h"
#include "passes/program/ParameterTables.h"
#include "passes/program/Program.h"
#include "passes/program/SummaryTables.h"

using namespace mlir;
using namespace shale;
using namespace shale::abi;

namespace {
/// Defines `shale_program` and the tables that it points to.
class Tables {
public:
  Tables(ModuleOp module, const ProgramOptions &options)
      : module(module), options(options), data(module, "shale") {}
  LogicalResult run();

private:
  Rows<ShaleAxis> axes();
  Rows<ShaleJointAxis> jointAxes();
  FailureOr<Rows<ShaleGroup>> groups();
  Rows<ShaleInput> inputs(rt::FuncOp step);
  Rows<const char *> names(StringRef what, ArrayAttr strings);
  int64_t tokensPerStep(rt::FuncOp step);
  StringRef strategyWord();
  /// Sets the fields that depend on the functions of the program and their memory.
  void describeFunctions(Row<ShaleProgram> &program, const ProgramSummary &summary);

  ModuleOp module;
  const ProgramOptions &options;
  ProgramData data;
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

FailureOr<Rows<ShaleGroup>> Tables::groups() {
  // State outside of units is a group of its own.
  SmallVector<Operation *> alone;
  for (auto state : module.getOps<nn::StateOp>())
    if (parameterIndex.contains(state.getSymNameAttr()) &&
        module.lookupSymbol<rt::SlotOp>(rt::slotName(state.getSymName())))
      alone.push_back(state);
  return groupTable(module, data, parameterIndex, alone, groupIndex);
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
  FailureOr<Rows<ShaleParameter>> parameters =
      parameterTable(module, data, options.folder, parameterIndex);
  if (failed(parameters))
    return failure();
  FailureOr<Rows<ShaleGroup>> groupRows = groups();
  if (failed(groupRows))
    return failure();
  ArrayAttr slots = optimizerSlots(module);
  FailureOr<Rows<ShaleState>> states = stateTable(module, data, groupIndex, slots);
  if (failed(states))
    return failure();
  FailureOr<Rows<ShaleHyper>> hypers = hyperTable(step, data, *optimizer);
  if (failed(hypers))
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
  program.parameters = *parameters;
  program.groups = *groupRows;
  program.states = *states;
  program.inputs = inputs(step);
  program.slots = names("slots", slots);
  program.foreign_flags = names("foreign_flags", foreignFlags(context, *optimizer));
  program.hyper = *hypers;
  program.metrics = names("metrics", step.getMetrics());
  program.eval_metrics =
      names("eval_metrics", evaluate ? evaluate.getMetrics() : ArrayAttr::get(context, {}));
  program.kept = keptTable(module, data, options.folder);
  program.tokens_per_step = tokensPerStep(step) * summary->microbatches;
  describeFunctions(program, *summary);
  data.define("shale_program", program, LLVM::Linkage::External);
  return success();
}

LogicalResult shale::defineProgramTables(ModuleOp module, const ProgramOptions &options) {
  return Tables(module, options).run();
}
