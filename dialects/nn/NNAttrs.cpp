//===- NNAttrs.cpp - Attributes and enums of nn ---------------------------===//
#include "dialects/nn/UpdateFactors.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include <cmath>

using namespace mlir;
using namespace shale::nn;

#include "dialects/nn/NNEnums.cpp.inc"

/// Parses NAME = NUMBER, separated by commas.
static ParseResult parseFactors(AsmParser &parser, DenseF64ArrayAttr &attr) {
  SmallVector<double> values(kUpdateFactors, 1);
  llvm::SmallBitVector given(kUpdateFactors);
  auto parse = [&]() -> ParseResult {
    StringRef name;
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&name) || parser.parseEqual())
      return failure();
    std::optional<UpdateFactor> factor = symbolizeUpdateFactor(name);
    if (!factor)
      return parser.emitError(loc) << "unknown factor '" << name << "'";
    if (given.test(size_t(*factor)))
      return parser.emitError(loc) << "factor '" << name << "' is given twice";
    given.set(size_t(*factor));
    return parser.parseFloat(values[size_t(*factor)]);
  };
  if (parser.parseCommaSeparatedList(parse))
    return failure();
  attr = DenseF64ArrayAttr::get(parser.getContext(), values);
  return success();
}

static void printFactors(AsmPrinter &printer, DenseF64ArrayAttr attr) {
  llvm::ListSeparator comma;
  for (auto [number, value] : llvm::enumerate(attr.asArrayRef()))
    if (value != 1) {
      printer << StringRef(comma) << stringifyUpdateFactor(UpdateFactor(number)) << " = ";
      printer.printFloat(APFloat(value));
    }
}

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

LogicalResult UpdateFactorsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                        DenseF64ArrayAttr values) { // update_factors_c1
  ArrayRef<double> all = values.asArrayRef();
  if (all.size() != kUpdateFactors)
    return emitError() << "needs " << kUpdateFactors << " values; got " << all.size();
  if (!llvm::all_of(all, [](double value) { return std::isfinite(value); }))
    return emitError() << "factors must be finite; got " << values;
  if (llvm::all_of(all, [](double value) { return value == 1; }))
    return emitError() << "needs a factor other than 1";
  return success();
}

double UpdateFactorsAttr::getFactor(unsigned number) const { return getValues()[number]; }

UpdateFactors UpdateFactors::of(shale::UpdateFactorsAttrInterface attr) {
  UpdateFactors factors;
  for (auto [number, value] : llvm::enumerate(factors.values))
    value = attr ? attr.getFactor(number) : 1;
  return factors;
}

UpdateFactorsAttr UpdateFactors::toAttr(MLIRContext *context) const {
  if (*this == of({}))
    return {};
  return UpdateFactorsAttr::get(context, DenseF64ArrayAttr::get(context, values));
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
