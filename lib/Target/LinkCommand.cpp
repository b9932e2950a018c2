//===- LinkCommand.cpp - The command that links a program -----------------===//
#include "lib/Target/LinkCommand.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include <link.h>

using namespace shale;

/// Compiler drivers that link, the preferred one first. The runtime library of an instrumented
/// build is instrumented too, and needs the sanitizers of its compiler.
static constexpr const char *kDrivers[] = {
#ifdef SHALE_SANITIZING_COMPILER
    SHALE_SANITIZING_COMPILER,
#endif
    "c++", "g++", "clang++", "clang++-22"};

/// Returns the path of a file in a folder.
static std::string inFolder(llvm::StringRef folder, llvm::StringRef name) {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, name);
  return path.str().str();
}

/// Returns the path from which this process loaded a shared library, or no text.
static std::string loadedFrom(llvm::StringRef name) {
  std::pair<llvm::StringRef, std::string> search(name, "");
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *data) {
        auto &search = *static_cast<std::pair<llvm::StringRef, std::string> *>(data);
        bool found = llvm::sys::path::filename(info->dlpi_name) == search.first;
        if (found)
          search.second = info->dlpi_name;
        return int(found);
      },
      &search);
  return search.second;
}

namespace {
/// The words of a command. A compiler driver passes on the linker's own flags after -Xlinker only.
struct Words {
  std::vector<std::string> words;
  bool isDriver;

  void add(llvm::ArrayRef<std::string> more) {
    words.insert(words.end(), more.begin(), more.end());
  }
  void addFlags(llvm::ArrayRef<std::string> flags) {
    for (const std::string &flag : flags) {
      if (isDriver)
        words.push_back("-Xlinker");
      words.push_back(flag);
    }
  }
};
} // namespace

static std::string findDriver(const LinkOptions &options, ToolError &error) {
  if (!options.compiler.empty())
    return options.compiler;
  for (const char *name : kDrivers)
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
  error = {"no C++ compiler driver found to link with (c++, g++ or clang++): install g++",
           SHALE_EXIT_UNAVAILABLE};
  return "";
}

/// Adds what a compiler driver adds before the objects.
static void addStart(const LinkOptions &options, Words &command) {
  command.add({"-m", "elf_x86_64", "--hash-style=gnu", "--eh-frame-hdr", "-dynamic-linker",
               "/lib64/ld-linux-x86-64.so.2"});
  if (!options.shared)
    command.add({inFolder(options.package, "Scrt1.o")});
  for (const char *name : {"crti.o", "crtbeginS.o"})
    command.add({inFolder(options.package, name)});
  command.add({"-L" + options.package, "-L" + inFolder(options.package, "..")});
}

/// Adds what a compiler driver adds after the libraries. libc and libm are those of this machine:
/// they match its loader.
static void addEnd(const LinkOptions &options, Words &command) {
  command.add({"-lstdc++", loadedFrom("libm.so.6"), "-lgcc_s", "-lgcc", loadedFrom("libc.so.6"),
               "-lc_nonshared", "--as-needed", loadedFrom("ld-linux-x86-64.so.2")});
  for (const char *name : {"crtendS.o", "crtn.o"})
    command.add({inFolder(options.package, name)});
}

std::vector<std::string> shale::linkCommand(llvm::ArrayRef<std::string> objects,
                                            llvm::StringRef partial, llvm::StringRef output,
                                            const LinkOptions &options, ToolError &error) {
  std::string own = inFolder(options.package, "ld.lld");
  bool isDriver = options.package.empty() || !llvm::sys::fs::exists(own);
  std::string linker = isDriver ? findDriver(options, error) : own;
  if (linker.empty())
    return {};
  Words command{{linker, "-o", partial.str()}, isDriver};
#ifdef SHALE_SANITIZING_COMPILER
  command.add({"-fsanitize=address,undefined"});
#endif
  // Addresses are random, tables of pointers read-only, and the stack holds no code.
  command.add({options.shared ? "-shared" : "-pie"});
  command.addFlags({"-z", "relro", "-z", "now", "-z", "noexecstack"});
  if (!isDriver)
    addStart(options, command);
  command.add(objects);
  // The archives before the last one replace parts of it, so all of their objects are linked.
  for (auto [index, archive] : llvm::enumerate(options.runtime)) {
    bool whole = index + 1 < options.runtime.size();
    if (whole)
      command.addFlags({"--whole-archive"});
    command.add({archive});
    if (whole)
      command.addFlags({"--no-whole-archive"});
  }
  // Otherwise templates of the runtime would replace those that shared libraries have, too.
  for (llvm::StringRef archive : options.runtime)
    command.addFlags({"--exclude-libs", llvm::sys::path::filename(archive).str()});
  command.add(options.libraries);
  // A program that is moved finds its libraries in its folder, any other one of a package's in the
  // package. DT_RPATH, unlike DT_RUNPATH, also applies to the dependencies of the libraries.
  std::vector<std::string> places;
  if (options.bundled)
    places.push_back(("$ORIGIN/" + llvm::sys::path::filename(bundleFolder(output))).str());
  if (!isDriver)
    places.push_back(llvm::sys::path::parent_path(options.package).str());
  if (!places.empty())
    command.addFlags({"--disable-new-dtags", "-rpath", llvm::join(places, ":")});
  if (!isDriver)
    addEnd(options, command);
  return command.words;
}
