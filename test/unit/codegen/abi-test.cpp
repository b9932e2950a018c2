// Structs of the C ABI as the compiler lays them out, against the C compiler.
#include "lib/Codegen/ProgramData.h"
#include "lib/Codegen/RuntimeCalls.h"
#include "mlir/Target/LLVMIR/TypeToLLVM.h"
#include "llvm/IR/DataLayout.h"
#include "llvm/IR/DerivedTypes.h"
#include "llvm/IR/LLVMContext.h"
#include <gtest/gtest.h>
#include <utility>
#include <vector>

using namespace mlir;
using namespace shale;
using namespace shale::abi;

namespace {
template <typename Field, typename Value>
constexpr bool assignable = std::is_assignable_v<Field &, Value>;

// A value of another kind does not compile.
using TypeField = decltype(Row<ShaleState>::type);
static_assert(assignable<TypeField, ShaleType>);
static_assert(!assignable<TypeField, ShaleCollectiveKind> && !assignable<TypeField, int>);
using AxesField = decltype(Row<ShaleProgram>::axes);
static_assert(assignable<AxesField, Rows<ShaleAxis>> && !assignable<AxesField, Rows<ShaleGroup>>);
using NameField = decltype(Row<ShaleAxis>::name);
static_assert(assignable<NameField, Address<const char>> && assignable<NameField, std::nullptr_t>);
static_assert(!assignable<NameField, Address<const int64_t>> && !assignable<NameField, int>);
using SizeField = decltype(Row<ShaleAxis>::size);
static_assert(assignable<SizeField, int64_t> && !assignable<SizeField, ShaleType>);
static_assert(!assignable<SizeField, double> && !assignable<SizeField, std::nullptr_t>);
using CountArgument = decltype(calls::shale_start::count);
static_assert(assignable<CountArgument, int64_t> && assignable<CountArgument, mlir::Value>);
static_assert(!assignable<CountArgument, float> && !assignable<CountArgument, std::nullptr_t>);

class Abi : public ::testing::Test {
protected:
  Abi() {
    context.loadDialect<LLVM::LLVMDialect>();
    module = ModuleOp::create(UnknownLoc::get(&context));
  }
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

/// Sets each field to a value of its type.
struct SetAll {
  template <typename T> void operator()(InData::Field<T> &field) {
    if constexpr (std::is_pointer_v<T>)
      field = nullptr;
    else
      field = T(1);
  }
  template <typename T> void operator()(InData::Table<T> &table) { table = Rows<T>{}; }
  template <typename Struct> void operator()(Row<Struct> &row) { fill(row); }
  template <typename Struct> static void fill(Row<Struct> &row) {
    forEachField(row, [](const auto &field, size_t) {
      SetAll()(const_cast<std::remove_const_t<std::remove_reference_t<decltype(field)>> &>(field));
    });
  }
};

using Places = std::vector<std::pair<uint64_t, uint64_t>>; // offset and bytes of each field

/// The places of the fields of a struct by the C compiler.
template <typename Struct> Places placesInC();
#define SHALE_STRUCT(Name)                                                                         \
  template <> Places placesInC<Name>() {                                                           \
    using Struct = Name;                                                                           \
    return {
#define PLACE(Name) {offsetof(Struct, Name), sizeof(Struct::Name)},
#define SHALE_NUMBER(Type, Name) PLACE(Name)
#define SHALE_WORD(Enum, Name) PLACE(Name)
#define SHALE_ADDRESS(Type, Name) PLACE(Name)
#define SHALE_TABLE(Type, Name, Count) PLACE(Name) PLACE(Count)
#define SHALE_CODE(Type, Name) PLACE(Name)
#define SHALE_ROW(Row, Name) PLACE(Name)
#define SHALE_END(Name)                                                                            \
  }                                                                                                \
  ;                                                                                                \
  }
#include "shale/Structs.def"

template <typename Struct> void expectLayout(ModuleOp module) {
  ProgramData data(module, "test");
  Row<Struct> row;
  SetAll::fill(row);
  auto type = cast<LLVM::LLVMStructType>(data.datum(row).type);
  // x86-64, for which programs are compiled, as LLVM lays it out.
  llvm::LLVMContext llvmContext;
  llvm::DataLayout layout(
      "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128");
  auto *lowered =
      cast<llvm::StructType>(LLVM::TypeToLLVMIRTranslator(llvmContext).translateType(type));
  const llvm::StructLayout *places = layout.getStructLayout(lowered);
  EXPECT_EQ(places->getSizeInBytes(), sizeof(Struct)) << kName<Struct>.str();
  Places found;
  for (auto [i, field] : llvm::enumerate(lowered->elements()))
    found.emplace_back(places->getElementOffset(i), layout.getTypeAllocSize(field));
  EXPECT_EQ(found, placesInC<Struct>()) << kName<Struct>.str();
}
} // namespace

TEST_F(Abi, StructsHaveTheLayoutOfC) {
#define SHALE_STRUCT(Name) expectLayout<Name>(*module);
#include "shale/Structs.def"
}

TEST_F(Abi, AFieldThatIsNotSetIsNamed) {
  ProgramData data(*module, "test");
  Row<ShaleAxis> row;
  row.name = data.text("fsdp");
  row.size = 4;
  EXPECT_DEATH(data.datum(row), "field 'splits_batch' of the program's tables or calls is not set");
}

TEST_F(Abi, ANumberBeyondItsFieldIsNamed) {
  Row<ShaleSegment> row;
  EXPECT_DEATH(row.rank = int64_t(1) << 31, "field 'rank' .* is out of range");
}

TEST_F(Abi, ArgumentsAreInTheOrderOfTheList) {
  OpBuilder b(&context);
  b.setInsertionPointToEnd(module->getBody());
  auto function =
      LLVM::LLVMFuncOp::create(b, b.getUnknownLoc(), "f",
                               LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(&context),
                                                           {LLVM::LLVMPointerType::get(&context)}));
  b.setInsertionPointToStart(function.addEntryBlock(b));
  calls::shale_zero zero;
  zero.bytes = 64; // not in the order of the list
  zero.target = function.getArgument(0);
  zero.rank = nullptr;
  emitCall(b, b.getUnknownLoc(), *module, zero);
  LLVM::ReturnOp::create(b, b.getUnknownLoc(), ValueRange());
  auto call = *function.getBody().front().getOps<LLVM::CallOp>().begin();
  EXPECT_EQ(*call.getCallee(), "shale_zero");
  EXPECT_TRUE(call.getOperand(0).getDefiningOp<LLVM::ZeroOp>());
  EXPECT_EQ(call.getOperand(1), function.getArgument(0));
  auto bytes = call.getOperand(2).getDefiningOp<LLVM::ConstantOp>();
  EXPECT_EQ(cast<IntegerAttr>(bytes.getValue()).getInt(), 64);
  EXPECT_TRUE(module->lookupSymbol<LLVM::LLVMFuncOp>("shale_zero"));
}
