//===- NNAttrs.cpp - Attributes and enums of nn ---------------------------===//
#include "dialects/nn/NN.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shale::nn;

#include "dialects/nn/NNEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/nn/NNAttrs.cpp.inc"

LogicalResult FileAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef path,
                               int64_t offset, int64_t length, bool transposed, Type type) {
  if (path.empty())
    return emitError() << "path must not be empty";
  if (offset < 0 || length < 0 || offset > INT64_MAX - length)
    return emitError() << "offset and length must not be negative, nor their sum overflow; got "
                       << offset << " and " << length;
  if (type && !type.isF32() && !shale::is16BitFloat(type))
    return emitError() << "type must be f32, bf16 or f16; got " << type;
  return success();
}

Type FileAttr::elementTypeFor(Type state, int64_t count) {
  if (getType())
    return getType();
  bool wider = shale::is16BitFloat(state) && getLength() % 4 == 0 && getLength() / 4 == count;
  return wider ? Type(Float32Type::get(state.getContext())) : state;
}

LogicalResult PrecisionAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Type param,
                                    Type reduce, Type buffer, Type master, Type optimizer) {
  auto known = [](Type type) { return type.isF32() || type.isBF16() || type.isF16(); };
  for (Type type : {param, reduce, buffer})
    if (!known(type))
      return emitError() << "param, reduce and buffer must be f32, bf16 or f16; got " << type;
  if (!master.isF32() && master != param)
    return emitError() << "master must be f32 or the param type " << param << "; got " << master;
  if (!optimizer.isF32() && !optimizer.isBF16())
    return emitError() << "optimizer must be f32 or bf16; got " << optimizer;
  return success();
}

bool PrecisionAttr::isFull() const {
  return getParam().isF32() && getReduce().isF32() && getBuffer().isF32() && getMaster().isF32() &&
         getOptimizer().isF32();
}

void NNDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/nn/NNAttrs.cpp.inc"
      >();
}
