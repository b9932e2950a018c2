//===- DividedGradients.cpp - Gradients of matmuls that are divided -------===//
#include "passes/sharding/DividedGradients.h"
#include "dialects/nn/NN.h"
#include "dialects/nn/Ops/Elementwise.h"

using namespace mlir;

namespace shale {

static func::FuncOp functionOf(BlockArgument argument) {
  return cast<func::FuncOp>(argument.getOwner()->getParentOp());
}

/// Returns the symbol of the state that a parameter is; null if it is none.
static Attribute symbolOf(BlockArgument parameter) {
  return functionOf(parameter).getArgAttr(parameter.getArgNumber(), nn::kStateAttr);
}

/// Returns the result that is the gradient of a parameter.
static std::optional<unsigned> gradientResult(BlockArgument parameter) {
  func::FuncOp function = functionOf(parameter);
  Attribute symbol = symbolOf(parameter);
  for (unsigned i = 0, e = function.getNumResults(); symbol && i < e; ++i)
    if (function.getResultAttr(i, nn::kGradientOfAttr) == symbol)
      return i;
  return std::nullopt;
}

bool hasGivenGradient(BlockArgument parameter) { return gradientResult(parameter).has_value(); }

/// Returns the op that computes the gradient of a parameter, which only the function returns.
template <typename OpT>
static OpT gradientOp(BlockArgument parameter, std::optional<unsigned> result) {
  if (!result)
    return OpT();
  Value value = functionOf(parameter).front().getTerminator()->getOperand(*result);
  return value.hasOneUse() ? value.getDefiningOp<OpT>() : OpT();
}

/// Sets `parts` and `flat` if `columns` joins parts of these sizes along its last dimension.
static bool readColumns(Value columns, ArrayRef<int64_t> sizes, MatmulGradients &found) {
  if ((found.flat = columns.getDefiningOp<nn::ReshapeOp>()))
    columns = found.flat.getInput();
  found.parts = columns.getDefiningOp<nn::ConcatOp>();
  if (!found.parts || (found.flat && !columns.hasOneUse()))
    return false;
  auto whole = cast<RankedTensorType>(columns.getType());
  auto rows = cast<RankedTensorType>(found.columns().getType());
  int64_t last = whole.getRank() - 1;
  if (rows.getRank() != 2 || last < 0 || found.parts.getDim() != uint64_t(last) ||
      rows.getShape().back() != whole.getShape().back() ||
      found.parts.getInputs().size() != sizes.size())
    return false;
  for (auto [part, size] : llvm::zip(found.parts.getInputs(), sizes))
    if (cast<RankedTensorType>(part.getType()).getShape().back() != size)
      return false;
  return true;
}

/// Whether a matmul is columns w^T.
static bool isOfInput(nn::MatmulOp matmul, Value columns, nn::MatmulOp forward) {
  return matmul.getLhs() == columns && !matmul.getTransposeLhs() &&
         matmul.getRhs() == forward.getRhs() &&
         matmul.getTransposeRhs() != forward.getTransposeRhs();
}

/// Returns the columns that the gradient of a weight is computed of: it is x^T columns, or
/// columns^T x for a weight that is stored transposed.
static Value columnsOf(nn::MatmulOp ofWeight, bool transposed) {
  if (!ofWeight || !ofWeight.getTransposeLhs() || ofWeight.getTransposeRhs())
    return {};
  return transposed ? ofWeight.getLhs() : ofWeight.getRhs();
}

std::optional<MatmulGradients> findMatmulGradients(nn::MatmulOp matmul, BlockArgument weight,
                                                   BlockArgument bias, ArrayRef<int64_t> sizes) {
  MatmulGradients found;
  std::optional<unsigned> ofWeight = gradientResult(weight), ofBias;
  found.ofWeight = gradientOp<nn::MatmulOp>(weight, ofWeight);
  Value columns = columnsOf(found.ofWeight, matmul.getTransposeRhs());
  if (!columns || found.ofWeight.getLhs() == found.ofWeight.getRhs() ||
      !readColumns(columns, sizes, found))
    return std::nullopt;
  found.weightResult = *ofWeight;
  if (bias) {
    ofBias = gradientResult(bias);
    found.ofBias = gradientOp<nn::ReduceOp>(bias, ofBias);
    if (!found.ofBias || found.ofBias.getInput() != columns ||
        found.ofBias.getKind() != nn::ReduceKind::Sum ||
        found.ofBias.getDims() != ArrayRef<int64_t>{0})
      return std::nullopt;
    found.biasResult = *ofBias;
  }
  for (Operation *user : columns.getUsers()) {
    auto other = dyn_cast<nn::MatmulOp>(user);
    if (user == found.ofWeight || user == found.ofBias)
      continue;
    if (!other || found.ofInput || !isOfInput(other, columns, matmul))
      return std::nullopt;
    found.ofInput = other;
  }
  for (Operation *user : weight.getUsers())
    if (user != matmul && user != found.ofInput)
      return std::nullopt;
  return found;
}

/// Returns `value` with another size of its last dimension.
static RankedTensorType withColumns(Value value, int64_t dim, int64_t size) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  return type.clone(shape);
}

/// Appends a result of the function: the gradient of a part, with the attributes of `like`.
static void returnGradient(BlockArgument part, Value gradient, unsigned like) {
  func::FuncOp function = functionOf(part);
  NamedAttrList attrs(function.getResultAttrDict(like));
  attrs.set(nn::kGradientOfAttr, symbolOf(part));
  attrs.erase(nn::kNameAttr); // of an output of the file
  unsigned at = function.getNumResults();
  (void)function.insertResult(at, gradient.getType(), attrs.getDictionary(part.getContext()));
  Operation *terminator = function.front().getTerminator();
  terminator->insertOperands(at, gradient);
}

namespace {
/// Makes the ops of one part after the other.
class GradientDivider {
public:
  explicit GradientDivider(MatmulGradients &of) : of(of), builder(of.parts.getContext(), &copies) {}

  Value columnsOf(Value part);
  Value ofInput(Value columns, BlockArgument weight);
  Value ofWeight(Value columns, BlockArgument weight);
  Value ofBias(Value columns, BlockArgument bias);
  Value sum(Value first, Value second);

private:
  template <typename OpT> OpT clone(OpT op) {
    copies.current = op;
    builder.setInsertionPoint(op);
    return cast<OpT>(builder.clone(*op.getOperation()));
  }
  MatmulGradients &of;
  CopyAttributes copies;
  OpBuilder builder;
};
} // namespace

Value GradientDivider::columnsOf(Value part) {
  if (!of.flat)
    return part;
  nn::ReshapeOp made = clone(of.flat);
  made.getInputMutable().assign(part);
  int64_t size = cast<RankedTensorType>(part.getType()).getShape().back();
  made.getResult().setType(withColumns(of.columns(), 1, size));
  return made.getResult();
}

Value GradientDivider::ofInput(Value columns, BlockArgument weight) {
  nn::MatmulOp made = clone(of.ofInput);
  made.getLhsMutable().assign(columns);
  made.getRhsMutable().assign(weight);
  return made.getResult();
}

Value GradientDivider::ofWeight(Value columns, BlockArgument weight) {
  nn::MatmulOp made = clone(of.ofWeight);
  bool isLeft = of.ofWeight.getLhs() == of.columns();
  (isLeft ? made.getLhsMutable() : made.getRhsMutable()).assign(columns);
  made.getResult().setType(cast<RankedTensorType>(weight.getType()));
  return made.getResult();
}

Value GradientDivider::ofBias(Value columns, BlockArgument bias) {
  nn::ReduceOp made = clone(of.ofBias);
  made.getInputMutable().assign(columns);
  made.getResult().setType(cast<RankedTensorType>(bias.getType()));
  return made.getResult();
}

Value GradientDivider::sum(Value first, Value second) {
  copies.current = of.ofInput;
  builder.setInsertionPoint(of.ofInput);
  return nn::AddOp::create(builder, of.ofInput.getLoc(), first.getType(), first, second);
}

void divideGradients(MatmulGradients &of, ArrayRef<BlockArgument> weights,
                     ArrayRef<BlockArgument> biases) {
  GradientDivider divider(of);
  Value ofInput;
  for (auto [i, part] : llvm::enumerate(of.parts.getInputs())) {
    Value columns = divider.columnsOf(part);
    if (of.ofInput) {
      Value made = divider.ofInput(columns, weights[i]);
      ofInput = ofInput ? divider.sum(ofInput, made) : made;
    }
    returnGradient(weights[i], divider.ofWeight(columns, weights[i]), of.weightResult);
    if (of.ofBias)
      returnGradient(biases[i], divider.ofBias(columns, biases[i]), of.biasResult);
  }
  func::FuncOp function = functionOf(weights.front());
  Operation *terminator = function.front().getTerminator();
  llvm::BitVector erased(function.getNumResults());
  erased.set(of.weightResult);
  if (of.ofBias)
    erased.set(of.biasResult);
  terminator->eraseOperands(erased);
  (void)function.eraseResults(erased);
  if (of.ofInput) {
    of.ofInput.getResult().replaceAllUsesWith(ofInput);
    of.ofInput.erase();
  }
  of.ofWeight.erase();
  if (of.ofBias)
    of.ofBias.erase();
  if (of.flat)
    of.flat.erase();
  of.parts.erase();
}

} // namespace shale
