//===- DenseExperts.cpp - Experts that compute all tokens -----------------===//
//
// A model may multiply all tokens with the matrices of all experts and add the results up, with
// weights of zero for the experts that a token did not choose. If all that these add is zeros, the
// sum is that of the chosen experts.
//
//===----------------------------------------------------------------------===//
#include "passes/import/DenseExperts.h"
#include "dialects/nn/Ops/Reduce.h"
#include "passes/import/ChosenRows.h"
#include "passes/import/Matchers.h"
#include "passes/import/UnchosenExperts.h"

using namespace mlir;
using namespace shale;
using namespace shale::recover;

/// Ops before a sum among which the choice is looked for.
constexpr unsigned kOpsAtMost = 256;

/// Returns the choices that a value may depend on, the nearest first.
static SmallVector<Choice> choicesBefore(Operation *root) {
  SmallVector<Choice> choices;
  llvm::SetVector<Operation *> ops;
  ops.insert(root);
  for (unsigned i = 0; i < ops.size() && ops.size() < kOpsAtMost; ++i) {
    if (auto sort = dyn_cast<nn::TopKOp>(ops[i]))
      if (std::optional<Choice> choice = Choice::of(sort))
        choices.push_back(*choice);
    for (Value operand : ops[i]->getOperands())
      if (Operation *op = operand.getDefiningOp())
        ops.insert(op);
  }
  return choices;
}

/// Returns what neighboring tokens may be apart: the strides of dimensions, or of several in a
/// row, that are as many.
static SmallVector<int64_t> tokenStrides(const Choice &choice, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides;
  for (int64_t last = 0; last < int64_t(shape.size()); ++last) {
    int64_t count = 1, first = last;
    for (; first >= 0 && count < choice.tokens; --first)
      count *= shape[first];
    if (count == choice.tokens && shape[last] != 1)
      strides.push_back(strideOf(shape, last));
  }
  return strides;
}

/// Adds the chosen rows of each token.
static Value addChoices(ChosenRows &rows, const Choice &choice, Value value,
                        ArrayRef<int64_t> tokens, RankedTensorType type) {
  RankedTensorType from = tensor(value);
  if (choice.chosen == 1 && from.getElementType() == type.getElementType())
    return rows.reshape(value, type.getShape());
  // [.., T, k, ..]
  SmallVector<int64_t> split(tokens);
  split.push_back(choice.chosen);
  int64_t dim = tokens.size();
  llvm::append_range(split, type.getShape().drop_front(dim));
  if (type.getShape().take_front(dim) != tokens ||
      ShapedType::getNumElements(split) != from.getNumElements())
    return {};
  auto sum = nn::ReduceOp::create(rows.builder(), value.getLoc(), type, nn::ReduceKind::Sum,
                                  rows.reshape(value, split), ArrayRef<int64_t>{dim});
  return sum;
}

/// Returns a sum over experts as one over the choices of each token; null if it is another one.
static Value sumChosen(ChosenRows &rows, const Choice &choice, nn::ReduceOp op, int64_t token) {
  Value input = op.getInput();
  ArrayRef<int64_t> shape = tensor(input).getShape();
  Place place{token, strideOf(shape, op.getDims()[0])};
  if (!chosenShape(choice, shape, place) || !isUnchosenZero(choice, input, place))
    return {};
  Value value = rows.of(input, place);
  if (!value)
    return {};
  SmallVector<int64_t> tokens;
  for (auto [dim, size] : llvm::enumerate(shape)) {
    if (strideOf(shape, dim) < token)
      break;
    if (!countsExperts(choice, shape, dim, place))
      tokens.push_back(size);
  }
  return addChoices(rows, choice, value, tokens, tensor(op.getResult()));
}

/// Returns the dimension of a matmul's operand over which it sums.
static int64_t contractedDim(nn::MatmulOp op, unsigned side) {
  bool isLast = side == 0 ? !op.getTransposeLhs() : op.getTransposeRhs();
  return tensor(op->getOperand(side)).getRank() - (isLast ? 1 : 2);
}

/// A matmul for each token, of weights with what the experts give.
static Value weighChosen(ChosenRows &rows, const Choice &choice, nn::MatmulOp op, int64_t batch) {
  SmallVector<Value> operands;
  bool isZero = false;
  SmallVector<Place> places;
  for (unsigned side : {0, 1}) {
    ArrayRef<int64_t> shape = tensor(op->getOperand(side)).getShape();
    places.push_back({strideOf(shape, batch), strideOf(shape, contractedDim(op, side))});
    if (!chosenShape(choice, shape, places.back()))
      return {};
    isZero |= isUnchosenZero(choice, op->getOperand(side), places.back());
  }
  if (!isZero)
    return {};
  for (unsigned side : {0, 1}) {
    Value operand = op->getOperand(side), value = rows.of(operand, places[side]);
    if (!value)
      return {};
    // The choices come before what they multiply.
    SmallVector<int64_t> shape(tensor(operand).getShape());
    int64_t dim = contractedDim(op, side), rank = shape.size();
    shape[rank - 1] = shape[2 * rank - 3 - dim];
    shape[rank - 2] = choice.chosen;
    operands.push_back(rows.reshape(value, shape));
  }
  return nn::MatmulOp::create(rows.builder(), op.getLoc(), op.getType(), operands[0], operands[1],
                              /*transposeLhs=*/true, /*transposeRhs=*/false);
}

/// A matmul with the matrices of all experts on one side, which also sums over the experts.
static Value multiplyAndSum(ChosenRows &rows, const Choice &choice, nn::MatmulOp op,
                            unsigned side) {
  ArrayRef<int64_t> shape = tensor(op->getOperand(side)).getShape(),
                    other = tensor(op->getOperand(1 - side)).getShape();
  int64_t dim = contractedDim(op, side), otherDim = contractedDim(op, 1 - side);
  int64_t inner = shape[dim] / choice.experts;
  if (shape.size() != 2 || shape[1 - dim] != choice.tokens || inner < 2 ||
      shape[dim] != inner * choice.experts)
    return {};
  Place place{strideOf(shape, 1 - dim), inner * strideOf(shape, dim)},
      matrices{0, inner * strideOf(other, otherDim)};
  if (!isUnchosenZero(choice, op->getOperand(side), place))
    return {};
  Value results = rows.multiply(op, side, place, matrices);
  if (!results)
    return {};
  RankedTensorType type = tensor(results);
  Value sum = addChoices(rows, choice, results, {choice.tokens},
                         type.clone({choice.tokens, type.getDimSize(1)}));
  return side == 0 ? sum : rows.transpose(sum, {1, 0});
}

static Value sumOf(ChosenRows &rows, const Choice &choice, Operation *root, unsigned attempt) {
  if (auto reduce = dyn_cast<nn::ReduceOp>(root)) {
    SmallVector<int64_t> strides = tokenStrides(choice, tensor(reduce.getInput()).getShape());
    return attempt < strides.size() ? sumChosen(rows, choice, reduce, strides[attempt]) : Value();
  }
  auto matmul = cast<nn::MatmulOp>(root);
  ArrayRef<int64_t> shape = tensor(matmul.getResult()).getShape();
  if (attempt >= 2)
    return {};
  if (shape.size() == 2)
    return multiplyAndSum(rows, choice, matmul, attempt);
  ArrayRef<int64_t> batch = shape.drop_back(2);
  bool isBatch = attempt == 0 && ShapedType::getNumElements(batch) == choice.tokens &&
                 batch.back() != 1 &&
                 tensor(matmul.getLhs()).getDimSize(contractedDim(matmul, 0)) == choice.experts;
  return isBatch ? weighChosen(rows, choice, matmul, batch.size() - 1) : Value();
}

/// Whether an op may be a sum over the experts of a choice.
static bool maySum(Operation *op, const Choice &choice) {
  if (auto reduce = dyn_cast<nn::ReduceOp>(op))
    return reduce.getKind() == nn::ReduceKind::Sum && reduce.getDims().size() == 1 &&
           tensor(reduce.getInput()).getDimSize(reduce.getDims()[0]) == choice.experts;
  auto matmul = dyn_cast<nn::MatmulOp>(op);
  return matmul && !matmul.getQuantized() &&
         tensor(matmul.getLhs()).getDimSize(contractedDim(matmul, 0)) % choice.experts == 0;
}

static bool replaceSum(Operation *root) {
  for (const Choice &choice : choicesBefore(root)) {
    int64_t rank = tensor(root->getOperand(0)).getRank();
    for (int64_t attempt = 0; maySum(root, choice) && attempt < rank; ++attempt) {
      ChosenRows rows(choice, root);
      Value sum = sumOf(rows, choice, root, attempt);
      if (sum && rows.replacesMatmuls()) {
        inherit(root, sum.getDefiningOp());
        root->getResult(0).replaceAllUsesWith(sum);
        return true;
      }
      rows.undo();
    }
  }
  return false;
}

bool recover::multiplyChosen(Block &block) {
  bool found = false;
  if (block.getOps<nn::TopKOp>().empty())
    return false;
  for (Operation &op : llvm::make_early_inc_range(block))
    if (isa<nn::ReduceOp, nn::MatmulOp>(op))
      found |= replaceSum(&op);
  return found;
}
