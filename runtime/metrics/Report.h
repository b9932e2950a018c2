// report.html: a run's curves in one self-contained file.
#ifndef SHALE_RUNTIME_METRICS_REPORT_H
#define SHALE_RUNTIME_METRICS_REPORT_H

#include <string>
#include <utility>
#include <vector>

namespace shale::rt {

struct ReportFacts {
  std::string title;                                     // name of the model
  std::vector<std::pair<std::string, std::string>> rows; // label and value
  std::string unit = "tokens";                           // of the speed
  double unitsPerToken = 1;                              // the file counts tokens
};

/// Draws metrics.jsonl: loss (with evaluations), gradient norm, learning rate,
/// tokens per second and memory by step. Lines that are not metrics are skipped;
/// curves with many steps keep the least and the greatest value of each column.
void writeReport(const std::string &metrics, const std::string &path, const ReportFacts &facts);

} // namespace shale::rt

#endif
