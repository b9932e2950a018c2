//===- Parameters.cpp - Which initializers are which parameters -----------===//
#include "lib/Frontend/ONNX/Rules/Parameters.h"
#include "lib/Frontend/ONNX/Reader/Scope.h"
#include "lib/Frontend/ONNX/Rules/Rules.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace shale;
using namespace shale::onnx;
using llvm::StringRef;

bool onnx::isFloatType(int32_t dataType) { return llvm::is_contained({1, 10, 11, 16}, dataType); }

/// Source: onnx.proto, TensorProto.DataType.
bool onnx::isInteger(const TensorProto &tensor) {
  return llvm::is_contained({2, 3, 4, 5, 6, 7, 12, 13}, tensor.data_type());
}

bool onnx::isScalar(const TensorProto &tensor) {
  return llvm::all_of(tensor.dims(), [](int64_t size) { return size == 1; });
}

/// Whether a node's operand is no parameter of PyTorch: a table of the cosines or sines of
/// positions, running statistics, or region and scales of a Resize.
static bool isBuffer(const NodeProto &node, int operand) {
  bool isMicrosoft = node.domain() == "com.microsoft";
  if (node.op_type() == "BatchNormalization")
    return operand == 3 || operand == 4;
  if (node.op_type() == "Resize")
    return operand == 1 || operand == 2;
  if (node.op_type() == "RotaryEmbedding")
    return isMicrosoft ? operand == 2 || operand == 3 : operand == 1 || operand == 2;
  return isMicrosoft && node.op_type() == "GroupQueryAttention" && (operand == 7 || operand == 8);
}

/// Notes the reads of parameters by the nodes of a graph. `index`: of each parameter, by its name.
static void noteReads(const GraphProto &graph, const llvm::StringMap<size_t> &index,
                      Parameters &out) {
  for (const NodeProto &node : graph.node())
    forEachRead(node, [&](const NodeProto &reader, int operand) {
      auto it = index.find(reader.input(operand));
      if (it == index.end())
        return;
      out.list[it->second].used = true;
      out.uses[{&reader, operand}] = {it->second, false};
    });
}

/// Takes every float initializer that is not a scalar (of TorchScript's exporter: named scalars,
/// too) as a parameter, except the frequencies of rotary positions, the tables of their cosines and
/// sines, and running statistics. Takes those of a graph and of its subgraphs. `place` names a
/// subgraph: "node.attribute."; it begins the names of parameters whose own name is in `names`.
static void takeInitializers(const GraphProto &graph, const std::string &place, bool isScripted,
                             llvm::StringSet<> &names, Parameters &out) {
  llvm::StringMap<bool> buffers; // whether all reads are of a buffer
  llvm::StringSet<> changed;     // buffers that a node changes
  for (const NodeProto &node : graph.node())
    forEachRead(node, [&](const NodeProto &reader, int operand) {
      buffers.try_emplace(reader.input(operand), true).first->second &= isBuffer(reader, operand);
      if (changesBuffer(reader, operand))
        changed.insert(reader.input(operand));
    });
  // A subgraph's initializer that is an input, too, is the input's default.
  llvm::StringSet<> given = place.empty() ? llvm::StringSet<>() : namesOf(graph.input());
  llvm::StringMap<size_t> index;
  for (const TensorProto &tensor : graph.initializer()) {
    StringRef name = tensor.name();
    bool isBuffer = buffers.lookup(name);
    // TorchScript's exporter writes the numbers of the model's code as Constant nodes.
    bool isNumber = isScalar(tensor) && !(isScripted && !name.starts_with("onnx::"));
    if (!isFloat(tensor) || isNumber || name.ends_with("inv_freq") || given.contains(name) ||
        (isBuffer && !changed.contains(name)))
      continue;
    bool isNew = names.insert(name).second;
    index[name] = out.list.size();
    out.list.push_back({((isNew ? "" : place) + name).str(), {}, !isBuffer, &tensor});
  }
  noteReads(graph, index, out);
  for (const NodeProto &node : graph.node())
    for (const AttributeProto &attribute : node.attribute())
      if (attribute.has_g())
        takeInitializers(attribute.g(),
                         place + (node.name().empty() ? node.op_type() : node.name()) + "." +
                             attribute.name() + ".",
                         isScripted, names, out);
}

bool onnx::isFilled(Model &model, const TensorProto &tensor) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  auto data = expectedToOptional(model.read(&context, tensor, int64_t(1) << 20));
  if (!data || data->isSplat())
    return data.has_value();
  llvm::ArrayRef<char> raw = data->getRawData();
  size_t size = raw.size() / std::max<int64_t>(data->getNumElements(), 1);
  return raw.drop_front(size) == raw.drop_back(size);
}

/// Splits constant-filled initializers that several module scopes read: they
/// were merged, and each scope has its own.
static void splitMerged(Model &model, Parameters &out) {
  using Read = std::pair<const NodeProto *, ParameterUse *>;
  std::vector<std::vector<Read>> reads(out.list.size());
  for (auto &[key, use] : out.uses)
    reads[use.parameter].emplace_back(key.first, &use);
  for (size_t index = 0; index < reads.size(); ++index) {
    llvm::MapVector<std::string, std::vector<Read>, llvm::StringMap<unsigned>> byScope;
    for (const Read &read : reads[index])
      byScope[readScope(*read.first).value_or("")].push_back(read);
    if (byScope.size() < 2 || byScope.contains("") ||
        !isFilled(model, *out.list[index].initializer))
      continue;
    const std::string name = out.list[index].name, module = moduleOf(name).str();
    for (const auto &[scope, own] : byScope) {
      if (scope == module)
        continue;
      Parameter copy = out.list[index];
      copy.name = (scope + "." + lastOf(name)).str();
      out.repairs.push_back({own.front().first, "parameter '" + copy.name +
                                                    "' is taken for merged with '" + name +
                                                    "', whose elements are all equal, and told "
                                                    "apart"});
      for (const Read &read : own)
        read.second->parameter = out.list.size();
      out.list.push_back(std::move(copy));
    }
    out.list[index].used = byScope.contains(module);
  }
}

Parameters onnx::findParameters(Model &model, const TracedProgram &program,
                                const ParameterOptions &options) {
  Parameters out;
  const ModelProto &file = model.proto();
  out.hasSignature = !program.signature().entries.empty();
  if (out.hasSignature) {
    findBySignature(program, options, out);
  } else {
    llvm::StringSet<> names;
    takeInitializers(file.graph(), "", isScripted(file), names, out);
    if (isScripted(file))
      restoreScripted(model, options, out);
    else
      splitMerged(model, out);
  }
  for (const auto &[read, use] : out.uses)
    if (Parameter &buffer = out.list[use.parameter]; !buffer.isParameter)
      buffer.isChanged |= changesBuffer(*read.first, read.second);
  return out;
}

Parameters onnx::findNamed(Model &model, const std::vector<std::string> &trained,
                           const std::vector<std::string> &frozen) {
  Parameters out;
  const GraphProto &graph = model.proto().graph();
  llvm::StringMap<const TensorProto *> initializers;
  for (const TensorProto &tensor : graph.initializer())
    initializers[tensor.name()] = &tensor;
  llvm::StringMap<size_t> index;
  for (bool isTrained : {true, false})
    for (const std::string &name : isTrained ? trained : frozen)
      if (index.try_emplace(name, out.list.size()).second)
        out.list.push_back({name, {}, isTrained, initializers.lookup(name)});
  noteReads(graph, index, out);
  return out;
}
