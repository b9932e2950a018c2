//===- RuntimeCalls.h - Calls of the runtime from compiled code -----------===//
//
// The calls of include/shale/Calls.def and their operands (Structs.def), argument by argument:
//
//   calls::shale_copy copy;
//   copy.rank = rank;
//   copy.target = target;
//   copy.source = source;
//   copy.bytes = 4096;
//   emitCall(b, loc, module, copy);
//
// An argument is an LLVM value, or a constant of its C type. One that is not set is an internal
// error that names it.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_LIB_CODEGEN_RUNTIMECALLS_H
#define SHALE_LIB_CODEGEN_RUNTIMECALLS_H

#include "lib/Codegen/AbiFields.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include <variant>

namespace shale {
namespace abi {

/// An argument of any type: a value of code, or a number. Null addresses are numbers, too.
struct CodeValue {
  enum Kind { Unset, Null, Integer, Float, Code } kind = Unset;
  int64_t integer = 0;
  double number = 0;
  mlir::Value code;
};

/// The LLVM type of a C type.
enum class CodeType { I32, I64, F32, F64, Pointer, None };
template <typename T> constexpr CodeType codeType() {
  return std::is_void_v<T>                                 ? CodeType::None
         : std::is_pointer_v<T>                            ? CodeType::Pointer
         : std::is_enum_v<T> || std::is_same_v<T, int32_t> ? CodeType::I32
         : std::is_same_v<T, int64_t>                      ? CodeType::I64
         : std::is_same_v<T, float>                        ? CodeType::F32
                                                           : CodeType::F64;
}

struct InCode {
  template <typename T> class Field {
  public:
    explicit Field(llvm::StringLiteral name) : name(name) {}
    template <typename V, typename = std::enable_if_t<takes<T, V>>> Field &operator=(V constant) {
      T value_ = narrow<T>(name, constant);
      if constexpr (std::is_floating_point_v<T>)
        value = {CodeValue::Float, 0, value_, {}};
      else
        value = {CodeValue::Integer, int64_t(value_), 0, {}};
      return *this;
    }
    template <typename V, std::enable_if_t<std::is_convertible_v<V, mlir::Value> &&
                                               !std::is_same_v<V, std::nullptr_t>,
                                           int> = 0>
    Field &operator=(V code) {
      value = {CodeValue::Code, 0, 0, code};
      return *this;
    }
    template <
        typename V,
        typename = std::enable_if_t<std::is_pointer_v<T> && std::is_same_v<V, std::nullptr_t>>,
        typename = void>
    Field &operator=(V) {
      value = {CodeValue::Null, 0, 0, {}};
      return *this;
    }
    const CodeValue &get() const {
      if (value.kind == CodeValue::Unset)
        reportBadField(name, "is not set");
      return value;
    }
    static constexpr CodeType type = codeType<T>();

  private:
    llvm::StringLiteral name;
    CodeValue value;
  };
};

/// Operands of a call that takes a struct.
template <typename Struct> using Operands = Fields<Struct, InCode>;

/// Returns the value in code.
mlir::Value emitValue(mlir::OpBuilder &b, mlir::Location loc, const CodeValue &value,
                      CodeType type);
/// Stores a value at `offset` bytes from `base`.
void emitStore(mlir::OpBuilder &b, mlir::Location loc, mlir::Value base, int64_t offset,
               const CodeValue &value, CodeType type);
/// Calls a function, which is declared where the module lacks it. Returns its result, if it has
/// one.
mlir::Value emitCall(mlir::OpBuilder &b, mlir::Location loc, mlir::ModuleOp module,
                     llvm::StringRef name, CodeType result,
                     llvm::ArrayRef<std::pair<CodeValue, CodeType>> arguments);

/// Stores all fields of a struct at `base`.
template <typename Struct>
void emitFields(mlir::OpBuilder &b, mlir::Location loc, mlir::Value base,
                const Operands<Struct> &operands) {
  forEachField(operands, [&](const auto &field, size_t offset) {
    emitStore(b, loc, base, int64_t(offset), field.get(), field.type);
  });
}

} // namespace abi

namespace calls {
#define SHALE_CALL(Result, Name, Type, First)                                                      \
  struct Name {                                                                                    \
    static constexpr llvm::StringLiteral kName = #Name;                                            \
    static constexpr abi::CodeType kResult = abi::codeType<Result>();                              \
    abi::InCode::Field<Type> First{#First};
#define SHALE_ARGUMENT(Type, Name) abi::InCode::Field<Type> Name{#Name};
#define SHALE_CALL_END(Name)                                                                       \
  }                                                                                                \
  ;
#include "shale/Calls.def"

/// Returns the arguments in their order.
#define SHALE_CALL(Result, Name, Type, First)                                                      \
  inline llvm::SmallVector<std::pair<abi::CodeValue, abi::CodeType>> argumentsOf(                  \
      const Name &call) {                                                                          \
    return {                                                                                       \
      {call.First.get(), call.First.type},
#define SHALE_ARGUMENT(Type, Name) {call.Name.get(), call.Name.type},
#define SHALE_CALL_END(Name)                                                                       \
  }                                                                                                \
  ;                                                                                                \
  }
#include "shale/Calls.def"
} // namespace calls

/// Emits a call of the runtime. Returns its result, if it has one.
template <typename Call>
mlir::Value emitCall(mlir::OpBuilder &b, mlir::Location loc, mlir::ModuleOp module,
                     const Call &call) {
  return abi::emitCall(b, loc, module, Call::kName, Call::kResult, argumentsOf(call));
}

} // namespace shale

#endif // SHALE_LIB_CODEGEN_RUNTIMECALLS_H
