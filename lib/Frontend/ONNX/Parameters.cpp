//===- Parameters.cpp - Which initializers are which parameters -----------===//
//
// PyTorch's default export merges initializers of equal value, drops zero
// biases and stores transposes of Linear weights under new names. The graph's
// metadata lists every parameter by placeholder, and each node names the
// placeholders that the operation it came from reads: from these two the
// parameters are put together again.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Parameters.h"
#include "lib/Frontend/ONNX/Folded.h"
#include "lib/Frontend/ONNX/Signature.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

namespace {

bool isFloat(const TensorProto &tensor) {
  return llvm::is_contained({1, 10, 11, 16}, tensor.data_type());
}

/// One element, whatever the rank: an epsilon, a scale, never a parameter that
/// an exporter would have renamed.
bool isScalar(const TensorProto &tensor) {
  return llvm::all_of(tensor.dims(), [](int64_t size) { return size == 1; });
}

StringRef moduleOf(StringRef target) {
  size_t dot = target.rfind('.');
  return dot == StringRef::npos ? "" : target.take_front(dot);
}

/// A read of a float initializer by a node.
struct Use {
  const NodeProto *node;
  int operand;
  const TensorProto *initializer;
};

/// The nodes that one operation of the exported program became.
struct Operation {
  FxNode fx;
  std::string scope;
  std::vector<const NodeProto *> nodes;
  std::vector<Use> uses;
};

class Finder {
public:
  Finder(Model &model, const ParameterOptions &options, Parameters &out)
      : model(model), graph(model.proto().graph()), options(options), out(out) {
    for (const TensorProto &tensor : graph.initializer())
      if (isFloat(tensor))
        initializers[tensor.name()] = &tensor;
  }

  void bySignature(const std::vector<SignatureEntry> &signature);
  void byRule();

private:
  void collectOperations();
  void assign(Operation &operation);
  void assignOne(const Operation &operation, const Use &use, size_t parameter);
  void loseBias(const Operation &operation, size_t parameter);
  void splitMergedOperations();
  void noteRemoved(const Operation &operation);
  bool splitMergedOperation(StringRef name, const Operation &kept, ArrayRef<std::pair<const NodeProto *, int>> reads);
  void collectKnown();
  std::vector<RemovedOperation> removed;
  std::vector<FoldedRead> unexplainedReads() const;
  void findSecondNames(bool byModule);
  void takeFirstNames();

  void remark(const NodeProto *node, const llvm::Twine &text) {
    out.repairs.push_back({node, text.str()});
  }

  Model &model;
  const GraphProto &graph;
  const ParameterOptions &options;
  Parameters &out;
  llvm::StringMap<const TensorProto *> initializers;
  llvm::StringMap<size_t> byPlaceholder;
  std::vector<std::string> targets;
  /// Values of the exported program that the graph has.
  llvm::StringSet<> known;
  llvm::MapVector<StringRef, Operation> operations;
  std::set<const TensorProto *> assigned;
  SmallVector<bool> isAlias;
  /// (operation scope, whether an embedding) of each read of a parameter.
  std::map<size_t, std::vector<std::pair<std::string, bool>>> readers;
};

} // namespace

void Finder::collectOperations() {
  for (const NodeProto &node : graph.node()) {
    FxNode fx = readFxNode(node);
    if (fx.name.empty())
      continue;
    StringRef key = metadata(node.metadata_props(), "pkg.torch.onnx.fx_node");
    Operation &operation = operations[key.take_until([](char c) { return c == ' '; })];
    if (operation.nodes.empty()) {
      operation.fx = std::move(fx);
      operation.scope = readScope(node).value_or("");
    }
    operation.nodes.push_back(&node);
    for (int i = 0; i < node.input_size(); ++i) {
      auto it = initializers.find(node.input(i));
      if (it != initializers.end())
        operation.uses.push_back({&node, i, it->second});
    }
  }
}

/// Makes `use` a read of a parameter; finds out whether it is transposed.
void Finder::assignOne(const Operation &operation, const Use &use,
                       size_t index) {
  Parameter &parameter = out.list[index];
  StringRef target = targets[index], name = use.initializer->name();
  bool renamed = name != target;
  // aten.linear's weight is [out, in]; a product that reads it as it is reads a
  // transpose that the exporter folded.
  bool transposed = false;
  if (renamed && StringRef(operation.fx.target).starts_with("aten.linear") &&
      use.operand == 1 && use.initializer->dims_size() == 2) {
    bool transB = false;
    for (const AttributeProto &attribute : use.node->attribute())
      if (attribute.name() == "transB")
        transB = attribute.i() != 0;
    transposed = (use.node->op_type() == "MatMul" || use.node->op_type() == "Gemm") && !transB;
  }
  if (!parameter.initializer) {
    parameter.initializer = use.initializer;
    parameter.transposed = transposed;
    if (renamed)
      remark(use.node, "parameter '" + parameter.name + "' is restored from " +
                           (transposed ? "the transposed" : "the merged") +
                           " initializer '" + displayName(name) + "'");
  }
  parameter.used = true;
  assigned.insert(use.initializer);
  readers[index].push_back({operation.scope, StringRef(operation.fx.target).starts_with("aten.embedding")});
  out.uses[{use.node, use.operand}] = {index, transposed};
}

void Finder::loseBias(const Operation &operation, size_t index) {
  // The product or norm itself is where the bias was added.
  for (const NodeProto *node : llvm::reverse(operation.nodes)) {
    StringRef type = node->op_type();
    if (type != "Gemm" && type != "MatMul" && type != "LayerNormalization" &&
        type != "Conv")
      continue;
    const TensorProto *weight = nullptr;
    for (const Use &use : operation.uses)
      if (use.node == node && use.operand == 1)
        weight = use.initializer;
    if (!weight || weight->dims_size() == 0)
      continue;
    bool firstDim = type == "Conv";
    for (const AttributeProto &attribute : node->attribute())
      firstDim |= attribute.name() == "transB" && attribute.i() != 0;
    out.list[index].used = true;
    out.list[index].shape = {weight->dims(firstDim ? 0 : weight->dims_size() - 1)};
    out.list[index].dataType = weight->data_type();
    out.lostBias[node] = index;
    remark(node, "bias '" + out.list[index].name +
                     "' of zeros, which the export dropped, is restored");
    return;
  }
}

void Finder::assign(Operation &operation) {
  SmallVector<size_t> wanted;
  for (const std::string &name : operation.fx.args) {
    auto it = byPlaceholder.find(name);
    if (it != byPlaceholder.end() && !llvm::is_contained(wanted, it->second))
      wanted.push_back(it->second);
  }
  if (wanted.empty())
    return;
  // aten.addmm reads its bias first, the ONNX product last.
  if (StringRef(operation.fx.target).starts_with("aten.addmm") &&
      wanted.size() > 1 && !operation.fx.args.empty() &&
      byPlaceholder.count(operation.fx.args.front()))
    std::rotate(wanted.begin(), wanted.begin() + 1, wanted.end());

  SmallVector<const Use *> uses;
  for (const Use &use : operation.uses) {
    auto *exact = llvm::find_if(wanted, [&](size_t index) {
      return targets[index] == use.initializer->name();
    });
    if (exact != wanted.end())
      assignOne(operation, use, *exact);
    else
      uses.push_back(&use);
  }
  llvm::erase_if(wanted, [&](size_t index) {
    return llvm::any_of(operation.uses, [&](const Use &use) {
      return targets[index] == use.initializer->name();
    });
  });
  if (uses.size() > wanted.size())
    llvm::erase_if(uses,
                   [](const Use *use) { return isScalar(*use->initializer); });
  // A weight that was dropped is unheard of, a bias is: the first operands win.
  // A bias alone that meets a matrix is the lost one.
  size_t next = 0;
  for (size_t index : wanted) {
    bool isBias = StringRef(targets[index]).ends_with("bias");
    if (next < uses.size() &&
        !(isBias && uses[next]->initializer->dims_size() > 1)) {
      const TensorProto *taken = uses[next]->initializer;
      assignOne(operation, *uses[next++], index);
      // Several nodes of one operation may read it.
      while (next < uses.size() && uses[next]->initializer == taken &&
             uses.size() > wanted.size())
        assignOne(operation, *uses[next++], index);
    } else if (isBias) {
      loseBias(operation, index);
    }
  }
}

void Finder::collectKnown() {
  for (const std::string &name : readPlaceholders(graph))
    known.insert(name);
  for (const NodeProto &node : graph.node()) {
    known.insert(readFxNode(node).name);
    for (const std::string &name : node.output())
      known.insert(name);
  }
}

/// Two norms of one value with equal initial weights are one node in the file, and the second norm's parameters are
/// read by none. The nodes behind it still name what they read: `%layer_norm_1`, of which there is no node.
void Finder::splitMergedOperations() {
  llvm::StringMap<const Operation *> makers; // by value
  for (const auto &entry : operations)
    for (const NodeProto *node : entry.second.nodes)
      for (const std::string &name : node->output())
        makers[name] = &entry.second;
  struct Merged {
    const Operation *kept;
    SmallVector<std::pair<const NodeProto *, int>> reads;
  };
  llvm::MapVector<StringRef, Merged, llvm::StringMap<unsigned>> merged;
  for (const auto &entry : operations)
    for (const NodeProto *node : entry.second.nodes)
      for (int i = 0; i < node->input_size(); ++i) {
        const Operation *maker = makers.lookup(node->input(i));
        if (!maker || maker == &entry.second || llvm::is_contained(entry.second.fx.args, maker->fx.name))
          continue;
        SmallVector<StringRef> names;
        for (const std::string &name : entry.second.fx.args)
          if (!known.contains(name) && operationOf(name) == operationOf(maker->fx.name) && !llvm::is_contained(names, name))
            names.push_back(name);
        if (names.size() != 1) {
          noteRemoved(entry.second);
          continue;
        }
        Merged &found = merged.insert({names[0], {maker, {}}}).first->second;
        if (found.kept == maker)
          found.reads.push_back({node, i});
      }
  for (auto &[name, found] : merged)
    if (!splitMergedOperation(name, *found.kept, found.reads))
      removed.push_back({name.str(), readScope(*found.reads.front().first).value_or("")});
}

/// What an operation names and does not read, but for what only moves data.
void Finder::noteRemoved(const Operation &operation) {
  for (const std::string &name : operation.fx.args)
    if (!known.contains(name) && !isMovement(operationOf(name)) && !StringRef(name).contains("sym_"))
      removed.push_back({name, operation.scope});
}

/// Returns whether it found them, or there are none to find.
bool Finder::splitMergedOperation(StringRef name, const Operation &kept, ArrayRef<std::pair<const NodeProto *, int>> reads) {
  // The parameters that the operation which was kept reads, all of one module.
  MergedOperation copy;
  copy.nodes = kept.nodes;
  std::map<size_t, size_t> own; // by the kept operation's parameter
  for (const auto &[place, use] : out.uses)
    if (llvm::is_contained(kept.nodes, place.first) && out.list[use.parameter].isParameter)
      own[use.parameter] = 0;
  for (const auto &[node, index] : out.lostBias)
    if (llvm::is_contained(kept.nodes, node))
      own[index] = 0;
  if (own.empty())
    return true;
  StringRef module = moduleOf(targets[own.begin()->first]);
  if (llvm::any_of(own, [&](auto &entry) { return moduleOf(targets[entry.first]) != module; }))
    return false;
  // A module beside it whose parameters of these names are all missing.
  std::map<std::string, std::map<std::string, size_t>> missing;
  for (size_t index = 0; index < out.list.size(); ++index) {
    StringRef other = moduleOf(targets[index]);
    if (out.list[index].isParameter && !out.list[index].used && other != module && moduleOf(other) == moduleOf(module))
      missing[other.str()][StringRef(targets[index]).substr(other.size()).str()] = index;
  }
  for (auto it = missing.begin(); it != missing.end();) {
    bool fits = llvm::all_of(own, [&](auto &entry) {
      return it->second.count(StringRef(targets[entry.first]).substr(module.size()).str());
    });
    it = fits ? std::next(it) : missing.erase(it);
  }
  if (missing.size() != 1)
    return false;
  for (auto &[from, to] : own) {
    to = missing.begin()->second[StringRef(targets[from]).substr(module.size()).str()];
    Parameter &parameter = out.list[to], &source = out.list[from];
    parameter.initializer = source.initializer;
    parameter.transposed = source.transposed;
    parameter.shape = source.shape;
    parameter.dataType = source.dataType;
    parameter.used = true;
  }
  for (const auto &[place, use] : out.uses)
    if (own.count(use.parameter) && llvm::is_contained(kept.nodes, place.first)) {
      copy.uses[place] = use;
      copy.uses[place].parameter = own[use.parameter];
    }
  for (const auto &[node, index] : out.lostBias)
    if (own.count(index) && llvm::is_contained(kept.nodes, node))
      copy.lostBias[node] = own[index];
  copy.module = missing.begin()->first;
  for (const auto &read : reads)
    out.readsOfMerged[read] = out.merged.size();
  out.merged.push_back(std::move(copy));
  remark(kept.nodes.back(), "'" + name + "' of module '" + displayName(missing.begin()->first) +
                                "', which the export merged with this node, is computed by its own parameters again");
  return true;
}

/// Reads of float initializers that are of no parameter. What a node of the exported program reads and no node
/// computes is a value that was folded; numbers of one element that no such name is left for are the exporter's own.
std::vector<FoldedRead> Finder::unexplainedReads() const {
  std::vector<FoldedRead> reads;
  auto add = [&](const Use &use, StringRef name, StringRef scope) {
    // An initializer has its value's name, unless it was merged with another one.
    reads.push_back({use.node, use.operand, use.initializer, name.str(), operationOf(name), scope.str(), readSourceText(*use.node).str()});
  };
  std::set<const NodeProto *> seen;
  for (const auto &entry : operations) {
    const Operation &operation = entry.second;
    seen.insert(operation.nodes.begin(), operation.nodes.end());
    SmallVector<const Use *> tensors, numbers;
    for (const Use &use : operation.uses)
      if (!out.uses.count({use.node, use.operand}))
        (isScalar(*use.initializer) ? numbers : tensors).push_back(&use);
    SmallVector<StringRef> names;
    for (const std::string &name : operation.fx.args)
      if (!known.contains(name) && !llvm::is_contained(names, name))
        names.push_back(name);
    // What reads nothing that was folded has the rest from the exporter itself (the weight of a norm without one).
    bool missesOne = llvm::any_of(operation.fx.args, [&](const std::string &name) {
      auto it = byPlaceholder.find(name);
      return it != byPlaceholder.end() && !out.list[it->second].used;
    });
    if (names.empty() && !missesOne)
      continue;
    auto takeName = [&](const Use &use, size_t uses) -> StringRef {
      auto own = llvm::find(names, StringRef(use.initializer->name()));
      if (own == names.end() && (names.size() != 1 || uses > 1))
        return "";
      StringRef name = own != names.end() ? *own : names.front();
      names.erase(llvm::find(names, name));
      return name;
    };
    for (const Use *use : tensors) {
      StringRef name = takeName(*use, tensors.size());
      add(*use, name.empty() ? StringRef(use->initializer->name()) : name, operation.scope);
    }
    for (const Use *use : numbers)
      if (StringRef name = takeName(*use, numbers.size()); !name.empty())
        add(*use, name, operation.scope);
  }
  for (const NodeProto &node : graph.node())
    for (int i = 0; i < node.input_size(); ++i) {
      auto it = initializers.find(node.input(i));
      if (it != initializers.end() && !seen.count(&node) && !isScalar(*it->second) && !out.uses.count({&node, i}))
        add({&node, i, it->second}, node.input(i), readScope(node).value_or(""));
    }
  return reads;
}

/// Listed names that no node reads: second names of a tied parameter. By
/// module: a node in this name's module reads a parameter of another one. Else:
/// of the only parameter that both an embedding and something else read.
void Finder::findSecondNames(bool byModule) {
  for (size_t index = 0; index < out.list.size(); ++index) {
    Parameter &second = out.list[index];
    if (second.used || !second.isParameter || isAlias[index] || !StringRef(second.name).ends_with("weight"))
      continue;
    StringRef module = moduleOf(targets[index]);
    SmallVector<size_t> found;
    for (auto &[other, list] : readers) {
      bool here = llvm::any_of(
          list, [&](auto &reader) { return reader.first == module; });
      bool looksUp =
          llvm::any_of(list, [](auto &reader) { return reader.second; });
      bool multiplies =
          llvm::any_of(list, [](auto &reader) { return !reader.second; });
      if (byModule ? here && moduleOf(targets[other]) != module
                   : looksUp && multiplies)
        found.push_back(other);
    }
    if (found.size() != 1 || !out.list[found.front()].isParameter)
      continue;
    Parameter &kept = out.list[found.front()];
    remark(nullptr, "parameter '" + second.name +
                        "' is tied: a second name of '" + kept.name + "'");
    kept.aliases.push_back(second.name);
    isAlias[index] = true;
  }
}

/// A tied parameter is written under the first of its listed names, in its
/// place.
void Finder::takeFirstNames() {
  for (size_t index = 0; index < out.list.size(); ++index) {
    if (!out.list[index].used || out.list[index].aliases.empty())
      continue;
    size_t first = index;
    for (size_t other = 0; other < index; ++other)
      if (llvm::is_contained(out.list[index].aliases, out.list[other].name))
        first = std::min(first, other);
    if (first == index)
      continue;
    std::string name = out.list[first].name;
    std::swap(out.list[first], out.list[index]);
    std::swap(out.list[first].name, out.list[index].name);
    for (std::string &alias : out.list[first].aliases)
      if (alias == name)
        alias = out.list[index].name;
    isAlias[index] = true;
    isAlias[first] = false;
    for (auto &use : out.uses)
      if (use.second.parameter == index)
        use.second.parameter = first;
  }
}

void Finder::bySignature(const std::vector<SignatureEntry> &signature) {
  StringRef first = StringRef(signature.front().target).split('.').first;
  bool shared = llvm::all_of(signature, [&](const SignatureEntry &entry) {
    auto [head, rest] = StringRef(entry.target).split('.');
    return head == first && rest.contains('.');
  });
  if (shared && !options.keepPrefix)
    out.prefix = (first + ".").str();
  for (const SignatureEntry &entry : signature) {
    if (!byPlaceholder.try_emplace(entry.placeholder, out.list.size()).second)
      continue;
    StringRef name = entry.target;
    name.consume_front(out.prefix);
    out.list.push_back({name.str(), {}, entry.isParameter});
    targets.push_back(entry.target);
  }
  collectOperations();
  for (auto &entry : operations)
    assign(entry.second);
  // Nodes without metadata read initializers under their true names. A node with metadata that does not name the
  // parameter reads something else of equal value.
  for (const NodeProto &node : graph.node())
    for (int i = readFxNode(node).name.empty() ? 0 : node.input_size(); i < node.input_size(); ++i) {
      auto it = initializers.find(node.input(i));
      if (it == initializers.end() || out.uses.count({&node, i}))
        continue;
      auto target = llvm::find(targets, node.input(i));
      if (target == targets.end())
        continue;
      size_t index = target - targets.begin();
      if (!out.list[index].used || out.list[index].initializer == it->second) {
        out.list[index].used = true;
        out.list[index].initializer = it->second;
        assigned.insert(it->second);
        out.uses[{&node, i}] = {index, false};
      }
    }
  collectKnown();
  splitMergedOperations();
  isAlias.assign(out.list.size(), false);
  findSecondNames(/*byModule=*/true);
  FoldedParameters folded(model, options, targets, out);
  if (folded.restore(unexplainedReads(), std::move(removed), isAlias))
    findSecondNames(/*byModule=*/false);
  folded.report(isAlias);
  takeFirstNames();
}

/// Without a signature: every float initializer that is no scalar is a
/// parameter, but for frequencies of rotary positions.
void Finder::byRule() {
  llvm::StringMap<size_t> index;
  for (const TensorProto &tensor : graph.initializer()) {
    if (!isFloat(tensor) || isScalar(tensor) ||
        StringRef(tensor.name()).ends_with("inv_freq"))
      continue;
    index[tensor.name()] = out.list.size();
    out.list.push_back({tensor.name(), {}, true, &tensor});
  }
  for (const NodeProto &node : graph.node())
    for (int i = 0; i < node.input_size(); ++i) {
      auto it = index.find(node.input(i));
      if (it == index.end())
        continue;
      out.list[it->second].used = true;
      out.uses[{&node, i}] = {it->second, false};
    }
}

/// Whether every element of an initializer has one bit pattern.
static bool isFilled(Model &model, const TensorProto &tensor) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  llvm::Expected<mlir::DenseElementsAttr> data =
      model.read(&context, tensor, int64_t(1) << 20);
  if (!data) {
    llvm::consumeError(data.takeError());
    return false;
  }
  if (data->isSplat())
    return true;
  llvm::ArrayRef<char> raw = data->getRawData();
  size_t size = raw.size() / std::max<int64_t>(data->getNumElements(), 1);
  for (size_t at = size; size && at < raw.size(); at += size)
    if (memcmp(raw.data(), raw.data() + at, size))
      return false;
  return true;
}

/// A constant-filled initializer that several module scopes read was merged:
/// each scope has its own.
static void splitMerged(Model &model, Parameters &out) {
  size_t count = out.list.size();
  for (size_t index = 0; index < count; ++index) {
    std::map<std::string, const NodeProto *> first;
    std::vector<std::string> names;
    std::map<std::string, std::vector<ParameterUse *>> byScope;
    for (auto &[key, use] : out.uses)
      if (use.parameter == index) {
        std::string scope = readScope(*key.first).value_or("");
        if (!byScope.count(scope))
          names.push_back(scope);
        byScope[scope].push_back(&use);
        first.emplace(scope, key.first);
      }
    if (byScope.size() < 2 || byScope.count("") ||
        !isFilled(model, *out.list[index].initializer))
      continue;
    StringRef name = out.list[index].name;
    std::string last = name.rsplit('.').second.str(),
                module = moduleOf(name).str();
    for (const std::string &scope : names) {
      if (scope == module)
        continue;
      Parameter copy = out.list[index];
      copy.name = scope + "." + (last.empty() ? copy.name : last);
      out.repairs.push_back(
          {first[scope],
           "parameter '" + copy.name + "' is taken for merged with '" +
               out.list[index].name +
               "', whose elements are all equal, and told apart"});
      for (ParameterUse *use : byScope[scope])
        use->parameter = out.list.size();
      out.list.push_back(std::move(copy));
    }
    bool stillUsed = llvm::any_of(
        out.uses, [&](auto &entry) { return entry.second.parameter == index; });
    out.list[index].used = stillUsed;
  }
}

Parameters onnx::findParameters(Model &model, const ParameterOptions &options) {
  Parameters out;
  std::vector<SignatureEntry> signature = readSignature(model.proto().graph());
  out.hasSignature = !signature.empty();
  Finder finder(model, options, out);
  if (out.hasSignature) {
    finder.bySignature(signature);
  } else {
    finder.byRule();
    splitMerged(model, out);
  }
  return out;
}
