// Reads checkpoints by parameter name and element range, so that a program
// compiled for another world size or strategy reads the same files.
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/HandOut.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/StateLayout.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace shale::rt {

namespace {
constexpr int64_t blockElements = 1 << 18;

/// Names of parameters by the roles of which there are pieces.
using RoleNames = std::map<std::string, std::set<std::string>>;

/// Returns the names of the parameters of the program and of the checkpoint that have a role.
std::set<std::string> namesOfRole(const ShaleProgram &program, const RoleNames &stored,
                                  int32_t number) {
  auto found = stored.find(roleName(program, number));
  std::set<std::string> names = found == stored.end() ? std::set<std::string>() : found->second;
  for (int i = 0; i < program.state_count; ++i) {
    const ShaleGroup &group = program.groups[program.states[i].group];
    if (program.states[i].role == number)
      for (int s = 0; s < group.segment_count; ++s)
        names.insert(program.parameters[group.segments[s].parameter].name);
  }
  return names;
}

/// Fails if the checkpoint is of another model, with the differences, or was saved with
/// other precision flags.
void compareParameters(const ShaleProgram &program, const Manifest &manifest,
                       const RoleNames &roles) {
  std::map<std::string, int> names = parameterNames(program);
  std::set<int> seen;
  std::set<std::string> scales = namesOfRole(program, roles, SHALE_ROLE_LOSS_SCALE);
  // Those of another mesh, or of another type of sent gradients, are left out: readState().
  std::set<std::string> residuals = namesOfRole(program, roles, SHALE_ROLE_RESIDUAL);
  std::vector<std::string> unexpected, missing, shapes;
  bool scaleLacks = false, scaleIsNew = false;
  for (const StoredParameter &stored : manifest.parameters) {
    if (residuals.count(stored.name))
      continue;
    auto found = names.find(stored.name);
    if (found == names.end()) {
      if (scales.count(stored.name)) {
        scaleLacks = true;
        continue;
      }
      unexpected.push_back(stored.name);
      continue;
    }
    const ShaleParameter &own = program.parameters[found->second];
    seen.insert(found->second);
    if (stored.shape != std::vector<int64_t>(own.dims, own.dims + own.rank))
      shapes.push_back(stored.name);
  }
  for (int p = 0; p < program.parameter_count; ++p)
    if (!seen.count(p) && !residuals.count(program.parameters[p].name)) {
      if (scales.count(program.parameters[p].name))
        scaleIsNew = true;
      else
        missing.push_back(program.parameters[p].name);
    }
  std::string differences;
  auto add = [&](const std::vector<std::string> &names, const char *what) {
    constexpr size_t most = 4;
    if (names.empty())
      return;
    differences += format("%s%zu %s (", differences.empty() ? "" : ", ", names.size(), what);
    for (size_t i = 0; i < std::min(most, names.size()); ++i)
      differences += (i ? ", " : "") + printable(names[i]);
    differences += names.size() > most ? ", ..)" : ")";
  };
  add(missing, "parameters of the program are missing");
  add(unexpected, "are unexpected");
  add(shapes, "have another shape");
  if (differences.empty() && (scaleLacks || scaleIsNew))
    fail(SHALE_EXIT_DATA,
         "checkpoint '%s' was saved with other precision flags: %s; compile "
         "with the --param-dtype of that run",
         manifest.position.folder.c_str(),
         scaleLacks ? "that program scaled the loss (f16), this one does not"
                    : "that program did not scale the loss, this one does (f16)");
  if (differences.empty())
    return;
  fail(SHALE_EXIT_DATA, "checkpoint '%s' is of another model: %s; pass another --out or --resume",
       manifest.position.folder.c_str(), differences.c_str());
}

/// This rank's pieces of each (parameter, role).
using Targets = std::map<std::pair<int, std::string>, std::vector<Piece>>;

/// Copies the elements of one (parameter, role) from the pieces of a checkpoint to those of a rank.
class PieceReader {
public:
  PieceReader(const std::string &folder, const std::vector<Piece> &targets, State &state)
      : folder(folder), targets(targets), state(state), copied(targets.size(), 0),
        buffer(blockElements * 8), converted(blockElements * 8) {}

  /// Reads what has elements of the targets, chunk by chunk: the parts of rows that a checksum
  /// covers. Checks these and copies the elements. Returns the number of bytes that were read.
  int64_t read(const StoredPiece &stored);
  /// Returns a target of which the pieces that were read lack elements, or null.
  const Piece *incomplete() const {
    for (size_t i = 0; i < targets.size(); ++i)
      if (copied[i] < targets[i].box.held(targets[i].begin, targets[i].end))
        return &targets[i];
    return nullptr;
  }

private:
  uint32_t partsNeeded(const StoredPiece &stored, int64_t begin, int64_t end) const;
  int64_t readChunk(const InputFile &file, const StoredPiece &stored, int64_t begin, int64_t end,
                    uint32_t parts);
  int64_t readParts(const InputFile &file, const StoredPiece &stored, int64_t begin, int64_t end,
                    uint32_t parts);
  void copy(size_t target, const char *data, Dtype type, int64_t local, int64_t count);

  const std::string &folder;
  const std::vector<Piece> &targets;
  State &state;
  std::vector<int64_t> copied; ///< elements, by target
  std::vector<char> buffer, converted;
};

/// Copies `count` elements to a target, from element `local` of its box.
void PieceReader::copy(size_t i, const char *data, Dtype type, int64_t local, int64_t count) {
  const Piece &target = targets[i];
  int64_t size = sizeOf(target.type);
  convert(type, data, target.type, converted.data(), count);
  state.write(target.offset + (local - target.begin) * size, converted.data(), count * size);
  copied[i] += count;
}

/// Calls `visit(from, local, count)` for the elements that are in [begin, end) of a stored box and
/// in a target, in order: `count` elements from `from` of the box are those from `local` of the
/// target.
template <typename Visit>
void forShared(const Box &box, int64_t begin, int64_t end, const Piece &target,
               const Visit &visit) {
  if (box == target.box) {
    int64_t low = std::max(begin, target.begin), high = std::min(end, target.end);
    if (box.isPadded())
      forRuns(box, low, high, [&](int64_t local, int64_t, int64_t n) { visit(local, local, n); });
    else if (low < high)
      visit(low, low, high - low);
    return;
  }
  forRuns(box, begin, end, [&](int64_t from, int64_t global, int64_t count) {
    int64_t low = std::max(target.begin, target.box.below(global));
    int64_t high = std::min(target.end, target.box.below(global + count));
    forRuns(target.box, low, high, [&](int64_t local, int64_t place, int64_t n) {
      visit(from + (place - global), local, n);
    });
  });
}

/// Returns a bit for each part of rows in which [begin, end) of a stored piece has elements of the
/// targets.
uint32_t PieceReader::partsNeeded(const StoredPiece &stored, int64_t begin, int64_t end) const {
  const Chunks &chunks = stored.chunks;
  const uint32_t all = (1u << chunks.parts) - 1;
  uint32_t needed = 0;
  for (const Piece &target : targets)
    forShared(stored.box, begin, end, target, [&](int64_t from, int64_t, int64_t count) {
      if (count >= chunks.row)
        needed = all;
      if (needed != all)
        forParts(chunks, from, from + count,
                 [&](int64_t part, int64_t, int64_t) { needed |= 1u << part; });
    });
  return needed;
}

/// Calls `visit(begin, end)` for the runs of elements in [begin, end) that are in these parts of
/// rows.
template <typename Visit>
void forRunsOf(uint32_t parts, const Chunks &chunks, int64_t begin, int64_t end,
               const Visit &visit) {
  int64_t from = begin, to = begin;
  forParts(chunks, begin, end, [&](int64_t part, int64_t at, int64_t count) {
    if (!(parts >> part & 1))
      return;
    if (at != to) {
      if (from < to)
        visit(from, to);
      from = at;
    }
    to = at + count;
  });
  if (from < to)
    visit(from, to);
}

/// Reads what [begin, end) of a stored piece has of these parts of rows, to its place in the
/// buffer. Returns the number of bytes.
int64_t PieceReader::readParts(const InputFile &file, const StoredPiece &stored, int64_t begin,
                               int64_t end, uint32_t parts) {
  int64_t element = sizeOf(stored.type), bytes = 0;
  auto place = [&](int64_t at) { return stored.offset + (at - stored.begin) * element; };
  forRunsOf(parts, stored.chunks, begin, end,
            [&](int64_t from, int64_t to) { file.announce(place(from), (to - from) * element); });
  forRunsOf(parts, stored.chunks, begin, end, [&](int64_t from, int64_t to) {
    file.readAt(place(from), buffer.data() + (from - begin) * element, (to - from) * element);
    bytes += (to - from) * element;
  });
  return bytes;
}

/// Reads these parts of the rows of a chunk, the elements [begin, end).
int64_t PieceReader::readChunk(const InputFile &file, const StoredPiece &stored, int64_t begin,
                               int64_t end, uint32_t parts) {
  const Chunks &chunks = stored.chunks;
  int64_t element = sizeOf(stored.type), bytes = 0;
  Checksum sums[mostParts];
  for (int64_t at = begin; at < end; at += blockElements) {
    int64_t stop = std::min(at + blockElements, end);
    bytes += readParts(file, stored, at, stop, parts);
    auto place = [&](int64_t from) { return buffer.data() + (from - at) * element; };
    forParts(chunks, at, stop, [&](int64_t part, int64_t from, int64_t count) {
      if (parts >> part & 1)
        sums[part].add(place(from), count * element);
    });
    for (size_t i = 0; i < targets.size(); ++i)
      forShared(stored.box, at, stop, targets[i], [&](int64_t from, int64_t local, int64_t count) {
        copy(i, place(from), stored.type, local, count);
      });
  }
  int64_t first = (begin - stored.begin) / chunks.elements * chunks.parts;
  for (int64_t part = 0; part < chunks.parts; ++part)
    if ((parts >> part & 1) && sums[part].value() != stored.sums[first + part])
      fail(SHALE_EXIT_DATA,
           "'%s' is damaged: the checksum of bytes %lld to %lld, of '%s' (%s), does not match",
           file.path().c_str(), (long long)(stored.offset + (begin - stored.begin) * element),
           (long long)(stored.offset + (end - stored.begin) * element - 1),
           printable(stored.parameter).c_str(), printable(stored.role).c_str());
  return bytes;
}

int64_t PieceReader::read(const StoredPiece &stored) {
  InputFile file(folder + "/" + stored.file);
  int64_t bytes = 0;
  for (int64_t at = stored.begin; at < stored.end;) {
    int64_t end = at + std::min(stored.chunks.elements, stored.end - at);
    if (uint32_t parts = partsNeeded(stored, at, end))
      bytes += readChunk(file, stored, at, end, parts);
    at = end;
  }
  return bytes;
}

/// Sorts the pieces of one (parameter, role) by box and place. Fails if a box is not of the
/// parameter, or if an element is in two pieces.
void sortPieces(const std::string &folder, const ShaleParameter &parameter, int64_t whole,
                std::vector<const StoredPiece *> &pieces) {
  std::sort(pieces.begin(), pieces.end(), [](const StoredPiece *x, const StoredPiece *y) {
    return std::tie(x->box, x->begin) < std::tie(y->box, y->begin);
  });
  auto refuse = [&](const char *what) {
    fail(SHALE_EXIT_DATA, "'%s/manifest.json' is damaged: %s of '%s'", folder.c_str(), what,
         parameter.name);
  };
  std::vector<const Box *> boxes;
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Box &box = pieces[i]->box;
    int64_t elements = whole;
    for (size_t d = 0; d < box.dims.size(); ++d)
      elements = d == 0 ? box.dims[d] : elements * box.dims[d];
    if (elements != whole)
      refuse("a box has another number of elements than the whole");
    if (i > 0 && pieces[i - 1]->box == box) {
      if (pieces[i]->begin < pieces[i - 1]->end)
        refuse("two pieces have the same elements");
      continue;
    }
    for (const Box *other : boxes)
      if (!areDisjoint(*other, box))
        refuse("two boxes have the same elements");
    boxes.push_back(&box);
  }
}

/// Whether the checkpoint has what each rank of the same mesh had not sent: all axes divide the
/// value.
bool isOfSameMesh(const Manifest &manifest, const ShaleParameter &own) {
  std::vector<int64_t> shape(own.dims, own.dims + own.rank);
  return std::any_of(manifest.parameters.begin(), manifest.parameters.end(),
                     [&](const StoredParameter &stored) {
                       return stored.name == own.name && stored.shape == shape;
                     });
}

/// Sets what a rank has not sent of its gradients to zero, as at the start of a run.
void clear(const std::vector<Piece> &targets, State &state) {
  std::vector<char> zeros(blockElements * 8);
  for (const Piece &target : targets)
    for (int64_t at = 0; at < target.bytes(); at += static_cast<int64_t>(zeros.size()))
      state.write(target.offset + at, zeros.data(),
                  std::min<int64_t>(zeros.size(), target.bytes() - at));
}

/// Reads what this rank holds. Returns the number of bytes that were read for it.
int64_t readState(const ShaleProgram &program, int rank, State &state, const Manifest &manifest) {
  const std::string &folder = manifest.position.folder;
  std::map<std::string, int> names = parameterNames(program);
  std::map<std::pair<int, std::string>, std::vector<const StoredPiece *>> stored;
  for (const StoredPiece &piece : manifest.pieces) {
    auto found = names.find(piece.parameter);
    if (found != names.end())
      stored[{found->second, piece.role}].push_back(&piece);
  }
  Targets targets;
  for (const Piece &piece : localPieces(program, rank))
    targets[{piece.parameter, roleName(program, piece.role)}].push_back(piece);
  int64_t bytes = 0;
  bool cleared = false;
  for (const auto &[key, wanted] : targets) {
    std::vector<const StoredPiece *> &pieces = stored[key];
    const ShaleParameter &parameter = program.parameters[key.first];
    if (wanted.front().role == SHALE_ROLE_RESIDUAL && !isOfSameMesh(manifest, parameter)) {
      clear(wanted, state);
      cleared = true;
      continue;
    }
    sortPieces(folder, parameter, wanted.front().whole, pieces);
    PieceReader reader(folder, wanted, state);
    for (const StoredPiece *piece : pieces)
      if (std::any_of(wanted.begin(), wanted.end(), [&](const Piece &target) {
            return mayShare(*piece, target.box, target.begin, target.end);
          }))
        bytes += reader.read(*piece);
    if (const Piece *target = reader.incomplete())
      fail(SHALE_EXIT_DATA,
           "checkpoint '%s' lacks elements of '%s' (%s): it was saved with another optimizer, or "
           "is not whole",
           folder.c_str(), parameter.name, roleName(program, target->role));
  }
  if (cleared && rank == 0)
    warn(
        "checkpoint '%s' is not of a run with --wire-dtype reduce=int8 on this mesh: what ranks have "
        "not sent of their gradients begins with zero",
        folder.c_str());
  return bytes;
}

/// Checks the files of which this rank reads pieces.
void checkFiles(const Manifest &manifest) {
  std::set<std::string> names;
  for (const StoredPiece &piece : manifest.pieces)
    names.insert(piece.file);
  for (const std::string &name : names)
    checkStoredFile(manifest, manifest.files.at(name));
}

/// Tries to load one folder on every rank. Returns the error message on the ranks that
/// failed; `failed` is the same on all ranks.
std::string tryFolder(const ShaleProgram &program, int rank, State &state, Peers &peers,
                      const std::string &folder, Position &position, bool &failed,
                      bool &otherModel) {
  std::string trouble;
  bool other = false;
  RoleNames roles;
  const std::string scale = roleName(program, SHALE_ROLE_LOSS_SCALE),
                    residual = roleName(program, SHALE_ROLE_RESIDUAL);
  std::optional<Manifest> manifest;
  try {
    manifest = handOut(program, rank, peers, folder, [&](const StoredPiece &piece) {
      if (piece.role == scale || piece.role == residual)
        roles[piece.role].insert(piece.parameter);
    });
    if (rank == 0) {
      other = true;
      compareParameters(program, *manifest, roles);
      other = false;
    }
  } catch (const Error &error) {
    if (error.code == SHALE_EXIT_PEER)
      throw;
    trouble = error.what();
  }
  otherModel = peers.agree(other) != 0;
  if ((failed = peers.agree(!trouble.empty()) != 0))
    return trouble;
  attempt(trouble, [&] {
    checkFiles(*manifest);
    manifest->position.bytesRead = readState(program, rank, state, *manifest);
    position = manifest->position;
  });
  failed = peers.agree(!trouble.empty()) != 0;
  return trouble;
}

/// Joins the errors of ranks. One that is the same everywhere appears once; others name the first
/// rank that has it.
std::string joined(const std::vector<std::string> &ranks) {
  std::vector<std::string> known;
  std::string text;
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].empty() || std::find(known.begin(), known.end(), ranks[r]) != known.end())
      continue;
    known.push_back(ranks[r]);
    text +=
        (text.empty() ? "" : "; ") + (r == 0 ? "" : "rank " + std::to_string(r) + ": ") + ranks[r];
  }
  return text;
}
} // namespace

std::optional<Position> newestPosition(const std::string &out, const std::string &how) {
  bool named = how != "auto" && how != "must" && how != "never";
  std::vector<std::string> folders = listCheckpoints(named ? how : out);
  if (how == "never" || (folders.empty() && !named))
    return std::nullopt;
  try {
    return scanManifest(folders.empty() ? how : folders.back(), [](StoredPiece &&, int64_t) {})
        .position;
  } catch (const Error &) {
    return std::nullopt; // loadCheckpoint() reports the error
  }
}

bool loadCheckpoint(const ShaleProgram &program, int rank, State &state, Peers &peers,
                    const std::string &out, const std::string &how, Position &position) {
  if (how == "never")
    return false;
  std::vector<std::string> folders;
  bool named = how != "auto" && how != "must";
  if (named) {
    // A run's folder means its newest checkpoint.
    folders = listCheckpoints(how);
    folders = {folders.empty() ? how : folders.back()};
  } else {
    folders = listCheckpoints(out);
  }
  if (peers.agree(static_cast<int64_t>(folders.size())) == 0) {
    if (how == "must")
      fail(SHALE_EXIT_NO_INPUT, "--resume must, but '%s' has no checkpoint", out.c_str());
    return false;
  }
  for (size_t i = folders.size(); i-- > 0;) {
    bool failed = false, otherModel = false;
    std::string trouble =
        tryFolder(program, rank, state, peers, folders[i], position, failed, otherModel);
    if (!failed)
      return true;
    trouble = joined(peers.gather(trouble));
    if (otherModel || how != "auto" || i == 0) {
      // No rank ends before all texts have arrived. Ranks may end while others leave the barrier.
      try {
        peers.barrier();
      } catch (const Error &) {
      }
      throw Error(SHALE_EXIT_DATA, trouble); // empty on other ranks than 0
    }
    if (rank == 0)
      warn("%s; trying the checkpoint before it", trouble.c_str());
  }
  return false;
}

} // namespace shale::rt
