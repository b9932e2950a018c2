//===- Stops.cpp - Where gradients stop in PyTorch ------------------------===//
//
// An exported graph does not mark where gradients stop. The remaining traces are:
// - blocks under torch.no_grad(). torch.export inlines them from generated code, whose file is
//   "<eval_with_key>.N" in stack traces; blocks under torch.autocast() have the same mark, but let
//   gradients pass. So has all that follows a checkpoint with use_reentrant=True: its forward turns
//   gradients off, and torch.export does not record that they are on again;
// - autograd.Functions with a backward of their own: the stack trace of a node has the calls of
//   functions called `forward`, of modules, their base classes and autograd.Functions;
// - x.detach(): a node of aten.detach (with optimize=False), else a name that no node defines
//   (Parameters.cpp), else `detach` among the values that a folded value was computed from, else,
//   if a copy was removed, only the reader's line of source.
// Training through a stop would be silently wrong, so the import fails.
//
//===----------------------------------------------------------------------===//
#include "dialects/interfaces/Interfaces.h"
#include "lib/Frontend/ONNX/Checks.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Regex.h"
#include <map>
#include <set>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Maximum number of nodes that an error names.
static constexpr size_t kShown = 4;

/// Whether a node comes from the generated code of a block under a context manager.
static bool isOfContext(const NodeProto &node) {
  return StringRef(readSourceLine(node).file).starts_with(words::kGeneratedFile);
}

/// Returns the values that depend on trained parameters, or only floats that depend on them through
/// floats.
static llvm::DenseSet<Value> findVaried(Block &body, ArrayRef<Value> trained, bool floatsOnly) {
  llvm::DenseSet<Value> varied;
  varied.insert_range(trained);
  for (Operation &op : body)
    if (llvm::any_of(op.getOperands(), [&](Value operand) { return varied.contains(operand); }))
      for (Value result : op.getResults())
        if (!floatsOnly || isa<FloatType>(getElementTypeOrSelf(result)))
          varied.insert(result);
  return varied;
}

/// Returns the folded values that the exporter computed from a detached value and from one of
/// `parameters`.
static llvm::StringSet<> findFoldedDetached(const GraphProto &graph,
                                            const llvm::StringSet<> &parameters) {
  llvm::StringSet<> folded;
  for (const ValueInfoProto &value : graph.value_info()) {
    std::vector<std::string> from = readFoldedFrom(value);
    if (llvm::any_of(from, [](const std::string &name) { return operationOf(name) == "detach"; }) &&
        llvm::any_of(from, [&](const std::string &name) { return parameters.contains(name); }))
      folded.insert(value.name());
  }
  return folded;
}

/// Adds the operands to which an op sends a gradient of its results that are `reached`. It builds
/// the gradient as autodiff does, and drops it.
static void reachOperands(Operation &op, llvm::DenseSet<Value> &reached) {
  SmallVector<Value> resultGrads;
  for (Value result : op.getResults())
    resultGrads.push_back(reached.contains(result) ? result : Value()); // of the gradient's type
  if (llvm::none_of(resultGrads, [](Value value) { return bool(value); }))
    return;
  SmallVector<bool> wanted;
  for (Value operand : op.getOperands())
    wanted.push_back(isa<FloatType>(getElementTypeOrSelf(operand)));
  SmallVector<Value> operandGrads(op.getNumOperands());
  Block scratch;
  OpBuilder builder(op.getContext());
  builder.setInsertionPointToEnd(&scratch);
  ScopedDiagnosticHandler silent(op.getContext(), [](Diagnostic &) { return success(); });
  auto differentiable = dyn_cast<DifferentiableOpInterface>(&op);
  bool built = differentiable &&
               succeeded(differentiable.buildGradient(builder, resultGrads, wanted, operandGrads));
  // An op without a gradient counts as passing one: autodiff reports it.
  for (auto [operand, isWanted, grad] : llvm::zip(op.getOperands(), wanted, operandGrads))
    if (isWanted && (grad || !built))
      reached.insert(operand);
}

/// Returns the values that gradients of `roots` reach.
static llvm::DenseSet<Value> findReached(Block &body, ArrayRef<Value> roots) {
  llvm::DenseSet<Value> reached;
  reached.insert_range(roots);
  for (Operation &op : llvm::reverse(body))
    reachOperands(op, reached);
  return reached;
}

void onnx::freezeUnreached(ImportContext &context, const States &states, Value loss) {
  llvm::DenseSet<Value> reached = findReached(context.body, loss);
  SmallVector<std::string> left;
  bool trainsAny = false;
  for (auto [parameter, value] : llvm::zip(states.parameters.list, states.values)) {
    if (!value || !parameter.isParameter)
      continue;
    if (reached.contains(value))
      trainsAny = true;
    else
      left.push_back(displayName(parameter.name));
  }
  if (!trainsAny)
    return; // an error later says why
  for (const std::string &name : left) {
    markUntrained(context, name);
    context.remark("initializer {} is not trained: no gradient of the loss reaches it", name);
  }
}

/// Whether the result of an operation is contiguous in memory whatever its operands are, so that a
/// copy of it is an explicit `clone()`: contiguous() and reshape() copy other tensors only.
static bool isContiguous(StringRef target) {
  return words::is(words::kindOf(target), words::Trait::MakesContiguous);
}

using Records = std::map<const NodeProto *, FxNode>;

/// Returns the nodes that read a removed `clone()`, which may be that of x.detach().clone(): the
/// record names the last of both only.
static SmallVector<const NodeProto *> findClones(const GraphProto &graph, const Records &records,
                                                 const llvm::StringSet<> &made) {
  llvm::StringMap<const FxNode *> makers;
  for (const NodeProto &node : graph.node())
    for (const std::string &name : node.output())
      makers[name] = &records.at(&node);
  SmallVector<const NodeProto *> found;
  for (const NodeProto &node : graph.node()) {
    const std::vector<std::string> &args = records.at(&node).args;
    // A line that has the clone has the detach, too; see readsDetached.
    if (readSourceText(node).contains(".clone(") ||
        llvm::none_of(args, [&](const std::string &name) {
          return operationOf(name) == "clone" && !made.contains(name);
        }))
      continue;
    if (llvm::any_of(node.input(), [&](const std::string &name) {
          auto maker = makers.find(name);
          return maker != makers.end() && isContiguous(maker->second->target) &&
                 !llvm::is_contained(args, maker->second->name);
        }))
      found.push_back(&node);
  }
  return found;
}

namespace {

/// Tells which nodes may read a detached value. Only the reader's line of source shows how a folded
/// or removed value was computed.
class DetachedReads {
public:
  /// `trained`: parameters, as initializers are called.
  DetachedReads(const GraphProto &graph, const llvm::StringSet<> &trained)
      : folded(findFoldedDetached(graph, trained)) {
    for (const std::string &name : readPlaceholders(graph))
      made.insert(name);
    for (const NodeProto &node : graph.node()) {
      const FxNode &fx = records[&node] = readFxNode(node);
      made.insert(fx.name);
      for (const std::string &name : fx.args)
        if (operationOf(name) == "detach")
          placed[readSourceText(node)].insert(name);
    }
    for (const NodeProto *node : findClones(graph, records, made))
      clones.insert(node);
  }

  bool contains(const NodeProto &node) const {
    if (llvm::any_of(node.input(), [&](const std::string &name) { return folded.contains(name); }))
      return true;
    static const llvm::Regex detach("\\.(detach_?\\(|data\\b)");
    SmallVector<StringRef> groups;
    StringRef line = readSourceText(node);
    size_t stops = 0;
    for (StringRef rest = line; detach.match(rest, &groups); ++stops)
      rest = rest.drop_front(groups[0].end() - rest.begin());
    return placed.lookup(line).size() < stops &&
           llvm::any_of(
               records.at(&node).args,
               [&](const std::string &name) { return !made.contains(name); });
  }
  /// Whether a node reads a removed `clone()` of a value that may have been detached first.
  bool hasClone(const NodeProto &node) const { return clones.contains(&node); }

private:
  llvm::StringSet<> folded;
  llvm::StringSet<> made; // names of the exported program that the file has
  Records records;
  NodeSet clones;
  /// The detached values that operations of a line name. Their stops are restored.
  llvm::StringMap<std::set<std::string>> placed;
};

/// The nodes at which a gradient may stop, by the reason.
struct Stops {
  SmallVector<const NodeProto *> inContext, detaching, inFunction, copying;
  /// Nodes that may come from an autograd.Function.
  SmallVector<const NodeProto *> foreign;

  bool isEmpty() const {
    return inContext.empty() && detaching.empty() && inFunction.empty() && copying.empty() &&
           foreign.empty();
  }
};

} // namespace

/// Finds the stops among needed nodes through whose results gradients pass to trained parameters.
/// A function with a backward of its own passes them on, whatever it computes of parameters.
static Stops findStops(const GraphProto &graph, const NodeSet &needed, const ImportOptions &options,
                       const DetachedReads &detached,
                       llvm::function_ref<bool(const NodeProto &)> passesGradients,
                       llvm::function_ref<bool(const NodeProto &)> mayPassGradients) {
  Stops stops;
  bool isAutocast = options.assumeAutocast ||
                    metadata(graph.metadata_props(), words::kBlocks) == words::kAutocast;
  for (const NodeProto &node : graph.node()) {
    if (!needed.contains(&node) || !mayPassGradients(node))
      continue;
    bool passes = passesGradients(node);
    if (passes && isOfContext(node) && !isAutocast)
      stops.inContext.push_back(&node);
    else if (passes && detached.contains(node))
      stops.detaching.push_back(&node);
    else if (passes && detached.hasClone(node))
      stops.copying.push_back(&node);
    else if (StringRef function = functionOf(node);
             !function.empty() && !llvm::is_contained(options.assumeDerivative, function))
      stops.inFunction.push_back(&node);
    else if (std::optional<ForeignForward> foreign = foreignForwardOf(node);
             function.empty() && foreign &&
             !llvm::is_contained(options.assumeDerivative, foreign->call))
      stops.foreign.push_back(&node);
  }
  return stops;
}

static LogicalResult refuse(ImportContext &context, ArrayRef<const NodeProto *> nodes,
                            const Twine &why) {
  std::vector<std::string> names;
  for (const NodeProto *node : nodes)
    names.push_back(displayName(node->name()));
  return context.errorAt(context.locationOf(*nodes.front()),
                         "nodes " + listOf(names, kShown) + " " + why);
}

/// Fails, with an error, if a node is in a block under a context manager, or reads a value that may
/// be detached. PyTorch cannot train a loss that was computed under no_grad: `ofLoss`, whether the
/// loss is in such a block.
static LogicalResult refuseBlocks(ImportContext &context, const Stops &stops, bool ofLoss) {
  if (!stops.inContext.empty() && ofLoss)
    return refuse(
        context, stops.inContext,
        "depend on trained parameters, and the file has them in blocks of torch.no_grad() or torch.autocast(). The loss is in one, too, so "
        "that not all are no_grad: either they are autocast, or the model calls torch.utils.checkpoint with use_reentrant=True, and the file marks "
        "all that follows it. The file does not show which. With such checkpoints, export with use_reentrant=False: it computes the same, and "
        "--recompute chooses what is kept; if the blocks are autocast, pass --assume-autocast");
  if (!stops.inContext.empty())
    return refuse(
        context, stops.inContext,
        "depend on trained parameters and were exported under torch.no_grad() or torch.autocast(), or in a checkpoint with use_reentrant=True. The file "
        "does not distinguish them, and gradients must not flow through no_grad. Write no_grad as x.detach() and export with optimize=False; "
        "export checkpoints with use_reentrant=False; pass --assume-autocast if the blocks are autocast, or --freeze for parameters that are not to be "
        "trained");
  if (!stops.detaching.empty())
    return refuse(
        context, stops.detaching,
        "read values that depend on trained parameters, and that their lines of source detach; the file does not show where, "
        "and gradients would flow. Export with shale.export, or with torch.onnx.export(..., optimize=False), or pass --freeze for parameters that are not to be "
        "trained");
  if (!stops.copying.empty())
    return refuse(
        context, stops.copying,
        "read a clone() of a value that depends on trained parameters, and the file does not show whether it was detached first. "
        "Export with shale.export, or with torch.onnx.export(..., optimize=False), or with the clone in the line that reads it");
  return success();
}

/// Fails, with an error, if a node comes from an autograd.Function.
static LogicalResult refuseFunctions(ImportContext &context, const Stops &stops) {
  if (stops.inFunction.empty())
    return success();
  StringRef function = functionOf(*stops.inFunction.front());
  return refuse(
      context, stops.inFunction,
      "come from a line that calls " + function +
          ".apply(), a torch.autograd.Function: its backward is not in the file. If it is the derivative of what " +
          function + " computes, pass --assume-derivative " + function);
}

/// Fails, with an error, if a node may come from an autograd.Function that is called by another
/// name.
static LogicalResult refuseForeign(ImportContext &context, const Stops &stops) {
  if (stops.foreign.empty())
    return success();
  ForeignForward foreign = *foreignForwardOf(*stops.foreign.front());
  return refuse(
      context, stops.foreign,
      "come from a function 'forward' of no registered module (" + foreign.source +
          "), called in " + foreign.call +
          ". If it is a torch.autograd.Function, its backward is not in the file. If its backward is the derivative of its "
          "forward, or if it is no autograd.Function, pass --assume-derivative " +
          foreign.call);
}

/// Fails, with an error, if the file has no operation that --assume-merged names.
static LogicalResult checkAssumed(ImportContext &context) {
  for (const std::string &name : context.options.assumeMerged)
    if (llvm::none_of(context.graph().node(),
                      [&](const NodeProto &node) { return readFxNode(node).target == name; }))
      return context.usage(
          "--assume-merged {}: the file has no such operation; names are like aten.softmax.int",
          plain(displayName(name)));
  return success();
}

LogicalResult onnx::checkStops(ImportContext &context, const NodeSet &needed, const States &states,
                               const Scope &graph, ArrayRef<StringRef> roots) {
  if (failed(checkAssumed(context)))
    return failure();
  SmallVector<Value> trained, ends;
  llvm::StringSet<> trainedNames; // as initializers are called
  for (auto [index, parameter] : llvm::enumerate(states.parameters.list))
    if (states.isTrained(index, context.options.parameters)) {
      trained.push_back(states.values[index]);
      trainedNames.insert(states.parameters.prefix + parameter.name);
    }
  for (StringRef root : roots)
    if (Value value = graph.values.lookup(root).value)
      ends.push_back(value);
  llvm::DenseSet<Value> varied = findVaried(context.body, trained, /*floatsOnly=*/true), reached;
  llvm::DenseSet<Value> dependent = findVaried(context.body, trained, /*floatsOnly=*/false);
  // Gradients pass only some of the values that depend on parameters: none passes a mask. To find
  // these takes longer, and most models have no stop at all.
  bool isExact = false;
  auto isIn = [&](const llvm::DenseSet<Value> &values, StringRef name) {
    Value value = graph.values.lookup(name).value;
    return values.contains(value) && (!isExact || reached.contains(value));
  };
  auto passesGradients = [&](StringRef name) { return isIn(varied, name); };
  auto mayPassGradients = [&](StringRef name) { return isIn(dependent, name); };
  DetachedReads detached(context.graph(), trainedNames);
  Stops stops;
  std::optional<MergedRead> merged;
  auto find = [&] {
    stops = findStops(
        context.graph(), needed, context.options, detached,
        [&](const NodeProto &node) { return llvm::any_of(node.output(), passesGradients); },
        [&](const NodeProto &node) { return llvm::any_of(node.output(), mayPassGradients); });
    merged =
        findMergedRead(needed, states.parameters, context.options.assumeMerged, passesGradients);
    return merged || !stops.isEmpty();
  };
  if (!find())
    return success();
  reached = findReached(context.body, ends);
  isExact = true;
  find();
  bool ofLoss = llvm::any_of(stops.inContext, [&](const NodeProto *node) {
    return llvm::any_of(node->output(),
                        [&](StringRef name) { return llvm::is_contained(roots, name); });
  });
  if (failed(refuseBlocks(context, stops, ofLoss)))
    return failure();
  if (merged)
    return context.errorAt(context.locationOf(*merged->node),
                           "node '" + displayName(merged->node->name()) + "' " + merged->why);
  if (failed(refuseFunctions(context, stops)))
    return failure();
  return refuseForeign(context, stops);
}

//===----------------------------------------------------------------------===//
// Nodes of autograd.Functions
//===----------------------------------------------------------------------===//

StringRef onnx::functionOf(const NodeProto &node) {
  static const llvm::Regex apply("(^|[^A-Za-z_0-9])([A-Z][A-Za-z_0-9]*)\\.apply\\(");
  StringRef trace = metadata(node.metadata_props(), words::kStackTrace);
  SmallVector<StringRef> groups;
  return trace.contains(".apply(") && apply.match(trace, &groups) ? groups[2] : "";
}

namespace {

/// A call of a function called forward in a stack trace.
struct Frame {
  StringRef file, line, text;
};

} // namespace

/// Returns the calls of functions called forward, the innermost last. PyTorch's own functions for
/// activation checkpointing are left out: what they call has the gradients of its operations.
static SmallVector<Frame> readForwards(StringRef trace) {
  // Lines come in pairs: `File "model.py", line 12, in forward`, then the line of source.
  SmallVector<StringRef> lines;
  trace.split(lines, '\n');
  SmallVector<Frame> frames;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    auto [path, rest] = lines[i].ltrim().split("\", line ");
    if (path.consume_front("File \"") && rest.consume_back(", in forward") &&
        !path.ends_with("torch/utils/checkpoint.py"))
      frames.push_back({path, rest, lines[i + 1].trim()});
  }
  return frames;
}

std::optional<ForeignForward> onnx::foreignForwardOf(const NodeProto &node) {
  SmallVector<Frame> frames = readForwards(metadata(node.metadata_props(), words::kStackTrace));
  SmallVector<StringRef> scopes; // the operation's own is last
  metadata(node.metadata_props(), words::kNameScopes).split(scopes, ',');
  if (scopes.size() < 2 || frames.size() < 2)
    return std::nullopt;
  // `super().forward(x)` and `self.layer.forward(x)` are calls without a scope of their own.
  size_t unscoped = llvm::count_if(
      llvm::drop_end(frames), [](const Frame &frame) { return frame.text.contains(".forward("); });
  // Losses and activations of modules that are no part of another one read `self`, or are
  // PyTorch's.
  const Frame &last = frames.back(), &caller = frames[frames.size() - 2];
  if (frames.size() <= scopes.size() - 1 + unscoped || last.text.contains("self") ||
      last.file.contains("/torch/nn/") || last.file.starts_with(words::kGeneratedFile))
    return std::nullopt;
  return ForeignForward{(llvm::sys::path::filename(caller.file) + ":" + caller.line).str(),
                        (llvm::sys::path::filename(last.file) + ":" + last.line + ", '" +
                         displayName(last.text) + "'")
                            .str()};
}
