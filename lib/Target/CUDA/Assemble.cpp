//===- Assemble.cpp - Runs ptxas and fatbinary ----------------------------===//
#include "lib/Target/CUDA/GpuCode.h"
#include "lib/Target/CUDA/TemporaryFile.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
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

/// Runs a tool; its output goes to `log`.
bool runTool(StringRef name, std::vector<std::string> arguments, std::string &log,
             std::string &error) {
  std::string searched, path = findTool(name, searched);
  if (path.empty()) {
    error = name.str() + " is not in " + searched +
            "; install the CUDA toolkit (13.0 or later) and set CUDA_HOME to its folder";
    return false;
  }
  TemporaryFile output("log", error);
  if (!output)
    return false;
  arguments.insert(arguments.begin(), path);
  std::vector<StringRef> views(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(""), output.name(), output.name()};
  std::string message;
  int status = llvm::sys::ExecuteAndWait(path, views, std::nullopt, redirects, 0, 0, &message);
  if (!output.read(log, error))
    return false;
  if (status == 0)
    return true;
  error = path + " failed";
  if (!message.empty())
    error += ": " + message;
  error += "\n" + StringRef(log).take_front(4000).str();
  return false;
}

/// Reads the lines of `ptxas -v`: a kernel's name, its spills, then its registers.
std::vector<KernelUsage> readUsage(StringRef log) {
  llvm::Regex entry("Compiling entry function '([^']*)'"), spill("([0-9]+) bytes spill stores"),
      registers("Used ([0-9]+) registers"), shared("([0-9]+) bytes smem");
  std::vector<KernelUsage> usage;
  SmallVector<StringRef> lines;
  log.split(lines, '\n');
  for (StringRef line : lines) {
    SmallVector<StringRef> match;
    auto number = [&](int64_t &value) { match[1].getAsInteger(10, value); };
    if (entry.match(line, &match))
      usage.push_back({match[1].str(), 0, 0, 0});
    if (usage.empty())
      continue;
    if (spill.match(line, &match))
      number(usage.back().spillBytes);
    if (registers.match(line, &match))
      number(usage.back().registers);
    if (shared.match(line, &match))
      number(usage.back().sharedBytes);
  }
  return usage;
}

} // namespace

bool cuda::assemble(ArrayRef<Architecture> architectures, ArrayRef<std::string> ptx,
                    std::string &fatbin, std::vector<KernelUsage> &usage, std::string &error) {
  std::vector<std::unique_ptr<TemporaryFile>> cubins;
  TemporaryFile result("fatbin", error);
  if (!result)
    return false;
  std::vector<std::string> bundle = {"--64", ("--create=" + result.name()).str()};
  for (auto [architecture, text] : llvm::zip(architectures, ptx)) {
    TemporaryFile source("ptx", error);
    cubins.push_back(std::make_unique<TemporaryFile>("cubin", error));
    if (!source || !*cubins.back() || !source.write(text, error))
      return false;
    std::string log;
    if (!runTool("ptxas",
                 {("-arch=" + architecture.name).str(), "-O3", "-v", "-o",
                  cubins.back()->name().str(), source.name().str()},
                 log, error))
      return false;
    usage = readUsage(log);
    bundle.push_back(("--image3=kind=elf,sm=" + architecture.name.drop_front(3) +
                      ",file=" + cubins.back()->name())
                         .str());
  }
  std::string log;
  return runTool("fatbinary", bundle, log, error) && result.read(fatbin, error);
}
