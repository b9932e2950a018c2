//===- EmitProgram.cpp - Emits rt for functions with placed values --------===//
#include "passes/plan/EmitProgram.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Quantize.h"
#include "dialects/nn/Ops/Sdpa.h"
#include "lib/Analysis/RuntimeCollectives.h"
#include "passes/plan/BufferEmitter.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shale;

/// Creates the rt.func of a function, without ops, in front of it. Sets the insertion point to its
/// end.
static rt::FuncOp createProgram(func::FuncOp function, OpBuilder &builder) {
  SmallVector<Attribute> inputs, hypers, metrics;
  for (BlockArgument argument : function.getArguments()) {
    unsigned i = argument.getArgNumber();
    auto role = function.getArgAttrOfType<nn::RoleAttr>(i, nn::kRoleAttr);
    if (function.getArgAttr(i, nn::kStateAttr) || !role)
      continue;
    auto name = function.getArgAttrOfType<StringAttr>(i, nn::kNameAttr);
    auto binding = function.getArgAttrOfType<StringAttr>(i, nn::kBindingAttr);
    auto batch = function.getArgAttrOfType<IntegerAttr>(i, nn::kBatchDimAttr);
    if (!name)
      name = builder.getStringAttr("argument " + Twine(i));
    if (role.getValue() == nn::Role::Hyper) {
      hypers.push_back(name);
      continue;
    }
    // The runtime sets the inputs of random ops.
    if (llvm::is_contained({nn::Role::Seed, nn::Role::Step, nn::Role::Microbatch}, role.getValue()))
      binding = builder.getStringAttr(nn::stringifyRole(role.getValue()));
    NamedAttrList input;
    input.set("name", name);
    input.set("binding", binding ? binding : builder.getStringAttr(""));
    input.set("type", TypeAttr::get(argument.getType()));
    input.set("batch_dim", builder.getI64IntegerAttr(batch ? batch.getInt() : -1));
    if (Attribute bound = function.getArgAttr(i, nn::kBoundAttr))
      input.set("bound", bound);
    if (Attribute ignored = function.getArgAttr(i, nn::kIgnoredAttr))
      input.set("ignored", ignored);
    inputs.push_back(input.getDictionary(builder.getContext()));
  }
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto role = function.getResultAttrOfType<nn::RoleAttr>(i, nn::kRoleAttr);
        role && role.getValue() == nn::Role::Metric) {
      auto name = function.getResultAttrOfType<StringAttr>(i, nn::kNameAttr);
      metrics.push_back(name ? name : builder.getStringAttr("metric " + Twine(i)));
    }
  auto result =
      rt::FuncOp::create(builder, function.getLoc(), function.getSymNameAttr(),
                         builder.getArrayAttr(inputs), builder.getArrayAttr(hypers),
                         builder.getArrayAttr(metrics), TypeAttr::get(function.getFunctionType()),
                         function.getArgAttrsAttr(), function.getResAttrsAttr());
  if (Attribute flops = function->getAttr(mem::kRecomputeFlopsAttr))
    result->setAttr(mem::kRecomputeFlopsAttr, flops);
  result.getBody().emplaceBlock();
  builder.setInsertionPointToEnd(&result.getBody().front());
  builder.setInsertionPoint(rt::ReturnOp::create(builder, function.getLoc()));
  return result;
}

namespace {
/// Emits the ops of one function, in order, on buffers instead of tensors.
class Emitter {
public:
  Emitter(func::FuncOp function, const Placement &placement, ArrayRef<int64_t> offsets,
          KernelTable &kernels, ProgramCounters &counters)
      : function(function), placement(placement), kernels(kernels), counters(counters),
        builder(function),
        buffers(createProgram(function, builder), placement, offsets, builder, counters.constants) {
  }

  LogicalResult run();

private:
  LogicalResult emit(Operation *op);
  LogicalResult emitStart(dist::StartOp start);
  LogicalResult emitReturn(func::ReturnOp op);
  LogicalResult emitLibraryCall(Operation *op);
  void emitMatmul(nn::MatmulOp op);
  void emitMatmul(nn::MatmulAddOp op);
  void emitMatmul(nn::QuantizedMatmulOp op);
  void emitMatmul(nn::GroupedMatmulOp op);
  void emitMatmul(nn::GroupedMatmulGradOp op);
  void emitPack(dist::UnitPackOp pack);
  void launch(Location loc, const KernelTable::Use &use, ValueRange outputs);

  Value bufferOf(Value tensor) { return buffers.bufferOf(tensor); }

  func::FuncOp function;
  const Placement &placement;
  KernelTable &kernels;
  ProgramCounters &counters;
  OpBuilder builder;
  BufferEmitter buffers;
  DenseMap<Value, Value> tokens;
  DenseMap<int64_t, IntegerAttr> bucketSites;
};
} // namespace

void Emitter::launch(Location loc, const KernelTable::Use &use, ValueRange outputs) {
  rt::LaunchOp::create(builder, loc, use.kernel, buffers.buffersOf(use.inputs), outputs);
}

LogicalResult Emitter::emitStart(dist::StartOp start) {
  CollectiveOpInterface collective = start.getCollective();
  Operation *op = collective;
  auto unsupported = [&](const Twine &what) {
    return op->emitOpError() << "the runtime has no " << what
                             << "; flat groups and scalars over one axis are what it moves";
  };
  if (std::string missing = findMissingCollective(collective); !missing.empty())
    return unsupported(missing);
  Location loc = op->getLoc();
  Value result = start.getWait().getResult();
  Value send = bufferOf(start.getInput()), recv = bufferOf(result);
  IntegerAttr site = builder.getI64IntegerAttr(counters.sites++);
  auto axis = builder.getStringAttr(collective.getCollectiveAxis());
  auto name = builder.getStringAttr(placement.allocationOf(result).name);
  if (auto gather = dyn_cast<dist::UnitGatherOp>(op);
      gather && send.getType() != recv.getType() &&
      cast<MemRefType>(send.getType()).getElementType() !=
          cast<MemRefType>(recv.getType()).getElementType())
    return unsupported("gather that converts the element type");
  Value token =
      rt::CollectiveOp::create(builder, loc, rt::TokenType::get(builder.getContext()),
                               collective.getCollectiveKind(), send, recv, site, axis, name);
  if (Attribute encoding = collective.getSentEncoding())
    token.getDefiningOp()->setAttr(rt::kEncodingAttr, encoding);
  if (auto bucket = start->getAttrOfType<IntegerAttr>(dist::kBucketAttr)) {
    // A bucket is identified by its first site.
    IntegerAttr &first = bucketSites[bucket.getInt()];
    first = first ? first : site;
    token.getDefiningOp()->setAttr(rt::kBucketAttr, first);
  }
  tokens[start.getPending()] = token;
  return success();
}

void Emitter::emitPack(dist::UnitPackOp pack) {
  auto unit = SymbolTable::lookupNearestSymbolFrom<dist::UnitOp>(pack, pack.getUnitAttr());
  dist::GroupAttr group = unit.getGroup(pack.getGroup());
  Type element = pack.getType().getElementType();
  int64_t bytes = nn::elementBytes(element);
  Value whole = bufferOf(pack.getResult());
  DenseMap<StringAttr, unsigned> operands;
  for (auto [index, param] : llvm::enumerate(pack.getParams().getAsRange<FlatSymbolRefAttr>()))
    operands[param.getAttr()] = index;
  int64_t end = 0;
  auto clear = [&](int64_t from, int64_t to) {
    if (from < to)
      rt::ZeroOp::create(
          builder, pack.getLoc(),
          buffers.view(whole, from * bytes, MemRefType::get({to - from}, element), pack.getLoc()));
  };
  for (auto segment : group.getSegments().getAsRange<dist::SegmentAttr>()) {
    auto it = operands.find(segment.getParam().getAttr());
    if (it == operands.end())
      continue;
    clear(end, segment.getOffset());
    end = segment.getOffset() + nn::elements(pack.getInputs()[it->second]);
    if (placement.packCopies(pack, it->second)) {
      Value source = bufferOf(pack.getInputs()[it->second]);
      auto type = cast<MemRefType>(source.getType());
      rt::CopyOp::create(builder, pack.getLoc(), source,
                         buffers.view(whole, segment.getOffset() * bytes, type, pack.getLoc()));
    }
  }
  clear(end, group.getCount());
}

LogicalResult Emitter::emitReturn(func::ReturnOp op) {
  int64_t metrics = 0;
  struct Write {
    Value source, target;
  };
  SmallVector<Write> late;
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    Value value = operand.get();
    Place place = placement.placeOf(value);
    const Allocation &allocation = placement.allocation(place.allocation);
    Location loc = value.getLoc();
    auto role = function.getResultAttrOfType<nn::RoleAttr>(index, nn::kRoleAttr);
    if (role && role.getValue() == nn::Role::Metric) {
      int64_t metric = metrics++;
      if (allocation.space == rt::Space::Metric && allocation.index == metric)
        continue;
      auto type = cast<RankedTensorType>(value.getType());
      if (type.getRank() != 0)
        return function.emitOpError()
               << "result " << index << " is a metric and must be a scalar; got " << type;
      auto name = function.getResultAttrOfType<StringAttr>(index, nn::kNameAttr);
      Value target = buffers.createMetric(loc, metric, name ? name.getValue() : "metric");
      if (type.getElementType().isF32())
        rt::CopyOp::create(builder, loc, bufferOf(value), target);
      else
        launch(loc, kernels.addCast(value), target);
      continue;
    }
    auto state = function.getResultAttrOfType<FlatSymbolRefAttr>(index, nn::kStateAttr);
    if (!state)
      return function.emitOpError() << "result " << index << " is neither a metric nor state";
    if (allocation.space == rt::Space::State && allocation.symbol == state.getAttr() &&
        place.offset == 0 && !place.isSliced())
      continue;
    if (allocation.space == rt::Space::State)
      return function.emitOpError()
             << "result " << index
             << " is the value of another state or a part of one; that is not supported";
    auto argument = llvm::find_if(function.getArguments(), [&](BlockArgument candidate) {
      return function.getArgAttr(candidate.getArgNumber(), nn::kStateAttr) == state;
    });
    if (argument == function.getArguments().end() || argument->getType() != value.getType())
      return function.emitOpError() << "result " << index << " is state " << state
                                    << ", which is not an argument of that type";
    late.push_back({bufferOf(value), bufferOf(*argument)});
  }
  for (Write write : late)
    rt::CopyOp::create(builder, op.getLoc(), write.source, write.target);
  return success();
}

void Emitter::emitMatmul(nn::MatmulOp op) {
  // One after the other: the order of buffers must not depend on that of arguments.
  Value lhs = bufferOf(op.getLhs()), rhs = bufferOf(op.getRhs()), result = bufferOf(op.getResult());
  rt::GemmOp::create(builder, op.getLoc(), lhs, rhs, result, ValueRange(), op.getTransposeLhs(),
                     op.getTransposeRhs(), /*accumulate=*/false);
}

void Emitter::emitMatmul(nn::MatmulAddOp op) {
  Value result = bufferOf(op.getResult());
  if (!(placement.placeOf(op.getSum()) == placement.placeOf(op.getResult())))
    rt::CopyOp::create(builder, op.getLoc(), bufferOf(op.getSum()), result);
  Value lhs = bufferOf(op.getLhs()), rhs = bufferOf(op.getRhs());
  rt::GemmOp::create(builder, op.getLoc(), lhs, rhs, result, ValueRange(), op.getTransposeLhs(),
                     op.getTransposeRhs(), /*accumulate=*/true);
}

void Emitter::emitMatmul(nn::QuantizedMatmulOp op) {
  Value lhs = bufferOf(op.getLhs()), rhs = bufferOf(op.getRhs()), result = bufferOf(op.getResult());
  SmallVector<Value> scales = buffers.buffersOf({op.getLhsScale(), op.getRhsScale()});
  rt::GemmOp::create(builder, op.getLoc(), lhs, rhs, result, scales, /*transpose_a=*/false,
                     /*transpose_b=*/true, /*accumulate=*/false);
}

void Emitter::emitMatmul(nn::GroupedMatmulOp op) {
  SmallVector<Value> inputs = buffers.buffersOf({op.getLhs(), op.getRhs(), op.getEnds()});
  rt::GroupedGemmOp::create(builder, op.getLoc(), inputs[0], inputs[1], inputs[2],
                            bufferOf(op.getResult()), /*transpose_a=*/UnitAttr(),
                            op.getTransposeRhsAttr(), op.getOfAttr());
}

void Emitter::emitMatmul(nn::GroupedMatmulGradOp op) {
  SmallVector<Value> inputs = buffers.buffersOf({op.getLhs(), op.getRhs(), op.getEnds()});
  rt::GroupedGemmOp::create(builder, op.getLoc(), inputs[0], inputs[1], inputs[2],
                            bufferOf(op.getResult()), /*transpose_a=*/true, /*transpose_b=*/false,
                            op.getOfAttr());
}

LogicalResult Emitter::emitLibraryCall(Operation *op) {
  if (auto matmul = dyn_cast<nn::MatmulOp>(op); matmul && matmul.getQuantizedAttr())
    return op->emitOpError("has quantized operands: run --shale-quantize-matmuls before");
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<nn::MatmulOp, nn::MatmulAddOp, nn::QuantizedMatmulOp, nn::GroupedMatmulOp,
            nn::GroupedMatmulGradOp>([&](auto matmul) { return emitMatmul(matmul), success(); })
      .Case([&](nn::MatmulEpilogueOp matmul) {
        Value lhs = bufferOf(matmul.getLhs()), rhs = bufferOf(matmul.getRhs()),
              with = bufferOf(matmul.getWith()), result = bufferOf(matmul.getResult()),
              before = matmul.getBefore() ? bufferOf(matmul.getBefore()) : Value();
        rt::GemmEpilogueOp::create(builder, op->getLoc(), matmul.getEpilogue(), lhs, rhs, with,
                                   result, before, matmul.getTransposeLhs(),
                                   matmul.getTransposeRhs(),
                                   kernels.addEpilogue(matmul).getValue());
        return success();
      })
      .Case([&](nn::SdpaOp sdpa) -> LogicalResult {
        Value workspace = buffers.workspaceOf(op);
        if (!workspace)
          return failure();
        SmallVector<Value> inputs = buffers.buffersOf(sdpa.getInputs());
        Value result = bufferOf(sdpa.getResult()), lse = bufferOf(sdpa.getLse());
        rt::SdpaOp::create(builder, op->getLoc(), inputs, result, lse, workspace,
                           sdpa.getCausalAttr(), sdpa.getWindowAttr(), sdpa.getScaleAttr());
        return success();
      })
      .Case([&](nn::SdpaGradOp sdpa) -> LogicalResult {
        Value workspace = buffers.workspaceOf(op);
        if (!workspace)
          return failure();
        SmallVector<Value> inputs = buffers.buffersOf(sdpa.getInputs());
        Value output = bufferOf(sdpa.getOutput()), lse = bufferOf(sdpa.getLse()),
              grad = bufferOf(sdpa.getGrad());
        SmallVector<Value> results = buffers.buffersOf(op->getResults());
        rt::SdpaGradOp::create(builder, op->getLoc(), inputs, output, lse, grad, results, workspace,
                               sdpa.getCausalAttr(), sdpa.getWindowAttr(),
                               sdpa.getDeterministicAttr(), sdpa.getScaleAttr());
        return success();
      })
      .Default([](Operation *op) { return op->emitOpError("has no runtime lowering"); });
}

LogicalResult Emitter::emit(Operation *op) {
  if (auto start = dyn_cast<dist::StartOp>(op))
    return emitStart(start);
  if (auto wait = dyn_cast<dist::WaitOp>(op)) {
    rt::WaitOp::create(builder, op->getLoc(), tokens.lookup(wait.getPending()));
    return success();
  }
  if (auto start = dyn_cast<mem::StartOp>(op)) {
    Value result = start.getWait().getResult();
    auto name = builder.getStringAttr(placement.allocationOf(result).name);
    tokens[start.getPending()] = rt::TransferOp::create(
        builder, op->getLoc(), rt::TokenType::get(builder.getContext()), bufferOf(start.getInput()),
        bufferOf(result), counters.transfers++, name);
    return success();
  }
  if (auto wait = dyn_cast<mem::WaitOp>(op)) {
    rt::WaitOp::create(builder, op->getLoc(), tokens.lookup(wait.getPending()));
    return success();
  }
  if (auto pack = dyn_cast<dist::UnitPackOp>(op)) {
    emitPack(pack);
    return success();
  }
  if (auto coordinate = dyn_cast<dist::CoordinateOp>(op)) {
    rt::CoordinateOp::create(builder, op->getLoc(), coordinate.getAxisAttr(),
                             bufferOf(coordinate.getResult()));
    return success();
  }
  // Buffers and views are made where they are used.
  if (isView(op) || isa<nn::ConstantOp>(op))
    return success();
  if (auto ret = dyn_cast<func::ReturnOp>(op))
    return emitReturn(ret);
  if (kernels.target.isLibraryCall(op))
    return emitLibraryCall(op);
  if (!isa<nn::NNDialect>(op->getDialect()))
    return op->emitOpError("has no runtime lowering");
  SmallVector<Value> outputs = buffers.buffersOf(op->getResults());
  KernelTable::Use use = kernels.add(op, rt::kernelMemory(outputs));
  launch(op->getLoc(), use, outputs);
  return success();
}

LogicalResult Emitter::run() {
  for (Operation &op : function.front()) {
    Operation *last = builder.getInsertionPoint()->getPrevNode();
    if (failed(emit(&op)))
      return failure();
    // Reports distinguish the phases of the step, and recomputed ops.
    Attribute phase = op.getAttr(nn::kPhaseAttr);
    Operation *made = builder.getInsertionPoint()->getPrevNode();
    auto collective = dyn_cast_or_null<rt::CollectiveOp>(made);
    if (phase && made && made != last &&
        (isa<rt::LaunchOp, CostOpInterface>(made) ||
         (collective && sendsAll(collective.getCollectiveKind())))) {
      made->setAttr(nn::kPhaseAttr, phase);
      for (StringRef name : {mem::kRecomputedAttr, mem::kRecomputesAttr})
        if (Attribute again = op.getAttr(name))
          made->setAttr(name, again);
    }
  }
  return success();
}

LogicalResult shale::emitProgram(func::FuncOp function, const Placement &placement,
                                 ArrayRef<int64_t> offsets, KernelTable &kernels,
                                 ProgramCounters &counters) {
  return Emitter(function, placement, offsets, kernels, counters).run();
}
