//===- Scripted.cpp - Parameters of TorchScript's exporter ----------------===//
//
// PyTorch's older exporter (dynamo=False) writes no signature. It keeps one of
// several initializers of equal elements, and writes the others as Identity nodes
// of their names. It folds transposes of weights under new names, onnx::MatMul_12.
// A parameter that has two names in PyTorch is written once, so that a named
// Identity is always a parameter of its own. An Identity of a fold is none: folds
// of one weight that two modules share are merged like those of equal weights.
// Scopes and names of biases tell some of these apart; the file is refused where
// they do not, since equal values are no record of one parameter.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Reader/Scope.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Rules/Parameters.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Begins the names of initializers that the exporter computed.
static constexpr llvm::StringLiteral kFold = "onnx::";
/// Number of tables of one size that a weight is compared with.
static constexpr size_t kMaxTables = 8;

/// Returns the scope of the first call of a module: "a.query" for "a.query_1". Numbers are cut from
/// the last component, or from all.
static std::string firstCall(StringRef scope, bool all) {
  SmallVector<StringRef> parts;
  scope.split(parts, '.');
  for (auto [i, part] : llvm::enumerate(parts)) {
    StringRef root = part.rtrim("0123456789");
    if ((all || i + 1 == parts.size()) && root.size() < part.size() && root.size() > 1 &&
        root.consume_back("_"))
      part = root;
  }
  return llvm::join(parts, ".");
}

/// Whether one of the names is of this module.
static bool hasNameOf(const std::set<StringRef> &names, StringRef module) {
  std::string prefix = (module + ".").str();
  auto first = names.lower_bound(prefix);
  return first != names.end() && first->starts_with(prefix);
}

/// Whether a value or node has the name of a module's operation: "/h.0/attn/MatMul_output_0".
static bool isPath(StringRef name) { return name.starts_with("/"); }

/// Returns the scope of the module that a node comes from, also that of a fused node.
static std::string scopeOf(const NodeProto &node) {
  if (std::optional<std::string> scope = readScope(node))
    return *scope;
  for (const std::string &name : node.output())
    if (isPath(name)) {
      std::string scope = StringRef(name).drop_front().rsplit('/').first.str();
      std::replace(scope.begin(), scope.end(), '/', '.');
      return scope;
    }
  return "";
}

namespace {

class ScriptedParameters {
public:
  ScriptedParameters(Model &model, const ParameterOptions &options, Parameters &out)
      : model(model), graph(model.proto().graph()), options(options), out(out) {}

  void restore() {
    for (auto [index, parameter] : llvm::enumerate(out.list))
      byName[parameter.name] = index;
    splitIdentities();
    collectReads();
    collectScopes();
    refuseMerged();
    for (const auto &[sizes, indices] : tables)
      llvm::for_each(indices, [&](size_t index) { notePadding(index); });
    SmallVector<size_t> again;
    for (size_t index = 0; index < out.list.size(); ++index) {
      const Parameter &parameter = out.list[index];
      if (!parameter.used || !isFold(parameter))
        continue;
      if (isWeight(index)) {
        std::string scope = moduleThatReads(index);
        if (firstCall(scope, true) != scope)
          again.push_back(index);
        else
          settle(index);
      } else if (options.constants.contains(parameter.name)) {
        out.list[index].isParameter = false;
      } else if (!options.freezes(parameter.name)) {
        unknown.push_back(displayName(parameter.name));
      }
    }
    llvm::for_each(again, [&](size_t index) { settle(index); });
    report();
  }

private:
  void remark(size_t index, std::string text) {
    out.repairs.push_back({reads[index].front().first, std::move(text)});
  }

  /// Whether the exporter computed its initializer.
  static bool isFold(const Parameter &parameter) {
    return StringRef(parameter.initializer->name()).starts_with(kFold);
  }

  /// Makes each Identity of an initializer, or of such an Identity, a parameter of its own.
  void splitIdentities() {
    llvm::StringSet<> outputs = namesOf(graph.output());
    for (const NodeProto &node : graph.node()) {
      if (node.op_type() != "Identity" || node.input_size() != 1 || node.output_size() != 1 ||
          !StringRef(node.name()).starts_with("Identity_") || outputs.contains(node.output(0)))
        continue;
      auto kept = byName.find(node.input(0));
      if (kept == byName.end())
        continue;
      size_t of = kept->second; // a new name moves the entries
      if (!byName.try_emplace(node.output(0), out.list.size()).second)
        continue;
      Parameter copy = out.list[of];
      copy.name = node.output(0);
      out.uses[{&node, 0}] = {out.list.size(), false};
      if (!isFold(copy))
        out.repairs.push_back(
            {&node, say("parameter {}, which the export merged with {} of equal elements, is told "
                        "apart",
                        {copy.name, node.input(0)})});
      out.list.push_back(std::move(copy));
    }
  }

  void collectReads() {
    reads.resize(out.list.size());
    uses.resize(out.list.size());
    for (const NodeProto &node : graph.node())
      forEachRead(node, [&](const NodeProto &reader, int operand) {
        auto it = byName.find(reader.input(operand));
        auto use = out.uses.find({&reader, operand});
        if (it != byName.end() &&
            (use == out.uses.end() || use->second.parameter == it->second)) // not split
          reads[it->second].push_back({&reader, operand});
      });
    for (auto &[place, use] : out.uses)
      uses[use.parameter].push_back(&use);
    for (auto [index, parameter] : llvm::enumerate(out.list)) {
      parameter.used = !uses[index].empty();
      firstOf.try_emplace(parameter.initializer, index);
      if (!isFold(parameter))
        named.insert(parameter.name);
      bool isTable = llvm::any_of(reads[index], [](const auto &read) {
        return read.first->op_type() == "Gather" && read.second == 0;
      });
      const auto &dims = parameter.initializer->dims();
      if (isTable && dims.size() == 2)
        tables[{dims[0], dims[1]}].push_back(index);
    }
  }

  void collectScopes() {
    for (const NodeProto &node : graph.node()) {
      std::optional<std::string> scope = readScope(node);
      ScopeNodes *nodes = scope && node.op_type() != "Constant" ? &byScope[*scope] : nullptr;
      if (nodes)
        ++nodes->count;
      for (const std::string &name : node.input()) {
        if (nodes && byName.contains(name))
          nodes->reads.insert(name);
        readers[name] = &node;
      }
    }
  }

  /// Whether a fold is the transposed weight of matmuls.
  bool isWeight(size_t index) const {
    return out.list[index].initializer->dims_size() == 2 && !reads[index].empty() &&
           llvm::all_of(reads[index], [](const auto &read) {
             return read.first->op_type() == "MatMul" && read.second == 1;
           });
  }

  std::string moduleThatReads(size_t index) const {
    return readScope(*reads[index].front().first).value_or("");
  }

  /// Makes all reads of `from` reads of `to`, or of its transpose.
  void moveReads(size_t from, size_t to, bool transposed) {
    for (ParameterUse *use : uses[from])
      *use = {to, transposed};
    if (from == to)
      return;
    llvm::append_range(uses[to], uses[from]);
    uses[from].clear();
    out.list[from].used = false;
  }

  /// Returns the table of tokens that has the elements of a transposed weight. An invalid tensor is
  /// an error elsewhere.
  std::optional<size_t> tableOf(size_t index) {
    const TensorProto &tensor = *out.list[index].initializer;
    auto same = tables.find({tensor.dims(1), tensor.dims(0)});
    if (same != tables.end())
      for (size_t table : llvm::ArrayRef(same->second).take_front(kMaxTables))
        if (model.isTranspose(&context, *out.list[table].initializer, tensor))
          return table;
    return std::nullopt;
  }

  /// Returns the name of the parameter that is added to the matmul with a weight; null if there is
  /// none.
  const std::string *biasOf(size_t index) const {
    const NodeProto *matmul = reads[index].front().first;
    const NodeProto *sum = matmul->output_size() ? readers.lookup(matmul->output(0)) : nullptr;
    if (!sum || sum->op_type() != "Add")
      return nullptr;
    auto bias = llvm::find_if(sum->input(), [&](const std::string &name) {
      auto found = byName.find(name);
      return found != byName.end() && out.list[found->second].initializer->dims_size() == 1;
    });
    return bias == sum->input().end() ? nullptr : &*bias;
  }

  /// Returns PyTorch's name of a transposed weight: that of its bias tells it, or the scope, of a
  /// module that computes nothing but this matmul. Empty if it is not known.
  std::string nameOf(size_t index) const {
    std::string name;
    if (const std::string *bias = biasOf(index)) {
      StringRef stem = *bias; // m.lin.bias, m.attention.in_proj_bias
      if (stem.consume_back("bias"))
        name = (stem + "weight").str();
    } else {
      std::string scope = moduleThatReads(index);
      auto nodes = byScope.find(scope);
      if (!scope.empty() && nodes != byScope.end() && nodes->second.count == 1)
        name = scope + ".weight";
    }
    return byName.count(name) ? "" : name;
  }

  /// Gives a transposed weight the name that PyTorch has for it.
  void nameWeight(size_t index) {
    Parameter &parameter = out.list[index];
    std::string name = nameOf(index);
    if (name.empty())
      return unnamed.push_back(displayName(parameter.name));
    byName[name] = index;
    remark(index, say("parameter {} is restored from the transposed initializer {}",
                      {name, parameter.name}));
    parameter.name = name;
    parameter.transposed = true;
    moveReads(index, index, /*transposed=*/true);
  }

  /// Whether two modules have biases of their own that begin with equal elements: one is a copy of
  /// the other.
  bool areCopies(size_t index, size_t other) const {
    const std::string *bias = biasOf(index), *otherBias = biasOf(other);
    return bias && otherBias && *bias != *otherBias &&
           out.list[byName.lookup(*bias)].initializer ==
               out.list[byName.lookup(*otherBias)].initializer;
  }

  /// Makes a weight another one, which has a name, or a table that it is the transpose of.
  void tie(size_t index, size_t other) {
    if (auto first = tied.find(other); first != tied.end())
      other = first->second;
    const Parameter &kept = out.list[other];
    remark(index, say("{} is {}: they are tied", {out.list[index].name, kept.name}));
    tied[index] = other;
    moveReads(index, other, kept.initializer != out.list[index].initializer || kept.transposed);
  }

  /// Tells which parameter a transposed weight is. A module that is called again has a second fold
  /// of its weight: a bias of the first call's name shows it, one of its own name that it is
  /// another module. Two modules with biases of equal elements are copies.
  void settle(size_t index) {
    std::string scope = moduleThatReads(index);
    size_t same = firstOf.lookup(out.list[index].initializer);
    auto nodes = byScope.find(scope);
    for (bool all : {false, true}) {
      std::string first = firstCall(scope, all);
      if (same != index && first != scope && nodes != byScope.end() && !hasNameOf(named, scope) &&
          hasNameOf(nodes->second.reads, first))
        return tie(index, same);
    }
    if (same != index && areCopies(index, same))
      return nameWeight(index);
    std::optional<size_t> other = same != index ? same : tableOf(index);
    if (other && !options.assumeTied)
      open.push_back({index, *other});
    else if (other && *options.assumeTied)
      tie(index, *other);
    else
      nameWeight(index);
  }

  /// Notes a table with one row of zeros: nn.Embedding has it with padding_idx, which the exporter
  /// drops. An invalid tensor is an error elsewhere.
  void notePadding(size_t index) {
    const Parameter &table = out.list[index];
    if (options.freezes(table.name))
      return;
    auto [known, isNew] = zeroRows.try_emplace(table.initializer);
    if (isNew)
      known->second = model.zeroRows(&context, *table.initializer, 2);
    if (known->second.size() != 1 || table.initializer->dims(0) < 2)
      return;
    int64_t row = known->second.front();
    remark(
        index,
        say("row {} of {} is 0. If the model has padding_idx={}, which this exporter does not "
            "record, this row is trained if the loss depends on it, unlike in PyTorch: export with "
            "the default exporter (dynamo=True)",
            {row, table.name, row}));
    out.repairs.back().isNote = true;
  }

  /// Refuses parameters that another tool merged: it removes the Identity nodes that tell them
  /// apart. ONNX Runtime writes its producer, or the domains of its operators, into such files.
  void refuseMerged() {
    const ModelProto &file = model.proto();
    bool isOriginal =
        file.producer_name() == "pytorch" &&
        llvm::all_of(file.opset_import(), [](const auto &opset) { return opset.domain().empty(); });
    if (isOriginal)
      return;
    for (auto [index, parameter] : llvm::enumerate(out.list)) {
      std::vector<std::string> scopes;
      for (auto [reader, operand] : reads[index])
        if (std::string scope = firstCall(scopeOf(*reader), /*all=*/true);
            !scope.empty() && !llvm::is_contained(scopes, scope))
          scopes.push_back(scope);
      if (parameter.initializer->dims_size() == 1 && scopes.size() > 1 &&
          isFilled(model, *parameter.initializer))
        return (void)out.refusals.emplace_back(
            Reason::MergedByTool, nullptr,
            llvm::ArrayRef<Said>{parameter.name, scopes[0], scopes[1]});
    }
  }

  /// Reports what the file does not show.
  void report() {
    if (!unnamed.empty())
      out.repairs.push_back(
          {nullptr,
           (unnamed.size() == 1 ? "weight " : "weights ") + listOf(unnamed) +
               (unnamed.size() == 1 ? " is" : " are") +
               " trained and written under the names and in the layouts of this file, transposed: "
               "the export folded PyTorch's names away. torch.onnx.export(..., "
               "do_constant_folding=False) keeps them",
           /*isNote=*/true});
    if (!open.empty()) {
      auto [index, other] = open.front();
      std::string more = ", and " + std::to_string(open.size() - 1) + " more";
      out.refusals.emplace_back(Reason::OpenTie, nullptr,
                                llvm::ArrayRef<Said>{out.list[index].name, moduleThatReads(index),
                                                     out.list[other].name,
                                                     plain(open.size() > 1 ? more : "")});
    }
    if (!unknown.empty())
      out.refusals.emplace_back(Reason::OpenFold, nullptr,
                                plain((unknown.size() == 1 ? "initializer " : "initializers ") +
                                      listOf(unknown) + (unknown.size() == 1 ? " was" : " were")));
  }

  Model &model;
  const GraphProto &graph;
  const ParameterOptions &options;
  Parameters &out;
  mlir::MLIRContext context{mlir::MLIRContext::Threading::DISABLED}; // of the types of tensors
  llvm::StringMap<size_t> byName;
  /// Indexed by parameter: the nodes and operands that read it by its name, and its entries in
  /// `out.uses`.
  std::vector<SmallVector<std::pair<const NodeProto *, int>, 1>> reads;
  std::vector<SmallVector<ParameterUse *, 1>> uses;
  /// Tables that are looked up, by sizes.
  std::map<std::pair<int64_t, int64_t>, SmallVector<size_t, 1>> tables;
  /// The first rows of zeros of tables, which several parameters may begin with.
  llvm::DenseMap<const TensorProto *, SmallVector<int64_t>> zeroRows;
  /// The first parameter with each initializer: the exporter merged the others with it.
  llvm::DenseMap<const TensorProto *, size_t> firstOf;
  /// The names of parameters that are no folds.
  std::set<StringRef> named;
  /// The number of nodes in a scope, and the names of the parameters that they read.
  struct ScopeNodes {
    size_t count = 0;
    std::set<StringRef> reads;
  };
  llvm::StringMap<ScopeNodes> byScope;
  /// A reader of each value.
  llvm::StringMap<const NodeProto *> readers;
  /// The parameters that weights were tied to.
  std::map<size_t, size_t> tied;
  /// Weights that may be others under a second name, those that have no name, and constants.
  std::vector<std::pair<size_t, size_t>> open;
  std::vector<std::string> unnamed, unknown;
};

} // namespace

bool onnx::isScripted(const ModelProto &model) {
  // Another tool may have changed the file since, its producer and the names of fused nodes.
  bool isOriginal = model.producer_name() == "pytorch";
  return llvm::any_of(model.graph().node(),
                      [&](const NodeProto &node) {
                        return (isOriginal && isPath(node.name())) ||
                               llvm::any_of(node.output(), [](StringRef name) {
                                 return isPath(name) && name.ends_with("_output_0");
                               });
                      }) &&
         llvm::none_of(model.graph().node(),
                       [](const NodeProto &node) { return node.metadata_props_size() > 0; });
}

void onnx::restoreScripted(Model &model, const ParameterOptions &options, Parameters &out) {
  ScriptedParameters(model, options, out).restore();
}
