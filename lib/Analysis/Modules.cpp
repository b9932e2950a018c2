//===- Modules.cpp - The modules that parameters come from ----------------===//
#include "lib/Analysis/Modules.h"
#include "dialects/nn/Ops/State.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include <map>
#include <set>

using namespace mlir;
using namespace shale;

SmallVector<StringRef> shale::namesOf(nn::StateOp state) {
  SmallVector<StringRef> names{state.getSymName()};
  if (ArrayAttr more = state.getNamesAttr())
    for (Attribute name : more)
      if (auto text = dyn_cast<StringAttr>(name);
          text && !llvm::is_contained(names, text.getValue()))
        names.push_back(text.getValue());
  return names;
}

SmallVector<StringRef> shale::scopesOf(StringRef path, bool whole) {
  SmallVector<StringRef> scopes;
  for (size_t dot = path.find('.'); dot != StringRef::npos; dot = path.find('.', dot + 1))
    scopes.push_back(path.take_front(dot));
  if (whole)
    scopes.push_back(path);
  return scopes;
}

static bool isIndex(StringRef component) {
  return !component.empty() && llvm::all_of(component, llvm::isDigit);
}

StringRef shale::withinBlock(StringRef scope) {
  SmallVector<StringRef> components;
  scope.split(components, '.');
  for (StringRef component : components)
    if (isIndex(component))
      scope = StringRef(component.end(), components.back().end() - component.end());
  scope.consume_front(".");
  return scope;
}

/// Returns the part of a scope before its index, or nothing if the last component is not an index.
static std::optional<StringRef> familyOf(StringRef scope) {
  if (isIndex(scope))
    return StringRef();
  auto [family, index] = scope.rsplit('.');
  return isIndex(index) ? std::optional(family) : std::nullopt;
}

std::vector<std::string> shale::findBlocks(ModuleOp module) {
  // The scopes of each family.
  llvm::StringMap<llvm::StringSet<>> indices;
  auto states = llvm::make_filter_range(module.getOps<nn::StateOp>(),
                                        [](nn::StateOp state) { return !state.getOf(); });
  for (nn::StateOp state : states)
    for (StringRef name : namesOf(state))
      for (StringRef scope : scopesOf(name, false))
        if (auto family = familyOf(scope))
          indices[*family].insert(scope);
  llvm::StringMap<int64_t> elements;
  std::vector<std::string> blocks;
  llvm::StringSet<> seen;
  for (nn::StateOp state : states)
    for (StringRef name : namesOf(state))
      for (StringRef scope : scopesOf(name, false)) {
        auto family = familyOf(scope);
        if (!family || indices[*family].size() < 2)
          continue;
        if (seen.insert(scope).second)
          blocks.push_back(scope.str());
        if (name == state.getSymName())
          elements[*family] += state.getTensorType().getNumElements();
        break;
      }
  int64_t most = 0;
  for (auto &family : elements)
    most = std::max(most, family.second);
  llvm::erase_if(blocks, [&](const std::string &block) {
    return elements.lookup(*familyOf(block)) < most / 10;
  });
  return blocks;
}

bool shale::isClass(StringRef full, StringRef name) {
  return full == name || (full.ends_with(name) && full.drop_back(name.size()).ends_with("."));
}

FailureOr<std::vector<std::string>> shale::scopesOfClass(ModuleOp module, StringRef name,
                                                         StringRef option) {
  auto classes = module->getAttrOfType<DictionaryAttr>(nn::kClassesAttr);
  if (!classes || classes.empty())
    return module.emitError(option)
           << ": the model does not say the classes of its modules; use match:REGEX";
  std::vector<std::string> scopes;
  std::set<StringRef> known;
  for (NamedAttribute entry : classes) {
    StringRef full = cast<StringAttr>(entry.getValue()).getValue();
    known.insert(full.rsplit('.').second.empty() ? full : full.rsplit('.').second);
    if (isClass(full, name))
      scopes.push_back(entry.getName().str());
  }
  if (scopes.empty())
    return module.emitError(option)
           << ": no module is of class '" << name << "'; there are " << llvm::join(known, ", ");
  return scopes;
}
