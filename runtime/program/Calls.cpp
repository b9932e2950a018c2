// The calls of compiled code: each is watched, traced and timed, and goes to the device
// or to the collectives.
#include "runtime/comm/Collectives.h"
#include "runtime/core/Error.h"
#include "runtime/core/Profile.h"
#include "runtime/core/Rank.h"
#include "runtime/core/Trace.h"
#include "runtime/device/Device.h"
#include "runtime/program/Observer.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

using namespace shale::rt;

namespace {

/// A span in the trace.
struct Span {
  const char *what;
  const char *node;
  const char *space = nullptr;
};

/// Tells the observer of a call, and that it is done when the object goes out of scope.
class Observed {
public:
  template <typename Tell> Observed(ShaleRank *rank, Tell tell) : observer(rank->observer) {
    if (observer)
      tell(*observer);
  }
  ~Observed() {
    if (observer)
      observer->after();
  }
  Observed(const Observed &) = delete;

private:
  Observer *observer;
};

/// Tells of the buffers of a launch. Their sizes are those of the kernel's name in the program.
void tellLaunch(const ShaleProgram &program, Observer &observer, const char *name,
                void *const *args, int32_t inputs, int32_t outputs) {
  const ShaleKernelOperands *end = program.kernels + program.kernel_count;
  const ShaleKernelOperands *found = std::lower_bound(
      program.kernels, end, name,
      [](const ShaleKernelOperands &row, const char *n) { return std::strcmp(row.name, n) < 0; });
  bool known = found != end && std::strcmp(found->name, name) == 0 &&
               found->operand_count == inputs + outputs;
  std::vector<Operand> reads, writes;
  for (int32_t i = 0; i < inputs + outputs; ++i) {
    Operand operand{args[i]};
    if (known)
      operand = {args[i], found->operands[i].count, found->operands[i].type};
    (i < inputs ? reads : writes).push_back(operand);
  }
  observer.call(name, reads, writes);
}

/// Runs a call of the main thread, with a span if the step is traced, else with a time in the
/// profile if there is one. `name` writes the profile's name into 64 characters.
template <typename Body, typename Name> void record(const Span &span, Name name, Body body) {
  if (tracing()) {
    int64_t begin = traceNow();
    body();
    traceSpan(TraceStream::Compute, span.what, span.node, begin, 0, nullptr, span.space);
  } else if (profiling()) {
    double start = profileNow();
    body();
    char text[64];
    name(text, sizeof(text));
    profileAdd(text, start);
  } else {
    body();
  }
}

void startCollective(ShaleRank *rank, int32_t site, ShaleCollectiveKind kind, const void *send,
                     void *recv, int64_t count, int32_t type) {
  Observed observed(rank, [&](Observer &o) { o.start(site, send, recv, count, type); });
  rank->collectives->start(site, kind, send, recv, count, static_cast<ShaleType>(type));
}

} // namespace

extern "C" void shale_note(ShaleRank *rank, const char *node) { rank->node = node; }

extern "C" int64_t shale_coordinate(ShaleRank *rank, int32_t axis) {
  return axis < 0 ? 0 : rank->coordinates[axis];
}

extern "C" void shale_launch(ShaleRank *rank, const char *name, const void *kernel,
                             void *const *args, int32_t inputs, int32_t outputs, int64_t rows,
                             int64_t grain, int32_t space) {
  const char *what = name ? name : "kernel";
  Observed observed(
      rank, [&](Observer &o) { tellLaunch(*rank->program, o, what, args, inputs, outputs); });
  record(
      {what, rank->node, space == SHALE_SPACE_HOST ? "host" : nullptr},
      [&](char *text, size_t size) { snprintf(text, size, "%s", what); },
      [&] {
        rank->device->launch(
            {kernel, args, inputs + outputs, rows, grain, static_cast<ShaleSpace>(space)});
      });
}

extern "C" void shale_gemm(ShaleRank *rank, int32_t transpose_a, int32_t transpose_b, int64_t batch,
                           int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
                           const void *b, int64_t ldb, void *c, int64_t ldc, int32_t type,
                           int32_t result_type, int32_t accumulate) {
  Observed observed(rank, [&](Observer &o) {
    std::vector<Operand> reads = {{a, batch * m * k, type}, {b, batch * k * n, type}};
    if (accumulate)
      reads.push_back({c, batch * m * n, result_type});
    o.call("matrix product", reads, {{c, batch * m * n, result_type}});
  });
  Product product{transpose_a != 0,
                  transpose_b != 0,
                  m,
                  n,
                  k,
                  1,
                  a,
                  lda,
                  b,
                  ldb,
                  accumulate ? 1.0f : 0.0f,
                  c,
                  ldc,
                  static_cast<Dtype>(type),
                  static_cast<Dtype>(result_type),
                  batch,
                  type == SHALE_F32 && rank->program->allow_tf32 != 0};
  record(
      {"matrix product", rank->node},
      [&](char *text, size_t size) {
        std::string times = batch == 1 ? "" : format("%lld x ", (long long)batch);
        snprintf(text, size, "gemm %s %c%c %s%lld x %lld x %lld", nameOf(product.type),
                 transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', times.c_str(), (long long)m,
                 (long long)n, (long long)k);
      },
      [&] { rank->device->multiply(product); });
}

extern "C" void shale_gemm_epilogue(ShaleRank *rank, int32_t transpose_a, int32_t transpose_b,
                                    int64_t m, int64_t n, int64_t k, const void *a, const void *b,
                                    void *c, int32_t type, int32_t epilogue, const void *with,
                                    void *before, const void *kernel, int64_t rows, int64_t grain) {
  Observed observed(rank, [&](Observer &o) {
    std::vector<Operand> writes = {{c, m * n, type}};
    if (before)
      writes.push_back({before, m * n, type});
    int64_t extra = epilogue == SHALE_EPILOGUE_GELU_GRAD ? m * n : n;
    o.call("matrix product", {{a, m * k, type}, {b, k * n, type}, {with, extra, type}}, writes);
  });
  auto element = static_cast<Dtype>(type);
  Product product{transpose_a != 0,
                  transpose_b != 0,
                  m,
                  n,
                  k,
                  1,
                  a,
                  transpose_a ? m : k,
                  b,
                  transpose_b ? k : n,
                  0,
                  c,
                  n,
                  element,
                  element,
                  1,
                  false,
                  {static_cast<ShaleEpilogue>(epilogue), with, before, kernel, rows, grain}};
  record(
      {"matrix product", rank->node},
      [&](char *text, size_t size) {
        snprintf(text, size, "gemm %s %c%c %lld x %lld x %lld, %s", nameOf(element),
                 transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', (long long)m, (long long)n,
                 (long long)k, nameOf(product.epilogue.kind));
      },
      [&] { rank->device->multiply(product); });
}

namespace {

struct AttentionSizes {
  int64_t batch, heads, keyHeads, length, keyLength, depth, valueDepth;

  /// Elements of a tensor of queries, and the buffers of query, key and value, or their gradients:
  /// three, or the first if it holds the heads of all.
  int64_t queries(int64_t features) const { return batch * length * heads * features; }
  std::vector<Operand> operands(const void *query, const void *key, const void *value,
                                int32_t type) const {
    if (!key)
      return {{query, batch * length * (heads + 2 * keyHeads) * depth, type}};
    return {{query, queries(depth), type},
            {key, batch * keyLength * keyHeads * depth, type},
            {value, batch * keyLength * keyHeads * valueDepth, type}};
  }

  /// Tensors [batch, positions, heads, features] without gaps.
  Attention::Tensor ofQueries(const void *data, int64_t features) const {
    return dense(data, length, heads, features);
  }
  Attention::Tensor ofKeys(const void *data, int64_t features) const {
    return dense(data, keyLength, keyHeads, features);
  }

  /// Places query, key and value, or their gradients: three tensors without gaps, or one that holds
  /// the heads of all three, if the others are null.
  void place(const void *query, const void *key, const void *value, Dtype type,
             Attention::Tensor &q, Attention::Tensor &k, Attention::Tensor &v) const {
    if (key) {
      q = ofQueries(query, depth), k = ofKeys(key, depth), v = ofKeys(value, valueDepth);
    } else {
      q = packed(query, 0, type), k = packed(query, heads, type);
      v = packed(query, heads + keyHeads, type);
    }
  }

private:
  /// The heads from `first` on of a tensor [batch, length, heads + 2 * keyHeads, depth].
  Attention::Tensor packed(const void *data, int64_t first, Dtype type) const {
    int64_t position = (heads + 2 * keyHeads) * depth;
    return {static_cast<char *>(const_cast<void *>(data)) + first * depth * sizeOf(type),
            {length * position, depth, position, 1}};
  }
  static Attention::Tensor dense(const void *data, int64_t positions, int64_t heads,
                                 int64_t features) {
    return {const_cast<void *>(data),
            {positions * heads * features, features, heads * features, 1}};
  }
};

/// Returns the operands that attention and its gradient share.
Attention describe(const AttentionSizes &sizes, int32_t causal, int64_t window, float scale,
                   int32_t type, const void *query, const void *key, const void *value,
                   const void *result, const float *lse, void *workspace, int64_t workspaceBytes) {
  Attention attention{};
  attention.batch = sizes.batch, attention.heads = sizes.heads, attention.keyHeads = sizes.keyHeads;
  attention.length = sizes.length, attention.keyLength = sizes.keyLength;
  attention.depth = sizes.depth, attention.valueDepth = sizes.valueDepth;
  attention.causal = causal != 0, attention.window = window, attention.scale = scale;
  attention.type = static_cast<Dtype>(type);
  sizes.place(query, key, value, attention.type, attention.query, attention.key, attention.value);
  attention.output = sizes.ofQueries(result, sizes.valueDepth);
  attention.lse = const_cast<float *>(lse);
  attention.workspace = workspace, attention.workspaceBytes = workspaceBytes;
  return attention;
}

/// Tells of and enqueues a call that reads and writes these buffers.
void attend(ShaleRank *rank, const Attention &attention, const std::vector<Operand> &reads,
            const std::vector<Operand> &writes) {
  const char *what = attention.isGradient() ? "gradient of attention" : "attention";
  Observed observed(rank, [&](Observer &o) { o.call(what, reads, writes); });
  record(
      {what, rank->node},
      [&](char *text, size_t size) {
        snprintf(text, size, "attention %s %s%lld x %lld x %lld x %lld x %lld",
                 nameOf(attention.type), attention.isGradient() ? "gradient " : "",
                 (long long)attention.batch, (long long)attention.heads,
                 (long long)attention.length, (long long)attention.keyLength,
                 (long long)attention.depth);
      },
      [&] { rank->device->attend(attention); });
}

} // namespace

extern "C" void shale_attention(ShaleRank *rank, int64_t batch, int64_t heads, int64_t key_heads,
                                int64_t length, int64_t key_length, int64_t depth,
                                int64_t value_depth, int32_t causal, int64_t window, float scale,
                                int32_t type, const void *query, const void *key, const void *value,
                                void *result, float *lse, void *workspace,
                                int64_t workspace_bytes) {
  AttentionSizes sizes{batch, heads, key_heads, length, key_length, depth, value_depth};
  attend(rank,
         describe(sizes, causal, window, scale, type, query, key, value, result, lse, workspace,
                  workspace_bytes),
         sizes.operands(query, key, value, type),
         {{result, sizes.queries(value_depth), type},
          {lse, batch * heads * length, SHALE_F32},
          {workspace}});
}

extern "C" void shale_attention_gradient(ShaleRank *rank, int64_t batch, int64_t heads,
                                         int64_t key_heads, int64_t length, int64_t key_length,
                                         int64_t depth, int64_t value_depth, int32_t causal,
                                         int64_t window, float scale, int32_t type,
                                         int32_t deterministic, const void *query, const void *key,
                                         const void *value, const void *result, const float *lse,
                                         const void *result_gradient, void *query_gradient,
                                         void *key_gradient, void *value_gradient, void *workspace,
                                         int64_t workspace_bytes) {
  AttentionSizes sizes{batch, heads, key_heads, length, key_length, depth, value_depth};
  Attention attention = describe(sizes, causal, window, scale, type, query, key, value, result, lse,
                                 workspace, workspace_bytes);
  attention.deterministic = deterministic != 0;
  attention.outputGradient = sizes.ofQueries(result_gradient, value_depth);
  sizes.place(query_gradient, key_gradient, value_gradient, attention.type, attention.queryGradient,
              attention.keyGradient, attention.valueGradient);
  std::vector<Operand> reads = sizes.operands(query, key, value, type),
                       writes = sizes.operands(query_gradient, key_gradient, value_gradient, type);
  reads.insert(reads.end(), {{result, sizes.queries(value_depth), type},
                             {lse, batch * heads * length, SHALE_F32},
                             {result_gradient, sizes.queries(value_depth), type}});
  writes.push_back({workspace});
  attend(rank, attention, reads, writes);
}

extern "C" void shale_copy(ShaleRank *rank, void *target, const void *source, int64_t bytes) {
  Observed observed(rank, [&](Observer &o) { o.copy(target, source, bytes); });
  record(
      {"copy", nullptr}, [](char *text, size_t size) { snprintf(text, size, "copy"); },
      [&] { rank->device->copy(target, source, bytes); });
}

extern "C" void shale_zero(ShaleRank *rank, void *target, int64_t bytes) {
  Observed observed(rank, [&](Observer &o) { o.copy(target, nullptr, bytes); });
  record(
      {"zero", nullptr}, [](char *text, size_t size) { snprintf(text, size, "zero"); },
      [&] { rank->device->fill(target, 0, bytes); });
}

extern "C" void shale_store_coordinate(ShaleRank *rank, int32_t axis, int64_t *target) {
  int64_t coordinate = shale_coordinate(rank, axis);
  Observed observed(rank, [&](Observer &o) { o.copy(target, nullptr, sizeof(coordinate)); });
  rank->device->store(target, coordinate);
}

extern "C" void *shale_host_state(ShaleRank *rank) { return rank->hostState; }
extern "C" void *shale_host_arena(ShaleRank *rank) { return rank->hostArena; }
extern "C" const void *const *shale_host_inputs(ShaleRank *rank) { return rank->hostInputs; }
extern "C" const float *shale_host_hyper(ShaleRank *rank) { return rank->hostHyper; }
extern "C" const void *shale_constants(ShaleRank *rank) { return rank->constants; }

extern "C" void shale_transfer_start(ShaleRank *rank, int32_t index, void *target,
                                     const void *source, int64_t bytes) {
  Observed observed(rank, [&](Observer &o) { o.startCopy(index, target, source, bytes); });
  rank->device->startCopy(index, target, source, bytes);
}

extern "C" void shale_transfer_wait(ShaleRank *rank, int32_t index) {
  Observed observed(rank, [&](Observer &o) { o.waitCopy(index); });
  record(
      {"wait", rank->program->transfers[index].name},
      [&](char *text, size_t size) { snprintf(text, size, "wait for copies"); },
      [&] { rank->device->waitCopy(index); });
}

extern "C" void shale_all_gather_start(ShaleRank *rank, int32_t site, const void *send, void *recv,
                                       int64_t count, int32_t type) {
  startCollective(rank, site, SHALE_ALL_GATHER, send, recv, count, type);
}

extern "C" void shale_reduce_scatter_start(ShaleRank *rank, int32_t site, const void *send,
                                           void *recv, int64_t count, int32_t type) {
  startCollective(rank, site, SHALE_REDUCE_SCATTER, send, recv, count, type);
}

extern "C" void shale_all_reduce_start(ShaleRank *rank, int32_t site, const void *send, void *recv,
                                       int64_t count, int32_t type) {
  startCollective(rank, site, SHALE_ALL_REDUCE, send, recv, count, type);
}

extern "C" void shale_wait(ShaleRank *rank, int32_t site) {
  Observed observed(rank, [&](Observer &o) { o.wait(site); });
  const ShaleSite &what = rank->program->sites[site];
  record(
      {"wait", what.name},
      [&](char *text, size_t size) {
        snprintf(text, size, "wait %s %s", kindName(static_cast<ShaleCollectiveKind>(what.kind)),
                 what.name);
      },
      [&] { rank->collectives->wait(site); });
}
