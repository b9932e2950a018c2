// Files: positioned reads, appending writes, and durable writes (fsync of file and
// folder). Errors name the file.
#ifndef SHALE_RUNTIME_CORE_FILES_H
#define SHALE_RUNTIME_CORE_FILES_H

#include <cstdint>
#include <string>
#include <vector>

namespace shale::rt {

/// A regular file open for reading. If missing: exit code 66; other errors: 65.
class InputFile {
public:
  explicit InputFile(const std::string &path);
  ~InputFile();
  InputFile(InputFile &&other) noexcept;
  InputFile(const InputFile &) = delete;
  InputFile &operator=(const InputFile &) = delete;

  /// Reads exactly `bytes` at `offset`; a shorter file is an error.
  void readAt(int64_t offset, void *buffer, int64_t bytes) const;
  int64_t size() const { return length; }
  const std::string &path() const { return name; }

private:
  std::string name;
  int fd = -1;
  int64_t length = 0;
};

/// A file that is created (or truncated) and appended to. Errors: exit code 74.
class OutputFile {
public:
  explicit OutputFile(const std::string &path);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  void append(const void *data, int64_t bytes);
  int64_t position() const { return written; }
  /// Syncs and closes; the file is complete on disk once its folder is synced.
  void finish();

private:
  std::string name;
  int fd = -1;
  int64_t written = 0;
};

std::string readText(const std::string &path, int64_t limit);
bool exists(const std::string &path);
void makeFolders(const std::string &path);
/// Syncs a folder: makes renames and creations in it durable.
void syncFolder(const std::string &path);
/// Removes a folder and its contents; returns false if something remains.
bool removeTree(const std::string &path);
std::vector<std::string> listFolder(const std::string &path);
std::string parentOf(const std::string &path);
std::string baseName(const std::string &path);
/// Renames a complete file into place and syncs its folder.
void renameFile(const std::string &from, const std::string &to);
/// Writes text beside `path`, syncs it and renames it into place. Leaves nothing behind on failure.
void replaceFile(const std::string &path, const std::string &text);

/// Returns the resident memory (RSS) of this process, without allocating.
int64_t residentBytes();
/// Returns the peak of the resident memory.
int64_t residentPeakBytes();

} // namespace shale::rt

#endif
