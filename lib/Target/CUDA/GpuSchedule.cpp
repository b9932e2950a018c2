//===- GpuSchedule.cpp - How rows and columns map to blocks and threads ---===//
#include "lib/Target/CUDA/GpuSchedule.h"
#include "dialects/interfaces/Interfaces.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Target/CUDA/CUDA.h"
#include "lib/Target/CUDA/ThreadEmitter.h"
#include "lib/Target/CUDA/TransposeForm.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

constexpr int64_t kWarp = 32;
/// Threads per block of flat kernels and of rows that a warp takes.
constexpr int64_t kBlock = 128;
/// Elements per thread of a flat kernel.
constexpr int64_t kFlatElements = 16;
/// Elements of a row per thread, and the most that are kept in registers.
constexpr int64_t kRowElements = 32, kMaxRowElements = 64;
/// Bytes of inputs per thread from which on a flat schedule takes half of the elements, and the
/// most bytes of a row that are kept in registers: 160 registers, besides those of the computation.
constexpr int64_t kInputBytes = 192, kMaxInputBytes = 640;
/// Maximum threads per row, more are slower, and those of longer rows, which are read again for
/// each reduction: with more rows in flight the second reading would miss the cache more often.
constexpr int64_t kMaxRowThreads = 512, kLongRowThreads = 256;
/// Neighbours per chunk of the rows whose sums have the same order in all kernels.
constexpr int64_t kRowWidth = 4;
/// Threads of a block that reduces columns by 8 neighbours per thread, columns of its strip, and
/// columns where strips that wide would be fewer than kFewBlocks.
constexpr int64_t kColumnThreads = 256, kStrip = 128, kFewStrip = 32;
/// Rows below which threads do not share a column, and reductions in one pass: 8 KiB of shared
/// memory each.
constexpr int64_t kLeastRows = 16, kMaxColumnReductions = 4;
/// Maximum parts of a concatenation that one thread computes, and the unit of memory accesses.
constexpr int64_t kMaxParts = 4, kSector = 32;
/// Least threads of a block that sums columns besides its rows, which takes several rows side by
/// side if they have fewer. All blocks have kSumWarps warps: they run at once, 8 on a
/// multiprocessor, which leaves a thread the registers for its sums.
constexpr int64_t kSumThreads = 128, kSumWarps = 1024, kLeastSumBlocks = 128;
/// Blocks below which a flat kernel takes fewer elements per thread: two per multiprocessor.
constexpr int64_t kFewBlocks = 264;

/// Returns the inputs and outputs with at least an eighth of `count` elements: operands of a
/// concatenation have a part of them.
SmallVector<Value> buffersOf(Region &body, int64_t count) {
  SmallVector<Value> all(body.front().getArguments());
  llvm::append_range(all, body.front().getTerminator()->getOperands());
  llvm::erase_if(all, [&](Value value) { return nn::elements(value) < count / 8; });
  return all;
}

/// Returns neighbouring elements per chunk: as many as the widest buffer has in one access, at most
/// 8, and a divisor of `columns`. With more, an access of a warp to that buffer would touch
/// a part of each sector only.
int64_t chunkWidth(Region &body, int64_t count, int64_t columns) {
  int64_t width = 8;
  for (Value value : buffersOf(body, count))
    width = std::min(width, ThreadEmitter::accessBytes /
                                nn::elementBytes(getElementTypeOrSelf(value.getType())));
  while (columns % width != 0)
    width /= 2;
  return width;
}

/// Returns the bytes of the inputs with `count` elements for one element.
int64_t inputBytes(Region &body, int64_t count) {
  int64_t bytes = 0;
  for (Value input : body.front().getArguments())
    if (nn::elements(input) == count)
      bytes += nn::elementBytes(getElementTypeOrSelf(input.getType()));
  return bytes;
}

/// Whether runs of `block` elements of an op's result stay together up to the outputs.
bool keepsRuns(Operation *op, int64_t block) {
  SetVector<Operation *> after;
  getForwardSlice(op, &after);
  return llvm::all_of(after, [&](Operation *user) {
    if (auto concat = dyn_cast<nn::ConcatOp>(user))
      return llvm::all_of(concat.getInputs(), [&](Value input) {
        ArrayRef<int64_t> shape = cast<RankedTensorType>(input.getType()).getShape();
        return ShapedType::getNumElements(shape.drop_front(concat.getDim())) % block == 0;
      });
    auto transpose = dyn_cast<nn::TransposeOp>(user);
    if (!transpose)
      return isa<ElementwiseOpInterface, nn::ReshapeOp>(user) ||
             user->hasTrait<OpTrait::IsTerminator>();
    ArrayRef<int64_t> shape = transpose.getType().getShape();
    int64_t fixed = 1;
    for (int64_t i = shape.size(); i-- > 0 && transpose.getPerm()[i] == i;)
      fixed *= shape[i];
    return fixed % block == 0;
  });
}

/// Whether a thread can have the same place of each of `parts` parts of `part` elements: sectors of
/// memory, whatever the type, are in one part.
bool hasParts(int64_t parts, int64_t part) {
  return parts > 1 && parts <= kMaxParts && part % kSector == 0;
}

/// Sets the parts of a flat kernel that joins tensors of equal size, as rotary positions do. A
/// thread that has the same place of each part reads what the parts share once, and computes one
/// operand for each element: which one does not depend on the thread. The result may be a part of
/// the rows that the kernel writes, as the rotated queries are of joined queries, keys and values.
void chooseParts(const RowForm &form, Region &body, GpuSchedule &schedule) {
  for (auto op : body.getOps<nn::ConcatOp>()) {
    int64_t parts = op.getInputs().size();
    ArrayRef<int64_t> shape = op.getType().getShape();
    int64_t part = 1;
    for (int64_t size : shape.drop_front(op.getDim()))
      part *= size;
    part /= parts;
    bool equal = llvm::all_of(op.getInputs(), [&](Value input) {
      return nn::elements(input) * parts == nn::elements(op.getResult());
    });
    if (equal && hasParts(parts, part) && part % schedule.width == 0 &&
        form.columns % (part * parts) == 0 && keepsRuns(op, part * parts)) {
      schedule.parts = parts;
      schedule.part = part;
      return;
    }
  }
}

/// Returns the elements per thread of a flat kernel. An op that selects between its operands by the
/// index, such as a concatenation, computes an element of each, unless the thread has its `parts`.
int64_t flatElements(Region &body, int64_t parts) {
  int64_t bytes = 0, operands = 1;
  for (Value input : body.front().getArguments())
    bytes += nn::elementBytes(getElementTypeOrSelf(input.getType()));
  for (auto op : body.getOps<IndexedOpInterface>())
    operands = std::max<int64_t>(operands, llvm::count_if(op->getOpOperands(), [&](OpOperand &use) {
                                   return !op.readsMemory(use.getOperandNumber());
                                 }));
  if (parts > 1)
    operands = 1;
  return bytes * operands * kFlatElements > kInputBytes ? kFlatElements / 2 : kFlatElements;
}

GpuSchedule flatSchedule(const RowForm &form, Region &body) {
  GpuSchedule schedule;
  // With a loop inside each element, neighbouring threads take neighbouring elements.
  if (!form.loops) {
    schedule.width = chunkWidth(body, form.columns, form.columns);
    chooseParts(form, body, schedule);
  }
  int64_t unit = schedule.width * schedule.parts, units = form.columns / unit;
  int64_t each = form.loops ? 1 : flatElements(body, schedule.parts) / unit;
  schedule.threads = std::min<int64_t>(llvm::PowerOf2Ceil(units), kBlock);
  while (each > 1 && units < kFewBlocks * schedule.threads * each)
    each /= 2;
  each = std::max<int64_t>(each, 1);
  schedule.chunks = each * schedule.parts;
  schedule.blocks = llvm::divideCeil(units, schedule.threads * each);
  return schedule;
}

GpuSchedule transposeSchedule(const TransposeForm &tiles) {
  GpuSchedule schedule;
  schedule.transposes = true;
  schedule.threads = TransposeForm::kThreads;
  schedule.width = tiles.width;
  schedule.blocks = tiles.blocks();
  return schedule;
}

/// Returns the schedule of a flat kernel all of whose reductions are of columns of the same sizes,
/// and independent; its strip is 0 if it is not such a kernel.
GpuSchedule columnSchedule(const RowForm &form, Region &body) {
  GpuSchedule schedule;
  SmallVector<nn::ReduceOp> all(body.getOps<nn::ReduceOp>());
  for (auto [i, op] : llvm::enumerate(all)) {
    std::optional<nn::ColumnReduction> own = nn::matchColumns(op);
    if (!own || nn::elements(op.getResult()) != form.columns ||
        (i > 0 && (own->each != schedule.each || own->inner != schedule.inner)))
      return {};
    std::tie(schedule.outer, schedule.each, schedule.inner) =
        std::make_tuple(own->outer, own->each, own->inner);
  }
  SetVector<Operation *> before;
  for (nn::ReduceOp op : all)
    (void)getBackwardSlice(op.getOperation(), &before);
  if (all.empty() || all.size() > kMaxColumnReductions || schedule.each < kLeastRows ||
      llvm::any_of(before, llvm::IsaPred<nn::ReduceOp>))
    return {};
  int64_t inner = schedule.inner;
  schedule.width = chunkWidth(body, schedule.outer * schedule.each * inner, inner);
  bool few = schedule.outer * llvm::divideCeil(inner, kStrip) < kFewBlocks;
  schedule.strip = std::max(few ? kFewStrip : kStrip, schedule.width);
  // As many rows side by side with 4 neighbours per thread as with 8: the order of the sums does
  // not depend on the types of the buffers.
  schedule.threads = schedule.width < 8 ? 2 * kColumnThreads : kColumnThreads;
  schedule.blocks = schedule.outer * llvm::divideCeil(inner, schedule.strip);
  return schedule;
}

/// Returns the threads of a row that is not long.
int64_t threadsOf(int64_t columns) {
  return std::max<int64_t>(llvm::PowerOf2Ceil(llvm::divideCeil(columns, kRowElements)), kWarp);
}

} // namespace

int64_t CudaTarget::columnSumParts(int64_t rows, int64_t columns, int64_t sums) const {
  // A thread keeps the sums of its columns in registers, besides its part of a row.
  constexpr int64_t leastColumns = 64, leastRows = 16, mostSums = 96;
  if (columns < leastColumns || columns > kMaxRowThreads * kRowElements)
    return 0;
  int64_t threads = threadsOf(columns), each = llvm::divideCeil(columns, threads);
  int64_t warps = std::max(threads, kSumThreads) / kWarp;
  int64_t blocks = std::max(kSumWarps / warps, kLeastSumBlocks);
  return each * sums > mostSums ? 0 : std::min(rows / leastRows, blocks);
}

bool CudaTarget::storesParts(int64_t parts, int64_t part) const { return hasParts(parts, part); }

FailureOr<RowForm> cuda::chooseForm(Region &body) {
  FailureOr<RowForm> form = chooseRowForm(body, /*columnSums=*/true);
  if (failed(form) || form->flat || !form->rowOutputs || form->loops)
    return form;
  // Rows are the elements of the smaller results, columns the parts.
  RowForm flat;
  flat.flat = true;
  flat.columns = form->rows * form->columns;
  GpuSchedule schedule;
  schedule.width = chunkWidth(body, flat.columns, flat.columns);
  chooseParts(flat, body, schedule);
  return schedule.parts == form->columns ? flat : form;
}

GpuSchedule cuda::chooseSchedule(const RowForm &form, Region &body) {
  if (form.flat) {
    GpuSchedule columns = columnSchedule(form, body);
    if (columns.strip > 0)
      return columns;
    std::optional<TransposeForm> tiles = matchTransposes(form, body);
    return tiles ? transposeSchedule(*tiles) : flatSchedule(form, body);
  }
  GpuSchedule schedule;
  schedule.width = chunkWidth(body, form.rows * form.columns, form.columns);
  // A value has the same bits in each kernel that computes it, whatever else the kernel reads and
  // stores: recomputed values depend on it. Longer rows, those of losses, are not recomputed.
  bool isLong = form.columns > kMaxRowThreads * kRowElements;
  if (!isLong)
    schedule.width = std::min(schedule.width, kRowWidth);
  schedule.rowThreads = isLong ? kLongRowThreads : threadsOf(form.columns);
  // A block has no more rows than there are: the place of a single row is known, and where its
  // reductions are read does not depend on a guard.
  schedule.rowsPerBlock =
      schedule.rowThreads == kWarp ? std::min(kBlock / kWarp, form.rows) : int64_t(1);
  schedule.blocks = llvm::divideCeil(form.rows, schedule.rowsPerBlock);
  if (form.sumParts > 0) {
    schedule.blocks = form.sumParts;
    schedule.sumRows = form.rows / form.sumParts;
    int64_t beside = std::max<int64_t>(1, kSumThreads / schedule.rowThreads);
    schedule.rowsPerBlock = std::min(beside, schedule.sumRows);
  }
  schedule.threads = schedule.rowThreads * schedule.rowsPerBlock;
  int64_t chunks = llvm::divideCeil(form.columns, schedule.width * schedule.rowThreads);
  int64_t elements = chunks * schedule.width;
  int64_t bytes = inputBytes(body, form.rows * form.columns);
  bool fits = elements <= kMaxRowElements && elements * bytes <= kMaxInputBytes;
  schedule.chunks = fits || form.sumParts > 0 ? chunks : 0;
  return schedule;
}

std::optional<cuda::Pick> cuda::matchPick(nn::ReduceOp op, const RowForm &form) {
  auto select = op.getInput().getDefiningOp<nn::SelectOp>();
  if (op.getKind() != nn::ReduceKind::Sum || !select ||
      !matchPattern(select.getOnFalse(), m_PosZeroFloat()))
    return std::nullopt;
  auto equal = select.getCondition().getDefiningOp<nn::CompareOp>();
  if (!equal || equal.getPredicate() != nn::Predicate::EQ)
    return std::nullopt;
  auto iota = equal.getLhs().getDefiningOp<nn::IotaOp>();
  auto column = equal.getRhs().getDefiningOp<nn::BroadcastOp>();
  if (!iota || !column || nn::elements(column.getInput()) != form.rows ||
      iota.getType().getShape().back() != form.columns ||
      int64_t(iota.getDim()) != iota.getType().getRank() - 1)
    return std::nullopt;
  return Pick{column.getInput(), select.getOnTrue()};
}

nn::ReduceOp cuda::sumOfPowers(nn::ReduceOp op, const RowForm &form) {
  if (op.getKind() != nn::ReduceKind::Max ||
      !isa<FloatType>(getElementTypeOrSelf(op.getInput().getType())))
    return {};
  for (auto sum : op->getBlock()->getOps<nn::ReduceOp>()) {
    auto power = sum.getInput().getDefiningOp<nn::ExpOp>();
    auto difference = power ? power.getOperand().getDefiningOp<nn::SubOp>() : nn::SubOp();
    auto base =
        difference ? difference.getRhs().getDefiningOp<nn::BroadcastOp>() : nn::BroadcastOp();
    if (form.level.count(sum) && sum.getKind() == nn::ReduceKind::Sum && base &&
        base.getInput() == op.getResult() && difference.getLhs() == op.getInput())
      return sum;
  }
  return {};
}
