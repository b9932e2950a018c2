//===- EmulatedThread.cpp - Calls of the emulator -------------------------===//
#include "lib/Target/CUDA/EmulatedThread.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

Value EmulatedThread::i32(int64_t value) const {
  return LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(value));
}
Value EmulatedThread::i64(int64_t value) const {
  return LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(value));
}

Value EmulatedThread::field(Field which, Type type) const {
  Type i64 = b.getI64Type();
  auto fields = LLVM::LLVMStructType::getLiteral(
      b.getContext(), {i64, i64, pointer(), pointer(), pointer(), pointer()});
  Value at = LLVM::GEPOp::create(b, loc, pointer(), fields, context,
                                 ArrayRef<LLVM::GEPArg>{0, int32_t(which)});
  return LLVM::LoadOp::create(b, loc, type, at);
}

Value EmulatedThread::call(Field which, Type result, ArrayRef<Value> arguments) const {
  SmallVector<Value> operands{field(which, pointer()), context};
  llvm::append_range(operands, arguments);
  SmallVector<Type> types;
  for (Value value : ArrayRef(operands).drop_front())
    types.push_back(value.getType());
  auto type =
      LLVM::LLVMFunctionType::get(result ? result : LLVM::LLVMVoidType::get(b.getContext()), types);
  auto made = LLVM::CallOp::create(b, loc, type, operands);
  return result ? made.getResult() : Value();
}

//===- Matmuls of tensor cores --------------------------------------------===//

namespace {

/// The operands of a matmul of 16 x 16 by 16 x 8 elements with sums: registers of a thread.
constexpr int64_t kLeft = 4, kRight = 2, kSums = 4, kTerms = 16;
/// Threads whose registers have one row of the left matrix, or one column of the right one.
constexpr int64_t kSharers = 4;
constexpr int64_t kShuffles = kSharers * (kLeft + 2 * kRight);

/// Emits the function. Each thread gets the words of its two rows and its two columns. In the terms
/// of the PTX ISA ("Matrix Fragments for mma.m16n8k16 with floating point type"), with groupID =
/// lane / 4 and i = threadID_in_group = lane % 4, of the 16-bit elements in the thread's words
///
///   a0, a1 and a4, a5: row groupID,     columns 2 i, 2 i + 1 and 2 i + 8, 2 i + 9
///   a2, a3 and a6, a7: row groupID + 8, the same columns
///   b0, b1 and b2, b3: column groupID,  rows 2 i, 2 i + 1 and 2 i + 8, 2 i + 9
///   c0, c1 and c2, c3: row groupID and groupID + 8, columns 2 i, 2 i + 1
///
/// Products are exact in f32. The sums of tensor cores have an order and a rounding of their own;
/// here each is rounded to nearest, in the order of the terms.
class MatmulEmitter {
public:
  MatmulEmitter(OpBuilder &b, LLVM::LLVMFuncOp function, Type element)
      : b(b), loc(function.getLoc()), element(element), arguments(function.getArguments()),
        thread(b, loc, arguments.front()) {}

  void emit() {
    Value number = LLVM::TruncOp::create(b, loc, b.getI32Type(),
                                         thread.field(EmulatedThread::Thread, b.getI64Type()));
    Value i = LLVM::AndOp::create(b, loc, number, thread.i32(kSharers - 1));
    // By row or column of the thread, and term.
    SmallVector<Value> rows[2], columns[2];
    ValueRange left = ValueRange(arguments).slice(1, kLeft),
               right = ValueRange(arguments).slice(1 + kLeft, kRight);
    for (int64_t half = 0; half < 2; ++half)
      for (int64_t sharer = 0; sharer < kSharers; ++sharer)
        for (int64_t which = 0; which < 2; ++which) {
          unpack(shuffle(left[2 * half + which], thread.i32(sharer), kSharers), rows[which]);
          Value column =
              LLVM::AddOp::create(b, loc, LLVM::MulOp::create(b, loc, i, thread.i32(2 * kSharers)),
                                  thread.i32(which * kSharers + sharer));
          unpack(shuffle(right[half], column, 32), columns[which]);
        }
    SmallVector<Value> sums(ValueRange(arguments).slice(1 + kLeft + kRight, kSums));
    for (auto [place, sum] : llvm::enumerate(sums))
      for (int64_t term = 0; term < kTerms; ++term)
        sum = LLVM::FAddOp::create(
            b, loc, sum,
            LLVM::FMulOp::create(b, loc, rows[place / 2][term], columns[place % 2][term]));
    auto type = cast<LLVM::LLVMFunctionType>(
        cast<LLVM::LLVMFuncOp>(arguments.front().getOwner()->getParentOp()).getFunctionType());
    Value result = LLVM::PoisonOp::create(b, loc, type.getReturnType());
    for (auto [place, sum] : llvm::enumerate(sums))
      result = LLVM::InsertValueOp::create(b, loc, result, sum, ArrayRef<int64_t>{int64_t(place)});
    LLVM::ReturnOp::create(b, loc, result);
  }

private:
  /// Returns the word of the thread with number `from` among `width` neighbours.
  Value shuffle(Value word, Value from, int64_t width) {
    Value site = LLVM::AddOp::create(b, loc, arguments.back(), thread.i32(shuffles++));
    Value both = thread.call(EmulatedThread::Shuffle, b.getI64Type(),
                             {word, from, thread.i32(width), thread.i32(3), site});
    return LLVM::TruncOp::create(b, loc, b.getI32Type(), both);
  }

  /// Appends the two elements of a word, widened.
  void unpack(Value word, SmallVector<Value> &elements) {
    Value high = LLVM::LShrOp::create(b, loc, word, thread.i32(16));
    for (Value half : {word, high}) {
      Value bits = LLVM::TruncOp::create(b, loc, b.getI16Type(), half);
      if (element.isF16()) {
        elements.push_back(LLVM::FPExtOp::create(b, loc, b.getF32Type(),
                                                 LLVM::BitcastOp::create(b, loc, element, bits)));
        continue;
      }
      Value wide = LLVM::ShlOp::create(b, loc, LLVM::ZExtOp::create(b, loc, b.getI32Type(), bits),
                                       thread.i32(16));
      elements.push_back(LLVM::BitcastOp::create(b, loc, b.getF32Type(), wide));
    }
  }

  OpBuilder &b;
  Location loc;
  Type element;
  ArrayRef<BlockArgument> arguments; ///< the context, words, sums, the first site
  EmulatedThread thread;
  int64_t shuffles = 0;
};

/// Returns the function for matrices of an element.
LLVM::LLVMFuncOp matmulFunction(ModuleOp module, Type element) {
  StringRef name = element.isF16() ? "shale_mma_f16" : "shale_mma_bf16";
  if (auto known = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return known;
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  SmallVector<Type> types{LLVM::LLVMPointerType::get(b.getContext())};
  types.append(kLeft + kRight, i32);
  types.append(kSums, f32);
  types.push_back(i32);
  auto sums = LLVM::LLVMStructType::getLiteral(b.getContext(), SmallVector<Type>(kSums, f32));
  auto function = LLVM::LLVMFuncOp::create(
      b, module.getLoc(), name, LLVM::LLVMFunctionType::get(sums, types), LLVM::Linkage::Internal);
  function.setNoInline(true);
  b.setInsertionPointToStart(function.addEntryBlock(b));
  MatmulEmitter(b, function, element).emit();
  return function;
}

} // namespace

LogicalResult cuda::emulateMatmul(NVVM::MmaOp op, ModuleOp module, const EmulatedThread &thread,
                                  int32_t &site) {
  OpBuilder &b = thread.b;
  std::optional<NVVM::MMATypes> kind = op.getMultiplicandAPtxType();
  bool isF16 = kind == NVVM::MMATypes::f16, isBF16 = kind == NVVM::MMATypes::bf16;
  if ((!isF16 && !isBF16) || op.getShape().getM() != 16 || op.getShape().getN() != 8 ||
      op.getShape().getK() != kTerms || op.getOperandC().size() != kSums ||
      !op.getOperandC().front().getType().isF32())
    return op->emitOpError("has no emulation");
  SmallVector<Value> operands{thread.context};
  for (ValueRange words : {op.getOperandA(), op.getOperandB()})
    for (Value word : words)
      operands.push_back(LLVM::BitcastOp::create(b, thread.loc, b.getI32Type(), word));
  llvm::append_range(operands, op.getOperandC());
  operands.push_back(thread.i32(site));
  site += kShuffles;
  Type element = isF16 ? Type(b.getF16Type()) : b.getBF16Type();
  LLVM::LLVMFuncOp function = matmulFunction(module, element);
  op->replaceAllUsesWith(LLVM::CallOp::create(b, thread.loc, function, operands));
  op->erase();
  return success();
}
