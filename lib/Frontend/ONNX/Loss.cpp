//===- Loss.cpp - The loss as a sum over a count --------------------------===//
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Frontend/ONNX/Inputs.h"
#include "lib/Frontend/ONNX/Losses.h"
#include "lib/Frontend/ONNX/Node.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

namespace {

/// A summand of the loss.
struct Term {
  Value value;
  LossParts parts;
  double weight = 1;

  /// Whether it is a mean over labels, not over a number that is known.
  bool isMeanOfLabels() const {
    return parts.sum != value && !parts.count.getDefiningOp<nn::ConstantOp>();
  }
};

class LossBuilder {
public:
  LossBuilder(ImportContext &context, const LossChoice &choice, const KnownLosses &known,
              const States &states, Scope &graph, Inputs &inputs)
      : context(context), builder(context.builder), loc(context.fileLocation()), choice(choice),
        known(known), states(states), graph(graph), inputs(inputs) {}

  FailureOr<Loss> build();

private:
  FailureOr<std::vector<Term>> buildTerms();
  FailureOr<Term> readOutput(const LossTerm &chosen);
  FailureOr<Term> buildForm();
  Term buildReduced(Value each, bool mean);
  Term buildEntropy(Value logits, Value labels);
  FailureOr<Value> labelsFor(RankedTensorType output);
  void addLabels(StringRef name, RankedTensorType wanted, RankedTensorType output);
  void sum(ArrayRef<Term> terms, Loss &loss);

  ImportContext &context;
  OpBuilder &builder;
  const Location loc;
  const LossChoice &choice;
  const KnownLosses &known;
  const States &states;
  Scope &graph;
  Inputs &inputs;
};

} // namespace

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

/// Reads an output that is the loss, or a term of it.
FailureOr<Term> LossBuilder::readOutput(const LossTerm &chosen) {
  FailureOr<Value> read = outputNamed(context, graph, chosen.output);
  if (failed(read))
    return failure();
  Value value = *read;
  if (tensor(value).getNumElements() != 1 || !isa<FloatType>(tensor(value).getElementType())) {
    std::string text = say("{} cannot be the loss: its type is {}", {chosen.output, value});
    return choice.isOfStep ? context.error(text) : context.usage(text);
  }
  auto parts = known.find(value);
  auto scalar = RankedTensorType::get({}, tensor(value).getElementType());
  if (value.getType() != scalar)
    value = nn::ReshapeOp::create(builder, loc, scalar, value);
  Term term{value, {}, chosen.weight};
  term.parts =
      parts != known.end() ? parts->second : recognizeLoss(builder, loc, states, term.value);
  return term;
}

//===----------------------------------------------------------------------===//
// Forms of --loss
//===----------------------------------------------------------------------===//

/// Returns the loss of a squared error, or of an output that is a loss for each example.
Term LossBuilder::buildReduced(Value each, bool mean) {
  auto scalar = RankedTensorType::get({}, tensor(each).getElementType());
  auto dims = llvm::to_vector(llvm::seq<int64_t>(0, tensor(each).getRank()));
  Term term;
  LossParts &parts = term.parts;
  parts.sum =
      dims.empty()
          ? each
          : Value(nn::ReduceOp::create(builder, loc, scalar, nn::ReduceKind::Sum, each, dims));
  parts.count = nn::splat(builder, loc, scalar, mean ? double(tensor(each).getNumElements()) : 1.0);
  term.value =
      mean ? Value(nn::DivOp::create(builder, loc, scalar, parts.sum, parts.count)) : parts.sum;
  return term;
}

/// Returns the cross-entropy of logits, whose last dimension is that of the classes.
Term LossBuilder::buildEntropy(Value logits, Value labels) {
  RankedTensorType type = tensor(logits);
  int64_t classes = type.getShape().back(),
          rows = type.getNumElements() / std::max<int64_t>(classes, 1);
  Value flat = nn::ReshapeOp::create(
      builder, loc, RankedTensorType::get({rows, classes}, type.getElementType()), logits);
  Value picked = nn::ReshapeOp::create(
      builder, loc, RankedTensorType::get({rows}, tensor(labels).getElementType()), labels);
  Term term;
  term.parts = buildCrossEntropy(builder, loc, flat, picked, -100);
  term.value = buildMean(builder, loc, term.parts);
  return term;
}

/// Returns a name for a label input that the graph does not have yet.
static std::string freeName(StringRef wanted, const llvm::StringMap<Binding> &taken) {
  std::string name = wanted.str();
  while (taken.count(name))
    name += "_";
  return name;
}

/// Adds an input of labels for an output.
void LossBuilder::addLabels(StringRef name, RankedTensorType wanted, RankedTensorType output) {
  std::optional<int64_t> batchDim;
  for (const Input &input : inputs)
    if (input.batchDim == 0 && output.getRank() > 0 &&
        input.type.getDimSize(0) == output.getDimSize(0))
      batchDim = 0;
  Input &labels = inputs.add(context, graph, name, wanted, batchDim);
  labels.isLabel = true;
  if (choice.kind != "mse")
    labels.binding = "tokens+1";
}

/// Returns the labels of --loss: a value of the graph, or an input that is added.
FailureOr<Value> LossBuilder::labelsFor(RankedTensorType output) {
  bool mse = choice.kind == "mse";
  auto wanted =
      mse ? output : RankedTensorType::get(output.getShape().drop_back(), builder.getI64Type());
  std::string name = choice.labels.empty() ? freeName("labels", graph.values) : choice.labels;
  if (!graph.values.count(name))
    addLabels(name, wanted, output);
  Value labels = graph.values[name].value;
  bool integers = labels && (tensor(labels).getElementType().isInteger(64) ||
                             tensor(labels).getElementType().isInteger(32));
  if (!labels || tensor(labels).getShape() != wanted.getShape() ||
      (mse ? tensor(labels) != wanted : !integers))
    return context.usage("--loss: {} has another type than {} asks for, {}", name, choice.logits,
                         wanted);
  return labels;
}

/// Builds the loss that --loss defines.
FailureOr<Term> LossBuilder::buildForm() {
  FailureOr<Value> logits = outputNamed(context, graph, choice.logits);
  if (failed(logits))
    return failure();
  RankedTensorType type = tensor(*logits);
  if (!isa<FloatType>(type.getElementType()))
    return context.usage("--loss: {} has type {}, not of floats", choice.logits, type);
  if (choice.kind == "mean" || choice.kind == "sum")
    return buildReduced(*logits, choice.kind == "mean");
  bool mse = choice.kind == "mse";
  if (!mse && type.getRank() < 2)
    return context.usage(
        "--loss: {} has type {}; logits have a dimension of rows and one of classes", choice.logits,
        type);
  FailureOr<Value> labels = labelsFor(type);
  if (failed(labels))
    return failure();
  if (!mse)
    return buildEntropy(*logits, *labels);
  Value difference = nn::SubOp::create(builder, loc, type, *logits, *labels);
  Value square = nn::MulOp::create(builder, loc, type, difference, difference);
  return buildReduced(square, /*mean=*/true);
}

//===----------------------------------------------------------------------===//
// The whole loss
//===----------------------------------------------------------------------===//

FailureOr<std::vector<Term>> LossBuilder::buildTerms() {
  std::vector<Term> terms;
  auto add = [&](const FailureOr<Term> &term) -> LogicalResult {
    if (succeeded(term))
      terms.push_back(*term);
    return term;
  };
  if (!choice.kind.empty() && failed(add(buildForm())))
    return failure();
  for (const LossTerm &chosen : choice.terms)
    if (failed(add(readOutput(chosen))))
      return failure();
  return terms;
}

/// Sets the weighted sum. It is the mean of its first mean over labels: each micro-batch has the
/// weight of its labels.
void LossBuilder::sum(ArrayRef<Term> terms, Loss &loss) {
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  for (const Term &term : terms) {
    Value value = term.value;
    if (value.getType() != scalar)
      value = nn::CastOp::create(builder, loc, scalar, value);
    if (term.weight != 1)
      value = nn::MulOp::create(builder, loc, scalar, value,
                                nn::splat(builder, loc, scalar, term.weight));
    loss.value =
        loss.value ? Value(nn::AddOp::create(builder, loc, scalar, loss.value, value)) : value;
  }
  auto mean = llvm::find_if(terms, [](const Term &term) { return term.isMeanOfLabels(); });
  if (mean == terms.end())
    loss.parts = {loss.value, nn::splat(builder, loc, scalar, 1.0)};
  else
    loss.parts = asMean(builder, loc, loss.value, mean->value, mean->parts.count);
}

FailureOr<Loss> LossBuilder::build() {
  FailureOr<std::vector<Term>> terms = buildTerms();
  if (failed(terms))
    return failure();
  Loss loss;
  for (const Term &term : *terms)
    if (term.parts.labels)
      loss.labeled.push_back(term.parts);
  const Term &first = terms->front();
  if (terms->size() > 1 || first.weight != 1)
    sum(*terms, loss);
  else
    loss.value = first.value, loss.parts = first.parts;
  return loss;
}

FailureOr<Loss> onnx::makeLoss(ImportContext &context, const LossChoice &choice,
                               const KnownLosses &known, const States &states, Scope &graph,
                               Inputs &inputs) {
  return LossBuilder(context, choice, known, states, graph, inputs).build();
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

LossParts onnx::buildCrossEntropy(OpBuilder &builder, Location loc, Value logits, Value labels,
                                  int64_t ignore) {
  auto element = tensor(logits).getElementType();
  auto scalar = RankedTensorType::get({}, element);
  auto rows = RankedTensorType::get({tensor(logits).getDimSize(0)}, element);
  auto op =
      nn::CrossEntropyOp::create(builder, loc, TypeRange{scalar, scalar, rows}, logits, labels,
                                 builder.getI64IntegerAttr(ignore), /*classes=*/IntegerAttr());
  return {op.getLossSum(), op.getCount(), labels, logits};
}

Value onnx::buildMean(OpBuilder &builder, Location loc, const LossParts &parts) {
  auto scalar = tensor(parts.sum);
  Value one = nn::splat(builder, loc, scalar, 1.0);
  Value count = nn::MaxOp::create(builder, loc, scalar, parts.count, one);
  return nn::DivOp::create(builder, loc, scalar, parts.sum, count);
}
