//===- ToolError.cpp - Failures of tools that the compiler runs -----------===//
#include "lib/Support/ToolError.h"

using namespace mlir;

/// Precedes the exit code in a diagnostic's metadata.
static constexpr StringLiteral kExitCode = "shale.exit-code";

InFlightDiagnostic shale::emitToolError(Location location, StringRef what, const ToolError &error) {
  InFlightDiagnostic diagnostic = emitError(location) << what << ": " << error.message;
  auto &metadata = diagnostic.getUnderlyingDiagnostic()->getMetadata();
  metadata.push_back(DiagnosticArgument(kExitCode));
  metadata.push_back(DiagnosticArgument(static_cast<int64_t>(error.exitCode)));
  return diagnostic;
}

std::optional<int> shale::exitCodeOf(Diagnostic &diagnostic) {
  ArrayRef<DiagnosticArgument> metadata = diagnostic.getMetadata();
  using Kind = DiagnosticArgument::DiagnosticArgumentKind;
  for (size_t i = 0; i + 1 < metadata.size(); ++i)
    if (metadata[i].getKind() == Kind::String && metadata[i].getAsString() == kExitCode &&
        metadata[i + 1].getKind() == Kind::Integer)
      return static_cast<int>(metadata[i + 1].getAsInteger());
  return std::nullopt;
}
