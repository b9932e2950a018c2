//===- Outputs.cpp - The files that a compilation writes ------------------===//
#include "tools/driver/Outputs.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Target/Link.h"
#include "shale/Runtime.h"
#include "tools/driver/Messages.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace shale;
namespace fs = llvm::sys::fs;

namespace {

struct Output {
  std::string flag, path;
};

int refuse(const Output &output, const Twine &why) {
  return usageError(output.flag + " " + output.path + ": " + why);
}

/// Whether two paths are of the same file.
bool isSame(StringRef a, StringRef b) {
  fs::UniqueID first, second;
  if (!fs::getUniqueID(a, first) && !fs::getUniqueID(b, second))
    return first == second;
  SmallString<128> left(a), right(b);
  (void)fs::make_absolute(left);
  (void)fs::make_absolute(right);
  llvm::sys::path::remove_dots(left, /*remove_dot_dot=*/true);
  llvm::sys::path::remove_dots(right, /*remove_dot_dot=*/true);
  return left == right;
}

/// Whether the path exists and is neither a regular file nor a link to one.
bool isSpecial(StringRef path) {
  fs::file_status status;
  return !fs::status(path, status) && fs::exists(status) && !fs::is_regular_file(status);
}

bool makesProgram(const CompileOptions &o) {
  return o.emit == Emit::Program || o.emit == Emit::Object;
}

std::vector<Output> outputsOf(const CompileOptions &o) {
  std::vector<Output> outputs;
  if (!o.planOnly && !o.describe && o.why.empty())
    outputs.push_back({"-o", o.output});
  for (const Report &report : o.reports)
    if (report.path)
      outputs.push_back({"--report", *report.path});
  if (!o.crashReproducer.empty())
    outputs.push_back({"--mlir-pass-pipeline-crash-reproducer", o.crashReproducer});
  if (o.saveTemps.empty())
    return outputs;
  // The names of stages and passes are not known yet: use all IR files in the folder.
  std::error_code error;
  for (fs::directory_iterator entry(o.saveTemps, error), end; !error && entry != end;
       entry.increment(error))
    if (StringRef path = entry->path(); path.ends_with(".mlir") || path.ends_with(".mlirbc"))
      outputs.push_back({"--save-temps", entry->path()});
  return outputs;
}

/// Returns the model and the files with its weights.
std::vector<std::string> inputsOf(const CompileOptions &o, ModuleOp module) {
  llvm::SetVector<StringRef> files;
  if (module)
    for (auto state : module.getOps<nn::StateOp>())
      if (auto file = dyn_cast_or_null<nn::FileAttr>(state.getInitAttr()))
        files.insert(file.getPath());
  std::vector<std::string> inputs{o.model};
  for (StringRef file : files) {
    SmallString<128> beside(llvm::sys::path::parent_path(o.model));
    llvm::sys::path::append(beside, file);
    inputs.push_back(file.str());
    inputs.push_back(beside.str().str());
  }
  return inputs;
}

int cannotWrite(StringRef path, const Twine &why) {
  llvm::errs() << "shalec: error: cannot write '" << path << "': " << why << "\n";
  return SHALE_EXIT_IO;
}

} // namespace

int shale::checkOutputs(const CompileOptions &options, ModuleOp module) {
  std::vector<Output> outputs = outputsOf(options);
  std::vector<std::string> inputs = inputsOf(options, module);
  for (const Output &output : outputs) {
    if (output.path == "-") {
      if (output.flag == "-o" && makesProgram(options))
        return refuse(
            output, "a program cannot be written to standard output; name a file, or --emit text");
      continue;
    }
    for (const std::string &input : inputs)
      if (fs::exists(input) && isSame(output.path, input))
        return refuse(output, "this would overwrite the input '" + input + "'");
    StringRef folder = llvm::sys::path::parent_path(output.path);
    if (!folder.empty() && !fs::is_directory(folder))
      return cannotWrite(output.path, "there is no folder '" + folder + "'");
    if (fs::exists(output.path)
            ? fs::is_directory(output.path)
            : bool(fs::access(folder.empty() ? "." : folder, fs::AccessMode::Write)))
      return cannotWrite(output.path, fs::is_directory(output.path) ? "it is a folder"
                                                                    : "its folder is not writable");
    if (isSpecial(output.path)) {
      if (output.flag == "-o" && makesProgram(options))
        return refuse(output, "is not a regular file, and a program must be one");
      continue;
    }
    for (const Output &other : outputs)
      if (&other != &output && isSame(output.path, other.path))
        return refuse(output, "this is what " + other.flag + " writes, too");
  }
  if (fs::exists(options.saveTemps) && !fs::is_directory(options.saveTemps))
    return cannotWrite(options.saveTemps, "--save-temps needs a folder, and this is a file");
  if (std::string folder = bundleFolder(options.output);
      options.bundle && fs::exists(folder) && !fs::is_directory(folder))
    return cannotWrite(
        folder,
        "--bundle needs a folder of this name, but it is a file: remove it, or pass another -o");
  return SHALE_EXIT_OK;
}

int shale::writeOutput(StringRef path, llvm::function_ref<void(raw_ostream &)> write) {
  if (path == "-") {
    write(llvm::outs());
    return SHALE_EXIT_OK; // compile() reports its errors at the end
  }
  if (isSpecial(path)) {
    std::error_code error;
    llvm::raw_fd_ostream file(path, error, fs::CD_OpenExisting);
    if (error)
      return cannotWrite(path, error.message());
    write(file);
    file.close();
    error = file.error();
    file.clear_error();
    return error ? cannotWrite(path, error.message()) : SHALE_EXIT_OK;
  }
  if (llvm::Error error = llvm::writeToOutput(path, [&](raw_ostream &os) {
        write(os);
        auto &file = static_cast<llvm::raw_fd_ostream &>(os); // a temporary file's
        file.flush();
        std::error_code wrong = file.error();
        file.clear_error(); // the stream's destructor would abort on an unhandled error
        return llvm::errorCodeToError(wrong);
      }))
    return cannotWrite(path, llvm::toString(std::move(error)));
  return SHALE_EXIT_OK;
}
