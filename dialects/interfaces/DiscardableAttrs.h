//===- DiscardableAttrs.h - Checks of a dialect's discardable attributes --===//
//
// TableGen's `discardableAttrs` of a dialect lists the names and types of the attributes that other
// dialects' ops may carry, and makes a helper class for each. MLIR does not check them: a table of
// rules says what they must be besides.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERFACES_DISCARDABLEATTRS_H
#define SHALE_INTERFACES_DISCARDABLEATTRS_H

#include "mlir/IR/Operation.h"
#include <utility>

namespace shale {

/// The rule for the value of one attribute.
struct AttrRule {
  llvm::StringLiteral name;
  llvm::StringLiteral must; ///< completes the error "'nn.scope' must .."
  bool (*holds)(mlir::Operation *op, mlir::Attribute value);
};

/// The type that TableGen declares for the attribute of a helper class.
template <typename Helper>
using AttrOf = decltype(std::declval<Helper &>().getAttr(std::declval<mlir::Operation *>()));

/// Returns the rule of the attribute of a helper class: it has the declared type, and `Holds` is
/// true for the op and the attribute.
template <typename Helper, bool (*Holds)(mlir::Operation *, AttrOf<Helper>) = nullptr>
constexpr AttrRule attrRule(llvm::StringLiteral must) {
  return {Helper::getNameStr(), must, [](mlir::Operation *op, mlir::Attribute value) {
            auto typed = mlir::dyn_cast<AttrOf<Helper>>(value);
            if constexpr (Holds == nullptr)
              return bool(typed);
            else
              return typed && Holds(op, typed);
          }};
}

/// Checks an attribute of an op by its rule. An attribute without a rule is an error.
mlir::LogicalResult verifyDiscardableAttr(mlir::Operation *op, mlir::NamedAttribute attr,
                                          llvm::ArrayRef<AttrRule> rules);

} // namespace shale

#endif // SHALE_INTERFACES_DISCARDABLEATTRS_H
