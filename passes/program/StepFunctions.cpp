//===- StepFunctions.cpp - Lowers rt functions to runtime calls -----------===//
#include "dialects/dist/Dist.h"
#include "lib/Analysis/Timeline.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/program/Program.h"
#include "shale/Runtime.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shale;

int32_t shale::runtimeType(Type element) {
  if (element.isF32())
    return SHALE_F32;
  if (element.isF64())
    return SHALE_F64;
  if (element.isBF16())
    return SHALE_BF16;
  if (element.isF16())
    return SHALE_F16;
  if (element.isInteger(64))
    return SHALE_I64;
  if (element.isInteger(32))
    return SHALE_I32;
  return element.isInteger(1) ? SHALE_BOOL : -1;
}

int64_t shale::axisIndex(ModuleOp module, StringRef axis) {
  dist::MeshOp mesh = dist::getMesh(module);
  if (!mesh)
    return -1;
  for (auto [index, name] : llvm::enumerate(mesh.getAxes().getAsRange<StringAttr>()))
    if (name.getValue() == axis)
      return index;
  return -1;
}

namespace {
/// Lowers one function. The addresses of buffers are computed from its arguments:
/// rank, state, arena, inputs, hyper, metrics (ShaleFunction).
class FunctionLowering {
public:
  FunctionLowering(ModuleOp module, rt::FuncOp source, const ConstantLayout &constants)
      : module(module), source(source), constants(constants), b(module.getContext()) {}
  LogicalResult run();

private:
  enum Argument { Rank, State, Arena, Inputs, Hyper, Metrics };

  LogicalResult lower(Operation *op);
  /// Returns the address of a buffer for work in `space`. Most buffers are in one memory;
  /// constants, inputs and hyper-parameters are in both.
  Value address(Value buffer, ShaleSpace space = SHALE_SPACE_DEVICE);
  Value addressOf(rt::BufferOp op, ShaleSpace space);
  LogicalResult lowerLaunch(rt::LaunchOp op);
  void lowerGemm(rt::GemmOp op);
  LogicalResult lowerGemmEpilogue(rt::GemmEpilogueOp op);
  /// Returns the kernel that a call names, if it has code.
  FailureOr<rt::KernelOp> compiledKernel(Operation *op, FlatSymbolRefAttr name);
  /// Returns the address of a kernel's code.
  Value codeOf(rt::KernelOp kernel);
  /// Returns the arguments that attention and its gradient share: rank, sizes, mask, scale, type.
  template <typename OpT> SmallVector<Value> attentionArguments(OpT op, Value result) {
    nn::AttentionSizes shape = op.getSizes();
    SmallVector<Value> arguments{function.getArgument(Rank)};
    for (int64_t size : {shape.batch, shape.heads, shape.keyHeads, shape.length, shape.keyLength,
                         shape.depth, shape.valueDepth})
      arguments.push_back(i64(size));
    arguments.push_back(i32(op.getCausal()));
    arguments.push_back(i64(op.getWindow().value_or(0)));
    arguments.push_back(f32(op.getScale().convertToFloat()));
    arguments.push_back(i32(runtimeType(cast<MemRefType>(result.getType()).getElementType())));
    return arguments;
  }
  /// Returns three addresses: of three buffers, or of one that holds the heads of all three, and
  /// null.
  SmallVector<Value> threeAddresses(ValueRange buffers);
  void lowerSdpa(rt::SdpaOp op);
  void lowerSdpaGrad(rt::SdpaGradOp op);
  void lowerStart(rt::CollectiveOpInterface op);

  Value i32(int64_t value) {
    return LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(value));
  }
  Value i64(int64_t value) {
    return LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(value));
  }
  Value f32(float value) {
    return LLVM::ConstantOp::create(b, loc, b.getF32Type(), b.getF32FloatAttr(value));
  }
  Value advance(Value address, int64_t bytes) {
    if (bytes == 0)
      return address;
    return LLVM::GEPOp::create(b, loc, pointer(), b.getI8Type(), address,
                               ArrayRef<LLVM::GEPArg>{i64(bytes)});
  }
  Value advanceBy(Value address, Value bytes) {
    return LLVM::GEPOp::create(b, loc, pointer(), b.getI8Type(), address,
                               ArrayRef<LLVM::GEPArg>{bytes});
  }
  Type pointer() { return LLVM::LLVMPointerType::get(b.getContext()); }
  Value text(StringRef string);
  /// Emits a call that tells the runtime which node of the model comes next.
  void note(Operation *op);
  Value coordinate(StringRef axis);
  /// Calls a function that returns an address for the whole rank, once.
  Value block(StringRef callee);
  Value call(StringRef name, Type result, ArrayRef<Value> arguments);
  LLVM::LLVMFuncOp declare(StringRef name, Type result, ArrayRef<Type> arguments);

  ModuleOp module;
  rt::FuncOp source;
  const ConstantLayout &constants;
  OpBuilder b;
  Location loc = UnknownLoc::get(b.getContext());
  LLVM::LLVMFuncOp function;
  DenseMap<std::pair<Value, int>, Value> addresses; // by buffer and space
  llvm::StringMap<Value> coordinates, blocks;
  llvm::StringSet<> texts;
  Value launchArguments;
};
} // namespace

LLVM::LLVMFuncOp FunctionLowering::declare(StringRef name, Type result, ArrayRef<Type> arguments) {
  if (auto known = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return known;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(module.getBody());
  return LLVM::LLVMFuncOp::create(b, module.getLoc(), name,
                                  LLVM::LLVMFunctionType::get(result, arguments));
}

Value FunctionLowering::call(StringRef name, Type result, ArrayRef<Value> arguments) {
  SmallVector<Type> types;
  for (Value argument : arguments)
    types.push_back(argument.getType());
  auto made = LLVM::CallOp::create(b, loc, declare(name, result, types), arguments);
  return made->getNumResults() ? made->getResult(0) : Value();
}

/// Returns the address of a NUL-terminated string for messages of the runtime.
Value FunctionLowering::text(StringRef string) {
  std::string symbol = ("shale_name_" + string).str();
  if (texts.insert(symbol).second && !module.lookupSymbol<LLVM::GlobalOp>(symbol)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    std::string bytes = string.str() + '\0';
    LLVM::GlobalOp::create(b, module.getLoc(),
                           LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size()), true,
                           LLVM::Linkage::Private, symbol, b.getStringAttr(bytes));
  }
  return LLVM::AddressOfOp::create(b, loc, pointer(), symbol);
}

/// Passes the node of the model, or the name of the first output's buffer if there is no node (as
/// for updates).
void FunctionLowering::note(Operation *op) {
  std::string node = sourceNode(op->getLoc());
  if (auto launch = dyn_cast<rt::LaunchOp>(op);
      launch && node.empty() && !launch.getOutputs().empty())
    if (rt::BufferOp buffer = rt::allocationOf(launch.getOutputs().front()))
      node = buffer.getName().str();
  call("shale_note", LLVM::LLVMVoidType::get(b.getContext()),
       {function.getArgument(Rank), text(node)});
}

Value FunctionLowering::coordinate(StringRef axis) {
  Value &value = coordinates[axis];
  if (!value) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front());
    value = call("shale_coordinate", b.getI64Type(),
                 {function.getArgument(Rank), i32(axisIndex(module, axis))});
  }
  return value;
}

Value FunctionLowering::block(StringRef callee) {
  Value &value = blocks[callee];
  if (!value) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front());
    value = call(callee, pointer(), {function.getArgument(Rank)});
  }
  return value;
}

Value FunctionLowering::addressOf(rt::BufferOp op, ShaleSpace space) {
  bool host = space == SHALE_SPACE_HOST;
  switch (op.getSpace()) {
  case rt::Space::State:
    return advance(op.getMemory() == mem::Memory::Host ? block("shale_host_state")
                                                       : function.getArgument(State),
                   op.getOffset());
  case rt::Space::Arena:
    return advance(op.getMemory() == mem::Memory::Host ? block("shale_host_arena")
                                                       : function.getArgument(Arena),
                   op.getOffset());
  case rt::Space::Input:
    return LLVM::LoadOp::create(
        b, loc, pointer(),
        advance(host ? block("shale_host_inputs") : function.getArgument(Inputs),
                8 * *op.getIndex()));
  case rt::Space::Constant: {
    int64_t offset = constants.offsets.lookup(*op.getSymbol());
    Value start = host ? LLVM::AddressOfOp::create(b, loc, pointer(), kConstants).getResult()
                       : block("shale_constants");
    return advance(start, offset);
  }
  case rt::Space::Hyper:
    return advance(host ? block("shale_host_hyper") : function.getArgument(Hyper),
                   4 * *op.getIndex());
  case rt::Space::Metric:
    return advance(function.getArgument(Metrics), 4 * *op.getIndex());
  }
  llvm_unreachable("unknown space");
}

Value FunctionLowering::address(Value buffer, ShaleSpace space) {
  if (Value known = addresses.lookup({buffer, space}))
    return known;
  Value made;
  if (auto view = buffer.getDefiningOp<rt::ViewOp>()) {
    made = advance(address(view.getSource(), space), view.getOffset());
  } else if (auto shard = buffer.getDefiningOp<rt::ShardOp>()) {
    Value bytes = LLVM::MulOp::create(b, loc, coordinate(shard.getAxis()),
                                      i64(rt::bufferBytes(shard.getType())));
    made = advanceBy(address(shard.getSource(), space), bytes);
  } else {
    made = addressOf(buffer.getDefiningOp<rt::BufferOp>(), space);
  }
  return addresses[{buffer, space}] = made;
}

FailureOr<rt::KernelOp> FunctionLowering::compiledKernel(Operation *op, FlatSymbolRefAttr name) {
  auto kernel = module.lookupSymbol<rt::KernelOp>(name.getAttr());
  if (!kernel || !kernel.getRows() || !kernel.getGrain() || !kernel.getFunction())
    return op->emitOpError() << name << " has no code: rows, grain and function must be set";
  return kernel;
}

Value FunctionLowering::codeOf(rt::KernelOp kernel) {
  // The code is a function on the host, and constant data on another device.
  StringRef code = *kernel.getFunction();
  if (!module.lookupSymbol(code))
    declare(code, LLVM::LLVMVoidType::get(b.getContext()),
            {pointer(), b.getI64Type(), b.getI64Type()});
  return LLVM::AddressOfOp::create(b, loc, pointer(), code);
}

LogicalResult FunctionLowering::lowerLaunch(rt::LaunchOp op) {
  FailureOr<rt::KernelOp> found = compiledKernel(op, op.getKernelAttr());
  if (failed(found))
    return failure();
  rt::KernelOp kernel = *found;
  ShaleSpace space = rt::kernelMemory(op.getOutputs()) == mem::Memory::Host ? SHALE_SPACE_HOST
                                                                            : SHALE_SPACE_DEVICE;
  int64_t index = 0;
  for (Value buffer : op.getOperands())
    LLVM::StoreOp::create(b, loc, address(buffer, space), advance(launchArguments, 8 * index++));
  call("shale_launch", LLVM::LLVMVoidType::get(b.getContext()),
       {function.getArgument(Rank), text(op.getKernel()), codeOf(kernel), launchArguments,
        i32(op.getInputs().size()), i32(op.getOutputs().size()), i64(*kernel.getRows()),
        i64(*kernel.getGrain()), i32(space)});
  return success();
}

void FunctionLowering::lowerGemm(rt::GemmOp op) {
  rt::GemmOp::Shape shape = op.getShape();
  if (shape.batch == 0)
    return;
  call("shale_gemm", LLVM::LLVMVoidType::get(b.getContext()),
       {function.getArgument(Rank), i32(op.getTransposeA()), i32(op.getTransposeB()),
        i64(shape.batch), i64(shape.m), i64(shape.n), i64(shape.k), address(op.getA()),
        i64(op.getTransposeA() ? shape.m : shape.k), address(op.getB()),
        i64(op.getTransposeB() ? shape.k : shape.n), address(op.getC()), i64(shape.n),
        i32(runtimeType(op.getA().getType().getElementType())),
        i32(runtimeType(op.getC().getType().getElementType())), i32(op.getAccumulate())});
}

static_assert(int32_t(nn::Epilogue::Bias) == SHALE_EPILOGUE_BIAS &&
              int32_t(nn::Epilogue::Gelu) == SHALE_EPILOGUE_GELU &&
              int32_t(nn::Epilogue::GeluGrad) == SHALE_EPILOGUE_GELU_GRAD);

LogicalResult FunctionLowering::lowerGemmEpilogue(rt::GemmEpilogueOp op) {
  FailureOr<rt::KernelOp> kernel = compiledKernel(op, op.getKernelAttr());
  if (failed(kernel))
    return failure();
  rt::GemmEpilogueOp::Shape shape = op.getShape();
  Value before = op.getBefore() ? address(op.getBefore())
                                : LLVM::ZeroOp::create(b, loc, pointer()).getResult();
  call("shale_gemm_epilogue", LLVM::LLVMVoidType::get(b.getContext()),
       {function.getArgument(Rank), i32(op.getTransposeA()), i32(op.getTransposeB()), i64(shape.m),
        i64(shape.n), i64(shape.k), address(op.getA()), address(op.getB()), address(op.getC()),
        i32(runtimeType(op.getC().getType().getElementType())),
        i32(static_cast<int32_t>(op.getEpilogue())), address(op.getWith()), before, codeOf(*kernel),
        i64(*kernel->getRows()), i64(*kernel->getGrain())});
  return success();
}

SmallVector<Value> FunctionLowering::threeAddresses(ValueRange buffers) {
  SmallVector<Value> found =
      llvm::map_to_vector(buffers, [&](Value buffer) { return address(buffer); });
  if (found.size() == 1) // the addresses of the other two follow from that of the first
    found.append(2, LLVM::ZeroOp::create(b, loc, pointer()));
  return found;
}

void FunctionLowering::lowerSdpa(rt::SdpaOp op) {
  SmallVector<Value> arguments = attentionArguments(op, op.getResult());
  llvm::append_range(arguments, threeAddresses(op.getInputs()));
  for (Value buffer : {op.getResult(), op.getLse(), op.getWorkspace()})
    arguments.push_back(address(buffer));
  arguments.push_back(i64(rt::bufferBytes(op.getWorkspace().getType())));
  call("shale_attention", LLVM::LLVMVoidType::get(b.getContext()), arguments);
}

void FunctionLowering::lowerSdpaGrad(rt::SdpaGradOp op) {
  SmallVector<Value> arguments = attentionArguments(op, op.getOutput());
  arguments.push_back(i32(op.getDeterministic()));
  llvm::append_range(arguments, threeAddresses(op.getInputs()));
  for (Value buffer : {op.getOutput(), op.getLse(), op.getGrad()})
    arguments.push_back(address(buffer));
  llvm::append_range(arguments, threeAddresses(op.getGradients()));
  arguments.push_back(address(op.getWorkspace()));
  arguments.push_back(i64(rt::bufferBytes(op.getWorkspace().getType())));
  call("shale_attention_gradient", LLVM::LLVMVoidType::get(b.getContext()), arguments);
}

static StringRef startFunction(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllGather:
    return "shale_all_gather_start";
  case CollectiveKind::ReduceScatter:
    return "shale_reduce_scatter_start";
  case CollectiveKind::AllReduce:
    return "shale_all_reduce_start";
  case CollectiveKind::AllToAll:
    break;
  }
  llvm_unreachable("rt has no all-to-all");
}

void FunctionLowering::lowerStart(rt::CollectiveOpInterface op) {
  call(startFunction(op.getCollectiveKind()), LLVM::LLVMVoidType::get(b.getContext()),
       {function.getArgument(Rank), i32(op.getSite()), address(op.getSend()), address(op.getRecv()),
        i64(op.getCount()), i32(runtimeType(op.getSend().getType().getElementType()))});
}

/// Returns the site of a token's collective.
static int64_t siteOf(Value token) {
  return cast<rt::CollectiveOpInterface>(token.getDefiningOp()).getSite();
}

LogicalResult FunctionLowering::lower(Operation *op) {
  Type none = LLVM::LLVMVoidType::get(b.getContext());
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<rt::BufferOp, rt::ViewOp, rt::ShardOp>(
          [](Operation *) { return success(); }) // addresses are computed where they are used
      .Case([&](rt::LaunchOp launch) { return note(launch), lowerLaunch(launch); })
      .Case([&](rt::GemmOp gemm) { return note(gemm), lowerGemm(gemm), success(); })
      .Case([&](rt::GemmEpilogueOp gemm) { return note(gemm), lowerGemmEpilogue(gemm); })
      .Case([&](rt::SdpaOp sdpa) { return note(sdpa), lowerSdpa(sdpa), success(); })
      .Case([&](rt::SdpaGradOp sdpa) { return note(sdpa), lowerSdpaGrad(sdpa), success(); })
      .Case([&](rt::CopyOp copy) {
        call("shale_copy", none,
             {function.getArgument(Rank), address(copy.getTarget()), address(copy.getSource()),
              i64(rt::bufferBytes(copy.getSource().getType()))});
        return success();
      })
      .Case([&](rt::ZeroOp zero) {
        call("shale_zero", none,
             {function.getArgument(Rank), address(zero.getTarget()),
              i64(rt::bufferBytes(cast<MemRefType>(zero.getTarget().getType())))});
        return success();
      })
      .Case([&](rt::CoordinateOp op) {
        call("shale_store_coordinate", none,
             {function.getArgument(Rank), i32(axisIndex(module, op.getAxis())),
              address(op.getTarget())});
        return success();
      })
      .Case([&](rt::CollectiveOpInterface start) { return lowerStart(start), success(); })
      .Case([&](rt::TransferOp transfer) {
        call("shale_transfer_start", none,
             {function.getArgument(Rank), i32(transfer.getIndex()), address(transfer.getTarget()),
              address(transfer.getSource()), i64(rt::bufferBytes(transfer.getSource().getType()))});
        return success();
      })
      .Case([&](rt::WaitOp wait) {
        if (auto transfer = wait.getToken().getDefiningOp<rt::TransferOp>()) {
          call("shale_transfer_wait", none, {function.getArgument(Rank), i32(transfer.getIndex())});
          return success();
        }
        call("shale_wait", none, {function.getArgument(Rank), i32(siteOf(wait.getToken()))});
        return success();
      })
      .Case([&](rt::ReturnOp) { return LLVM::ReturnOp::create(b, loc, ValueRange()), success(); })
      .Default([](Operation *other) { return other->emitOpError("has no runtime lowering"); });
}

LogicalResult FunctionLowering::run() {
  Type none = LLVM::LLVMVoidType::get(b.getContext());
  b.setInsertionPoint(source);
  function =
      LLVM::LLVMFuncOp::create(b, source.getLoc(), ("shale_" + source.getSymName()).str(),
                               LLVM::LLVMFunctionType::get(none, SmallVector<Type>(6, pointer())));
  b.setInsertionPointToEnd(function.addEntryBlock(b));
  loc = source.getLoc();
  int64_t most = 1;
  source.walk(
      [&](rt::LaunchOp launch) { most = std::max<int64_t>(most, launch->getNumOperands()); });
  launchArguments =
      LLVM::AllocaOp::create(b, loc, pointer(), pointer(), i64(most), /*alignment=*/8);
  for (Operation &op : source.getBody().front()) {
    loc = op.getLoc();
    if (failed(lower(&op)))
      return failure();
  }
  source.erase();
  return success();
}

/// Appends the bytes of a constant to `data`. Booleans take one byte each.
static LogicalResult appendConstant(rt::ConstantOp constant, std::string &data) {
  auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
  auto type = cast<RankedTensorType>(constant.getValue().getType());
  if (!elements || nn::tensorBytes(type) < 0)
    return constant.emitOpError("expected dense elements of a fixed-size type");
  if (type.getElementType().isInteger(1)) { // bits are packed in the attribute
    for (bool value : elements.getValues<bool>())
      data.push_back(char(value));
    return success();
  }
  ArrayRef<char> raw = elements.getRawData();
  for (int64_t i = 0, n = elements.isSplat() ? type.getNumElements() : 1; i < n; ++i)
    data.append(raw.data(), raw.size());
  return success();
}

ConstantLayout shale::layOutConstants(ModuleOp module) {
  ConstantLayout layout;
  for (auto constant : module.getOps<rt::ConstantOp>()) {
    int64_t begin = llvm::alignTo(layout.bytes, rt::kAlignment);
    layout.offsets[constant.getSymName()] = begin;
    layout.bytes = begin + nn::tensorBytes(cast<RankedTensorType>(constant.getValue().getType()));
  }
  return layout;
}

/// Lowers the constants of all functions to one read-only global.
static LogicalResult lowerConstants(ModuleOp module, const ConstantLayout &layout) {
  std::string data;
  for (auto constant : llvm::make_early_inc_range(module.getOps<rt::ConstantOp>())) {
    data.resize(layout.offsets.lookup(constant.getSymName()), 0);
    if (failed(appendConstant(constant, data)))
      return failure();
    constant.erase();
  }
  if (data.empty())
    return success();
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  auto global = LLVM::GlobalOp::create(b, module.getLoc(),
                                       LLVM::LLVMArrayType::get(b.getI8Type(), data.size()), true,
                                       LLVM::Linkage::Private, kConstants, b.getStringAttr(data));
  global.setAlignment(rt::kAlignment);
  return success();
}

LogicalResult shale::lowerStepFunctions(ModuleOp module) {
  ConstantLayout constants = layOutConstants(module);
  if (failed(lowerConstants(module, constants)))
    return failure();
  for (auto function : llvm::make_early_inc_range(module.getOps<rt::FuncOp>()))
    if (failed(FunctionLowering(module, function, constants).run()))
      return failure();
  return success();
}
