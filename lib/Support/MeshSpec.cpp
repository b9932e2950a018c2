//===- MeshSpec.cpp - Parser for the mesh option --------------------------===//
#include "lib/Support/MeshSpec.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace shale;
using llvm::StringRef;

int64_t MeshSpec::ranks() const {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

bool MeshSpec::hasAxisThat(dist::RolesPredicate holds) const {
  return llvm::any_of(kinds, [&](dist::AxisKind kind) { return holds(rolesOf(kind)); });
}

int64_t MeshSpec::ranksThat(dist::RolesPredicate holds) const {
  int64_t count = 1;
  for (auto [kind, size] : llvm::zip(kinds, sizes))
    count *= holds(rolesOf(kind)) ? size : 1;
  return count;
}

/// Returns the default kind of an axis name, or nothing.
static std::optional<dist::AxisKind> kindOfName(StringRef name) {
  return llvm::StringSwitch<std::optional<dist::AxisKind>>(name)
      .Case("replica", dist::AxisKind::Replica)
      .Case("fsdp", dist::AxisKind::Shard)
      .Case("tp", dist::AxisKind::Tensor)
      .Case("ep", dist::AxisKind::Expert)
      .Default(std::nullopt);
}

std::string shale::parseText(StringRef text, MeshSpec &mesh) {
  mesh.names.clear();
  mesh.kinds.clear();
  mesh.sizes.clear();
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',');
  int64_t ranks = 1;
  for (StringRef part : parts) {
    auto [axis, size] = part.split('=');
    auto [name, word] = axis.split(':');
    name = name.trim();
    word = word.trim();
    int64_t count = 0;
    if (name.empty() || size.trim().getAsInteger(10, count) || count < 1 || count > kMostRanks ||
        (ranks *= count) > kMostRanks)
      return ("mesh '" + text +
              "' is not of the form axis=size,axis=size with sizes from 1 on and at most 1048576 ranks")
          .str();
    if (name.contains(dist::kJoin))
      return ("mesh '" + text + "' has an axis '" + name + "': '" + dist::kJoin +
              "' joins axes, so no name of one has it")
          .str();
    std::optional<dist::AxisKind> kind =
        axis.contains(':') ? dist::symbolizeAxisKind(word) : kindOfName(name);
    if (!kind && axis.contains(':'))
      return ("mesh '" + text + "': axis '" + name + "' is of kind '" + word +
              "'; expected replica, shard, tensor or expert")
          .str();
    if (!kind)
      return ("mesh '" + text + "' has an axis '" + name +
              "' of unknown kind: use the names replica and fsdp, or write " + name +
              ":shard=" + llvm::Twine(count) + " or " + name + ":replica=" + llvm::Twine(count))
          .str();
    if (llvm::is_contained(mesh.names, name))
      return ("mesh '" + text + "' has two axes '" + name + "'").str();
    mesh.names.push_back(name.str());
    mesh.kinds.push_back(*kind);
    mesh.sizes.push_back(count);
  }
  return "";
}

std::string shale::textOf(const MeshSpec &mesh) {
  std::string text;
  for (auto [name, kind, size] : llvm::zip(mesh.names, mesh.kinds, mesh.sizes)) {
    text += (text.empty() ? "" : ",") + name;
    if (kindOfName(name) != kind)
      text += (":" + dist::stringifyAxisKind(kind)).str();
    text += "=" + std::to_string(size);
  }
  return text;
}
