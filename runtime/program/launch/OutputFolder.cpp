// Makes and locks the output folder.
#include "runtime/program/launch/OutputFolder.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Given.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/data/Tokens.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shale::rt {

/// Fails if something is in the place of what the run writes at its end: hours may be lost then.
static void checkNames(const Options &options) {
  for (const std::string &name : listFolder(options.out)) {
    struct stat info;
    std::string path = options.out + "/" + name;
    if (stat(path.c_str(), &info) != 0)
      continue;
    bool weights = name.compare(0, 5, "model") == 0 &&
                   (endsWith(name, ".safetensors") || endsWith(name, ".safetensors.index.json"));
    bool file = weights || name == "metrics.jsonl" || name == "report.html" ||
                name == ".kept.safetensors" || (!options.init.empty() && describesModel(name));
    if (S_ISDIR(info.st_mode) ? file : name == "checkpoints")
      fail(SHALE_EXIT_IO,
           "'%s' is %s folder, but the run writes a %s of that name: move it away, "
           "or pass another --out",
           printable(path).c_str(), file ? "a" : "no", file ? "file" : "folder");
  }
}

/// Reports an unwritable file before the steps are traced.
static void checkTrace(const std::string &path) {
  if (path.empty())
    return;
  try {
    close(openRegular(path, O_WRONLY | O_CREAT));
  } catch (const Error &error) {
    fail(SHALE_EXIT_IO, "cannot write the trace to '%s': %s", printable(path).c_str(),
         error.what());
  }
}

OutputFolder::OutputFolder(const Options &options) {
  makeFolders(options.out);
  lock.emplace(options.out);
  checkNames(options);
  removeTemporaries(options.out);
  removeUnfinished(options.out);
  checkTrace(options.traceFile);
}

} // namespace shale::rt
