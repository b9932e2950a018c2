//===- KernelCode.h - What the code of an rt.kernel takes -----------------===//
#ifndef SHALE_RT_KERNELCODE_H
#define SHALE_RT_KERNELCODE_H

#include "dialects/rt/RT.h"

namespace shale::rt {

/// Discardable attribute of a compiled rt.kernel: a dictionary with what its code takes besides
/// `rows` and `grain`. `scratch`: bytes per thread. `threads`: threads per block of a GPU. `usage`:
/// one dictionary per architecture of a GPU, with its name as `architecture`, and `registers`,
/// `stack` and `spilled` bytes per thread, and `shared` bytes per block. Zeros and empty lists are
/// left out of the outer dictionary.
inline constexpr llvm::StringLiteral kCodeAttr = RTDialect::CodeAttrHelper::getNameStr();

} // namespace shale::rt

#endif // SHALE_RT_KERNELCODE_H
