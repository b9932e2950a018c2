// Writes checkpoints and manages their folder.
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Export.h"
#include "runtime/checkpoint/Layout.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/core/Error.h"
#include "runtime/data/SafetensorsReader.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <set>
#include <sys/statvfs.h>
#include <unistd.h>

namespace shale::rt {

namespace {
const char *const temporaryMark = ".tmp-";
constexpr int64_t pieceBytes = 1 << 18; // of the state, read at once

std::string root(const std::string &out) { return out + "/checkpoints"; }

std::string stepName(int64_t step) { return format("step-%08lld", (long long)step); }

/// Returns the step in a folder's name; -1 if the name is not that of a complete checkpoint.
int64_t stepOf(const std::string &name) {
  if (name.compare(0, 5, "step-") != 0 || name.size() < 6 || name.size() > 23 ||
      name.find_first_not_of("0123456789", 5) != std::string::npos)
    return -1;
  return std::strtoll(name.c_str() + 5, nullptr, 10);
}

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

/// Returns the manifest entries of the files that rank 0 has just written in the full form.
std::vector<StoredPiece> describeFull(const ShaleProgram &program, const std::string &folder,
                                      const std::vector<WrittenFile> &files, int64_t chunkBytes) {
  std::set<std::string> parameters; // first names only: aliases are copies
  for (int p = 0; p < program.parameter_count; ++p)
    parameters.insert(program.parameters[p].name);
  std::vector<StoredPiece> stored;
  std::vector<char> buffer(readBytes);
  for (const WrittenFile &file : files) {
    const std::string &name = file.name;
    if (file.headerBytes == 0) // an index
      continue;
    SafetensorsReader reader(folder + "/" + name);
    bool optimizer = name.compare(0, 9, "optimizer") == 0;
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
  return stored;
}

/// Renames the folder into place; an existing one of the same step is exchanged with
/// it atomically.
void commit(const std::string &temporary, const std::string &final, const std::string &parent) {
  syncFolder(temporary);
  int status = rename(temporary.c_str(), final.c_str());
  if (status != 0 && (errno == ENOTEMPTY || errno == EEXIST)) {
    status = renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE);
    if (status == 0)
      removeTree(temporary);
  }
  if (status != 0)
    fail(SHALE_EXIT_IO, "cannot rename '%s' to '%s': %s", temporary.c_str(), final.c_str(),
         strerror(errno));
  syncFolder(parent);
}

/// Removes checkpoints before `step` beyond the newest `keep`. Those after it are of a run whose
/// newest checkpoints are damaged; they must not take the places of good ones.
void prune(const std::string &out, int64_t keep, int64_t step) {
  std::vector<std::string> folders = listCheckpoints(out);
  while (!folders.empty() && stepOf(baseName(folders.back())) > step)
    folders.pop_back();
  if (keep <= 0 || folders.size() <= static_cast<size_t>(keep))
    return;
  folders.resize(folders.size() - keep);
  for (const std::string &folder : folders) {
    // Rename it first: a partly removed checkpoint must not look complete.
    std::string doomed = folder + temporaryMark + "old";
    if (rename(folder.c_str(), doomed.c_str()) != 0 || !removeTree(doomed))
      warn("cannot remove the old checkpoint '%s'", folder.c_str());
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
} // namespace

void removeUnfinished(const std::string &out) {
  for (const std::string &name : listFolder(root(out)))
    if (name.compare(0, 5, "step-") == 0 && name.find(temporaryMark) != std::string::npos)
      removeTree(root(out) + "/" + name);
}

std::vector<std::string> listCheckpoints(const std::string &out) {
  std::vector<std::pair<int64_t, std::string>> found;
  for (const std::string &name : listFolder(root(out))) {
    int64_t step = stepOf(name);
    if (step >= 0 && exists(root(out) + "/" + name + "/manifest.json"))
      found.emplace_back(step, root(out) + "/" + name);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> folders;
  for (const auto &entry : found)
    folders.push_back(entry.second);
  return folders;
}

std::string brokenCheckpoint(const std::string &out) {
  std::pair<int64_t, std::string> newest{-1, ""};
  for (const std::string &name : listFolder(root(out))) {
    std::string folder = root(out) + "/" + name;
    if (stepOf(name) > newest.first && !exists(folder + "/manifest.json") &&
        !listFolder(folder).empty())
      newest = {stepOf(name), folder};
  }
  std::vector<std::string> whole = listCheckpoints(out);
  bool newer = whole.empty() || stepOf(baseName(whole.back())) < newest.first;
  return newer ? newest.second : "";
}

void saveCheckpoint(const ShaleProgram &program, int rank, const StateReader &state, Peers &peers,
                    const std::string &out, const std::string &form, int64_t fileBytes,
                    int64_t keep, Position position, int64_t chunkBytes) {
  std::string parent = root(out);
  std::string final = parent + "/" + stepName(position.step);
  std::string temporary = final + temporaryMark + "new";
  std::string trouble;
  std::vector<WrittenFile> full;
  Share share;
  share.chunkBytes = chunkBytes;
  together(peers, trouble, [&] {
    if (rank != 0)
      return;
    makeFolders(parent);
    removeUnfinished(out);
    makeFolders(temporary);
  });
  if (trouble.empty() && form != "sharded") {
    try {
      ExportOptions options;
      options.folder = temporary;
      options.fileBytes = fileBytes;
      options.whole = true;
      full = exportTensors(program, rank, state, peers, options);
      options.optimizer = true;
      for (const WrittenFile &file : exportTensors(program, rank, state, peers, options))
        full.push_back(file);
    } catch (const Error &error) {
      if (error.code != SHALE_EXIT_IO)
        throw;
      trouble = error.what();
    }
    if (form == "full")
      together(peers, trouble, [&] {
        if (rank == 0)
          share.pieces = describeFull(program, temporary, full, chunkBytes);
      });
  }
  if (form != "full")
    together(peers, trouble, [&] {
      share = writeShard(program, rank, state, temporary, piecesOf(program, /*spread=*/true),
                         chunkBytes);
    });
  share.files.insert(share.files.end(), full.begin(), full.end());
  std::vector<std::string> texts;
  if (trouble.empty())
    texts = peers.gather(packShare(share));
  together(peers, trouble, [&] {
    if (rank != 0)
      return;
    Manifest manifest;
    manifest.position = position;
    manifest.chunkBytes = chunkBytes;
    manifest.sums = true;
    for (const std::string &text : texts) {
      Share other = unpackShare(text);
      std::move(other.pieces.begin(), other.pieces.end(), std::back_inserter(manifest.pieces));
      for (const WrittenFile &file : other.files)
        manifest.files[file.name] = file;
    }
    std::string text = manifestText(program, manifest);
    OutputFile file(temporary + "/manifest.json");
    file.append(text.data(), text.size());
    file.finish();
    commit(temporary, final, parent);
    prune(out, keep, position.step);
  });
  if (trouble.empty())
    return;
  if (rank == 0)
    removeTree(temporary);
  throw Error(SHALE_EXIT_IO, trouble);
}

} // namespace shale::rt
