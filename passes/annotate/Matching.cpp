//===- Matching.cpp - Parameters that match a regular expression ----------===//
#include "passes/annotate/Matching.h"
#include "dialects/nn/Ops/State.h"

using namespace mlir;

namespace shale {

/// Returns up to five parameter names, nearest to `text` first.
static std::string nearestNames(ModuleOp module, StringRef text) {
  SmallVector<std::pair<unsigned, StringRef>> ranked;
  for (auto state : module.getOps<nn::StateOp>())
    if (state.getRole() == nn::Role::Param)
      for (StringRef name : namesOf(state))
        ranked.emplace_back(name.edit_distance(text), name);
  llvm::stable_sort(ranked, [](auto &a, auto &b) { return a.first < b.first; });
  std::string list;
  for (auto &[distance, name] : llvm::ArrayRef(ranked).take_front(5))
    list += (list.empty() ? "'" : ", '") + name.str() + "'";
  return list;
}

FailureOr<SmallVector<nn::StateOp>> matchParameters(ModuleOp module, StringRef regex,
                                                    StringRef option) {
  llvm::Regex pattern(regex);
  std::string reason;
  if (!pattern.isValid(reason))
    return module.emitError(option)
           << ": '" << regex << "' is not a regular expression: " << reason;
  SmallVector<nn::StateOp> matched;
  for (auto state : module.getOps<nn::StateOp>())
    if (state.getRole() == nn::Role::Param &&
        llvm::any_of(namesOf(state), [&](StringRef name) { return pattern.match(name); }))
      matched.push_back(state);
  // Skip parameters that the program does not use.
  auto absent = module->getAttrOfType<ArrayAttr>(nn::kAbsentAttr);
  bool isAbsent = absent && llvm::any_of(absent.getAsRange<StringAttr>(),
                                         [&](StringAttr name) { return pattern.match(name); });
  if (matched.empty() && !isAbsent)
    return module.emitError(option)
           << ": '" << regex
           << "' matches no parameter; similar names: " << nearestNames(module, regex);
  return matched;
}

} // namespace shale
