//===- KernelTable.cpp - The kernels of a module --------------------------===//
#include "passes/plan/KernelTable.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Cluster.h"
#include "dialects/nn/Ops/Constant.h"
#include "lib/Analysis/Aliases.h"
#include "lib/Analysis/Modules.h"
#include "lib/Codegen/KernelEquality.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace shale;

/// Removes discardable attributes, which tell where ops came from: several may share the kernel.
static void dropOrigin(Block &block) {
  for (Operation &op : block) {
    op.setDiscardableAttrs(ArrayRef<NamedAttribute>());
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        dropOrigin(inner);
  }
}

/// Returns the module that a kernel is first launched for, within its block. Equal kernels of
/// several blocks share that name.
static StringRef moduleOf(Operation *op) {
  auto scope = op->getAttrOfType<StringAttr>(nn::kScopeAttr);
  if (!scope || scope.getValue().empty())
    return "";
  StringRef module = withinBlock(scope.getValue());
  return module.empty() ? "block" : module;
}

/// Returns a name made of the module and the ops of the body, such as `mlp.act.mul_tanh`, for
/// traces and reports.
static std::string nameOf(StringRef module, Block &block) {
  std::string name;
  int64_t count = 0;
  for (Operation &op : block.without_terminator()) {
    if (isa<nn::ConstantOp>(op))
      continue;
    if (++count > 4) {
      name += "_and_more";
      break;
    }
    name += (name.empty() ? "" : "_") + op.getName().stripDialect().str();
  }
  if (name.empty())
    name = "copy";
  return module.empty() ? name : module.str() + "." + name;
}

FlatSymbolRefAttr KernelTable::intern(Region &body, ArrayRef<int64_t> aliases, mem::Memory memory,
                                      StringRef origin, Location loc) {
  bool host = memory == mem::Memory::Host;
  Block &block = body.front();
  dropOrigin(block);
  uint64_t hash = hashKernel(body);
  SmallVector<Type> results(block.getTerminator()->getOperandTypes());
  for (auto [it, end] = kernels.equal_range(hash); it != end; ++it)
    if (it->second.getHost() == host &&
        it->second.getAliases().value_or(ArrayRef<int64_t>()) == aliases &&
        equalKernels(it->second.getBody(), body))
      return FlatSymbolRefAttr::get(it->second.getSymNameAttr());
  std::string name = ::nameOf(origin, block) + "_" + std::to_string(kernels.size());
  builder.setInsertionPointToEnd(module.getBody());
  auto kernel = rt::KernelOp::create(
      builder, loc, builder.getStringAttr(name),
      TypeAttr::get(builder.getFunctionType(block.getArgumentTypes(), results)),
      aliases.empty() ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(aliases), IntegerAttr(),
      IntegerAttr(), FlatSymbolRefAttr(), host ? builder.getUnitAttr() : UnitAttr());
  kernel.getBody().takeBody(body);
  kernels.emplace(hash, kernel);
  return FlatSymbolRefAttr::get(kernel.getSymNameAttr());
}

KernelTable::Use KernelTable::add(Operation *op, mem::Memory memory) {
  const Target &code = memory == mem::Memory::Host ? target.getHost() : target;
  if (&code == &target) // one processor for both memories
    memory = mem::Memory::Device;
  Use use;
  Region body;
  Block *block = builder.createBlock(&body);
  IRMapping mapping;
  SmallVector<int64_t> operandToInput;
  auto cluster = dyn_cast<nn::ClusterOp>(op);
  // A dedicated kernel reads its operands from memory, constants included.
  bool own = code.hasOwnKernel(cluster ? &cluster.getBody().front().front() : op);
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    Value inner = cluster ? cluster.getBody().getArgument(operand.getOperandNumber()) : value;
    operandToInput.push_back(-1);
    if (!cluster && mapping.contains(inner)) {
      operandToInput.back() = llvm::find(use.inputs, value) - use.inputs.begin();
      continue;
    }
    if (nn::ConstantOp constant = own ? nn::ConstantOp() : splatConstant(value)) {
      builder.setInsertionPointToEnd(block);
      mapping.map(inner, builder.clone(*constant)->getResult(0));
      continue;
    }
    operandToInput.back() = use.inputs.size();
    use.inputs.push_back(value);
    mapping.map(inner, block->addArgument(value.getType(), value.getLoc()));
  }
  builder.setInsertionPointToEnd(block);
  SmallVector<Value> results;
  SmallVector<int64_t> aliases(op->getNumResults(), -1);
  if (cluster) {
    for (Operation &inner : cluster.getBody().front().without_terminator())
      builder.clone(inner, mapping);
    for (Value result : cluster.getBody().front().getTerminator()->getOperands())
      results.push_back(mapping.lookup(result));
  } else {
    llvm::append_range(results, builder.clone(*op, mapping)->getResults());
  }
  for (auto [index, alias] : llvm::enumerate(aliases))
    if (OpOperand *operand = aliasedOperand(op, index))
      alias = operandToInput[operand->getOperandNumber()];
  rt::YieldOp::create(builder, op->getLoc(), results);
  if (llvm::all_of(aliases, [](int64_t alias) { return alias < 0; }))
    aliases.clear();
  use.kernel = intern(body, aliases, memory, moduleOf(op), op->getLoc());
  return use;
}

FlatSymbolRefAttr KernelTable::addEpilogue(nn::MatmulEpilogueOp op) {
  Region body;
  Block *block = builder.createBlock(&body);
  Value matmul = block->addArgument(op.getResult().getType(), op.getLoc());
  Value with = block->addArgument(op.getWith().getType(), op.getLoc());
  SmallVector<Value> results = op.buildEpilogue(builder, matmul, with);
  rt::YieldOp::create(builder, op.getLoc(), results);
  SmallVector<int64_t> aliases(results.size(), -1);
  aliases.front() = 0;
  return intern(body, aliases, mem::Memory::Device, moduleOf(op), op->getLoc());
}

KernelTable::Use KernelTable::addCast(Value scalar) {
  Region body;
  Block *block = builder.createBlock(&body);
  Value input = block->addArgument(scalar.getType(), scalar.getLoc());
  auto type = RankedTensorType::get({}, builder.getF32Type());
  Value result = nn::CastOp::create(builder, scalar.getLoc(), type, input);
  rt::YieldOp::create(builder, scalar.getLoc(), result);
  Use use;
  use.inputs.push_back(scalar);
  use.kernel = intern(body, {}, mem::Memory::Device, "", scalar.getLoc());
  return use;
}
