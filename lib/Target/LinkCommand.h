//===- LinkCommand.h - The command that links a program -------------------===//
#ifndef SHALE_TARGET_LINKCOMMAND_H
#define SHALE_TARGET_LINKCOMMAND_H

#include "lib/Target/Link.h"

namespace shale {

/// Returns the command that links `objects` and the runtime to `partial`, which is later renamed to
/// `output`. The first word is the path of the linker: that of a package (LinkOptions::package) if
/// there is one, else a compiler driver. Returns no words, and a message in `error`, if this
/// machine has neither.
std::vector<std::string> linkCommand(llvm::ArrayRef<std::string> objects, llvm::StringRef partial,
                                     llvm::StringRef output, const LinkOptions &options,
                                     ToolError &error);

} // namespace shale

#endif // SHALE_TARGET_LINKCOMMAND_H
