// Manifests that are changed on purpose.
#ifndef SHALE_TEST_FORGE_H
#define SHALE_TEST_FORGE_H

#include "runtime/core/Checksum.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Json.h"

#include <fstream>
#include <functional>

namespace shale::rt {

/// Changes the body of a checkpoint's manifest, and makes its checksum right.
inline void forge(const std::string &folder, const std::function<void(nlohmann::json &)> &change) {
  std::string path = folder + "/manifest.json";
  nlohmann::json whole = parseJson(readText(path, 1 << 30));
  change(whole["body"]);
  whole["checksum"] = format("%016llx", (unsigned long long)checksumOf(whole["body"].dump()));
  std::ofstream(path) << whole.dump(1) << "\n";
}

} // namespace shale::rt

#endif
