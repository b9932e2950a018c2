//===- ChangedBuffers.cpp - Buffers that the forward pass changes ---------===//
#include "dialects/nn/Ops/Norm.h"
#include "lib/Frontend/ONNX/Record/TracedProgram.h"
#include "lib/Frontend/ONNX/Stages.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// The reader of a value, as an error names it.
struct BufferReader {
  std::string text;
  Location location;
};

/// Checks that the loss depends on no buffer that the module changes.
class ChangedBuffers {
public:
  ChangedBuffers(ImportContext &context, const States &states, ArrayRef<StringRef> roots)
      : context(context), program(*context.program), states(states), roots(roots),
        made(program.signature().changed), changed(made) {
    for (const auto &entry : made)
      targets.insert(entry.second);
    for (const SignatureEntry &entry : program.signature().entries)
      if (targets.contains(entry.target))
        changed[entry.placeholder] = changed[entry.target] = entry.target;
  }

  LogicalResult check() {
    if (made.empty())
      return success();
    if (failed(checkFolded()))
      return failure();
    for (const NodeProto &node : context.graph().node())
      if (context.needed.contains(&node) && failed(checkNode(node)))
        return failure();
    return failed(checkBuilt()) ? failure() : checkRemoved();
  }

private:
  BufferReader readerOf(const NodeProto &node) const {
    return {nodeText(node), context.locationOf(node)};
  }

  LogicalResult refuse(StringRef name, const BufferReader &reader) {
    return context.errorAt(
        reader.location, Refusal(Reason::ChangedBuffer, nullptr, {name, plain(reader.text)}).text);
  }

  /// Looks at the values that the export computed.
  LogicalResult checkFolded() {
    for (const ValueInfoProto &value : context.graph().value_info())
      for (const std::string &name : program.foldedFrom(value.name()))
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
    const TracedOperation *operation = program.ownerOf(node);
    SmallVector<StringRef> names;
    if (operation)
      names.append(operation->fx.args.begin(), operation->fx.args.end());
    names.append(node.input().begin(), node.input().end());
    for (StringRef name : names)
      if (auto it = changed.find(name); it != changed.end())
        return refuse(it->second, readerOf(node));
    if (node.op_type() != "BatchNormalization" || !operation)
      return success();
    // An evaluation by statistics that an earlier call has changed.
    for (size_t place : {3, 4})
      if (const Argument *statistic = operation->fx.argument(place);
          statistic && statistic->isValue() && !program.parameterOf(statistic->text))
        return refuse(node.input_size() > 3 ? node.input(3) : statistic->text, readerOf(node));
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
    std::optional<std::string> buffer = changedWithoutNorms();
    if (!buffer)
      return success();
    auto isComputed = [&](StringRef name) {
      const NodeProto *node = program.nodeOf(name);
      return node && node->input_size() > 0;
    };
    for (const NodeProto &node : context.graph().node()) {
      if (!context.needed.contains(&node))
        continue;
      const TracedOperation *operation = program.ownerOf(node);
      if (!operation && llvm::any_of(node.input(), isComputed))
        return refuseRemoved(*buffer, readerOf(node), "");
      if (operation)
        for (const std::string &name : operation->fx.args)
          if (isRemoved(name))
            return refuseRemoved(*buffer, readerOf(node), name);
    }
    for (const ValueInfoProto &output : context.graph().output()) {
      StringRef name = metadata(output.metadata_props(), words::kOriginalName);
      if (!name.empty() && isRemoved(name) && llvm::is_contained(roots, output.name()))
        return refuseRemoved(
            *buffer, {"output '" + displayName(output.name()) + "'", context.fileLocation()}, name);
    }
    return success();
  }

  /// Returns the first target that changes, without the statistics and counts of batch
  /// normalizations of the graph: their results in training do not depend on these.
  std::optional<std::string> changedWithoutNorms() const {
    llvm::StringSet<> norms; // their modules
    for (const TracedOperation &operation : program.operations())
      if (readBatchNorm(*operation.nodes.front()).isTraced)
        for (const std::string &name : operation.fx.args)
          if (std::optional<size_t> index = program.parameterOf(name);
              index && !program.signature().entries[*index].isParameter)
            norms.insert(moduleOf(program.target(*index)));
    std::optional<std::string> first;
    for (const auto &entry : made)
      if (StringRef target = entry.second;
          (!llvm::is_contained({"running_mean", "running_var", "num_batches_tracked"},
                               lastOf(target)) ||
           !norms.contains(moduleOf(target))) &&
          (!first || target < *first))
        first = target.str();
    return first;
  }

  /// Whether no node computes a value of the exported program. One of several results, and a size,
  /// have names of their own.
  bool isRemoved(StringRef name) const {
    return !program.has(name) && !context.definitions.initializers.contains(name) &&
           program.foldedFrom(name).empty() && operationOf(name) != words::kResult &&
           !name.starts_with(words::kSize);
  }

  /// `removed`: the value; empty if the record does not name it.
  LogicalResult refuseRemoved(StringRef buffer, const BufferReader &reader, StringRef removed) {
    std::string lost = removed.empty()
                           ? "the export left out what it reads"
                           : "the export removed '%" + displayName(removed) + "', which it reads";
    return context.errorAt(
        reader.location,
        Refusal(Reason::RemovedReader, nullptr, {buffer, plain(reader.text), plain(lost)}).text);
  }

  ImportContext &context;
  const TracedProgram &program;
  const States &states;
  ArrayRef<StringRef> roots;
  const llvm::StringMap<std::string> &made; // targets by the name of the new value
  llvm::StringMap<std::string> changed;     // targets by any name of a value that changes
  llvm::StringSet<> targets;
};

} // namespace

LogicalResult onnx::checkChangedBuffers(ImportContext &context, const States &states,
                                        ArrayRef<StringRef> roots) {
  return ChangedBuffers(context, states, roots).check();
}
