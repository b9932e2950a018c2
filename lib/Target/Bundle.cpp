//===- Bundle.cpp - Copies a program's shared libraries next to it --------===//
#include "lib/Target/Link.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"

using namespace shale;
namespace fs = llvm::sys::fs;

/// Whether a library is part of glibc. Every Linux system provides these, and they must match its
/// kernel and loader.
static bool isPartOfGlibc(llvm::StringRef name) {
  llvm::StringRef stem = name.split(".so").first;
  return stem == "linux-vdso" || stem.starts_with("ld-linux") ||
         llvm::is_contained({"libc", "libm", "libmvec", "libpthread", "libdl", "librt", "libresolv",
                             "libutil", "libanl", "libnsl"},
                            stem);
}

/// Lists the libraries that the loader would load. Its output has one `name => path (address)` per
/// line.
static bool listLibraries(llvm::StringRef program, llvm::SmallVectorImpl<std::string> &paths,
                          std::string &error) {
  llvm::SmallString<128> list;
  if (std::error_code code = fs::createTemporaryFile("shale-libraries", "txt", list)) {
    error = "cannot make a temporary file: " + code.message();
    return false;
  }
  llvm::sys::RemoveFileOnSignal(list);
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(list),
                                                llvm::StringRef(list)};
  constexpr llvm::StringLiteral loader = "/lib64/ld-linux-x86-64.so.2";
  int status = llvm::sys::ExecuteAndWait(loader, {loader, "--list", program}, std::nullopt,
                                         redirects, 60, 0, &error);
  auto text = llvm::MemoryBuffer::getFile(list);
  llvm::SmallVector<llvm::StringRef> lines;
  if (text)
    (*text)->getBuffer().split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef line : lines) {
    auto [name, rest] = line.trim().split(" => ");
    llvm::StringRef path = rest.rsplit(" (").first;
    if (isPartOfGlibc(llvm::sys::path::filename(name)) || rest.empty())
      continue;
    if (!llvm::sys::path::is_absolute(path)) {
      error = "the loader does not find " + name.str();
      status = 1;
      break;
    }
    paths.push_back(path.str());
  }
  (void)fs::remove(list);
  llvm::sys::DontRemoveFileOnSignal(list);
  if (status == 0 && paths.empty())
    error = "the loader lists no library of it";
  if (status != 0 && error.empty())
    error = "the loader ends with " + std::to_string(status);
  return status == 0 && !paths.empty();
}

/// Copies a file through a temporary file, so that `to` is never incomplete.
static std::error_code copyWhole(llvm::StringRef from, const llvm::Twine &to) {
  llvm::SmallString<128> partial;
  if (std::error_code code = fs::getPotentiallyUniqueFileName(to + ".%%%%%%.partial", partial))
    return code;
  llvm::sys::RemoveFileOnSignal(partial);
  std::error_code code = fs::copy_file(from, partial);
  if (!code)
    code = fs::setPermissions(partial, fs::all_read | fs::owner_write | fs::all_exe);
  if (!code)
    code = fs::rename(partial, to);
  if (code)
    (void)fs::remove(partial);
  llvm::sys::DontRemoveFileOnSignal(partial);
  return code;
}

std::string shale::bundleFolder(llvm::StringRef program) { return (program + ".libs").str(); }

bool shale::bundleLibraries(llvm::StringRef program, int64_t &count, int64_t &bytes,
                            std::string &error) {
  llvm::SmallVector<std::string> libraries;
  llvm::SmallString<128> place(program);
  (void)fs::make_absolute(place); // the loader would search for a name without a slash
  if (!listLibraries(place, libraries, error))
    return false;
  std::string folder = bundleFolder(program);
  if (std::error_code code = fs::create_directory(folder, /*IgnoreExisting=*/true, fs::all_all)) {
    error = "cannot make the folder '" + folder + "': " + code.message();
    return false;
  }
  count = bytes = 0;
  for (const std::string &library : libraries) {
    llvm::SmallString<128> copy(folder);
    llvm::sys::path::append(copy, llvm::sys::path::filename(library));
    uint64_t size = 0;
    // A program that is already bundled loads the existing copy.
    bool there = fs::equivalent(library, copy);
    std::error_code code = there ? std::error_code() : copyWhole(library, copy);
    if (!code)
      code = fs::file_size(copy, size);
    if (code) {
      error = "cannot copy '" + library + "' to '" + folder + "': " + code.message();
      return false;
    }
    ++count;
    bytes += size;
  }
  return true;
}
