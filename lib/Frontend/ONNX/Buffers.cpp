//===- Buffers.cpp - Buffers of the state_dict ----------------------------===//
#include "dialects/nn/Ops/Norm.h"
#include "lib/Frontend/ONNX/Importer.h"
#include "lib/Frontend/ONNX/Signature.h"
#include "shale/Runtime.h"
#include "llvm/Support/FileSystem.h"
#include <set>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Maximum number of buffers that a note names.
static constexpr size_t kShown = 4;

/// Returns the names of buffers that state_dict() leaves out, as the exporter wrote them.
static llvm::StringSet<> transientTargets(const GraphProto &graph) {
  llvm::StringSet<> names;
  StringRef text =
      metadata(graph.metadata_props(), "pkg.torch.export.ExportedProgram.graph_signature");
  SmallVector<StringRef> lines;
  text.split("# outputs").first.split(lines, '\n');
  for (StringRef line : lines) {
    auto [target, flags] = line.split("target=").second.split(' ');
    if (line.contains(": BUFFER ") && flags.contains("persistent=False"))
      names.insert(target.trim("'\""));
  }
  return names;
}

void Importer::describeBuffers() {
  llvm::StringSet<> transient = transientTargets(model.proto().graph());
  SmallVector<NamedAttribute> entries;
  std::vector<std::string> absent;
  for (const Parameter &buffer : parameters.list) {
    if (buffer.isParameter)
      continue;
    SmallVector<NamedAttribute> fields;
    bool kept = !transient.contains(parameters.prefix + buffer.name);
    fields.emplace_back(builder.getStringAttr("persistent"), builder.getBoolAttr(kept));
    const TensorProto *tensor = buffer.used ? buffer.initializer : nullptr;
    if (!tensor) // no operation was found to read it; the file may have it under its own name
      tensor = initializers.lookup(parameters.prefix + buffer.name);
    if (!tensor && kept)
      absent.push_back(displayName(buffer.name));
    if (tensor && !buffer.transposed) {
      // If a node reads it, an invalid buffer is an error elsewhere.
      auto type = model.type(context, *tensor);
      if (!type) {
        llvm::consumeError(type.takeError());
        continue;
      }
      auto place = model.fileRange(*tensor, *type);
      if (!place) {
        llvm::consumeError(place.takeError());
        continue;
      }
      if (!place->path.empty()) {
        SmallString<256> path(place->path);
        (void)llvm::sys::fs::make_absolute(path);
        fields.emplace_back(builder.getStringAttr("type"), TypeAttr::get(*type));
        fields.emplace_back(
            builder.getStringAttr("init"),
            nn::FileAttr::get(context, path, place->offset, place->length, false, Type()));
      }
    }
    entries.emplace_back(builder.getStringAttr(displayName(buffer.name)),
                         builder.getDictionaryAttr(fields));
  }
  if (!absent.empty())
    note("buffers of the state_dict are not in the file: " + listOf(absent, kShown) +
         "; model.safetensors gets them from --init, or from an export with optimize=False");
  if (!entries.empty())
    (*module)->setAttr("nn.buffers", builder.getDictionaryAttr(entries));
}

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
LogicalResult Importer::checkRemovedReads(const llvm::StringMap<std::string> &made) {
  const GraphProto &graph = model.proto().graph();
  llvm::StringSet<> norms = modulesOfBatchNorms(graph);
  std::set<std::string> changed;
  for (const auto &entry : made)
    if (StringRef target = entry.second;
        !llvm::is_contained({"running_mean", "running_var", "num_batches_tracked"},
                            lastOf(target)) ||
        !norms.contains(moduleOf(target)))
      changed.insert(entry.second);
  if (changed.empty())
    return success();

  llvm::StringSet<> known, computed;
  for (const std::string &name : readPlaceholders(graph))
    known.insert(name);
  for (const auto &entry : initializers)
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
  // One of several results, and a size, have names of their own.
  auto isRemoved = [&](StringRef name) {
    return !known.contains(name) && operationOf(name) != "getitem" && !name.starts_with("sym_");
  };
  auto refuse =
      [&](const Twine &reader, const Twine &what, Location location) {
        failed = true;
        exitCode = SHALE_EXIT_DATA;
        return emitError(location)
               << model.path() << ": the module changes '" << displayName(*changed.begin())
               << "' in its forward pass, and " << reader
               << " may read a value that depends on it: " << what
               << ". Training would keep the first value. Export with torch.onnx.export(..., "
                  "optimize=False): that file shows whether the loss depends on it";
      };
  auto removed = [](StringRef name) {
    return "the export removed '%" + displayName(name) + "', which it reads";
  };
  for (const NodeProto &node : graph.node()) {
    if (!needed.contains(&node))
      continue;
    FxNode fx = readFxNode(node);
    std::string shown = "node '" + displayName(node.name()) + "'";
    for (const std::string &name : fx.args)
      if (isRemoved(name))
        return refuse(shown, removed(name), locationOf(node));
    if (fx.name.empty() && llvm::any_of(node.input(), [&](const std::string &name) {
          return computed.contains(name);
        }))
      return refuse(shown, "the export left out what it reads", locationOf(node));
  }
  SmallVector<StringRef> outputs = roots();
  for (const ValueInfoProto &output : graph.output()) {
    StringRef name = metadata(output.metadata_props(), "pkg.torch.onnx.original_node_name");
    if (!name.empty() && isRemoved(name) && llvm::is_contained(outputs, output.name()))
      return refuse("output '" + displayName(output.name()) + "'", removed(name), fileLocation());
  }
  return success();
}

LogicalResult Importer::checkChangedBuffers() {
  const GraphProto &graph = model.proto().graph();
  llvm::StringMap<std::string> made = readChanged(graph); // by the name of the new value
  if (made.empty())
    return success();
  llvm::StringMap<std::string> changed = made; // by any name of a value that changes
  llvm::StringSet<> targets, placeholders;
  for (const auto &entry : made)
    targets.insert(entry.second);
  for (const SignatureEntry &entry : readSignature(graph)) {
    placeholders.insert(entry.placeholder);
    if (targets.contains(entry.target))
      changed[entry.placeholder] = changed[entry.target] = entry.target;
  }
  auto refuse = [&](StringRef name, const Twine &reader, Location location) {
    failed = true;
    exitCode = SHALE_EXIT_DATA;
    return emitError(location)
           << model.path() << ": the module changes '" << displayName(name)
           << "' in its forward pass, and the file has only its first value, which " << reader
           << " reads: training would keep that value. Compute it from the step's inputs, or keep "
              "it out of the loss";
  };
  for (const ValueInfoProto &value : graph.value_info())
    for (const std::string &name : readFoldedFrom(value))
      if (targets.contains(name))
        return refuse(name, "'" + displayName(value.name()) + "', computed by the export,",
                      fileLocation());
  for (const NodeProto &node : graph.node()) {
    if (!needed.contains(&node) || node.input_size() == 0) // a constant may serve other nodes, too
      continue;
    // The record, or the file itself, names what the node reads. A batch normalization in training
    // may read and change its statistics; other nodes of its operation have the same record.
    if (readBatchNorm(node).inTraining)
      continue;
    FxNode fx = readFxNode(node);
    auto at = [&](StringRef name) {
      return refuse(name, "node '" + displayName(node.name()) + "'", locationOf(node));
    };
    for (const std::string &name : fx.args)
      if (auto it = changed.find(name); it != changed.end())
        return at(it->second);
    for (const std::string &name : node.input())
      if (auto it = changed.find(name); it != changed.end())
        return at(it->second);
    // Evaluation by statistics that an earlier call has changed.
    if (node.op_type() == "BatchNormalization" && fx.positional.size() > 4)
      for (StringRef name : {StringRef(fx.positional[3]), StringRef(fx.positional[4])})
        if (name.consume_front("%") && !placeholders.contains(name))
          return at(node.input_size() > 3 ? node.input(3) : fx.positional[3]);
  }
  // Nodes of functions and subgraphs.
  for (auto [buffer, value] : llvm::zip(parameters.list, stateValues))
    if (value && buffer.isChanged)
      for (Operation *user : value.getUsers())
        if (!isa<nn::RunningStatisticOp>(user))
          return refuse(buffer.name, "the graph", user->getLoc());
  return checkRemovedReads(made);
}
