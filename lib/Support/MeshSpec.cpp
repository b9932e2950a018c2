//===- MeshSpec.cpp - A mesh as people write it ---------------------------===//
#include "lib/Support/MeshSpec.h"
#include "llvm/ADT/STLExtras.h"

using llvm::StringRef;

std::string shale::parseMesh(StringRef text, MeshSpec &mesh) {
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',');
  int64_t ranks = 1;
  for (StringRef part : parts) {
    auto [name, size] = part.split('=');
    name = name.trim();
    int64_t count = 0;
    if (name.empty() || size.trim().getAsInteger(10, count) || count < 1 || count > kMostRanks ||
        (ranks *= count) > kMostRanks)
      return ("mesh '" + text + "' is not of the form axis=size,axis=size with sizes from 1 on and at most 1048576 ranks")
          .str();
    if (!llvm::is_contained({"replica", "fsdp", "tp"}, name))
      return ("mesh '" + text + "' has an axis '" + name +
              "', which says nothing of what is split over it; the axes are replica and fsdp (the batch) and tp (tensors)")
          .str();
    if (llvm::is_contained(mesh.names, name))
      return ("mesh '" + text + "' has two axes '" + name + "'").str();
    mesh.names.push_back(name.str());
    mesh.sizes.push_back(count);
  }
  return "";
}
