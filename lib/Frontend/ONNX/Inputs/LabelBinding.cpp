//===- LabelBinding.cpp - What labels are bound to ------------------------===//
//
// A label that is bound to the wrong token trains something else, and the
// training looks fine. So labels are bound only if the graph shows which token
// a label is, by the label's position in its input compared with the position
// that the embedding reads. Everything else is an error that asks for --bind.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Embedding.h"
#include "lib/Analysis/Origins.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "lib/Frontend/ONNX/Stages.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// The tokens that embeddings read, relative to a label.
struct EmbeddingReads {
  /// The shift of the token that an embedding reads at a position, in the label if an embedding
  /// reads it, else in the input that is looked up.
  std::optional<int64_t> seen;
  nn::EmbeddingOp where;    // reads the label; null: none
  bool unknown = false;     // an embedding reads values that are computed from the label
  bool readsOthers = false; // an embedding reads another input of tokens

  bool readsLabel() const { return where || unknown; }
};

/// Binds inputs that are no labels, and labels one by one.
class InputBinder {
public:
  InputBinder(ImportContext &context, const States &states, Inputs &inputs)
      : context(context), options(context.options), states(states), inputs(inputs) {}

  FailureOr<std::string> run(ArrayRef<LossParts> labeled) {
    for (auto &bind : options.bindings)
      if (llvm::none_of(inputs,
                        [&](Input &input) { return !input.role && input.name == bind.getKey(); }))
        return context.usage("--bind: no input {}; there are {}", bind.getKey(),
                             plain(inputs.names()));
    bindOthers(labeled);
    for (const LossParts &parts : labeled)
      if (failed(bindLabels(parts)))
        return failure();
    for (Input &input : inputs)
      if (auto bound = options.bindings.find(input.name);
          !input.role && bound != options.bindings.end()) {
        input.binding = input.folded ? nn::Binding::AllOnes : bound->getValue();
      }
    if (failed(checkPositions()))
      return failure();
    if (!note.empty())
      context.remark(note);
    return note;
  }

private:
  llvm::iterator_range<Block::op_iterator<nn::EmbeddingOp>> embeddings() {
    return context.body.getOps<nn::EmbeddingOp>();
  }

  /// Binds inputs of integers that are no labels by their names and their readers.
  void bindOthers(ArrayRef<LossParts> labeled) {
    llvm::DenseSet<BlockArgument> labels, lookedUp;
    for (auto embedding : embeddings())
      lookedUp.insert(traceTokens(embedding.getIndices()).argument);
    for (const LossParts &parts : labeled)
      if (BlockArgument argument = traceTokens(parts.labels).argument;
          !parts.isGuess || !lookedUp.contains(argument))
        labels.insert(argument);
    bool haveTokens = false;
    for (Input &input : inputs) {
      if (input.isLabel || input.role || labels.contains(input.argument) ||
          !input.type.getElementType().isSignlessInteger())
        continue;
      StringRef name = input.name;
      if (input.argument.use_empty()) { // only its shape is read: any tokens will do
        input.binding = nn::Binding::Tokens;
      } else if (name.contains("mask")) {
        input.binding = nn::Binding::Ones;
        if (!options.bindings.count(name))
          context.remark(
              "mask {} is read from the data file; without a tensor of that name, as with token files, it is all ones. If it always is all ones, --bind {}=ones avoids the cost of the mask",
              name, plain(displayName(name)));
      } else if (name.contains("position")) {
        input.binding = nn::Binding::Arange;
      } else if (!haveTokens && lookedUp.contains(input.argument) && !name.contains("type")) {
        input.binding = nn::Binding::Tokens;
        haveTokens = true;
      }
    }
  }

  LogicalResult bindLabels(const LossParts &parts) {
    Origin origin = traceTokens(parts.labels);
    Input *label = inputs.of(origin.argument);
    // Labels that were found among the ops of a loss may be something else, such as a mask.
    StringRef name = label ? StringRef(label->name) : "";
    if (parts.isGuess && (!label || name.contains("mask") || name.contains("position")))
      return success();
    if (!label)
      return checkUnknown(parts);
    label->isLabel |= !parts.isGuess || label->binding == nn::Binding::Data;
    if (auto bound = options.bindings.find(label->name); bound != options.bindings.end())
      return addNote(
          "labels {} are bound to {} (--bind)", label->name,
          plain(bound->getValue() == nn::Binding::Data ? "file" : nn::textOf(bound->getValue())));
    EmbeddingReads reads = readsOf(origin.argument, *label);
    std::optional<int64_t> cut = traceLogits(parts.logits);
    // The distance of a position's label from the last token that the model sees there.
    std::optional<int64_t> ahead;
    if (cut && !reads.unknown)
      ahead = origin.shift - *cut - reads.seen.value_or(0);
    return bindByShift(parts, *label, reads, ahead);
  }

  /// Fails, with an error, if a table lacks positions that the runtime counts.
  LogicalResult checkPositions() {
    for (auto embedding : embeddings()) {
      Input *input = inputs.of(traceTokens(embedding.getIndices()).argument);
      if (!input || input->binding != nn::Binding::Arange || input->type.getRank() == 0)
        continue;
      int64_t has = embedding.getTable().getType().getDimSize(0);
      int64_t wants = input->type.getShape().back();
      if (wants <= has)
        continue;
      std::string hint = positionsHint(options, states, {embedding.getTable()}, has, wants);
      return context.error(
          hint.empty() ? say("input {} counts {} positions, but the model has only {}: lower --dim",
                             {input->name, wants, has})
                       : hint);
    }
    return success();
  }

  /// Fails, with an error, if labels are computed from inputs of integers that no flag binds.
  LogicalResult checkUnknown(const LossParts &parts) {
    std::vector<std::string> open;
    for (BlockArgument argument : argumentsBehind(parts.labels))
      if (Input *input = inputs.of(argument); input && !input->role &&
                                              input->type.getElementType().isSignlessInteger() &&
                                              !options.bindings.count(input->name))
        open.push_back(displayName(input->name));
    if (open.empty() || isGiven())
      return success();
    return context.error(
        "cannot tell which tokens the labels are, which are computed from {}: pass --bind INPUT=tokens|tokens+1|ones|arange for each, or INPUT=file where a .safetensors data file has it",
        plain(listOf(open, open.size())));
  }

  EmbeddingReads readsOf(BlockArgument argument, const Input &label) {
    EmbeddingReads reads;
    std::optional<int64_t> ofLabel, ofTokens;
    for (auto embedding : embeddings()) {
      Origin indices = traceTokens(embedding.getIndices());
      Input *input = inputs.of(indices.argument);
      reads.unknown |=
          !indices.argument && argumentsBehind(embedding.getIndices()).contains(argument);
      if (indices.argument == argument) {
        ofLabel = std::max(ofLabel, std::optional(indices.shift));
        reads.where = embedding;
      }
      if (input && input->binding == nn::Binding::Tokens) {
        ofTokens = std::max(ofTokens, std::optional(indices.shift));
        reads.readsOthers |= input != &label;
      }
    }
    reads.seen = reads.where ? ofLabel : ofTokens;
    return reads;
  }

  /// Binds a label that is `ahead` positions from the last token that the model sees.
  LogicalResult bindByShift(const LossParts &parts, Input &label, EmbeddingReads reads,
                            std::optional<int64_t> ahead) {
    const std::string &shown = label.name;
    if (reads.where && ahead == 0 && !parts.isGuess) {
      const Parameter *table = states.of(reads.where.getTable());
      return refuse(
          label,
          "label {} also feeds embedding {} without a shift: the model would learn to copy its input. Export with two different tensors "
          "(the exporter merges (ids, ids) into one), or pass --bind {}=tokens if this is intended",
          shown, table ? StringRef(table->name) : "?", plain(displayName(shown)));
    }
    // A decoder reads the labels, shifted, and an encoder reads other tokens.
    if (reads.readsLabel() && reads.readsOthers && !parts.isGuess) {
      label.isLabel = true;
      return addNote("the model reads {} beside other tokens: from the data file", shown);
    }
    // One label per token; else labels are classes of examples, not tokens.
    bool isPerToken = llvm::any_of(inputs, [&](const Input &input) {
      return &input != &label && input.binding == nn::Binding::Tokens &&
             input.type.getNumElements() == label.type.getNumElements();
    });
    if (!isPerToken && !reads.readsLabel() && label.binding == nn::Binding::Data)
      return parts.isGuess && ahead != 0
                 ? success()
                 : addNote("labels {} are not one for each token: from the data file", shown);
    if (ahead == 1) {
      label.isLabel = true;
      label.binding = nn::Binding::Tokens;
      return addNote("the graph shifts {} against the logits by one: bound to tokens", shown);
    }
    if (parts.isGuess && (ahead != 0 || reads.where))
      return success();
    if (ahead != 0)
      return refuse(
          label,
          "{} against what the model reads: pass --bind {}"
          "=tokens (the graph shifts them, or they are the tokens themselves), =tokens+1 (each label is the next token), or "
          "=file (from a tensor of that name in a .safetensors data file; such a tensor always takes precedence)",
          plain(ahead ? say("the graph shifts labels {} by {}", {shown, *ahead})
                      : say("cannot tell how the graph shifts labels {}", {shown})),
          plain(displayName(shown)));
    bool isOfFlag = label.binding != nn::Binding::Data; // --loss made the input
    label.binding = nn::Binding::NextTokens;
    return addNote(isOfFlag ? "labels {} are bound to tokens+1"
                            : "the graph does not shift {} against the logits: bound to tokens+1",
                   shown);
  }

  /// Whether the export saw a batch of the user's: then labels that cannot be told are read from
  /// the data file.
  bool isGiven() const {
    return metadata(context.graph().metadata_props(), words::kBatch) == words::kGiven;
  }

  /// Takes labels that cannot be told from the data file if it is given, else fails with an error.
  template <typename... Parts>
  LogicalResult refuse(Input &label, const char *pattern, Parts &&...parts) {
    if (!isGiven())
      return context.error(pattern, std::forward<Parts>(parts)...);
    label.isLabel |= label.binding == nn::Binding::Data;
    return addNote("labels {} are as in the batch of the export: from the data file", label.name);
  }

  template <typename... Parts> LogicalResult addNote(const Twine &pattern, Parts &&...parts) {
    note += (note.empty() ? "" : "; ") + sayAll(pattern, parts...);
    return success();
  }

  ImportContext &context;
  const ImportOptions &options;
  const States &states;
  Inputs &inputs;
  std::string note; // why labels are bound as they are
};

} // namespace

FailureOr<std::string> onnx::bindInputs(ImportContext &context, const States &states,
                                        ArrayRef<LossParts> labeled, Inputs &inputs) {
  return InputBinder(context, states, inputs).run(labeled);
}
