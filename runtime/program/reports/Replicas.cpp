// Checksums of replicas.
#include "runtime/program/reports/Replicas.h"
#include "runtime/checkpoint/Manifest.h"
#include "runtime/core/Error.h"
#include "runtime/core/Rank.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

namespace shale::rt {

namespace {
constexpr int64_t chunkBytes = 1 << 19; // of the state, read at once

using Key = std::tuple<int, int32_t, int, Box, int64_t, int64_t>;

Key keyOf(const Piece &piece) {
  return {piece.parameter, piece.role,  static_cast<int>(piece.type),
          piece.box,       piece.begin, piece.end};
}

std::string listRanks(const std::vector<int> &ranks) {
  constexpr size_t most = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < std::min(most, ranks.size()); ++i)
    text += (i ? ", " : "") + std::to_string(ranks[i]);
  return ranks.size() > most ? text + format(" and %zu more", ranks.size() - most) : text;
}

/// Describes ranks with different checksums: the largest set of ranks that agree comes last.
/// Returns "" if all agree.
std::string disagreement(const std::vector<std::pair<int, uint64_t>> &sums) {
  std::map<uint64_t, std::vector<int>> sets;
  for (const auto &[rank, sum] : sums)
    sets[sum].push_back(rank);
  if (sets.size() < 2)
    return "";
  std::vector<std::vector<int>> ordered;
  for (auto &[sum, ranks] : sets)
    ordered.push_back(ranks);
  std::sort(ordered.begin(), ordered.end(), [](const auto &x, const auto &y) {
    return std::make_tuple(x.size(), x) < std::make_tuple(y.size(), y);
  });
  std::string text;
  for (size_t i = 0; i + 1 < ordered.size(); ++i)
    text += (i ? ", " : "") + listRanks(ordered[i]);
  bool single = ordered.size() == 2 && ordered[0].size() == 1;
  return text + (single ? " differs from " : " differ from ") + listRanks(ordered.back());
}
} // namespace

Replicas::Replicas(const ShaleProgram &program, int rank) : program(program) {
  int ranks = static_cast<int>(meshSize(program));
  std::map<Key, Shared> all;
  for (int r = 0; r < ranks; ++r)
    for (const Piece &piece : localPieces(program, r)) {
      Shared &place = all[keyOf(piece)];
      if (!place.copies.empty() && place.copies.back().rank == r)
        continue; // the rank holds it twice
      if (place.copies.empty() || r == rank)
        place.piece = piece;
      place.copies.push_back({r, 0});
    }
  std::vector<size_t> places(ranks, static_cast<size_t>(program.metric_count));
  for (auto &[key, place] : all) {
    if (place.copies.size() < 2)
      continue;
    for (Copy &copy : place.copies)
      copy.place = places[copy.rank]++;
    if (place.piece.rank == rank)
      own.push_back(place.piece);
    shared.push_back(std::move(place));
  }
}

std::string Replicas::checksums(const State &state, const float *metrics) const {
  std::vector<uint64_t> sums;
  auto add = [&](auto fill) {
    Checksum sum;
    fill(sum);
    sums.push_back(sum.value());
  };
  for (int32_t m = 0; m < program.metric_count; ++m)
    add([&](Checksum &sum) { sum.add(metrics + m, sizeof(float)); });
  std::vector<char> buffer(own.empty() ? 0 : chunkBytes);
  for (const Piece &piece : own)
    add([&](Checksum &sum) {
      for (int64_t at = 0; at < piece.bytes(); at += chunkBytes) {
        int64_t n = std::min(chunkBytes, piece.bytes() - at);
        state.read(piece.offset + at, buffer.data(), n);
        sum.add(buffer.data(), n);
      }
    });
  return std::string(reinterpret_cast<const char *>(sums.data()), sums.size() * sizeof(uint64_t));
}

std::string Replicas::compare(const std::vector<std::string> &ofRanks) const {
  auto sumOf = [&](int r, size_t place) {
    uint64_t sum = 0;
    if ((place + 1) * sizeof(sum) > ofRanks.at(r).size())
      fail(SHALE_EXIT_INTERNAL, "rank %d sent too few checksums", r);
    std::memcpy(&sum, ofRanks[r].data() + place * sizeof(sum), sizeof(sum));
    return sum;
  };
  std::string first;
  size_t more = 0;
  auto note = [&](const std::string &what, const std::vector<std::pair<int, uint64_t>> &sums) {
    std::string text = disagreement(sums);
    if (text.empty())
      return;
    if (first.empty())
      first = what + ": " + text;
    else
      ++more;
  };
  for (const Shared &place : shared) {
    std::vector<std::pair<int, uint64_t>> sums;
    for (const Copy &copy : place.copies)
      sums.emplace_back(copy.rank, sumOf(copy.rank, copy.place));
    note(format("'%s' (%s)", program.parameters[place.piece.parameter].name,
                roleName(program, place.piece.role)),
         sums);
  }
  for (int32_t m = 0; m < program.metric_count; ++m) {
    std::vector<std::pair<int, uint64_t>> sums;
    for (int r = 0; r < static_cast<int>(ofRanks.size()); ++r)
      sums.emplace_back(r, sumOf(r, m));
    note(format("the metric '%s'", program.metrics[m]), sums);
  }
  return more ? first + format("; %zu more differ", more) : first;
}

} // namespace shale::rt
