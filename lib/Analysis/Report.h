//===- Report.h - Reports of a plan as text, JSON and HTML ----------------===//
#ifndef SHALE_ANALYSIS_REPORT_H
#define SHALE_ANALYSIS_REPORT_H

#include "lib/Analysis/ProgramSummary.h"
#include "lib/Analysis/TimeModel.h"
#include "lib/Analysis/Timeline.h"

namespace shale {

enum class ReportForm { Text, Json, Html };

/// Returns the form for the extension of a file name: JSON for .json, HTML for .html, else text.
ReportForm reportFormOf(llvm::StringRef path);

/// Reports the memory of one rank over the functions of a planned program: the parts of the
/// peak and every tensor with its live range and source node. The HTML page draws it over time.
mlir::LogicalResult reportMemory(mlir::ModuleOp module, const ProgramSummary &summary,
                                 ReportForm form, llvm::raw_ostream &os);

/// Reports every collective: its bytes, type, axis and time, how long compute waits for it, and the
/// ops that run during it; as text also the sums of each axis and the critical path.
mlir::LogicalResult reportCommunication(mlir::ModuleOp module, const Rates &rates, ReportForm form,
                                        llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_ANALYSIS_REPORT_H
