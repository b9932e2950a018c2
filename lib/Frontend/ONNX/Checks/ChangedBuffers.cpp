//===- ChangedBuffers.cpp - Buffers that the forward pass changes ---------===//
#include "dialects/nn/Ops/Norm.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "lib/Frontend/ONNX/Stages.h"
#include <set>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// The reader of a value, as an error names it.
struct Reader {
  std::string text;
  Location location;
};

/// Checks that the loss depends on no buffer that the module changes.
class ChangedBuffers {
public:
  ChangedBuffers(ImportContext &context, const States &states, ArrayRef<StringRef> roots)
      : context(context), graph(context.graph()), states(states), roots(roots),
        made(readChanged(graph)), changed(made) {
    for (const auto &entry : made)
      targets.insert(entry.second);
    for (const SignatureEntry &entry : readSignature(graph)) {
      known.insert(entry.placeholder);
      if (targets.contains(entry.target))
        changed[entry.placeholder] = changed[entry.target] = entry.target;
      if (!entry.isParameter)
        modules[entry.placeholder] = moduleOf(entry.target).str();
    }
  }

  LogicalResult check() {
    if (made.empty())
      return success();
    if (failed(checkFolded()))
      return failure();
    for (const NodeProto &node : graph.node())
      if (context.needed.contains(&node) && failed(checkNode(node)))
        return failure();
    return failed(checkBuilt()) ? failure() : checkRemoved();
  }

private:
  Reader readerOf(const NodeProto &node) const {
    return {nodeText(node), context.locationOf(node)};
  }

  LogicalResult refuse(StringRef name, const Reader &reader) {
    return context.errorAt(
        reader.location,
        "the module changes '" + displayName(name) +
            "' in its forward pass, and the file has only its first value, which " + reader.text +
            " reads: training would keep that value. Compute it from the step's inputs, or "
            "keep it out of the loss");
  }

  /// Looks at the values that the export computed.
  LogicalResult checkFolded() {
    for (const ValueInfoProto &value : graph.value_info())
      for (const std::string &name : readFoldedFrom(value))
        if (targets.contains(name))
          return refuse(name, {"'" + displayName(value.name()) + "', computed by the export,",
                               context.fileLocation()});
    return success();
  }

  /// The record, or the file itself, names what the node reads. A batch normalization in training
  /// may read and change its statistics; other nodes of its operation have the same record.
  LogicalResult checkNode(const NodeProto &node) {
    if (node.input_size() == 0) // a constant may serve other nodes, too
      return success();
    if (readBatchNorm(node).inTraining)
      return success();
    FxNode fx = readFxNode(node);
    SmallVector<StringRef> names(fx.args.begin(), fx.args.end());
    names.append(node.input().begin(), node.input().end());
    for (StringRef name : names)
      if (auto it = changed.find(name); it != changed.end())
        return refuse(it->second, readerOf(node));
    if (node.op_type() != "BatchNormalization" || fx.positional.size() <= 4)
      return success();
    // An evaluation by statistics that an earlier call has changed.
    for (StringRef name : {StringRef(fx.positional[3]), StringRef(fx.positional[4])})
      if (name.consume_front("%") && !known.contains(name))
        return refuse(node.input_size() > 3 ? node.input(3) : fx.positional[3], readerOf(node));
    return success();
  }

  /// Looks at the ops, also of nodes of functions and subgraphs.
  LogicalResult checkBuilt() {
    for (auto [buffer, value] : llvm::zip(states.parameters.list, states.values))
      if (value && buffer.isChanged)
        for (Operation *user : value.getUsers())
          if (!isa<nn::RunningStatisticOp>(user))
            return refuse(buffer.name, {"the graph", user->getLoc()});
    return success();
  }

  //===--------------------------------------------------------------------===//
  // Nodes that read a value which the exporter removed, and which may depend on a changed buffer
  //===--------------------------------------------------------------------===//

  /// Refuses a file whose record names a value of the loss that no node computes, if the module
  /// changes a value that no node reads: the exporter removes what its first value makes neutral,
  /// for example a product with a buffer of ones.
  LogicalResult checkRemoved() {
    std::set<std::string> buffers = changedWithoutNorms();
    if (buffers.empty())
      return success();
    const std::string &buffer = *buffers.begin();
    collectNames();
    for (const NodeProto &node : graph.node()) {
      if (!context.needed.contains(&node))
        continue;
      FxNode fx = readFxNode(node);
      for (const std::string &name : fx.args)
        if (isRemoved(name))
          return refuseRemoved(buffer, readerOf(node), name);
      if (fx.name.empty() && llvm::any_of(node.input(), [&](const std::string &name) {
            return computed.contains(name);
          }))
        return refuseRemoved(buffer, readerOf(node), "");
    }
    for (const ValueInfoProto &output : graph.output()) {
      StringRef name = metadata(output.metadata_props(), words::kOriginalName);
      if (!name.empty() && isRemoved(name) && llvm::is_contained(roots, output.name()))
        return refuseRemoved(
            buffer, {"output '" + displayName(output.name()) + "'", context.fileLocation()}, name);
    }
    return success();
  }

  /// Returns the targets that change, without the statistics and counts of batch normalizations of
  /// the graph: their results in training do not depend on these.
  std::set<std::string> changedWithoutNorms() const {
    llvm::StringSet<> norms; // their modules
    for (const NodeProto &node : graph.node())
      if (readBatchNorm(node).isTraced)
        for (const std::string &name : readFxNode(node).args)
          if (auto module = modules.find(name); module != modules.end())
            norms.insert(module->second);
    std::set<std::string> found;
    for (const auto &entry : made)
      if (StringRef target = entry.second;
          !llvm::is_contained({"running_mean", "running_var", "num_batches_tracked"},
                              lastOf(target)) ||
          !norms.contains(moduleOf(target)))
        found.insert(entry.second);
    return found;
  }

  void collectNames() {
    for (const std::string &name : readPlaceholders(graph))
      known.insert(name);
    for (const auto &entry : context.definitions.initializers)
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
  bool isRemoved(StringRef name) const {
    return !known.contains(name) && operationOf(name) != "getitem" &&
           !name.starts_with(words::kSize);
  }

  /// `removed`: the value; empty if the record does not name it.
  LogicalResult refuseRemoved(StringRef buffer, const Reader &reader, StringRef removed) {
    return context.errorAt(
        reader.location,
        "the module changes '" + displayName(buffer) + "' in its forward pass, and " + reader.text +
            " may read a value that depends on it: " +
            (removed.empty()
                 ? "the export left out what it reads"
                 : "the export removed '%" + displayName(removed) + "', which it reads") +
            ". Training would keep the first value. Export with shale.export, or with torch.onnx.export(..., "
            "optimize=False): that file shows whether the loss depends on it");
  }

  ImportContext &context;
  const GraphProto &graph;
  const States &states;
  ArrayRef<StringRef> roots;
  llvm::StringMap<std::string> made;    // by the name of the new value
  llvm::StringMap<std::string> changed; // by any name of a value that changes
  llvm::StringMap<std::string> modules; // of buffers, by placeholder
  llvm::StringSet<> targets;
  /// Names that the file defines: parameters and buffers, then all. Those that nodes compute from
  /// others.
  llvm::StringSet<> known, computed;
};

} // namespace

LogicalResult onnx::checkChangedBuffers(ImportContext &context, const States &states,
                                        ArrayRef<StringRef> roots) {
  return ChangedBuffers(context, states, roots).check();
}
