// manifest.json of a checkpoint: its contents, their location and checksums.
#ifndef SHALE_RUNTIME_CHECKPOINT_MANIFEST_H
#define SHALE_RUNTIME_CHECKPOINT_MANIFEST_H

#include "runtime/checkpoint/Box.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/core/Files.h"
#include "runtime/core/Types.h"

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

/// Returns the text of manifest.json, which also describes the program's layout.
std::string manifestText(const ShaleProgram &program, const Manifest &manifest);

/// Reads manifest.json and checks it: checksum, types, ranges, plain file names. Fails with exit
/// code 65 if a check fails.
Manifest parseManifest(const std::string &folder);

/// Like parseManifest(). Also checks the size and, unless an older program wrote the checkpoint,
/// the header of each file.
Manifest readManifest(const std::string &folder);

/// The part of a checkpoint that one rank has written.
struct Share {
  std::vector<StoredPiece> pieces;
  std::vector<WrittenFile> files;
  int64_t chunkBytes = savedChunkBytes;
};

/// Convert a share to text and back, for sending it to rank 0.
std::string packShare(const Share &share);
Share unpackShare(const std::string &text);

} // namespace shale::rt

#endif
