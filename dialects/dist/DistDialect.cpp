//===- DistDialect.cpp - The dist dialect and its discardable attributes --===//
#include "dialects/dist/Dist.h"
#include "dialects/interfaces/DiscardableAttrs.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shale::dist;

#include "dialects/dist/DistDialect.cpp.inc"

void DistDialect::initialize() {
  registerAttributesAndTypes();
  addOperations<
#define GET_OP_LIST
#include "dialects/dist/DistOps.cpp.inc"
      >();
}

MeshOp shale::dist::getMesh(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  if (!module)
    return nullptr;
  auto meshes = module.getOps<MeshOp>();
  return meshes.empty() ? MeshOp() : *meshes.begin();
}

Strategy shale::dist::getStrategy(Operation *op) {
  auto module = isa<ModuleOp>(op) ? cast<ModuleOp>(op) : op->getParentOfType<ModuleOp>();
  auto strategy = module ? module->getAttrOfType<StrategyAttr>(kStrategyAttr) : StrategyAttr();
  return strategy ? strategy.getValue() : Strategy::None;
}

int64_t shale::dist::getAxisSize(Operation *op, StringRef axis) {
  MeshOp mesh = getMesh(op);
  return mesh ? mesh.getSize(axis) : 0;
}

static LogicalResult verifyShardings(Operation *op, Attribute value) {
  auto list = dyn_cast<ArrayAttr>(value);
  if (!list || list.size() != op->getNumResults())
    return op->emitOpError("'dist.shardings' must have one sharding per result");
  for (auto [entry, result] : llvm::zip(list, op->getResults())) {
    auto sharding = dyn_cast<ShardingAttr>(entry);
    if (!sharding)
      return op->emitOpError("'dist.shardings' must have one sharding per result");
    if (failed(sharding.verifyFits(op, result.getType())))
      return failure();
  }
  return success();
}

static bool areAxes(Operation *, ArrayAttr axes) {
  return llvm::all_of(axes, llvm::IsaPred<StringAttr>);
}

static bool areSplitCosts(Operation *, ArrayAttr costs) {
  return llvm::all_of(costs, llvm::IsaPred<SplitCostAttr>);
}

static bool areOfMesh(Operation *op, ShardingAttr factors) {
  MeshOp mesh = getMesh(op);
  for (int64_t factor = 0; mesh && factor < factors.getRank(); ++factor)
    if (llvm::any_of(factors.getAxes(factor), [&](StringRef axis) { return !mesh.getSize(axis); }))
      return false;
  return true;
}

static bool isNumber(Operation *, IntegerAttr number) { return !number.getValue().isNegative(); }

using Dist = DistDialect;
static constexpr shale::AttrRule kRules[] = {
    shale::attrRule<Dist::ShardingAttrHelper>("be a sharding"),
    shale::attrRule<Dist::FactorsAttrHelper, areOfMesh>("split factors over axes of the mesh"),
    shale::attrRule<Dist::StrategyAttrHelper>("be #dist.strategy"),
    shale::attrRule<Dist::PlanAttrHelper>("be a text"),
    shale::attrRule<Dist::PlanCostsAttrHelper, areSplitCosts>("be a list of #dist.split_cost"),
    shale::attrRule<Dist::TensorAttrHelper>("be #dist.tensor_split"),
    shale::attrRule<Dist::KeepGatheredAttrHelper>("be a unit attribute"),
    shale::attrRule<Dist::KeepSingleRankAttrHelper>("be a unit attribute"),
    shale::attrRule<Dist::QuantizeReductionsAttrHelper>("be an encoding"),
    shale::attrRule<Dist::WideSumsAttrHelper>("be a unit attribute"),
    shale::attrRule<Dist::ReduceOnceAttrHelper>("be a unit attribute"),
    shale::attrRule<Dist::PartitionedAttrHelper>("be a unit attribute"),
    shale::attrRule<Dist::PartialAttrHelper, areAxes>("name axes"),
    shale::attrRule<Dist::BucketAttrHelper, isNumber>("be the number of a bucket"),
    shale::attrRule<Dist::UnitAttrHelper>("refer to a unit"),
    shale::attrRule<Dist::GroupAttrHelper>("be the index of a group"),
    shale::attrRule<Dist::AxisAttrHelper>("name an axis"),
    shale::attrRule<Dist::CopyAttrHelper>("refer to a state")};

LogicalResult DistDialect::verifyOperationAttribute(Operation *op, NamedAttribute attribute) {
  if (attribute.getName() == kShardingsAttr)
    return verifyShardings(op, attribute.getValue());
  if (attribute.getName() == kQuantizeGathersAttr) {
    auto type = dyn_cast<TypeAttr>(attribute.getValue());
    if (isa<EncodingAttr>(attribute.getValue()) || (type && is16BitFloat(type.getValue())))
      return success();
    return op->emitOpError("'dist.quantize_gathers' must be an encoding or a 16-bit float");
  }
  return shale::verifyDiscardableAttr(op, attribute, kRules);
}

LogicalResult DistDialect::verifyRegionArgAttribute(Operation *op, unsigned regionIndex,
                                                    unsigned argIndex, NamedAttribute attribute) {
  if (attribute.getName() != kShardingAttr)
    return op->emitOpError("'") << attribute.getName().strref()
                                << "' is not an argument attribute of dist";
  auto sharding = dyn_cast<ShardingAttr>(attribute.getValue());
  if (!sharding)
    return op->emitOpError("'dist.sharding' must be a sharding");
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return success();
  return sharding.verifyFits(op, function.getArgumentTypes()[argIndex]);
}
