//===- Loss.cpp - The loss: its choice, and its sum over a count ----------===//
//
// A mean over labels has to be a mean over the labels of the whole step, for any number of
// micro-batches. In a loss that is built from several ops, the sum and the count are the operands
// of a quotient. The first quotient of a sum of several losses gives the labels of the whole sum.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

//===----------------------------------------------------------------------===//
// The choice of the loss
//===----------------------------------------------------------------------===//

static std::string listOutputs(const GraphProto &graph) {
  auto names = llvm::map_range(graph.output(), [](auto &each) { return displayName(each.name()); });
  return listOf(llvm::to_vector(names), SIZE_MAX);
}

/// Whether a name is an output of the graph, or of one of its nodes.
static bool hasOutput(const GraphProto &graph, StringRef name) {
  return llvm::any_of(graph.output(), [&](auto &output) { return output.name() == name; }) ||
         llvm::any_of(graph.node(),
                      [&](auto &node) { return llvm::is_contained(node.output(), name); });
}

/// Parses --loss.
static LogicalResult parseForm(ImportContext &context, LossChoice &loss) {
  StringRef text = context.options.loss;
  if (text.empty())
    return success();
  auto [kind, rest] = text.split(':');
  auto [first, second] = rest.split(',');
  bool two = kind == "cross-entropy" || kind == "mse";
  bool one = kind == "next-token" || kind == "mean" || kind == "sum";
  if (!(one || two) || first.empty() || two == second.empty() || (one && rest.contains(',')))
    return context.usage(
        "--loss {} is not one of next-token:LOGITS, cross-entropy:LOGITS,LABELS, mse:OUT,TARGET, mean:OUT, sum:OUT",
        text);
  if (!hasOutput(context.graph(), first))
    return context.usage("--loss: {} is not an output of the graph; outputs are {}", first,
                         plain(listOutputs(context.graph())));
  loss.kind = kind.str();
  loss.logits = first.str();
  loss.labels = second.str();
  return success();
}

/// Parses --loss-output: the name of an output, or NAME or NAME=WEIGHT,.. of several.
static LogicalResult parseTerms(ImportContext &context, LossChoice &loss) {
  StringRef text = context.options.lossOutput;
  const GraphProto &graph = context.graph();
  SmallVector<StringRef> words;
  if (text.empty()) // which may be a name of an absent result
    return success();
  if (hasOutput(graph, text))
    words.push_back(text); // which may have a comma
  else
    text.split(words, ',');
  for (StringRef word : words) {
    LossTerm term{word.str(), 1};
    if (!hasOutput(graph, word) && word.contains('=')) {
      auto [name, weight] = word.rsplit('=');
      term.output = name.str();
      if (!llvm::to_float(weight, term.weight) || !std::isfinite(term.weight) || term.weight == 0)
        return context.usage(
            "--loss-output: {} is not the weight of {}: give a finite number other than 0", weight,
            name);
    }
    if (!hasOutput(graph, term.output))
      return context.usage(
          "--loss-output: {} is not an output of the graph; outputs are {}. Give NAME, or NAME=WEIGHT,.. for a weighted sum",
          term.output, plain(listOutputs(graph)));
    if (llvm::any_of(loss.terms, [&](const LossTerm &each) { return each.output == term.output; }))
      return context.usage("--loss-output: {} is given twice", term.output);
    loss.terms.push_back(term);
  }
  return success();
}

/// Takes the only scalar output. For a description, takes next tokens of the only logits if there
/// is none.
static LogicalResult takeOutput(ImportContext &context, const GradientOutputs &gradients,
                                LossChoice &loss) {
  SmallVector<StringRef> scalars, logits; // that may be a loss, and that may be logits
  for (const ValueInfoProto &output : context.graph().output()) {
    const TypeProto::Tensor &type = output.type().tensor_type();
    if (gradients.contains(output.name()))
      continue;
    if (type.has_shape() && type.shape().dim_size() == 0 && isFloatType(type.elem_type()))
      scalars.push_back(output.name());
    if (type.shape().dim_size() == 3)
      logits.push_back(output.name());
  }
  if (scalars.size() > 1 && llvm::is_contained(scalars, "loss"))
    scalars = {"loss"};
  if (scalars.size() > 1) {
    auto names = llvm::to_vector(llvm::map_range(scalars, displayName));
    return context.usage(
        "the graph has several scalar outputs ({}): say which one is the loss with --loss-output NAME, or give weights of their sum: --loss-output {}=1,{}=0.01",
        plain(listOf(names, names.size())), plain(names[0]), plain(names[1]));
  }
  if (scalars.size() == 1) {
    loss.terms.push_back({scalars.front().str(), 1});
    return success();
  }
  if (logits.size() == 1 && context.options.assumed) {
    loss.kind = "next-token";
    loss.logits = logits.front().str();
    context.options.assumed->push_back("--loss next-token:" + displayName(loss.logits));
    return success();
  }
  std::string outputs = listOutputs(context.graph());
  return context.usage(
      "the graph has no scalar output that could be the loss; outputs are {}: pass --loss next-token:{}, cross-entropy:LOGITS,LABELS or mse:OUT,TARGET, "
      "or mean:OUT or sum:OUT if an output has one loss for each example",
      plain(outputs.empty() ? "none" : outputs),
      plain(logits.size() == 1 ? displayName(logits.front()) : "LOGITS"));
}

FailureOr<LossChoice> onnx::chooseLoss(ImportContext &context, const GradientOutputs &gradients) {
  LossChoice loss;
  if (failed(parseForm(context, loss)) || failed(parseTerms(context, loss)))
    return failure();
  if (loss.kind.empty() && loss.terms.empty() && failed(takeOutput(context, gradients, loss)))
    return failure();
  return loss;
}

//===----------------------------------------------------------------------===//
// Losses that the graph writes out
//===----------------------------------------------------------------------===//

static RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Writes `loss` as a mean over `count`. `mean`, a value that the loss is computed from, is a mean
/// over this count: the sum is the loss times the divisor of `mean`. Replaces `loss` by the
/// quotient of the sum and this divisor.
static LossParts asMean(Tensor &loss, Value mean, Value count) {
  Node &node = loss.node();
  OpBuilder &builder = node.builder;
  auto scalar = loss.type();
  auto toScalar = [&](Value value) {
    if (tensor(value).getRank() != 0)
      value = nn::ReshapeOp::create(builder, node.loc, tensor(value).clone(Sizes()), value);
    if (value.getType() != scalar)
      value = nn::CastOp::create(builder, node.loc, scalar, value);
    return Tensor(node, value);
  };
  Tensor total = toScalar(count), divisor = total;
  while (isa_and_nonnull<nn::ReshapeOp, nn::CastOp>(mean.getDefiningOp()))
    mean = mean.getDefiningOp()->getOperand(0);
  if (auto quotient = mean.getDefiningOp<nn::DivOp>(); quotient && quotient.getRhs() != count) {
    // The same bound on the count, which may have been of another type or shape.
    Operation *bound = quotient.getRhs().getDefiningOp();
    if (isa_and_nonnull<nn::MaxOp>(bound))
      divisor = max(divisor, toScalar(bound->getOperand(bound->getOperand(0) == count)));
    else if (auto select = dyn_cast_or_null<nn::SelectOp>(bound))
      divisor = onnx::select(divisor > 0, divisor, toScalar(select.getOnFalse()));
  }
  Tensor sum = loss * divisor;
  loss = sum / divisor;
  return {sum, total};
}

/// Finds the sum, the count and the labels of a loss that basic ops compute. If the loss is no mean
/// over data, the sum is the loss itself and the count is 1. May replace `loss`, a scalar, by an
/// equal value.
static LossParts recognizeLoss(Tensor &loss) {
  Value whole = loss;
  LossParts parts;
  auto isState = [&](Value value) { return loss.node().building.states.contains(value); };
  if (nn::DivOp quotient = findMean(loss, isState)) {
    Value count = countIn(quotient.getRhs());
    parts = quotient.getResult() == whole ? LossParts{quotient.getLhs(), count}
                                          : asMean(loss, quotient, count);
  } else {
    parts = {loss, loss.like(1)};
  }
  findLabels(whole, parts);
  return parts;
}

//===----------------------------------------------------------------------===//
// The chosen loss
//===----------------------------------------------------------------------===//

namespace {

/// A summand of the loss.
struct Term {
  Tensor value;
  LossParts parts;
  double weight = 1;

  /// Whether it is a mean over labels, not over a number that is known.
  bool isMeanOfLabels() const {
    return parts.sum != value && !parts.count.getDefiningOp<nn::ConstantOp>();
  }
};

class LossBuilder {
public:
  LossBuilder(Building &building, const LossChoice &choice, Inputs &inputs)
      : context(building.context), building(building), choice(choice), inputs(inputs),
        node(building, NodeProto::default_instance(), context.scope, 0, {}) {
    node.loc = context.fileLocation();
  }

  FailureOr<Loss> build() {
    std::vector<Term> terms;
    if (!choice.kind.empty() && failed(take(buildForm(), terms.emplace_back())))
      return failure();
    for (const LossTerm &chosen : choice.terms)
      if (failed(take(readOutput(chosen), terms.emplace_back())))
        return failure();
    Loss loss{terms.front().value, terms.front().parts, {}};
    for (const Term &term : terms)
      if (term.parts.labels)
        loss.labeled.push_back(term.parts);
    if (terms.size() > 1 || terms.front().weight != 1)
      sum(terms, loss);
    return loss;
  }

private:
  /// Reads an output that is the loss, or a term of it.
  FailureOr<Term> readOutput(const LossTerm &chosen) {
    FailureOr<Value> output = outputNamed(context, chosen.output);
    if (failed(output))
      return failure();
    Tensor value(node, *output);
    if (value.count() != 1 || !value.hasFloats()) {
      std::string text = say("{} cannot be the loss: its type is {}", {chosen.output, value});
      return choice.isOfStep ? context.error(text) : context.usage(text);
    }
    auto parts = building.lossParts.find(value);
    value =
        value.rank() == 0 ? value : node.create<nn::ReshapeOp>(value.type().clone(Sizes()), value);
    if (parts != building.lossParts.end())
      return Term{value, parts->second, chosen.weight};
    LossParts found = recognizeLoss(value);
    return Term{value, found, chosen.weight};
  }

  /// Builds the loss that --loss defines.
  FailureOr<Term> buildForm() {
    FailureOr<Value> output = outputNamed(context, choice.logits);
    if (failed(output))
      return failure();
    Tensor logits(node, *output), labels;
    if (!logits.hasFloats())
      return context.usage("--loss: {} has type {}, not of floats", choice.logits, logits);
    if (choice.kind == "mean" || choice.kind == "sum")
      return buildReduced(logits, choice.kind == "mean");
    bool mse = choice.kind == "mse";
    if (!mse && (logits.rank() < 2 || logits.dim(-1) < 1))
      return context.usage(
          "--loss: {} has type {}; logits have a dimension of rows and one of classes",
          choice.logits, logits);
    if (failed(take(labelsFor(logits.type()), labels)))
      return failure();
    if (!mse)
      return buildEntropy(logits, labels);
    Tensor difference = logits - labels;
    return buildReduced(difference * difference, /*mean=*/true);
  }

  /// Returns the loss of a squared error, or of an output that is a loss for each example.
  Term buildReduced(Tensor each, bool mean) {
    Tensor sum = each.sum(allDims(each.rank()), false);
    Tensor count = sum.like(mean ? double(each.count()) : 1.0);
    return {mean ? sum / count : sum, {sum, count}};
  }

  /// Returns the cross-entropy of logits, whose last dimension is that of the classes.
  Term buildEntropy(Tensor logits, Tensor labels) {
    int64_t classes = logits.dim(-1), rows = logits.count() / std::max<int64_t>(classes, 1);
    auto flat = [&](Tensor value, Sizes shape) {
      return node.create<nn::ReshapeOp>(value.type().clone(shape), value);
    };
    Tensor scores = flat(logits, {rows, classes});
    LossParts parts = buildCrossEntropy(node, scores, flat(labels, {rows}), -100);
    return {buildMean(node, parts), parts};
  }

  /// Returns the labels of --loss: a value of the graph, or an input that is added.
  FailureOr<Tensor> labelsFor(RankedTensorType output) {
    bool mse = choice.kind == "mse";
    auto wanted =
        mse ? output
            : RankedTensorType::get(output.getShape().drop_back(), node.builder.getI64Type());
    std::string name = choice.labels.empty() ? context.scope.freeName("labels") : choice.labels;
    if (!context.scope.values.count(name))
      addLabels(name, wanted, output);
    Tensor labels(node, context.scope.values[name].value);
    if (!labels || labels.shape() != wanted.getShape() ||
        (mse ? labels.type() != wanted : !areIndices(labels)))
      return context.usage("--loss: {} has another type than {} asks for, {}", name, choice.logits,
                           wanted);
    return labels;
  }

  /// Adds an input of labels for an output.
  void addLabels(StringRef name, RankedTensorType wanted, RankedTensorType output) {
    bool hasBatch = llvm::any_of(inputs, [&](const Input &input) {
      return input.batchDim == 0 && output.getRank() > 0 &&
             input.type.getDimSize(0) == output.getDimSize(0);
    });
    Input &labels =
        inputs.add(context, name, wanted, hasBatch ? std::optional<int64_t>(0) : std::nullopt);
    labels.isLabel = true;
    if (choice.kind != "mse")
      labels.binding = nn::Binding::NextTokens;
  }

  /// Sets the weighted sum. It is the mean of its first mean over labels: each micro-batch has the
  /// weight of its labels.
  void sum(ArrayRef<Term> terms, Loss &loss) {
    Tensor whole;
    for (const Term &term : terms) {
      Tensor value = term.value.cast(node.builder.getF32Type());
      if (term.weight != 1)
        value = value * term.weight;
      whole = whole ? whole + value : value;
    }
    auto mean = llvm::find_if(terms, [](const Term &term) { return term.isMeanOfLabels(); });
    loss.parts = mean == terms.end() ? LossParts{whole, whole.like(1)}
                                     : asMean(whole, mean->value, mean->parts.count);
    loss.value = whole;
  }

  ImportContext &context;
  Building &building;
  const LossChoice &choice;
  Inputs &inputs;
  Node node;
};

} // namespace

FailureOr<Loss> onnx::makeLoss(Building &building, const LossChoice &choice, Inputs &inputs) {
  return LossBuilder(building, choice, inputs).build();
}

LossParts onnx::buildCrossEntropy(Node &node, Tensor logits, Tensor labels, int64_t ignore) {
  auto scalar = logits.type().clone(Sizes()), rows = logits.type().clone({logits.dim(0)});
  auto op = nn::CrossEntropyOp::create(node.builder, node.loc, TypeRange{scalar, scalar, rows},
                                       logits, labels, node.builder.getI64IntegerAttr(ignore),
                                       /*classes=*/IntegerAttr());
  return {op.getLossSum(), op.getCount(), labels, logits};
}

Tensor onnx::buildMean(Node &node, const LossParts &parts) {
  Type scalar = parts.sum.getType();
  Value one = node.constant(cast<RankedTensorType>(scalar), 1.0);
  Value count = nn::MaxOp::create(node.builder, node.loc, scalar, parts.count, one);
  return Tensor(node, nn::DivOp::create(node.builder, node.loc, scalar, parts.sum, count));
}
