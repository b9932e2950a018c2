//===- MemoryPage.h - HTML page of the memory over a step -----------------===//
#ifndef SHALE_ANALYSIS_MEMORYPAGE_H
#define SHALE_ANALYSIS_MEMORYPAGE_H

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace shale {

/// Writes one self-contained HTML page with the memory report's JSON and a
/// drawing of it. Hovering over a band shows the tensor and its source node.
void writeMemoryPage(const llvm::json::Value &report, llvm::raw_ostream &os);

} // namespace shale

#endif // SHALE_ANALYSIS_MEMORYPAGE_H
