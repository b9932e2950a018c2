//===- DiscardableAttrs.cpp - Checks of discardable attributes ------------===//
#include "dialects/interfaces/DiscardableAttrs.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace shale;

LogicalResult shale::verifyDiscardableAttr(Operation *op, NamedAttribute attr,
                                           ArrayRef<AttrRule> rules) {
  StringRef name = attr.getName();
  const AttrRule *rule =
      llvm::find_if(rules, [&](const AttrRule &each) { return each.name == name; });
  if (rule == rules.end())
    return op->emitOpError() << "unknown attribute '" << name << "'";
  if (!rule->holds(op, attr.getValue()))
    return op->emitOpError() << "'" << name << "' must " << rule->must;
  return success();
}
