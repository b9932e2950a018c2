//===- Messages.cpp - Text of the compiler's diagnostics ------------------===//
#include "tools/driver/Messages.h"
#include "lib/Analysis/Timeline.h"
#include "lib/Support/Printable.h"
#include "shale/Runtime.h"

using namespace mlir;
using namespace shale;

/// Prints one line for a diagnostic or a note: tool, severity, file, node, message, line of source.
static void printLine(Diagnostic &diagnostic, StringRef severity, StringRef model, StringRef node,
                      StringRef place, raw_ostream &os) {
  PrintableStream out(os);
  out << "shalec: " << severity << ": ";
  std::string text = diagnostic.str();
  if (!model.empty() && !StringRef(text).contains(model))
    out << model << ": ";
  if (!node.empty() && !StringRef(text).contains(node))
    out << "node '" << node << "': ";
  out << printable(text);
  if (!place.empty())
    out << " (" << place << ")";
  out << "\n";
}

void shale::printDiagnostic(Diagnostic &diagnostic, StringRef model, raw_ostream &os) {
  const char *severity = "remark";
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    severity = "error";
    break;
  case DiagnosticSeverity::Warning:
    severity = "warning";
    break;
  case DiagnosticSeverity::Note:
    severity = "note";
    break;
  case DiagnosticSeverity::Remark:
    break;
  }
  std::string node = sourceNode(diagnostic.getLocation());
  printLine(diagnostic, severity, model, node, sourcePlace(diagnostic.getLocation()), os);
  for (Diagnostic &note : diagnostic.getNotes()) {
    std::string other = sourceNode(note.getLocation());
    bool same = other == node;
    printLine(note, "note", "", same ? "" : other, same ? "" : sourcePlace(note.getLocation()), os);
  }
}

int shale::usageError(const Twine &message) {
  llvm::errs() << "shalec: error: " << message << "\n";
  return SHALE_EXIT_USAGE;
}
