//===- Forward.cpp - The forward function and the module's attributes -----===//
#include "lib/Frontend/ONNX/Stages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/FileSystem.h"
#include <map>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static DictionaryAttr attributesOf(Builder &builder, const Input &input) {
  nn::Role role = input.role.value_or(input.isLabel ? nn::Role::Label : nn::Role::Input);
  SmallVector<NamedAttribute> attrs;
  attrs.push_back(
      builder.getNamedAttr(nn::kRoleAttr, nn::RoleAttr::get(builder.getContext(), role)));
  attrs.push_back(
      builder.getNamedAttr(nn::kNameAttr, builder.getStringAttr(displayName(input.name))));
  if (!input.binding.empty())
    attrs.push_back(builder.getNamedAttr(nn::kBindingAttr, builder.getStringAttr(input.binding)));
  if (input.batchDim)
    attrs.push_back(
        builder.getNamedAttr(nn::kBatchDimAttr, builder.getI64IntegerAttr(*input.batchDim)));
  return builder.getDictionaryAttr(attrs);
}

static SmallVector<DictionaryAttr> argumentsOf(Builder &builder, const Inputs &inputs,
                                               const States &states) {
  SmallVector<DictionaryAttr> arguments;
  for (const Input &input : inputs)
    arguments.push_back(attributesOf(builder, input));
  for (size_t index : states.order) {
    std::string name = displayName(states.parameters.list[index].name);
    arguments.push_back(builder.getDictionaryAttr(
        builder.getNamedAttr(nn::kStateAttr, FlatSymbolRefAttr::get(builder.getContext(), name))));
  }
  return arguments;
}

static SmallVector<DictionaryAttr> resultsOf(Builder &builder, const States &states,
                                             ArrayRef<Gradient> gradients,
                                             ArrayRef<NextValue> next) {
  SmallVector<DictionaryAttr> results;
  auto metric = nn::RoleAttr::get(builder.getContext(), nn::Role::Metric);
  for (StringRef name : {"loss", "loss_sum", "count"})
    results.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr(nn::kRoleAttr, metric),
         builder.getNamedAttr(nn::kNameAttr, builder.getStringAttr(name))}));
  for (const Gradient &gradient : gradients) {
    std::string name = displayName(states.parameters.list[gradient.parameter].name);
    results.push_back(builder.getDictionaryAttr(
        {builder.getNamedAttr(nn::kGradientOfAttr,
                              FlatSymbolRefAttr::get(builder.getContext(), name)),
         builder.getNamedAttr(nn::kNameAttr, builder.getStringAttr("grad." + name))}));
  }
  for (const NextValue &each : next)
    results.push_back(builder.getDictionaryAttr(builder.getNamedAttr(
        nn::kStateAttr,
        FlatSymbolRefAttr::get(builder.getContext(),
                               displayName(states.parameters.list[each.index].name)))));
  return results;
}

void onnx::buildForward(ImportContext &context, const Inputs &inputs, const States &states,
                        ArrayRef<Gradient> gradients, ArrayRef<NextValue> next, TypeRange results) {
  OpBuilder end(context.mlirContext());
  end.setInsertionPointToEnd(context.module.getBody());
  auto type = end.getFunctionType(context.body.getArgumentTypes(), results);
  auto function = func::FuncOp::create(end, context.fileLocation(), "forward", type);
  function.getBody().push_back(&context.body);
  function.setAllArgAttrs(argumentsOf(end, inputs, states));
  function.setAllResultAttrs(resultsOf(end, states, gradients, next));
}

/// Maps the graph's outputs to the nodes that compute them; reports use these names.
static DictionaryAttr makersOfOutputs(Builder &builder, const GraphProto &graph) {
  llvm::StringSet<> outputs;
  for (const ValueInfoProto &output : graph.output())
    outputs.insert(output.name());
  std::map<std::string, std::string> makers;
  for (const NodeProto &node : graph.node())
    for (const std::string &name : node.output())
      if (!name.empty() && outputs.contains(name))
        makers[displayName(name)] = displayName(node.name());
  SmallVector<NamedAttribute> entries;
  for (const auto &[name, node] : makers)
    entries.push_back(builder.getNamedAttr(name, builder.getStringAttr(node)));
  return builder.getDictionaryAttr(entries);
}

void onnx::describeModule(ImportContext &context, const Inputs &inputs,
                          const llvm::StringMap<std::string> &classes) {
  Builder &builder = context.builder;
  ModuleOp module = context.module;
  SmallString<256> path(context.model.path());
  (void)llvm::sys::fs::make_absolute(path);
  module->setAttr(nn::kModelAttr, builder.getStringAttr(path));
  module->setAttr(nn::kOutputsAttr, makersOfOutputs(builder, context.graph()));
  SmallVector<NamedAttribute> sizes, scopes;
  for (const Input &input : inputs)
    if (!input.sizes.empty())
      sizes.push_back(
          builder.getNamedAttr(displayName(input.name), builder.getStringAttr(input.sizes)));
  if (!sizes.empty())
    module->setAttr(nn::kSizesAttr, builder.getDictionaryAttr(sizes));
  for (auto &entry : classes)
    scopes.push_back(
        builder.getNamedAttr(entry.first(), builder.getStringAttr(displayName(entry.second))));
  if (!scopes.empty())
    module->setAttr(nn::kClassesAttr, builder.getDictionaryAttr(scopes));
}
