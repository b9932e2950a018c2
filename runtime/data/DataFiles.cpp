// Hashes of samples of data files, and the differences between two lists of files.
#include "runtime/data/DataFiles.h"
#include "runtime/core/Checksum.h"
#include "runtime/core/Error.h"

#include <algorithm>

namespace shale::rt {

static constexpr int64_t kSample = 64 << 10;

uint64_t sampledHash(const InputFile &file, int64_t most) {
  int64_t size = file.size();
  bool whole = size <= most;
  int64_t count = whole ? (size + kSample - 1) / kSample : std::max<int64_t>(most / kSample, 2);
  std::vector<char> buffer(kSample);
  Checksum sum;
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = whole ? i * kSample : (size - kSample) / (count - 1) * i;
    int64_t bytes = std::min(kSample, size - at);
    file.readAt(at, buffer.data(), bytes);
    sum.add(buffer.data(), bytes);
  }
  return sum.value();
}

int64_t sampledBytes(size_t files) {
  constexpr int64_t all = 256 << 20, least = 2 * kSample, most = 4 << 20;
  return std::clamp(all / std::max<int64_t>(files, 1), least, most);
}

DataChange compareData(const std::vector<DataFile> &before, const std::vector<DataFile> &now) {
  DataChange change;
  if (before.size() != now.size()) {
    change.other = format("it has %zu files, not %zu", now.size(), before.size());
    return change;
  }
  for (size_t i = 0; i < now.size(); ++i) {
    const DataFile &old = before[i], &own = now[i];
    bool isRenamed = old.name != own.name;
    std::string was =
        isRenamed ? format("'%s', in place of '%s',", own.name.c_str(), printable(old.name).c_str())
                  : format("'%s'", own.name.c_str());
    if (old.bytes != own.bytes)
      change.other = format("%s has %lld bytes (%lld rows), not %lld (%lld rows)", was.c_str(),
                            (long long)own.bytes, (long long)own.rows, (long long)old.bytes,
                            (long long)old.rows);
    else if (old.hash != own.hash)
      change.other = format("%s has other content", was.c_str());
    else if (isRenamed && change.renamed.empty())
      change.renamed = format("'%s' was '%s'", own.name.c_str(), printable(old.name).c_str());
    if (!change.other.empty())
      return change;
  }
  return change;
}

} // namespace shale::rt
