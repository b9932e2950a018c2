// Files: positioned reads, appending writes, and durable writes (fsync of file and
// folder). Errors name the file. Every file of the runtime is opened by openRegular().
#ifndef SHALE_RUNTIME_CORE_FILES_H
#define SHALE_RUNTIME_CORE_FILES_H

#include "runtime/core/Checksum.h"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace shale::rt {

/// Opens a regular file and returns its descriptor. Does not wait for the other end of a FIFO or
/// for a device: anything but a regular file is an error. `flags` are those of open(); O_TRUNC
/// takes effect after the check. Exit codes: 66 for a missing file that is opened for reading, 65
/// for other errors when reading, 74 for errors when writing.
int openRegular(const std::string &path, int flags, mode_t mode = 0666);

/// Opens /dev/null in place of each of the descriptors 0, 1 and 2 that is closed. Otherwise the
/// next file would take its place, and receive what is printed.
void openStandardStreams();

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
  /// Lets the system fetch bytes that are read soon. Short ranges with gaps between them are then
  /// fetched at the same time, not one after the other.
  void announce(int64_t offset, int64_t bytes) const;
  int64_t size() const { return length; }
  const std::string &path() const { return name; }
  int descriptor() const { return fd; }

private:
  std::string name;
  int fd = -1;
  int64_t length = 0;
};

/// Opens `name`, a file in a folder of files that were received as they are. A link must stay in
/// the folder, or lead to the blobs of the same repository in Hugging Face's cache
/// (snapshots/HASH/NAME -> ../../blobs/HASH). Any other link is exit code 65.
InputFile openInFolder(const std::string &folder, const std::string &name);

/// A new file that is appended to. A file of that name is removed first, so that a link or a file
/// that another process left there is not written to. Errors: exit code 74.
class OutputFile {
public:
  explicit OutputFile(const std::string &path, mode_t mode = 0666);
  ~OutputFile();
  OutputFile(const OutputFile &) = delete;
  OutputFile &operator=(const OutputFile &) = delete;

  /// Announces how many bytes will be appended, before the first of them. A large file is written
  /// past the page cache where the file system can (O_DIRECT): half the processor time of a
  /// buffered write and of its writeback, and the pages of others stay in memory.
  void expect(int64_t bytes);
  void append(const void *data, int64_t bytes);
  int64_t position() const { return written + filled; }
  /// Returns the checksum of everything that was appended.
  uint64_t checksum() const { return sum.value(); }
  int descriptor() const { return fd; }
  const std::string &path() const { return name; }
  /// Syncs and closes; the file is complete on disk once its folder is synced.
  void finish();

private:
  void writeAll(const char *source, int64_t bytes);
  void writeDirect();
  void endDirect();

  struct Free {
    void operator()(char *memory) const { free(memory); }
  };
  std::string name;
  int fd = -1;
  int64_t written = 0;
  Checksum sum;
  /// Bytes that are not written yet, in an aligned block; null: writes are buffered by the system.
  std::unique_ptr<char, Free> block;
  int64_t filled = 0;
};

/// A file that is complete on disk.
struct WrittenFile {
  std::string name; // without its folder
  int64_t bytes = 0;
  int64_t headerBytes = 0; // of a safetensors file: those before the tensors
  uint64_t header = 0;     // checksum of these
  uint64_t whole = 0;      // checksum of all bytes
};

/// Reads the lines of a file front to back. A line that is longer than `most` bytes is skipped, and
/// so is a last line without a line break.
class LineReader {
public:
  explicit LineReader(const std::string &path, size_t most = 1 << 20) : file(path), most(most) {}
  bool next(std::string &line);

private:
  InputFile file;
  size_t most;
  int64_t offset = 0;
  std::string block;
  size_t at = 0; // into block
};

/// Returns the content of a file. Exit codes: 66 if it is missing, 65 if it has more than `limit`
/// bytes or cannot be read.
std::string readText(const std::string &path, int64_t limit);
bool exists(const std::string &path);
/// Makes a folder and those above it, and makes their names durable.
void makeFolders(const std::string &path);
/// Syncs a folder: makes renames and creations in it durable.
void syncFolder(const std::string &path);
/// Removes a folder and its contents; returns false if something remains.
bool removeTree(const std::string &path);
/// Returns the names in a folder, in no order; none if it cannot be read.
std::vector<std::string> listFolder(const std::string &path);
std::string parentOf(const std::string &path);
std::string baseName(const std::string &path);
/// Returns the absolute path without links, as far as the path exists.
std::string realPath(const std::string &path);
/// Renames a complete file into place and syncs its folder.
void renameFile(const std::string &from, const std::string &to);
/// Lets `write` write a file beside `path`, syncs it and renames it into place. Leaves nothing
/// behind on failure.
void replaceFile(const std::string &path, mode_t mode,
                 const std::function<void(OutputFile &)> &write);
void replaceFile(const std::string &path, const std::string &text);

/// Copies a file as replaceFile() writes one. Nobody gets rights to the copy that they do not have
/// to the original.
void copyFile(const InputFile &from, const std::string &to);

/// Returns the name under which a file is written before it is renamed to `path`.
std::string temporaryName(const std::string &path);
/// Removes the files in a folder that have such names: those of a process that was killed. Only the
/// holder of the folder's lock may call it.
void removeTemporaries(const std::string &folder);

/// Returns the resident memory (RSS) of this process, without what the kernel maps of files in huge
/// pages. Allocates nothing.
int64_t residentBytes();
/// Returns the peak of the resident memory, without what is mapped of files in huge pages now.
int64_t residentPeakBytes();

} // namespace shale::rt

#endif
