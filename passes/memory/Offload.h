//===- Offload.h - What goes to host memory -------------------------------===//
#ifndef SHALE_PASSES_MEMORY_OFFLOAD_H
#define SHALE_PASSES_MEMORY_OFFLOAD_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace shale {

/// The fraction of bytes of each kind of memory that is kept on the host, the
/// largest tensors first. The states of one parameter's optimizer stay together.
struct OffloadPolicy {
  double params = 0, grads = 0, optimizer = 0, activations = 0;
  bool any() const { return params + grads + optimizer + activations > 0; }
};

/// Parses `none`, `all`, or a list of `params`, `grads`, `optimizer` and
/// `activations`, each with `:FRACTION` (0 to 1) or without. Returns an error text,
/// or an empty string on success.
std::string parseOffload(llvm::StringRef text, OffloadPolicy &policy);

} // namespace shale

#endif // SHALE_PASSES_MEMORY_OFFLOAD_H
