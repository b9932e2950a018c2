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
#include "lib/Frontend/ONNX/Record/Parameters.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Scope.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;
using llvm::Twine;

namespace {

/// Begins the names of initializers that the exporter computed.
constexpr llvm::StringLiteral kFold = "onnx::";
/// Number of tables of one size that a weight is compared with.
constexpr size_t kMaxTables = 8;

class ScriptedParameters {
public:
  ScriptedParameters(Model &model, const ParameterOptions &options, Parameters &out)
      : model(model), graph(model.proto().graph()), options(options), out(out) {}

  void restore();

private:
  void splitIdentities();
  void collectReads();
  bool isFold(size_t index) const;
  bool isWeight(size_t index) const;
  std::string moduleThatReads(size_t index) const;
  const std::string *biasOf(size_t index) const;
  std::string nameOf(size_t index) const;
  void nameWeight(size_t index);
  std::optional<size_t> tableOf(size_t index);
  bool areCopies(size_t index, size_t other) const;
  void settle(size_t index);
  void tie(size_t index, size_t other);
  void moveReads(size_t from, size_t to, bool transposed);
  void report();
  void notePadding(size_t index);
  void refuseMerged();
  bool isTransposeOf(const TensorProto &table, const TensorProto &tensor);
  void remark(size_t index, const Twine &text) {
    out.repairs.push_back({reads[index].front().first, text.str()});
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

/// Makes each Identity of an initializer, or of such an Identity, a parameter of its own.
void ScriptedParameters::splitIdentities() {
  llvm::StringSet<> outputs;
  for (const ValueInfoProto &output : graph.output())
    outputs.insert(output.name());
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
    if (!StringRef(copy.initializer->name()).starts_with(kFold))
      out.repairs.push_back(
          {&node, "parameter '" + displayName(copy.name) + "', which the export merged with '" +
                      displayName(node.input(0)) + "' of equal elements, is told apart"});
    out.list.push_back(std::move(copy));
  }
}

void ScriptedParameters::collectReads() {
  reads.resize(out.list.size());
  uses.resize(out.list.size());
  for (const NodeProto &node : graph.node()) {
    if (std::optional<std::string> scope = readScope(node); scope && node.op_type() != "Constant") {
      ScopeNodes &nodes = byScope[*scope];
      ++nodes.count;
      for (const std::string &name : node.input())
        if (byName.contains(name))
          nodes.reads.insert(name);
    }
    for (const std::string &name : node.input())
      readers[name] = &node;
  }
  for (const NodeProto &node : graph.node())
    forEachRead(node, [&](const NodeProto &reader, int operand) {
      auto it = byName.find(reader.input(operand));
      auto use = out.uses.find({&reader, operand});
      bool isSplit =
          it != byName.end() && use != out.uses.end() && use->second.parameter != it->second;
      if (it != byName.end() && !isSplit)
        reads[it->second].push_back({&reader, operand});
    });
  for (auto &[place, use] : out.uses)
    uses[use.parameter].push_back(&use);
  for (auto [index, parameter] : llvm::enumerate(out.list)) {
    parameter.used = !uses[index].empty();
    firstOf.try_emplace(parameter.initializer, index);
    if (!StringRef(parameter.initializer->name()).starts_with(kFold))
      named.insert(parameter.name);
    bool isTable = llvm::any_of(reads[index], [](const auto &read) {
      return read.first->op_type() == "Gather" && read.second == 0;
    });
    const auto &dims = parameter.initializer->dims();
    if (isTable && dims.size() == 2)
      tables[{dims[0], dims[1]}].push_back(index);
  }
}

/// Whether the exporter computed it.
bool ScriptedParameters::isFold(size_t index) const {
  return out.list[index].used && StringRef(out.list[index].initializer->name()).starts_with(kFold);
}

/// Whether a fold is the transposed weight of products.
bool ScriptedParameters::isWeight(size_t index) const {
  return out.list[index].initializer->dims_size() == 2 && !reads[index].empty() &&
         llvm::all_of(reads[index], [](const auto &read) {
           return read.first->op_type() == "MatMul" && read.second == 1;
         });
}

std::string ScriptedParameters::moduleThatReads(size_t index) const {
  return readScope(*reads[index].front().first).value_or("");
}

/// Makes all reads of `from` reads of `to`, or of its transpose.
void ScriptedParameters::moveReads(size_t from, size_t to, bool transposed) {
  for (ParameterUse *use : uses[from])
    *use = {to, transposed};
  if (from == to)
    return;
  llvm::append_range(uses[to], uses[from]);
  uses[from].clear();
  out.list[from].used = false;
}

/// An invalid tensor is an error elsewhere.
bool ScriptedParameters::isTransposeOf(const TensorProto &table, const TensorProto &tensor) {
  llvm::Expected<bool> found = model.isTranspose(&context, table, tensor);
  if (!found) {
    llvm::consumeError(found.takeError());
    return false;
  }
  return *found;
}

/// Returns the table of tokens that has the elements of a transposed weight.
std::optional<size_t> ScriptedParameters::tableOf(size_t index) {
  const TensorProto &tensor = *out.list[index].initializer;
  auto same = tables.find({tensor.dims(1), tensor.dims(0)});
  if (same != tables.end())
    for (size_t table : llvm::ArrayRef(same->second).take_front(kMaxTables))
      if (isTransposeOf(*out.list[table].initializer, tensor))
        return table;
  return std::nullopt;
}

/// Whether one of the names is of this module.
static bool hasNameOf(const std::set<StringRef> &names, StringRef module) {
  std::string prefix = (module + ".").str();
  auto first = names.lower_bound(prefix);
  return first != names.end() && first->starts_with(prefix);
}

/// Returns the name of the parameter that is added to the product with a weight; null if there is
/// none.
const std::string *ScriptedParameters::biasOf(size_t index) const {
  const NodeProto *product = reads[index].front().first;
  const NodeProto *sum = product->output_size() ? readers.lookup(product->output(0)) : nullptr;
  if (!sum || sum->op_type() != "Add")
    return nullptr;
  for (const std::string &name : sum->input())
    if (auto bias = byName.find(name);
        bias != byName.end() && out.list[bias->second].initializer->dims_size() == 1)
      return &name;
  return nullptr;
}

/// Returns PyTorch's name of a transposed weight: that of its bias tells it, or the scope, of a
/// module that computes nothing but this product. Empty if it is not known.
std::string ScriptedParameters::nameOf(size_t index) const {
  if (const std::string *bias = biasOf(index)) {
    StringRef name = *bias; // m.lin.bias, m.attention.in_proj_bias
    return name.consume_back("bias") && !byName.count((name + "weight").str())
               ? (name + "weight").str()
               : "";
  }
  std::string scope = moduleThatReads(index);
  auto nodes = byScope.find(scope);
  bool isAlone = nodes != byScope.end() && nodes->second.count == 1;
  std::string name = scope + ".weight";
  return scope.empty() || !isAlone || byName.count(name) ? "" : name;
}

/// Gives a transposed weight the name that PyTorch has for it.
void ScriptedParameters::nameWeight(size_t index) {
  Parameter &parameter = out.list[index];
  std::string name = nameOf(index);
  if (name.empty())
    return unnamed.push_back(displayName(parameter.name));
  byName[name] = index;
  remark(index, "parameter '" + displayName(name) +
                    "' is restored from the transposed initializer '" +
                    displayName(parameter.name) + "'");
  parameter.name = name;
  parameter.transposed = true;
  moveReads(index, index, /*transposed=*/true);
}

/// Whether two modules have biases of their own that begin with equal elements: one is a copy of
/// the other.
bool ScriptedParameters::areCopies(size_t index, size_t other) const {
  const std::string *bias = biasOf(index), *otherBias = biasOf(other);
  return bias && otherBias && *bias != *otherBias &&
         out.list[byName.lookup(*bias)].initializer ==
             out.list[byName.lookup(*otherBias)].initializer;
}

/// Makes a weight another one, which has a name, or a table that it is the transpose of.
void ScriptedParameters::tie(size_t index, size_t other) {
  if (auto first = tied.find(other); first != tied.end())
    other = first->second;
  remark(index, "'" + displayName(out.list[index].name) + "' is '" +
                    displayName(out.list[other].name) + "': they are tied");
  tied[index] = other;
  const Parameter &kept = out.list[other];
  moveReads(index, other, kept.initializer != out.list[index].initializer || kept.transposed);
}

/// Tells which parameter a transposed weight is. A module that is called again has a second fold of
/// its weight: a bias of the first call's name shows it, one of its own name that it is another
/// module. Two modules with biases of equal elements are copies.
void ScriptedParameters::settle(size_t index) {
  std::string scope = moduleThatReads(index);
  std::optional<size_t> other;
  if (size_t first = firstOf.lookup(out.list[index].initializer); first != index)
    other = first;
  auto nodes = byScope.find(scope);
  for (bool all : {false, true}) {
    std::string first = firstCall(scope, all);
    if (other && first != scope && nodes != byScope.end() && !hasNameOf(named, scope) &&
        hasNameOf(nodes->second.reads, first))
      return tie(index, *other);
  }
  if (other && areCopies(index, *other))
    return nameWeight(index);
  if (!other)
    other = tableOf(index);
  if (!other)
    return nameWeight(index);
  if (!options.assumeTied)
    return open.push_back({index, *other});
  if (*options.assumeTied)
    return tie(index, *other);
  nameWeight(index);
}

/// Notes a table with one row of zeros: nn.Embedding has it with padding_idx, which the exporter
/// drops. An invalid tensor is an error elsewhere.
void ScriptedParameters::notePadding(size_t index) {
  const Parameter &table = out.list[index];
  if (options.freezes(table.name))
    return;
  auto [known, isNew] = zeroRows.try_emplace(table.initializer);
  if (isNew) {
    llvm::Expected<SmallVector<int64_t>> rows = model.zeroRows(&context, *table.initializer, 2);
    if (rows)
      known->second = *rows;
    else
      llvm::consumeError(rows.takeError());
  }
  if (known->second.size() != 1 || table.initializer->dims(0) < 2)
    return;
  std::string row = std::to_string(known->second.front());
  remark(
      index,
      "row " + row + " of '" + displayName(table.name) +
          "' is 0. If the model has padding_idx=" + row +
          ", which this exporter does not record, this row is trained if the loss depends on it, "
          "unlike in PyTorch: export with the default exporter (dynamo=True)");
  out.repairs.back().isNote = true;
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

/// Refuses parameters that another tool merged: it removes the Identity nodes that tell them apart.
/// ONNX Runtime writes its producer, or the domains of its operators, into such files.
void ScriptedParameters::refuseMerged() {
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
      return out.errors.push_back(
          "initializer '" + displayName(parameter.name) + "' is read by modules '" +
          displayName(scopes[0]) + "' and '" + displayName(scopes[1]) +
          "': a tool that optimized the file merged parameters of equal elements, which training "
          "must tell apart. Use the file that PyTorch wrote, before the optimization");
  }
}

/// Reports what the file does not show.
void ScriptedParameters::report() {
  if (!unnamed.empty())
    out.repairs.push_back(
        {nullptr,
         (unnamed.size() == 1 ? "weight " : "weights ") + listOf(unnamed) +
             (unnamed.size() == 1 ? " is" : " are") +
             " trained and written under the names and in the layouts of this file, transposed: the "
             "export folded PyTorch's names away. torch.onnx.export(..., do_constant_folding=False) "
             "keeps them",
         /*isNote=*/true});
  if (!open.empty()) {
    auto [index, other] = open.front();
    std::string more = open.size() > 1 ? ", and " + std::to_string(open.size() - 1) + " more" : "";
    out.errors.push_back(
        "the file does not show whether '" + displayName(out.list[index].name) + "' of module '" +
        displayName(moduleThatReads(index)) + "' is '" + displayName(out.list[other].name) +
        "' under a second name or a parameter of its own, since both begin with equal elements" +
        more +
        ". Export with torch.onnx.export(..., do_constant_folding=False), or pass --assume-tied true "
        "if such weights are tied, or false");
  }
  if (!unknown.empty())
    out.errors.push_back(
        std::string(unknown.size() == 1 ? "initializer " : "initializers ") + listOf(unknown) +
        (unknown.size() == 1 ? " was" : " were") +
        " computed by the export, of constants or of parameters that the file does not have: training may leave them out. Export with "
        "torch.onnx.export(..., do_constant_folding=False), or pass --constant NAME for what depends on no parameter");
}

void ScriptedParameters::restore() {
  for (auto [index, parameter] : llvm::enumerate(out.list))
    byName[parameter.name] = index;
  splitIdentities();
  collectReads();
  refuseMerged();
  for (const auto &[sizes, indices] : tables)
    llvm::for_each(indices, [&](size_t index) { notePadding(index); });
  SmallVector<size_t> again;
  for (size_t index = 0; index < out.list.size(); ++index) {
    if (!isFold(index))
      continue;
    if (isWeight(index)) {
      std::string scope = moduleThatReads(index);
      if (firstCall(scope, true) != scope)
        again.push_back(index);
      else
        settle(index);
    } else if (const std::string &name = out.list[index].name; options.constants.contains(name)) {
      out.list[index].isParameter = false;
    } else if (!options.freezes(name)) {
      unknown.push_back(displayName(name));
    }
  }
  llvm::for_each(again, [&](size_t index) { settle(index); });
  report();
}

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
