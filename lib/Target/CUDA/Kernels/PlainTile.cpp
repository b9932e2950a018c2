//===- PlainTile.cpp - Matmuls of f32 -------------------------------------===//
//
// A thread has eight rows and eight columns of the tile, in two runs of four each. Shared memory
// has the lines of a term next to each other.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/CUDA/Kernels/MatrixTile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

/// Terms per step; lines of a run; lines per thread.
constexpr int64_t kDepth = 8, kRun = 4, kLines = 2 * kRun;

class PlainTile final : public MatrixTile {
public:
  PlainTile(Threads &t, TileSize size) : MatrixTile(t, size, kDepth) {}

private:
  /// The elements between two terms in shared memory. Runs of four stay aligned, and terms that
  /// are four apart are in different banks.
  static int64_t pitch(int64_t lines) { return lines + 4; }

  int64_t stagedElements(const TileFactor &, int64_t lines) const override {
    return kDepth * pitch(lines);
  }
  Type stagedType() const override { return t.b.getF32Type(); }
  int64_t sumsPerThread() const override { return kLines * kLines; }

  void prepare(const TileFactor &, const TileFactor &) override {
    int64_t across = size.columns / kLines;
    row = times(div(t.thread(), across), kRun);
    column = times(rem(t.thread(), across), kRun);
  }

  /// Calls `each` for the thread's pieces of four elements: neighbouring terms of a line, or
  /// neighbouring lines of a term.
  void forEachPiece(const TileFactor &factor, int64_t lines,
                    llvm::function_ref<void(Value line, Value term)> each) {
    int64_t count = lines * kDepth / kRun / size.threads;
    int64_t perRow = (factor.keepsLines ? kDepth : lines) / kRun;
    for (int64_t i = 0; i < count; ++i) {
      Value piece = plus(t.thread(), i * size.threads);
      Value outer = div(piece, perRow), inner = times(rem(piece, perRow), kRun);
      factor.keepsLines ? each(outer, inner) : each(inner, outer);
    }
  }

  Threads::Values load(const TileFactor &factor, int64_t lines, const Terms &terms,
                       Value term) override {
    Threads::Values loaded;
    int64_t width = accessWidth(factor.pitch, kRun);
    forEachPiece(factor, lines, [&](Value line, Value inner) {
      Value first = t.add(factor.first, line), from = t.add(term, inner);
      for (int64_t i = 0; i < kRun; i += width) {
        Value piece = loadNeighbours(factor, terms, factor.keepsLines ? first : plus(first, i),
                                     factor.keepsLines ? plus(from, i) : from, width);
        for (int64_t j = 0; j < width; ++j)
          loaded.push_back(vector::ExtractOp::create(t.b, t.loc, piece, j));
      }
    });
    return loaded;
  }

  void stage(const TileFactor &factor, int64_t lines, ValueRange loaded, Value at) override {
    forEachPiece(factor, lines, [&](Value line, Value term) {
      Value place = t.add(at, t.add(times(term, pitch(lines)), line));
      ValueRange piece = loaded.take_front(kRun);
      loaded = loaded.drop_front(kRun);
      if (factor.keepsLines) {
        for (auto [i, value] : llvm::enumerate(piece))
          t.store(value, shared, plus(place, i * pitch(lines)));
        return;
      }
      auto type = VectorType::get({kRun}, t.b.getF32Type());
      storeShared(vector::FromElementsOp::create(t.b, t.loc, type, piece), place);
    });
  }

  /// Returns the thread's lines of a term.
  Threads::Values lineValues(Value at, Value line, int64_t term, int64_t lines) {
    Threads::Values values;
    for (int64_t half = 0; half < 2; ++half) {
      Value run = loadShared(plus(t.add(at, line), term * pitch(lines) + half * lines / 2), kRun);
      for (int64_t i = 0; i < kRun; ++i)
        values.push_back(vector::ExtractOp::create(t.b, t.loc, run, i));
    }
    return values;
  }

  Threads::Values multiply(const TileFactor &, Value left, const TileFactor &, Value right,
                           ValueRange before) override {
    Threads::Values sums(before);
    for (int64_t term = 0; term < kDepth; ++term) {
      Threads::Values rows = lineValues(left, row, term, size.rows);
      Threads::Values columns = lineValues(right, column, term, size.columns);
      for (int64_t i = 0; i < kLines; ++i)
        for (int64_t j = 0; j < kLines; ++j) {
          Value &sum = sums[i * kLines + j];
          sum = math::FmaOp::create(t.b, t.loc, rows[i], columns[j], sum);
        }
    }
    return sums;
  }

  void store(const Output &output, ValueRange sums) override {
    for (int64_t i = 0; i < kLines; ++i) {
      Value line = t.add(output.firstRow, plus(row, i / kRun * size.rows / 2 + i % kRun));
      t.when(t.less(line, output.endRow), [&] {
        for (int64_t half = 0; half < 2; ++half)
          storeColumns(output, line, plus(column, half * size.columns / 2),
                       sums.slice(i * kLines + half * kRun, kRun));
      });
    }
  }

  Value row, column; ///< of the thread's first run
};

} // namespace

std::unique_ptr<MatrixTile> cuda::createPlainTile(Threads &t, TileSize size) {
  return std::make_unique<PlainTile>(t, size);
}
