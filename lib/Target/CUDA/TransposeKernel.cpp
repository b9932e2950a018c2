//===- TransposeKernel.cpp - Kernels that transpose matrices --------------===//
#include "lib/Target/CUDA/GpuKernel.h"
#include "lib/Target/CUDA/KernelBase.h"
#include "lib/Target/CUDA/TransposeForm.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

/// A block transposes a tile through shared memory. A row of shared memory has one column of the
/// tile, in words of one or more elements. Word w of column c is at place w ^ 4 (c / width): the 32
/// threads of a warp that store one word each of 8 columns, or load 16 bytes each of 4 columns,
/// then use different banks.
class TransposeKernel final : public KernelBase {
public:
  TransposeKernel(OpBuilder &b, gpu::GPUFuncOp function, Region &body, const RowForm &form,
                  const GpuSchedule &schedule, const TransposeForm &tiles)
      : KernelBase(b, function, body, form, schedule), tiles(tiles) {}

private:
  static constexpr int64_t kWords = TransposeForm::kTileWords;
  static constexpr int64_t kAcross = TransposeForm::kTileThreads;

  bool emitAll() override {
    placeTile();
    for (nn::TransposeOp op : tiles.ops) {
      Type element = op.getInput().getType().getElementType();
      shared.push_back(exchange.makeShared(tiles.tileColumns() * tiles.tileRows(), element,
                                           ThreadEmitter::accessBytes));
    }
    if (!readRows())
      return false;
    emitter.nest.setInsertion(0);
    gpu::BarrierOp::create(b, loc);
    int64_t pieces = tiles.tileColumns() * tiles.tileRows() / tiles.transposedWidth;
    for (int64_t at = 0; at < pieces; at += schedule.threads)
      if (!writeColumns(at, pieces))
        return false;
    return true;
  }

  Value times(Value value, int64_t factor) {
    return arith::MulIOp::create(b, loc, value, index(factor));
  }
  Value sum(Value lhs, Value rhs) { return arith::AddIOp::create(b, loc, lhs, rhs); }
  Value quotient(Value value, int64_t divisor) {
    return arith::DivUIOp::create(b, loc, value, index(divisor));
  }
  Value rest(Value value, int64_t divisor) {
    return arith::RemUIOp::create(b, loc, value, index(divisor));
  }

  /// Finds the block's matrix and the number of its tile along the rows and the columns.
  void placeTile() {
    auto [outer, rows, columns] = tiles.sizes;
    int64_t down = llvm::divideCeil(rows, tiles.tileRows());
    int64_t across = llvm::divideCeil(columns, tiles.tileColumns());
    matrix = addDim(outer, quotient(block, down * across)).times(rows * columns);
    tileRow = rest(quotient(block, across), down);
    tileColumn = rest(block, across);
  }

  /// Returns the place in shared memory of a word of a column of the tile, of which `group` is the
  /// number of its thread.
  Value placeOf(Value column, Value group, Value word) {
    Value mixed = arith::XOrIOp::create(b, loc, word, times(group, 4));
    return times(sum(times(column, kWords), mixed), tiles.perWord());
  }

  Value toMemory(Value element) {
    Type type = element.getType(), memory = memoryType(type);
    if (type.isInteger(1))
      return arith::ExtUIOp::create(b, loc, memory, element);
    return type == memory ? element : Value(arith::BitcastOp::create(b, loc, memory, element));
  }
  Value fromMemory(Value element, Type type) {
    if (type.isInteger(1))
      return arith::TruncIOp::create(b, loc, type, element);
    return element.getType() == type ? element
                                     : Value(arith::BitcastOp::create(b, loc, type, element));
  }

  /// Stores what is computed along the rows, and what is transposed in shared memory. A thread has
  /// one word of each of `width` neighbouring columns.
  bool readRows() {
    int64_t rows = tiles.sizes.rows, columns = tiles.sizes.columns;
    int64_t perWord = tiles.perWord(), width = tiles.width;
    Value group = rest(thread, kAcross), word = quotient(thread, kAcross);
    auto [row, rowInside] =
        within(sum(times(tileRow, kWords), word), rows, perWord, tiles.tileRows());
    auto [column, columnInside] =
        within(sum(times(tileColumn, kAcross), group), columns, width, tiles.tileColumns());
    LinearIndex start = matrix.plus(row.times(columns)).plus(column);
    auto at = [&](int64_t i, int64_t k) { return start.plus(i * columns + k); };
    SmallVector<SmallVector<Value>> elements(tiles.ops.size());
    for (auto [op, values] : llvm::zip(tiles.ops, elements))
      for (int64_t k = 0; k < width; ++k)
        for (int64_t i = 0; i < perWord; ++i) {
          values.push_back(emitter.emit(op.getInput(), at(i, k)));
          if (!values.back())
            return false;
        }
    Outputs made;
    for (int64_t i = 0; i < perWord; ++i)
      if (!emitOutputs(false, at(i, 0), width, made))
        return false;
    storeWhere(both(rowInside, columnInside), made);
    emitter.nest.setInsertion(0);
    Value place = placeOf(times(group, width), group, word);
    for (auto [memory, values] : llvm::zip(shared, elements))
      for (int64_t k = 0; k < width; ++k)
        storeWord(ArrayRef(values).slice(k * perWord, perWord), memory,
                  plus(place, k * kWords * perWord));
    return true;
  }

  void storeWord(ArrayRef<Value> elements, Value memory, Value place) {
    SmallVector<Value> stored;
    for (Value element : elements)
      stored.push_back(toMemory(element));
    if (stored.size() == 1) {
      memref::StoreOp::create(b, loc, stored.front(), memory, place);
      return;
    }
    auto type = VectorType::get({int64_t(stored.size())}, stored.front().getType());
    Value word = vector::FromElementsOp::create(b, loc, type, stored);
    vector::StoreOp::create(b, loc, word, memory, place, /*nontemporal=*/false,
                            llvm::MaybeAlign(valueBytes(type)));
  }

  /// Stores what is computed along the columns: piece `first` + thread of `pieces`.
  bool writeColumns(int64_t first, int64_t pieces) {
    int64_t rows = tiles.sizes.rows, columns = tiles.sizes.columns;
    int64_t width = tiles.transposedWidth, perColumn = tiles.tileRows() / width;
    emitter.nest.setInsertion(0);
    Value piece = plus(thread, first);
    // Threads beyond the last piece neither load nor store: a result may replace what is loaded.
    Value exists = first + schedule.threads > pieces ? less(piece, pieces) : Value();
    if (exists)
      piece = rest(piece, pieces);
    Value local = quotient(piece, perColumn), number = rest(piece, perColumn);
    auto [column, columnInside] = within(sum(times(tileColumn, tiles.tileColumns()), local),
                                         columns, 1, tiles.tileColumns(), exists);
    auto [row, rowInside] =
        within(sum(times(tileRow, perColumn), number), rows, width, tiles.tileRows());
    LinearIndex start = matrix.plus(column.times(rows)).plus(row);
    Value place =
        placeOf(local, quotient(local, tiles.width), times(number, width / tiles.perWord()));
    for (auto [op, memory] : llvm::zip(tiles.ops, shared)) {
      Type element = op.getInput().getType().getElementType();
      auto type = VectorType::get({width}, memoryType(element));
      Value loaded = vector::LoadOp::create(b, loc, type, memory, place, /*nontemporal=*/false,
                                            llvm::MaybeAlign(valueBytes(type)));
      for (int64_t i = 0; i < width; ++i)
        emitter.nest.scope().memo[{op.getResult().getAsOpaquePointer(), start.plus(i)}] =
            fromMemory(vector::ExtractOp::create(b, loc, loaded, ArrayRef<int64_t>{i}), element);
    }
    Outputs made;
    if (!emitOutputs(true, start, width, made))
      return false;
    storeWhere(both(rowInside, columnInside), made);
    return true;
  }

  /// Returns unit `number` of `width` elements of a dimension of `size` that has tiles of `tile`,
  /// and whether it is inside, and this thread's, if that is a question; null: always.
  std::pair<LinearIndex, Value> within(Value number, int64_t size, int64_t width, int64_t tile,
                                       Value mine = {}) {
    Value inside = size % tile == 0 ? mine : both(mine, less(number, size / width));
    return {addDim(size / width, number, inside).times(width), inside};
  }

  /// Appends the outputs that are transposed, or those that are not, at `width` neighbours.
  bool emitOutputs(bool transposed, const LinearIndex &start, int64_t width, Outputs &made) {
    ValueRange memrefs = ValueRange(function.getBody().getArguments()).slice(inputs, outputs);
    for (int64_t i = 0; i < width; ++i)
      for (auto [output, memref] : llvm::zip(yield->getOperands(), memrefs)) {
        if (tiles.transposed.contains(output) != transposed)
          continue;
        Value element = emitter.emit(output, start.plus(i));
        if (!element)
          return false;
        made.push_back({memref, start.plus(i), element});
      }
    return true;
  }

  TransposeForm tiles;
  LinearIndex matrix; ///< its first element
  Value tileRow, tileColumn;
  SmallVector<Value> shared; ///< of each op
};

} // namespace

bool cuda::emitTransposes(OpBuilder &b, gpu::GPUFuncOp function, Region &body, const RowForm &form,
                          const GpuSchedule &schedule) {
  std::optional<TransposeForm> tiles = matchTransposes(form, body);
  return tiles && TransposeKernel(b, function, body, form, schedule, *tiles).run();
}
