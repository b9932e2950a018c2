//===- Blocks.h - Axes that split blocks of a dimension -------------------===//
#ifndef SHALE_INTERFACES_BLOCKS_H
#define SHALE_INTERFACES_BLOCKS_H

#include "llvm/ADT/SmallVector.h"
#include <cstdint>

namespace shale {

/// A dimension of which an axis has split blocks is a row-major product: `local` are the sizes that
/// each rank has of it. Splits each of `blocks` blocks of it into `parts`, and returns the place of
/// the size that is divided. Returns -1, and changes nothing, if a block is not a product of sizes,
/// or does not divide.
int64_t splitBlocks(llvm::SmallVectorImpl<int64_t> &local, int64_t blocks, int64_t parts);

} // namespace shale

#endif // SHALE_INTERFACES_BLOCKS_H
