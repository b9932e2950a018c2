// Writes checkpoints.
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Export.h"
#include "runtime/checkpoint/Folders.h"
#include "runtime/checkpoint/HandOut.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/checkpoint/StateLayout.h"
#include "runtime/core/Error.h"
#include "runtime/core/StorageWait.h"
#include "runtime/data/SafetensorsReader.h"

#include <algorithm>
#include <set>
#include <sys/statvfs.h>

namespace shale::rt {

namespace {
constexpr int64_t pieceBytes = 1 << 18; // of the state, read at once

void checkSpace(const std::string &folder, int64_t bytes) {
  struct statvfs info;
  if (statvfs(folder.c_str(), &info) == 0 &&
      static_cast<uint64_t>(info.f_bavail) * info.f_frsize < static_cast<uint64_t>(bytes))
    fail(SHALE_EXIT_IO, "no room for a checkpoint of %lld bytes in '%s'", (long long)bytes,
         folder.c_str());
}

/// Returns the size of a piece's box. State that has another shape than its parameter is one row.
std::vector<int64_t> sizeOfBox(const Piece &piece, const ShaleParameter &parameter) {
  if (!piece.box.isWhole())
    return piece.box.size;
  if (piece.whole != parameter.count)
    return {piece.whole};
  return {parameter.dims, parameter.dims + parameter.rank};
}

/// Returns the manifest's entry of a piece, without its place in a file and its checksums.
StoredPiece entryOf(const ShaleProgram &program, const Piece &piece, int64_t chunkBytes) {
  const ShaleParameter &parameter = program.parameters[piece.parameter];
  StoredPiece entry;
  entry.parameter = parameter.name;
  entry.role = roleName(program, piece.role);
  entry.type = piece.type;
  entry.box = piece.box;
  entry.begin = piece.begin;
  entry.end = piece.end;
  entry.chunks = chunksFor(sizeOfBox(piece, parameter), sizeOf(piece.type), chunkBytes);
  return entry;
}

/// Writes this rank's pieces to one file.
Share writeShard(const ShaleProgram &program, int rank, const StateReader &state,
                 const std::string &folder, const std::vector<Piece> &all, int64_t chunkBytes) {
  Share share;
  share.chunkBytes = chunkBytes;
  std::vector<Piece> own;
  int64_t bytes = 0;
  for (const Piece &piece : all)
    if (piece.rank == rank) {
      own.push_back(piece);
      bytes += piece.bytes();
    }
  if (own.empty())
    return share;
  checkSpace(folder, bytes);
  std::string name = format("shard-%05d.safetensors", rank);
  SafetensorsWriter writer;
  for (const Piece &piece : own)
    writer.declare(std::string(roleName(program, piece.role)) + "/" +
                       program.parameters[piece.parameter].name,
                   piece.type, {piece.end - piece.begin});
  writer.begin(folder + "/" + name, /*direct=*/true);
  std::vector<char> buffer(pieceBytes);
  for (const Piece &piece : own) {
    StoredPiece entry = entryOf(program, piece, chunkBytes);
    entry.file = name;
    entry.offset = writer.position();
    ChunkSums sums(entry.chunks, piece.begin, sizeOf(piece.type));
    for (int64_t at = 0; at < piece.bytes(); at += pieceBytes) {
      int64_t n = std::min(pieceBytes, piece.bytes() - at);
      state.read(piece.offset + at, buffer.data(), n);
      sums.add(buffer.data(), n);
      writer.append(buffer.data(), n);
    }
    entry.sums = sums.finish();
    share.pieces.push_back(entry);
  }
  share.files.push_back(writer.finish(name));
  return share;
}

/// Adds the manifest entries of files that rank 0 has just written in the full form: of optimizer
/// state, whose tensors are named "role/name", or of parameters.
void describeFull(const ShaleProgram &program, const std::string &folder, bool optimizer,
                  const std::vector<WrittenFile> &files, int64_t chunkBytes,
                  std::vector<StoredPiece> &stored) {
  std::set<std::string> parameters; // first names only: aliases are copies
  for (int p = 0; p < program.parameter_count; ++p)
    parameters.insert(program.parameters[p].name);
  std::vector<char> buffer(readBytes);
  for (const WrittenFile &file : files) {
    const std::string &name = file.name;
    if (file.headerBytes == 0) // an index
      continue;
    SafetensorsReader reader(folder + "/" + name);
    for (const auto &[key, tensor] : reader.tensors()) {
      StoredPiece entry;
      size_t slash = optimizer ? key.find('/') : std::string::npos;
      entry.role = optimizer ? key.substr(0, slash) : roleName(program, SHALE_ROLE_PARAM);
      entry.parameter = optimizer ? key.substr(slash + 1) : key;
      if (!parameters.count(entry.parameter))
        continue;
      entry.type = tensor.type;
      entry.end = tensor.count;
      entry.file = name;
      entry.offset = tensor.offset;
      entry.chunks = chunksFor(tensor.shape, sizeOf(tensor.type), chunkBytes);
      ChunkSums sums(entry.chunks, 0, sizeOf(tensor.type));
      addBytes(reader.file(), tensor.offset, tensor.bytes, buffer, sums);
      entry.sums = sums.finish();
      stored.push_back(entry);
    }
  }
}

/// Runs `body`, then agrees with all ranks on whether it succeeded on each.
template <typename Body> void together(Peers &peers, std::string &trouble, Body body) {
  if (trouble.empty()) {
    try {
      body();
    } catch (const Error &error) {
      if (error.code != SHALE_EXIT_IO && error.code != SHALE_EXIT_NO_INPUT)
        throw;
      trouble = error.what();
    }
  }
  if (peers.agree(!trouble.empty()) && trouble.empty())
    trouble = "another rank could not write its part of the checkpoint";
}

/// Writes the manifest of what all ranks have written. Rank 0 gets the pieces of the others
/// although it cannot write: they all send them.
void writeManifest(const ShaleProgram &program, int rank, Peers &peers, const std::string &folder,
                   const Position &position, const Share &share, std::string &trouble) {
  std::vector<std::string> texts = peers.gather(packShare({{}, share.files, share.chunkBytes}));
  auto onFirst = [&](const auto &body) {
    if (rank == 0)
      attempt(trouble, body);
  };
  std::optional<OutputFile> file;
  std::optional<ManifestWriter> writer;
  onFirst([&] {
    Manifest manifest;
    manifest.position = position;
    manifest.chunkBytes = share.chunkBytes;
    manifest.sums = true;
    for (const std::string &text : texts)
      for (const WrittenFile &one : unpackShare(text).files)
        manifest.files[one.name] = one;
    file.emplace(folder + "/manifest.json");
    writer.emplace(program, manifest,
                   [&](const std::string &text) { file->append(text.data(), text.size()); });
  });
  collect(rank, program.world_size, peers, share,
          [&](const StoredPiece &piece) { onFirst([&] { writer->add(piece); }); });
  onFirst([&] {
    writer->finish();
    file->finish();
  });
}
} // namespace

void saveCheckpoint(const ShaleProgram &program, int rank, const StateReader &state, Peers &peers,
                    const std::string &out, const std::string &form, int64_t fileBytes,
                    int64_t keep, Position position, int64_t chunkBytes) {
  StorageWait storage(format("the save of step %lld", (long long)position.step));
  std::string temporary = unfinishedFolder(out, position.step);
  std::string trouble;
  std::vector<WrittenFile> weights, optimizer; // in the full form
  Share share;
  share.chunkBytes = chunkBytes;
  together(peers, trouble, [&] {
    if (rank != 0)
      return;
    removeUnfinished(out);
    makeFolders(temporary);
  });
  if (trouble.empty() && form != "sharded") {
    try {
      ExportOptions options;
      options.folder = temporary;
      options.fileBytes = fileBytes;
      options.whole = true;
      weights = exportTensors(program, rank, state, peers, options);
      options.optimizer = true;
      optimizer = exportTensors(program, rank, state, peers, options);
    } catch (const Error &error) {
      if (error.code != SHALE_EXIT_IO)
        throw;
      trouble = error.what();
    }
    if (form == "full")
      together(peers, trouble, [&] {
        if (rank != 0)
          return;
        describeFull(program, temporary, false, weights, chunkBytes, share.pieces);
        describeFull(program, temporary, true, optimizer, chunkBytes, share.pieces);
      });
  }
  if (form != "full")
    together(peers, trouble, [&] {
      share = writeShard(program, rank, state, temporary, piecesOf(program, /*spread=*/true),
                         chunkBytes);
    });
  for (const std::vector<WrittenFile> &files : {weights, optimizer})
    share.files.insert(share.files.end(), files.begin(), files.end());
  if (trouble.empty())
    writeManifest(program, rank, peers, temporary, position, share, trouble);
  together(peers, trouble, [&] {
    if (rank != 0)
      return;
    commitCheckpoint(out, position.step);
    pruneCheckpoints(out, keep, position.step);
  });
  if (trouble.empty())
    return;
  if (rank == 0)
    removeTree(temporary);
  throw Error(SHALE_EXIT_IO, trouble);
}

} // namespace shale::rt
