//===- Merged.cpp - Operations that the exporter merged -------------------===//
//
// Two norms of one value with equal initial weights are one node in the file, and no node reads the
// second norm's parameters. The nodes that used its result still name it: `%layer_norm_1`, for
// which there is no node.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

/// The operations of a call of a module.
using Parts = llvm::SmallSetVector<const Operation *, 4>;

/// Parameters by module and by their last name.
using ByModule = std::map<std::string, std::map<std::string, size_t>>;

/// Whether `reader` names a missing value of the kind that `maker` computes, and is in another
/// module with the same last name and the same names of parameters: `layers.1.attn` for
/// `layers.0.attn`.
static bool isTwinOf(const TracedProgram &program, const Operation &maker,
                     const Operation &reader) {
  if (maker.scope == reader.scope || lastOf(maker.scope) != lastOf(reader.scope) ||
      llvm::none_of(reader.fx.args, [&](const std::string &name) {
        return !program.has(name) && operationOf(name) == operationOf(maker.fx.name);
      }))
    return false;
  std::set<StringRef> names[2];
  for (StringRef target : program.targets())
    for (int i : {0, 1})
      if (moduleOf(target) == (i ? reader.scope : maker.scope))
        names[i].insert(lastOf(target));
  return !names[0].empty() && names[0] == names[1];
}

/// Whether the result of `last` depends on a parameter that an operation of its module reads. The
/// values of nodes without metadata are followed, too, through the modules inside.
static bool readsParameter(const Known &known, const Operation &last) {
  const TracedProgram &program = known.program;
  llvm::SmallSetVector<const NodeProto *, 8> nodes;
  for (const Operation *part : program.operationsOfCall(last))
    nodes.insert(part->nodes.begin(), part->nodes.end());
  size_t own = nodes.size();
  for (size_t at = 0; at < nodes.size(); ++at)
    for (int i = 0; i < nodes[at]->input_size(); ++i) {
      auto use = known.found.uses.find({nodes[at], i});
      if (use != known.found.uses.end() && known.parameter(use->second.parameter).isParameter)
        return true;
      const std::string &input = nodes[at]->input(i);
      const Operation *maker = program.makerOf(input);
      if (!program.isComputed(input))
        continue;
      if (!maker)
        nodes.insert(program.nodeOf(input));
      else if (at >= own && (maker->scope == last.scope ||
                             StringRef(maker->scope).starts_with(last.scope + ".")))
        nodes.insert(maker->nodes.begin(), maker->nodes.end());
    }
  return false;
}

/// The reads of results of one operation under names of conversions that have no node.
using Converted =
    llvm::MapVector<const Operation *, llvm::SmallMapVector<StringRef, SmallVector<Place>, 2>>;

/// If a value is read under the names of two removed conversions, then one operation made both, or
/// two operations did that were merged. In the second case each operation in the module of the
/// kept one lacks a later operation of its kind.
static void addGuesses(const TracedProgram &program, const Converted &converted,
                       std::vector<MergedPair> &pairs) {
  for (const auto &[maker, byName] : converted)
    if (byName.size() == 2 &&
        llvm::all_of(program.operations(), [&, scope = maker->scope](const Operation &operation) {
          return operation.scope != scope || program.isNumberMissing(operation.fx.name);
        })) {
      const auto *second = numberOf(byName.begin()->first) < numberOf(byName.back().first)
                               ? std::next(byName.begin())
                               : byName.begin();
      pairs.push_back({second->first.str(), maker, second->second, /*isGuess=*/true});
    }
}

/// Finds pairs of merged operations by the names that readers have for the removed ones.
Findings rules::mergedPairs(const Known &known) {
  Findings findings;
  const TracedProgram &program = known.program;
  llvm::MapVector<StringRef, MergedPair, llvm::StringMap<unsigned>> merged;
  Converted converted;
  for (const Operation &operation : program.operations())
    for (const NodeProto *node : operation.nodes)
      for (int i = 0; i < node->input_size(); ++i) {
        const Operation *maker = program.makerOf(node->input(i));
        const std::vector<std::string> &args = operation.fx.args;
        if (!maker || maker == &operation || llvm::is_contained(args, maker->fx.name) ||
            llvm::is_contained(args, node->input(i)))
          continue;
        if (isTwinOf(program, *maker, operation) && !known.found.readsOfMerged.count({node, i}) &&
            readsParameter(known, *maker)) {
          findings.errors.push_back(messages::twinRead(*node, operation, *maker));
          continue;
        }
        SmallVector<StringRef> names, moved;
        for (StringRef name : args)
          if (!program.has(name) && !program.isFolded(name) && !llvm::is_contained(names, name) &&
              !llvm::is_contained(moved, name)) {
            if (operationOf(name) == operationOf(maker->fx.name))
              names.push_back(name);
            else if (isMovement(operationOf(name)))
              moved.push_back(name);
          }
        if (names.empty() && moved.size() == 1 && isConversion(operationOf(moved[0])))
          converted[maker][moved[0]].push_back({node, i});
        if (names.size() != 1) {
          // The operands of a movement after the first are sizes. A removed movement hides nothing.
          ArrayRef<std::string> named = args;
          for (StringRef name : isMovement(operation.kind()) ? named.take_front() : named)
            if (!program.has(name) && !isMovement(operationOf(name)) &&
                program.mayHideParameter(name))
              findings.removed.push_back({name.str(), operation.scope});
          continue;
        }
        MergedPair &found = merged.insert({names[0], {names[0].str(), maker, {}}}).first->second;
        if (found.kept == maker)
          found.reads.push_back({node, i});
      }
  for (auto &entry : merged)
    findings.pairs.push_back(std::move(entry.second));
  addGuesses(program, converted, findings.pairs);
  return findings;
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
  auto add = [&](size_t index) {
    if (known.parameter(index).isParameter)
      found.insert(index);
  };
  for (const NodeProto *node : nodes) {
    for (const auto &[place, use] : usesBy(known, *node)) {
      add(use.parameter);
    }
    if (auto lost = known.found.lostBias.find(node); lost != known.found.lostBias.end())
      found.insert(lost->second);
  }
  return found;
}

/// Returns the parameters, by their last names, of modules beside `module` whose parameters have
/// the initial values of `own`, all of `module`. The exporter merges their operations if they read
/// one value.
static ByModule equalModules(const Known &known, StringRef module, const std::set<size_t> &own) {
  ByModule equal;
  llvm::ArrayRef<std::string> targets = known.program.targets();
  const std::vector<Parameter> &list = known.found.list;
  for (size_t index = 0; index < list.size(); ++index) {
    StringRef other = moduleOf(targets[index]), last = lastOf(targets[index]);
    if (other == module || moduleOf(other) != moduleOf(module))
      continue;
    for (size_t one : own)
      if (lastOf(targets[one]) == last &&
          (!list[index].used || (list[index].initializer == list[one].initializer &&
                                 list[index].values == list[one].values)))
        equal[other.str()][last.str()] = index;
  }
  for (auto it = equal.begin(); it != equal.end();)
    it = it->second.size() == own.size() ? std::next(it) : equal.erase(it);
  return equal;
}

/// Returns the sibling modules of `module` whose parameters with the names of `own` are all
/// missing, and those of their parameters that are missing, by name.
static ByModule missingSiblings(const Known &known, StringRef module,
                                const std::map<size_t, size_t> &own) {
  ByModule missing;
  llvm::ArrayRef<std::string> targets = known.program.targets();
  const std::vector<Parameter> &list = known.found.list;
  for (size_t index = 0; index < list.size(); ++index) {
    StringRef other = moduleOf(targets[index]);
    if (list[index].isParameter && !list[index].used && other != module &&
        moduleOf(other) == moduleOf(module) && !known.program.isFoldedIntoOther(targets[index]))
      missing[other.str()][lastOf(targets[index]).str()] = index;
  }
  for (auto it = missing.begin(); it != missing.end();) {
    bool fits = llvm::all_of(
        own, [&](auto &entry) { return it->second.count(lastOf(targets[entry.first]).str()); });
    it = fits ? std::next(it) : missing.erase(it);
  }
  return missing;
}

/// Returns whose parameters the removed operation of a merged pair reads, by module. `own`: the
/// parameters of the kept one, all of `module`. Empty if that is uncertain.
static ByModule ownersOf(const Known &known, StringRef module,
                         const std::map<size_t, size_t> &own) {
  ByModule missing = missingSiblings(known, module, own);
  // A module that is called again was split before.
  if (auto twin = known.twins.find(module); missing.empty() && twin != known.twins.end()) {
    std::map<std::string, size_t> &ofTwin = missing[twin->second];
    for (size_t index = 0; index < known.found.list.size(); ++index)
      if (moduleOf(known.target(index)) == twin->second)
        ofTwin[lastOf(known.target(index)).str()] = index;
  }
  return missing.size() == 1 ? missing : ByModule();
}

/// Returns the nodes of the kept operation's call, in the order of the graph.
static std::vector<const NodeProto *> nodesOf(const TracedProgram &program, const Parts &parts) {
  std::vector<const NodeProto *> nodes;
  for (const Operation *part : parts)
    llvm::append_range(nodes, part->nodes);
  llvm::sort(nodes, [&](const NodeProto *one, const NodeProto *other) {
    return program.placeOf(*one) < program.placeOf(*other);
  });
  return nodes;
}

/// Whether operations read a constant that is no parameter and not restored yet.
static bool readFoldedValue(const Known &known, const Parts &parts) {
  return llvm::any_of(parts, [&](const Operation *part) {
    return llvm::any_of(part->uses, [&](const Use &use) {
      return !isScalar(*use.initializer) && !known.isRead(*use.node, use.operand);
    });
  });
}

/// Waits for the folded values that a merged operation reads: a parameter behind them is the other
/// module's, too.
Findings rules::splitPair(const Known &known, const MergedPair &pair) {
  if (!readFoldedValue(known, known.program.operationsOfCall(*pair.kept)))
    return splitRestoredPair(known, pair);
  Findings findings;
  findings.waits = true;
  return findings;
}

/// Computes a merged operation again for the module whose parameters are missing. Not settled if
/// that is uncertain; settled without a claim if no parameter is read.
Findings rules::splitRestoredPair(const Known &known, const MergedPair &pair) {
  Findings findings;
  const Parameters &found = known.found;
  Parts parts = known.program.operationsOfCall(*pair.kept);
  MergedClaim claim;
  MergedOperation &copy = claim.operation;
  copy.nodes = nodesOf(known.program, parts);
  // Which of two values another merged operation reads is not known.
  for (const NodeProto *node : copy.nodes)
    for (int i = 0; i < node->input_size(); ++i)
      if (found.readsOfMerged.count({node, i}))
        return findings;
  for (const MergedOperation &other : found.merged)
    if (llvm::any_of(pair.reads, [&](const Place &read) {
          return llvm::is_contained(other.nodes, read.first);
        }))
      return findings;
  std::map<size_t, size_t> &own = claim.values; // by the kept operation's parameter
  for (size_t index : parametersOf(known, copy.nodes))
    own[index] = 0;
  findings.isSettled = own.empty() && !readFoldedValue(known, parts);
  if (own.empty())
    return findings;
  StringRef module = moduleOf(known.target(own.begin()->first));
  if (llvm::any_of(own, [&](auto &one) { return moduleOf(known.target(one.first)) != module; }))
    return findings;
  ByModule owners = ownersOf(known, module, own);
  findings.isSettled = !owners.empty();
  if (owners.empty())
    return findings;
  copy.module = owners.begin()->first;
  for (auto &[from, to] : own)
    to = owners.begin()->second[lastOf(known.target(from)).str()];
  for (const NodeProto *node : copy.nodes) {
    for (const auto &[place, use] : usesBy(known, *node))
      if (own.count(use.parameter)) {
        copy.uses[place] = use;
        copy.uses[place].parameter = own[use.parameter];
      }
    auto lost = found.lostBias.find(node);
    if (lost != found.lostBias.end() && own.count(lost->second))
      copy.lostBias[node] = own[lost->second];
  }
  claim.reads = pair.reads;
  claim.twinOf = module.str();
  Repair remark = messages::computedAgain(pair, copy.module);
  findings.claim(Evidence::Order, std::move(claim), std::move(remark));
  return findings;
}

/// An error for each merged operation of which it is not known whose parameters it reads.
Findings rules::openPairs(const Known &known) {
  Findings findings;
  for (const MergedPair &pair : known.pairs) {
    SmallVector<const NodeProto *> nodes;
    for (const Operation *part : known.program.operationsOfCall(*pair.kept))
      nodes.append(part->nodes.begin(), part->nodes.end());
    std::set<size_t> own = parametersOf(known, nodes);
    if (own.empty() || pair.reads.empty())
      continue;
    StringRef module = moduleOf(known.target(*own.begin()));
    if (llvm::any_of(own, [&](size_t index) { return moduleOf(known.target(index)) != module; }))
      continue;
    ByModule equal = equalModules(known, module, own);
    if (!equal.empty())
      findings.errors.push_back(messages::mergedWithEqual(pair, module, equal.begin()->first));
  }
  return findings;
}
