//===- NNAttrs.cpp - Attributes and enums of nn ---------------------------===//
#include "dialects/nn/NN.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shale::nn;

#include "dialects/nn/NNEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/nn/NNAttrs.cpp.inc"

LogicalResult FileAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                               StringRef path, int64_t offset, int64_t length,
                               bool transposed) {
  if (path.empty())
    return emitError() << "path must not be empty";
  if (offset < 0 || length < 0 || offset > INT64_MAX - length)
    return emitError() << "offset and length must not be negative, nor their sum overflow; got "
                       << offset << " and " << length;
  return success();
}

void NNDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/nn/NNAttrs.cpp.inc"
      >();
}
