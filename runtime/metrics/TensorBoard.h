// TensorBoard's event files: TFRecords of Event messages with scalars. They are written
// without protobuf, since the format is a few fields of its wire format.
#ifndef SHALE_RUNTIME_METRICS_TENSORBOARD_H
#define SHALE_RUNTIME_METRICS_TENSORBOARD_H

#include "runtime/metrics/Metrics.h"

#include <cstddef>
#include <string>

namespace shale::rt {

class TensorBoard {
public:
  /// Creates a new file in the folder. Marks events of `firstStep` and later steps in
  /// older files as void: the run was resumed from an earlier checkpoint.
  TensorBoard(const std::string &folder, int64_t firstStep);

  /// Writes the scalars of metrics.jsonl under the same names and steps. Allocates
  /// nothing, unless the file cannot be written.
  void record(const StepMetrics &metrics);
  void finish() { file->finish(); }

private:
  void write(const unsigned char *event, size_t bytes);
  std::optional<LogFile> file;
};

/// Returns the CRC-32C (Castagnoli) as TFRecords store it: rotated and offset.
uint32_t maskedCrc32c(const unsigned char *data, size_t bytes);

} // namespace shale::rt

#endif
