//===- Link.cpp - Object code to programs ---------------------------------===//
#include "lib/Target/CPU/CPU.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"

using namespace shale;

bool shale::linkProgram(llvm::ArrayRef<std::string> objects, llvm::StringRef output, const LinkOptions &options,
                        std::string &error) {
  std::string driver = options.compiler;
  if (driver.empty()) {
    for (const char *name : {"c++", "g++", "clang++", "clang++-22"})
      if (auto found = llvm::sys::findProgramByName(name)) {
        driver = *found;
        break;
      }
    if (driver.empty()) {
      error = "no C++ compiler driver found to link with (c++, g++ or clang++)";
      return false;
    }
  }
  // The program appears under its name only when it is whole.
  std::string partial = (output + ".partial").str();
  std::vector<std::string> arguments = {driver, "-o", partial};
  arguments.insert(arguments.end(), objects.begin(), objects.end());
  if (!options.runtime.empty())
    arguments.push_back(options.runtime);
  arguments.insert(arguments.end(), options.libraries.begin(), options.libraries.end());
  llvm::SmallString<128> log;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("shale-link", "log", log)) {
    error = "cannot make a temporary file: " + code.message();
    return false;
  }
  std::vector<llvm::StringRef> views(arguments.begin(), arguments.end());
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(log), llvm::StringRef(log)};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(driver, views, std::nullopt, redirects, 0, 0, &message);
  if (status != 0) {
    error = driver + " failed to link " + output.str();
    if (!message.empty())
      error += ": " + message;
    if (auto text = llvm::MemoryBuffer::getFile(log))
      error += "\n" + (*text)->getBuffer().take_front(4000).str();
  }
  llvm::sys::fs::remove(log);
  if (status == 0)
    if (std::error_code code = llvm::sys::fs::rename(partial, output)) {
      error = "cannot write " + output.str() + ": " + code.message();
      status = 1;
    }
  if (status != 0)
    llvm::sys::fs::remove(partial);
  return status == 0;
}
