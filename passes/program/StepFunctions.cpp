//===- StepFunctions.cpp - Lowers rt functions to runtime calls -----------===//
#include "dialects/dist/Dist.h"
#include "lib/Analysis/Timeline.h"
#include "lib/Codegen/RuntimeCalls.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/program/Program.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shale;

ShaleType shale::runtimeType(Type element) {
  if (element.isF32())
    return SHALE_F32;
  if (element.isF64())
    return SHALE_F64;
  if (element.isBF16())
    return SHALE_BF16;
  if (element.isF16())
    return SHALE_F16;
  if (isa<Float8E4M3FNType>(element))
    return SHALE_F8_E4M3;
  if (isa<Float8E5M2Type>(element))
    return SHALE_F8_E5M2;
  if (element.isInteger(64))
    return SHALE_I64;
  if (element.isInteger(32))
    return SHALE_I32;
  return element.isInteger(1) ? SHALE_BOOL : SHALE_NO_TYPE;
}

ShaleType shale::sentType(Type element, Attribute encoding) {
  auto known = dyn_cast_or_null<dist::EncodingAttr>(encoding);
  if (!known)
    return runtimeType(element);
  switch (known.getValue()) {
  case dist::Encoding::Int8:
    return SHALE_INT8_BLOCKS;
  }
  return SHALE_NO_TYPE;
}

int64_t shale::axisIndex(ModuleOp module, StringRef axis) {
  dist::MeshOp mesh = dist::getMesh(module);
  return mesh ? mesh.indexOf(axis) : -1;
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
  /// Sets all but the batch and whether the product is added.
  template <typename OpT>
  abi::Operands<ShaleGemm> describeProduct(OpT op, int64_t m, int64_t n, int64_t k);
  /// Returns the kernel that a call names, if it has code.
  FailureOr<rt::KernelOp> compiledKernel(Operation *op, FlatSymbolRefAttr name);
  /// Returns the address of a kernel's code.
  Value codeOf(rt::KernelOp kernel);
  /// Sets what attention and its gradient share: sizes, mask, scale, inputs and workspace.
  template <typename OpT> void describe(OpT op, abi::Operands<ShaleAttention> &attention);
  /// Sets the addresses of query, key and value, or of their gradients: three buffers, or one that
  /// holds the heads of all three, and null.
  template <typename FieldT>
  void setHeads(ValueRange buffers, FieldT &query, FieldT &key, FieldT &value);
  void lowerSdpa(rt::SdpaOp op);
  void lowerSdpaGrad(rt::SdpaGradOp op);
  void lowerStart(rt::CollectiveOpInterface op);

  Value i64(int64_t value) {
    return LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(value));
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
  /// Returns the result of a call that gives an address for the whole rank. It is called once.
  template <typename Call> Value block();
  /// Calls the runtime for this rank.
  template <typename Call> Value call(Call &&arguments) {
    arguments.rank = function.getArgument(Rank);
    return emitCall(b, loc, module, arguments);
  }
  /// Writes the operands of a call to memory of the function, which all calls with this struct
  /// share, and returns its address.
  template <typename Struct> Value operands(const abi::Operands<Struct> &fields);

  ModuleOp module;
  rt::FuncOp source;
  const ConstantLayout &constants;
  OpBuilder b;
  Location loc = UnknownLoc::get(b.getContext());
  LLVM::LLVMFuncOp function;
  DenseMap<std::pair<Value, int>, Value> addresses; // by buffer and space
  llvm::StringMap<Value> coordinates, blocks;
  llvm::StringMap<Value> operandMemory; // by struct
  llvm::StringSet<> texts;
  Value launchArguments;
};
} // namespace

template <typename Struct> Value FunctionLowering::operands(const abi::Operands<Struct> &fields) {
  Value &memory = operandMemory[abi::kName<Struct>];
  if (!memory) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front());
    memory = LLVM::AllocaOp::create(b, loc, pointer(), b.getI8Type(), i64(sizeof(Struct)),
                                    /*alignment=*/8);
  }
  abi::emitFields<Struct>(b, loc, memory, fields);
  return memory;
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
  calls::shale_note note;
  note.node = text(node);
  call(note);
}

Value FunctionLowering::coordinate(StringRef axis) {
  Value &value = coordinates[axis];
  if (!value) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front());
    calls::shale_coordinate coordinate;
    coordinate.axis = axisIndex(module, axis);
    value = call(coordinate);
  }
  return value;
}

template <typename Call> Value FunctionLowering::block() {
  Value &value = blocks[Call::kName];
  if (!value) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getBody().front());
    value = call(Call());
  }
  return value;
}

Value FunctionLowering::addressOf(rt::BufferOp op, ShaleSpace space) {
  bool host = space == SHALE_SPACE_HOST;
  switch (op.getSpace()) {
  case rt::Space::State:
    return advance(op.getMemory() == mem::Memory::Host ? block<calls::shale_host_state>()
                                                       : function.getArgument(State),
                   op.getOffset());
  case rt::Space::Arena:
    return advance(op.getMemory() == mem::Memory::Host ? block<calls::shale_host_arena>()
                                                       : function.getArgument(Arena),
                   op.getOffset());
  case rt::Space::Input:
    return LLVM::LoadOp::create(
        b, loc, pointer(),
        advance(host ? block<calls::shale_host_inputs>() : function.getArgument(Inputs),
                8 * *op.getIndex()));
  case rt::Space::Constant: {
    int64_t offset = constants.offsets.lookup(*op.getSymbol());
    Value start = host ? LLVM::AddressOfOp::create(b, loc, pointer(), kConstants).getResult()
                       : block<calls::shale_constants>();
    return advance(start, offset);
  }
  case rt::Space::Hyper:
    return advance(host ? block<calls::shale_host_hyper>() : function.getArgument(Hyper),
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
  if (!module.lookupSymbol(code)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    LLVM::LLVMFuncOp::create(
        b, module.getLoc(), code,
        LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                    {pointer(), b.getI64Type(), b.getI64Type()})); // ShaleKernel
  }
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
  abi::Operands<ShaleLaunch> launch;
  launch.name = text(op.getKernel());
  launch.kernel = codeOf(kernel);
  launch.args = launchArguments;
  launch.inputs = op.getInputs().size();
  launch.outputs = op.getOutputs().size();
  launch.rows = *kernel.getRows();
  launch.grain = *kernel.getGrain();
  launch.space = space;
  calls::shale_launch run;
  run.launch = operands<ShaleLaunch>(launch);
  call(run);
  return success();
}

template <typename OpT>
abi::Operands<ShaleGemm> FunctionLowering::describeProduct(OpT op, int64_t m, int64_t n,
                                                           int64_t k) {
  abi::Operands<ShaleGemm> gemm;
  gemm.transpose_a = op.getTransposeA();
  gemm.transpose_b = op.getTransposeB();
  gemm.m = m;
  gemm.n = n;
  gemm.k = k;
  gemm.a = address(op.getA());
  gemm.lda = op.getTransposeA() ? m : k;
  gemm.b = address(op.getB());
  gemm.ldb = op.getTransposeB() ? k : n;
  gemm.c = address(op.getC());
  gemm.ldc = n;
  gemm.type = runtimeType(op.getA().getType().getElementType());
  gemm.b_type = runtimeType(op.getB().getType().getElementType());
  gemm.a_scale = nullptr;
  gemm.b_scale = nullptr;
  gemm.result_type = runtimeType(op.getC().getType().getElementType());
  return gemm;
}

void FunctionLowering::lowerGemm(rt::GemmOp op) {
  rt::GemmOp::Shape shape = op.getShape();
  if (shape.batch == 0)
    return;
  abi::Operands<ShaleGemm> gemm = describeProduct(op, shape.m, shape.n, shape.k);
  gemm.batch = shape.batch;
  gemm.accumulate = op.getAccumulate();
  if (!op.getScales().empty()) {
    gemm.a_scale = address(op.getScales()[0]);
    gemm.b_scale = address(op.getScales()[1]);
  }
  calls::shale_gemm multiply;
  multiply.gemm = operands<ShaleGemm>(gemm);
  call(multiply);
}

static ShaleEpilogue runtimeEpilogue(nn::Epilogue epilogue) {
  switch (epilogue) {
  case nn::Epilogue::Bias:
    return SHALE_EPILOGUE_BIAS;
  case nn::Epilogue::Gelu:
    return SHALE_EPILOGUE_GELU;
  case nn::Epilogue::GeluGrad:
    return SHALE_EPILOGUE_GELU_GRAD;
  }
  llvm_unreachable("unknown epilogue");
}

LogicalResult FunctionLowering::lowerGemmEpilogue(rt::GemmEpilogueOp op) {
  FailureOr<rt::KernelOp> kernel = compiledKernel(op, op.getKernelAttr());
  if (failed(kernel))
    return failure();
  rt::GemmEpilogueOp::Shape shape = op.getShape();
  abi::Operands<ShaleGemm> gemm = describeProduct(op, shape.m, shape.n, shape.k);
  gemm.batch = 1;
  gemm.accumulate = 0;
  abi::Operands<ShaleGemmEpilogue> epilogue;
  epilogue.epilogue = runtimeEpilogue(op.getEpilogue());
  epilogue.with = address(op.getWith());
  epilogue.before = nullptr;
  if (op.getBefore())
    epilogue.before = address(op.getBefore());
  epilogue.kernel = codeOf(*kernel);
  epilogue.rows = *kernel->getRows();
  epilogue.grain = *kernel->getGrain();
  calls::shale_gemm_epilogue multiply;
  multiply.gemm = operands<ShaleGemm>(gemm);
  multiply.epilogue = operands<ShaleGemmEpilogue>(epilogue);
  call(multiply);
  return success();
}

template <typename FieldT>
void FunctionLowering::setHeads(ValueRange buffers, FieldT &query, FieldT &key, FieldT &value) {
  query = address(buffers[0]);
  key = nullptr; // its address follows from that of the first
  value = nullptr;
  if (buffers.size() > 1) {
    key = address(buffers[1]);
    value = address(buffers[2]);
  }
}

template <typename OpT>
void FunctionLowering::describe(OpT op, abi::Operands<ShaleAttention> &attention) {
  nn::AttentionSizes shape = op.getSizes();
  attention.batch = shape.batch;
  attention.heads = shape.heads;
  attention.key_heads = shape.keyHeads;
  attention.length = shape.length;
  attention.key_length = shape.keyLength;
  attention.depth = shape.depth;
  attention.value_depth = shape.valueDepth;
  attention.causal = op.getCausal();
  attention.window = op.getWindow().value_or(0);
  attention.scale = op.getScale().convertToFloat();
  setHeads(op.getInputs(), attention.query, attention.key, attention.value);
  attention.lse = address(op.getLse());
  attention.workspace = address(op.getWorkspace());
  attention.workspace_bytes = rt::bufferBytes(op.getWorkspace().getType());
}

void FunctionLowering::lowerSdpa(rt::SdpaOp op) {
  abi::Operands<ShaleAttention> attention;
  describe(op, attention);
  attention.type = runtimeType(cast<MemRefType>(op.getResult().getType()).getElementType());
  attention.deterministic = 1;
  attention.result = address(op.getResult());
  attention.result_gradient = nullptr;
  attention.query_gradient = nullptr;
  attention.key_gradient = nullptr;
  attention.value_gradient = nullptr;
  calls::shale_attention attend;
  attend.attention = operands<ShaleAttention>(attention);
  call(attend);
}

void FunctionLowering::lowerSdpaGrad(rt::SdpaGradOp op) {
  abi::Operands<ShaleAttention> attention;
  describe(op, attention);
  attention.type = runtimeType(cast<MemRefType>(op.getOutput().getType()).getElementType());
  attention.deterministic = op.getDeterministic();
  attention.result = address(op.getOutput());
  attention.result_gradient = address(op.getGrad());
  setHeads(op.getGradients(), attention.query_gradient, attention.key_gradient,
           attention.value_gradient);
  calls::shale_attention attend;
  attend.attention = operands<ShaleAttention>(attention);
  call(attend);
}

void FunctionLowering::lowerStart(rt::CollectiveOpInterface op) {
  calls::shale_start start;
  start.site = op.getSite();
  start.send = address(op.getSend());
  start.recv = address(op.getRecv());
  start.count = op.getCount();
  start.type =
      int32_t(sentType(op.getSend().getType().getElementType(), op->getAttr(rt::kEncodingAttr)));
  call(start);
}

/// Returns the site of a token's collective.
static int64_t siteOf(Value token) {
  return cast<rt::CollectiveOpInterface>(token.getDefiningOp()).getSite();
}

/// Returns the bytes of a buffer.
static int64_t bytesOf(Value buffer) { return rt::bufferBytes(cast<MemRefType>(buffer.getType())); }

LogicalResult FunctionLowering::lower(Operation *op) {
  return TypeSwitch<Operation *, LogicalResult>(op)
      .Case<rt::BufferOp, rt::ViewOp, rt::ShardOp>(
          [](Operation *) { return success(); }) // addresses are computed where they are used
      .Case([&](rt::LaunchOp launch) { return note(launch), lowerLaunch(launch); })
      .Case([&](rt::GemmOp gemm) { return note(gemm), lowerGemm(gemm), success(); })
      .Case([&](rt::GemmEpilogueOp gemm) { return note(gemm), lowerGemmEpilogue(gemm); })
      .Case([&](rt::SdpaOp sdpa) { return note(sdpa), lowerSdpa(sdpa), success(); })
      .Case([&](rt::SdpaGradOp sdpa) { return note(sdpa), lowerSdpaGrad(sdpa), success(); })
      .Case([&](rt::CopyOp op) {
        calls::shale_copy copy;
        copy.target = address(op.getTarget());
        copy.source = address(op.getSource());
        copy.bytes = bytesOf(op.getSource());
        return call(copy), success();
      })
      .Case([&](rt::ZeroOp op) {
        calls::shale_zero zero;
        zero.target = address(op.getTarget());
        zero.bytes = bytesOf(op.getTarget());
        return call(zero), success();
      })
      .Case([&](rt::CoordinateOp op) {
        calls::shale_store_coordinate store;
        store.axis = axisIndex(module, op.getAxis());
        store.target = address(op.getTarget());
        return call(store), success();
      })
      .Case([&](rt::CollectiveOpInterface start) { return lowerStart(start), success(); })
      .Case([&](rt::TransferOp op) {
        calls::shale_transfer_start start;
        start.index = op.getIndex();
        start.target = address(op.getTarget());
        start.source = address(op.getSource());
        start.bytes = bytesOf(op.getSource());
        return call(start), success();
      })
      .Case([&](rt::WaitOp op) {
        if (auto transfer = op.getToken().getDefiningOp<rt::TransferOp>()) {
          calls::shale_transfer_wait wait;
          wait.index = transfer.getIndex();
          return call(wait), success();
        }
        calls::shale_wait wait;
        wait.site = siteOf(op.getToken());
        return call(wait), success();
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
