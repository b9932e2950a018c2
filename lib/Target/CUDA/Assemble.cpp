//===- Assemble.cpp - Runs ptxas and fatbinary ----------------------------===//
#include "lib/Target/CUDA/GpuCode.h"
#include "lib/Target/CUDA/TemporaryFile.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

/// Returns the path of a tool of the CUDA toolkit: in $CUDA_HOME or $CUDA_PATH if one is set, else
/// on the PATH, else in the usual folder. If there is none, returns an empty string and where it
/// was searched.
std::string findTool(StringRef name, std::string &searched) {
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (auto home = llvm::sys::Process::GetEnv(variable)) {
      std::string folder = *home + "/bin";
      searched = folder + " ($" + variable + ")";
      auto found = llvm::sys::findProgramByName(name, {folder});
      return found ? *found : "";
    }
  searched = "the PATH and /usr/local/cuda/bin";
  if (auto found = llvm::sys::findProgramByName(name))
    return *found;
  if (auto found = llvm::sys::findProgramByName(name, {"/usr/local/cuda/bin"}))
    return *found;
  return "";
}

constexpr StringLiteral kRemedy =
    "; install the CUDA toolkit (13.0 or later) and set CUDA_HOME to its folder";

/// Runs a program without a shell. Its output goes to `log`. Returns its status, or a negative
/// number with a message in `error`: -1 if it did not start, -2 if it crashed.
int execute(const std::string &path, std::vector<std::string> arguments, std::string &log,
            ToolError &error) {
  TemporaryFile output("log", error);
  if (!output)
    return -1;
  arguments.insert(arguments.begin(), path);
  std::vector<StringRef> views(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(""), output.name(), output.name()};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(path, views, std::nullopt, redirects, 0, 0, &message);
  if (!output.read(log, error))
    return -1;
  if (status == -1)
    error = {path + " does not start: " + message + kRemedy.str(), SHALE_EXIT_UNAVAILABLE};
  else if (status < 0)
    error = {path + " crashed: " + message, SHALE_EXIT_INTERNAL};
  return status;
}

/// Returns the release of the CUDA toolkit that a tool is of, as "12.4"; empty if it does not tell.
std::string releaseOf(const std::string &path) {
  std::string log;
  ToolError ignored;
  SmallVector<StringRef> match;
  if (execute(path, {"--version"}, log, ignored) == 0 &&
      llvm::Regex("release ([0-9]+\\.[0-9]+)").match(log, &match))
    return match[1].str();
  return "";
}

/// Runs a tool; its output goes to `log`.
bool runTool(StringRef name, std::vector<std::string> arguments, std::string &log,
             ToolError &error) {
  std::string searched, path = findTool(name, searched);
  if (path.empty()) {
    error = {name.str() + " is not in " + searched + kRemedy.str(), SHALE_EXIT_UNAVAILABLE};
    return false;
  }
  int status = execute(path, std::move(arguments), log, error);
  if (status <= 0)
    return status == 0;
  // A tool of an old toolkit may do. If it fails, its age is the likely cause.
  int major = 0;
  std::string release = releaseOf(path);
  if (!StringRef(release).split('.').first.getAsInteger(10, major) && major < 13)
    error = {path + " failed, which is of CUDA " + release + kRemedy.str(), SHALE_EXIT_UNAVAILABLE};
  else
    error = {path + " failed", SHALE_EXIT_INTERNAL};
  error.message += "\n" + StringRef(log).take_front(4000).str();
  return false;
}

/// Reads the lines of `ptxas -v`: a kernel's name, its stack and spills, then its registers.
std::vector<KernelUsage> readUsage(StringRef log, StringRef architecture) {
  llvm::Regex entry("Compiling entry function '([^']*)'"), stack("([0-9]+) bytes stack frame"),
      spill("([0-9]+) bytes spill stores"), registers("Used ([0-9]+) registers"),
      shared("([0-9]+) bytes smem");
  std::vector<KernelUsage> usage;
  SmallVector<StringRef> lines;
  log.split(lines, '\n');
  for (StringRef line : lines) {
    SmallVector<StringRef> match;
    if (entry.match(line, &match))
      usage.push_back({match[1].str(), architecture.str()});
    if (usage.empty())
      continue;
    KernelUsage &last = usage.back();
    for (auto [pattern, value] :
         {std::pair(&stack, &last.stackBytes), std::pair(&spill, &last.spilledBytes),
          std::pair(&registers, &last.registers), std::pair(&shared, &last.sharedBytes)})
      if (pattern->match(line, &match))
        match[1].getAsInteger(10, *value);
  }
  return usage;
}

/// The machine code of one architecture.
struct Assembled {
  std::unique_ptr<TemporaryFile> cubin;
  std::vector<KernelUsage> usage;
  ToolError error;
};

Assembled assembleOne(const Architecture &architecture, StringRef ptx) {
  Assembled made;
  TemporaryFile source("ptx", made.error);
  made.cubin = std::make_unique<TemporaryFile>("cubin", made.error);
  std::string log;
  if (source && *made.cubin && source.write(ptx, made.error) &&
      runTool("ptxas",
              {("-arch=" + architecture.name).str(), "-O3", "-v", "-o", made.cubin->name().str(),
               source.name().str()},
              log, made.error))
    made.usage = readUsage(log, architecture.name);
  return made;
}

} // namespace

bool cuda::assemble(ArrayRef<Architecture> architectures, ArrayRef<std::string> ptx,
                    std::string &fatbin, std::vector<KernelUsage> &usage, ToolError &error) {
  TemporaryFile result("fatbin", error);
  if (!result)
    return false;
  std::vector<Assembled> made(architectures.size());
  llvm::DefaultThreadPool pool;
  for (size_t i = 0; i < made.size(); ++i)
    pool.async([&, i] { made[i] = assembleOne(architectures[i], ptx[i]); });
  pool.wait();
  std::vector<std::string> bundle = {"--64", ("--create=" + result.name()).str()};
  for (auto [architecture, one] : llvm::zip(architectures, made)) {
    if (!one.error.message.empty()) {
      error = one.error;
      return false;
    }
    llvm::append_range(usage, one.usage);
    bundle.push_back(
        ("--image3=kind=elf,sm=" + architecture.name.drop_front(3) + ",file=" + one.cubin->name())
            .str());
  }
  std::string log;
  return runTool("fatbinary", bundle, log, error) && result.read(fatbin, error);
}
