//===- StepFunctions.cpp - Lowers rt functions to runtime calls -----------===//
#include "dialects/dist/Dist.h"
#include "lib/Analysis/Timeline.h"
#include "passes/program/BufferAddresses.h"
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

/// Creates llvm.func @shale_NAME in front of rt.func @NAME, with an entry block.
static LLVM::LLVMFuncOp createFunction(rt::FuncOp source) {
  OpBuilder b(source);
  Type none = LLVM::LLVMVoidType::get(b.getContext());
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto function =
      LLVM::LLVMFuncOp::create(b, source.getLoc(), ("shale_" + source.getSymName()).str(),
                               LLVM::LLVMFunctionType::get(none, SmallVector<Type>(6, pointer)));
  function.addEntryBlock(b);
  return function;
}

namespace {
/// Lowers one function, op by op in order, to one of type ShaleFunction.
class FunctionLowering {
public:
  FunctionLowering(ModuleOp module, rt::FuncOp source, const ConstantLayout &constants)
      : module(module), source(source), b(module, createFunction(source)),
        addresses(module, b, constants) {}
  LogicalResult run();

private:
  LogicalResult lower(Operation *op);
  Value address(Value buffer, ShaleSpace space = SHALE_SPACE_DEVICE) {
    return addresses.of(buffer, space);
  }
  LogicalResult lowerLaunch(rt::LaunchOp op);
  void lowerGemm(rt::GemmOp op);
  LogicalResult lowerGemmEpilogue(rt::GemmEpilogueOp op);
  void lowerGroupedGemm(rt::GroupedGemmOp op);
  /// Sets all but the batch and whether the matmul is added.
  template <typename OpT>
  abi::Operands<ShaleGemm> describeMatmul(OpT op, int64_t m, int64_t n, int64_t k);
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

  /// Emits a call that tells the runtime which node of the model comes next.
  void note(Operation *op);

  ModuleOp module;
  rt::FuncOp source;
  CallBuilder b;
  BufferAddresses addresses;
  Value launchArguments;
};
} // namespace

/// Passes the node of the model, or the name of the first output's buffer if there is no node (as
/// for updates).
void FunctionLowering::note(Operation *op) {
  std::string node = sourceNode(op->getLoc());
  if (auto launch = dyn_cast<rt::LaunchOp>(op);
      launch && node.empty() && !launch.getOutputs().empty())
    if (rt::BufferOp buffer = rt::allocationOf(launch.getOutputs().front()))
      node = buffer.getName().str();
  calls::shale_note note;
  note.node = b.text(node);
  b.call(note);
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
                                    {b.pointer(), b.getI64Type(), b.getI64Type()})); // ShaleKernel
  }
  return LLVM::AddressOfOp::create(b, b.pointer(), code);
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
    LLVM::StoreOp::create(b, address(buffer, space), b.advance(launchArguments, 8 * index++));
  abi::Operands<ShaleLaunch> launch;
  launch.name = b.text(op.getKernel());
  launch.kernel = codeOf(kernel);
  launch.args = launchArguments;
  launch.inputs = op.getInputs().size();
  launch.outputs = op.getOutputs().size();
  launch.rows = *kernel.getRows();
  launch.grain = *kernel.getGrain();
  launch.space = space;
  calls::shale_launch run;
  run.launch = b.operands<ShaleLaunch>(launch);
  b.call(run);
  return success();
}

template <typename OpT>
abi::Operands<ShaleGemm> FunctionLowering::describeMatmul(OpT op, int64_t m, int64_t n, int64_t k) {
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
  abi::Operands<ShaleGemm> gemm = describeMatmul(op, shape.m, shape.n, shape.k);
  gemm.batch = shape.batch;
  gemm.accumulate = op.getAccumulate();
  if (!op.getScales().empty()) {
    gemm.a_scale = address(op.getScales()[0]);
    gemm.b_scale = address(op.getScales()[1]);
  }
  calls::shale_gemm multiply;
  multiply.gemm = b.operands<ShaleGemm>(gemm);
  b.call(multiply);
}

void FunctionLowering::lowerGroupedGemm(rt::GroupedGemmOp op) {
  rt::GroupedGemmOp::Shape shape = op.getShape();
  abi::Operands<ShaleGemm> gemm = describeMatmul(op, shape.m, shape.n, shape.k);
  gemm.batch = 1;
  gemm.accumulate = 0;
  abi::Operands<ShaleGroups> groups;
  groups.ends = address(op.getEnds());
  groups.wide = op.getEnds().getType().getElementType().isInteger(64);
  groups.count = shape.groups;
  calls::shale_grouped_gemm multiply;
  multiply.gemm = b.operands<ShaleGemm>(gemm);
  multiply.groups = b.operands<ShaleGroups>(groups);
  b.call(multiply);
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
  abi::Operands<ShaleGemm> gemm = describeMatmul(op, shape.m, shape.n, shape.k);
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
  multiply.gemm = b.operands<ShaleGemm>(gemm);
  multiply.epilogue = b.operands<ShaleGemmEpilogue>(epilogue);
  b.call(multiply);
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
  attend.attention = b.operands<ShaleAttention>(attention);
  b.call(attend);
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
  attend.attention = b.operands<ShaleAttention>(attention);
  b.call(attend);
}

void FunctionLowering::lowerStart(rt::CollectiveOpInterface op) {
  calls::shale_start start;
  start.site = op.getSite();
  start.send = address(op.getSend());
  start.recv = address(op.getRecv());
  start.count = op.getCount();
  start.type =
      int32_t(sentType(op.getSend().getType().getElementType(), op->getAttr(rt::kEncodingAttr)));
  b.call(start);
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
      .Case([&](rt::GroupedGemmOp gemm) {
        note(gemm);
        lowerGroupedGemm(gemm);
        return success();
      })
      .Case([&](rt::GemmEpilogueOp gemm) { return note(gemm), lowerGemmEpilogue(gemm); })
      .Case([&](rt::SdpaOp sdpa) { return note(sdpa), lowerSdpa(sdpa), success(); })
      .Case([&](rt::SdpaGradOp sdpa) { return note(sdpa), lowerSdpaGrad(sdpa), success(); })
      .Case([&](rt::CopyOp op) {
        calls::shale_copy copy;
        copy.target = address(op.getTarget());
        copy.source = address(op.getSource());
        copy.bytes = bytesOf(op.getSource());
        return b.call(copy), success();
      })
      .Case([&](rt::ZeroOp op) {
        calls::shale_zero zero;
        zero.target = address(op.getTarget());
        zero.bytes = bytesOf(op.getTarget());
        return b.call(zero), success();
      })
      .Case([&](rt::CoordinateOp op) {
        calls::shale_store_coordinate store;
        store.axis = axisIndex(module, op.getAxis());
        store.target = address(op.getTarget());
        return b.call(store), success();
      })
      .Case([&](rt::CollectiveOpInterface start) { return lowerStart(start), success(); })
      .Case([&](rt::TransferOp op) {
        calls::shale_transfer_start start;
        start.index = op.getIndex();
        start.target = address(op.getTarget());
        start.source = address(op.getSource());
        start.bytes = bytesOf(op.getSource());
        return b.call(start), success();
      })
      .Case([&](rt::WaitOp op) {
        if (auto transfer = op.getToken().getDefiningOp<rt::TransferOp>()) {
          calls::shale_transfer_wait wait;
          wait.index = transfer.getIndex();
          return b.call(wait), success();
        }
        calls::shale_wait wait;
        wait.site = siteOf(op.getToken());
        return b.call(wait), success();
      })
      .Case([&](rt::ReturnOp) { return LLVM::ReturnOp::create(b, ValueRange()), success(); })
      .Default([](Operation *other) { return other->emitOpError("has no runtime lowering"); });
}

LogicalResult FunctionLowering::run() {
  int64_t most = 1;
  source.walk(
      [&](rt::LaunchOp launch) { most = std::max<int64_t>(most, launch->getNumOperands()); });
  launchArguments =
      LLVM::AllocaOp::create(b, b.pointer(), b.pointer(), b.i64(most), /*alignment=*/8);
  for (Operation &op : source.getBody().front()) {
    b.setLoc(op.getLoc());
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
