//===- External.cpp - Opens external data beneath the model's folder ------===//
//
// A model must not be able to read other files: the location is relative,
// without "..", and is opened beneath the model's folder. Symbolic links are
// followed as long as they stay there, or in the real folder of a model that is
// itself a link (as in the caches of model hubs).
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Model.h"
#include "lib/Support/InputFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include <cerrno>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace shale;
using namespace shale::onnx;
using llvm::createStringError;
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
    return createStringError(llvm::Twine(why) + ": '" + displayName(location) + "'");
  auto it = externals.find(location);
  if (it != externals.end()) {
    found = it->second.first;
    return it->second.second.get();
  }
  llvm::SmallString<256> folder(path::parent_path(filePath));
  if (folder.empty())
    folder = ".";
  llvm::SmallString<256> full(folder);
  path::append(full, location);
  int file = openBeneath(folder, location);
  if (file < 0 && errno == EXDEV) {
    llvm::SmallString<256> realModel, realData;
    if (!fs::real_path(filePath, realModel) && !fs::real_path(full, realData)) {
      std::string base = (path::parent_path(realModel) + "/").str();
      if (StringRef(realData).starts_with(base))
        file =
            openBeneath(path::parent_path(realModel), StringRef(realData).drop_front(base.size()));
      else
        errno = EXDEV;
    }
  }
  if (file < 0 && errno == ENOENT)
    found = std::string(full);
  if (file < 0)
    return createStringError("external data '" + displayName(location) + "' " +
                             (errno == EXDEV
                                  ? std::string("is a link out of the model's folder")
                                  : "cannot be opened: " + std::string(strerror(errno))));
  ToolError wrong;
  std::unique_ptr<llvm::MemoryBuffer> buffer = openedInput(file, full, wrong);
  if (!buffer)
    return createStringError("external data '" + displayName(location) + "' " + wrong.message);
  found = std::string(full);
  auto &slot = externals[location];
  slot = {found, std::move(buffer)};
  return slot.second.get();
}
