// Sends pieces in batches, whose size bounds the memory of sender and receiver.
#include "runtime/checkpoint/HandOut.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace shale::rt {

namespace {
/// A batch ends with the piece that makes its checksums this long, or with this many pieces.
constexpr size_t sumsOfBatch = 1 << 15, piecesOfBatch = 256;

/// Ends of a stream of batches, in place of the length of one.
constexpr int64_t ended = 0, damaged = -1;

void sendText(Peers &peers, int to, const std::string &text) {
  int64_t length = static_cast<int64_t>(text.size());
  peers.send(to, &length, sizeof(length));
  peers.send(to, text.data(), length);
}

/// Returns the length; an end of a stream has no text.
int64_t receiveText(Peers &peers, int from, std::string &text) {
  constexpr int64_t most = int64_t(1) << 30;
  int64_t length = 0;
  peers.receive(from, &length, sizeof(length));
  if (length < damaged || length > most)
    fail(SHALE_EXIT_PEER, "rank %d sent a text of %lld bytes", from, (long long)length);
  text.resize(std::max<int64_t>(length, 0));
  if (length > 0)
    peers.receive(from, text.data(), length);
  return length;
}

/// A stream of pieces to one rank.
class Stream {
public:
  Stream(Peers &peers, int to) : peers(peers), to(to) {}
  void add(const StoredPiece &piece, int64_t chunkBytes) {
    batch.chunkBytes = chunkBytes;
    sums += piece.sums.size();
    batch.pieces.push_back(piece);
    if (sums >= sumsOfBatch || batch.pieces.size() >= piecesOfBatch)
      flush();
  }
  void end(int64_t how) {
    if (how == ended)
      flush();
    peers.send(to, &how, sizeof(how));
  }

private:
  void flush() {
    if (!batch.pieces.empty())
      sendText(peers, to, packShare(batch));
    batch.pieces.clear();
    sums = 0;
  }
  Peers &peers;
  int to;
  Share batch;
  size_t sums = 0;
};

/// Receives such a stream. Returns its end.
template <typename Visit> int64_t receivePieces(Peers &peers, int from, const Visit &visit) {
  std::string text;
  for (;;) {
    int64_t length = receiveText(peers, from, text);
    if (length <= 0)
      return length;
    for (StoredPiece &piece : unpackShare(text).pieces)
      visit(std::move(piece));
  }
}

/// The ranks that read a stored piece, with the parts that they read.
class Readers {
public:
  Readers(const ShaleProgram &program, int ranks) : names(parameterNames(program)) {
    std::map<Box, int32_t> known;
    for (int rank = 0; rank < ranks; ++rank)
      for (const Piece &piece : localPieces(program, rank)) {
        auto [box, isNew] = known.emplace(piece.box, static_cast<int32_t>(boxes.size()));
        if (isNew)
          boxes.push_back(piece.box);
        parts[{piece.parameter, roleName(program, piece.role)}].push_back(
            {rank, box->second, piece.begin, piece.end});
      }
  }

  /// Calls `visit(rank)` once for each rank that reads a piece, in order.
  template <typename Visit> void forRanks(const StoredPiece &piece, const Visit &visit) const {
    auto name = names.find(piece.parameter);
    auto found = name == names.end() ? parts.end() : parts.find({name->second, piece.role});
    if (found == parts.end())
      return;
    int last = -1;
    for (const Part &part : found->second)
      if (part.rank != last && mayShare(piece, boxes[part.box], part.begin, part.end))
        visit(last = part.rank);
  }

private:
  struct Part {
    int32_t rank, box;
    int64_t begin, end;
  };
  std::map<std::string, int> names;
  std::vector<Box> boxes;
  std::map<std::pair<int, std::string>, std::vector<Part>> parts; // of ascending ranks
};
} // namespace

bool mayShare(const StoredPiece &stored, const Box &box, int64_t begin, int64_t end) {
  if (stored.box == box)
    return stored.begin < end && begin < stored.end;
  return stored.box.dims != box.dims || !areDisjoint(stored.box, box);
}

std::optional<Manifest> handOut(const ShaleProgram &program, int rank, Peers &peers,
                                const std::string &folder,
                                const std::function<void(const StoredPiece &)> &inspect) {
  std::vector<StoredPiece> own;
  std::string head;
  std::optional<Manifest> manifest;
  if (rank != 0) {
    auto keep = [&](StoredPiece &&piece) { own.push_back(std::move(piece)); };
    if (receivePieces(peers, 0, keep) == ended && receiveText(peers, 0, head) > 0)
      manifest = parseHead(folder, head);
  } else {
    Readers readers(program, program.world_size);
    std::vector<Stream> streams;
    for (int to = 1; to < program.world_size; ++to)
      streams.emplace_back(peers, to);
    try {
      manifest = scanManifest(
          folder,
          [&](StoredPiece &&piece, int64_t chunkBytes) {
            inspect(piece);
            readers.forRanks(piece, [&](int to) {
              if (to == 0)
                own.push_back(piece);
              else
                streams[to - 1].add(piece, chunkBytes);
            });
          },
          &head);
    } catch (const Error &error) {
      if (error.code != SHALE_EXIT_PEER)
        for (Stream &stream : streams)
          stream.end(damaged);
      throw;
    }
    for (int to = 1; to < program.world_size; ++to) {
      streams[to - 1].end(ended);
      sendText(peers, to, head);
    }
  }
  if (manifest)
    manifest->pieces = std::move(own);
  return manifest;
}

void collect(int rank, int ranks, Peers &peers, const Share &own,
             const std::function<void(const StoredPiece &)> &visit) {
  if (rank != 0) {
    Stream stream(peers, 0);
    for (const StoredPiece &piece : own.pieces)
      stream.add(piece, own.chunkBytes);
    return stream.end(ended);
  }
  std::for_each(own.pieces.begin(), own.pieces.end(), visit);
  for (int from = 1; from < ranks; ++from)
    receivePieces(peers, from, visit);
}

} // namespace shale::rt
