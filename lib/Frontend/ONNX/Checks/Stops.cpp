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
//   (Rules/Detached.cpp), else `detach` among the values that a folded value was computed from,
//   else, if a copy was removed, only the reader's line of source.
// Training through a stop would be silently wrong, so the import fails. Lines of source are read
// to refuse a file; none makes the import accept one.
//
//===----------------------------------------------------------------------===//
#include "lib/Analysis/GradientReach.h"
#include "lib/Frontend/ONNX/Record/TracedProgram.h"
#include "lib/Frontend/ONNX/Stages.h"
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

void onnx::freezeUnreached(ImportContext &context, const States &states, Value loss) {
  llvm::DenseSet<Value> reached = reachedByGradients(context.body, loss);
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

/// The detached values that operations of a line of source name: their stops are restored.
using StopsOfLines = llvm::StringMap<std::set<std::string>>;

static StopsOfLines stopsOfLines(const TracedProgram &program) {
  StopsOfLines stops;
  for (const TracedOperation &operation : program.operations())
    for (const std::string &name : operation.fx.args)
      if (isDetach(name))
        for (const NodeProto *node : operation.nodes)
          stops[readSourceText(*node)].insert(name);
  return stops;
}

/// Whether a node may read a detached value whose place is not restored: a constant that the
/// exporter computed from one and from a parameter of `trained`, or, where the exporter also
/// removed what followed it, a line of source that detaches more than the record has.
static bool mayReadDetached(const TracedProgram &program, const NodeProto &node,
                            const llvm::StringSet<> &trained, const StopsOfLines &restored) {
  for (const std::string &input : node.input())
    if (ArrayRef<std::string> from = program.foldedFrom(input);
        llvm::any_of(from, isDetach) &&
        llvm::any_of(from, [&](StringRef name) { return trained.contains(name); }))
      return true;
  static const llvm::Regex detach("\\.(detach_?\\(|data\\b)");
  SmallVector<StringRef> groups;
  StringRef line = readSourceText(node);
  size_t stops = 0;
  for (StringRef rest = line; detach.match(rest, &groups); ++stops)
    rest = rest.drop_front(groups[0].end() - rest.begin());
  auto known = restored.find(line);
  const TracedOperation *operation = program.ownerOf(node);
  return (known == restored.end() ? 0 : known->second.size()) < stops && operation &&
         llvm::any_of(operation->fx.args, [&](StringRef name) { return !program.has(name); });
}

/// Whether a node reads a removed `clone()`, which may be that of x.detach().clone(): the record
/// names the last of both only. Where the result of an operation is contiguous in memory whatever
/// its operands are, a copy of it is an explicit `clone()`: contiguous() and reshape() copy other
/// tensors only.
static bool readsClone(const TracedProgram &program, const NodeProto &node) {
  const TracedOperation *operation = program.ownerOf(node);
  return operation &&
         llvm::any_of(
             operation->fx.args,
             [&](StringRef name) { return operationOf(name) == "clone" && !program.has(name); }) &&
         llvm::any_of(node.input(), [&](const std::string &name) {
           const TracedOperation *maker = program.makerOf(name);
           return maker && words::is(maker->kind(), words::Trait::MakesContiguous) &&
                  !llvm::is_contained(operation->fx.args, maker->fx.name);
         });
}

//===----------------------------------------------------------------------===//
// Nodes of autograd.Functions
//===----------------------------------------------------------------------===//

/// Returns the autograd.Function that a node comes from, "Round" of `Round.apply(x)` in a line of
/// its stack trace; empty if there is none.
static StringRef functionOf(const NodeProto &node) {
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

/// A call of a function `forward` that belongs to no module of the model.
struct ForeignForward {
  /// The place of the call in the module: "model.py:12".
  std::string call;
  /// Its line that the node comes from: "model.py:4, 'return (x > 0).float()'".
  std::string source;
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

/// Returns the call of such a function that a node comes from, by its stack trace: it may be that
/// of a torch.autograd.Function whose `apply` has another name (`ste = Round.apply`).
static std::optional<ForeignForward> foreignForwardOf(const NodeProto &node) {
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

//===----------------------------------------------------------------------===//
// Merged operations
//
// The exporter removes x.detach() and then merges equal operations, so q - h and q - h.detach() are
// one node, with one of two gradients. The names in the record tell that two were merged, and
// nothing in it tells whether one was detached. The code of the library `transformers` is known: no
// forward of its models detaches an operand of an operation that it repeats, as parallel blocks
// repeat the norm of their input.
//===----------------------------------------------------------------------===//

/// Whether a node was computed by code of `transformers` and of PyTorch alone, as seen from a
/// module of `transformers` around it: no call in between is in a file of the user.
static bool isOfLibrary(const NodeProto &node) {
  auto isModule = [](const auto &scope) {
    return StringRef(scope.second).starts_with("transformers.models.");
  };
  if (llvm::none_of(readClasses(node), isModule))
    return false;
  SmallVector<StringRef> lines;
  metadata(node.metadata_props(), words::kStackTrace).split(lines, '\n');
  bool inside = false;
  for (StringRef line : lines) {
    line = line.ltrim();
    if (!line.consume_front("File \""))
      continue;
    StringRef file = line.split('"').first;
    bool isTransformers = file.contains("/transformers/");
    if (inside && !isTransformers && !file.contains("/torch/"))
      return false;
    inside |= isTransformers;
  }
  return inside;
}

/// Returns the first node that may read another gradient than the file has. None if there is none.
/// `assumed`: operations that are assumed to be merged with equal ones. `ofLibrary`: whether to
/// look among operations of the library or among the other ones.
static const MergedName *findMergedRead(const NodeSet &needed, const Parameters &parameters,
                                        ArrayRef<std::string> assumed, bool ofLibrary,
                                        llvm::function_ref<bool(StringRef)> isVaried) {
  for (const MergedName &merged : parameters.mergedNames) {
    const auto &[node, operand] = merged.read;
    if (!needed.contains(node) || llvm::is_contained(assumed, merged.target) ||
        parameters.restored.count(merged.read) || !isVaried(node->input(operand)) ||
        llvm::none_of(node->output(), isVaried))
      continue;
    if ((isOfLibrary(*merged.kept) && isOfLibrary(*node)) == ofLibrary)
      return &merged;
  }
  return nullptr;
}

//===----------------------------------------------------------------------===//
// The check
//===----------------------------------------------------------------------===//

/// Returns why a gradient may stop at a node; none if it does not. `passes`: whether the node's
/// operators let gradients pass. A function with a backward of its own passes them on, whatever it
/// computes of parameters.
static std::optional<Reason> stopAt(const NodeProto &node, bool passes, bool isAutocast,
                                    const TracedProgram &program, const llvm::StringSet<> &trained,
                                    const StopsOfLines &restored, ArrayRef<std::string> assumed) {
  if (passes && isOfContext(node) && !isAutocast)
    return Reason::OfContext;
  if (passes && mayReadDetached(program, node, trained, restored))
    return Reason::DetachInLine;
  if (passes && readsClone(program, node))
    return Reason::OpenClone;
  std::optional<Reason> none;
  if (StringRef function = functionOf(node); !function.empty())
    return llvm::is_contained(assumed, function) ? none : Reason::OfFunction;
  std::optional<ForeignForward> foreign = foreignForwardOf(node);
  return !foreign || llvm::is_contained(assumed, foreign->call) ? none : Reason::OfForward;
}

/// An error about nodes. PyTorch cannot train a loss that was computed under no_grad: `ofLoss`,
/// whether the loss is in such a block.
static LogicalResult refuse(ImportContext &context, Reason stop, ArrayRef<const NodeProto *> nodes,
                            bool ofLoss) {
  const NodeProto &first = *nodes.front();
  std::vector<std::string> names;
  for (const NodeProto *node : nodes)
    names.push_back(displayName(node->name()));
  SmallVector<Said> parts{plain(listOf(names, kShown))};
  if (stop == Reason::OfContext && ofLoss)
    stop = Reason::OfContextOfLoss;
  if (stop == Reason::OfFunction)
    parts.append(3, plain(functionOf(first)));
  if (stop == Reason::OfForward) {
    ForeignForward foreign = *foreignForwardOf(first);
    parts.append({plain(foreign.source), plain(foreign.call), plain(foreign.call)});
  }
  return context.refuse(Refusal(stop, &first, parts));
}

LogicalResult onnx::checkStops(ImportContext &context, const States &states,
                               ArrayRef<StringRef> roots) {
  SmallVector<Value> trained, ends;
  llvm::StringSet<> trainedNames; // as initializers are called
  for (auto [index, parameter] : llvm::enumerate(states.parameters.list))
    if (states.isTrained(index, context.options.parameters)) {
      trained.push_back(states.values[index]);
      trainedNames.insert(states.parameters.prefix + parameter.name);
    }
  for (StringRef root : roots)
    if (Value value = context.scope.values.lookup(root).value)
      ends.push_back(value);
  llvm::DenseSet<Value> varied = findVaried(context.body, trained, /*floatsOnly=*/true), reached;
  llvm::DenseSet<Value> dependent = findVaried(context.body, trained, /*floatsOnly=*/false);
  // Gradients pass only some of the values that depend on parameters: none passes a mask. To find
  // these takes longer, and most models have no stop at all.
  bool isExact = false;
  auto isIn = [&](const llvm::DenseSet<Value> &values) {
    return [&](StringRef name) {
      Value value = context.scope.values.lookup(name).value;
      return values.contains(value) && (!isExact || reached.contains(value));
    };
  };
  const ImportOptions &options = context.options;
  bool isAutocast = options.assumeAutocast ||
                    metadata(context.graph().metadata_props(), words::kBlocks) == words::kAutocast;
  StopsOfLines restored = stopsOfLines(*context.program);
  std::map<Reason, SmallVector<const NodeProto *>> stops;
  const MergedName *merged = nullptr;
  auto mergedRead = [&](bool ofLibrary) {
    return findMergedRead(context.needed, states.parameters, options.assumeMerged, ofLibrary,
                          isIn(varied));
  };
  auto find = [&] {
    stops.clear();
    for (const NodeProto &node : context.graph().node())
      if (context.needed.contains(&node) && llvm::any_of(node.output(), isIn(dependent)))
        if (std::optional<Reason> stop =
                stopAt(node, llvm::any_of(node.output(), isIn(varied)), isAutocast,
                       *context.program, trainedNames, restored, options.assumeDerivative))
          stops[*stop].push_back(&node);
    merged = mergedRead(/*ofLibrary=*/false);
    return merged || !stops.empty();
  };
  // A module that a user put into a model of the library leaves no trace if its operations were
  // merged, so the rule is an assumption, and the user reads it.
  auto accept = [&] {
    if (const MergedName *read = mergedRead(/*ofLibrary=*/true))
      context.note("node {} reads '%{}', which the export merged with node {}, in code of "
                   "transformers, which detaches neither. If you replaced a module there by one "
                   "that detaches its operand, export with shale.export",
                   read->read.first->name(), plain(displayName(read->name)), read->kept->name());
    return success();
  };
  if (!find())
    return accept();
  reached = reachedByGradients(context.body, ends);
  isExact = true;
  find();
  if (merged && (stops.empty() || stops.begin()->first > Reason::OpenClone))
    return context.refuse(Refusal(Reason::MergedGradients, merged->read.first,
                                  {plain(displayName(merged->name)), merged->kept->name(),
                                   plain(displayName(merged->target))}));
  if (stops.empty())
    return accept();
  const auto &[stop, nodes] = *stops.begin();
  bool ofLoss = llvm::any_of(nodes, [&](const NodeProto *node) {
    return llvm::any_of(node->output(),
                        [&](StringRef name) { return llvm::is_contained(roots, name); });
  });
  return refuse(context, stop, nodes, ofLoss);
}
