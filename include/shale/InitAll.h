//===- InitAll.h - Registration of dialects, passes and targets -----------===//
//
// For tools and for programs that embed the compiler: all dialects and passes
// in one call each.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INITALL_H
#define SHALE_INITALL_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace shale {

/// Registers Shale's targets by name. May be called more than once.
void registerAllTargets();

/// Registers all targets. Adds Shale's dialects and the upstream dialects that its passes produce.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Registers Shale's passes and pipelines with MLIR's global registry. Call once.
void registerAllPasses();

} // namespace shale

#endif // SHALE_INITALL_H
