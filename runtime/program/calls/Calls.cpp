// The calls of compiled code: each is watched, traced and timed, and goes to the device
// or to the collectives.
#include "runtime/comm/Collectives.h"
#include "runtime/core/Error.h"
#include "runtime/core/Profile.h"
#include "runtime/core/Rank.h"
#include "runtime/core/Trace.h"
#include "runtime/device/Device.h"
#include "runtime/program/calls/Observer.h"

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

} // namespace

extern "C" void shale_note(ShaleRank *rank, const char *node) { rank->node = node; }

extern "C" int64_t shale_coordinate(ShaleRank *rank, int32_t axis) {
  return axis < 0 ? 0 : rank->coordinates[axis];
}

extern "C" void shale_launch(ShaleRank *rank, const ShaleLaunch *launch) {
  const char *what = launch->name ? launch->name : "kernel";
  Observed observed(rank, [&](Observer &o) {
    tellLaunch(*rank->program, o, what, launch->args, launch->inputs, launch->outputs);
  });
  record(
      {what, rank->node, launch->space == SHALE_SPACE_HOST ? "host" : nullptr},
      [&](char *text, size_t size) { snprintf(text, size, "%s", what); },
      [&] {
        rank->device->launch({launch->kernel, launch->args, launch->inputs + launch->outputs,
                              launch->rows, launch->grain, static_cast<ShaleSpace>(launch->space)});
      });
}

/// Returns a matmul without an epilogue.
static Matmul matmulOf(const ShaleGemm &gemm) {
  Matmul matmul{};
  matmul.transposeA = gemm.transpose_a != 0, matmul.transposeB = gemm.transpose_b != 0;
  matmul.m = gemm.m, matmul.n = gemm.n, matmul.k = gemm.k;
  matmul.alpha = 1, matmul.beta = gemm.accumulate ? 1.0f : 0.0f;
  matmul.a = gemm.a, matmul.lda = gemm.lda;
  matmul.b = gemm.b, matmul.ldb = gemm.ldb;
  matmul.c = gemm.c, matmul.ldc = gemm.ldc;
  matmul.type = static_cast<Dtype>(gemm.type);
  matmul.resultType = static_cast<Dtype>(gemm.result_type);
  matmul.batch = gemm.batch;
  if (gemm.a_scale)
    matmul.scaling = {static_cast<Dtype>(gemm.b_type), gemm.a_scale, gemm.b_scale};
  return matmul;
}

/// Computes a matmul, which the profile lists with `what` follows it.
static void multiply(ShaleRank *rank, const Matmul &matmul, const char *what) {
  record(
      {"matmul", rank->node},
      [&](char *text, size_t size) {
        std::string times = matmul.batch == 1 ? "" : format("%lld x ", (long long)matmul.batch);
        snprintf(text, size, "gemm %s %c%c %s%lld x %lld x %lld%s%s", nameOf(matmul.type),
                 matmul.transposeA ? 'T' : 'N', matmul.transposeB ? 'T' : 'N', times.c_str(),
                 (long long)matmul.m, (long long)matmul.n, (long long)matmul.k, *what ? ", " : "",
                 what);
      },
      [&] { rank->device->multiply(matmul); });
}

extern "C" void shale_gemm(ShaleRank *rank, const ShaleGemm *gemm) {
  Matmul matmul = matmulOf(*gemm);
  matmul.tf32 = gemm->type == SHALE_F32 && rank->program->allow_tf32 != 0;
  Observed observed(rank, [&](Observer &o) {
    Operand result{gemm->c, gemm->batch * gemm->m * gemm->n, gemm->result_type};
    std::vector<Operand> reads = {{gemm->a, gemm->batch * gemm->m * gemm->k, gemm->type},
                                  {gemm->b, gemm->batch * gemm->k * gemm->n, gemm->b_type}};
    if (gemm->a_scale) {
      reads.push_back({gemm->a_scale, 1, SHALE_F32});
      reads.push_back({gemm->b_scale, 1, SHALE_F32});
    }
    if (gemm->accumulate)
      reads.push_back(result);
    o.call("matmul", reads, {result});
  });
  multiply(rank, matmul, "");
}

extern "C" void shale_grouped_gemm(ShaleRank *rank, const ShaleGemm *gemm,
                                   const ShaleGroups *groups) {
  int64_t matrices[] = {gemm->k * gemm->n, gemm->m * gemm->n}; // of one group: of B, of C
  matrices[gemm->transpose_a ? 1 : 0] *= groups->count;
  Observed observed(rank, [&](Observer &o) {
    o.call("matmul",
           {{gemm->a, gemm->m * gemm->k, gemm->type},
            {gemm->b, matrices[0], gemm->b_type},
            {groups->ends, groups->count, groups->wide ? SHALE_I64 : SHALE_I32}},
           {{gemm->c, matrices[1], gemm->result_type}});
  });
  Matmul matmul = matmulOf(*gemm);
  matmul.groups = {groups->ends, groups->wide != 0, groups->count};
  multiply(rank, matmul, "grouped");
}

extern "C" void shale_gemm_epilogue(ShaleRank *rank, const ShaleGemm *gemm,
                                    const ShaleGemmEpilogue *epilogue) {
  int64_t elements = gemm->m * gemm->n;
  Observed observed(rank, [&](Observer &o) {
    std::vector<Operand> writes = {{gemm->c, elements, gemm->type}};
    if (epilogue->before)
      writes.push_back({epilogue->before, elements, gemm->type});
    int64_t extra = epilogue->epilogue == SHALE_EPILOGUE_GELU_GRAD ? elements : gemm->n;
    o.call("matmul",
           {{gemm->a, gemm->m * gemm->k, gemm->type},
            {gemm->b, gemm->k * gemm->n, gemm->b_type},
            {epilogue->with, extra, gemm->type}},
           writes);
  });
  Matmul matmul = matmulOf(*gemm);
  matmul.epilogue = {static_cast<ShaleEpilogue>(epilogue->epilogue),
                     epilogue->with,
                     epilogue->before,
                     epilogue->kernel,
                     epilogue->rows,
                     epilogue->grain};
  multiply(rank, matmul, nameOf(matmul.epilogue.kind));
}

namespace {

/// Elements of a tensor of queries, and of one of results.
int64_t queriesOf(const ShaleAttention &a, int64_t features) {
  return a.batch * a.length * a.heads * features;
}

/// Returns the buffers of query, key and value, or of their gradients: three, or the first if it
/// holds the heads of all.
std::vector<Operand> headsOf(const ShaleAttention &a, const void *query, const void *key,
                             const void *value) {
  if (!key)
    return {{query, a.batch * a.length * (a.heads + 2 * a.key_heads) * a.depth, a.type}};
  int64_t keys = a.batch * a.key_length * a.key_heads;
  return {{query, queriesOf(a, a.depth), a.type},
          {key, keys * a.depth, a.type},
          {value, keys * a.value_depth, a.type}};
}

/// A tensor [batch, positions, heads, features] without gaps.
Attention::Tensor dense(const void *data, int64_t positions, int64_t heads, int64_t features) {
  return {const_cast<void *>(data), {positions * heads * features, features, heads * features, 1}};
}

/// The heads from `first` on of a tensor [batch, length, heads + 2 * key_heads, depth].
Attention::Tensor packed(const ShaleAttention &a, const void *data, int64_t first) {
  int64_t position = (a.heads + 2 * a.key_heads) * a.depth;
  int64_t bytes = first * a.depth * sizeOf(static_cast<Dtype>(a.type));
  return {static_cast<char *>(const_cast<void *>(data)) + bytes,
          {a.length * position, a.depth, position, 1}};
}

/// Places query, key and value, or their gradients: three tensors without gaps, or one that holds
/// the heads of all three, if the others are null.
void place(const ShaleAttention &a, const void *query, const void *key, const void *value,
           Attention::Tensor &q, Attention::Tensor &k, Attention::Tensor &v) {
  if (key) {
    q = dense(query, a.length, a.heads, a.depth);
    k = dense(key, a.key_length, a.key_heads, a.depth);
    v = dense(value, a.key_length, a.key_heads, a.value_depth);
  } else {
    q = packed(a, query, 0);
    k = packed(a, query, a.heads);
    v = packed(a, query, a.heads + a.key_heads);
  }
}

Attention describe(const ShaleAttention &a) {
  Attention attention{};
  attention.batch = a.batch, attention.heads = a.heads, attention.keyHeads = a.key_heads;
  attention.length = a.length, attention.keyLength = a.key_length;
  attention.depth = a.depth, attention.valueDepth = a.value_depth;
  attention.causal = a.causal != 0, attention.window = a.window, attention.scale = a.scale;
  attention.type = static_cast<Dtype>(a.type);
  place(a, a.query, a.key, a.value, attention.query, attention.key, attention.value);
  attention.output = dense(a.result, a.length, a.heads, a.value_depth);
  attention.lse = a.lse;
  attention.workspace = a.workspace, attention.workspaceBytes = a.workspace_bytes;
  if (a.result_gradient) {
    attention.deterministic = a.deterministic != 0;
    attention.outputGradient = dense(a.result_gradient, a.length, a.heads, a.value_depth);
    place(a, a.query_gradient, a.key_gradient, a.value_gradient, attention.queryGradient,
          attention.keyGradient, attention.valueGradient);
  }
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

extern "C" void shale_attention(ShaleRank *rank, const ShaleAttention *attention) {
  const ShaleAttention &a = *attention;
  std::vector<Operand> reads = headsOf(a, a.query, a.key, a.value), writes;
  Operand result{a.result, queriesOf(a, a.value_depth), a.type},
      lse{a.lse, a.batch * a.heads * a.length, SHALE_F32};
  if (a.result_gradient) {
    Operand gradient{a.result_gradient, queriesOf(a, a.value_depth), a.type};
    reads.insert(reads.end(), {result, lse, gradient});
    writes = headsOf(a, a.query_gradient, a.key_gradient, a.value_gradient);
  } else {
    writes = {result, lse};
  }
  writes.push_back({a.workspace});
  attend(rank, describe(a), reads, writes);
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

extern "C" void shale_start(ShaleRank *rank, int32_t site, const void *send, void *recv,
                            int64_t count, int32_t type) {
  Observed observed(rank, [&](Observer &o) { o.start(site, send, recv, count, type); });
  auto kind = static_cast<ShaleCollectiveKind>(rank->program->sites[site].kind);
  rank->collectives->start(site, kind, send, recv, count, static_cast<ShaleType>(type));
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
      [&] {
        double start = profileNow();
        rank->collectives->wait(site);
        rank->waited += profileNow() - start;
      });
}
