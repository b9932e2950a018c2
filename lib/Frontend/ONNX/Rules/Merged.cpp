//===- Merged.cpp - Operations that the exporter merged -------------------===//
//
// Two norms of one value with equal initial weights are one node in the file, and no node reads the
// second norm's parameters. The nodes that used its result still name it: `%layer_norm_1`, for
// which there is no node. It is computed again if its parameters are those of the only module
// beside the first one that no node reads. What else may differ between the two is refused: whose
// parameters they read, and what the file lacks (the label smoothing of a cross-entropy, the mode
// of a batch normalization, the numbers of a dropout).
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Rules/Rules.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

using Nodes = llvm::SmallSetVector<const NodeProto *, 8>;
/// Parameters by module and by their last name.
using ByModule = std::map<std::string, std::map<std::string, size_t>>;

/// Returns what a node computes that the file does not tell from another one of its kind; null
/// if it does.
static const char *whatIsLost(const NodeProto &node) {
  FxNode fx = readFxNode(node);
  if (StringRef(fx.target).starts_with(words::kCrossEntropy))
    return "losses with the same label smoothing";
  if (node.op_type() == "Dropout" || node.op_type() == "Bernoulli" ||
      attentionDropout(fx).value_or(0) > 0)
    return "the same random numbers";
  return changesBuffer(node, 3) ? "batch normalizations of the same mode" : nullptr;
}

/// Whether an operation of a node's kind may be missing before `reader`. Operations have numbers in
/// the order of the program: where each number up to the next one of the kind is there, none is.
static bool mayBeMissing(const TracedProgram &program, const NodeProto &node,
                         const TracedOperation &reader) {
  std::string kind = operationOf(readFxNode(node).name);
  if (kind.empty() || kind == words::kResult)
    return true;
  int64_t count = 0;
  for (const TracedOperation &other : program.operations())
    if (operationOf(other.fx.name) == kind) {
      if (program.placeOf(*other.nodes.front()) > program.placeOf(*reader.nodes.back()))
        return numberOf(other.fx.name) != count;
      ++count;
    }
  return true;
}

/// Returns a node of which the file lacks something, that a value depends on, and of which another
/// one may have been merged with it; null if there is none.
static const NodeProto *lostBehind(const TracedProgram &program, const MissingRead &read) {
  Nodes reached;
  if (const NodeProto *node = program.nodeOf(read.value()))
    reached.insert(node);
  for (size_t at = 0; at < reached.size(); ++at) {
    if (whatIsLost(*reached[at]) && mayBeMissing(program, *reached[at], *read.operation))
      return reached[at];
    for (const std::string &name : reached[at]->input())
      if (const NodeProto *node = program.nodeOf(name))
        reached.insert(node);
  }
  return nullptr;
}

/// Returns the nodes of the call of a module that ends with `last`, in the order of the graph, and
/// after them the nodes without a record that they read. `own`: the number of the first ones.
static Nodes nodesOf(const TracedProgram &program, const TracedOperation &last, size_t &own) {
  std::vector<const NodeProto *> call;
  for (const TracedOperation *part : program.operationsOfCall(last))
    llvm::append_range(call, part->nodes);
  llvm::sort(call, [&](const NodeProto *one, const NodeProto *other) {
    return program.placeOf(*one) < program.placeOf(*other);
  });
  Nodes nodes;
  nodes.insert(call.begin(), call.end());
  own = nodes.size();
  for (size_t at = 0; at < nodes.size(); ++at)
    for (const std::string &input : nodes[at]->input())
      if (program.isComputed(input) && !program.makerOf(input))
        nodes.insert(program.nodeOf(input));
  return nodes;
}

/// Returns the reads of parameters by a node.
static auto usesBy(const Known &known, const NodeProto &node) {
  const auto &uses = known.found.uses;
  return llvm::make_range(uses.lower_bound({&node, 0}),
                          uses.upper_bound({&node, std::numeric_limits<int>::max()}));
}

/// Returns the parameters that nodes read, or functions of them, or lost as biases of zeros.
static std::set<size_t> parametersOf(const Known &known, ArrayRef<const NodeProto *> nodes) {
  std::set<size_t> found;
  for (const NodeProto *node : nodes) {
    for (const auto &[place, use] : usesBy(known, *node))
      if (known.parameter(use.parameter).isParameter)
        found.insert(use.parameter);
    if (auto lost = known.found.lostBias.find(node); lost != known.found.lostBias.end())
      found.insert(lost->second);
  }
  return found;
}

namespace {

/// Two equal operations, of which the exporter kept one.
struct MergedPair {
  StringRef name; // of the value of the removed one
  const TracedOperation *kept;
  SmallVector<Place> reads;  // those that name it
  llvm::StringSet<> readers; // the modules of these
  bool mayBeRemoved;
};

/// The nodes of operations that are computed again, and those that read them.
struct Copies {
  std::set<const NodeProto *> nodes, readers;
};

} // namespace

/// Returns the parameters of modules that have those of `own`, all of `module`, under the same
/// names, not read or with the same values: modules beside it, and those that read the removed
/// operation.
static ByModule twinsOf(const Known &known, const MergedPair &pair, StringRef module,
                        const std::set<size_t> &own) {
  ByModule twins;
  const std::vector<Parameter> &list = known.found.list;
  for (size_t index = 0; index < list.size(); ++index) {
    StringRef other = moduleOf(known.target(index)), last = lastOf(known.target(index));
    if (other == module || (moduleOf(other) != moduleOf(module) && !pair.readers.contains(other)))
      continue;
    for (size_t one : own)
      if (lastOf(known.target(one)) == last &&
          (!list[index].used || (list[index].initializer == list[one].initializer &&
                                 list[index].values == list[one].values)))
        twins[other.str()][last.str()] = index;
  }
  for (auto it = twins.begin(); it != twins.end();)
    it = it->second.size() == own.size() ? std::next(it) : twins.erase(it);
  return twins;
}

/// Returns whether the removed operation is the kept one, or computes it again with its own
/// parameters. An error if it is not certain whose parameters it reads.
static bool split(Known &known, const MergedPair &pair, Copies &copies) {
  size_t count = 0;
  Nodes nodes = nodesOf(known.program, *pair.kept, count);
  std::set<size_t> own = parametersOf(known, nodes.getArrayRef());
  if (own.empty()) // of the same operand, but the exporter may have removed a product of it
    return !pair.mayBeRemoved;
  StringRef module = moduleOf(known.target(*own.begin()));
  if (llvm::any_of(own, [&](size_t index) { return moduleOf(known.target(index)) != module; }))
    return false;
  ByModule twins = twinsOf(known, pair, module, own), lost;
  for (const auto &[other, parameters] : twins)
    if (llvm::all_of(parameters, [&](const auto &one) {
          return known.isMissing(one.second) &&
                 !known.program.isFoldedIntoOther(known.target(one.second));
        }))
      lost[other] = parameters;
  if (twins.empty())
    return false;
  ArrayRef<const NodeProto *> call = nodes.getArrayRef().take_front(count);
  bool isOpen =
      lost.size() != 1 || parametersOf(known, call) != own ||
      llvm::any_of(pair.reads, [&](const Place &read) { return copies.nodes.count(read.first); }) ||
      llvm::any_of(call, [&](const NodeProto *node) { return copies.readers.count(node); });
  if (isOpen) {
    known.refuse(Reason::EqualModules, pair.reads.front().first,
                 {plain(displayName(pair.name)), module, twins.begin()->first});
    return false;
  }
  const auto &[other, parameters] = *lost.begin();
  std::map<size_t, size_t> values; // from the kept operation's parameters to its own
  for (size_t index : own) {
    values[index] = parameters.at(lastOf(known.target(index)).str());
    known.found.list[values[index]].takeValueOf(known.parameter(index));
  }
  MergedOperation copy;
  copy.module = other;
  copy.nodes = call.vec();
  for (const NodeProto *node : call) {
    copies.nodes.insert(node);
    for (const auto &[place, use] : usesBy(known, *node))
      if (auto value = values.find(use.parameter); value != values.end()) {
        copy.uses[place] = use;
        copy.uses[place].parameter = value->second;
      }
    if (auto bias = known.found.lostBias.find(node); bias != known.found.lostBias.end())
      copy.lostBias[node] = values.at(bias->second);
  }
  for (const Place &read : pair.reads)
    copies.readers.insert(read.first);
  known.takeMerged(std::move(copy), pair.reads);
  known.remark(pair.kept->nodes.back(),
               "'" + displayName(pair.name) + "' of module '" + displayName(other) +
                   "', which the export merged with this node, is computed again from its own "
                   "parameters");
  return true;
}

/// Adds the names that operations have beside what their nodes read, of removed operations that may
/// have read a parameter. Of two conversions of one value, one may be of a merged operation.
static void addHidden(Known &known) {
  const TracedProgram &program = known.program;
  llvm::DenseMap<const TracedOperation *, const MissingRead *> converted;
  for (const TracedOperation &operation : program.operations()) {
    llvm::StringSet<> merged;
    for (const NodeProto *node : operation.nodes)
      for (int i = 0; i < node->input_size(); ++i)
        if (const MissingRead *read = program.missingRead(*node, i)) {
          if (read->isMerged())
            merged.insert(read->name);
          const MissingRead *&first = converted[read->maker];
          if (read->maker && isConversion(operationOf(read->name))) {
            if (first && first->name != read->name)
              known.removed.push_back({read->name.str(), operation.scope});
            first = read;
          }
        }
    if (program.unnamedInputs(operation) == 0)
      continue;
    // The operands of a movement after the first are sizes. A removed movement hides nothing.
    ArrayRef<std::string> named = operation.fx.args;
    for (StringRef name : isMovement(operation.kind()) ? named.take_front() : named)
      if (!program.has(name) && !merged.contains(name) && !isMovement(operationOf(name)) &&
          program.mayHideParameter(name))
        known.removed.push_back({name.str(), operation.scope});
  }
}

void rules::merged(Known &known) {
  const TracedProgram &program = known.program;
  llvm::MapVector<StringRef, MergedPair, llvm::StringMap<unsigned>> found;
  llvm::StringMap<std::set<StringRef>> names; // of a value, as readers call it
  for (const MissingRead &read : program.missingReads()) {
    if (!read.maker)
      continue;
    std::set<StringRef> &all = names[read.value()];
    all.insert(read.name);
    if (read.isMerged() || all.size() > 1)
      if (const NodeProto *behind = lostBehind(program, read))
        return known.refuse(Reason::LostByMerge, behind,
                            {read.name, plain(nodeText(*behind)), whatIsLost(*behind)});
    if (!read.isMerged() || known.found.readsOfMerged.count(read.read))
      continue;
    MergedPair &pair =
        found.insert({read.name, {read.name, read.maker, {}, {}, read.mayBeRemoved}}).first->second;
    if (pair.kept != read.maker)
      continue;
    pair.reads.push_back(read.read);
    pair.readers.insert(read.operation->scope);
  }
  addHidden(known);
  Copies copies;
  for (auto &[name, pair] : found)
    if (!split(known, pair, copies))
      known.removed.push_back({name.str(), pair.readers.begin()->getKey().str()});
}
