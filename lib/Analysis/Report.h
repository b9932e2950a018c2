//===- Report.h - A plan as text, JSON and a page -------------------------===//
#ifndef SHALE_ANALYSIS_REPORT_H
#define SHALE_ANALYSIS_REPORT_H

#include "lib/Analysis/ProgramSummary.h"
#include "lib/Analysis/TimeModel.h"
#include "lib/Analysis/Timeline.h"

namespace shale {

enum class ReportForm { Text, Json, Html };

/// The form that a file's name asks for: .json, .html, else text.
ReportForm reportFormOf(llvm::StringRef path);

/// Memory of a rank over the functions of a planned program: what the peak is made
/// of, every tensor with its life and source node; the page draws it over time.
mlir::LogicalResult reportMemory(mlir::ModuleOp module, const ProgramSummary &summary, ReportForm form, llvm::raw_ostream &os);

/// Every collective: bytes, type, axis, when, and what runs meanwhile.
mlir::LogicalResult reportCommunication(mlir::ModuleOp module, const Rates &rates, ReportForm form, llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_ANALYSIS_REPORT_H
