// manifest.json of a checkpoint: its contents, their location and checksums.
#ifndef SHALE_RUNTIME_CHECKPOINT_MANIFEST_H
#define SHALE_RUNTIME_CHECKPOINT_MANIFEST_H

#include "runtime/checkpoint/Box.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/core/Files.h"
#include "runtime/core/Types.h"

#include <functional>
#include <map>

namespace shale::rt {

/// Elements [begin, end) of a box of a parameter in one of the checkpoint's files.
struct StoredPiece {
  std::string parameter;
  std::string role;
  Dtype type = Dtype::F32;
  int64_t begin = 0, end = 0;
  std::string file;
  int64_t offset = 0;         // bytes into the file
  std::vector<uint64_t> sums; // XXH3 (64 bits), chunks.parts of them for each chunk
  Box box = {};
  Chunks chunks = {};
  int64_t bytes() const { return (end - begin) * sizeOf(type); }
};

struct StoredParameter {
  std::string name;
  Dtype type = Dtype::F32;
  std::vector<int64_t> shape;
};

struct Manifest {
  Position position;
  std::vector<StoredParameter> parameters;
  std::map<std::string, WrittenFile> files; // by name
  std::vector<StoredPiece> pieces;
  int64_t chunkBytes = savedChunkBytes; // 0: an older program wrote it, a piece is one chunk
  bool sums = false;                    // whether `files` have checksums
};

/// The most bytes of a manifest that is read, and so that is written.
constexpr int64_t mostOfManifest = int64_t(4) << 30;

/// Writes the text of manifest.json, which also describes the program's layout, piece by piece.
/// Fails with exit code 74 if it has more than `most` bytes.
class ManifestWriter {
public:
  using Sink = std::function<void(const std::string &)>;
  /// `manifest`: all but the pieces.
  ManifestWriter(const ShaleProgram &program, const Manifest &manifest, Sink sink,
                 int64_t most = mostOfManifest);
  void add(const StoredPiece &piece);
  void finish();

private:
  void put(const std::string &text);
  Sink sink;
  const int64_t most;
  int64_t written = 0, pieces = 0;
  std::string tail, compactTail;
  Checksum sum;
};

/// Returns the text of manifest.json.
std::string manifestText(const ShaleProgram &program, const Manifest &manifest);

/// Reads manifest.json and checks it: checksum, types, ranges, plain file names. Calls `visit` for
/// each piece in place of keeping it: before the end, so that the manifest may turn out to be
/// damaged. Sets `head` to the text of all but the pieces. Fails with exit code 65 if a check
/// fails.
using PieceVisitor = std::function<void(StoredPiece &&piece, int64_t chunkBytes)>;
Manifest scanManifest(const std::string &folder, const PieceVisitor &visit,
                      std::string *head = nullptr);

/// Reads such a text, which was checked.
Manifest parseHead(const std::string &folder, const std::string &text);

/// The same with all pieces in memory.
Manifest parseManifest(const std::string &folder);

/// Checks the size and, unless an older program wrote the checkpoint, the header of a file.
void checkStoredFile(const Manifest &manifest, const WrittenFile &stored);

/// Like parseManifest(). Also checks each file as checkStoredFile() does.
Manifest readManifest(const std::string &folder);

/// The part of a checkpoint that one rank has written.
struct Share {
  std::vector<StoredPiece> pieces;
  std::vector<WrittenFile> files;
  int64_t chunkBytes = savedChunkBytes; // as that of a manifest
};

/// Convert a share to text and back, for sending it to rank 0.
std::string packShare(const Share &share);
Share unpackShare(const std::string &text);

} // namespace shale::rt

#endif
