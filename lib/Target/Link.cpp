//===- Link.cpp - Linking of object files to programs ---------------------===//
#include "lib/Target/Link.h"
#include "lib/Target/LinkCommand.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Signals.h"
#include <atomic>
#include <csignal>
#include <sys/wait.h>
#include <unistd.h>

using namespace shale;

/// The session of the running linker, or 0.
static std::atomic<pid_t> linker{0};

void shale::stopLinker() {
  pid_t session = linker.exchange(0);
  if (session <= 0)
    return;
  // On SIGTERM a compiler driver removes its temporary files. Wait up to two seconds for that.
  kill(-session, SIGTERM);
  for (int i = 0; i < 200 && waitpid(session, nullptr, WNOHANG) == 0; ++i)
    usleep(10000);
  kill(-session, SIGKILL);
}

/// Returns this process's environment for the linker. GNU ld makes LD_RUN_PATH the run path of a
/// program. Only its absolute parts are kept: the loader takes an empty or relative part for the
/// working directory, from which a program would load libraries of strangers.
static std::vector<std::string> linkerEnvironment() {
  static constexpr llvm::StringLiteral kRunPath = "LD_RUN_PATH=";
  std::vector<std::string> variables;
  for (char **variable = environ; *variable; ++variable) {
    llvm::StringRef text = *variable;
    if (text.consume_front(kRunPath)) {
      llvm::SmallVector<llvm::StringRef> parts;
      text.split(parts, ':');
      llvm::erase_if(parts, [](llvm::StringRef part) { return !part.starts_with("/"); });
      if (!parts.empty())
        variables.push_back(kRunPath.str() + llvm::join(parts, ":"));
      continue;
    }
    variables.push_back(text.str());
  }
  return variables;
}

bool shale::linkProgram(llvm::ArrayRef<std::string> objects, llvm::StringRef output,
                        const LinkOptions &options, ToolError &error) {
  // Link to a temporary file, so that `output` only ever holds a complete program.
  llvm::SmallString<128> partial;
  if (std::error_code code =
          llvm::sys::fs::getPotentiallyUniqueFileName(output + ".%%%%%%.partial", partial)) {
    error = {"cannot make a temporary file: " + code.message(), SHALE_EXIT_IO};
    return false;
  }
  llvm::sys::RemoveFileOnSignal(partial);
  std::vector<std::string> arguments = linkCommand(objects, partial, output, options, error);
  if (arguments.empty()) {
    (void)llvm::sys::fs::remove(partial);
    llvm::sys::DontRemoveFileOnSignal(partial);
    return false;
  }
  llvm::SmallString<128> log;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile("shale-link", "log", log)) {
    error = {"cannot make a temporary file: " + code.message(), SHALE_EXIT_IO};
    return false;
  }
  llvm::sys::RemoveFileOnSignal(log);
  std::vector<llvm::StringRef> views(arguments.begin(), arguments.end());
  std::vector<std::string> environment = linkerEnvironment();
  std::vector<llvm::StringRef> variables(environment.begin(), environment.end());
  std::optional<llvm::StringRef> redirects[] = {llvm::StringRef(""), llvm::StringRef(log),
                                                llvm::StringRef(log)};
  std::string message;
  bool failed = false;
  // The linker runs in its own session: signals to the compiler do not reach it, stopLinker() ends
  // it.
  llvm::sys::ProcessInfo process =
      llvm::sys::ExecuteNoWait(arguments.front(), views, llvm::ArrayRef(variables), redirects, 0,
                               &message, &failed, nullptr, /*DetachProcess=*/true);
  int status = -1;
  if (!failed) {
    linker = process.Pid;
    status = llvm::sys::Wait(process, std::nullopt, &message).ReturnCode;
    linker = 0;
  }
  if (status != 0) {
    error = {arguments.front() + (failed ? " does not start" : " failed to link " + output.str()),
             failed ? SHALE_EXIT_UNAVAILABLE : SHALE_EXIT_IO};
    if (!message.empty())
      error.message += ": " + message;
    if (auto text = llvm::MemoryBuffer::getFile(log))
      error.message += "\n" + (*text)->getBuffer().take_front(4000).str();
  }
  (void)llvm::sys::fs::remove(log);
  if (status == 0)
    if (std::error_code code = llvm::sys::fs::rename(partial, output)) {
      error = {"cannot write " + output.str() + ": " + code.message(), SHALE_EXIT_IO};
      status = 1;
    }
  if (status != 0)
    (void)llvm::sys::fs::remove(partial);
  llvm::sys::DontRemoveFileOnSignal(partial);
  llvm::sys::DontRemoveFileOnSignal(log);
  return status == 0;
}
