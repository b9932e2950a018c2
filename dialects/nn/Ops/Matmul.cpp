//===- Matmul.cpp - Matmuls -----------------------------------------------===//
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/interfaces/Float8.h"

using namespace mlir;
using namespace shale::nn;

/// Checks the types of a matmul, of nn.matmul or nn.matmul_add.
template <typename OpT> static LogicalResult verifyMatmul(OpT op) {
  auto lhs = cast<RankedTensorType>(op.getLhs().getType());
  auto rhs = cast<RankedTensorType>(op.getRhs().getType());
  auto result = cast<RankedTensorType>(op.getType());
  int64_t rank = result.getRank();
  if (rank < 2 || lhs.getRank() != rank || rhs.getRank() != rank ||
      lhs.getElementType() != rhs.getElementType() ||
      (result.getElementType() != lhs.getElementType() &&
       result.getElementType() != shale::accumulatorType(lhs.getElementType()))) // matmul_c1
    return op.emitOpError() << "ranks must be equal and at least 2, element types equal; got "
                            << lhs << ", " << rhs << " and " << result;
  if (lhs.getShape().drop_back(2) != result.getShape().drop_back(2) ||
      rhs.getShape().drop_back(2) != result.getShape().drop_back(2)) // matmul_c2
    return op.emitOpError() << "batch dimensions must be equal; got " << lhs << ", " << rhs
                            << " and " << result;
  int64_t m = lhs.getDimSize(rank - 2), k = lhs.getDimSize(rank - 1);
  int64_t kRhs = rhs.getDimSize(rank - 2), n = rhs.getDimSize(rank - 1);
  if (op.getTransposeLhs())
    std::swap(m, k);
  if (op.getTransposeRhs())
    std::swap(kRhs, n);
  if (k != kRhs || m != result.getDimSize(rank - 2) ||
      n != result.getDimSize(rank - 1)) // matmul_c3
    return op.emitOpError() << "m, n and k must agree; lhs says m = " << m << ", k = " << k
                            << ", rhs says k = " << kRhs << ", n = " << n << ", the result is "
                            << result;
  return success();
}

LogicalResult MatmulOp::verify() {
  if (ArrayAttr types = getQuantizedAttr()) {
    auto isWide = [](Attribute type) {
      return isa<Float8E5M2Type>(cast<TypeAttr>(type).getValue());
    };
    if (types.size() != 2 || !llvm::all_of(types.getAsValueRange<TypeAttr>(), shale::is8BitFloat) ||
        llvm::all_of(types, isWide) ||
        cast<RankedTensorType>(getType()).getRank() != 2) // matmul_c4
      return emitOpError()
             << "with quantized operands must be of rank 2, with two types of f8E4M3FN "
                "and f8E5M2, not both f8E5M2; got "
             << types << " and " << getType();
  }
  return verifyMatmul(*this);
}

LogicalResult MatmulAddOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto result = cast<RankedTensorType>(getType());
  if (result.getElementType() != shale::accumulatorType(lhs.getElementType())) // matmul_add_c1
    return emitOpError() << "the result must have the type in which matmuls of " << lhs
                         << " are summed; got " << result;
  return verifyMatmul(*this);
}

template <typename OpT> static int64_t matmulFlops(OpT op) {
  auto lhs = cast<RankedTensorType>(op.getLhs().getType());
  int64_t k = lhs.getDimSize(lhs.getRank() - (op.getTransposeLhs() ? 2 : 1));
  return 2 * k * cast<RankedTensorType>(op.getType()).getNumElements();
}

int64_t MatmulOp::getFlops() { return matmulFlops(*this); }
int64_t MatmulAddOp::getFlops() { return matmulFlops(*this); }

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Matmul.cpp.inc"

void shale::nn::registerMatmulOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Matmul.cpp.inc"
      >();
}
