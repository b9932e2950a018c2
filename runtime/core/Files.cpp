// Files: reads, durable writes, folders.
#include "runtime/core/Files.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace shale::rt {

int openRegular(const std::string &path, int flags, mode_t mode) {
  bool writes = (flags & O_ACCMODE) != O_RDONLY;
  int fd = open(path.c_str(), (flags & ~O_TRUNC) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
  struct stat info;
  int error = fd < 0 ? errno : 0;
  // ENXIO: a FIFO that no process reads, a socket, or a device that is not there.
  bool other = error == ENXIO || (fd >= 0 && (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)));
  if (fd >= 0 && !other && ((flags & O_TRUNC) == 0 || ftruncate(fd, 0) == 0) &&
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) == 0)
    return fd;
  error = error ? error : errno;
  if (fd >= 0)
    close(fd);
  if (other)
    fail(writes ? SHALE_EXIT_IO : SHALE_EXIT_DATA, "'%s' is not a regular file",
         printable(path).c_str());
  if (writes)
    fail(SHALE_EXIT_IO, "cannot write '%s': %s", printable(path).c_str(), strerror(error));
  fail(error == ENOENT || error == ENOTDIR ? SHALE_EXIT_NO_INPUT : SHALE_EXIT_DATA,
       "cannot open '%s': %s", printable(path).c_str(), strerror(error));
}

void openStandardStreams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0)
      _exit(SHALE_EXIT_INTERNAL); // there is nowhere to report it
}

InputFile::InputFile(const std::string &path) : name(path), fd(openRegular(path, O_RDONLY)) {
  struct stat info;
  if (fstat(fd, &info) == 0)
    length = info.st_size;
}

InputFile::InputFile(InputFile &&other) noexcept
    : name(std::move(other.name)), fd(other.fd), length(other.length) {
  other.fd = -1;
}

InputFile::~InputFile() {
  if (fd >= 0)
    close(fd);
}

/// Returns a path without links, or "" if there is none.
static std::string resolved(const std::string &path) {
  std::error_code error;
  std::string real = std::filesystem::canonical(path, error).string();
  return error ? "" : real;
}

InputFile openInFolder(const std::string &folder, const std::string &name) {
  std::string path = folder + "/" + name;
  InputFile file(path);
  // The path of the descriptor, not of the name, which may lead elsewhere by now.
  std::string target = resolved("/proc/self/fd/" + std::to_string(file.descriptor()));
  std::string root = resolved(folder), snapshots = parentOf(root);
  auto isIn = [&](const std::string &place) {
    return !place.empty() && target.compare(0, place.size() + 1, place + "/") == 0;
  };
  bool cache = baseName(snapshots) == "snapshots" && isIn(parentOf(snapshots) + "/blobs");
  if (!isIn(root) && !cache)
    fail(SHALE_EXIT_DATA,
         "'%s' is a link out of its folder, to '%s': copy the file into the folder, or name a "
         "folder without such links",
         printable(path).c_str(), printable(target).c_str());
  return file;
}

void InputFile::readAt(int64_t offset, void *buffer, int64_t bytes) const {
  if (offset < 0 || bytes < 0 || offset > length || bytes > length - offset)
    fail(SHALE_EXIT_DATA,
         "'%s' has %lld bytes, too few to read %lld bytes at offset %lld: the file is incomplete",
         name.c_str(), (long long)length, (long long)bytes, (long long)offset);
  char *target = static_cast<char *>(buffer);
  while (bytes > 0) {
    ssize_t n = pread(fd, target, bytes, offset);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      fail(SHALE_EXIT_DATA, "cannot read '%s' at offset %lld: %s", name.c_str(), (long long)offset,
           n < 0 ? strerror(errno) : "the file became shorter");
    target += n;
    offset += n;
    bytes -= n;
  }
}

void InputFile::announce(int64_t offset, int64_t bytes) const {
  posix_fadvise(fd, offset, bytes, POSIX_FADV_WILLNEED);
}

OutputFile::OutputFile(const std::string &path, mode_t mode) : name(path) {
  unlink(path.c_str());
  fd = openRegular(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
}

OutputFile::~OutputFile() {
  if (fd >= 0)
    close(fd);
}

/// Size of a write past the page cache, and the least size of a file that is written so. With its
/// caller's buffer of 256 KiB, a writer stays within the plan's 1 MiB for saves.
static constexpr int64_t kDirectBlock = 1 << 19, kDirectFile = 16 << 20;
static constexpr size_t kDirectAlignment = 4096;

void OutputFile::expect(int64_t bytes) {
  void *memory = nullptr;
  if (bytes < kDirectFile || written > 0)
    return;
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_DIRECT) != 0) // not on every file system
    return;
  if (posix_memalign(&memory, kDirectAlignment, kDirectBlock) == 0)
    block.reset(static_cast<char *>(memory));
  else
    endDirect();
}

void OutputFile::endDirect() {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_DIRECT) != 0)
    fail(SHALE_EXIT_IO, "cannot write '%s': %s", name.c_str(), strerror(errno));
}

void OutputFile::writeAll(const char *source, int64_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(fd, source, bytes);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      fail(SHALE_EXIT_IO, "cannot write '%s' at offset %lld: %s", name.c_str(), (long long)written,
           strerror(errno));
    source += n;
    written += n;
    bytes -= n;
  }
}

/// Writes the block. Goes on with buffered writes if the device wants another alignment, or after a
/// part of a block.
void OutputFile::writeDirect() {
  ssize_t n;
  do
    n = filled == kDirectBlock ? write(fd, block.get(), filled) : 0;
  while (n < 0 && errno == EINTR);
  if (n < 0 && errno != EINVAL)
    fail(SHALE_EXIT_IO, "cannot write '%s' at offset %lld: %s", name.c_str(), (long long)written,
         strerror(errno));
  int64_t done = std::max<ssize_t>(n, 0), rest = filled - done;
  written += done;
  filled = 0;
  if (rest == 0)
    return;
  std::unique_ptr<char, Free> last = std::move(block);
  endDirect();
  writeAll(last.get() + done, rest);
}

void OutputFile::append(const void *data, int64_t bytes) {
  const char *source = static_cast<const char *>(data);
  sum.add(source, bytes);
  while (block && bytes > 0) {
    int64_t n = std::min(bytes, kDirectBlock - filled);
    std::memcpy(block.get() + filled, source, n);
    filled += n;
    source += n;
    bytes -= n;
    if (filled == kDirectBlock)
      writeDirect();
  }
  writeAll(source, bytes);
}

void OutputFile::finish() {
  if (block && filled > 0)
    writeDirect();
  int status = fsync(fd);
  int error = errno;
  if (close(fd) != 0 && status == 0) {
    status = -1;
    error = errno;
  }
  fd = -1;
  if (status != 0)
    fail(SHALE_EXIT_IO, "cannot write '%s': %s", name.c_str(), strerror(error));
}

bool LineReader::next(std::string &line) {
  constexpr int64_t blockBytes = 1 << 16;
  line.clear();
  for (bool tooLong = false;;) {
    size_t end = block.find('\n', at);
    bool found = end != std::string::npos;
    tooLong |= line.size() + ((found ? end : block.size()) - at) > most;
    if (!tooLong)
      line.append(block, at, (found ? end : block.size()) - at);
    if (found) {
      at = end + 1;
      if (!tooLong)
        return true;
      line.clear();
      tooLong = false;
      continue;
    }
    block.resize(std::min(blockBytes, file.size() - offset));
    at = 0;
    if (block.empty())
      return false;
    file.readAt(offset, block.data(), block.size());
    offset += block.size();
  }
}

std::string readText(const std::string &path, int64_t limit) {
  InputFile file(path);
  if (file.size() > limit)
    fail(SHALE_EXIT_DATA, "'%s' has %lld bytes, more than the %lld it may have", path.c_str(),
         (long long)file.size(), (long long)limit);
  std::string text(file.size(), '\0');
  file.readAt(0, text.data(), file.size());
  return text;
}

bool exists(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

void makeFolders(const std::string &path) {
  size_t last = path.find_last_not_of('/');
  std::string name = path.substr(0, last == std::string::npos ? 1 : last + 1);
  std::error_code code;
  if (std::filesystem::is_directory(name, code))
    return;
  std::string parent = parentOf(name);
  if (!exists(parent))
    makeFolders(parent);
  if (mkdir(name.c_str(), 0777) == 0)
    return syncFolder(parent);
  int error = errno;
  if (!std::filesystem::is_directory(name, code)) // another process may have made it
    fail(SHALE_EXIT_IO, "cannot make folder '%s': %s", printable(path).c_str(),
         error == EEXIST ? "something else has that name" : strerror(error));
}

void syncFolder(const std::string &path) {
  int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Some file systems do not support fsync of a folder (EINVAL) and have no
  // alternative; nor has a folder that may be changed, but not read.
  if (fd < 0 && errno == EACCES)
    return;
  if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL)) {
    int error = errno;
    if (fd >= 0)
      close(fd);
    fail(SHALE_EXIT_IO, "cannot sync folder '%s': %s", path.c_str(), strerror(error));
  }
  close(fd);
}

bool removeTree(const std::string &path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return !error;
}

std::vector<std::string> listFolder(const std::string &path) {
  std::vector<std::string> names;
  DIR *folder = opendir(path.c_str());
  if (!folder)
    return names;
  while (dirent *entry = readdir(folder)) {
    std::string name = entry->d_name;
    if (name != "." && name != "..")
      names.push_back(name);
  }
  closedir(folder);
  return names;
}

std::string parentOf(const std::string &path) {
  std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string realPath(const std::string &path) {
  std::error_code error;
  auto whole = std::filesystem::absolute(path, error);
  if (!error)
    whole = std::filesystem::weakly_canonical(whole, error);
  return error ? path : whole.string();
}

std::string baseName(const std::string &path) {
  return std::filesystem::path(path).filename().string();
}

void renameFile(const std::string &from, const std::string &to) {
  if (rename(from.c_str(), to.c_str()) != 0)
    fail(SHALE_EXIT_IO, "cannot rename '%s' to '%s': %s", from.c_str(), to.c_str(),
         strerror(errno));
  syncFolder(parentOf(to));
}

static const char *const temporaryMark = ".shale-tmp-";

std::string temporaryName(const std::string &path) {
  return path + temporaryMark + std::to_string(getpid());
}

void removeTemporaries(const std::string &folder) {
  for (const std::string &name : listFolder(folder)) {
    size_t at = name.rfind(temporaryMark);
    size_t digits = at == std::string::npos ? name.size() : at + strlen(temporaryMark);
    if (digits < name.size() && name.find_first_not_of("0123456789", digits) == std::string::npos)
      unlink((folder + "/" + name).c_str());
  }
}

void replaceFile(const std::string &path, mode_t mode,
                 const std::function<void(OutputFile &)> &write) {
  std::string temporary = temporaryName(path);
  try {
    OutputFile file(temporary, mode);
    write(file);
    file.finish();
    renameFile(temporary, path);
  } catch (const Error &) {
    unlink(temporary.c_str());
    throw;
  }
}

void replaceFile(const std::string &path, const std::string &text) {
  replaceFile(path, 0666, [&](OutputFile &file) { file.append(text.data(), text.size()); });
}

void copyFile(const InputFile &from, const std::string &to) {
  struct stat original{};
  if (fstat(from.descriptor(), &original) != 0)
    fail(SHALE_EXIT_DATA, "cannot read '%s': %s", from.path().c_str(), strerror(errno));
  replaceFile(to, original.st_mode & 0666, [&](OutputFile &file) {
    constexpr int64_t blockBytes = 1 << 20;
    struct stat copy{};
    // The rights of the group are those of another group.
    if (fstat(file.descriptor(), &copy) != 0 ||
        (copy.st_gid != original.st_gid && fchmod(file.descriptor(), copy.st_mode & 0707) != 0))
      fail(SHALE_EXIT_IO, "cannot write '%s': %s", file.path().c_str(), strerror(errno));
    std::string block;
    for (int64_t at = 0; at < from.size(); at += block.size()) {
      block.resize(std::min(blockBytes, from.size() - at));
      from.readAt(at, block.data(), block.size());
      file.append(block.data(), block.size());
    }
  });
}

// Reads a file of /proc, whose size is not known beforehand, into `text`; returns false
// if there is none. Allocates nothing.
template <size_t N> static bool readProcess(const char *path, char (&text)[N]) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return false;
  ssize_t n = read(fd, text, N - 1);
  close(fd);
  text[n > 0 ? n : 0] = '\0';
  return n > 0;
}

// Returns the bytes of a line "NAME:   N kB" of a file of /proc; 0 if there is none.
static int64_t bytesIn(const char *path, const char *name) {
  char text[4096];
  const char *line = readProcess(path, text) ? strstr(text, name) : nullptr;
  long long kibibytes = 0;
  return line && sscanf(line + strlen(name), " %lld", &kibibytes) == 1 ? kibibytes * 1024 : 0;
}

// Returns the bytes of files that the kernel maps in huge pages. It does so where the page cache
// holds a library in such pages, as after it was installed: a touched page then counts as 2 MiB.
// The kernel walks all page tables for this figure, so it is read again only if more of files is
// mapped.
static int64_t hugeFileBytes(int64_t pagesOfFiles) {
  static std::atomic<int64_t> seenPages{0}, bytes{0};
  if (seenPages.exchange(pagesOfFiles) < pagesOfFiles)
    bytes = bytesIn("/proc/self/smaps_rollup", "FilePmdMapped:");
  return bytes;
}

int64_t residentBytes() {
  char text[128];
  long long total = 0, resident = 0, ofFiles = 0;
  if (!readProcess("/proc/self/statm", text) ||
      sscanf(text, "%lld %lld %lld", &total, &resident, &ofFiles) != 3)
    return 0;
  return resident * sysconf(_SC_PAGESIZE) - hugeFileBytes(ofFiles);
}

int64_t residentPeakBytes() {
  int64_t peak = bytesIn("/proc/self/status", "VmHWM:");
  return peak - bytesIn("/proc/self/smaps_rollup", "FilePmdMapped:");
}

} // namespace shale::rt
