// Reads checkpoints by parameter name and element range, so that a program
// compiled for another world size or strategy reads the same files.
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/Layout.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace shale::rt {

namespace {
constexpr int64_t chunkElements = 1 << 18;

/// Returns the names of loss-scaling parameters of the program and of the checkpoint.
std::set<std::string> lossScales(const ShaleProgram &program, const Manifest &manifest) {
  std::set<std::string> names;
  std::string role = roleName(program, SHALE_ROLE_LOSS_SCALE);
  for (const StoredPiece &piece : manifest.pieces)
    if (piece.role == role)
      names.insert(piece.parameter);
  for (int i = 0; i < program.state_count; ++i) {
    const ShaleGroup &group = program.groups[program.states[i].group];
    if (program.states[i].role == SHALE_ROLE_LOSS_SCALE)
      for (int s = 0; s < group.segment_count; ++s)
        names.insert(program.parameters[group.segments[s].parameter].name);
  }
  return names;
}

/// Fails if the checkpoint is of another model, with the differences, or was saved with
/// other precision flags.
void compareParameters(const ShaleProgram &program, const Manifest &manifest) {
  std::map<std::string, int> names = parameterNames(program);
  std::set<int> seen;
  std::set<std::string> scales = lossScales(program, manifest);
  std::vector<std::string> unexpected, missing, shapes;
  bool scaleLacks = false, scaleIsNew = false;
  for (const StoredParameter &stored : manifest.parameters) {
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
    if (!seen.count(p)) {
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
        buffer(chunkElements * 8), converted(chunkElements * 8) {}

  /// Reads a whole stored piece, to check its checksum, and copies the elements of the targets.
  void read(const StoredPiece &stored);
  /// Returns a target of which the pieces that were read lack elements, or null.
  const Piece *incomplete() const {
    for (size_t i = 0; i < targets.size(); ++i)
      if (copied[i] < targets[i].end - targets[i].begin)
        return &targets[i];
    return nullptr;
  }

private:
  void copy(size_t target, const char *data, Dtype type, int64_t local, int64_t count);
  void copyRun(size_t target, const char *data, Dtype type, int64_t global, int64_t count);

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

/// Copies what a target has of `count` elements from `global` of the parameter.
void PieceReader::copyRun(size_t i, const char *data, Dtype type, int64_t global, int64_t count) {
  const Piece &target = targets[i];
  int64_t begin = std::max(target.begin, target.box.below(global));
  int64_t end = std::min(target.end, target.box.below(global + count));
  forRuns(target.box, begin, end, [&](int64_t local, int64_t from, int64_t n) {
    copy(i, data + (from - global) * sizeOf(type), type, local, n);
  });
}

void PieceReader::read(const StoredPiece &stored) {
  InputFile file(folder + "/" + stored.file);
  Checksum checksum;
  int64_t element = sizeOf(stored.type);
  for (int64_t at = stored.begin; at < stored.end; at += chunkElements) {
    int64_t n = std::min(chunkElements, stored.end - at);
    file.readAt(stored.offset + (at - stored.begin) * element, buffer.data(), n * element);
    checksum.add(buffer.data(), n * element);
    for (size_t i = 0; i < targets.size(); ++i) {
      int64_t begin = std::max(at, targets[i].begin), end = std::min(at + n, targets[i].end);
      if (!(stored.box == targets[i].box))
        forRuns(stored.box, at, at + n, [&](int64_t local, int64_t global, int64_t count) {
          copyRun(i, buffer.data() + (local - at) * element, stored.type, global, count);
        });
      else if (begin < end)
        copy(i, buffer.data() + (begin - at) * element, stored.type, begin, end - begin);
    }
  }
  if (checksum.value() != stored.checksum)
    fail(SHALE_EXIT_DATA, "'%s' is damaged: the checksum of '%s' (%s) does not match",
         file.path().c_str(), printable(stored.parameter).c_str(), printable(stored.role).c_str());
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

/// Whether a stored piece may have elements of a target.
bool overlap(const StoredPiece &stored, const Piece &target) {
  if (stored.box == target.box)
    return stored.begin < target.end && target.begin < stored.end;
  return stored.box.dims != target.box.dims || !areDisjoint(stored.box, target.box);
}

void readState(const ShaleProgram &program, int rank, State &state, const Manifest &manifest) {
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
  for (const auto &[key, wanted] : targets) {
    std::vector<const StoredPiece *> &pieces = stored[key];
    const ShaleParameter &parameter = program.parameters[key.first];
    sortPieces(folder, parameter, wanted.front().whole, pieces);
    PieceReader reader(folder, wanted, state);
    for (const StoredPiece *piece : pieces)
      if (std::any_of(wanted.begin(), wanted.end(),
                      [&](const Piece &target) { return overlap(*piece, target); }))
        reader.read(*piece);
    if (const Piece *target = reader.incomplete())
      fail(SHALE_EXIT_DATA,
           "checkpoint '%s' lacks elements of '%s' (%s): it was saved with another optimizer, or "
           "is not whole",
           folder.c_str(), parameter.name, roleName(program, target->role));
  }
}

/// Tries to load one folder on every rank. Returns the error message on the ranks that
/// failed; `failed` is the same on all ranks.
std::string tryFolder(const ShaleProgram &program, int rank, State &state, Peers &peers,
                      const std::string &folder, Position &position, bool &failed,
                      bool &otherModel) {
  std::string trouble;
  bool other = false;
  try {
    Manifest manifest = readManifest(folder);
    other = true;
    compareParameters(program, manifest);
    other = false;
    readState(program, rank, state, manifest);
    position = manifest.position;
  } catch (const Error &error) {
    trouble = error.what();
  }
  failed = peers.agree(!trouble.empty()) != 0;
  otherModel = peers.agree(other) != 0;
  return trouble;
}
} // namespace

std::optional<Position> newestPosition(const std::string &out, const std::string &how) {
  bool named = how != "auto" && how != "must" && how != "never";
  std::vector<std::string> folders = listCheckpoints(named ? how : out);
  if (how == "never" || (folders.empty() && !named))
    return std::nullopt;
  try {
    return readManifest(folders.empty() ? how : folders.back()).position;
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
    if (trouble.empty())
      trouble = "another rank could not read checkpoint '" + folders[i] + "'";
    if (otherModel || how != "auto" || i == 0)
      fail(SHALE_EXIT_DATA, "%s", trouble.c_str());
    warn("%s; trying the checkpoint before it", trouble.c_str());
  }
  return false;
}

} // namespace shale::rt
