//===- Scopes.cpp - The modules of PyTorch that nodes come from -----------===//
#include "lib/Frontend/ONNX/Scopes.h"
#include "dialects/nn/NN.h"
#include "lib/Frontend/ONNX/Record/Signature.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

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

Scopes::Entered::Entered(Scopes &scopes, const NodeProto &node, const MergedOperation *merged)
    : scopes(scopes), outer(std::exchange(scopes.current, scopes.scopeOf(node, merged))) {
  for (const auto &[module, name] : readClasses(node))
    if (std::string scope = scopes.context.scopeOf(module); !scope.empty())
      scopes.classes.try_emplace(scope, name);
}
