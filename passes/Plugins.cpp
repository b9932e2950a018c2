//===- Plugins.cpp - Loads plug-ins ---------------------------------------===//
#include "lib/Frontend/ONNX/Node.h"
#include "lib/Interpreter/Interpreter.h"
#include "lib/Support/InputFile.h"
#include "mlir/IR/DialectRegistry.h"
#include "shale/Plugin.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Object/ELF.h"
#include "llvm/Support/DynamicLibrary.h"
#include "llvm/Support/FileSystem.h"
#include <set>
#include <string>

using namespace shale;
using llvm::Error;
using llvm::StringRef;
using llvm::Twine;

static Error wrong(StringRef path, const Twine &what) {
  return llvm::createStringError("plug-in '" + path + "': " + what);
}

/// Fails unless all segments of the shared library are within its file: the loader maps them
/// unseen, and the process ends with SIGBUS where it reads beyond the file.
static Error checkSegments(StringRef file) {
  using File = llvm::object::ELF64LEFile;
  llvm::Expected<File> elf = File::create(file);
  if (!elf)
    return elf.takeError();
  auto segments = elf->program_headers();
  if (!segments)
    return segments.takeError();
  for (const File::Elf_Phdr &segment : *segments)
    if (segment.p_offset > file.size() || segment.p_filesz > file.size() - segment.p_offset)
      return llvm::createStringError("the file ends within a segment: is it complete?");
  return Error::success();
}

Error shale::loadPlugin(StringRef path, mlir::DialectRegistry &registry) {
  // Registries of operators, evaluators and passes are the process's.
  static std::set<const PluginInfo *> loaded;
  if (!llvm::sys::fs::exists(path))
    return wrong(path, "there is no such file");
  ToolError cause;
  std::unique_ptr<llvm::MemoryBuffer> bytes = openInput(path, cause);
  if (!bytes)
    return llvm::createStringError("plug-in " + cause.message);
  if (Error incomplete = checkSegments(bytes->getBuffer()))
    return wrong(path, "cannot be loaded: " + llvm::toString(std::move(incomplete)));
  // dlopen looks for a name without a slash in the folders of system libraries.
  std::string file = path.contains('/') ? path.str() : "./" + path.str();
  std::string message;
  auto library = llvm::sys::DynamicLibrary::getPermanentLibrary(file.c_str(), &message);
  if (!library.isValid())
    return wrong(path, "cannot be loaded: " + message);
  auto entry =
      reinterpret_cast<const PluginInfo *(*)()>(library.getAddressOfSymbol("shaleGetPlugin"));
  if (!entry)
    return wrong(path, "it does not export shaleGetPlugin (shale/Plugin.h)");
  const PluginInfo *info = entry();
  if (StringRef(info->abi) != SHALE_ABI)
    return wrong(path, Twine("it was built for Shale ") + info->abi + ", this is " + SHALE_ABI +
                           ": build it again with this Shale's headers");
  if (info->registerDialects)
    info->registerDialects(registry);
  if (!loaded.insert(info).second)
    return Error::success();
  onnx::HandlerRegistry handlers;
  if (info->registerOperators)
    info->registerOperators(handlers);
  if (Error taken = onnx::getHandlers().merge(handlers))
    return wrong(path, llvm::toString(std::move(taken)));
  interp::Registry evaluators;
  if (info->registerEvaluators)
    info->registerEvaluators(evaluators);
  if (Error taken = interp::getRegistry().merge(evaluators))
    return wrong(path, llvm::toString(std::move(taken)));
  if (info->registerPasses)
    info->registerPasses();
  return Error::success();
}

Error shale::loadPlugins(int &argc, char **argv, mlir::DialectRegistry &registry) {
  int kept = 0;
  Error result = Error::success();
  for (int i = 0; i < argc; ++i) {
    StringRef word = argv[i];
    bool dashed = i > 0 && (word.consume_front("--") || word.consume_front("-"));
    if (!dashed || !word.consume_front("load-pass-plugin") ||
        !(word.empty() || word.starts_with("="))) {
      argv[kept++] = argv[i];
      continue;
    }
    if (result)
      continue;
    if (!word.consume_front("=")) {
      if (i + 1 == argc) {
        result = llvm::createStringError("--load-pass-plugin needs a file");
        continue;
      }
      word = argv[++i];
    }
    result = loadPlugin(word, registry);
  }
  argc = kept;
  argv[argc] = nullptr;
  return result;
}
