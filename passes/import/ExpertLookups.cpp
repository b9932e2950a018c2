//===- ExpertLookups.cpp - Rows by index ----------------------------------===//
#include "passes/import/ExpertLookups.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Ops/Sort.h"
#include "lib/Folding/Fold.h"
#include "passes/import/Matchers.h"

using namespace mlir;
using namespace shale;
using namespace shale::recover;

/// Whether an op changes the type of integers that hold the number of any expert.
static bool castsIntegers(Operation *op) {
  auto isInteger = [](Value value) {
    Type element = tensor(value).getElementType();
    return isa<IntegerType>(element) && element.getIntOrFloatBitWidth() >= 32;
  };
  return isa_and_nonnull<nn::CastOp>(op) && isInteger(op->getOperand(0)) &&
         isInteger(op->getResult(0));
}

std::optional<int64_t> recover::boundOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (auto sort = dyn_cast_or_null<nn::TopKOp>(op); sort && value == sort.getIndices())
    return tensor(sort.getInput()).getShape().back();
  bool moves = isa_and_nonnull<ElementMoveOpInterface>(op) && !isa<nn::PadOp, nn::CastOp>(op);
  if ((!moves && !castsIntegers(op)) || op->getNumOperands() == 0)
    return std::nullopt;
  int64_t bound = 0;
  for (Value operand : op->getOperands()) {
    std::optional<int64_t> own = boundOf(operand);
    if (!own)
      return std::nullopt;
    bound = std::max(bound, *own);
  }
  return bound;
}

/// Returns the elements of a constant whose elements are equal; null for others.
static DenseElementsAttr uniformOf(Value value) {
  DenseElementsAttr dense = constantOf(value);
  return dense && dense.isSplat() ? dense : DenseElementsAttr();
}

/// Returns the integer of such a constant.
static std::optional<int64_t> uniformInteger(Value value) {
  DenseElementsAttr dense = uniformOf(value);
  if (!dense || !isa<IntegerType>(dense.getElementType()))
    return std::nullopt;
  APInt number = dense.getSplatValue<APInt>();
  return number.getBitWidth() == 1 ? number.getZExtValue() : number.getSExtValue();
}

Value recover::peelIndices(Value value) {
  while (true) {
    value = peelUnits(value);
    if (Operation *cast = value.getDefiningOp(); castsIntegers(cast) && boundOf(value)) {
      value = cast->getOperand(0);
      continue;
    }
    auto select = value.getDefiningOp<nn::SelectOp>();
    auto isNegative = select ? select.getCondition().getDefiningOp<nn::CompareOp>() : nullptr;
    if (!isNegative || isNegative.getPredicate() != nn::Predicate::LT ||
        isNegative.getLhs() != select.getOnFalse() || uniformInteger(isNegative.getRhs()) != 0 ||
        !boundOf(select.getOnFalse()))
      return value;
    value = select.getOnFalse();
  }
}

DenseElementsAttr recover::elementsOf(Value value) {
  constexpr int64_t kShort = 1 << 16;
  if (auto iota = value.getDefiningOp<nn::IotaOp>(); iota && nn::elements(value) <= kShort)
    return folding::fold(iota, ArrayRef<DenseElementsAttr>());
  return constantOf(value);
}

bool recover::isNotNegative(Value value) {
  value = peelUnits(value);
  if (value.getDefiningOp<nn::IotaOp>() || boundOf(value))
    return true;
  if (std::optional<int64_t> number = uniformInteger(value))
    return *number >= 0;
  auto quotient = value.getDefiningOp<nn::DivOp>();
  return quotient && uniformInteger(quotient.getRhs()).value_or(0) > 0 &&
         isNotNegative(quotient.getLhs());
}

/// Computes an elementwise op on constants, each of equal elements.
static Value foldUniform(OpBuilder &b, Operation *op, ValueRange operands) {
  SmallVector<DenseElementsAttr> ones;
  RankedTensorType result = tensor(op->getResult(0));
  SmallVector<int64_t> one(result.getRank(), 1);
  Block block;
  SmallVector<Value> arguments;
  for (Value operand : operands) {
    DenseElementsAttr dense = uniformOf(operand);
    if (!dense)
      return {};
    ones.push_back(dense.resizeSplat(tensor(operand).clone(one)));
    arguments.push_back(block.addArgument(ones.back().getType(), op->getLoc()));
  }
  OpBuilder inside(op->getContext());
  inside.setInsertionPointToEnd(&block);
  OperationState state(op->getLoc(), op->getName(), arguments, result.clone(one), op->getAttrs());
  DenseElementsAttr folded = folding::fold(inside.create(state), ones);
  return folded ? nn::ConstantOp::create(b, op->getLoc(), folded.resizeSplat(result)) : Value();
}

Value recover::simplifyIndices(OpBuilder &b, Operation *op, ValueRange operands) {
  if (!isa<ElementwiseOpInterface>(op) || operands.empty() ||
      tensor(op->getResult(0)).getNumElements() == 0)
    return {};
  if (Value folded = foldUniform(b, op, operands))
    return folded;
  auto truth = [&](bool value) -> Value {
    RankedTensorType type = tensor(op->getResult(0));
    return nn::ConstantOp::create(b, op->getLoc(), DenseElementsAttr::get(type, value));
  };
  auto is = [&](unsigned number, int64_t wanted) {
    return uniformInteger(operands[number]) == wanted;
  };
  if (auto compare = dyn_cast<nn::CompareOp>(op)) {
    bool isSign = is(1, 0) && isNotNegative(operands[0]);
    if (isSign && compare.getPredicate() == nn::Predicate::LT)
      return truth(false);
    if (isSign && compare.getPredicate() == nn::Predicate::GE)
      return truth(true);
  } else if (isa<nn::SelectOp>(op)) {
    if (std::optional<int64_t> condition = uniformInteger(operands[0]))
      return operands[*condition ? 1 : 2];
  } else if (isa<nn::AndOp>(op)) {
    if (is(0, 0) || is(1, 0))
      return truth(false);
  } else if (isa<nn::SubOp, nn::AddOp>(op) &&
             isa<IntegerType>(tensor(op->getResult(0)).getElementType()) && is(1, 0)) {
    return operands[0];
  }
  return {};
}

/// Returns k if indices of [S] or [S, 1] pick each of `count` rows k times, in order; 0 otherwise.
static int64_t timesRepeated(Value indices, int64_t count) {
  RankedTensorType type = tensor(indices);
  int64_t picks = type.getNumElements();
  if (count < 1 || picks < 1 || picks % count != 0 || type.getRank() < 1 ||
      type.getDimSize(0) != picks)
    return 0;
  int64_t times = picks / count;
  // The number of the pick, divided by k.
  Value number = peelUnits(indices);
  int64_t divisor = 1;
  if (auto quotient = number.getDefiningOp<nn::DivOp>())
    if (std::optional<int64_t> by = uniformInteger(quotient.getRhs())) {
      divisor = *by;
      number = peelUnits(quotient.getLhs());
    }
  if (auto iota = number.getDefiningOp<nn::IotaOp>();
      iota && tensor(number).getDimSize(iota.getDim()) == picks)
    return divisor == times ? times : 0;
  DenseElementsAttr numbers = elementsOf(indices);
  if (!numbers)
    return 0;
  for (auto [place, value] : llvm::enumerate(numbers.getValues<APInt>()))
    if (value.getSExtValue() != int64_t(place) / times)
      return 0;
  return times;
}

std::optional<Lookup> Lookup::of(Operation *op) {
  if (auto gather = dyn_cast<nn::GatherOp>(op); gather && gather.getDim() == 0)
    return Lookup{gather.getInput(), gather.getIndices()};
  if (auto row = dyn_cast<nn::EmbeddingOp>(op); row && !row.getPadding())
    return Lookup{row.getTable(), row.getIndices()};
  if (auto gather = dyn_cast<nn::GatherNdOp>(op);
      gather && gather.getBatchDims() == 0 && tensor(gather.getIndices()).getShape().back() == 1)
    return Lookup{gather.getInput(), gather.getIndices()};
  if (auto sum = dyn_cast<nn::GatherNdGradOp>(op);
      sum && sum.getBatchDims() == 0 && tensor(sum.getIndices()).getShape().back() == 1)
    return Lookup{sum.getGrad(), sum.getIndices(), true};
  if (auto sum = dyn_cast<nn::EmbeddingGradOp>(op))
    return Lookup{sum.getGrad(), sum.getIndices(), true};
  return std::nullopt;
}

Value recover::repeatRows(OpBuilder &b, Operation *op) {
  std::optional<Lookup> lookup = Lookup::of(op);
  if (!lookup)
    return {};
  RankedTensorType result = tensor(op->getResult(0)), table = tensor(lookup->table);
  int64_t rows = (lookup->sums ? result : table).getDimSize(0);
  int64_t times = timesRepeated(lookup->indices, rows);
  if (times == 0 || result.getElementType() != table.getElementType())
    return {};
  Location loc = op->getLoc();
  auto reshaped = [&](Value value, RankedTensorType type) -> Value {
    if (value.getType() == type)
      return value;
    Operation *made = nn::ReshapeOp::create(b, loc, type, value);
    return inherit(op, made), made->getResult(0);
  };
  RankedTensorType item = lookup->sums ? result : table;
  SmallVector<int64_t> wide(item.getShape());
  wide.insert(wide.begin() + 1, times);
  RankedTensorType repeated = item.clone(wide);
  if (times == 1)
    return reshaped(lookup->table, result);
  Operation *made;
  if (lookup->sums) {
    made = nn::ReduceOp::create(b, loc, result, nn::ReduceKind::Sum,
                                reshaped(lookup->table, repeated), ArrayRef<int64_t>{1});
    return inherit(op, made), made->getResult(0);
  }
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(1, wide.size()));
  dims.front() = 0;
  made = nn::BroadcastOp::create(b, loc, repeated, lookup->table, dims);
  inherit(op, made);
  return reshaped(made->getResult(0), result);
}

/// Returns the table and the list of indices of a lookup [S, A, B] of matrices, whose last two
/// dimensions may be exchanged (`turned`); none for other values.
static std::optional<Lookup> lookedUpMatrices(Value value, bool &turned) {
  turned = false;
  while (Operation *op = value.getDefiningOp()) {
    if (auto transpose = dyn_cast<nn::TransposeOp>(op);
        transpose && transpose.getPerm() == ArrayRef<int64_t>{0, 2, 1}) {
      turned = !turned;
      value = transpose.getInput();
      continue;
    }
    std::optional<Lookup> lookup = Lookup::of(op);
    // A lookup of rows of a table [E, A * B] is reshaped on both sides.
    if (auto reshape = dyn_cast<nn::ReshapeOp>(op))
      if (Operation *inner = reshape.getInput().getDefiningOp())
        if (lookup = Lookup::of(inner); lookup && !lookup->sums) {
          auto table = lookup->table.getDefiningOp<nn::ReshapeOp>();
          ArrayRef<int64_t> matrix = tensor(value).getShape().drop_front();
          if (!table || tensor(value).getRank() != 3 || tensor(table.getInput()).getRank() != 3 ||
              tensor(table.getInput()).getShape().drop_front() != matrix)
            return std::nullopt;
          lookup->table = table.getInput();
        }
    if (!lookup || lookup->sums || tensor(lookup->table).getRank() != 3 ||
        tensor(value).getRank() != 3)
      return std::nullopt;
    lookup->indices = peelIndices(lookup->indices);
    return lookup;
  }
  return std::nullopt;
}

/// Multiplies the only row of each batch of a matmul with a matrix that is looked up, on either
/// side. Returns the rows [S, N]; null for other matmuls.
static Value multiplyRows(OpBuilder &b, nn::MatmulOp op) {
  if (tensor(op.getResult()).getRank() != 3)
    return {};
  for (bool left : {true, false}) {
    Value row = left ? op.getLhs() : op.getRhs(), matrix = left ? op.getRhs() : op.getLhs();
    ArrayRef<int64_t> shape = tensor(op.getResult()).getShape();
    if (shape[left ? 1 : 2] != 1)
      continue;
    bool turned;
    std::optional<Lookup> lookup = lookedUpMatrices(matrix, turned);
    int64_t rows = shape[0], columns = shape[left ? 2 : 1];
    if (rows == 0)
      continue;
    std::optional<int64_t> bound = lookup ? boundOf(lookup->indices) : std::nullopt;
    if (!bound || *bound > tensor(lookup->table).getDimSize(0) ||
        nn::elements(lookup->indices) != rows)
      continue;
    // As [K, N] on the right, as [N, K] on the left.
    bool transposed = turned != (left ? op.getTransposeRhs() : !op.getTransposeLhs());
    Location loc = op.getLoc();
    auto flat = [&](Value value, ArrayRef<int64_t> to) -> Value {
      RankedTensorType type = tensor(value).clone(to);
      if (value.getType() == type)
        return value;
      auto made = nn::ReshapeOp::create(b, loc, type, value);
      return inherit(op, made), made.getResult();
    };
    int64_t width = nn::elements(row) / rows;
    auto made = nn::ExpertMatmulOp::create(b, loc, tensor(op.getResult()).clone({rows, columns}),
                                           flat(row, {rows, width}), lookup->table,
                                           flat(lookup->indices, {rows}), transposed,
                                           /*parts=*/1, /*of=*/IntegerAttr());
    inherit(op, made);
    return flat(made, shape);
  }
  return {};
}

bool recover::multiplyLookedUp(Block &block) {
  bool found = false;
  OpBuilder b(block.getParentOp()->getContext());
  for (auto matmul : llvm::to_vector(block.getOps<nn::MatmulOp>())) {
    b.setInsertionPoint(matmul);
    if (Value rows = multiplyRows(b, matmul)) {
      matmul.replaceAllUsesWith(rows);
      found = true;
    }
  }
  return found;
}
