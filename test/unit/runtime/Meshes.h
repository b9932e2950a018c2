// Ranks that are threads, and the tables of a program on any mesh, whose checkpoints tests write
// and read.
#ifndef SHALE_TEST_MESHES_H
#define SHALE_TEST_MESHES_H

#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/checkpoint/StateLayout.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/device/host/HostDevice.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <condition_variable>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <mutex>
#include <thread>
#include <unistd.h>

namespace shale::rt {

/// The parameter's element at each place of the box, or -1 for padding, found by looking at every
/// element of the parameter with its rows made longer.
inline std::vector<int64_t> elementsOf(const Box &box) {
  std::vector<int64_t> dims = box.dims;
  dims.back() = std::max(dims.back(), box.start.back() + box.size.back());
  int64_t whole = 1, number = 0;
  for (int64_t n : dims)
    whole *= n;
  std::vector<int64_t> found;
  for (int64_t e = 0; e < whole; ++e) {
    int64_t rest = e;
    bool inside = true, exists = e % dims.back() < box.dims.back();
    for (size_t d = dims.size(); d-- > 0; rest /= dims[d]) {
      int64_t index = rest % dims[d];
      inside &= index >= box.start[d] && index < box.start[d] + box.size[d];
    }
    if (inside)
      found.push_back(exists ? number : -1);
    number += exists;
  }
  return found;
}

/// Ranks that are threads of this process.
class Threads {
public:
  explicit Threads(int ranks) : said(ranks), ranks(ranks) {}
  /// Runs `body(rank, peers)` on every rank and returns the worst code of their errors, or 0. The
  /// messages of the errors are in `said`, by rank.
  int run(const std::function<void(int, Peers &)> &body) {
    std::vector<std::thread> threads;
    std::vector<int> codes(ranks, 0);
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        Mine peers(*this, r);
        try {
          body(r, peers);
        } catch (const Error &error) {
          codes[r] = error.code;
          said[r] = error.what();
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    return *std::max_element(codes.begin(), codes.end());
  }
  std::vector<std::string> said;

private:
  struct Mine final : Peers {
    Mine(Threads &all, int rank) : all(all), rank(rank) {}
    int64_t agree(int64_t value) override {
      if (rank != 0) {
        send(0, &value, sizeof value);
        receive(0, &value, sizeof value);
        return value;
      }
      for (int r = 1; r < all.ranks; ++r) {
        int64_t other;
        receive(r, &other, sizeof other);
        value = std::max(value, other);
      }
      for (int r = 1; r < all.ranks; ++r)
        send(r, &value, sizeof value);
      return value;
    }
    std::vector<std::string> gather(const std::string &text) override {
      int64_t size = text.size();
      if (rank != 0) {
        send(0, &size, sizeof size);
        send(0, text.data(), size);
        return {};
      }
      std::vector<std::string> texts{text};
      for (int r = 1; r < all.ranks; ++r) {
        receive(r, &size, sizeof size);
        texts.emplace_back(size, ' ');
        receive(r, texts.back().data(), size);
      }
      return texts;
    }
    void send(int to, const void *data, int64_t bytes) override {
      std::lock_guard lock(all.mutex);
      all.boxes[{rank, to}].emplace_back(static_cast<const char *>(data), bytes);
      all.changed.notify_all();
    }
    void receive(int from, void *data, int64_t bytes) override {
      std::unique_lock lock(all.mutex);
      std::vector<std::string> &box = all.boxes[{from, rank}];
      all.changed.wait(lock, [&] { return !box.empty(); });
      ASSERT_EQ(int64_t(box.front().size()), bytes);
      std::memcpy(data, box.front().data(), bytes);
      box.erase(box.begin());
    }
    std::string nameOf(int rank) const override { return "rank " + std::to_string(rank); }
    std::vector<int> findSilent(const std::vector<int> &, double) override { return {}; }
    Threads &all;
    int rank;
  };

  int ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::pair<int, int>, std::vector<std::string>> boxes;
};

struct Mesh {
  int64_t replica, fsdp, tp;
  bool full;
};

/// Five parameters on a mesh: `in` [4, 8, 6], in two parts which tensor axes split along dimension
/// 1; `out` [8, 6], split along dimension 0; `norm` [6], whole; `rows` [7, 6], padded to 8 rows and
/// split along dimension 0; `columns` [6, 7], padded to 8 columns and split along dimension 1. Each
/// with a moment. `scale` multiplies all sizes but the 8 of `in` and that of `norm`.
struct Tables {
  explicit Tables(const Mesh &mesh, int64_t scale = 1)
      : in{4 * scale, 8, 6 * scale}, out{8 * scale, 6 * scale}, rows{7 * scale, 6 * scale},
        columns{6 * scale, 7 * scale} {
    const auto [replica, fsdp, tp, full] = mesh;
    axes[0] = {"replica", replica, 1};
    axes[1] = {"fsdp", fsdp, 1};
    axes[2] = {"tp", tp, 0};
    const char *names[] = {"in", "out", "norm", "rows", "columns"};
    const std::vector<int64_t> *shapes[] = {&in, &out, &norm, &rows, &columns};
    for (int p = 0; p < 5; ++p) {
      parameters[p].name = names[p];
      parameters[p].rank = shapes[p]->size();
      parameters[p].dims = shapes[p]->data();
      parameters[p].count = 1;
      for (int64_t n : *shapes[p])
        parameters[p].count *= n;
      parameters[p].trained = 1;
    }
    bool splits = tp > 1;
    // With tensor axes, `in` is divided into two parts of 4 indices each along dimension 1.
    inSize[1] = splits ? 4 / tp : 8;
    inSize[0] = in[0], inSize[2] = in[2];
    outSize[0] = out[0] / tp, outSize[1] = out[1];
    rowsSize[0] = splits ? 8 * scale / tp : rows[0], rowsSize[1] = rows[1];
    columnsSize[0] = columns[0], columnsSize[1] = splits ? 8 * scale / tp : columns[1];
    int64_t rowsCount = rowsSize[0] * rowsSize[1], columnsCount = columnsSize[0] * columnsSize[1];
    int64_t wholeIn = in[0] * in[1] * in[2], wholeOut = out[0] * out[1];
    int64_t part = wholeIn / 8 * inSize[1];
    segments[0] = {0, 0, part, splits ? 3 : 0, in.data(), zeros, inSize, inAxes};
    segments[1] = {1,          wholeIn / tp, wholeOut / tp, splits ? 2 : 0,
                   out.data(), zeros,        outSize,       outAxes};
    int64_t end = (wholeIn + wholeOut) / tp;
    segments[2] = {3, end, rowsCount, splits ? 2 : 0, rows.data(), zeros, rowsSize, outAxes};
    end += rowsCount;
    segments[3] = {4,     end,         columnsCount, splits ? 2 : 0, columns.data(),
                   zeros, columnsSize, lastAxes};
    segments[4] = {0, wholeIn / tp - part, part, 3, in.data(), second, inSize, inAxes};
    segments[5] = {2, 0, 6, 0, nullptr, nullptr, nullptr, nullptr};
    // Shards are of one size: a gap at the end makes the elements divide by 4.
    groups[0] = {"matrices", (end + columnsCount + 3) / 4 * 4, segments, splits ? 5 : 4};
    groups[1] = {"vectors", 12, segments + 5, 1};
    int axis = full && fsdp > 1 ? 1 : -1;
    int64_t at = 0;
    for (int s = 0; s < 4; ++s) {
      int64_t local = groups[s / 2].count / (axis < 0 ? 1 : fsdp);
      states[s] = {s / 2, s % 2 ? SHALE_ROLE_SLOT : SHALE_ROLE_PARAM, SHALE_F32, axis, at, local};
      at += 64 * ((local * 4 + 63) / 64);
    }
    program.abi_version = SHALE_ABI_VERSION;
    program.world_size = replica * fsdp * tp;
    program.accumulate = 1;
    program.step = [](ShaleRank *, char *, char *, const void *const *, const float *, float *) {};
    program.model = "m.onnx", program.strategy = full ? "full" : "none";
    program.optimizer = "momentum";
    program.slots = slots, program.slot_count = 1;
    program.axes = axes, program.axis_count = 3;
    program.parameters = parameters, program.parameter_count = 5;
    program.groups = groups, program.group_count = 2;
    program.states = states, program.state_count = 4;
    program.state_bytes = at;
    checkProgram(program);
  }

  std::vector<int64_t> in, out, norm{6}, rows, columns;
  int64_t zeros[3] = {0, 0, 0}, second[3] = {0, 4, 0}, inSize[3] = {}, outSize[2] = {};
  int64_t rowsSize[2] = {}, columnsSize[2] = {};
  int32_t inAxes[3] = {-1, 2, -1}, outAxes[2] = {2, -1}, lastAxes[2] = {-1, 2};
  ShaleAxis axes[3];
  ShaleParameter parameters[5] = {};
  ShaleSegment segments[6];
  ShaleGroup groups[2];
  ShaleState states[4];
  const char *slots[1] = {"momentum"};
  ShaleProgram program{};
};

inline float valueOf(int parameter, int32_t role, int64_t element) {
  return element < 0 ? 0 : float(parameter << 20) + float(role << 22) + element;
}

/// Calls `use(address, wanted value)` for every element that a rank holds, and for the padding of
/// rows, which is 0.
inline void forElements(const ShaleProgram &program, int rank,
                        const std::function<void(int64_t, float)> &use) {
  for (const Piece &piece : localPieces(program, rank)) {
    // Independent of Box: every element is looked at.
    std::vector<int64_t> places;
    if (piece.box.isWhole())
      for (int64_t e = 0; e < piece.whole; ++e)
        places.push_back(e);
    else
      places = elementsOf(piece.box);
    for (int64_t e = piece.begin; e < piece.end; ++e)
      use(piece.offset + (e - piece.begin) * 4, valueOf(piece.parameter, piece.role, places[e]));
  }
}

class Checkpoints : public TemporaryFolder {
protected:
  int save(const Tables &tables, const std::string &out, const std::string &form,
           int64_t chunkBytes = savedChunkBytes) {
    return Threads(tables.program.world_size).run([&](int rank, Peers &peers) {
      HostDevice device(tables.program);
      State state(tables.program, device);
      forElements(tables.program, rank,
                  [&](int64_t at, float value) { state.write(at, &value, 4); });
      Position position;
      position.step = 3;
      saveCheckpoint(tables.program, rank, state, peers, out, form, 1 << 30, 0, position,
                     chunkBytes);
    });
  }
  /// Loads the checkpoint and compares each element. Sets `said` to the messages of errors, by
  /// rank, and `most` to the largest number of bytes that a rank reads for each that it stores.
  int load(const Tables &tables, const std::string &out) {
    std::vector<double> share(tables.program.world_size, 0);
    Threads ranks(tables.program.world_size);
    int code = ranks.run([&](int rank, Peers &peers) {
      HostDevice device(tables.program);
      State state(tables.program, device);
      Position position;
      ASSERT_TRUE(loadCheckpoint(tables.program, rank, state, peers, out, "must", position));
      int64_t stored = 0;
      forElements(tables.program, rank, [&](int64_t at, float value) {
        float got;
        state.read(at, &got, 4);
        ASSERT_EQ(got, value) << "rank " << rank << ", byte " << at;
        stored += 4;
      });
      share[rank] = double(position.bytesRead) / stored;
    });
    said = ranks.said;
    most = *std::max_element(share.begin(), share.end());
    return code;
  }
  std::vector<std::string> said;
  double most = 0;
};

} // namespace shale::rt

#endif
