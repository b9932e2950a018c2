//===- Building.cpp - What a handler may use beside its node --------------===//
#include "lib/Frontend/ONNX/Building.h"
#include "dialects/nn/NN.h"
#include "lib/Frontend/ONNX/Record/Signature.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Value Building::finish(Operation *op) {
  scopes.mark(op);
  return folder.fold(op);
}

bool Building::isRead(StringRef name) {
  if (namesRead.empty()) {
    for (const ValueInfoProto &output : context.graph().output())
      namesRead.insert(output.name());
    for (const NodeProto &node : context.graph().node())
      forEachNameRead(node, [&](StringRef read) { namesRead.insert(read); });
  }
  return namesRead.contains(name);
}

//===----------------------------------------------------------------------===//
// The modules of PyTorch that nodes come from
//===----------------------------------------------------------------------===//

void Scopes::mark(Operation *op) const {
  if (current)
    op->setAttr(nn::kScopeAttr, StringAttr::get(op->getContext(), *current));
}

std::optional<std::string> Scopes::scopeOf(const NodeProto &node, const MergedOperation *merged) {
  if (areLost) {
    for (int i = 0; i < node.input_size(); ++i)
      if (auto use = parameters.uses.find({&node, i}); use != parameters.uses.end())
        last = displayName(moduleOf(parameters.list[use->second.parameter].name));
    return last;
  }
  std::optional<std::string> module = merged ? std::optional(merged->module) : readScope(node);
  return module ? std::optional(context.scopeOf(*module)) : std::nullopt;
}

std::optional<std::string> Scopes::enter(const NodeProto &node, const MergedOperation *merged) {
  std::optional<std::string> outer = std::exchange(current, scopeOf(node, merged));
  for (const auto &[module, name] : readClasses(node))
    if (std::string scope = context.scopeOf(module); !scope.empty())
      classes.try_emplace(scope, name);
  return outer;
}
