// Files: positioned reads, appending writes, and what it takes to make a write
// last (fsync of file and folder). Errors name the file.
#ifndef SHALE_RUNTIME_CORE_FILES_H
#define SHALE_RUNTIME_CORE_FILES_H

#include <cstdint>
#include <string>
#include <vector>

namespace shale::rt {

/// A regular file open for reading. Missing: exit code 66; other trouble: 65.
class InputFile {
public:
  explicit InputFile(const std::string &path);
  ~InputFile();
  InputFile(InputFile &&other) noexcept;
  InputFile(const InputFile &) = delete;
  InputFile &operator=(const InputFile &) = delete;

  /// Reads exactly `bytes` at `offset`; a file that ends before is an error.
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
  /// fsync and close; the file is whole on disk once its folder is synced.
  void finish();

private:
  std::string name;
  int fd = -1;
  int64_t written = 0;
};

std::string readText(const std::string &path, int64_t limit);
bool exists(const std::string &path);
void makeFolders(const std::string &path);
/// fsync of a folder: makes renames and creations in it last.
void syncFolder(const std::string &path);
/// Removes a folder and all it holds; false if something stays.
bool removeTree(const std::string &path);
std::vector<std::string> listFolder(const std::string &path);
std::string parentOf(const std::string &path);
std::string baseName(const std::string &path);
/// Renames a whole file into place and syncs its folder.
void renameFile(const std::string &from, const std::string &to);
/// Writes text beside `path`, syncs it and renames it into place.
void replaceFile(const std::string &path, const std::string &text);

/// Memory of this process (RSS), without allocating.
int64_t residentBytes();
/// The most that it was.
int64_t residentPeakBytes();

} // namespace shale::rt

#endif
