//===- Epilogue.cpp - Matmuls with an epilogue ----------------------------===//
#include "dialects/nn/Ops/Epilogue.h"

using namespace mlir;
using namespace shale::nn;

std::string shale::nn::checkEpilogue(Epilogue epilogue, ShapedType with, ShapedType result,
                                     ShapedType before) {
  ArrayRef<int64_t> shape = result.getShape();
  ArrayRef<int64_t> expected = epilogue == Epilogue::GeluGrad ? shape : shape.take_back();
  std::string text;
  llvm::raw_string_ostream os(text);
  if (with.getElementType() != result.getElementType() || with.getShape() != expected)
    os << stringifyEpilogue(epilogue) << " of '" << result << "' cannot take '" << with << "'";
  else if (before && (epilogue != Epilogue::Gelu || before != result))
    os << "only gelu stores a second result, of the type of the first; got '" << before << "'";
  return text;
}

LogicalResult MatmulEpilogueOp::verify() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  auto rhs = cast<RankedTensorType>(getRhs().getType());
  auto result = cast<RankedTensorType>(getResult().getType());
  Type element = result.getElementType();
  bool fits = lhs.getRank() == 2 && rhs.getRank() == 2 && result.getRank() == 2 &&
              lhs.getElementType() == element && rhs.getElementType() == element;
  if (fits) {
    bool tl = getTransposeLhs(), tr = getTransposeRhs();
    fits = lhs.getDimSize(tl) == result.getDimSize(0) &&
           lhs.getDimSize(!tl) == rhs.getDimSize(tr) && rhs.getDimSize(!tr) == result.getDimSize(1);
  }
  if (!fits) // matmul_epilogue_c1
    return emitOpError() << "needs two-dimensional tensors of one element type whose m, n and k "
                            "agree; got "
                         << lhs << ", " << rhs << " and " << result;
  // matmul_epilogue_c2 matmul_epilogue_c3
  std::string wrong =
      checkEpilogue(getEpilogue(), cast<ShapedType>(getWith().getType()), result,
                    getBefore() ? cast<ShapedType>(getBefore().getType()) : ShapedType());
  return wrong.empty() ? success() : LogicalResult(emitOpError() << wrong);
}

int64_t MatmulEpilogueOp::getFlops() {
  auto lhs = cast<RankedTensorType>(getLhs().getType());
  return 2 * lhs.getDimSize(getTransposeLhs() ? 0 : 1) *
         cast<RankedTensorType>(getResult().getType()).getNumElements();
}

//===- Generated definitions ----------------------------------------------===//

#include "dialects/nn/EpilogueEnums.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Epilogue.cpp.inc"

void shale::nn::registerEpilogueOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Epilogue.cpp.inc"
      >();
}
