// Opens NVIDIA's libraries.
#include "runtime/device/cuda/DynamicLibrary.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <dlfcn.h>
#include <fnmatch.h>

namespace shale::rt::cuda {

static std::string &libraryFolder() {
  static std::string folder;
  return folder;
}

void setLibraryFolder(const std::string &folder) { libraryFolder() = folder; }

void openForOthers(const char *pattern) {
  if (libraryFolder().empty())
    return;
  for (const std::string &name : listFolder(libraryFolder()))
    if (fnmatch(pattern, name.c_str(), 0) == 0)
      dlopen((libraryFolder() + "/" + name).c_str(), RTLD_NOW | RTLD_GLOBAL);
}

DynamicLibrary::DynamicLibrary(const char *name, const char *purpose)
    : name(name), handle(nullptr) {
  const std::string &folder = libraryFolder();
  std::string path = folder + "/" + name, reason;
  bool isInFolder = !folder.empty() && exists(path);
  if (isInFolder) {
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (handle)
      return;
    reason = dlerror();
  }
  handle = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
  if (handle)
    return;
  if (!isInFolder)
    reason = dlerror() + (folder.empty() ? "" : ", and it is not in '" + folder + "'");
  fail(SHALE_EXIT_UNAVAILABLE,
       "%s: %s; install it, or name the folder that has it with --cuda-libraries", purpose,
       reason.c_str());
}

void *DynamicLibrary::addressOf(const char *symbol) const {
  if (void *found = dlsym(handle, symbol))
    return found;
  fail(SHALE_EXIT_UNAVAILABLE, "%s has no function %s: it is too old for this program", name,
       symbol);
}

} // namespace shale::rt::cuda
