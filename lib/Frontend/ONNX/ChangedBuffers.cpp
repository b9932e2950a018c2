//===- ChangedBuffers.cpp - Buffers that the forward pass changes ---------===//
#include "dialects/nn/Ops/Norm.h"
#include "lib/Frontend/ONNX/Checks.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include <set>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// Checks that the loss depends on no buffer that the module changes.
class ChangedBuffers {
public:
  ChangedBuffers(ImportContext &context, const Definitions &definitions, const NodeSet &needed,
                 const States &states, ArrayRef<StringRef> roots);

  LogicalResult check();

private:
  // Nodes that read a changed buffer.
  LogicalResult checkFolded();
  LogicalResult checkNode(const NodeProto &node);
  LogicalResult checkStatistics(const NodeProto &node);
  LogicalResult checkBuilt();
  LogicalResult refuse(StringRef name, const Twine &reader, Location location);
  LogicalResult refuseNode(StringRef name, const NodeProto &node);

  // Nodes that read a value which the exporter removed, and which may depend on a changed buffer.
  LogicalResult checkRemoved();
  std::set<std::string> changedWithoutNorms() const;
  void collectNames();
  bool isRemoved(StringRef name) const;
  LogicalResult checkRemovedReads(const NodeProto &node, StringRef buffer);
  LogicalResult checkOutputs(StringRef buffer);
  LogicalResult refuseRemoved(StringRef buffer, const Twine &reader, const Twine &what,
                              Location location);

  ImportContext &context;
  const Definitions &definitions;
  const NodeSet &needed;
  const States &states;
  ArrayRef<StringRef> roots;
  llvm::StringMap<std::string> made;    // by the name of the new value
  llvm::StringMap<std::string> changed; // by any name of a value that changes
  llvm::StringSet<> targets, placeholders;
  /// All names that the file defines, and those that nodes compute from others.
  llvm::StringSet<> known, computed;
};

} // namespace

ChangedBuffers::ChangedBuffers(ImportContext &context, const Definitions &definitions,
                               const NodeSet &needed, const States &states,
                               ArrayRef<StringRef> roots)
    : context(context), definitions(definitions), needed(needed), states(states), roots(roots),
      made(readChanged(context.graph())), changed(made) {
  for (const auto &entry : made)
    targets.insert(entry.second);
  for (const SignatureEntry &entry : readSignature(context.graph())) {
    placeholders.insert(entry.placeholder);
    if (targets.contains(entry.target))
      changed[entry.placeholder] = changed[entry.target] = entry.target;
  }
}

LogicalResult ChangedBuffers::check() {
  if (made.empty())
    return success();
  if (failed(checkFolded()))
    return failure();
  for (const NodeProto &node : context.graph().node())
    if (needed.contains(&node) && failed(checkNode(node)))
      return failure();
  return failed(checkBuilt()) ? failure() : checkRemoved();
}

LogicalResult ChangedBuffers::refuse(StringRef name, const Twine &reader, Location location) {
  return context.errorAt(
      location, "the module changes '" + displayName(name) +
                    "' in its forward pass, and the file has only its first value, which " +
                    reader +
                    " reads: training would keep that value. Compute it from the step's inputs, or "
                    "keep it out of the loss");
}

LogicalResult ChangedBuffers::refuseNode(StringRef name, const NodeProto &node) {
  return refuse(name, "node '" + displayName(node.name()) + "'", context.locationOf(node));
}

/// Looks at the values that the export computed.
LogicalResult ChangedBuffers::checkFolded() {
  for (const ValueInfoProto &value : context.graph().value_info())
    for (const std::string &name : readFoldedFrom(value))
      if (targets.contains(name))
        return refuse(name, "'" + displayName(value.name()) + "', computed by the export,",
                      context.fileLocation());
  return success();
}

/// The record, or the file itself, names what the node reads. A batch normalization in training
/// may read and change its statistics; other nodes of its operation have the same record.
LogicalResult ChangedBuffers::checkNode(const NodeProto &node) {
  if (node.input_size() == 0) // a constant may serve other nodes, too
    return success();
  if (readBatchNorm(node).inTraining)
    return success();
  for (const std::string &name : readFxNode(node).args)
    if (auto it = changed.find(name); it != changed.end())
      return refuseNode(it->second, node);
  for (const std::string &name : node.input())
    if (auto it = changed.find(name); it != changed.end())
      return refuseNode(it->second, node);
  return node.op_type() == "BatchNormalization" ? checkStatistics(node) : success();
}

/// Looks for an evaluation by statistics that an earlier call has changed.
LogicalResult ChangedBuffers::checkStatistics(const NodeProto &node) {
  FxNode fx = readFxNode(node);
  if (fx.positional.size() <= 4)
    return success();
  for (StringRef name : {StringRef(fx.positional[3]), StringRef(fx.positional[4])})
    if (name.consume_front("%") && !placeholders.contains(name))
      return refuseNode(node.input_size() > 3 ? node.input(3) : fx.positional[3], node);
  return success();
}

/// Looks at the ops, also of nodes of functions and subgraphs.
LogicalResult ChangedBuffers::checkBuilt() {
  for (auto [buffer, value] : llvm::zip(states.parameters.list, states.values))
    if (value && buffer.isChanged)
      for (Operation *user : value.getUsers())
        if (!isa<nn::RunningStatisticOp>(user))
          return refuse(buffer.name, "the graph", user->getLoc());
  return success();
}

//===----------------------------------------------------------------------===//
// Removed values
//===----------------------------------------------------------------------===//

/// Returns the modules whose batch normalization is in the graph. It changes its statistics and its
/// count, which its result in training does not depend on.
static llvm::StringSet<> modulesOfBatchNorms(const GraphProto &graph) {
  llvm::StringMap<StringRef> modules; // by placeholder
  std::vector<SignatureEntry> signature = readSignature(graph);
  for (const SignatureEntry &entry : signature)
    if (!entry.isParameter)
      modules[entry.placeholder] = moduleOf(entry.target);
  llvm::StringSet<> found;
  for (const NodeProto &node : graph.node())
    if (readBatchNorm(node).isTraced)
      for (const std::string &name : readFxNode(node).args)
        if (auto module = modules.find(name); module != modules.end())
          found.insert(module->second);
  return found;
}

/// Refuses a file whose record names a value of the loss that no node computes, if the module
/// changes a value that no node reads: the exporter removes what its first value makes neutral, for
/// example a product with a buffer of ones.
LogicalResult ChangedBuffers::checkRemoved() {
  std::set<std::string> buffers = changedWithoutNorms();
  if (buffers.empty())
    return success();
  collectNames();
  for (const NodeProto &node : context.graph().node())
    if (needed.contains(&node) && failed(checkRemovedReads(node, *buffers.begin())))
      return failure();
  return checkOutputs(*buffers.begin());
}

/// Returns the targets that change, without the statistics of batch normalizations of the graph.
std::set<std::string> ChangedBuffers::changedWithoutNorms() const {
  llvm::StringSet<> norms = modulesOfBatchNorms(context.graph());
  std::set<std::string> found;
  for (const auto &entry : made)
    if (StringRef target = entry.second;
        !llvm::is_contained({"running_mean", "running_var", "num_batches_tracked"},
                            lastOf(target)) ||
        !norms.contains(moduleOf(target)))
      found.insert(entry.second);
  return found;
}

void ChangedBuffers::collectNames() {
  const GraphProto &graph = context.graph();
  for (const std::string &name : readPlaceholders(graph))
    known.insert(name);
  for (const auto &entry : definitions.initializers)
    known.insert(entry.getKey());
  for (const ValueInfoProto &value : graph.value_info())
    if (!readFoldedFrom(value).empty())
      known.insert(value.name());
  for (const NodeProto &node : graph.node()) {
    known.insert(readFxNode(node).name);
    for (const std::string &name : node.output()) {
      known.insert(name);
      if (node.input_size() > 0)
        computed.insert(name);
    }
  }
}

/// Whether no node computes a value of the exported program. One of several results, and a size,
/// have names of their own.
bool ChangedBuffers::isRemoved(StringRef name) const {
  return !known.contains(name) && operationOf(name) != "getitem" && !name.starts_with(words::kSize);
}

static std::string describeRemoved(StringRef name) {
  return "the export removed '%" + displayName(name) + "', which it reads";
}

LogicalResult ChangedBuffers::refuseRemoved(StringRef buffer, const Twine &reader,
                                            const Twine &what, Location location) {
  return context.errorAt(
      location,
      "the module changes '" + displayName(buffer) + "' in its forward pass, and " + reader +
          " may read a value that depends on it: " + what +
          ". Training would keep the first value. Export with shale.export, or with torch.onnx.export(..., "
          "optimize=False): that file shows whether the loss depends on it");
}

LogicalResult ChangedBuffers::checkRemovedReads(const NodeProto &node, StringRef buffer) {
  FxNode fx = readFxNode(node);
  std::string shown = "node '" + displayName(node.name()) + "'";
  for (const std::string &name : fx.args)
    if (isRemoved(name))
      return refuseRemoved(buffer, shown, describeRemoved(name), context.locationOf(node));
  if (fx.name.empty() &&
      llvm::any_of(node.input(), [&](const std::string &name) { return computed.contains(name); }))
    return refuseRemoved(buffer, shown, "the export left out what it reads",
                         context.locationOf(node));
  return success();
}

LogicalResult ChangedBuffers::checkOutputs(StringRef buffer) {
  for (const ValueInfoProto &output : context.graph().output()) {
    StringRef name = metadata(output.metadata_props(), words::kOriginalName);
    if (!name.empty() && isRemoved(name) && llvm::is_contained(roots, output.name()))
      return refuseRemoved(buffer, "output '" + displayName(output.name()) + "'",
                           describeRemoved(name), context.fileLocation());
  }
  return success();
}

LogicalResult onnx::checkChangedBuffers(ImportContext &context, const Definitions &definitions,
                                        const NodeSet &needed, const States &states,
                                        ArrayRef<StringRef> roots) {
  return ChangedBuffers(context, definitions, needed, states, roots).check();
}
