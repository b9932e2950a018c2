// Files: reads, durable writes, folders.
#include "runtime/core/Files.h"
#include "runtime/core/Error.h"

#include <cerrno>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace shale::rt {

InputFile::InputFile(const std::string &path) : name(path) {
  fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    fail(errno == ENOENT || errno == ENOTDIR ? SHALE_EXIT_NO_INPUT : SHALE_EXIT_DATA,
         "cannot open '%s': %s", path.c_str(), strerror(errno));
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    fail(SHALE_EXIT_DATA, "'%s' is not a regular file", path.c_str());
  }
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

OutputFile::OutputFile(const std::string &path) : name(path) {
  fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0)
    fail(SHALE_EXIT_IO, "cannot write '%s': %s", path.c_str(), strerror(errno));
}

OutputFile::~OutputFile() {
  if (fd >= 0)
    close(fd);
}

void OutputFile::append(const void *data, int64_t bytes) {
  const char *source = static_cast<const char *>(data);
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

void OutputFile::finish() {
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
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error || !std::filesystem::is_directory(path, error))
    fail(SHALE_EXIT_IO, "cannot make folder '%s': %s", path.c_str(),
         error ? error.message().c_str() : "something else has that name");
}

void syncFolder(const std::string &path) {
  int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Some file systems do not support fsync of a folder (EINVAL) and have no
  // alternative.
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

std::string baseName(const std::string &path) {
  return std::filesystem::path(path).filename().string();
}

void renameFile(const std::string &from, const std::string &to) {
  if (rename(from.c_str(), to.c_str()) != 0)
    fail(SHALE_EXIT_IO, "cannot rename '%s' to '%s': %s", from.c_str(), to.c_str(),
         strerror(errno));
  syncFolder(parentOf(to));
}

void replaceFile(const std::string &path, const std::string &text) {
  std::string temporary = format("%s.tmp-%d", path.c_str(), (int)getpid());
  try {
    OutputFile file(temporary);
    file.append(text.data(), text.size());
    file.finish();
    renameFile(temporary, path);
  } catch (const Error &) {
    unlink(temporary.c_str());
    throw;
  }
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

int64_t residentBytes() {
  char text[128];
  long long total = 0, resident = 0;
  if (!readProcess("/proc/self/statm", text) || sscanf(text, "%lld %lld", &total, &resident) != 2)
    return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

int64_t residentPeakBytes() {
  char text[4096];
  const char *line = readProcess("/proc/self/status", text) ? strstr(text, "VmHWM:") : nullptr;
  long long kibibytes = 0;
  if (!line || sscanf(line, "VmHWM: %lld", &kibibytes) != 1)
    return 0;
  return kibibytes * 1024;
}

} // namespace shale::rt
