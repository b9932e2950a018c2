//===- Loss.cpp - The loss: its choice, and its sum over a count ----------===//
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Frontend/ONNX/Inputs.h"
#include "lib/Frontend/ONNX/Loss/Losses.h"
#include "lib/Frontend/ONNX/Node.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

//===----------------------------------------------------------------------===//
// The choice of the loss
//===----------------------------------------------------------------------===//

static std::string listOutputs(const GraphProto &graph) {
  std::vector<std::string> names;
  for (const ValueInfoProto &output : graph.output())
    names.push_back(displayName(output.name()));
  return listOf(names, names.size());
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

/// Parses NAME or NAME=WEIGHT.
static FailureOr<LossTerm> parseTerm(ImportContext &context, StringRef word) {
  const GraphProto &graph = context.graph();
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
  return term;
}

/// Parses --loss-output: the name of an output, or names with weights.
static LogicalResult parseTerms(ImportContext &context, LossChoice &loss) {
  StringRef text = context.options.lossOutput;
  SmallVector<StringRef> words;
  if (text.empty()) // which may be a name of an absent result
    return success();
  if (hasOutput(context.graph(), text))
    words.push_back(text); // which may have a comma
  else
    text.split(words, ',');
  for (StringRef word : words) {
    LossTerm term;
    if (failed(take(parseTerm(context, word), term)))
      return failure();
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
    std::vector<std::string> names;
    for (StringRef name : scalars)
      names.push_back(displayName(name));
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
  if (loss.isEmpty() && failed(takeOutput(context, gradients, loss)))
    return failure();
  return loss;
}

//===----------------------------------------------------------------------===//
// The chosen loss
//===----------------------------------------------------------------------===//

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
              const States &states, Inputs &inputs)
      : context(context), builder(context.builder), loc(context.fileLocation()), choice(choice),
        known(known), states(states), inputs(inputs) {}

  FailureOr<Loss> build() {
    std::vector<Term> terms;
    if (!choice.kind.empty() && failed(take(buildForm(), terms.emplace_back())))
      return failure();
    for (const LossTerm &chosen : choice.terms)
      if (failed(take(readOutput(chosen), terms.emplace_back())))
        return failure();
    Loss loss;
    for (const Term &term : terms)
      if (term.parts.labels)
        loss.labeled.push_back(term.parts);
    const Term &first = terms.front();
    if (terms.size() > 1 || first.weight != 1)
      sum(terms, loss);
    else
      loss.value = first.value, loss.parts = first.parts;
    return loss;
  }

private:
  /// Reads an output that is the loss, or a term of it.
  FailureOr<Term> readOutput(const LossTerm &chosen) {
    Value value;
    if (failed(take(outputNamed(context, chosen.output), value)))
      return failure();
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

  /// Builds the loss that --loss defines.
  FailureOr<Term> buildForm() {
    FailureOr<Value> logits = outputNamed(context, choice.logits);
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
          "--loss: {} has type {}; logits have a dimension of rows and one of classes",
          choice.logits, type);
    FailureOr<Value> labels = labelsFor(type);
    if (failed(labels))
      return failure();
    if (!mse)
      return buildEntropy(*logits, *labels);
    Value difference = nn::SubOp::create(builder, loc, type, *logits, *labels);
    Value square = nn::MulOp::create(builder, loc, type, difference, difference);
    return buildReduced(square, /*mean=*/true);
  }

  /// Returns the loss of a squared error, or of an output that is a loss for each example.
  Term buildReduced(Value each, bool mean) {
    auto scalar = RankedTensorType::get({}, tensor(each).getElementType());
    Sizes dims = allDims(tensor(each).getRank());
    Term term;
    LossParts &parts = term.parts;
    parts.sum =
        dims.empty()
            ? each
            : Value(nn::ReduceOp::create(builder, loc, scalar, nn::ReduceKind::Sum, each, dims));
    parts.count =
        nn::splat(builder, loc, scalar, mean ? double(tensor(each).getNumElements()) : 1.0);
    term.value =
        mean ? Value(nn::DivOp::create(builder, loc, scalar, parts.sum, parts.count)) : parts.sum;
    return term;
  }

  /// Returns the cross-entropy of logits, whose last dimension is that of the classes.
  Term buildEntropy(Value logits, Value labels) {
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

  /// Returns the labels of --loss: a value of the graph, or an input that is added.
  FailureOr<Value> labelsFor(RankedTensorType output) {
    bool mse = choice.kind == "mse";
    auto wanted =
        mse ? output : RankedTensorType::get(output.getShape().drop_back(), builder.getI64Type());
    std::string name = choice.labels.empty() ? context.scope.freeName("labels") : choice.labels;
    if (!context.scope.values.count(name))
      addLabels(name, wanted, output);
    Value labels = context.scope.values[name].value;
    bool integers = labels && (tensor(labels).getElementType().isInteger(64) ||
                               tensor(labels).getElementType().isInteger(32));
    if (!labels || tensor(labels).getShape() != wanted.getShape() ||
        (mse ? tensor(labels) != wanted : !integers))
      return context.usage("--loss: {} has another type than {} asks for, {}", name, choice.logits,
                           wanted);
    return labels;
  }

  /// Adds an input of labels for an output.
  void addLabels(StringRef name, RankedTensorType wanted, RankedTensorType output) {
    std::optional<int64_t> batchDim;
    for (const Input &input : inputs)
      if (input.batchDim == 0 && output.getRank() > 0 &&
          input.type.getDimSize(0) == output.getDimSize(0))
        batchDim = 0;
    Input &labels = inputs.add(context, name, wanted, batchDim);
    labels.isLabel = true;
    if (choice.kind != "mse")
      labels.binding = "tokens+1";
  }

  /// Sets the weighted sum. It is the mean of its first mean over labels: each micro-batch has the
  /// weight of its labels.
  void sum(ArrayRef<Term> terms, Loss &loss) {
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

  ImportContext &context;
  OpBuilder &builder;
  const Location loc;
  const LossChoice &choice;
  const KnownLosses &known;
  const States &states;
  Inputs &inputs;
};

} // namespace

FailureOr<Loss> onnx::makeLoss(ImportContext &context, const LossChoice &choice,
                               const KnownLosses &known, const States &states, Inputs &inputs) {
  return LossBuilder(context, choice, known, states, inputs).build();
}

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
