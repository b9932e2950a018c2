//===- ChosenRows.cpp - Computes rows of chosen experts -------------------===//
//
// Ops are built again, from the sum back to where tensors have tokens or experts, but not both.
//
//===----------------------------------------------------------------------===//
#include "passes/import/ChosenRows.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "lib/Analysis/Rows.h"
#include "passes/import/Matchers.h"

using namespace mlir;
using namespace shale;
using namespace shale::recover;

ChosenRows::ChosenRows(const Choice &choice, Operation *root)
    : choice(choice), root(root), before(root->getPrevNode()), b(root), current(root) {}

void ChosenRows::undo() {
  while (root->getPrevNode() != before)
    root->getPrevNode()->erase();
}

Value ChosenRows::reshape(Value value, ArrayRef<int64_t> shape) {
  RankedTensorType type = tensor(value).clone(shape);
  while (auto before = value.getDefiningOp<nn::ReshapeOp>())
    value = before.getInput();
  if (value.getType() == type)
    return value;
  auto made = nn::ReshapeOp::create(b, current->getLoc(), type, value);
  return inherit(current, made), made.getResult();
}

Value ChosenRows::transpose(Value value, ArrayRef<int64_t> perm) {
  SmallVector<int64_t> shape;
  for (int64_t dim : perm)
    shape.push_back(tensor(value).getDimSize(dim));
  auto made =
      nn::TransposeOp::create(b, current->getLoc(), tensor(value).clone(shape), value, perm);
  return inherit(current, made), made.getResult();
}

Value ChosenRows::experts() {
  if (!rowExperts)
    rowExperts = reshape(choice.indices, {choice.tokens * choice.chosen});
  return rowExperts;
}

/// Repeats what is the same for all experts.
Value ChosenRows::repeat(Value value, Place place) {
  RankedTensorType type = tensor(value);
  int64_t tokens = choice.tokens, times = choice.chosen, size = place.token;
  if (size * tokens != type.getNumElements())
    return {};
  Value rows = reshape(value, {tokens, size});
  if (times == 1)
    return rows;
  auto wide = nn::BroadcastOp::create(b, current->getLoc(), type.clone({tokens, times, size}), rows,
                                      ArrayRef<int64_t>{0, 2});
  inherit(current, wide);
  return reshape(wide, {tokens * times, size});
}

/// Picks from one number for each token and expert.
Value ChosenRows::pick(Value value, Place place) {
  RankedTensorType type = tensor(value);
  int64_t tokens = choice.tokens, experts = choice.experts, times = choice.chosen;
  if (type.getNumElements() != tokens * experts || place.token != experts || place.expert != 1)
    return {};
  auto made = nn::GatherNdOp::create(b, current->getLoc(), type.clone({tokens, times}),
                                     reshape(value, {tokens, experts}),
                                     reshape(choice.indices, {tokens, times, 1}), 1);
  return inherit(current, made), made.getResult();
}

/// Returns the matrices of a matmul's operand as [E, x, y], if the expert is the major part of one
/// of the last two dimensions, or a dimension before them. `turned`: as [E, N, K].
Value ChosenRows::matricesOf(Value value, Place place, bool &turned, bool isLastContracted) {
  ArrayRef<int64_t> shape = tensor(value).getShape();
  std::optional<SmallVector<int64_t>> matrix = chosenShape(choice, shape, place);
  if (!matrix)
    return {};
  int64_t rows = matrix->end()[-2], columns = matrix->end()[-1];
  if (rows * columns * choice.experts != nn::elements(value))
    return {};
  turned = isLastContracted;
  if (place.expert * choice.experts == nn::elements(value))
    return reshape(value, {choice.experts, rows, columns});
  if (place.expert * choice.experts != shape.back())
    return {};
  return transpose(reshape(value, {rows, choice.experts, columns}), {1, 0, 2});
}

Value ChosenRows::multiply(nn::MatmulOp op, unsigned side, Place rowPlace, Place matrixPlace) {
  if (op.getQuantized() || rowPlace.token == 0 || matrixPlace.token != 0 || matrixPlace.expert == 0)
    return {};
  auto isLastContracted = [&](unsigned number) {
    return number == 0 ? !op.getTransposeLhs() : op.getTransposeRhs();
  };
  Value rows = of(op->getOperand(side), rowPlace);
  if (!rows)
    return {};
  current = op;
  bool turned;
  Value matrices =
      matricesOf(op->getOperand(1 - side), matrixPlace, turned, isLastContracted(1 - side));
  if (!matrices)
    return {};
  ArrayRef<int64_t> shape = tensor(rows).getShape(), matrix = tensor(matrices).getShape();
  int64_t count = choice.tokens * choice.chosen, width = matrix[turned ? 2 : 1];
  if (nn::elements(rows) != count * width)
    return {};
  if (isLastContracted(side))
    rows = reshape(rows, {count, width});
  else if (shape.back() == count)
    rows = transpose(reshape(rows, {width, count}), {1, 0});
  else
    return {};
  auto made = nn::ExpertMatmulOp::create(
      b, op.getLoc(), tensor(op.getResult()).clone({count, matrix[turned ? 1 : 2]}), rows, matrices,
      experts(), turned, /*parts=*/1, /*of=*/IntegerAttr());
  hasMatmuls = true;
  return inherit(op, made), made.getResult();
}

Value ChosenRows::multiply(nn::MatmulOp op, Place place, ArrayRef<Place> places) {
  for (unsigned side : {0, 1}) {
    if (places[side].token == 0 || places[1 - side].token != 0 || places[1 - side].expert == 0)
      continue;
    Value results = multiply(op, side, places[side], places[1 - side]);
    if (!results || side == 0)
      return results;
    SmallVector<int64_t> shape = *chosenShape(choice, tensor(op.getResult()).getShape(), place);
    return shape.back() == tensor(results).getDimSize(0) ? transpose(results, {1, 0}) : Value();
  }
  return {};
}

/// Looks up what a broadcast repeats for all tokens.
Value ChosenRows::broadcastOfExperts(nn::BroadcastOp op, Place from, Place to) {
  Value input = op.getInput();
  int64_t size = from.expert, count = choice.tokens * choice.chosen;
  ArrayRef<int64_t> wide = tensor(op.getResult()).getShape();
  std::optional<SmallVector<int64_t>> shape = chosenShape(choice, wide, to),
                                      item = chosenShape(choice, tensor(input).getShape(), from);
  if (!shape || !item || size * choice.experts != nn::elements(input))
    return {};
  SmallVector<int64_t> narrow(wide.size(), 1);
  for (auto [dim, own] : llvm::zip(op.getDims(), *item))
    narrow[dim] = own;
  // Tokens, then what an expert has.
  int64_t seen = 1;
  for (auto [dim, own] : llvm::enumerate(narrow)) {
    bool isToken = countsTokens(choice, wide, dim, to);
    if (isToken && (own != 1 || seen != 1))
      return {};
    seen *= own;
    if (isToken)
      own = (*shape)[dim];
  }
  RankedTensorType type = tensor(input);
  auto rows = nn::GatherNdOp::create(b, current->getLoc(), type.clone({count, size}),
                                     reshape(input, {choice.experts, size}),
                                     reshape(experts(), {count, 1}), 0);
  inherit(current, rows);
  Value each = reshape(rows, narrow);
  if (ArrayRef<int64_t>(narrow) == ArrayRef<int64_t>(*shape))
    return each;
  auto made = nn::BroadcastOp::create(b, current->getLoc(), type.clone(*shape), each,
                                      llvm::to_vector(llvm::seq<int64_t>(0, narrow.size())));
  return inherit(current, made), made.getResult();
}

/// Builds an op again with operands of the chosen rows.
Value ChosenRows::rebuild(Operation *op, ArrayRef<Place> places, ArrayRef<int64_t> shape) {
  SmallVector<Value> operands;
  for (auto [operand, place] : llvm::zip(op->getOperands(), places)) {
    operands.push_back(of(operand, place));
    if (!operands.back())
      return {};
  }
  current = op;
  RankedTensorType type = tensor(op->getResult(0)).clone(shape);
  if (isa<nn::BroadcastOp>(op) && operands[0].getType() == type)
    return operands[0];
  // Such ops but slices are not the same with other sizes.
  if (isa<PartitionableOpInterface>(op) && !isa<nn::SliceOp>(op))
    return {};
  return cloneWithRows(b, op, operands, type)->getResult(0);
}

Value ChosenRows::compute(Value value, Place place, ArrayRef<int64_t> shape) {
  auto result = dyn_cast<OpResult>(value);
  if (result)
    current = result.getOwner();
  if (place.expert == 0)
    if (Value rows = repeat(value, place))
      return reshape(rows, shape);
  if (Value numbers = pick(value, place))
    return reshape(numbers, shape);
  if (DenseElementsAttr constant = constantOf(value); constant && constant.isSplat())
    return nn::ConstantOp::create(
        b, current->getLoc(), DenseElementsAttr(constant.resizeSplat(tensor(value).clone(shape))));
  if (!result)
    return {};
  if (auto op = dyn_cast<nn::ReshapeOp>(current)) {
    Value rows = of(op.getInput(), place);
    return rows ? reshape(rows, shape) : Value();
  }
  std::optional<SmallVector<Place>> places = placesOfOperands(choice, result, place);
  if (!places || place.token == 0)
    return {};
  if (auto broadcast = dyn_cast<nn::BroadcastOp>(current);
      broadcast && places->front().token == 0 && places->front().expert != 0)
    return broadcastOfExperts(broadcast, places->front(), place);
  if (auto matmul = dyn_cast<nn::MatmulOp>(current))
    if (Value results = multiply(matmul, place, *places)) {
      replaced.insert(matmul);
      return reshape(results, shape);
    }
  return rebuild(result.getOwner(), *places, shape);
}

Value ChosenRows::of(Value value, Place place) {
  if (place.token == 0 && place.expert == 0)
    return value;
  auto it = known.find(value);
  if (it != known.end())
    return it->second.first == place ? it->second.second : Value();
  std::optional<SmallVector<int64_t>> shape = chosenShape(choice, tensor(value).getShape(), place);
  if (!shape)
    return {};
  Value rows = compute(value, place, *shape);
  known[value] = {place, rows};
  Operation *op = value.getDefiningOp();
  if (rows && op && llvm::any_of(op->getOperands(), [&](Value operand) {
        return replaced.contains(operand.getDefiningOp());
      }))
    replaced.insert(op);
  return rows;
}

bool ChosenRows::replacesMatmuls() const {
  auto isReplaced = [&](Operation *user) { return user == root || replaced.contains(user); };
  return llvm::all_of(replaced,
                      [&](Operation *op) { return llvm::all_of(op->getUsers(), isReplaced); }) &&
         hasMatmuls;
}
