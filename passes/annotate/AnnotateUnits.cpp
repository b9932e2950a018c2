//===- AnnotateUnits.cpp - Assigns parameters to units --------------------===//
#include "dialects/nn/Ops/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/annotate/Matching.h"
#include "passes/annotate/Passes.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"
#include <functional>

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATEUNITSPASS
#include "passes/annotate/Passes.h.inc"

namespace {

constexpr llvm::StringLiteral kRoot = "root";

SmallVector<nn::StateOp> storedStates(ModuleOp module) {
  SmallVector<nn::StateOp> states;
  for (auto state : module.getOps<nn::StateOp>())
    if (!state.getOf())
      states.push_back(state);
  return states;
}

llvm::StringSet<> setOf(const std::vector<std::string> &scopes) {
  llvm::StringSet<> set;
  for (const std::string &scope : scopes)
    set.insert(scope);
  return set;
}

/// Returns the modules whose parameters, without those of smaller units, reach
/// `least` elements (FairScale's and FSDP's size policy).
llvm::StringSet<> findBySize(ArrayRef<nn::StateOp> states, int64_t least) {
  // Elements directly in a scope, and the scopes below it.
  llvm::StringMap<int64_t> own;
  llvm::StringMap<llvm::StringSet<>> below;
  llvm::StringSet<> top;
  for (nn::StateOp state : states) {
    SmallVector<StringRef> scopes = scopesOf(state.getSymName(), false);
    if (scopes.empty())
      continue;
    own[scopes.back()] += state.getTensorType().getNumElements();
    top.insert(scopes.front());
    for (size_t i = 1; i < scopes.size(); ++i)
      below[scopes[i - 1]].insert(scopes[i]);
  }
  llvm::StringSet<> units;
  std::function<int64_t(StringRef)> visit = [&](StringRef scope) {
    int64_t left = own.lookup(scope);
    for (auto &child : below[scope])
      left += visit(child.first());
    if (left < least)
      return left;
    units.insert(scope);
    return int64_t(0);
  };
  for (auto &scope : top)
    visit(scope.first());
  return units;
}

/// Returns the innermost unit that encloses a path, or root.
StringRef unitOf(StringRef path, bool isScope, const llvm::StringSet<> &units) {
  SmallVector<StringRef> scopes = scopesOf(path, isScope);
  for (StringRef scope : llvm::reverse(scopes))
    if (units.contains(scope))
      return scope;
  return kRoot;
}

/// Returns the innermost unit that encloses both.
StringRef commonUnit(StringRef a, StringRef b, const llvm::StringSet<> &units) {
  while (a != b) {
    if (a == kRoot || b == kRoot)
      return kRoot;
    StringRef &longer = a.size() >= b.size() ? a : b;
    longer = unitOf(longer, false, units);
  }
  return a;
}

/// Calls `visit` with each state and the unit of each op that reads it, found by
/// nn.scope. Scopes that are not named like the modules of parameters are ignored.
void visitUsers(ModuleOp module, const llvm::StringSet<> &units,
                llvm::function_ref<void(StringRef, StringRef)> visit) {
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      auto state =
          function.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), nn::kStateAttr);
      if (!state)
        continue;
      for (Operation *user : argument.getUsers())
        if (auto scope = user->getAttrOfType<StringAttr>(nn::kScopeAttr)) {
          StringRef unit = unitOf(scope.getValue(), true, units);
          if (unit != kRoot)
            visit(state.getValue(), unit);
        }
    }
}

FailureOr<llvm::StringSet<>> findMatching(ModuleOp module, ArrayRef<nn::StateOp> states,
                                          StringRef regex) {
  llvm::Regex pattern(regex);
  if (failed(matchParameters(module, regex, "unit policy match")))
    return failure();
  llvm::StringSet<> units;
  for (nn::StateOp state : states)
    for (StringRef scope : scopesOf(state.getSymName(), false))
      if (pattern.match(scope)) {
        units.insert(scope);
        break;
      }
  if (units.empty())
    return module.emitError("unit policy match: '")
           << regex << "' matches parameters but no module scope";
  return units;
}

FailureOr<llvm::StringSet<>> findUnits(ModuleOp module, const UnitPolicy &policy) {
  SmallVector<nn::StateOp> states = storedStates(module);
  switch (policy.kind) {
  case UnitPolicy::Block:
    return setOf(findBlocks(module));
  case UnitPolicy::Size:
    return findBySize(states, policy.size);
  case UnitPolicy::Match:
    return findMatching(module, states, policy.name);
  case UnitPolicy::Class: {
    auto scopes = scopesOfClass(module, policy.name, "unit policy class");
    if (failed(scopes))
      return failure();
    return setOf(*scopes);
  }
  }
  llvm_unreachable("all kinds are listed");
}

/// Returns the unit of each state.
llvm::StringMap<StringRef> assign(ModuleOp module, const llvm::StringSet<> &units) {
  llvm::StringMap<StringRef> assigned;
  for (nn::StateOp state : storedStates(module)) {
    StringRef unit = unitOf(state.getSymName(), false, units);
    for (StringRef name : namesOf(state))
      unit = commonUnit(unit, unitOf(name, false, units), units);
    assigned[state.getSymName()] = unit;
  }
  visitUsers(module, units, [&](StringRef state, StringRef unit) {
    if (auto it = assigned.find(state); it != assigned.end())
      it->second = commonUnit(it->second, unit, units);
  });
  return assigned;
}

/// Returns the elements of each unit.
llvm::StringMap<int64_t> sizesOf(ModuleOp module, const llvm::StringSet<> &units) {
  llvm::StringMap<StringRef> assigned = assign(module, units);
  llvm::StringMap<int64_t> sizes;
  for (nn::StateOp state : storedStates(module))
    sizes[assigned.lookup(state.getSymName())] += state.getTensorType().getNumElements();
  return sizes;
}

/// Adds to the blocks the largest modules that enclose none of them, such as an embedding or an
/// output layer, if they have at least a quarter of the elements of the largest block. In `root`
/// they would be whole together, and their gradients would live from the output layer's, which is
/// the first of the backward pass, to the embedding's, which is the last. Smaller modules would
/// cost more collectives than they save memory.
void addLargeModules(ModuleOp module, llvm::StringSet<> &units) {
  constexpr int64_t kParts = 4;
  int64_t largest = 0;
  for (const auto &[unit, elements] : sizesOf(module, units))
    if (unit != kRoot)
      largest = std::max(largest, elements);
  llvm::StringSet<> enclosing;
  for (const auto &unit : units)
    for (StringRef scope : scopesOf(unit.first(), true))
      enclosing.insert(scope);
  llvm::StringSet<> with = units;
  for (nn::StateOp state : storedStates(module)) {
    if (unitOf(state.getSymName(), false, units) != kRoot)
      continue;
    SmallVector<StringRef> scopes = scopesOf(state.getSymName(), false);
    auto *beside = llvm::find_if_not(scopes, [&](StringRef s) { return enclosing.contains(s); });
    if (beside != scopes.end())
      with.insert(*beside);
  }
  // Tied parameters do not count: they belong to the root.
  for (const auto &[unit, elements] : sizesOf(module, with))
    if (unit != kRoot && elements >= llvm::divideCeilSigned(largest, kParts))
      units.insert(unit);
}

LogicalResult annotateUnits(ModuleOp module, const UnitPolicy &policy) {
  FailureOr<llvm::StringSet<>> units = findUnits(module, policy);
  if (failed(units))
    return failure();
  if (policy.kind == UnitPolicy::Block && !units->empty())
    addLargeModules(module, *units);
  llvm::StringMap<StringRef> assigned = assign(module, *units);
  for (nn::StateOp state : storedStates(module))
    state.setUnit(assigned.lookup(state.getSymName()));
  return success();
}

struct AnnotateUnitsPass : impl::AnnotateUnitsPassBase<AnnotateUnitsPass> {
  using AnnotateUnitsPassBase::AnnotateUnitsPassBase;
  void runOnOperation() final {
    if (failed(annotateUnits(getOperation(), unit)))
      signalPassFailure();
  }
};

} // namespace

} // namespace shale
