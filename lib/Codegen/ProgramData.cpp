//===- ProgramData.cpp - Structs of the C ABI as constants ----------------===//
#include "lib/Codegen/ProgramData.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace shale;
using namespace shale::abi;

void abi::reportBadField(StringRef name, StringRef what) {
  llvm::reportFatalInternalError("field '" + name + "' of the program's tables or calls " + what);
}

Address<const int64_t> ProgramData::numbers(StringRef name, ArrayRef<int64_t> values) {
  std::vector<Datum> list;
  for (int64_t value : values)
    list.push_back(data.i64(value));
  return {data.array(name, std::move(list)).global};
}

Address<const int32_t> ProgramData::words(StringRef name, ArrayRef<int32_t> values) {
  std::vector<Datum> list;
  for (int32_t value : values)
    list.push_back(data.i32(value));
  return {data.array(name, std::move(list)).global};
}

template <typename T>
void ProgramData::append(std::vector<Datum> &values, const InData::Field<T> &field) {
  if constexpr (std::is_pointer_v<T>)
    values.push_back(addressDatum(field.get().symbol));
  else if constexpr (std::is_enum_v<T> || std::is_same_v<T, int32_t>)
    values.push_back(data.i32(field.get()));
  else if constexpr (std::is_same_v<T, int64_t>)
    values.push_back(data.i64(field.get()));
  else if constexpr (std::is_same_v<T, float>)
    values.push_back(data.f32(field.get()));
  else
    values.push_back(data.f64(field.get()));
}

template <typename T>
void ProgramData::append(std::vector<Datum> &values, const InData::Table<T> &table) {
  values.push_back(addressDatum(table.get().symbol));
  values.push_back(data.i64(table.get().count));
}

template <typename Struct>
void ProgramData::append(std::vector<Datum> &values, const Row<Struct> &row) {
  values.push_back(datum(row));
}

template <typename Struct> Datum ProgramData::build(const Row<Struct> &row) {
  std::vector<Datum> values;
  forEachField(row, [&](const auto &field, size_t) { append(values, field); });
  return data.fields(std::move(values));
}

#define SHALE_STRUCT(Name)                                                                         \
  Datum ProgramData::datum(const Row<Name> &row) { return build<Name>(row); }
#include "shale/Structs.def"
