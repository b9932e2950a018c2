// manifest.json of a checkpoint: its contents, their location and checksums.
#ifndef SHALE_RUNTIME_CHECKPOINT_MANIFEST_H
#define SHALE_RUNTIME_CHECKPOINT_MANIFEST_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/core/Types.h"

#include <map>

namespace shale::rt {

/// Elements [begin, end) of a parameter in one of the checkpoint's files.
struct StoredPiece {
  std::string parameter;
  std::string role;
  Dtype type = Dtype::F32;
  int64_t begin = 0, end = 0;
  std::string file;
  int64_t offset = 0;    // bytes into the file
  uint64_t checksum = 0; // XXH3 (64 bits) of its bytes
};

struct StoredParameter {
  std::string name;
  Dtype type = Dtype::F32;
  std::vector<int64_t> shape;
};

struct Manifest {
  Position position;
  std::vector<StoredParameter> parameters;
  std::map<std::string, int64_t> files; // name: size
  std::vector<StoredPiece> pieces;
};

/// Returns the text of manifest.json, which also describes the program's layout.
std::string manifestText(const ShaleProgram &program, const Manifest &manifest);

/// Reads manifest.json and checks it: checksum, types, ranges, plain file names, sizes
/// of the files. Fails with exit code 65 if a check fails.
Manifest readManifest(const std::string &folder);

/// Convert pieces to text and back, for sending them to rank 0.
std::string packPieces(const std::vector<StoredPiece> &pieces);
std::vector<StoredPiece> unpackPieces(const std::string &text);

/// XXH3 over bytes that arrive in parts.
class Checksum {
public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum &) = delete;
  Checksum &operator=(const Checksum &) = delete;
  void add(const void *data, int64_t bytes);
  uint64_t value() const;

private:
  void *state;
};

} // namespace shale::rt

#endif
