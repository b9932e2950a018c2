// A hand-written "compiled program": a bigram model trained with AdamW, for
// tests of the runtime without the compiler. Compiled once per mesh:
//   BIGRAM_REPLICA, BIGRAM_FSDP  sizes of the axes
//   BIGRAM_FULL                  1: parameters at rest are sharded over fsdp
//   BIGRAM_ROWS                  rows of the whole micro-batch
//   BIGRAM_LIMIT                 --memory-limit; not defined: none
//
// logits[j] = weight[t][j] + bias[j] * scale[j % 7]; sizes are odd so that
// nothing divides; scale is frozen. Faults come from the environment, each as
// "rank:step": BIGRAM_KILL, BIGRAM_STOP, BIGRAM_HANG, BIGRAM_TERM, BIGRAM_CRASH, BIGRAM_FLIP (of a
// bit of the weight after the step's update); BIGRAM_NAN is a step, and BIGRAM_SPIKE one whose
// gradients are a thousand times as large. BIGRAM_TELL prints each step that runs. BIGRAM_AUX adds
// a mean over all rows, with labels or without, to the loss that is evaluated.
#include "FarDevice.h"
#include "shale/Runtime.h"

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#ifndef BIGRAM_LIMIT
#define BIGRAM_LIMIT 0
#endif

namespace {
constexpr int64_t replica = BIGRAM_REPLICA, fsdp = BIGRAM_FSDP;
constexpr int64_t world = replica * fsdp, vocab = 33, length = 8;
constexpr int64_t rows = BIGRAM_ROWS / world;
constexpr bool full = BIGRAM_FULL;

constexpr int64_t align(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
constexpr int64_t weightCount = vocab * vocab;
constexpr int64_t biasOffset = align(weightCount, 16);
constexpr int64_t groupCount = align(align(biasOffset + vocab, 16), 16 * fsdp);
constexpr int64_t shards = full ? fsdp : 1;
constexpr int64_t local = groupCount / shards;
constexpr int64_t frozenCount = align(7, 16);

// State block.
constexpr int64_t bytes = local * 4;
constexpr int64_t paramAt = 0, m1At = bytes, m2At = 2 * bytes, frozenAt = 3 * bytes,
                  stateBytes = frozenAt + frozenCount * 4;
// Arena: gathered parameters, gradients, reduced gradients.
constexpr int64_t wholeAt = 0, gradAt = groupCount * 4, reducedAt = 2 * groupCount * 4,
                  arenaBytes = 2 * groupCount * 4 + local * 4;

enum Site { Gather, Grad, GradReplica, CountF, CountR, LossF, LossR, NormF, SiteCount };
enum Axis { Replica, Fsdp };

const int64_t weightDims[] = {vocab, vocab}, biasDims[] = {vocab}, scaleDims[] = {7},
              inputDims[] = {rows, length};
const char *const biasAliases[] = {"tied.bias", nullptr};

void sumOverAll(ShaleRank *rank, int siteF, int siteR, float *value) {
  shale_start(rank, siteF, value, value, 1, SHALE_F32);
  shale_wait(rank, siteF);
  shale_start(rank, siteR, value, value, 1, SHALE_F32);
  shale_wait(rank, siteR);
}

/// Whether the environment asks for a fault of this rank at this step. Ranks that --max-restarts
/// has started again have none.
bool fault(ShaleRank *rank, const char *name, int64_t step) {
  const char *text = getenv(name), *restarts = getenv("SHALE_RESTART_COUNT");
  if (restarts && atoi(restarts) > 0)
    return false;
  int r = 0;
  long s = 0;
  int64_t own = shale_coordinate(rank, Replica) * fsdp + shale_coordinate(rank, Fsdp);
  return text && sscanf(text, "%d:%ld", &r, &s) == 2 && r == own && s == step;
}

const float *gather(ShaleRank *rank, char *state, char *arena) {
  const float *param = reinterpret_cast<float *>(state + paramAt);
  if (!full)
    return param;
  float *whole = reinterpret_cast<float *>(arena + wholeAt);
  shale_start(rank, Gather, param, whole, local, SHALE_F32);
  shale_wait(rank, Gather);
  return whole;
}

/// Each call of the kernel handles one row of tokens: loss and, on request, gradients.
/// Gradients of rows are accumulated in order on one thread.
double forward(const float *param, const float *scale, const int64_t *tokens, const int64_t *labels,
               float *grad, float *count) {
  double loss = 0;
  *count = 0;
  for (int64_t i = 0; i < rows * length; ++i) {
    if (labels[i] < 0)
      continue;
    *count += 1;
    const float *row = param + tokens[i] * vocab;
    float logits[vocab], sum = 0, top = -1e30f;
    for (int64_t j = 0; j < vocab; ++j) {
      logits[j] = row[j] + param[biasOffset + j] * scale[j % 7];
      top = std::fmax(top, logits[j]);
    }
    for (int64_t j = 0; j < vocab; ++j)
      sum += std::exp(logits[j] - top);
    loss += std::log(sum) + top - logits[labels[i]];
    for (int64_t j = 0; grad && j < vocab; ++j) {
      float d = std::exp(logits[j] - top) / sum - (j == labels[i]);
      grad[tokens[i] * vocab + j] += d;
      grad[biasOffset + j] += d * scale[j % 7];
    }
  }
  return loss;
}

/// A kernel for shale_launch: scales its operand.
void scaleKernel(void *const *args, int64_t begin, int64_t end) {
  float *data = static_cast<float *>(args[0]);
  float factor = *static_cast<float *>(args[1]);
  for (int64_t i = begin; i < end; ++i)
    data[i] *= factor;
}

/// Sends the process a signal, and returns when its thread has received it.
void sendSignal(int signal) {
  kill(getpid(), signal);
  sigset_t pending;
  do {
    usleep(10000);
    sigpending(&pending);
  } while (sigismember(&pending, signal));
}

void step(ShaleRank *rank, char *state, char *arena, const void *const *inputs, const float *hyper,
          float *metrics) {
  FarAccess access;
  float lr = hyper[0], beta1 = hyper[1], beta2 = hyper[2], eps = hyper[3], decay = hyper[4],
        clip = hyper[5], bias1 = hyper[6], bias2 = hyper[7], previousEnable = hyper[8],
        normLimit = hyper[9];
  int64_t now = *static_cast<const int64_t *>(inputs[2]);
  if (fault(rank, "BIGRAM_KILL", now))
    raise(SIGKILL);
  if (fault(rank, "BIGRAM_TERM", now))
    sendSignal(SIGTERM);
  if (fault(rank, "BIGRAM_INT", now))
    sendSignal(SIGINT);
  if (fault(rank, "BIGRAM_CRASH", now))
    raise(SIGSEGV);
  if (fault(rank, "BIGRAM_STOP", now))
    raise(SIGSTOP);
  // BIGRAM_PAUSE: milliseconds after which a rank that hangs goes on.
  const char *pause = getenv("BIGRAM_PAUSE");
  for (int left = pause ? atoi(pause) : -1; left != 0 && fault(rank, "BIGRAM_HANG", now);
       left -= left > 0)
    usleep(1000);
  const float *whole = gather(rank, state, arena);
  const float *scale = reinterpret_cast<float *>(state + frozenAt);
  float *grad = reinterpret_cast<float *>(arena + gradAt);
  float *reduced = reinterpret_cast<float *>(arena + reducedAt);
  std::memset(grad, 0, groupCount * 4);
  float count = 0;
  double sum = forward(whole, scale, static_cast<const int64_t *>(inputs[0]),
                       static_cast<const int64_t *>(inputs[1]), grad, &count);
  float loss = static_cast<float>(sum);
  sumOverAll(rank, CountF, CountR, &count);
  sumOverAll(rank, LossF, LossR, &loss);
  float factor = count > 0 ? 1 / count : 0;
  if (const char *spike = getenv("BIGRAM_SPIKE"); spike && atoll(spike) == now)
    factor *= 1000;
  void *args[] = {grad, &factor, grad};
  ShaleLaunch launch{};
  launch.name = "scale", launch.kernel = reinterpret_cast<const void *>(scaleKernel);
  launch.args = args, launch.inputs = 2, launch.outputs = 1;
  launch.rows = groupCount, launch.grain = 16, launch.space = SHALE_SPACE_DEVICE;
  shale_launch(rank, &launch);
  shale_start(rank, Grad, grad, reduced, local, SHALE_F32);
  shale_wait(rank, Grad);
  shale_start(rank, GradReplica, reduced, reduced, local, SHALE_F32);
  shale_wait(rank, GradReplica);
  float square = 0;
  for (int64_t i = 0; i < local; ++i)
    square += reduced[i] * reduced[i];
  if (full) {
    shale_start(rank, NormF, &square, &square, 1, SHALE_F32);
    shale_wait(rank, NormF);
  }
  float norm = std::sqrt(square);
  metrics[0] = count > 0 ? loss / count : 0;
  metrics[1] = norm;
  const char *poison = getenv("BIGRAM_NAN");
  if (poison && atoll(poison) == now)
    metrics[0] = NAN;
  metrics[2] =
      std::isfinite(metrics[0]) && std::isfinite(norm) && norm <= normLimit && previousEnable > 0;
  if (getenv("BIGRAM_TELL"))
    fprintf(stderr, "step %lld enable %g\n", (long long)now, metrics[2]);
  if (metrics[2] == 0)
    return;
  float shrink = clip > 0 ? std::fmin(1.0f, clip / (norm + 1e-6f)) : 1.0f;
  float *p = reinterpret_cast<float *>(state + paramAt);
  float *m1 = reinterpret_cast<float *>(state + m1At);
  float *m2 = reinterpret_cast<float *>(state + m2At);
  for (int64_t i = 0; i < local; ++i) {
    float g = reduced[i] * shrink;
    p[i] -= lr * decay * p[i];
    m1[i] = beta1 * m1[i] + (1 - beta1) * g;
    m2[i] = beta2 * m2[i] + (1 - beta2) * g * g;
    p[i] -= lr * (m1[i] / bias1) / (std::sqrt(m2[i] / bias2) + eps);
  }
  if (fault(rank, "BIGRAM_FLIP", now))
    state[paramAt] ^= 1;
}

void evaluate(ShaleRank *rank, char *state, char *arena, const void *const *inputs, const float *,
              float *metrics) {
  FarAccess access;
  const float *whole = gather(rank, state, arena);
  const float *scale = reinterpret_cast<float *>(state + frozenAt);
  float count = 0;
  float loss =
      static_cast<float>(forward(whole, scale, static_cast<const int64_t *>(inputs[0]),
                                 static_cast<const int64_t *>(inputs[1]), nullptr, &count));
  sumOverAll(rank, CountF, CountR, &count);
  sumOverAll(rank, LossF, LossR, &loss);
  metrics[0] = loss;
  metrics[1] = count;
  if (!getenv("BIGRAM_AUX"))
    return;
  auto *tokens = static_cast<const int64_t *>(inputs[0]);
  float mean = 0;
  for (int64_t i = 0; i < rows * length; ++i)
    mean += static_cast<float>(tokens[i]) / (BIGRAM_ROWS * length);
  sumOverAll(rank, LossF, LossR, &mean);
  metrics[0] += mean * std::fmax(count, 1);
}

constexpr ShaleInit initOf(int32_t kind) {
  ShaleInit init{};
  init.kind = kind, init.deviation = -1, init.type = SHALE_F32;
  return init;
}
constexpr ShaleInit filled(double value) {
  ShaleInit init = initOf(SHALE_INIT_FILL);
  init.fill = value;
  return init;
}
constexpr ShaleInit inFile(int32_t transposed, int64_t length) {
  ShaleInit init = initOf(SHALE_INIT_FILE);
  init.file = "bigram-weights.bin", init.file_size = 64 + weightCount * 4, init.offset = 64;
  init.length = length, init.transposed = transposed;
  return init;
}
constexpr ShaleParameter parameter(const char *name, const int64_t *dims, int32_t rank,
                                   int64_t count, bool trained, const ShaleInit &init) {
  ShaleParameter p{};
  p.name = name, p.type = SHALE_F32, p.dims = dims, p.rank = rank, p.count = count;
  p.trained = trained, p.init = init;
  return p;
}
constexpr ShaleParameter withAliases(ShaleParameter p, const char *const *aliases) {
  p.aliases = aliases;
  return p;
}
constexpr ShaleParameter buffer(ShaleParameter p, int32_t type) {
  p.buffer = 1, p.type = type;
  return p;
}
const ShaleAxis axes[] = {{"replica", replica, 1}, {"fsdp", fsdp, 1}};
const ShaleParameter parameters[] = {
    parameter("emb.weight", weightDims, 2, weightCount, true, inFile(1, weightCount * 4)),
    withAliases(parameter("bias", biasDims, 1, vocab, true, filled(0.125)), biasAliases),
    parameter("frozen.scale", scaleDims, 1, 7, false, filled(0.5))};
// Of the model's state_dict, but no state of the program: one whose value is in the
// file, and one of which only the name is known.
const int64_t maskDims[] = {2, 3};
const ShaleParameter kept[] = {
    buffer(parameter("mask", maskDims, 2, 6, false, inFile(0, 24)), SHALE_F32),
    buffer(parameter("lost", nullptr, 0, 0, false, initOf(SHALE_INIT_FILE)), SHALE_NO_TYPE)};
constexpr ShaleSegment segment(int32_t parameter, int64_t offset, int64_t count) {
  ShaleSegment s{};
  s.parameter = parameter, s.offset = offset, s.count = count;
  return s;
}
const ShaleSegment segments[] = {segment(0, 0, weightCount), segment(1, biasOffset, vocab)};
const ShaleSegment frozenSegments[] = {segment(2, 0, 7)};
const ShaleGroup groups[] = {{"root", groupCount, segments, 2},
                             {"frozen", frozenCount, frozenSegments, 1}};
constexpr int32_t axis = full ? Fsdp : -1;
const ShaleState states[] = {{0, SHALE_ROLE_PARAM, SHALE_F32, axis, paramAt, local},
                             {0, SHALE_ROLE_SLOT, SHALE_F32, axis, m1At, local},
                             {0, SHALE_ROLE_SLOT + 1, SHALE_F32, axis, m2At, local},
                             {1, SHALE_ROLE_PARAM, SHALE_F32, -1, frozenAt, frozenCount}};
const ShaleInput inputTable[] = {
    {"tokens", SHALE_BINDING_TOKENS, SHALE_I64, 2, inputDims, 0, vocab, 0},
    {"targets", SHALE_BINDING_NEXT_TOKENS, SHALE_I64, 2, inputDims, 0, vocab, -100},
    {"step", SHALE_BINDING_STEP, SHALE_I64, 0, nullptr, -1, 0, 0}};
const char *const slots[] = {"moment1", "moment2"};
const char *const foreign[] = {"momentum"};
constexpr ShaleHyper computed(const char *name, int32_t source, int32_t base = -1) {
  ShaleHyper h{};
  h.name = name, h.text = "", h.source = source, h.base = base, h.first = 1, h.step = 1;
  return h;
}
constexpr ShaleHyper flag(const char *name, const char *text, double value, double high,
                          bool excluded = false) {
  ShaleHyper h = computed(name, SHALE_HYPER_FLAG);
  h.text = text, h.value = value, h.high = high, h.high_excluded = excluded;
  return h;
}
const ShaleHyper hyper[] = {computed("lr", SHALE_HYPER_LEARNING_RATE),
                            flag("beta1", "first decay", 0.9, 1, true),
                            flag("beta2", "second decay", 0.999, 1, true),
                            flag("eps", "epsilon", 1e-8, 1e6),
                            flag("weight_decay", "weight decay", 0.01, 1e6),
                            flag("clip_grad_norm", "norm", 0, 1e30),
                            computed("bias1", SHALE_HYPER_BIAS_CORRECTION, 1),
                            computed("bias2", SHALE_HYPER_BIAS_CORRECTION, 2),
                            computed("previous_enable", SHALE_HYPER_PREVIOUS_ENABLE),
                            computed("norm_limit", SHALE_HYPER_NORM_LIMIT)};
const char *const metricNames[] = {"loss", "grad_norm", "enable"};
const char *const evalNames[] = {"loss_sum", "count"};

constexpr int64_t reduceBytes(int64_t n, int64_t ranks) {
  return 2 * (ranks - 1) * ((n + ranks - 1) / ranks) * 4;
}
constexpr ShaleSite site(const char *name, int32_t kind, int32_t axis, int64_t sent, int32_t own) {
  return {name, kind, axis, sent, 1, own, 1, SHALE_F32};
}
const ShaleSite sites[] = {
    site("root", SHALE_ALL_GATHER, Fsdp, (fsdp - 1) * local * 4, Gather),
    site("root gradient", full ? SHALE_REDUCE_SCATTER : SHALE_ALL_REDUCE, Fsdp,
         full ? (fsdp - 1) * local * 4 : reduceBytes(local, fsdp), Grad),
    site("root gradient", SHALE_ALL_REDUCE, Replica, reduceBytes(local, replica), GradReplica),
    site("count", SHALE_ALL_REDUCE, Fsdp, reduceBytes(1, fsdp), CountF),
    site("count", SHALE_ALL_REDUCE, Replica, reduceBytes(1, replica), CountR),
    site("loss", SHALE_ALL_REDUCE, Fsdp, reduceBytes(1, fsdp), LossF),
    site("loss", SHALE_ALL_REDUCE, Replica, reduceBytes(1, replica), LossR),
    site("norm", SHALE_ALL_REDUCE, Fsdp, reduceBytes(1, fsdp), NormF)};
const ShalePlanLine plan[] = {
    {SHALE_CATEGORY_PARAMETERS, "state", SHALE_SPACE_DEVICE, stateBytes},
    {SHALE_CATEGORY_ACTIVATIONS, "arena", SHALE_SPACE_DEVICE, arenaBytes}};
const ShaleBuffer buffers[] = {
    {"root", SHALE_CATEGORY_PARAMETERS, SHALE_SPACE_DEVICE, SHALE_BLOCK_STATE, paramAt, bytes, 0},
    {"gradients", SHALE_CATEGORY_GRADIENTS, SHALE_SPACE_DEVICE, SHALE_BLOCK_ARENA, gradAt,
     groupCount * 4, 0}};
const ShaleOperand scaleOperands[] = {
    {groupCount, SHALE_F32}, {1, SHALE_F32}, {groupCount, SHALE_F32}};
const ShaleKernelOperands kernels[] = {{"scale", scaleOperands, 3}};

template <typename T, size_t N>
constexpr void setTable(const T *&rows, int64_t &count, const T (&table)[N]) {
  rows = table, count = N;
}
constexpr ShaleProgram makeProgram() {
  ShaleProgram p{};
  p.abi_version = SHALE_ABI_VERSION, p.world_size = world;
  p.model = "bigram.onnx", p.target = "x86-64-v3", p.host = "x86-64-v3";
  p.strategy = full ? "full" : "none", p.optimizer = "adamw", p.describe = "hand-written\n";
  setTable(p.axes, p.axis_count, axes);
  setTable(p.parameters, p.parameter_count, parameters);
  setTable(p.groups, p.group_count, groups);
  setTable(p.states, p.state_count, states);
  setTable(p.inputs, p.input_count, inputTable);
  setTable(p.slots, p.slot_count, slots);
  setTable(p.foreign_flags, p.foreign_flag_count, foreign);
  setTable(p.hyper, p.hyper_count, hyper);
  setTable(p.metrics, p.metric_count, metricNames);
  setTable(p.eval_metrics, p.eval_metric_count, evalNames);
  setTable(p.sites, p.site_count, sites);
  setTable(p.plan, p.plan_line_count, plan);
  setTable(p.buffers, p.buffer_count, buffers);
  setTable(p.kept, p.kept_count, kept);
  setTable(p.kernels, p.kernel_count, kernels);
  p.accumulate = 1;
  p.state_bytes = stateBytes, p.arena_bytes = arenaBytes;
  p.comm_scratch_bytes = 1024; // short, so that reductions are cut into pieces
  p.tokens_per_step = BIGRAM_ROWS * length, p.flops_per_step = 6 * weightCount * rows;
  p.step = step, p.evaluate = evaluate;
  p.total_limit = BIGRAM_LIMIT;
  return p;
}
} // namespace

const ShaleProgram shale_program = makeProgram();
