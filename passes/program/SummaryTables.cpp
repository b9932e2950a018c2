//===- SummaryTables.cpp - Tables of what a plan has ----------------------===//
#include "passes/program/SummaryTables.h"
#include "passes/program/Program.h"

using namespace mlir;
using namespace shale;
using namespace shale::abi;

Rows<ShaleSite> shale::siteTable(ModuleOp module, ProgramData &data,
                                 const ProgramSummary &summary) {
  std::vector<Row<ShaleSite>> rows;
  for (const CollectiveSite &site : summary.sites) {
    Row<ShaleSite> row;
    row.name = data.text(site.name);
    row.kind = ShaleCollectiveKind(site.kind); // the numbers of shale/Collectives.def
    row.axis = axisIndex(module, site.axis);
    row.sent_bytes = site.sentBytes;
    row.times = site.times;
    row.bucket = site.bucket;
    row.bucket_size = site.bucketSize;
    row.type = sentType(site.element, site.encoding);
    rows.push_back(std::move(row));
  }
  return data.table<ShaleSite>("sites", rows);
}

// The numbers of shale/Words.def.
#define SHALE_CATEGORY(NAME, Name, text, number) static_assert(int(rt::Category::Name) == number);
#include "shale/Words.def"
#define SHALE_BLOCK(NAME, Name, text, number) static_assert(int(rt::Space::Name) == number);
#include "shale/Words.def"

static ShaleSpace spaceOf(mem::Memory memory) {
  return memory == mem::Memory::Host ? SHALE_SPACE_HOST : SHALE_SPACE_DEVICE;
}

Rows<ShalePlanLine> shale::planTable(ProgramData &data, const ProgramSummary &summary) {
  std::vector<Row<ShalePlanLine>> rows;
  for (const PlanLine &line : summary.lines) {
    Row<ShalePlanLine> row;
    row.category = ShaleCategory(line.category);
    row.what = data.text(line.what);
    row.space = spaceOf(line.memory);
    row.bytes = line.bytes;
    rows.push_back(std::move(row));
  }
  return data.table<ShalePlanLine>("plan", rows);
}

Rows<ShaleBuffer> shale::bufferTable(ProgramData &data, const ProgramSummary &summary) {
  std::vector<Row<ShaleBuffer>> rows;
  for (const PlannedBuffer &buffer : summary.buffers) {
    Row<ShaleBuffer> row;
    row.name = data.text(buffer.name);
    row.category = ShaleCategory(buffer.category);
    row.space = spaceOf(buffer.memory);
    row.block = ShaleBlock(buffer.space);
    row.offset = buffer.offset;
    row.bytes = buffer.bytes;
    row.padding = buffer.padding;
    rows.push_back(std::move(row));
  }
  return data.table<ShaleBuffer>("buffers", rows);
}

Rows<ShaleTransfer> shale::transferTable(ProgramData &data, const ProgramSummary &summary) {
  std::vector<Row<ShaleTransfer>> rows;
  for (const MemoryCopy &copy : summary.copies) {
    Row<ShaleTransfer> row;
    row.name = data.text(copy.name);
    row.node = data.text(copy.source);
    row.bytes = copy.bytes;
    row.times = copy.times;
    row.to_host = copy.target == mem::Memory::Host;
    rows.push_back(std::move(row));
  }
  return data.table<ShaleTransfer>("transfers", rows);
}
