//===- Program.cpp - Runs a module's functions on named logical values ----===//
#include "lib/Interpreter/Program.h"
#include "lib/Analysis/InputRanges.h"
#include "lib/Interpreter/Dist/FlatState.h"
#include "lib/Interpreter/Dist/SplitState.h"
#include "lib/Interpreter/Evaluators.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cstring>

using namespace mlir;

namespace shale::interp {

const ProgramAdapter &getAdapter(ModuleOp module) {
  // Adapters of later stages come first. The base class accepts all modules.
  static const std::vector<std::unique_ptr<ProgramAdapter>> adapters = [] {
    std::vector<std::unique_ptr<ProgramAdapter>> result;
    result.push_back(makeRtAdapter());
    result.push_back(std::make_unique<ProgramAdapter>());
    return result;
  }();
  for (const auto &adapter : adapters)
    if (adapter->accepts(module))
      return *adapter;
  return *adapters.back();
}

int64_t LogicalValues::bytes() const {
  int64_t sum = 0;
  for (auto &[name, value] : tensors)
    sum += value.size() * 8;
  return sum;
}

bool LogicalValues::hasRoomFor(ArrayRef<int64_t> shape, int64_t ranks) const {
  int64_t more = llvm::is_contained(shape, 0) ? 0 : 8;
  for (int64_t size : shape)
    if (size < 0 || (more && __builtin_mul_overflow(more, size, &more)))
      return false;
  return !__builtin_mul_overflow(more, ranks, &more) &&
         more <= maxBytes - std::min(maxBytes, bytes());
}

FailureOr<Tensor> LogicalValues::get(const ValueSpec &spec, Location loc) {
  if (spec.part) {
    ValueSpec whole = spec;
    whole.name = spec.part->whole;
    whole.shape = spec.part->shape;
    whole.part.reset();
    FailureOr<Tensor> all = get(whole, loc);
    if (failed(all))
      return failure();
    if (all->shape() != ArrayRef<int64_t>(spec.part->shape))
      return emitError(loc) << "the value of '" << whole.name << "' is " << all->shapeString();
    return spec.part->take(*all);
  }
  // Two programs may store a value in different float types: round it to this one.
  if (const Tensor *known = find(spec.name)) {
    bool other = known->isFloat() && isFloat(spec.element) && known->element() != spec.element;
    return other ? known->rounded(spec.element) : *known;
  }
  bool isState = !llvm::is_contained({nn::Role::Input, nn::Role::Label, nn::Role::Hyper,
                                      nn::Role::Seed, nn::Role::Step, nn::Role::Microbatch},
                                     spec.role);
  if (!hasRoomFor(spec.shape))
    return emitError(loc) << "the value of '" << spec.name
                          << "' and those before it exceed the interpreter's " << (maxBytes >> 20)
                          << " MiB";
  Tensor made;
  if (stateFromInit && isState) {
    auto read = readInit(spec, folder);
    if (!read)
      return emitError(loc) << "initial value of '" << spec.name
                            << "': " << llvm::toString(read.takeError());
    made = *read;
  } else {
    made = randomValue(spec, seed);
    if (spec.role == nn::Role::Input || spec.role == nn::Role::Label)
      randomInputs.push_back(spec.name);
  }
  set(spec.name, made);
  return made;
}

int64_t ProgramAdapter::rankCount(ModuleOp module, int64_t requested) const {
  // A program for one rank of a mesh runs on all ranks of the mesh.
  dist::MeshOp mesh = dist::getMesh(module);
  if (mesh && (module->hasAttr(dist::kPartitionedAttr) || !module.getOps<dist::UnitOp>().empty()))
    return mesh.getRankCount();
  return std::max<int64_t>(requested, 1);
}

std::vector<std::string> ProgramAdapter::functions(ModuleOp module) const {
  std::vector<std::string> names;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() && !function.isPrivate())
      names.push_back(function.getSymName().str());
  return names;
}

/// Whether the state is a residual, or the accumulator of one.
static bool isResidual(func::FuncOp function, nn::StateOp state) {
  nn::StateOp of = state.getOfAttr() ? nn::getState(function, state.getOfAttr()) : state;
  return of && of.getRole() == nn::Role::Residual;
}

ValueSpec ProgramAdapter::describeArgument(func::FuncOp function, unsigned i) {
  ValueSpec spec;
  auto type = cast<RankedTensorType>(function.getArgumentTypes()[i]);
  spec.element = *elementOf(type.getElementType());
  spec.shape.assign(type.getShape().begin(), type.getShape().end());
  if (auto symbol = function.getArgAttrOfType<FlatSymbolRefAttr>(i, nn::kStateAttr)) {
    spec.name = symbol.getValue().str();
    if (auto state = nn::getState(function, symbol)) {
      spec.describe(state);
      if (isResidual(function, state))
        spec.role = nn::Role::Residual;
    }
    return spec;
  }
  auto name = function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr);
  spec.name = name ? name.getValue().str() : "arg" + std::to_string(i);
  if (auto role = function.getArgAttrOfType<nn::RoleAttr>(i, nn::kRoleAttr))
    spec.role = role.getValue();
  spec.binding = nn::getBinding(function, i);
  if (!isFloat(spec.element))
    spec.setRange(inputRanges(function)[i]);
  // Lookups in padded tables accept more than the model does.
  if (auto bound = function.getArgAttrOfType<IntegerAttr>(i, nn::kBoundAttr))
    spec.limit = bound.getInt();
  return spec;
}

std::string ProgramAdapter::resultName(func::FuncOp function, unsigned i) {
  if (auto symbol = function.getResultAttrOfType<FlatSymbolRefAttr>(i, nn::kStateAttr))
    return symbol.getValue().str();
  if (auto name = function.getResultAttrOfType<StringAttr>(i, nn::kNameAttr))
    return name.getValue().str();
  // The results of a forward pass have no names yet.
  static const char *const forward[] = {"loss", "loss_sum", "count"};
  if (function.getSymName() == "forward" && function.getNumResults() == 3)
    return forward[i];
  return "result" + std::to_string(i);
}

/// The name of the value that one rank has of a state of which ranks have different values; empty
/// for other values.
static std::string nameOfRank(func::FuncOp function, Attribute symbol, int64_t rank) {
  nn::StateOp state = nn::getState(function, symbol);
  if (!state || !isResidual(function, state))
    return "";
  return (state.getSymName() + "@" + Twine(rank)).str();
}

FailureOr<std::vector<Tensor>> ProgramAdapter::packArgument(func::FuncOp function, unsigned i,
                                                            int64_t ranks,
                                                            LogicalValues &inputs) const {
  if (std::optional<FlatState> flat = FlatState::ofArgument(function, i))
    return flat->pack(ranks, inputs);
  ValueSpec spec = describeArgument(function, i);
  if (std::optional<SplitState> split =
          SplitState::of(function, function.getArgAttr(i, nn::kStateAttr)))
    return split->pack(spec, ranks, inputs);
  Attribute symbol = function.getArgAttr(i, nn::kStateAttr);
  if (!nameOfRank(function, symbol, 0).empty()) {
    std::vector<Tensor> values;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      spec.name = nameOfRank(function, symbol, rank);
      FailureOr<Tensor> value = inputs.get(spec, function.getLoc());
      if (failed(value))
        return failure();
      values.push_back(*value);
    }
    return values;
  }
  FailureOr<Tensor> whole = inputs.get(spec, function.getLoc());
  if (failed(whole))
    return failure();
  if (whole->element() != spec.element)
    return function.emitError("the value of '")
           << spec.name << "' is " << whole->shapeString() << ", argument " << i << " is "
           << function.getArgumentTypes()[i];
  if (whole->shape() == ArrayRef<int64_t>(spec.shape))
    return std::vector<Tensor>(ranks, *whole);
  if (auto dim = function.getArgAttrOfType<IntegerAttr>(i, nn::kBatchDimAttr)) {
    SmallVector<int64_t> joined = spec.shape;
    int64_t local = joined[dim.getInt()];
    DataRanks data(function, ranks);
    joined[dim.getInt()] *= data.count;
    if (whole->shape() == ArrayRef<int64_t>(joined)) {
      std::vector<Tensor> slices;
      for (int64_t rank = 0; rank < ranks; ++rank)
        slices.push_back(whole->slice(dim.getInt(), data.indexOf(rank) * local, local));
      return slices;
    }
  }
  return function.emitError("the value of '")
         << spec.name << "' is " << whole->shapeString() << ", argument " << i << " is "
         << function.getArgumentTypes()[i] << " on each of " << ranks << " ranks";
}

LogicalResult ProgramAdapter::unpackResult(func::FuncOp function, unsigned i,
                                           ArrayRef<Tensor> perRank, LogicalValues &results) const {
  if (std::optional<FlatState> flat = FlatState::ofResult(function, i))
    return flat->unpack(perRank, results);
  std::string name = resultName(function, i);
  std::optional<ValuePart> part =
      ValuePart::of(nn::getState(function, function.getResultAttr(i, nn::kStateAttr)));
  if (std::optional<SplitState> split =
          SplitState::of(function, function.getResultAttr(i, nn::kStateAttr))) {
    FailureOr<Tensor> whole = split->unpack(perRank);
    if (failed(whole))
      return failure();
    return results.set(name, part, *whole, function);
  }
  Attribute symbol = function.getResultAttr(i, nn::kStateAttr);
  if (!nameOfRank(function, symbol, 0).empty()) {
    for (auto [rank, value] : llvm::enumerate(perRank))
      if (failed(results.set(nameOfRank(function, symbol, rank), part, value, function)))
        return failure();
    return success();
  }
  for (auto [rank, value] : llvm::enumerate(perRank))
    if (std::memcmp(value.cells(), perRank[0].cells(), value.size() * 8) != 0)
      return function.emitError("result '") << name << "' differs between ranks 0 and " << rank;
  return results.set(name, part, perRank[0], function);
}

LogicalResult ProgramAdapter::run(ModuleOp module, StringRef name, Interpreter &interpreter,
                                  LogicalValues &inputs, LogicalValues &results) const {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function)
    return module.emitError("there is no function @") << name;
  int64_t ranks = interpreter.options.ranks;
  RankValues arguments(ranks);
  for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !tensor.hasStaticShape() || !elementOf(tensor.getElementType()) ||
        nn::tensorBytes(tensor) < 0 ||
        nn::tensorBytes(tensor) > interpreter.options.maxBytes / ranks / 8)
      return function.emitError("argument ")
             << i << " of type " << type
             << " is not a static tensor that fits in the interpreter's memory";
    auto packed = packArgument(function, i, ranks, inputs);
    if (failed(packed))
      return failure();
    for (int64_t rank = 0; rank < ranks; ++rank)
      arguments[rank].push_back((*packed)[rank]);
  }
  auto perRank = interpreter.run(function, std::move(arguments));
  if (failed(perRank))
    return failure();
  for (unsigned i = 0; i < function.getNumResults(); ++i) {
    std::vector<Tensor> values;
    for (auto &all : *perRank)
      values.push_back(all[i]);
    if (failed(unpackResult(function, i, values, results)))
      return failure();
  }
  return success();
}

} // namespace shale::interp
