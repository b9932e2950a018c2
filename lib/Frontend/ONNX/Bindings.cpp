//===- Bindings.cpp - Bindings of inputs, and their batch dimensions ------===//
//
// A label that is bound to the wrong token trains something else, and the
// training looks fine. So labels are bound only if the graph shows which token
// a label is, by the label's position in its input compared with the position
// that the embedding reads. Everything else is an error that asks for --bind.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Embedding.h"
#include "include/shale/Runtime.h"
#include "lib/Frontend/ONNX/Importer.h"
#include "lib/Frontend/ONNX/Trace.h"
#include "lib/Support/Remarks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

/// A table has fewer than this many rows beyond its positions (OPT has two).
static constexpr int64_t kMoreRows = 8;

std::string Importer::positionsHint(ArrayRef<Value> tables, int64_t has, int64_t wants) {
  const llvm::StringMapEntry<int64_t> *dim = nullptr;
  for (const auto &entry : options.dims)
    if (entry.getKey() != "batch" && entry.getValue() <= wants &&
        wants - entry.getValue() < std::min(kMoreRows, has) &&
        (!dim || entry.getValue() > dim->getValue()))
      dim = &entry;
  if (!dim || has >= wants)
    return "";
  std::string name;
  for (Value table : tables) {
    if (!table)
      continue;
    for (BlockArgument argument : argumentsBehind(table)) {
      auto state = llvm::find(stateValues, argument);
      if (state == stateValues.end() || !llvm::is_contained(tensor(argument).getShape(), has))
        continue;
      name = " ('" + displayName(parameters.list[state - stateValues.begin()].name) + "')";
    }
  }
  int64_t spare = wants - dim->getValue();
  return "the model has " + std::to_string(has - spare) + " positions" + name + ": lower --dim " +
         displayName(dim->getKey()) + " to " + std::to_string(has - spare) + " at most";
}

std::string Importer::broadcastHint(ArrayRef<Value> values, int64_t one, int64_t other) {
  SmallVector<Value> tables;
  for (Value value : values) // the smaller size is the model's
    if (llvm::is_contained(tensor(value).getShape(), std::min(one, other)))
      tables.push_back(value);
  if (!llvm::is_contained(
          llvm::map_range(options.dims, [](auto &entry) { return entry.getValue(); }),
          std::max(one, other)))
    return "";
  std::string hint = positionsHint(tables, std::min(one, other), std::max(one, other));
  return hint.empty() ? "" : ". Perhaps " + hint;
}

Importer::Input *Importer::inputOf(BlockArgument argument) {
  for (Input &input : inputs)
    if (argument && input.argument == argument)
      return &input;
  return nullptr;
}

std::string Importer::listInputs(llvm::function_ref<bool(const Input &)> which) {
  std::string list;
  for (const Input &input : inputs)
    if (!input.role && which(input))
      list += (list.empty() ? "'" : ", '") + displayName(input.name) + "'";
  return list;
}

/// The choices of --bind for labels and their meanings, for errors.
static const char *const kBindChoices =
    "=tokens (the graph shifts them, or they are the tokens themselves), =tokens+1 (each label is the next token), or "
    "=file (from a tensor of that name in a .safetensors data file; such a tensor always takes precedence)";

LogicalResult Importer::bindLabels(const LossParts &parts) {
  Origin origin = traceTokens(parts.labels);
  Input *label = inputOf(origin.argument);
  if (parts.isGuess && (!label || StringRef(label->name).contains("mask") ||
                        StringRef(label->name).contains("position")))
    return success();
  if (!label) {
    std::string open;
    for (BlockArgument argument : argumentsBehind(parts.labels))
      if (Input *input = inputOf(argument); input && !input->role)
        if (input->type.getElementType().isSignlessInteger() &&
            !options.bindings.count(input->name))
          open += (open.empty() ? "'" : ", '") + displayName(input->name) + "'";
    if (!open.empty())
      return error(
                 "cannot tell which tokens the labels are, which are computed from " + open +
                 ": pass --bind INPUT=tokens|tokens+1|ones|arange for each, or INPUT=file where a .safetensors data file has it"),
             failure();
    return success();
  }
  label->isLabel |= !parts.isGuess || label->binding.empty();
  auto note = [&](const Twine &text) {
    bindingNote += (bindingNote.empty() ? "" : "; ") + text.str();
  };
  std::string shown = displayName(label->name);
  if (auto bound = options.bindings.find(label->name); bound != options.bindings.end()) {
    note("labels '" + shown + "' are bound to " + bound->getValue() + " (--bind)");
    return success();
  }

  // `seen`: the shift of the token that an embedding reads at a position, in the label if an
  // embedding reads it (`feeds`), else in the input that is looked up. `where`: the embedding that
  // reads the label.
  std::optional<int64_t> seen;
  bool feeds = false, unknown = false, readsOthers = false;
  nn::EmbeddingOp where;
  for (auto embedding : body->getOps<nn::EmbeddingOp>()) {
    Origin indices = traceTokens(embedding.getIndices());
    bool ofLabel = argumentsBehind(embedding.getIndices()).contains(origin.argument);
    if (ofLabel && !indices.argument)
      unknown = true;
    if (ofLabel && indices.argument == origin.argument) {
      seen = feeds ? std::max(*seen, indices.shift) : indices.shift;
      feeds = true;
      where = embedding;
    }
  }
  for (auto embedding : body->getOps<nn::EmbeddingOp>()) {
    Origin indices = traceTokens(embedding.getIndices());
    Input *input = inputOf(indices.argument);
    readsOthers |= input && input != label && input->binding == "tokens";
    if (!feeds && input && input->binding == "tokens")
      seen = seen ? std::max(*seen, indices.shift) : indices.shift;
  }
  std::optional<int64_t> cut = traceLogits(parts.logits);
  // The distance of a position's label from the last token that the model sees there.
  std::optional<int64_t> ahead;
  if (cut && !unknown)
    ahead = origin.shift - *cut - seen.value_or(0);
  if (feeds && ahead == 0 && !parts.isGuess) {
    std::string table = "?";
    if (auto argument = dyn_cast<BlockArgument>(where.getTable()))
      for (size_t index : stateOrder)
        if (stateValues[index] == argument)
          table = displayName(parameters.list[index].name);
    return error(
               "label '" + shown + "' also feeds embedding '" + table +
               "' without a shift: the model would learn to copy its input. Export with two different tensors "
               "(the exporter merges (ids, ids) into one), or pass --bind " +
               shown + "=tokens if this is intended"),
           failure();
  }
  // A decoder reads the labels, shifted, and an encoder reads other tokens.
  if ((feeds || unknown) && readsOthers && !parts.isGuess) {
    label->isLabel = true;
    note("the model reads '" + shown + "' beside other tokens: from the data file");
    return success();
  }
  // One label per token; otherwise the labels are classes of examples, not tokens.
  bool perToken = llvm::any_of(inputs, [&](const Input &input) {
    return &input != label && input.binding == "tokens" &&
           input.type.getNumElements() == label->type.getNumElements();
  });
  if (!perToken && !feeds && !unknown && label->binding.empty()) {
    if (!parts.isGuess || ahead == 0)
      note("labels '" + shown + "' are not one for each token: from the data file");
    return success();
  }
  if (ahead == 1) {
    label->isLabel = true;
    label->binding = "tokens";
    note("the graph shifts '" + shown + "' against the logits by one: bound to tokens");
    return success();
  }
  if (parts.isGuess && (ahead != 0 || feeds))
    return success();
  if (ahead != 0)
    return error((ahead ? "the graph shifts labels '" + shown + "' by " + std::to_string(*ahead) +
                              " against what the model reads"
                        : "cannot tell how the graph shifts labels '" + shown +
                              "' against what the model reads") +
                 ": pass --bind " + shown + kBindChoices),
           failure();
  bool ours = !label->binding.empty(); // an input that --loss made
  label->binding = "tokens+1";
  note(ours ? "labels '" + shown + "' are bound to tokens+1"
            : "the graph does not shift '" + shown + "' against the logits: bound to tokens+1");
  return success();
}

LogicalResult Importer::bindInputs() {
  current = nullptr;
  for (auto &bind : options.bindings)
    if (llvm::none_of(inputs,
                      [&](Input &input) { return !input.role && input.name == bind.getKey(); }))
      return error("--bind: no input '" + displayName(bind.getKey()) + "'; there are " +
                       listInputs([](const Input &) { return true; }),
                   SHALE_EXIT_USAGE),
             failure();
  llvm::DenseSet<BlockArgument> labels, lookedUp;
  for (auto embedding : body->getOps<nn::EmbeddingOp>())
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
    if (input.argument.use_empty()) // only its shape is read: any tokens will do
      input.binding = "tokens";
    else if (name.contains("mask")) {
      input.binding = "ones";
      if (!options.bindings.count(name))
        emitDecision(
            fileLocation(), "import",
            "mask '" + displayName(name) +
                "' is read from the data file; without a tensor of that name, as with token files, "
                "it is all ones. If it always is all ones, --bind " +
                displayName(name) + "=ones avoids the cost of the mask");
    } else if (name.contains("position"))
      input.binding = "arange";
    else if (lookedUp.contains(input.argument) && !haveTokens && !name.contains("type"))
      input.binding = "tokens", haveTokens = true;
  }
  for (const LossParts &parts : labeled)
    if (mlir::failed(bindLabels(parts)))
      return failure();
  for (Input &input : inputs)
    if (auto bound = options.bindings.find(input.name);
        !input.role && bound != options.bindings.end())
      input.binding = input.folded ? "all-ones" : bound->getValue();
  // The table must have every position that the runtime counts.
  for (auto embedding : body->getOps<nn::EmbeddingOp>()) {
    Origin indices = traceTokens(embedding.getIndices());
    Input *input = inputOf(indices.argument);
    if (!input || input->binding != "arange" || input->type.getRank() == 0)
      continue;
    int64_t has = tensor(embedding.getTable()).getDimSize(0), wants = input->type.getShape().back();
    if (wants <= has)
      continue;
    std::string hint = positionsHint({embedding.getTable()}, has, wants);
    return error(hint.empty() ? "input '" + displayName(input->name) + "' counts " +
                                    std::to_string(wants) + " positions, but the model has only " +
                                    std::to_string(has) + ": lower --dim"
                              : hint),
           failure();
  }
  if (!bindingNote.empty())
    emitDecision(fileLocation(), "import", bindingNote);
  return success();
}

//===----------------------------------------------------------------------===//
// The batch
//===----------------------------------------------------------------------===//

/// Chooses dimension 0 as the batch if no dimension is named `batch` and the
/// labels and tokens have the same size there.
LogicalResult Importer::chooseBatch() {
  auto isTokens = [](const Input &input) {
    return input.isLabel || StringRef(input.binding).starts_with("tokens");
  };
  bool haveTokens =
      llvm::any_of(inputs, [&](const Input &input) { return !input.role && isTokens(input); });
  std::vector<Input *> examples, others;
  for (Input &input : inputs)
    if (!input.role)
      ((haveTokens ? isTokens(input) : input.binding.empty()) ? examples : others)
          .push_back(&input);
  std::optional<int64_t> batch;
  bool rows = false, open = false, agree = !examples.empty();
  for (Input *input : examples) {
    ArrayRef<int64_t> shape = input->type.getShape();
    open |= !input->batchDim;
    rows |= shape.size() >= 2;
    int64_t dim = input->batchDim.value_or(0);
    agree &= dim < int64_t(shape.size()) && (!batch || *batch == shape[dim]);
    if (dim < int64_t(shape.size()))
      batch = shape[dim];
  }
  if (!open)
    return success();
  // Another input of that size in dimension 0 is ambiguous if labels or tokens have a later
  // dimension of the same size.
  auto hasElsewhere = [&](Input *input) {
    return llvm::is_contained(input->type.getShape().drop_front(), *batch);
  };
  for (Input *input : others)
    if (agree && input->binding.empty() && !input->batchDim && input->type.getRank() > 0 &&
        input->type.getDimSize(0) == *batch)
      agree &= llvm::none_of(examples, hasElsewhere);
  if (agree && rows) {
    std::string taken;
    bool fixed = false;
    for (std::vector<Input *> *list : {&examples, &others})
      for (Input *input : *list) {
        ArrayRef<int64_t> shape = input->type.getShape();
        if (input->batchDim || shape.empty() || shape[0] != *batch ||
            (list == &others && shape.size() < 2 && !input->binding.empty()))
          continue;
        input->batchDim = 0;
        fixed |= input->isFixed;
        taken += (taken.empty() ? "'" : ", '") + displayName(input->name) + "'";
      }
    if (fixed && *batch % options.dataRanks != 0)
      return error(
                 "the batch of " + Twine(*batch) + " in " + taken +
                     " is fixed in the file and does not divide over the " +
                     Twine(options.dataRanks) +
                     " ranks of the mesh's data axes: export with a batch of " +
                     Twine((*batch / options.dataRanks + 1) * options.dataRanks) +
                     ", or with a free one (dynamic_shapes={INPUT: {0: \"batch\"}}) and --dim batch=N",
                 SHALE_EXIT_USAGE),
             failure();
    note("no dimension of " + taken + " is named 'batch': the first, of " + Twine(*batch) +
         ", is used as the batch (--batch-dim INPUT:DIM selects another)");
    return success();
  }
  if (options.dataRanks == 1)
    return success();
  std::string shapes;
  for (Input *input : examples) {
    std::string shape;
    for (int64_t size : input->type.getShape())
      shape += (shape.empty() ? "" : ", ") + std::to_string(size);
    shapes += (shapes.empty() ? "'" : ", '") + displayName(input->name) + "' [" + shape + "]";
  }
  return error(
             "no dimension is named 'batch', and the inputs (" +
                 (shapes.empty() ? "none" : shapes) +
                 ") do not show which one it is: each of the " + Twine(options.dataRanks) +
                 " ranks would compute the whole batch. Pass --batch-dim INPUT:0 for each input whose dimension 0 is the batch: "
                 "it is then split over the ranks",
             SHALE_EXIT_USAGE),
         failure();
}
