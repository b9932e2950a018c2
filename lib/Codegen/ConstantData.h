//===- ConstantData.h - C structs as LLVM constants -----------------------===//
//
// Tables that C or C++ code reads, for example the structs of include/shale/Runtime.h,
// are constants of the object file with the layout that a C compiler gives them. LLVM
// structs that are not packed follow the same rules if their fields have the same types.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_LIB_CODEGEN_CONSTANTDATA_H
#define SHALE_LIB_CODEGEN_CONSTANTDATA_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include <vector>

namespace shale {

/// A constant: a number, the address of a global, null, or a struct or array of fields.
struct Datum {
  enum Kind { Integer, Float, Address, Null, Fields } kind = Null;
  mlir::Type type;
  int64_t integer = 0;
  double number = 0;
  std::string global;
  std::vector<Datum> fields;
};

class ConstantData {
public:
  /// Names of strings and arrays begin with `prefix`, which a module must use only once.
  ConstantData(mlir::ModuleOp module, llvm::StringRef prefix);

  Datum i32(int64_t value) { return integer(builder.getI32Type(), value); }
  Datum i64(int64_t value) { return integer(builder.getI64Type(), value); }
  Datum f32(double value) { return number(builder.getF32Type(), value); }
  Datum f64(double value) { return number(builder.getF64Type(), value); }
  Datum null();
  /// Returns the address of a global or function.
  Datum address(llvm::StringRef symbol);
  /// Returns the address of a NUL-terminated string. Equal strings share one global.
  Datum string(llvm::StringRef text);
  /// Returns a struct of these fields that is not packed.
  Datum fields(std::vector<Datum> values);
  /// Returns the address of an array of structs, strings or numbers of one type; null if `values`
  /// is empty.
  Datum array(llvm::StringRef name, std::vector<Datum> values);

  /// Defines a global constant named `name`.
  mlir::LLVM::GlobalOp define(llvm::StringRef name, const Datum &value,
                              mlir::LLVM::Linkage linkage);

private:
  Datum integer(mlir::Type type, int64_t value);
  Datum number(mlir::Type type, double value);
  mlir::Value emit(mlir::OpBuilder &at, const Datum &value);

  mlir::ModuleOp module;
  std::string prefix;
  mlir::OpBuilder builder;
  mlir::Type pointer;
  llvm::StringMap<std::string> strings;
  int64_t arrays = 0;
};

} // namespace shale

#endif // SHALE_LIB_CODEGEN_CONSTANTDATA_H
