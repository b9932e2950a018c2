//===- External.cpp - Opens external data beneath the model's folder ------===//
//
// A model must not be able to read other files: the location is relative,
// without "..", and is opened beneath the model's folder. Symbolic links are
// followed as long as they stay there, or in the real folder of a model that is
// itself a link (as in the caches of model hubs).
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Reader/Model.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace shale;
using namespace shale::onnx;
using llvm::Expected;
using llvm::StringRef;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

/// Why a location is refused, or nothing.
static const char *refuseLocation(StringRef location) {
  if (location.empty())
    return "external data has no location";
  if (location.contains('\0') || location.contains('\\'))
    return "a location has a character that is not allowed in paths";
  if (location.starts_with("/") || (location.size() > 1 && location[1] == ':'))
    return "a location is an absolute path";
  for (auto it = path::begin(location, path::Style::posix), end = path::end(location); it != end;
       ++it)
    if (*it == "..")
      return "a location leaves the model's folder";
  return nullptr;
}

/// Opens `name` beneath `folder`; links may not lead out of it.
static int openBeneath(StringRef folder, StringRef name) {
  int directory = ::open(folder.str().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0)
    return -1;
  struct open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  int file = syscall(SYS_openat2, directory, name.str().c_str(), &how, sizeof(how));
  // Without openat2 (Linux before 5.6, some sandboxes) no link is followed.
  if (file < 0 && (errno == ENOSYS || errno == EPERM) && !name.contains('/'))
    file = openat(directory, name.str().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  int error = errno;
  ::close(directory);
  errno = error;
  return file;
}

Expected<llvm::MemoryBuffer *> Model::external(StringRef location, std::string &found) {
  if (const char *why = refuseLocation(location))
    return errorOf("{}: {}", why, location);
  llvm::SmallString<256> folder(path::parent_path(filePath));
  if (folder.empty())
    folder = ".";
  llvm::SmallString<256> full(folder);
  path::append(full, location);
  found = std::string(full);
  std::unique_ptr<llvm::MemoryBuffer> &buffer = externals[location];
  if (buffer)
    return buffer.get();
  int file = openBeneath(folder, location);
  llvm::SmallString<256> realModel, realData;
  if (file < 0 && errno == EXDEV && !fs::real_path(filePath, realModel) &&
      !fs::real_path(full, realData)) {
    StringRef base = path::parent_path(realModel), data = realData;
    errno = EXDEV;
    if (data.consume_front(base) && data.consume_front("/"))
      file = openBeneath(base, data);
  }
  if (file < 0 && errno == ENOENT && !requireData) {
    missing.insert(found);
    return nullptr;
  }
  if (file < 0)
    return errorOf("external data {} {}", location,
                   plain(errno == EXDEV ? "is a link out of the model's folder"
                                        : "cannot be opened: " + std::string(strerror(errno))));
  ToolError wrong;
  buffer = openedInput(file, full, wrong);
  if (!buffer)
    return errorOf("external data {} {}", location, plain(wrong.message));
  return buffer.get();
}
