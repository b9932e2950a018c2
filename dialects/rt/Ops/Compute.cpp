//===- Compute.cpp - Kernels and library matmuls --------------------------===//
#include "dialects/interfaces/Float8.h"
#include "dialects/rt/RT.h"

using namespace mlir;
using namespace shale;
using namespace shale::rt;

/// Checks that buffers hold the tensors `types` (launch_c1).
static LogicalResult verifyBuffers(LaunchOp op, TypeRange buffers, ArrayRef<Type> types,
                                   StringRef what) {
  if (buffers.size() != types.size())
    return op.emitOpError() << op.getKernelAttr() << " has " << types.size() << ' ' << what
                            << "s; got " << buffers.size();
  for (auto [index, buffer, type] : llvm::enumerate(buffers, types))
    if (Type(tensorType(buffer)) != type)
      return op.emitOpError() << what << ' ' << index << " of " << op.getKernelAttr() << " is "
                              << type << "; got " << buffer;
  return success();
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  if (!kernel)
    return emitOpError() << "found no rt.kernel named " << getKernelAttr();
  FunctionType type = kernel.getFunctionType();
  if (failed(verifyBuffers(*this, getInputs().getTypes(), type.getInputs(), "input")))
    return failure();
  return verifyBuffers(*this, getOutputs().getTypes(), type.getResults(), "output");
}

GemmOp::Shape GemmOp::getShape() {
  MemRefType c = getC().getType(), a = getA().getType();
  int64_t rank = c.getRank();
  Shape shape;
  shape.m = c.getDimSize(rank - 2);
  shape.n = c.getDimSize(rank - 1);
  shape.k = a.getDimSize(getTransposeA() ? rank - 2 : rank - 1);
  shape.batch = 1;
  for (int64_t size : c.getShape().drop_back(2))
    shape.batch *= size;
  return shape;
}

bool GemmOp::isMatmul() { return true; }
int64_t GemmOp::getFlops() {
  Shape shape = getShape();
  return 2 * shape.batch * shape.m * shape.n * shape.k;
}

void GemmOp::getEffects(SmallVectorImpl<MemoryEffects::EffectInstance> &effects) {
  effects.emplace_back(MemoryEffects::Read::get(), &getAMutable());
  effects.emplace_back(MemoryEffects::Read::get(), &getBMutable());
  for (OpOperand &scale : getScalesMutable())
    effects.emplace_back(MemoryEffects::Read::get(), &scale);
  if (getAccumulate())
    effects.emplace_back(MemoryEffects::Read::get(), &getCMutable());
  effects.emplace_back(MemoryEffects::Write::get(), &getCMutable());
}

/// Whether the element types, transpositions and scales are those of a matmul of 8-bit floats.
static bool isScaledMatmul(GemmOp op) {
  Type a = op.getA().getType().getElementType(), b = op.getB().getType().getElementType(),
       c = op.getC().getType().getElementType();
  auto isScale = [](Value value) {
    auto type = cast<MemRefType>(value.getType());
    return type.getRank() == 0 && type.getElementType().isF32();
  };
  return shale::is8BitFloat(b) && !(isa<Float8E5M2Type>(a) && isa<Float8E5M2Type>(b)) &&
         (c.isF32() || shale::is16BitFloat(c)) && op.getC().getType().getRank() == 2 &&
         op.getTransposeB() && !op.getTransposeA() && op.getScales().size() == 2 &&
         llvm::all_of(op.getScales(), isScale);
}

LogicalResult GemmOp::verify() {
  MemRefType a = getA().getType(), b = getB().getType(), c = getC().getType();
  int64_t rank = c.getRank();
  Type element = a.getElementType();
  bool scaled = shale::is8BitFloat(element);
  if (scaled ? !isScaledMatmul(*this) : !getScales().empty()) // gemm_c4
    return emitOpError()
           << "of 8-bit floats needs transpose_b, two scales of f32 and no batch, and "
              "any other matmul no scales; got "
           << a << " and " << b << " to " << c << " with " << getScales().size() << " scales";
  if ((!scaled &&
       ((!element.isF32() && !shale::is16BitFloat(element)) || b.getElementType() != element ||
        (c.getElementType() != element && !c.getElementType().isF32()))) ||
      rank < 2 || a.getRank() != rank || b.getRank() != rank ||
      a.getShape().drop_back(2) != c.getShape().drop_back(2) ||
      b.getShape().drop_back(2) != c.getShape().drop_back(2)) // gemm_c1
    return emitOpError()
           << "needs matrices of f32 or of one 16-bit float type, and of one batch; got " << a
           << ", " << b << " and " << c;
  if (getAccumulate() && !c.getElementType().isF32()) // gemm_c3
    return emitOpError() << "accumulates in f32; got " << c;
  Shape shape = getShape();
  int64_t am = a.getDimSize(getTransposeA() ? rank - 1 : rank - 2);
  int64_t bk = b.getDimSize(getTransposeB() ? rank - 1 : rank - 2);
  int64_t bn = b.getDimSize(getTransposeB() ? rank - 2 : rank - 1);
  if (am != shape.m || bn != shape.n || bk != shape.k) // gemm_c2
    return emitOpError() << "sizes do not agree: " << a << " times " << b << " to " << c;
  return success();
}

GroupedGemmOp::Shape GroupedGemmOp::getShape() {
  MemRefType a = getA().getType(), c = getC().getType();
  Shape shape{getEnds().getType().getDimSize(0), a.getDimSize(0), c.getDimSize(c.getRank() - 1),
              a.getDimSize(1)};
  if (getTransposeA())
    std::swap(shape.m, shape.k);
  return shape;
}

bool GroupedGemmOp::isMatmul() { return true; }
int64_t GroupedGemmOp::getFlops() {
  Shape shape = getShape();
  double share = double(shape.groups) / getOf().value_or(shape.groups);
  return 2 * shape.m * shape.n * shape.k * share;
}

LogicalResult GroupedGemmOp::verify() {
  MemRefType a = getA().getType(), b = getB().getType(), c = getC().getType(),
             ends = getEnds().getType();
  Type element = a.getElementType();
  if ((!element.isF32() && !shale::is16BitFloat(element)) || b.getElementType() != element ||
      (c.getElementType() != element && !c.getElementType().isF32()) ||
      !(ends.getElementType().isInteger(32) ||
        ends.getElementType().isInteger(64))) // grouped_gemm_c2
    return emitOpError() << "needs matrices of f32 or of one 16-bit float type, and integers; got "
                         << a << ", " << b << ", " << ends << " and " << c;
  bool transposed = getTransposeA();
  if (a.getRank() != 2 || ends.getRank() != 1 || b.getRank() != (transposed ? 2 : 3) ||
      c.getRank() != (transposed ? 3 : 2) || (transposed && getTransposeB())) // grouped_gemm_c1
    return emitOpError() << "needs rows, matrices and ends of groups; got " << a << ", " << b
                         << ", " << ends << " and " << c;
  Shape shape = getShape();
  SmallVector<int64_t> wantedB{shape.groups, shape.k, shape.n}, wantedC{shape.m, shape.n};
  if (getTransposeB())
    std::swap(wantedB[1], wantedB[2]);
  if (transposed)
    wantedB = {shape.k, shape.n}, wantedC = {shape.groups, shape.m, shape.n};
  if (b.getShape() != ArrayRef(wantedB) || c.getShape() != ArrayRef(wantedC)) // grouped_gemm_c1
    return emitOpError() << "sizes do not agree: " << a << " times " << b << " to " << c
                         << " in groups " << ends;
  return success();
}

GemmEpilogueOp::Shape GemmEpilogueOp::getShape() {
  return {getC().getType().getDimSize(0), getC().getType().getDimSize(1),
          getA().getType().getDimSize(getTransposeA() ? 0 : 1)};
}

bool GemmEpilogueOp::isMatmul() { return true; }
int64_t GemmEpilogueOp::getFlops() {
  Shape shape = getShape();
  return 2 * shape.m * shape.n * shape.k;
}

LogicalResult GemmEpilogueOp::verify() {
  MemRefType a = getA().getType(), b = getB().getType(), c = getC().getType();
  Type element = c.getElementType();
  bool fits = shale::is16BitFloat(element) && a.getElementType() == element &&
              b.getElementType() == element && a.getRank() == 2 && b.getRank() == 2 &&
              c.getRank() == 2;
  if (fits) {
    Shape shape = getShape();
    fits = a.getDimSize(getTransposeA() ? 1 : 0) == shape.m &&
           b.getDimSize(getTransposeB() ? 1 : 0) == shape.k &&
           b.getDimSize(getTransposeB() ? 0 : 1) == shape.n;
  }
  if (!fits) // gemm_epilogue_c1
    return emitOpError() << "needs matrices of one 16-bit float type whose m, n and k agree; got "
                         << a << ", " << b << " and " << c;
  // gemm_epilogue_c2
  std::string wrong =
      nn::checkEpilogue(getEpilogue(), getWith().getType(), c,
                        getBefore() ? cast<ShapedType>(getBefore().getType()) : ShapedType());
  return wrong.empty() ? success() : LogicalResult(emitOpError() << wrong);
}

LogicalResult GemmEpilogueOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(*this, getKernelAttr());
  SmallVector<Type> inputs{tensorType(getC().getType()), tensorType(getWith().getType())};
  SmallVector<Type> outputs{tensorType(getC().getType())};
  if (getBefore())
    outputs.push_back(tensorType(cast<MemRefType>(getBefore().getType())));
  auto type = FunctionType::get(getContext(), inputs, outputs);
  ArrayRef<int64_t> aliases;
  if (kernel)
    aliases = kernel.getAliases().value_or(ArrayRef<int64_t>());
  if (!kernel || kernel.getFunctionType() != type || aliases.empty() ||
      aliases.front() != 0) // gemm_epilogue_c3
    return emitOpError() << "needs an rt.kernel " << getKernelAttr() << " of type " << type
                         << " that may write its first output over its first input";
  return success();
}

/// Checks the buffers that attention and its gradient share.
static LogicalResult verifySdpa(Operation *op, TypeRange inputs, MemRefType result, MemRefType lse,
                                MemRefType workspace, bool causal, std::optional<int64_t> window) {
  std::optional<nn::AttentionSizes> sizes = nn::matchAttention(inputs, result, lse);
  if (!sizes || !is16BitFloat(result.getElementType()) || !lse.getElementType().isF32() ||
      workspace.getRank() != 1) // sdpa_c1
    return op->emitOpError()
           << "needs query [B, T, H, D], key [B, S, G, D] and value [B, S, G, E], or one buffer "
              "[B, T, H + 2 G, D], and result [B, T, H, E] of one 16-bit float type, lse [B, H, T] "
              "of f32 and a one-dimensional workspace; got "
           << inputs << ", " << result << ", " << lse << " and " << workspace;
  if (!sizes->sharesHeads() || (causal && sizes->length != sizes->keyLength)) // sdpa_c2
    return op->emitOpError() << "needs a positive multiple of key heads, and as many queries as "
                                "keys if it is causal; got "
                             << inputs << " and " << result;
  if (window && (*window < 1 || !causal)) // sdpa_c2
    return op->emitOpError() << "window must be positive and come with causal; got " << *window;
  return success();
}

nn::AttentionSizes SdpaOp::getSizes() {
  return nn::AttentionSizes::get(getInputs().getTypes(), getResult().getType());
}

int64_t SdpaOp::getFlops() { return getSizes().getFlops(getCausal(), getWindow()); }

LogicalResult SdpaOp::verify() {
  return verifySdpa(*this, getInputs().getTypes(), getResult().getType(), getLse().getType(),
                    getWorkspace().getType(), getCausal(), getWindow());
}

nn::AttentionSizes SdpaGradOp::getSizes() {
  return nn::AttentionSizes::get(getInputs().getTypes(), getOutput().getType());
}

int64_t SdpaGradOp::getFlops() { return getSizes().getFlops(getCausal(), getWindow()) * 5 / 2; }

LogicalResult SdpaGradOp::verify() {
  MemRefType output = getOutput().getType();
  if (failed(verifySdpa(*this, getInputs().getTypes(), output, getLse().getType(),
                        getWorkspace().getType(), getCausal(), getWindow()))) // sdpa_grad_c1
    return failure();
  nn::AttentionSizes s = getSizes();
  if (!nn::matchAttentionGradients(getGradients().getTypes(), s, output)) // sdpa_grad_c2
    return emitOpError() << "needs results of the types of query, key and value, or "
                         << s.packedType(output) << " if all have one length and depth";
  return success();
}
