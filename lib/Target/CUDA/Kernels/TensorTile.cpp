//===- TensorTile.cpp - Matmuls of 16-bit floats -------------===//
//
// Tensor cores multiply 16 x 16 by 16 x 8 elements (mma.sync.m16n8k16). A thread's registers have
// two neighbouring terms of a line each, which are a word of shared memory:
//
//  - Rows of memory that are lines are stored as they are. A line has 16 words, in four parts of
//    four, whose order depends on the line, so that neither the stores of parts nor the loads of
//    words meet in a bank.
//  - If columns are lines, two rows of memory, neighbouring terms, become one row of words. The
//    pitch of these and an exchange of halves of eight words, every 32 lines, do the same.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/CUDA/Kernels/MatrixTile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

/// Terms per step, and per matmul of the tensor cores, whose rows and columns these are.
constexpr int64_t kDepth = 32, kTerms = 16, kRows = 16, kColumns = 8;
/// Elements that a thread loads at once, and words that it stores at once.
constexpr int64_t kPiece = 8, kPart = 4;
/// Words of a line; lines of a group, which one register of a warp has.
constexpr int64_t kWords = kDepth / 2, kGroup = 8;

class TensorTile final : public MatrixTile {
public:
  TensorTile(Threads &t, Type element, TileSize size)
      : MatrixTile(t, size, kDepth), element(element), warpRows(size.rows / 2),
        warpColumns(size.columns / 2) {}

private:
  /// The words between two pairs of terms, of which columns of memory are lines.
  static int64_t pitch(int64_t lines) { return lines + kGroup; }

  int64_t stagedElements(const TileFactor &factor, int64_t lines) const override {
    return factor.keepsLines ? lines * kWords : kWords * pitch(lines);
  }
  Type stagedType() const override { return t.b.getI32Type(); }
  int64_t sumsPerThread() const override { return warpRows * warpColumns / 32; }

  Value i32(int64_t value) {
    return arith::ConstantOp::create(t.b, t.loc, t.b.getI32IntegerAttr(value));
  }

  /// Words of shared memory that a thread reads, but for constants.
  struct Places {
    Value parts[kWords / kPart]; ///< lines are kept: of the thread's word of each part
    Value words[2]; ///< else: in even and odd runs of 32 lines from the warp's first on
  };

  void prepare(const TileFactor &lhs, const TileFactor &rhs) override {
    Value warp = div(t.thread(), 32), lane = rem(t.thread(), 32);
    group = div(lane, 4);
    pair = rem(lane, 4);
    firstRow = times(div(warp, 2), warpRows);
    firstColumn = times(rem(warp, 2), warpColumns);
    left = placesOf(lhs, size.rows, firstRow);
    right = placesOf(rhs, size.columns, firstColumn);
  }

  /// The order of the parts of a line: of eight neighbours, two have the same one, and these are in
  /// different halves of the banks.
  Value placeOfPart(Value line, Value part) { return xorOf(part, rem(div(line, 2), 4)); }
  /// The place of a line among those of a pair of terms.
  Value placeOfLine(Value line) { return xorOf(line, times(rem(div(line, 32), 2), kPart)); }

  Places placesOf(const TileFactor &factor, int64_t lines, Value first) {
    Places places;
    Value line = t.add(first, group);
    if (factor.keepsLines) {
      for (int64_t part = 0; part < kWords / kPart; ++part)
        places.parts[part] = t.add(
            t.add(times(line, kWords), times(placeOfPart(group, t.index(part)), kPart)), pair);
      return places;
    }
    for (int64_t odd = 0; odd < 2; ++odd)
      places.words[odd] = t.sub(t.add(placeOfLine(plus(line, 32 * odd)), times(pair, pitch(lines))),
                                t.index(32 * odd));
    return places;
  }

  /// Calls `each` for the thread's pieces of 16 elements: of a line, or eight lines of two terms.
  void forEachPiece(const TileFactor &factor, int64_t lines,
                    llvm::function_ref<void(Value line, Value term)> each) {
    int64_t elements = factor.keepsLines ? kPiece : 2 * kPiece;
    int64_t count = lines * kDepth / elements / size.threads;
    int64_t perRow = (factor.keepsLines ? kDepth : lines) / kPiece;
    for (int64_t i = 0; i < count; ++i) {
      Value piece = plus(t.thread(), i * size.threads);
      Value outer = div(piece, perRow), inner = times(rem(piece, perRow), kPiece);
      factor.keepsLines ? each(outer, inner) : each(inner, times(outer, 2));
    }
  }

  /// Loads eight neighbours in memory, as four words.
  Threads::Values loadPiece(const TileFactor &factor, const Terms &terms, Value line, Value term) {
    int64_t width = accessWidth(factor.pitch, kPiece);
    Threads::Values words;
    Value low;
    for (int64_t i = 0; i < kPiece; i += width) {
      Value piece = loadNeighbours(factor, terms, factor.keepsLines ? line : plus(line, i),
                                   factor.keepsLines ? plus(term, i) : term, width);
      if (width == 1) {
        Value half = arith::ExtUIOp::create(t.b, t.loc, t.b.getI32Type(),
                                            vector::ExtractOp::create(t.b, t.loc, piece, 0));
        if (i % 2 == 0)
          low = half;
        else
          words.push_back(join(low, arith::ShLIOp::create(t.b, t.loc, half, i32(16))));
        continue;
      }
      piece = vector::BitCastOp::create(t.b, t.loc, VectorType::get({width / 2}, t.b.getI32Type()),
                                        piece);
      for (int64_t word = 0; word < width / 2; ++word)
        words.push_back(vector::ExtractOp::create(t.b, t.loc, piece, word));
    }
    return words;
  }

  Value join(Value low, Value high) { return arith::OrIOp::create(t.b, t.loc, low, high); }
  Value mask(Value word, int64_t bits) {
    return arith::AndIOp::create(t.b, t.loc, word, i32(int32_t(bits)));
  }

  Threads::Values load(const TileFactor &factor, int64_t lines, const Terms &terms,
                       Value term) override {
    Threads::Values loaded;
    forEachPiece(factor, lines, [&](Value line, Value inner) {
      Value first = t.add(factor.first, line), from = t.add(term, inner);
      llvm::append_range(loaded, loadPiece(factor, terms, first, from));
      if (!factor.keepsLines)
        llvm::append_range(loaded, loadPiece(factor, terms, first, plus(from, 1)));
    });
    return loaded;
  }

  void storePart(ValueRange words, Value at) {
    auto type = VectorType::get({kPart}, t.b.getI32Type());
    storeShared(vector::FromElementsOp::create(t.b, t.loc, type, words), at);
  }

  void stage(const TileFactor &factor, int64_t lines, ValueRange loaded, Value at) override {
    forEachPiece(factor, lines, [&](Value line, Value term) {
      ValueRange words = loaded.take_front(kPart);
      loaded = loaded.drop_front(kPart);
      if (factor.keepsLines) {
        Value part = placeOfPart(line, div(term, kPiece));
        storePart(words, t.add(at, t.add(times(line, kWords), times(part, kPart))));
        return;
      }
      Threads::Values both;
      for (auto [even, odd] : llvm::zip(words, loaded.take_front(kPart))) {
        both.push_back(join(mask(even, 0xffff), arith::ShLIOp::create(t.b, t.loc, odd, i32(16))));
        both.push_back(
            join(arith::ShRUIOp::create(t.b, t.loc, even, i32(16)), mask(odd, 0xffff0000)));
      }
      loaded = loaded.drop_front(kPart);
      Value row = t.add(at, times(div(term, 2), pitch(lines)));
      for (int64_t half = 0; half < 2; ++half)
        storePart(ValueRange(both).slice(half * kPart, kPart),
                  t.add(row, placeOfLine(plus(line, half * kPart))));
    });
  }

  /// Returns the two words of a thread that are of a group of lines: pairs of the first eight terms
  /// of a matmul, and of the others.
  std::array<Value, 2> fragment(const TileFactor &factor, const Places &places, int64_t lines,
                                Value at, int64_t number, int64_t matmul) {
    std::array<Value, 2> words;
    for (int64_t half = 0; half < 2; ++half) {
      Value place;
      if (factor.keepsLines)
        place = plus(places.parts[2 * matmul + half], number * kGroup * kWords);
      else
        place = plus(places.words[number * kGroup / 32 % 2],
                     number * kGroup + (2 * matmul + half) * kPart * pitch(lines));
      words[half] = t.load(shared, t.add(at, place));
    }
    return words;
  }

  Threads::Values multiply(const TileFactor &lhs, Value first, const TileFactor &rhs, Value second,
                           ValueRange before) override {
    Threads::Values sums(before);
    for (int64_t matmul = 0; matmul < kDepth / kTerms; ++matmul) {
      SmallVector<std::array<Value, 2>> rows, columns;
      for (int64_t i = 0; i < warpRows / kGroup; ++i)
        rows.push_back(fragment(lhs, left, size.rows, first, i, matmul));
      for (int64_t i = 0; i < warpColumns / kGroup; ++i)
        columns.push_back(fragment(rhs, right, size.columns, second, i, matmul));
      for (int64_t i = 0; i < warpRows / kRows; ++i)
        for (int64_t j = 0; j < warpColumns / kColumns; ++j) {
          auto &upper = rows[2 * i], &lower = rows[2 * i + 1];
          multiplyAdd({upper[0], lower[0], upper[1], lower[1]}, {columns[j][0], columns[j][1]},
                      MutableArrayRef(sums).slice((i * warpColumns / kColumns + j) * 4, 4));
        }
    }
    return sums;
  }

  void multiplyAdd(Threads::Values a, Threads::Values b, MutableArrayRef<Value> sums) {
    bool isF16 = element.isF16();
    if (isF16)
      for (auto *words : {&a, &b})
        for (Value &word : *words)
          word = LLVM::BitcastOp::create(t.b, t.loc, VectorType::get({2}, element), word);
    Type f32 = t.b.getF32Type();
    auto type = LLVM::LLVMStructType::getLiteral(t.b.getContext(), {f32, f32, f32, f32});
    NVVM::MMATypes kind = isF16 ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16;
    auto made = NVVM::MmaOp::create(t.b, t.loc, type, a, b, ValueRange(ArrayRef<Value>(sums)),
                                    ArrayRef<int64_t>{kRows, kColumns, kTerms}, std::nullopt,
                                    std::nullopt, std::array{kind, kind},
                                    std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
    for (auto [i, sum] : llvm::enumerate(sums))
      sum = LLVM::ExtractValueOp::create(t.b, t.loc, made, ArrayRef<int64_t>{int64_t(i)});
  }

  void store(const Output &output, ValueRange sums) override {
    int64_t across = warpColumns / kColumns;
    for (int64_t i = 0; i < warpRows / kGroup; ++i) {
      Value row = t.add(output.firstRow, plus(t.add(firstRow, group), i * kGroup));
      t.when(t.less(row, output.endRow), [&] {
        for (int64_t j = 0; j < across; ++j)
          storeColumns(output, row, plus(t.add(firstColumn, times(pair, 2)), j * kColumns),
                       sums.slice((i / 2 * across + j) * 4 + i % 2 * 2, 2));
      });
    }
  }

  Type element;
  int64_t warpRows, warpColumns; ///< of a warp; two by two are the tile
  Value group, pair;             ///< of the lane, as PTX calls groupID and threadID_in_group
  Value firstRow, firstColumn;   ///< of the warp
  Places left, right;
};

} // namespace

std::unique_ptr<MatrixTile> cuda::createTensorTile(Threads &t, Type element, TileSize size) {
  return std::make_unique<TensorTile>(t, element, size);
}
