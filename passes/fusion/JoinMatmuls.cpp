//===- JoinMatmuls.cpp - One matmul for layers that read one value --------===//
#include "dialects/dist/Runs.h"
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Matmul.h"
#include "lib/Support/DeadOps.h"
#include "lib/Support/OpCopies.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/Target.h"
#include "passes/fusion/Passes.h"
#include "passes/fusion/Reshapes.h"
#include "llvm/Support/FormatVariadic.h"

namespace shale {
#define GEN_PASS_DEF_JOINMATMULSPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

namespace {

/// The gradients of a linear layer y = x W^T. They are the only readers of dy.
struct Layer {
  bool copied;           // no kernel writes dy, so that one copies it to the joined rows
  Value leaf;            // dy W as it enters the sum of the gradients of x
  nn::MatmulOp input;    // dy W
  nn::MatmulOp weight;   // dy^T x
  Operation *packed;     // what the pack reads: `weight`, or its cast
  dist::UnitViewOp view; // W
  dist::UnitPackOp pack; // of the gradient of W
  dist::SegmentAttr segment;
};

/// Joins the layers of one function whose input gradients are summed.
class MatmulJoiner {
public:
  MatmulJoiner(const Target &target, MLIRContext *context)
      : target(target), b(context, &listener) {}
  void run(func::FuncOp function);

private:
  std::optional<Layer> match(Value leaf) const;
  SmallVector<Layer> findNeighbours(ArrayRef<Layer> layers) const;
  Value join(ArrayRef<Layer> run);
  void replaceSum(nn::AddOp root, ArrayRef<Value> leaves);
  void joinGradients(ArrayRef<Layer> run, Value joined);
  Value cast(Value value, Type element);

  const Target &target;
  CopyAttributes listener;
  OpBuilder b;
};

} // namespace

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Returns the terms of a sum whose partial sums have no other reader.
static SmallVector<Value> termsOf(nn::AddOp root) {
  SmallVector<Value> work{root.getRhs(), root.getLhs()}, terms;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    auto add = value.getDefiningOp<nn::AddOp>();
    if (add && add->hasOneUse())
      work.append({add.getRhs(), add.getLhs()});
    else
      terms.push_back(value);
  }
  return terms;
}

/// Returns the layer of a term of a sum of input gradients, if its matmuls can be joined with
/// others.
std::optional<Layer> MatmulJoiner::match(Value leaf) const {
  Layer layer{};
  layer.leaf = leaf;
  Value value = leaf;
  while (isa_and_present<nn::CastOp, nn::ReshapeOp>(value.getDefiningOp()) && value.hasOneUse())
    value = value.getDefiningOp()->getOperand(0);
  layer.input = value.getDefiningOp<nn::MatmulOp>();
  if (!layer.input || !value.hasOneUse() || typeOf(value).getRank() != 2 ||
      layer.input.getTransposeLhs() || layer.input.getTransposeRhs() ||
      !target.joinsMatmuls(typeOf(layer.input.getLhs()).getElementType()))
    return std::nullopt;
  // A kernel that writes dy can write it to joined rows.
  Value dy = layer.input.getLhs(), made = throughReshapes(dy);
  layer.view = layer.input.getRhs().getDefiningOp<dist::UnitViewOp>();
  if (!layer.view || !made.getDefiningOp() || !llvm::hasNItems(dy.getUsers(), 2))
    return std::nullopt;
  layer.copied = !isa<ElementwiseOpInterface, nn::CastOp, nn::RopeOp>(made.getDefiningOp());
  for (Operation *user : dy.getUsers())
    if (auto other = dyn_cast<nn::MatmulOp>(user);
        other && other != layer.input && other.getLhs() == dy && other.getRhs() != dy &&
        other.getTransposeLhs() && !other.getTransposeRhs() && other->hasOneUse())
      layer.weight = other;
  if (!layer.weight || nn::phaseOf(layer.weight) != nn::phaseOf(layer.input))
    return std::nullopt;
  layer.packed = layer.weight;
  if (auto rounded = dyn_cast<nn::CastOp>(*layer.weight->user_begin());
      rounded && rounded->hasOneUse())
    layer.packed = rounded;
  layer.pack = dyn_cast<dist::UnitPackOp>(*layer.packed->user_begin());
  if (!layer.pack || layer.pack.getUnit() != layer.view.getUnit() ||
      layer.pack.getGroup() != layer.view.getGroup())
    return std::nullopt;
  unsigned number = layer.packed->use_begin()->getOperandNumber();
  auto unit =
      SymbolTable::lookupNearestSymbolFrom<dist::UnitOp>(layer.view, layer.view.getUnitAttr());
  layer.segment = unit.getGroup(layer.view.getGroup()).getSegment(layer.view.getParam());
  if (layer.pack.getParams()[number] != layer.view.getParamAttr() ||
      layer.segment.getShape().asArrayRef() != typeOf(layer.view).getShape())
    return std::nullopt;
  return layer;
}

/// Returns the columns of dy, which are the rows of W.
static int64_t widthOf(const Layer &layer) { return layer.segment.getShape()[0]; }

/// Whether `next` can follow `layer` in one matrix: its weight is the next one in memory, its rows
/// are as long, and the layers read the same x.
static bool follows(Layer layer, Layer next) {
  auto isLike = [](Value one, Value other) {
    return typeOf(one).getElementType() == typeOf(other).getElementType() &&
           typeOf(one).getDimSize(1) == typeOf(other).getDimSize(1);
  };
  return layer.view.getInput() == next.view.getInput() && layer.pack == next.pack &&
         layer.segment.getOffset() + layer.segment.getCount() == next.segment.getOffset() &&
         layer.segment.getShape()[1] == next.segment.getShape()[1] &&
         layer.leaf.getType() == next.leaf.getType() &&
         layer.input.getType() == next.input.getType() &&
         isLike(layer.packed->getResult(0), next.packed->getResult(0)) &&
         isLike(layer.weight, next.weight) &&
         layer.weight.getRhs().getType() == next.weight.getRhs().getType() &&
         throughReshapes(layer.weight.getRhs()) == throughReshapes(next.weight.getRhs()) &&
         nn::phaseOf(layer.input) == nn::phaseOf(next.input);
}

/// Whether joining layers saves more bytes than it costs. Each but one leaves out a result as large
/// as x, which is written and read. A dy that is copied is read and written.
static bool savesBytes(ArrayRef<Layer> run) {
  int64_t saved = (run.size() - 1) * run.front().segment.getShape()[1], copied = 0;
  for (const Layer &layer : run)
    copied += layer.copied ? widthOf(layer) : 0;
  return copied <= saved;
}

/// Returns the first two to four layers whose weights follow one another, or none.
SmallVector<Layer> MatmulJoiner::findNeighbours(ArrayRef<Layer> layers) const {
  constexpr size_t most = 4;
  SmallVector<Layer> sorted(layers);
  llvm::stable_sort(sorted, [](Layer one, Layer other) {
    return one.segment.getOffset() < other.segment.getOffset();
  });
  for (size_t i = 0; i < sorted.size(); ++i) {
    SmallVector<Layer> run{sorted[i]};
    for (size_t j = i + 1; j < sorted.size() && run.size() < most; ++j)
      if (follows(run.back(), sorted[j]))
        run.push_back(sorted[j]);
    if (run.size() > 1 && savesBytes(run))
      return run;
  }
  return {};
}

Value MatmulJoiner::cast(Value value, Type element) {
  if (typeOf(value).getElementType() == element)
    return value;
  return nn::CastOp::create(b, value.getLoc(), typeOf(value).clone(element), value);
}

/// Replaces the operands of the pack by one that has the gradients of all weights.
void MatmulJoiner::joinGradients(ArrayRef<Layer> run, Value joined) {
  dist::UnitPackOp pack = run.front().pack;
  Operation *first = run.front().packed;
  SmallVector<Attribute> params;
  SmallVector<Value> inputs;
  for (auto [name, input] : llvm::zip(pack.getParams(), pack.getInputs())) {
    Operation *maker = input.getDefiningOp();
    bool inRun = llvm::any_of(run, [&](const Layer &layer) { return layer.packed == maker; });
    if (inRun && maker != first)
      continue;
    params.push_back(name);
    inputs.push_back(inRun ? joined : input);
  }
  pack.setParamsAttr(b.getArrayAttr(params));
  pack.getInputsMutable().assign(inputs);
}

/// Builds the matmuls of all layers of a run, and returns the term in place of theirs.
Value MatmulJoiner::join(ArrayRef<Layer> run) {
  Layer first = run.front();
  Operation *lastInput = first.input, *lastWeight = first.weight;
  auto later = [](Operation *one, Operation *other) {
    return one->isBeforeInBlock(other) ? other : one;
  };
  int64_t width = 0;
  SmallVector<Value> parts;
  for (Layer layer : run) {
    lastInput = later(lastInput, layer.input);
    lastWeight = later(lastWeight, layer.weight);
    parts.push_back(layer.input.getLhs());
    width += typeOf(parts.back()).getDimSize(1);
  }
  b.setInsertionPoint(lastInput);
  listener.current = first.input;
  Location loc = first.input.getLoc();
  RankedTensorType part = typeOf(parts.front()), weight = typeOf(first.view);
  auto rows = [&](RankedTensorType type) {
    return RankedTensorType::get({width, type.getDimSize(1)}, type.getElementType());
  };
  Value dy = nn::ConcatOp::create(
      b, loc, RankedTensorType::get({part.getDimSize(0), width}, part.getElementType()), parts,
      /*dim=*/1);
  Value view =
      dist::UnitViewOp::create(b, loc, rows(weight), first.view.getInput(), first.view.getUnit(),
                               first.view.getGroup(), first.view.getParam());
  Value sum = nn::MatmulOp::create(b, loc, first.input.getType(), dy, view, false, false);
  b.setInsertionPoint(later(lastInput, lastWeight)); // x may be recomputed after dx
  Value gradient = nn::MatmulOp::create(b, loc, rows(typeOf(first.weight)), dy,
                                        first.weight.getRhs(), true, false);
  joinGradients(run, cast(gradient, typeOf(first.packed->getResult(0)).getElementType()));
  b.setInsertionPointAfterValue(sum);
  RankedTensorType wanted = typeOf(first.leaf);
  if (wanted.getShape() != typeOf(sum).getShape())
    sum = nn::ReshapeOp::create(b, loc, wanted.clone(typeOf(sum).getElementType()), sum);
  std::string widths;
  for (const Layer &layer : run)
    widths += (widths.empty() ? "" : ", ") + std::to_string(widthOf(layer));
  emitDecision(loc, "join-matmuls",
               llvm::formatv("{0} matmuls of {1} x {2} x ({3}) become one, and those of the "
                             "gradients of their weights, too",
                             run.size(), part.getDimSize(0), weight.getDimSize(1), widths)
                   .str());
  return cast(sum, wanted.getElementType());
}

/// Replaces a sum by that of other terms. A single one that was only widened to be summed is not
/// rounded again.
void MatmulJoiner::replaceSum(nn::AddOp root, ArrayRef<Value> leaves) {
  b.setInsertionPoint(root);
  listener.current = root;
  Value sum = leaves.front();
  for (Value leaf : leaves.drop_front())
    sum = nn::AddOp::create(b, root.getLoc(), sum.getType(), sum, leaf);
  auto widened = sum.getDefiningOp<nn::CastOp>();
  for (Operation *user : llvm::make_early_inc_range(root->getUsers()))
    if (auto rounded = dyn_cast<nn::CastOp>(user);
        rounded && widened && rounded.getType() == widened.getInput().getType())
      rounded.replaceAllUsesWith(widened.getInput());
  root.replaceAllUsesWith(sum);
}

void MatmulJoiner::run(func::FuncOp function) {
  bool joined = false;
  SmallVector<nn::AddOp> roots;
  function.walk([&](nn::AddOp op) {
    if (!op->hasOneUse() || !isa<nn::AddOp>(*op->user_begin()))
      roots.push_back(op);
  });
  for (nn::AddOp root : roots) {
    SmallVector<Value> terms = termsOf(root);
    SmallVector<Layer> layers;
    for (Value term : terms)
      if (std::optional<Layer> layer = match(term))
        layers.push_back(*layer);
    SmallVector<Layer> run = findNeighbours(layers);
    if (run.empty())
      continue;
    SmallVector<Value> leaves{join(run)};
    for (Value term : terms)
      if (llvm::none_of(run, [&](const Layer &layer) { return layer.leaf == term; }))
        leaves.push_back(term);
    replaceSum(root, leaves);
    joined = true;
  }
  if (joined)
    function.walk([](Block *block) { eraseDeadOps(*block); });
}

namespace {
struct JoinMatmulsPass : shale::impl::JoinMatmulsPassBase<JoinMatmulsPass> {
  using JoinMatmulsPassBase::JoinMatmulsPassBase;
  void runOnOperation() final {
    const Target *target = targetOf(getOperation());
    if (!target)
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      MatmulJoiner(*target, &getContext()).run(function);
  }
};
} // namespace
