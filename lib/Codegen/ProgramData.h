//===- ProgramData.h - Structs of the C ABI as constants ------------------===//
//
// Rows of the tables that the runtime reads (include/shale/Structs.def), as constants of the object
// file:
//
//   Row<ShaleAxis> row;
//   row.name = data.text("fsdp");
//   row.size = 4;
//   row.splits_batch = 1;
//   program.axes = data.table<ShaleAxis>("axes", {row});
//
// A field that is not set is an internal error that names it.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_LIB_CODEGEN_PROGRAMDATA_H
#define SHALE_LIB_CODEGEN_PROGRAMDATA_H

#include "lib/Codegen/AbiFields.h"
#include "lib/Codegen/ConstantData.h"

namespace shale::abi {

/// The address of a constant or function whose C type is T; null by default.
template <typename T> struct Address {
  std::string symbol;
};

/// The address of an array of rows of T, and their number.
template <typename T> struct Rows {
  std::string symbol;
  int64_t count = 0;
};

struct InData {
  template <typename T> class Field {
  public:
    using Value = std::conditional_t<std::is_pointer_v<T>, Address<std::remove_pointer_t<T>>, T>;
    explicit Field(llvm::StringLiteral name) : name(name) {}
    template <typename V, typename = std::enable_if_t<takes<T, V>>> Field &operator=(V constant) {
      value = narrow<T>(name, constant);
      return *this;
    }
    template <typename V, typename = std::enable_if_t<std::is_same_v<V *, T>>>
    Field &operator=(Address<V> address) {
      value = std::move(address);
      return *this;
    }
    template <
        typename V,
        typename = std::enable_if_t<std::is_pointer_v<T> && std::is_same_v<V, std::nullptr_t>>,
        typename = void>
    Field &operator=(V) {
      value = Value{};
      return *this;
    }
    const Value &get() const {
      if (!value)
        reportBadField(name, "is not set");
      return *value;
    }

  private:
    llvm::StringLiteral name;
    std::optional<Value> value;
  };

  template <typename T> class Table {
  public:
    explicit Table(llvm::StringLiteral name) : name(name) {}
    Table &operator=(Rows<T> rows) {
      value = std::move(rows);
      return *this;
    }
    const Rows<T> &get() const {
      if (!value)
        reportBadField(name, "is not set");
      return *value;
    }

  private:
    llvm::StringLiteral name;
    std::optional<Rows<T>> value;
  };
};

template <typename Struct> using Row = Fields<Struct, InData>;

/// Constants of a module in the layout of C. All names begin with the prefix of `data`.
class ProgramData {
public:
  ProgramData(mlir::ModuleOp module, llvm::StringRef prefix) : data(module, prefix) {}

  /// A NUL-terminated string; equal strings are one constant.
  Address<const char> text(llvm::StringRef value) { return {data.string(value).global}; }
  template <typename T> Address<T> addressOf(llvm::StringRef symbol) { return {symbol.str()}; }
  /// Arrays; null if they are empty.
  Address<const int64_t> numbers(llvm::StringRef name, llvm::ArrayRef<int64_t> values);
  Address<const int32_t> words(llvm::StringRef name, llvm::ArrayRef<int32_t> values);
  template <typename T>
  Rows<T> addresses(llvm::StringRef name,
                    llvm::ArrayRef<Address<std::remove_pointer_t<T>>> values) {
    std::vector<Datum> rows;
    for (const auto &value : values)
      rows.push_back(addressDatum(value.symbol));
    return {data.array(name, std::move(rows)).global, int64_t(values.size())};
  }
  template <typename Struct>
  Rows<Struct> table(llvm::StringRef name, const std::vector<Row<Struct>> &rows) {
    std::vector<Datum> values;
    for (const Row<Struct> &row : rows)
      values.push_back(datum(row));
    return {data.array(name, std::move(values)).global, int64_t(rows.size())};
  }
  /// Defines a constant named `name`.
  template <typename Struct>
  void define(llvm::StringRef name, const Row<Struct> &row, mlir::LLVM::Linkage linkage) {
    data.define(name, datum(row), linkage);
  }

  /// The row as one constant.
#define SHALE_STRUCT(Name) Datum datum(const Row<Name> &row);
#include "shale/Structs.def"

private:
  Datum addressDatum(const std::string &symbol) {
    return symbol.empty() ? data.null() : data.address(symbol);
  }
  template <typename Struct> Datum build(const Row<Struct> &row);
  template <typename T> void append(std::vector<Datum> &values, const InData::Field<T> &field);
  template <typename T> void append(std::vector<Datum> &values, const InData::Table<T> &table);
  template <typename Struct> void append(std::vector<Datum> &values, const Row<Struct> &row);

  ConstantData data;
};

} // namespace shale::abi

#endif // SHALE_LIB_CODEGEN_PROGRAMDATA_H
