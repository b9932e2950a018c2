// Recognizes buffers of published checkpoints that hold no weights.
#ifndef SHALE_RUNTIME_CHECKPOINT_MASKS_H
#define SHALE_RUNTIME_CHECKPOINT_MASKS_H

#include "runtime/data/SafetensorsReader.h"

#include <string>

namespace shale::rt {

/// Whether a tensor holds only what a model computes from positions, by its values: a triangular
/// mask [1, .., n, n] of 0 and 1, or of 0 and a number of -1e4 or less; the numbers 0, 1, .. in an
/// integer type, [1, .., n]; or one number of -1e4 or less whose name contains "mask", as GPT-2's
/// h.0.attn.masked_bias. No trained weight has such values.
bool isMask(const InputFile &file, const TensorInfo &info, const std::string &name);

} // namespace shale::rt

#endif
