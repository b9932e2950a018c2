// Folders of checkpoints: their names, which are complete, how one becomes complete.
#include "runtime/checkpoint/Folders.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/data/Tokens.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <map>

namespace shale::rt {

namespace {
const char *const temporaryMark = ".tmp-";
const char *const beforeMark = ".before";

std::string root(const std::string &out) { return out + "/checkpoints"; }

std::string folderOf(const std::string &out, int64_t step) {
  return root(out) + "/" + format("step-%08lld", (long long)step);
}

/// Returns the step in a folder's name; -1 if the name is not that of a complete checkpoint.
int64_t stepOf(std::string name) {
  if (endsWith(name, beforeMark))
    name.resize(name.size() - strlen(beforeMark));
  if (name.compare(0, 5, "step-") != 0 || name.size() < 6 || name.size() > 23 ||
      name.find_first_not_of("0123456789", 5) != std::string::npos)
    return -1;
  return std::strtoll(name.c_str() + 5, nullptr, 10);
}

bool isComplete(const std::string &folder) { return exists(folder + "/manifest.json"); }

/// Removes a checkpoint. Renames it first: a partly removed one must not look complete.
bool removeCheckpoint(const std::string &folder) {
  std::string doomed = folder + temporaryMark + "old";
  return rename(folder.c_str(), doomed.c_str()) == 0 && removeTree(doomed);
}

/// Puts a folder in the place of another one by plain renames.
bool replaceInSteps(const std::string &folder, const std::string &final) {
  std::string before = final + beforeMark;
  if (exists(before) && !removeCheckpoint(before))
    return false;
  if (rename(final.c_str(), before.c_str()) != 0)
    return false;
  if (rename(folder.c_str(), final.c_str()) == 0) {
    syncFolder(parentOf(final));
    removeCheckpoint(before); // what is left of it does not count, and is removed at the next start
    return true;
  }
  int error = errno;
  rename(before.c_str(), final.c_str());
  errno = error;
  return false;
}
} // namespace

std::string unfinishedFolder(const std::string &out, int64_t step) {
  return folderOf(out, step) + temporaryMark + "new";
}

std::string trialFolder(const std::string &out, int64_t step) {
  return folderOf(out, step) + temporaryMark + "trial";
}

void removeUnfinished(const std::string &out) {
  for (const std::string &name : listFolder(root(out))) {
    std::string folder = root(out) + "/" + name;
    if (name.compare(0, 5, "step-") == 0 && name.find(temporaryMark) != std::string::npos) {
      removeTree(folder);
      continue;
    }
    if (stepOf(name) < 0 || !endsWith(name, beforeMark))
      continue;
    std::string final = folder.substr(0, folder.size() - strlen(beforeMark));
    // If this fails, the checkpoint still counts under the name that it has.
    if (isComplete(final))
      removeCheckpoint(folder);
    else if (!exists(final) && rename(folder.c_str(), final.c_str()) == 0)
      syncFolder(root(out));
  }
}

std::vector<std::string> listCheckpoints(const std::string &out) {
  std::map<int64_t, std::string> found;
  for (const std::string &name : listFolder(root(out))) {
    int64_t step = stepOf(name);
    std::string folder = root(out) + "/" + name;
    if (step >= 0 && isComplete(folder) && (!endsWith(name, beforeMark) || !found.count(step)))
      found[step] = folder;
  }
  std::vector<std::string> folders;
  for (const auto &entry : found)
    folders.push_back(entry.second);
  return folders;
}

std::string brokenCheckpoint(const std::string &out) {
  std::pair<int64_t, std::string> newest{-1, ""};
  for (const std::string &name : listFolder(root(out))) {
    std::string folder = root(out) + "/" + name;
    if (stepOf(name) > newest.first && !isComplete(folder) && !listFolder(folder).empty())
      newest = {stepOf(name), folder};
  }
  std::vector<std::string> whole = listCheckpoints(out);
  bool newer = whole.empty() || stepOf(baseName(whole.back())) < newest.first;
  return newer ? newest.second : "";
}

void commitCheckpoint(const std::string &out, int64_t step) {
  std::string temporary = unfinishedFolder(out, step), final = folderOf(out, step);
  syncFolder(temporary);
  bool isThere = exists(final);
  bool exchanged = isThere && renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final.c_str(),
                                        RENAME_EXCHANGE) == 0;
  if (exchanged)
    removeTree(temporary); // what is left of it is removed at the next start
  else if (isThere ? !replaceInSteps(temporary, final)
                   : rename(temporary.c_str(), final.c_str()) != 0)
    fail(SHALE_EXIT_IO, "cannot rename '%s' to '%s': %s", temporary.c_str(), final.c_str(),
         strerror(errno));
  syncFolder(root(out));
}

void pruneCheckpoints(const std::string &out, int64_t keep, int64_t step) {
  std::vector<std::string> folders = listCheckpoints(out);
  while (!folders.empty() && stepOf(baseName(folders.back())) > step)
    folders.pop_back();
  if (keep <= 0 || folders.size() <= static_cast<size_t>(keep))
    return;
  folders.resize(folders.size() - keep);
  for (const std::string &folder : folders)
    if (!removeCheckpoint(folder))
      warn("cannot remove the old checkpoint '%s'", folder.c_str());
}

} // namespace shale::rt
