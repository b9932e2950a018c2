//===- Parameters.cpp - Which initializers are which parameters -----------===//
#include "lib/Frontend/ONNX/Record/Parameters.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "lib/Frontend/ONNX/Scope.h"
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

namespace {

/// Takes every float initializer that is not a scalar (of TorchScript's exporter: named scalars,
/// too) as a parameter, except the frequencies of rotary positions, the tables of their cosines and
/// sines, and running statistics.
class InitializerTaker {
public:
  /// `keepsScalars`: TorchScript's exporter writes the numbers of the model's code as Constant
  /// nodes.
  InitializerTaker(Parameters &out, bool keepsScalars) : out(out), keepsScalars(keepsScalars) {}

  /// Takes those of a graph and of its subgraphs. `place` names a subgraph: "node.attribute."; it
  /// begins the names of parameters whose own name is taken.
  void take(const GraphProto &graph, const std::string &place = "") {
    llvm::StringMap<bool> buffers; // whether all reads are of a buffer
    llvm::StringSet<> changed;     // buffers that a node changes
    for (const NodeProto &node : graph.node())
      forEachRead(node, [&](const NodeProto &reader, int operand) {
        bool &all = buffers.try_emplace(reader.input(operand), true).first->second;
        all = all && isBuffer(reader, operand);
        if (changesBuffer(reader, operand))
          changed.insert(reader.input(operand));
      });
    // A subgraph's initializer that is an input, too, is the input's default.
    llvm::StringSet<> given;
    if (!place.empty())
      for (const ValueInfoProto &input : graph.input())
        given.insert(input.name());
    llvm::StringMap<size_t> index;
    for (const TensorProto &tensor : graph.initializer()) {
      if (!isFloat(tensor) || isNumber(tensor) || StringRef(tensor.name()).ends_with("inv_freq") ||
          given.contains(tensor.name()))
        continue;
      bool isBuffer = buffers.lookup(tensor.name());
      if (isBuffer && !changed.contains(tensor.name()))
        continue;
      bool isNew = names.insert(tensor.name()).second;
      index[tensor.name()] = out.list.size();
      out.list.push_back({isNew ? tensor.name() : place + tensor.name(), {}, !isBuffer, &tensor});
    }
    for (const NodeProto &node : graph.node())
      forEachRead(node, [&](const NodeProto &reader, int operand) {
        auto it = index.find(reader.input(operand));
        if (it == index.end())
          return;
        out.list[it->second].used = true;
        out.uses[{&reader, operand}] = {it->second, false};
      });
    for (const NodeProto &node : graph.node())
      for (const AttributeProto &attribute : node.attribute())
        if (attribute.has_g())
          take(attribute.g(), place + (node.name().empty() ? node.op_type() : node.name()) + "." +
                                  attribute.name() + ".");
  }

private:
  bool isNumber(const TensorProto &tensor) const {
    return isScalar(tensor) && !(keepsScalars && !StringRef(tensor.name()).starts_with("onnx::"));
  }

  Parameters &out;
  bool keepsScalars;
  llvm::StringSet<> names;
};

} // namespace

bool onnx::isFilled(Model &model, const TensorProto &tensor) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  llvm::Expected<mlir::DenseElementsAttr> data = model.read(&context, tensor, int64_t(1) << 20);
  if (!data) {
    llvm::consumeError(data.takeError());
    return false;
  }
  if (data->isSplat())
    return true;
  llvm::ArrayRef<char> raw = data->getRawData();
  size_t size = raw.size() / std::max<int64_t>(data->getNumElements(), 1);
  for (size_t at = size; size && at < raw.size(); at += size)
    if (memcmp(raw.data(), raw.data() + at, size) != 0)
      return false;
  return true;
}

/// Splits constant-filled initializers that several module scopes read: they
/// were merged, and each scope has its own.
static void splitMerged(Model &model, Parameters &out) {
  size_t count = out.list.size();
  std::vector<std::vector<std::pair<const NodeProto *, ParameterUse *>>> uses(count);
  for (auto &[key, use] : out.uses)
    if (use.parameter < count)
      uses[use.parameter].emplace_back(key.first, &use);
  for (size_t index = 0; index < count; ++index) {
    std::map<std::string, const NodeProto *> first;
    std::vector<std::string> names;
    std::map<std::string, std::vector<ParameterUse *>> byScope;
    for (auto &[node, use] : uses[index]) {
      std::string scope = readScope(*node).value_or("");
      if (!byScope.count(scope))
        names.push_back(scope);
      byScope[scope].push_back(use);
      first.emplace(scope, node);
    }
    if (byScope.size() < 2 || byScope.count("") || !isFilled(model, *out.list[index].initializer))
      continue;
    StringRef name = out.list[index].name;
    std::string last = name.rsplit('.').second.str(), module = moduleOf(name).str();
    for (const std::string &scope : names) {
      if (scope == module)
        continue;
      Parameter copy = out.list[index];
      copy.name = scope + "." + (last.empty() ? copy.name : last);
      out.repairs.push_back({first[scope], "parameter '" + copy.name +
                                               "' is taken for merged with '" +
                                               out.list[index].name +
                                               "', whose elements are all equal, and told apart"});
      for (ParameterUse *use : byScope[scope])
        use->parameter = out.list.size();
      out.list.push_back(std::move(copy));
    }
    bool stillUsed =
        llvm::any_of(uses[index], [&](auto &use) { return use.second->parameter == index; });
    out.list[index].used = stillUsed;
  }
}

/// Finds parameters without a signature.
static void findByRule(Model &model, const ParameterOptions &options, Parameters &out) {
  InitializerTaker(out, isScripted(model.proto())).take(model.proto().graph());
  if (isScripted(model.proto()))
    restoreScripted(model, options, out);
  else
    splitMerged(model, out);
}

Parameters onnx::findParameters(Model &model, const TracedProgram &program,
                                const ParameterOptions &options) {
  Parameters out;
  out.hasSignature = !program.signature().entries.empty();
  if (out.hasSignature)
    findBySignature(program, options, out);
  else
    findByRule(model, options, out);
  for (const auto &[read, use] : out.uses)
    if (Parameter &buffer = out.list[use.parameter]; !buffer.isParameter)
      buffer.isChanged |= changesBuffer(*read.first, read.second);
  return out;
}

Parameters onnx::findNamed(Model &model, const std::vector<std::string> &trained,
                           const std::vector<std::string> &frozen) {
  Parameters out;
  llvm::StringMap<const TensorProto *> initializers;
  for (const TensorProto &tensor : model.proto().graph().initializer())
    initializers[tensor.name()] = &tensor;
  llvm::StringMap<size_t> index;
  auto take = [&](const std::string &name, bool isTrained) {
    if (index.try_emplace(name, out.list.size()).second)
      out.list.push_back({name, {}, isTrained, initializers.lookup(name)});
  };
  for (const std::string &name : trained)
    take(name, true);
  for (const std::string &name : frozen)
    take(name, false);
  for (const NodeProto &node : model.proto().graph().node())
    forEachRead(node, [&](const NodeProto &reader, int operand) {
      auto it = index.find(reader.input(operand));
      if (it == index.end())
        return;
      out.list[it->second].used = true;
      if (&reader == &node)
        out.uses[{&reader, operand}] = {it->second, false};
    });
  return out;
}
