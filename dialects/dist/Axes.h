//===- Axes.h - What the ranks along a mesh axis share out ----------------===//
#ifndef SHALE_DIST_AXES_H
#define SHALE_DIST_AXES_H

#include "mlir/IR/OpImplementation.h"

#include "dialects/dist/DistEnums.h.inc"

namespace shale::dist {

/// Returns the roles that a kind of axis is a name for.
AxisRole rolesOf(AxisKind kind);

/// Separates the names of axes in that of a joint axis, over which a collective runs at once.
inline constexpr llvm::StringLiteral kJoin = "+";

using RolesPredicate = bool (*)(AxisRole);

/// Whether ranks along an axis of these roles read different parts of the inputs.
inline bool splitsInputs(AxisRole roles) { return bitEnumContainsAny(roles, AxisRole::Batch); }
/// Whether the strategy splits state at rest along it.
inline bool splitsState(AxisRole roles) { return bitEnumContainsAny(roles, AxisRole::State); }
/// Whether no strategy splits state along it.
inline bool replicatesState(AxisRole roles) {
  return bitEnumContainsAny(roles, AxisRole::Replicate);
}
/// Whether layouts split values of the graph, and so parameters when they are used, along it.
inline bool splitsValues(AxisRole roles) { return bitEnumContainsAny(roles, AxisRole::Values); }
/// Whether matrices of experts, and what is computed with them, are split along it by experts.
inline bool splitsExperts(AxisRole roles) { return bitEnumContainsAny(roles, AxisRole::Experts); }
/// Whether layouts split values other than by examples along it, so that they are exchanged.
inline bool exchangesValues(AxisRole roles) { return splitsValues(roles) || splitsExperts(roles); }
/// Whether parameters but those of experts are whole when they are used, and their gradients are
/// summed along it.
inline bool sumsGradients(AxisRole roles) {
  return roles != AxisRole() && !bitEnumContainsAny(roles, AxisRole::Values);
}

} // namespace shale::dist

#endif // SHALE_DIST_AXES_H
