//===- TracedRecord.cpp - The record of a traced program ------------------===//
#include "lib/Frontend/ONNX/Record/TracedRecord.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "lib/Frontend/ONNX/Rules/Parameters.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Size in bytes of the largest tensor that is searched. Exporters fold inputs of some kilobytes.
static constexpr int64_t kSearchLimit = int64_t(4) << 20;

TracedRecord::TracedRecord(Model &model)
    : model(model), proto(model.proto().graph()),
      evaluation(std::make_unique<mlir::MLIRContext>(mlir::MLIRContext::Threading::DISABLED)) {
  listed = readSignature(proto);
  std::vector<SignatureEntry> read = std::exchange(listed.entries, {});
  for (SignatureEntry &entry : read)
    if (byPlaceholder.try_emplace(entry.placeholder, listed.entries.size()).second) {
      byTarget.try_emplace(entry.target, listed.entries.size());
      names.push_back(entry.target);
      listed.entries.push_back(std::move(entry));
    }
  for (const TensorProto &tensor : proto.initializer())
    if (isFloat(tensor))
      constants[tensor.name()] = &tensor;
  parseOperations();
  parseNames();
}

void TracedRecord::parseOperations() {
  for (const NodeProto &node : proto.node()) {
    FxNode fx = readFxNode(node);
    if (fx.name.empty())
      continue;
    StringRef key = metadata(node.metadata_props(), words::kFxNode);
    key = key.take_until([](char c) { return c == ' '; });
    auto [place, isNew] = byName.try_emplace(key, all.size());
    if (isNew) {
      all.emplace_back();
      all.back().fx = std::move(fx);
      all.back().scope = readScope(node).value_or("");
    }
    TracedOperation &operation = all[place->second];
    operation.nodes.push_back(&node);
    for (int i = 0; i < node.input_size(); ++i)
      if (const TensorProto *constant = initializer(node.input(i));
          constant && !operation.isOfExporter(node, i))
        operation.uses.push_back({&node, i, constant});
  }
}

void TracedRecord::parseNames() {
  for (const ValueInfoProto &input : proto.input())
    inputs.insert(input.name());
  known.insert_range(listed.placeholders);
  for (const NodeProto &node : proto.node()) {
    places.try_emplace(&node, places.size());
    for (const std::string &name : node.output()) {
      known.insert(name);
      makers[name] = nullptr;
      if (!name.empty()) // an operand that a node lacks
        nodes[name] = &node;
    }
  }
  for (const ValueInfoProto &value : proto.value_info())
    if (std::vector<std::string> from = readFoldedFrom(value); !from.empty()) {
      for (const std::string &name : from)
        folded.insert(name);
      origins[value.name()] = std::move(from);
    }
  for (const TracedOperation &operation : all) {
    for (StringRef scope = operation.scope; scopes.insert(scope).second; scope = moduleOf(scope))
      continue;
    known.insert(operation.fx.name);
    for (const NodeProto *node : operation.nodes) {
      owners[node] = &operation;
      for (const std::string &name : node->output())
        makers[name] = &operation;
    }
  }
}

bool TracedRecord::hasOperation(StringRef target) const {
  return llvm::any_of(all, [&](const TracedOperation &one) { return one.fx.target == target; });
}

std::optional<size_t> TracedRecord::parameterNamed(StringRef target) const {
  auto it = byTarget.find(target);
  return it == byTarget.end() ? std::nullopt : std::optional(it->second);
}

std::optional<size_t> TracedRecord::parameterOf(StringRef placeholder) const {
  auto it = byPlaceholder.find(placeholder);
  return it == byPlaceholder.end() ? std::nullopt : std::optional(it->second);
}

/// Whether a value is a result of a Split. The exporter gives it no record, and calls its results
/// getitem.
bool TracedRecord::isPartOfSplit(StringRef value) const {
  const NodeProto *node = nodeOf(value);
  return node && !makerOf(value) && node->op_type() == "Split";
}

Fit TracedRecord::fitValue(StringRef name, StringRef operand) const {
  if (operand == name)
    return Fit::Yes;
  const TracedOperation *maker = makerOf(operand);
  if (maker && maker->fx.name == name) // one of several results, or a value inside
    return isComputed(name) && !name.starts_with(words::kSize) ? Fit::No : Fit::Yes;
  // A part of another operation of this value: the exporter merges layouts, and what no form has.
  if (maker && operationOf(operand).empty() && llvm::is_contained(maker->fx.args, name))
    return isAnywhere(nodeOf(operand)->op_type()) ? Fit::Open : Fit::No;
  bool isOther = maker || isInput(operand) || parameterNamed(operand) || isPartOfSplit(operand);
  const TensorProto *found = initializer(operand);
  if (std::optional<size_t> parameter = parameterOf(name)) {
    const TensorProto *wanted = initializer(target(*parameter));
    if (!wanted || wanted == found)
      return Fit::Open;
    // A matrix may be there transposed, too.
    isOther |= found && (found->dims_size() == 1 || !model.mayBeSame(&context(), *wanted, *found));
    return isOther ? Fit::No : Fit::Open;
  }
  // The exporter folds the node of a value, too, where it folds the value into a constant.
  bool isMade = isComputed(name) && !name.starts_with(words::kSize);
  bool isOfFold = initializer(name) && !parameterNamed(name);
  if (found && (isMade || isOfFold))
    return Fit::No;
  bool isThere = isComputed(name) || isInput(name) || byName.contains(("%" + name).str());
  return isOther && isThere ? Fit::No : Fit::Open;
}

std::optional<Numbers> TracedRecord::numbersOf(const TensorProto &tensor) const {
  llvm::Expected<mlir::DenseElementsAttr> data = model.read(&context(), tensor, kSearchLimit);
  if (!data) {
    llvm::consumeError(data.takeError());
    return std::nullopt;
  }
  return Numbers::of(*data);
}

llvm::ArrayRef<std::string> TracedRecord::foldedFrom(StringRef value) const {
  auto it = origins.find(value);
  if (it == origins.end())
    return {};
  return it->second;
}

bool TracedRecord::isFoldedIntoOther(StringRef target) const {
  return llvm::any_of(origins, [&](const auto &entry) {
    return initializer(entry.getKey()) && llvm::is_contained(entry.second, target);
  });
}

SmallVector<StringRef> TracedRecord::missingNames(const TracedOperation &operation) const {
  SmallVector<StringRef> missing;
  for (const std::string &name : operation.fx.args)
    if (!has(name) && !llvm::is_contained(missing, name))
      missing.push_back(name);
  return missing;
}

bool TracedRecord::mayHideParameter(StringRef name) const {
  std::string kind = operationOf(name);
  return !words::is(kind, words::Trait::Masks) && !isMadeByCode(kind) &&
         !name.contains(words::kSize) && !isFolded(name);
}

size_t TracedRecord::unnamedInputs(const TracedOperation &operation) const {
  llvm::StringSet<> own, computed;
  for (const NodeProto *node : operation.nodes)
    for (const std::string &name : node->output())
      own.insert(name);
  for (const NodeProto *node : operation.nodes)
    for (const std::string &name : node->input())
      if (auto maker = makers.find(name);
          maker != makers.end() && !own.contains(name) &&
          !llvm::is_contained(operation.fx.args, name) &&
          !(maker->second && llvm::is_contained(operation.fx.args, maker->second->fx.name)))
        computed.insert(name);
  return computed.size();
}

bool TracedRecord::isRead(const TracedOperation &operation, StringRef name) const {
  return llvm::any_of(operation.nodes, [&](const NodeProto *node) {
    return llvm::any_of(node->input(), [&](const std::string &read) {
      const TracedOperation *maker = makerOf(read);
      return read == name || (maker && maker->fx.name == name);
    });
  });
}

bool TracedRecord::isInnerValue(const TracedOperation &operation, StringRef value) const {
  const TracedOperation *maker = makerOf(value);
  return maker && maker != &operation && value != maker->fx.name &&
         !llvm::is_contained(maker->nodes.back()->output(), value) &&
         llvm::any_of(maker->nodes, [&](const NodeProto *node) {
           return llvm::is_contained(node->input(), value);
         });
}

llvm::SmallSetVector<const TracedOperation *, 4>
TracedRecord::operationsOfCall(const TracedOperation &last) const {
  llvm::SmallSetVector<const TracedOperation *, 4> found;
  found.insert(&last);
  for (size_t at = 0; at < found.size(); ++at)
    if (!last.scope.empty())
      for (const NodeProto *node : found[at]->nodes)
        for (const std::string &name : node->input())
          if (const TracedOperation *maker = makerOf(name); maker && maker->scope == last.scope)
            found.insert(maker);
  return found;
}

bool TracedRecord::isUnboundedAtZero(const TracedOperation &operation) const {
  llvm::SmallSetVector<const TracedOperation *, 4> reached;
  reached.insert(&operation);
  for (size_t at = 0; at < reached.size(); ++at) {
    if (words::is(reached[at]->kind(), words::Trait::IsUnboundedAtZero))
      return true;
    if (!isMovement(reached[at]->kind()))
      continue;
    for (const TracedOperation &other : all)
      if (llvm::is_contained(other.fx.args, reached[at]->fx.name))
        reached.insert(&other);
  }
  return false;
}

bool TracedRecord::isBias(const TracedOperation &operation, size_t parameter) const {
  if (target(parameter).ends_with("bias"))
    return true;
  int place = words::biasPlaceOf(operation.kind());
  return place >= 0 && llvm::any_of(operation.fx.args, [&](const std::string &name) {
           return parameterOf(name) == parameter && operation.argumentOf(name) == place;
         });
}

bool onnx::readsTransposed(const NodeProto &node) {
  return llvm::any_of(node.attribute(), [](const AttributeProto &attribute) {
    return attribute.name() == "transB" && attribute.i() != 0;
  });
}

StringRef TracedOperation::kind() const { return words::kindOf(fx.target); }

bool TracedOperation::readsAsItIs() const {
  return words::is(kind(), words::Trait::ReadsAsItIs) || isMovement(kind());
}

bool TracedOperation::isOfExporter(const NodeProto &node, int operand) const {
  return operand > 0 && node.op_type() == "InstanceNormalization" && isGroupNorm();
}

int TracedOperation::argumentOf(StringRef name) const {
  auto place = llvm::find_if(fx.arguments, [&](const auto &argument) {
    return argument.first.empty() && argument.second.isValue() && argument.second.text == name;
  });
  return place == fx.arguments.end() ? -1 : int(place - fx.arguments.begin());
}
