// The runtime's collectives over the emulated NCCL: sums of 16-bit floats in many pieces, which are
// received into two halves of a buffer in turn.
#include "Floats.h"
#include "StubTest.h"
#include "runtime/comm/nccl/NcclCollectives.h"

#include <fstream>
#include <map>

using namespace shale::rt;
using namespace shale::stub::test;
using shale::stub::BFloat;
using shale::stub::Half;
using shale::stub::narrow;

namespace {

constexpr int kRanks = 3;                     // at most
constexpr int64_t kSlice = 1000, kAll = 1501; // of a reduce-scatter; of an all-reduce
enum Site { Scatter, Reduce, Plain };

/// Exchanges between processes that were forked after the pipes were made.
class PipePeers final : public Peers {
public:
  PipePeers() {
    for (auto &from : pipes)
      for (auto &ends : from)
        EXPECT_EQ(pipe(ends), 0);
  }
  void send(int to, const void *data, int64_t bytes) override {
    EXPECT_EQ(write(pipes[own][to][1], data, bytes), bytes);
  }
  void receive(int from, void *data, int64_t bytes) override {
    EXPECT_EQ(::read(pipes[from][own][0], data, bytes), bytes);
  }
  int64_t agree(int64_t value) override { return value; }
  std::vector<std::string> gather(const std::string &text) override { return {text}; }
  std::string nameOf(int rank) const override { return std::to_string(rank); }
  std::vector<int> findSilent(const std::vector<int> &, double) override { return {}; }

  int own = 0;

private:
  int pipes[kRanks][kRanks][2];
};

struct Program {
  ShaleAxis axis{"fsdp", kRanks, 1};
  ShaleSite sites[3] = {{"scattered", SHALE_REDUCE_SCATTER, 0, 0, 1, Scatter, 1, SHALE_BF16},
                        {"reduced", SHALE_ALL_REDUCE, 0, 0, 1, Reduce, 1, SHALE_F16},
                        {"plain", SHALE_ALL_REDUCE, 0, 0, 1, Plain, 1, SHALE_F32}};
  ShaleProgram program{};

  explicit Program(int ranks) {
    axis.size = ranks;
    program.target = "emulated";
    program.axes = &axis, program.axis_count = 1;
    program.sites = sites, program.site_count = 3;
    program.world_size = ranks;
    program.comm_scratch_bytes = 768; // a half has 64 elements of each of three ranks
  }
};

float value(int rank, int64_t i, int run) { return float((rank + 2) * (i % 61 + 1) + run) / 16; }

template <typename Type> std::vector<Type> operand(int rank, int64_t count, int run) {
  std::vector<Type> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = narrow<Type>(value(rank, i, run));
  return values;
}

/// Returns the sum over the ranks in their order, rounded once.
template <typename Type> std::vector<Type> sum(int ranks, int64_t count, int run) {
  std::vector<Type> sums(count);
  std::vector<std::vector<Type>> all;
  for (int rank = 0; rank < ranks; ++rank)
    all.push_back(operand<Type>(rank, count, run));
  for (int64_t i = 0; i < count; ++i) {
    float total = 0;
    for (const std::vector<Type> &each : all)
      total += float(each[i]);
    sums[i] = narrow<Type>(total);
  }
  return sums;
}

/// Stands for the compiled function, which a device knows by its address.
void function(ShaleRank *, char *, char *, const void *const *, const float *, float *) {}

/// Buffers of a rank on the device.
struct Buffers {
  cuda::CudaDevice &device;
  std::unique_ptr<Memory> values, from, to, results;
  Buffers(cuda::CudaDevice &device, int64_t send, int64_t receive)
      : device(device), values(device.allocate(SHALE_SPACE_DEVICE, send, "values")),
        from(device.allocate(SHALE_SPACE_DEVICE, send, "operands")),
        to(device.allocate(SHALE_SPACE_DEVICE, receive, "received")),
        results(device.allocate(SHALE_SPACE_DEVICE, receive, "results")) {}
  template <typename Type> void set(const std::vector<Type> &all) {
    device.write(values->data(), all.data(), all.size() * sizeof(Type));
  }
  /// Parts of the function that runs: the collective must wait for the first one, and the second
  /// one for the collective.
  void makeOperands() { device.copy(from->data(), values->data(), from->size()); }
  void keepResults() { device.copy(results->data(), to->data(), to->size()); }
  template <typename Type> std::vector<float> get(int64_t count) {
    std::vector<Type> got(count);
    device.read(got.data(), results->data(), count * sizeof(Type));
    return {got.begin(), got.end()};
  }
};

template <typename Type>
std::vector<float> widen(const std::vector<Type> &values, int64_t begin, int64_t count) {
  return {values.begin() + begin, values.begin() + begin + count};
}

/// Runs the three collectives five times: by itself, then in a graph.
void runRank(const ShaleProgram &program, PipePeers &peers, int rank, bool graphs) {
  peers.own = rank;
  int ranks = program.world_size;
  cuda::CudaDevice device(program, rank, graphs);
  NcclCollectives collectives(program, rank, peers, device, /*timeout=*/5);
  Buffers scattered(device, kSlice * ranks * 2, kSlice * 2), reduced(device, kAll * 2, kAll * 2),
      plain(device, 12, 12);
  for (int run = 0; run < 5; ++run) {
    scattered.set(operand<BFloat>(rank, kSlice * ranks, run));
    reduced.set(operand<Half>(rank, kAll, run));
    plain.set(operand<float>(rank, 3, run));
    device.call(function, /*observed=*/false, [&] {
      auto start = [&](Site site, ShaleCollectiveKind kind, Buffers &at, int64_t count,
                       ShaleType type) {
        at.makeOperands();
        collectives.start(site, kind, at.from->data(), at.to->data(), count, type);
      };
      start(Scatter, SHALE_REDUCE_SCATTER, scattered, kSlice, SHALE_BF16);
      collectives.wait(Scatter);
      scattered.keepResults();
      start(Reduce, SHALE_ALL_REDUCE, reduced, kAll, SHALE_F16);
      start(Plain, SHALE_ALL_REDUCE, plain, 3, SHALE_F32);
      collectives.wait(Reduce);
      reduced.keepResults();
      collectives.wait(Plain);
      plain.keepResults();
    });
    ASSERT_EQ(scattered.get<BFloat>(kSlice),
              widen(sum<BFloat>(ranks, kSlice * ranks, run), rank * kSlice, kSlice))
        << "run " << run;
    ASSERT_EQ(reduced.get<Half>(kAll), widen(sum<Half>(ranks, kAll, run), 0, kAll))
        << "run " << run;
    ASSERT_EQ(plain.get<float>(3), widen(sum<float>(ranks, 3, run), 0, 3)) << "run " << run;
  }
  EXPECT_EQ(collectives.bytesSent(Scatter), 5 * (ranks - 1) * kSlice * 2);
}

/// Whether all ranks pass.
bool pass(int ranks, const Environment &environment, bool graphs) {
  Program program(ranks);
  PipePeers peers;
  return runProcesses(ranks, environment, [&](int rank) {
           runRank(program.program, peers, rank, graphs);
         }) == std::vector<int>(ranks, 0);
}

TEST(Sums, InPiecesInAnyOrderOfTheStreams) {
  for (const char *order : {"first", "last", "random:1", "random:2", "random:3"})
    for (bool graphs : {false, true})
      for (int ranks : {1, kRanks})
        EXPECT_TRUE(pass(ranks, {{"SHALE_STUB_ORDER", order}}, graphs))
            << order << ", graphs " << graphs << ", ranks " << ranks;
}

// ---- all-to-all

constexpr int64_t kPieces[] = {77, 5}; // elements of a piece, by site

int32_t numberOf(int from, int to, int64_t i, int run) {
  return ((run * 8 + from) * 8 + to) * 1000 + int32_t(i);
}

/// Exchanges two buffers of integers in one bucket, five times.
void runExchange(const ShaleProgram &program, PipePeers &peers, int rank, bool graphs) {
  peers.own = rank;
  int ranks = program.world_size;
  cuda::CudaDevice device(program, rank, graphs);
  NcclCollectives collectives(program, rank, peers, device, /*timeout=*/5);
  std::vector<Buffers> buffers;
  for (int64_t count : kPieces)
    buffers.emplace_back(device, count * ranks * 4, count * ranks * 4);
  for (int run = 0; run < 5; ++run) {
    for (int site = 0; site < 2; ++site) {
      std::vector<int32_t> sent;
      for (int to = 0; to < ranks; ++to)
        for (int64_t i = 0; i < kPieces[site]; ++i)
          sent.push_back(numberOf(rank, to, i, run));
      buffers[site].set(sent);
    }
    device.call(function, /*observed=*/false, [&] {
      for (Buffers &at : buffers)
        at.makeOperands();
      for (int site = 0; site < 2; ++site)
        collectives.start(site, SHALE_ALL_TO_ALL, buffers[site].from->data(),
                          buffers[site].to->data(), kPieces[site], SHALE_I32);
      for (int site = 0; site < 2; ++site)
        collectives.wait(site);
      for (Buffers &at : buffers)
        at.keepResults();
    });
    for (int site = 0; site < 2; ++site) {
      std::vector<float> want;
      for (int from = 0; from < ranks; ++from)
        for (int64_t i = 0; i < kPieces[site]; ++i)
          want.push_back(float(numberOf(from, rank, i, run)));
      ASSERT_EQ(buffers[site].get<int32_t>(kPieces[site] * ranks), want) << "run " << run;
    }
  }
  for (int site = 0; site < 2; ++site)
    EXPECT_EQ(collectives.bytesSent(site), 5 * (ranks - 1) * kPieces[site] * 4);
}

TEST(Exchanges, BringThePiecesOfAllRanks) {
  for (const char *order : {"first", "last", "random:1"})
    for (bool graphs : {false, true})
      for (int ranks : {1, kRanks}) {
        Program program(ranks);
        for (int site = 0; site < 2; ++site)
          program.sites[site] = {site ? "second" : "first",
                                 SHALE_ALL_TO_ALL,
                                 0,
                                 (ranks - 1) * kPieces[site] * 4,
                                 1,
                                 0,
                                 2,
                                 SHALE_I32};
        program.program.site_count = 2;
        PipePeers peers;
        EXPECT_EQ(
            runProcesses(ranks, {{"SHALE_STUB_ORDER", order}},
                         [&](int rank) { runExchange(program.program, peers, rank, graphs); }),
            std::vector<int>(ranks, 0))
            << order << ", graphs " << graphs << ", ranks " << ranks;
      }
}

// Streams 1 to 3 are the device's, 4 is that of reductions, 5 that of sums. A sum waits for its
// exchange, an exchange for the sum of the half that it overwrites, and the device for both. One
// rank does not wait for others, so that streams run in the order that is asked for.
TEST(Sums, NeedEachWait) {
  for (const char *pair : {"4<1", "5<4", "4<5", "1<5", "1<4"}) {
    bool passes = true;
    for (const char *order : {"last", "first", "random:1", "random:2", "random:3"})
      passes = passes && pass(1, {{"SHALE_STUB_ORDER", order}, {"SHALE_STUB_DROP", pair}}, false);
    EXPECT_FALSE(passes) << "nothing changes without the waits " << pair;
  }
}

// Pieces are of equal size, as few as fit: 1000 elements in 16 of 64, and in the all-reduce 500 in
// 8, and one element.
TEST(Sums, CountTheirPieces) {
  std::string log = testing::TempDir() + "sums.log";
  std::remove(log.c_str());
  EXPECT_TRUE(pass(
      kRanks, {{"NCCL_DEBUG", "INFO"}, {"NCCL_DEBUG_SUBSYS", "COLL"}, {"NCCL_DEBUG_FILE", log}},
      true));
  std::ifstream file(log);
  std::map<std::string, int> sends;
  for (std::string line; std::getline(file, line);)
    if (size_t at = line.find("Send: "); at != std::string::npos) {
      size_t count = line.find(" count ") + 7;
      ++sends[line.substr(count, line.find(' ', count) - count)];
    }
  // The first call and the capture, by each rank to each rank; and once to connect the ranks.
  constexpr int each = 2 * kRanks * kRanks;
  std::map<std::string, int> expected = {
      {"64", each * (15 + 7)}, {"40", each}, {"52", each}, {"1", each + 2 * kRanks * kRanks}};
  EXPECT_EQ(sends, expected);
}

} // namespace
