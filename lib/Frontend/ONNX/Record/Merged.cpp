//===- Merged.cpp - Operations that the exporter merged -------------------===//
#include "lib/Frontend/ONNX/Record/Finder.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Regex.h"

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

/// Splits merged operations. Two norms of one value with equal initial weights are one node in the
/// file, and no node reads the second norm's parameters. The nodes that used its result still name
/// it: `%layer_norm_1`, for which there is no node.
void Finder::splitMergedOperations() {
  llvm::MapVector<StringRef, Merged, llvm::StringMap<unsigned>> merged;
  llvm::MapVector<
      const Operation *,
      llvm::SmallMapVector<StringRef, SmallVector<std::pair<const NodeProto *, int>>, 2>>
      converted;
  for (const Operation &operation : program.operations())
    for (const NodeProto *node : operation.nodes)
      for (int i = 0; i < node->input_size(); ++i) {
        const Operation *maker = program.makerOf(node->input(i));
        const std::vector<std::string> &args = operation.fx.args;
        if (!maker || maker == &operation || llvm::is_contained(args, maker->fx.name) ||
            llvm::is_contained(args, node->input(i)))
          continue;
        if (isTwinOf(*maker, operation) && !out.readsOfMerged.count({node, i}) &&
            readsParameter(*maker)) {
          out.errors.push_back(
              "node '" + displayName(node->name()) + "' of module '" +
              displayName(operation.scope) + "' reads what the export computed for module '" +
              displayName(maker->scope) +
              "', whose parameters have equal values, so it would train with the wrong parameters. Export with torch.onnx.export(..., optimize=False)");
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
            if (!program.has(name) && !isMovement(operationOf(name)))
              noteRemoved(name, operation.scope);
          continue;
        }
        Merged &found = merged.insert({names[0], {names[0].str(), maker, {}}}).first->second;
        if (found.kept == maker)
          found.reads.push_back({node, i});
      }
  for (auto &entry : merged)
    pending.push_back(std::move(entry.second));
  splitPending();
  // If a value is read under the names of two removed conversions, then one operation made both, or
  // two operations did that were merged. In the second case each operation in the module of the
  // kept one lacks a later operation of its kind.
  for (auto &[maker, byName] : converted)
    if (byName.size() == 2 && llvm::all_of(program.operations(), [scope = maker->scope, this](
                                                                     const Operation &operation) {
          return operation.scope != scope || program.isNumberMissing(operation.fx.name);
        })) {
      auto *second = numberOf(byName.begin()->first) < numberOf(byName.back().first)
                         ? std::next(byName.begin())
                         : byName.begin();
      split({second->first.str(), maker, second->second});
    }
}

/// Whether `reader` names a missing value of the kind that `maker` computes, and is in another
/// module with the same last name and the same names of parameters: `layers.1.attn` for
/// `layers.0.attn`.
bool Finder::isTwinOf(const Operation &maker, const Operation &reader) const {
  if (maker.scope == reader.scope || lastOf(maker.scope) != lastOf(reader.scope) ||
      llvm::none_of(reader.fx.args, [&](const std::string &name) {
        return !program.has(name) && operationOf(name) == operationOf(maker.fx.name);
      }))
    return false;
  std::set<StringRef> names[2];
  for (StringRef target : targets)
    for (int i : {0, 1})
      if (moduleOf(target) == (i ? reader.scope : maker.scope))
        names[i].insert(lastOf(target));
  return !names[0].empty() && names[0] == names[1];
}

/// Whether the result of `last` depends on a parameter that an operation of its module reads. The
/// values of nodes without metadata are followed, too, through the modules inside.
bool Finder::readsParameter(const Operation &last) const {
  llvm::SmallSetVector<const NodeProto *, 8> nodes;
  for (const Operation *part : program.operationsOfCall(last))
    nodes.insert(part->nodes.begin(), part->nodes.end());
  size_t own = nodes.size();
  for (size_t at = 0; at < nodes.size(); ++at)
    for (int i = 0; i < nodes[at]->input_size(); ++i) {
      auto use = out.uses.find({nodes[at], i});
      if (use != out.uses.end() && out.list[use->second.parameter].isParameter)
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

/// Splits the pending operations that can be split by now; the parameters of the others may be
/// restored later. Operations that are left in the end may hide a parameter.
void Finder::splitPending() {
  llvm::erase_if(pending, [&](const Merged &one) { return split(one); });
}

/// Records a value that an operation names and does not read, except masks (no gradient flows to
/// them), tensors that code creates, and sizes.
void Finder::noteRemoved(StringRef name, StringRef scope) {
  std::string kind = operationOf(name);
  if (!words::is(kind, words::Trait::Masks) && !isMadeByCode(kind) &&
      !name.contains(words::kSize) && !program.isFolded(name))
    removed.push_back({name.str(), scope.str()});
}

/// Returns the parameters that nodes read, or lost as biases of zeros.
std::set<size_t> Finder::parametersOf(ArrayRef<const NodeProto *> nodes) const {
  std::set<size_t> found;
  for (const auto &[place, use] : out.uses)
    if (llvm::is_contained(nodes, place.first) && out.list[use.parameter].isParameter)
      found.insert(use.parameter);
  for (const auto &[node, index] : out.lostBias)
    if (llvm::is_contained(nodes, node))
      found.insert(index);
  return found;
}

/// Returns the parameters, by their last names, of modules beside `module` whose parameters have
/// the initial values of `own`, all of `module`. The exporter merges their operations if they read
/// one value.
std::map<std::string, std::map<std::string, size_t>>
Finder::equalModules(StringRef module, const std::set<size_t> &own) const {
  std::map<std::string, std::map<std::string, size_t>> equal;
  for (size_t index = 0; index < out.list.size(); ++index) {
    StringRef other = moduleOf(targets[index]), last = lastOf(targets[index]);
    if (other == module || moduleOf(other) != moduleOf(module))
      continue;
    for (size_t one : own)
      if (lastOf(targets[one]) == last &&
          (!out.list[index].used || (out.list[index].initializer == out.list[one].initializer &&
                                     out.list[index].values == out.list[one].values)))
        equal[other.str()][last.str()] = index;
  }
  for (auto it = equal.begin(); it != equal.end();)
    it = it->second.size() == own.size() ? std::next(it) : equal.erase(it);
  return equal;
}

/// Returns which of `modules` computes a merged operation, from the lines of source of its readers:
/// `torch.sigmoid(self.a(x))` of a sigmoid. Empty if a line does not tell, also because it has
/// another operation of the reader's kind.
std::string Finder::moduleInSource(const Merged &merged, ArrayRef<std::string> modules) const {
  std::set<StringRef> found;
  for (const auto &read : merged.reads) {
    Operation reader;
    reader.fx = readFxNode(*read.first);
    StringRef kind = reader.kind(), line = readSourceText(*read.first);
    llvm::Regex word("(^|[^A-Za-z_0-9])(" + llvm::Regex::escape(kind) + ")([^A-Za-z_0-9]|$)");
    SmallVector<StringRef> groups;
    if (!word.match(line, &groups))
      return "";
    StringRef rest = line.drop_front(groups[2].end() - line.begin());
    if (word.match(rest) || !rest.consume_front("("))
      return "";
    StringRef name = rest.split('(').first.split('.').second;
    auto *module =
        llvm::find_if(modules, [&](StringRef one) { return !name.empty() && lastOf(one) == name; });
    if (module == modules.end())
      return "";
    found.insert(*module);
  }
  return found.size() == 1 ? found.begin()->str() : "";
}

/// Adds an error for each merged operation of which it is not known whose parameters it reads.
void Finder::refuseMerged() {
  for (const Merged &merged : pending) {
    SmallVector<const NodeProto *> nodes;
    for (const Operation *part : program.operationsOfCall(*merged.kept))
      nodes.append(part->nodes.begin(), part->nodes.end());
    std::set<size_t> own = parametersOf(nodes);
    if (own.empty() || merged.reads.empty())
      continue;
    StringRef module = moduleOf(targets[*own.begin()]);
    if (llvm::any_of(own, [&](size_t index) { return moduleOf(targets[index]) != module; }))
      continue;
    auto equal = equalModules(module, own);
    if (equal.empty())
      continue;
    out.errors.push_back(
        "node '" + displayName(merged.reads.front().first->name()) + "' reads '%" + merged.name +
        "', which the export merged with a node of module '" + displayName(module) + "': module '" +
        displayName(equal.begin()->first) +
        "' has parameters of equal values, and the file does not have which of the two computes it. Export with torch.onnx.export(..., optimize=False)");
  }
}

/// Returns the sibling modules of `module` whose parameters with the names of `own` are all
/// missing, and those of their parameters that are missing, by name.
std::map<std::string, std::map<std::string, size_t>>
Finder::missingSiblings(StringRef module, const std::map<size_t, size_t> &own) const {
  std::map<std::string, std::map<std::string, size_t>> missing;
  for (size_t index = 0; index < out.list.size(); ++index) {
    StringRef other = moduleOf(targets[index]);
    if (out.list[index].isParameter && !out.list[index].used && other != module &&
        moduleOf(other) == moduleOf(module) && !program.isFoldedIntoOther(targets[index]))
      missing[other.str()][lastOf(targets[index]).str()] = index;
  }
  for (auto it = missing.begin(); it != missing.end();) {
    bool fits = llvm::all_of(
        own, [&](auto &entry) { return it->second.count(lastOf(targets[entry.first]).str()); });
    it = fits ? std::next(it) : missing.erase(it);
  }
  return missing;
}

/// Computes a merged operation again for the module whose parameters are missing. Returns false and
/// changes nothing if that is uncertain; also returns true if no parameter is read.
bool Finder::split(const Merged &merged) {
  // The parameters that the kept operation reads, all of one module.
  MergedOperation copy;
  llvm::SmallSetVector<const Operation *, 4> parts = program.operationsOfCall(*merged.kept);
  for (const NodeProto &node : graph.node())
    if (llvm::any_of(parts,
                     [&](const Operation *part) { return llvm::is_contained(part->nodes, &node); }))
      copy.nodes.push_back(&node);
  // Which of two values another merged operation reads is not known.
  for (const NodeProto *node : copy.nodes)
    for (int i = 0; i < node->input_size(); ++i)
      if (out.readsOfMerged.count({node, i}))
        return false;
  for (const MergedOperation &other : out.merged)
    if (llvm::any_of(merged.reads,
                     [&](const auto &read) { return llvm::is_contained(other.nodes, read.first); }))
      return false;
  std::map<size_t, size_t> own; // by the kept operation's parameter
  for (size_t index : parametersOf(copy.nodes))
    own[index] = 0;
  // It may read a folded value that is not restored yet.
  bool isOpen = llvm::any_of(parts, [&](const Operation *part) {
    return llvm::any_of(part->uses, [&](const Use &use) {
      return !isScalar(*use.initializer) && !out.uses.count({use.node, use.operand});
    });
  });
  if (own.empty())
    return !isOpen;
  StringRef module = moduleOf(targets[own.begin()->first]);
  if (llvm::any_of(own, [&](auto &entry) { return moduleOf(targets[entry.first]) != module; }))
    return false;
  std::map<std::string, std::map<std::string, size_t>> missing = missingSiblings(module, own);
  // A module that is called again was split before.
  if (auto twin = twins.find(module); missing.empty() && twin != twins.end()) {
    std::map<std::string, size_t> &ofTwin = missing[twin->second];
    for (size_t index = 0; index < out.list.size(); ++index)
      if (moduleOf(targets[index]) == twin->second)
        ofTwin[lastOf(targets[index]).str()] = index;
  }
  if (missing.size() == 1) {
    twins[module] = missing.begin()->first;
  } else {
    missing = equalModules(module, parametersOf(copy.nodes));
    std::vector<std::string> names = {module.str()};
    for (const auto &one : missing)
      names.push_back(one.first);
    std::string found = moduleInSource(merged, names);
    if (found.empty())
      return false;
    if (found == module) // it calls the same module again
      return true;
    missing = {{found, missing[found]}};
  }
  for (auto &[from, to] : own) {
    to = missing.begin()->second[lastOf(targets[from]).str()];
    out.list[to].takeValueOf(out.list[from]);
  }
  for (const auto &[place, use] : out.uses)
    if (own.count(use.parameter) && llvm::is_contained(copy.nodes, place.first)) {
      copy.uses[place] = use;
      copy.uses[place].parameter = own[use.parameter];
    }
  for (const auto &[node, index] : out.lostBias)
    if (own.count(index) && llvm::is_contained(copy.nodes, node))
      copy.lostBias[node] = own[index];
  copy.module = missing.begin()->first;
  for (const auto &read : merged.reads)
    out.readsOfMerged[read] = out.merged.size();
  out.merged.push_back(std::move(copy));
  remark(
      merged.kept->nodes.back(),
      "'" + merged.name + "' of module '" + displayName(missing.begin()->first) +
          "', which the export merged with this node, is computed again from its own parameters");
  return true;
}

/// Returns what a node computes that the file does not tell from another one of its kind; null
/// if it does.
static const char *indistinct(const NodeProto &node) {
  FxNode fx = readFxNode(node);
  if (StringRef(fx.target).starts_with(words::kCrossEntropy))
    return "losses with the same label smoothing";
  if (node.op_type() == "Dropout" || node.op_type() == "Bernoulli" ||
      attentionDropout(fx).value_or(0) > 0)
    return "the same random numbers";
  return changesBuffer(node, 3) ? "batch normalizations of the same mode" : nullptr;
}

/// Returns a node that `value` depends on, and that may have been merged with another one before
/// `reader`. Operations have numbers in the order of the program: where each number up to the next
/// operation of its kind is there, none was.
const NodeProto *Finder::indistinctBehind(const std::string &value, const Operation &reader) const {
  llvm::SmallSetVector<const NodeProto *, 16> reached;
  if (const NodeProto *node = program.nodeOf(value))
    reached.insert(node);
  auto mayBeMissing = [&](const NodeProto &node) {
    std::string kind = operationOf(readFxNode(node).name);
    if (kind.empty() || kind == "getitem")
      return true;
    std::set<int64_t> before;
    bool isAfter = false;
    for (const NodeProto &other : graph.node()) {
      isAfter |= &other == reader.nodes.back();
      FxNode fx = readFxNode(other);
      if (operationOf(fx.name) != kind)
        continue;
      if (isAfter)
        return numberOf(fx.name) != int64_t(before.size());
      before.insert(numberOf(fx.name));
    }
    return true;
  };
  for (size_t at = 0; at < reached.size(); ++at) {
    if (indistinct(*reached[at]) && mayBeMissing(*reached[at]))
      return reached[at];
    for (const std::string &name : reached[at]->input())
      if (const NodeProto *node = program.nodeOf(name))
        reached.insert(node);
  }
  return nullptr;
}

/// Adds the names that an operation has for a value that it reads, of the operation `maker`: its
/// own name, and those of removed operations.
void Finder::addNames(const Operation &operation, StringRef value, const Operation &maker,
                      std::set<std::string> &names) const {
  auto [reads, named] = operation.readsOf(value, maker.fx.name);
  if (named > 0)
    names.insert(maker.fx.name);
  SmallVector<StringRef> missing = program.missingNames(operation), equal;
  llvm::erase_if(missing, [&](StringRef name) { return program.isFolded(name); });
  for (StringRef name : missing)
    if (operation.readsAlsoAs(name, value, maker.fx.name))
      equal.push_back(name);
  if (!equal.empty()) // two of one kind are two operations
    names.insert(maker.fx.name);
  else if (reads >= named + missing.size())
    equal = missing;
  for (StringRef name : equal)
    names.insert(name.str());
}

/// Adds an error for an operation that was merged with another one, from which it may differ in
/// what the file lacks: the label smoothing of a cross-entropy, the mode of a batch normalization,
/// the numbers of a dropout.
void Finder::refuseIndistinct() {
  auto refuse = [&](StringRef name, const llvm::Twine &what) {
    out.errors.push_back(("the export merged '" + displayName(name) + "' with another " + what +
                          ". Export with torch.onnx.export(..., optimize=False)")
                             .str());
  };
  auto draws = [](const NodeProto &node) {
    return node.op_type() == "Dropout" || node.op_type() == "Bernoulli";
  };
  auto trains = [](const NodeProto &node) { return changesBuffer(node, 3); };
  for (const Operation &operation : program.operations()) {
    for (StringRef missing : program.missingNames(operation)) {
      std::string kind = operationOf(missing);
      auto reads = [&](llvm::function_ref<bool(const NodeProto &)> is) {
        return llvm::any_of(operation.nodes,
                            [&](const NodeProto *node) { return program.readsFrom(*node, is); });
      };
      if (kind == "cross_entropy_loss")
        return refuse(missing, "loss of the same operands, and the file does not show whether "
                               "their label smoothing is the same");
      // The missing draw itself, or what was computed from it.
      bool isDraw = words::is(kind, words::Trait::Draws);
      if (reads([&](const NodeProto &maker) {
            return isDraw ? draws(maker)
                          : operationOf(readFxNode(maker).name) == kind &&
                                program.readsFrom(maker, draws);
          }))
        return refuse(missing, "of the same operand, and each draws random numbers of its own");
      if (kind == "getitem" && reads(trains))
        return refuse(missing, "batch normalization, in training, and the file does not show "
                               "whether it normalizes by the batch, too");
    }
  }
  // Equal operations on two merged values were merged, too.
  llvm::StringMap<std::set<std::string>> names; // of a value, as readers call it
  for (const Operation &operation : program.operations()) {
    for (const NodeProto *node : operation.nodes)
      for (const std::string &read : node->input()) {
        const Operation *maker = program.makerOf(read);
        if (!maker || maker == &operation)
          continue;
        std::set<std::string> &found = names[read];
        addNames(operation, read, *maker, found);
        const NodeProto *behind = found.size() > 1 ? indistinctBehind(read, operation) : nullptr;
        if (!behind)
          continue;
        auto name =
            llvm::find_if(found, [&](const std::string &name) { return name != maker->fx.name; });
        return refuse(*name, "operation behind node '" + displayName(behind->name()) +
                                 "', and the file does not show whether both read " +
                                 indistinct(*behind));
      }
  }
}
