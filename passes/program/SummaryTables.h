//===- SummaryTables.h - Tables of what a plan has ------------------------===//
#ifndef SHALE_PASSES_PROGRAM_SUMMARYTABLES_H
#define SHALE_PASSES_PROGRAM_SUMMARYTABLES_H

#include "lib/Analysis/ProgramSummary.h"
#include "lib/Codegen/ProgramData.h"

namespace shale {

/// Return the tables of collectives, of lines of the memory plan, of buffers, and of copies between
/// memories.
abi::Rows<ShaleSite> siteTable(mlir::ModuleOp module, abi::ProgramData &data,
                               const ProgramSummary &summary);
abi::Rows<ShalePlanLine> planTable(abi::ProgramData &data, const ProgramSummary &summary);
abi::Rows<ShaleBuffer> bufferTable(abi::ProgramData &data, const ProgramSummary &summary);
abi::Rows<ShaleTransfer> transferTable(abi::ProgramData &data, const ProgramSummary &summary);

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_SUMMARYTABLES_H
