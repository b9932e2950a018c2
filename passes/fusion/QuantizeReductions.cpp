//===- QuantizeReductions.cpp - Sums 8-bit integers over ranks ------------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/fusion/Passes.h"
#include "passes/fusion/QuantizedBlocks.h"
#include <limits>

namespace shale {
#define GEN_PASS_DEF_QUANTIZEREDUCTIONSPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Returns the terms of which a kernel that reads `value` computes it: those of a sum, or itself.
static SmallVector<Value> termsOf(Value value) {
  auto sum = value.getDefiningOp<nn::AddOp>();
  return sum ? SmallVector<Value>(sum->getOperands()) : SmallVector<Value>{value};
}

static Value sumOf(nn::Composer &c, ValueRange terms) {
  return terms.size() == 1 ? terms[0] : c.add(terms[0], terms[1]);
}

/// Returns what the words of `value` lack of it; 0 in blocks that are not finite.
static Value lackOf(nn::Composer &c, Value value, Value words, dist::Encoding encoding) {
  words = c.reshape(words, {wordsOf(nn::elements(value), encoding)});
  Value sent = dequantizeBlocks(c, words, nn::Composer::elementOf(value), encoding);
  Value lack = c.sub(value, sent);
  Value magnitude = c.abs(sent);
  Value finite = c.compare(nn::Predicate::LT, magnitude,
                           c.splat(magnitude, std::numeric_limits<double>::infinity()));
  return c.select(finite, lack, c.splat(lack, 0));
}

/// Returns the number of the term in whose place the kernel of `error` writes: the residual, or the
/// gradient if the residual is read later, too.
static int64_t placeOf(dist::QuantizationErrorOp error) {
  SmallVector<Value> terms = termsOf(error.getInput());
  bool readLater = llvm::any_of(terms.back().getUsers(), [&](Operation *user) {
    return user->getBlock() != error->getBlock() || error->isBeforeInBlock(user);
  });
  return readLater ? 0 : int64_t(terms.size()) - 1;
}

/// Builds the kernel of the words that `op` sends, as a tensor of `type`, and after it the kernels
/// of what the words lack, which take the place of a term of the value.
static Value buildWords(Operation *op, RankedTensorType type, dist::Encoding encoding) {
  Value value = op->getOperand(0);
  Operation *first = op; // of the ops that these kernels replace
  for (Operation *user : value.getUsers())
    if (isa<dist::QuantizationErrorOp>(user) && user->getBlock() == op->getBlock() &&
        user->isBeforeInBlock(first))
      first = user;
  OpBuilder builder(first);
  SmallVector<Value> inputs = termsOf(value);
  Value words = buildKernel(builder, op, inputs, type, [&](nn::Composer &c, ValueRange terms) {
                  return c.reshape(quantizeBlocks(c, sumOf(c, terms), encoding), type.getShape());
                }).getResult(0);
  inputs.push_back(words);
  for (Operation *user : llvm::make_early_inc_range(value.getUsers())) {
    auto error = dyn_cast<dist::QuantizationErrorOp>(user);
    if (!error)
      continue;
    auto kernel = buildKernel(
        builder, error, inputs, error.getType(),
        [&](nn::Composer &c, ValueRange own) {
          return lackOf(c, sumOf(c, own.drop_back()), own.back(), encoding);
        },
        placeOf(error));
    error.getResult().replaceAllUsesWith(kernel.getResult(0));
    builder.setInsertionPointAfter(kernel);
    error.erase();
  }
  return words;
}

static void finish(Operation *op, Value result) {
  Value value = op->getOperand(0);
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
  if (Operation *sum = value.getDefiningOp(); sum && isa<nn::AddOp>(sum) && sum->use_empty())
    sum->erase();
}

/// Adds the terms of ranks first to last - 1, in their order, to `sum`, if there is one.
static Value addTerms(OpBuilder &builder, dist::ReduceScatterOp scatter, Value received, Value sum,
                      int64_t first, int64_t last) {
  RankedTensorType slice = typeOf(scatter);
  dist::Encoding encoding = *scatter.getEncoding();
  int64_t count = slice.getNumElements(), row = wordsOf(count, encoding), ranks = last - first;
  SmallVector<Value> inputs{received};
  if (sum)
    inputs.push_back(sum);
  auto body = [&](nn::Composer &c, ValueRange operands) {
    int64_t all = typeOf(operands[0]).getNumElements() / row;
    Value words = c.reshape(operands[0], {all, row});
    if (ranks < all)
      words = c.slice(words, 0, first, last);
    Value terms =
        dequantizeBlocks(c, c.reshape(words, {ranks * row}), slice.getElementType(), encoding);
    terms = c.reshape(terms, {ranks, count});
    Value total = operands.size() > 1 ? operands[1] : Value();
    for (int64_t rank = 0; rank < ranks; ++rank) {
      Value term = c.reshape(c.slice(terms, 0, rank, rank + 1), {count});
      total = total ? c.add(total, term) : term;
    }
    return total;
  };
  return buildKernel(builder, scatter, inputs, slice, body, /*alias=*/sum ? 1 : -1).getResult(0);
}

/// `most`: how many terms a kernel adds, which has code for each.
static void quantize(dist::ReduceScatterOp scatter, int64_t most) {
  OpBuilder builder(scatter);
  Location loc = scatter.getLoc();
  Type word = builder.getI32Type();
  RankedTensorType slice = typeOf(scatter);
  dist::Encoding encoding = *scatter.getEncoding();
  int64_t count = slice.getNumElements(), ranks = nn::elements(scatter.getInput()) / count,
          row = wordsOf(count, encoding);
  Value words = buildWords(scatter, RankedTensorType::get({ranks, row}, word), encoding);
  auto exchange = dist::AllToAllOp::create(
      builder, loc, RankedTensorType::get({1, ranks * row}, word), words, scatter.getAxis(),
      /*split=*/0, /*concat=*/1, scatter.getEncodingAttr());
  nn::copyPhaseAndScope(scatter, exchange);
  Value sum;
  for (int64_t first = 0; first < ranks; first += most)
    sum =
        addTerms(builder, scatter, exchange.getResult(), sum, first, std::min(ranks, first + most));
  finish(scatter, sum);
}

static void quantize(dist::AllGatherOp gather) {
  OpBuilder builder(gather);
  Type word = builder.getI32Type();
  RankedTensorType whole = typeOf(gather);
  dist::Encoding encoding = *gather.getEncoding();
  auto typeOfWords = [&](int64_t count) {
    return RankedTensorType::get({wordsOf(count, encoding)}, word);
  };
  Value words = buildWords(gather, typeOfWords(nn::elements(gather.getInput())), encoding);
  auto gathered =
      dist::AllGatherOp::create(builder, gather.getLoc(), typeOfWords(whole.getNumElements()),
                                words, gather.getAxis(), /*dim=*/0, gather.getEncodingAttr());
  nn::copyPhaseAndScope(gather, gathered);
  Value floats =
      buildKernel(builder, gather, gathered.getResult(), whole,
                  [&](nn::Composer &c, ValueRange received) {
                    return dequantizeBlocks(c, received[0], whole.getElementType(), encoding);
                  })
          .getResult(0);
  finish(gather, floats);
}

namespace {
struct QuantizeReductionsPass : shale::impl::QuantizeReductionsPassBase<QuantizeReductionsPass> {
  using QuantizeReductionsPassBase::QuantizeReductionsPassBase;
  void runOnOperation() override {
    SmallVector<dist::ReduceScatterOp> scatters;
    SmallVector<dist::AllGatherOp> gathers;
    getOperation().walk([&](Operation *op) {
      if (auto scatter = dyn_cast<dist::ReduceScatterOp>(op); scatter && scatter.getEncodingAttr())
        scatters.push_back(scatter);
      if (auto gather = dyn_cast<dist::AllGatherOp>(op);
          gather && gather.getEncodingAttr() && !gather.getSentEncoding())
        gathers.push_back(gather);
    });
    for (dist::ReduceScatterOp scatter : scatters)
      quantize(scatter, std::max<int64_t>(1, terms));
    for (dist::AllGatherOp gather : gathers)
      quantize(gather);
    // Errors of values that no collective sends.
    SetVector<Value> values;
    getOperation().walk([&](dist::QuantizationErrorOp error) { values.insert(error.getInput()); });
    for (Value value : values)
      for (Operation *user : value.getUsers())
        if (auto error = dyn_cast<dist::QuantizationErrorOp>(user)) {
          dist::Encoding encoding = error.getEncoding();
          buildWords(error,
                     RankedTensorType::get({wordsOf(nn::elements(value), encoding)},
                                           IntegerType::get(&getContext(), 32)),
                     encoding);
          break;
        }
  }
};
} // namespace
