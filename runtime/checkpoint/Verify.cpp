// --verify-checkpoint: reads every byte of a checkpoint and compares the checksums.
#include "runtime/checkpoint/Verify.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/core/Error.h"

#include <algorithm>

namespace shale::rt {

namespace {
/// Returns the checksum of the first `bytes` of a file.
uint64_t checksumOf(const InputFile &file, int64_t bytes, std::vector<char> &buffer) {
  Checksum checksum;
  addBytes(file, 0, bytes, buffer, checksum);
  return checksum.value();
}

class Check {
public:
  explicit Check(const std::string &folder) : folder(folder), buffer(readBytes) {}

  CheckedFolder run() {
    try {
      Manifest manifest = parseManifest(folder);
      result.step = manifest.position.step;
      result.sums = manifest.sums;
      for (const auto &[name, stored] : manifest.files)
        attempt([&, &stored = stored] { checkFile(manifest, stored); });
    } catch (const Error &error) {
      result.problems.push_back(error.what());
    }
    return std::move(result);
  }

private:
  template <typename Body> void attempt(Body body) {
    try {
      body();
    } catch (const Error &error) {
      result.problems.push_back(error.what());
    }
  }

  void damage(const InputFile &file, int64_t begin, int64_t end, const std::string &what) {
    result.problems.push_back(format("'%s' is damaged: bytes %lld to %lld (%s)",
                                     file.path().c_str(), (long long)begin, (long long)end - 1,
                                     what.c_str()));
  }

  void checkFile(const Manifest &manifest, const WrittenFile &stored) {
    InputFile file(folder + "/" + stored.name);
    if (file.size() != stored.bytes)
      fail(SHALE_EXIT_DATA, "'%s' has %lld bytes, the manifest says %lld", file.path().c_str(),
           (long long)file.size(), (long long)stored.bytes);
    ++result.files;
    result.bytes += stored.bytes;
    if (manifest.sums && checksumOf(file, stored.bytes, buffer) == stored.whole)
      return;
    size_t before = result.problems.size();
    if (manifest.sums && checksumOf(file, stored.headerBytes, buffer) != stored.header)
      damage(file, 0, stored.headerBytes, "header");
    for (const StoredPiece &piece : manifest.pieces)
      if (piece.file == stored.name)
        checkPiece(file, piece);
    if (manifest.sums && result.problems.size() == before)
      damage(file, stored.headerBytes, stored.bytes, "in no part that has a checksum of its own");
  }

  /// Names each chunk that has damage.
  void checkPiece(const InputFile &file, const StoredPiece &piece) {
    ChunkSums sums(piece.chunks, piece.begin, sizeOf(piece.type));
    addBytes(file, piece.offset, piece.bytes(), buffer, sums);
    std::vector<uint64_t> found = sums.finish();
    int64_t parts = piece.chunks.parts, bytes = piece.chunks.elements * sizeOf(piece.type);
    for (int64_t k = 0; k < piece.chunks.of(piece.end - piece.begin); ++k)
      if (!std::equal(&found[k * parts], &found[k * parts] + parts, &piece.sums[k * parts]))
        damage(file, piece.offset + k * bytes,
               piece.offset + std::min((k + 1) * bytes, piece.bytes()),
               printable(piece.parameter) + ", " + printable(piece.role));
  }

  const std::string &folder;
  std::vector<char> buffer;
  CheckedFolder result;
};
} // namespace

CheckedFolder checkFolder(const std::string &folder) { return Check(folder).run(); }

int verifyCheckpoint(const std::string &path) {
  if (!exists(path))
    fail(SHALE_EXIT_NO_INPUT, "--verify-checkpoint: there is no folder '%s'",
         printable(path).c_str());
  std::vector<std::string> folders = listCheckpoints(path);
  if (folders.empty())
    folders = {path};
  bool whole = true;
  for (const std::string &folder : folders) {
    CheckedFolder checked = checkFolder(folder);
    for (const std::string &problem : checked.problems)
      complain("error", problem);
    whole &= checked.problems.empty();
    if (checked.problems.empty())
      printf("%s: step %lld, %lld file%s, %lld bytes: whole%s\n", folder.c_str(),
             (long long)checked.step, (long long)checked.files, checked.files == 1 ? "" : "s",
             (long long)checked.bytes,
             checked.sums ? "" : " (an older program wrote it: no checksum covers the headers)");
  }
  return whole ? SHALE_EXIT_OK : SHALE_EXIT_DATA;
}

} // namespace shale::rt
