//===- AbiFields.h - Structs of the C ABI, field by field -----------------===//
//
// Builders for the structs of include/shale/Structs.def and the calls of Calls.def. A field has its
// name and C type, so a value of another type, or of another enum, does not compile. Where the
// values go is a policy: ProgramData.h puts them into constants of the object file, RuntimeCalls.h
// into code.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_LIB_CODEGEN_ABIFIELDS_H
#define SHALE_LIB_CODEGEN_ABIFIELDS_H

#include "shale/Runtime.h"
#include "llvm/ADT/StringRef.h"
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

namespace shale::abi {

/// Whether a constant of type V may be the value of a field of type T: an integer of an integer
/// (within its range), a number of a float, an enumerator of its own enum.
template <typename T, typename V>
inline constexpr bool takes =
    std::is_integral_v<T>         ? std::is_integral_v<V>
    : std::is_floating_point_v<T> ? std::is_arithmetic_v<V>
                                  : std::is_enum_v<T> && std::is_same_v<T, V>;

/// Ends the compiler with an internal error: a number that a field cannot hold, or a field that is
/// not set.
[[noreturn]] void reportBadField(llvm::StringRef name, llvm::StringRef what);

template <typename T, typename V> T narrow(llvm::StringRef name, V value) {
  if constexpr (std::is_integral_v<T> && !std::is_same_v<V, bool>)
    if (int64_t(value) < int64_t(std::numeric_limits<T>::min()) ||
        int64_t(value) > int64_t(std::numeric_limits<T>::max()))
      reportBadField(name, "is out of range");
  return static_cast<T>(value);
}

/// The fields of a struct. `Place::Field<T>` holds the value of one; `Place::Table<T>` that of an
/// array and its number of rows.
template <typename Struct, typename Place> struct Fields;

#define SHALE_STRUCT(Name) template <typename Place> struct Fields<Name, Place> {
#define SHALE_NUMBER(Type, Name) typename Place::template Field<Type> Name{#Name};
#define SHALE_WORD(Enum, Name) typename Place::template Field<Enum> Name{#Name};
#define SHALE_ADDRESS(Type, Name) typename Place::template Field<Type *> Name{#Name};
#define SHALE_TABLE(Type, Name, Count) typename Place::template Table<Type> Name{#Name};
#define SHALE_CODE(Type, Name) typename Place::template Field<Type> Name{#Name};
#define SHALE_ROW(Struct, Name) Fields<Struct, Place> Name;
#define SHALE_END(Name)                                                                            \
  }                                                                                                \
  ;
#include "shale/Structs.def"

/// The name of a struct.
template <typename Struct> extern const llvm::StringLiteral kName;
#define SHALE_STRUCT(Name) template <> inline constexpr llvm::StringLiteral kName<Name> = #Name;
#include "shale/Structs.def"

/// Calls `visit` with each field and its offset in bytes, in their order. A table counts as one
/// field, at the offset of its address.
#define SHALE_STRUCT(Name)                                                                         \
  template <typename Place, typename Visit>                                                        \
  void forEachField(const Fields<Name, Place> &fields, Visit visit) {                              \
    using Struct = Name;
#define SHALE_NUMBER(Type, Name) visit(fields.Name, offsetof(Struct, Name));
#define SHALE_WORD(Enum, Name) visit(fields.Name, offsetof(Struct, Name));
#define SHALE_ADDRESS(Type, Name) visit(fields.Name, offsetof(Struct, Name));
#define SHALE_TABLE(Type, Name, Count) visit(fields.Name, offsetof(Struct, Name));
#define SHALE_CODE(Type, Name) visit(fields.Name, offsetof(Struct, Name));
#define SHALE_ROW(Row, Name) visit(fields.Name, offsetof(Struct, Name));
#define SHALE_END(Name) }
#include "shale/Structs.def"

} // namespace shale::abi

#endif // SHALE_LIB_CODEGEN_ABIFIELDS_H
