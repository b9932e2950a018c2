/* The C ABI between a compiled training program and Shale's runtime library.
 *
 * The compiler emits one object file that defines `shale_program` and the
 * functions it points to; the runtime (runtime/) defines every function below
 * and `main`. The header is plain C, does not depend on LLVM, and changes only
 * together with SHALE_ABI_VERSION.
 *
 * Units: counts are elements, offsets and sizes are bytes unless a comment says
 * otherwise. A "rank" is one process of the program. All matrices are row-major.
 */
#ifndef SHALE_RUNTIME_H
#define SHALE_RUNTIME_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHALE_ABI_VERSION 17

/* Limits on the pieces into which the runtime cuts an f32 matrix product on a CPU. The
 * host's matrix library packs each piece into buffers that it allocates: at most
 * SHALE_GEMM_COLUMNS columns per call, in blocks of at most SHALE_GEMM_BLOCK rows and
 * that depth. The memory plan depends on both. */
#define SHALE_GEMM_COLUMNS 2016
#define SHALE_GEMM_BLOCK 384
/* Products of 16-bit floats are widened to f32 piece by piece in a thread's scratch
 * buffer: at most this many rows and columns, SHALE_GEMM_BLOCK deep. */
#define SHALE_GEMM_PANEL 768

/* Bytes of device memory for the workspace of a GPU's matrix library: more than its
 * algorithms took in docs/benchmarks.md, section D. */
#define SHALE_BLAS_WORKSPACE (32 << 20)

/* Exit codes of the program (and of shalec, where they apply). */
enum {
  SHALE_EXIT_OK = 0,
  SHALE_EXIT_USAGE = 64,       /* bad flags */
  SHALE_EXIT_DATA = 65,        /* bad or unsupported model, data or checkpoint */
  SHALE_EXIT_NO_INPUT = 66,    /* an input file is missing */
  SHALE_EXIT_UNAVAILABLE = 69, /* this machine lacks a device, a library or instructions */
  SHALE_EXIT_INTERNAL = 70,    /* a bug in Shale */
  SHALE_EXIT_IO = 74,          /* a file cannot be written */
  SHALE_EXIT_PREEMPTED = 75,   /* stopped by a signal, state saved */
  SHALE_EXIT_PEER = 76,        /* a peer or a collective failed */
  SHALE_EXIT_NO_FIT = 78,      /* does not fit the memory limit */
  SHALE_EXIT_NON_FINITE = 93,  /* non-finite loss or norm: do not requeue */
  SHALE_EXIT_REPLICAS = 94,    /* ranks hold different bits of what must be equal */
  SHALE_EXIT_INTERRUPTED = 130 /* Ctrl-C, state saved */
};

/* Where memory is, and work on it: with the device, or on the host. */
typedef enum { SHALE_SPACE_DEVICE = 0, SHALE_SPACE_HOST = 1 } ShaleSpace;

typedef enum {
  SHALE_F32 = 0,
  SHALE_F64 = 1,
  SHALE_BF16 = 2,
  SHALE_F16 = 3,
  SHALE_I64 = 4,
  SHALE_I32 = 5,
  SHALE_BOOL = 6 /* one byte, 0 or 1 */
} ShaleType;

/* Operations on a matrix product before it is stored: a bias is added; then GELU, by the
 * approximation with tanh, is applied; or it is multiplied with the derivative of this GELU. */
typedef enum {
  SHALE_EPILOGUE_BIAS = 0,
  SHALE_EPILOGUE_GELU = 1,
  SHALE_EPILOGUE_GELU_GRAD = 2
} ShaleEpilogue;

/* What the ranks along an axis split: the batch (replica), the batch and the state (shard), or
 * single tensors (tensor). */
typedef enum { SHALE_AXIS_REPLICA = 0, SHALE_AXIS_SHARD = 1, SHALE_AXIS_TENSOR = 2 } ShaleAxisKind;

/* One axis of the mesh; the last axis of the table varies fastest over ranks. */
typedef struct {
  const char *name;
  int64_t size;
  int32_t kind; /* ShaleAxisKind */
  int32_t pad_;
} ShaleAxis;

typedef enum { SHALE_INIT_FILL = 0, SHALE_INIT_FILE = 1, SHALE_INIT_DATA = 2 } ShaleInitKind;

/* What is hashed of each parameter to check that a file of initial values is unchanged: all of at
 * most SHALE_HASHED_BYTES bytes. Of a longer one, SHALE_HASHED_BLOCKS blocks of equal size,
 * together SHALE_HASHED_BYTES: block k begins at byte k * (length - block size) /
 * (SHALE_HASHED_BLOCKS - 1). */
#define SHALE_HASHED_BYTES (1 << 20)
#define SHALE_HASHED_BLOCKS 64

/* Where a parameter's initial value comes from. */
typedef struct {
  int32_t kind;       /* ShaleInitKind */
  int32_t transposed; /* 1: the file holds the transpose of a 2-D parameter */
  double fill;        /* SHALE_INIT_FILL: value of every element */
  const char *file;   /* path at compile time, absolute or from the program's folder; a missing file
                         is searched beside the program. SHALE_INIT_DATA: the bytes */
  int64_t file_size;  /* size of the file at compile time; 0: the file was missing */
  int64_t offset;     /* bytes into the file */
  int64_t length;     /* bytes */
  int64_t hash;       /* XXH3 of SHALE_HASHED_BYTES of these bytes at compile time; 0: unknown */
  double mean;        /* of the values at compile time; estimated from a sample if there are many */
  double deviation;   /* their standard deviation; negative: unknown, the file was missing */
  int32_t type;       /* ShaleType of the file's elements; may differ from the parameter's */
  int32_t pad_;
} ShaleInit;

/* A whole (unsharded) parameter or buffer under its PyTorch name. */
typedef struct {
  const char *name;
  const char *const *aliases; /* other names of a tied parameter, NULL-terminated; may be NULL */
  int32_t type;               /* ShaleType of the whole parameter in files */
  int32_t rank;
  const int64_t *dims;
  int64_t count;
  int32_t trained; /* 0: frozen or buffer */
  int32_t
      buffer; /* 0: a parameter; 1: a buffer; 2: a buffer that is not in the model's state_dict */
  ShaleInit init;
} ShaleParameter;

/* A parameter's place in a group's one-dimensional tensor. If the segment has dimensions, a rank
 * holds a box of the parameter: along dimension d the indices [begin[d] + c * size[d],
 * begin[d] + (c + 1) * size[d]), where c is the rank's coordinate on axes[d], or 0. All segments of
 * a group are split over the same axes. A parameter may have several segments. A box may pass the
 * end of the parameter's first dimension: these elements are padding and hold zeros. */
typedef struct {
  int32_t parameter; /* index into ShaleProgram.parameters */
  float decay;       /* factor of weight decay: 1 or 0 */
  int64_t offset;    /* elements into the group; aligned to 64 bytes */
  int64_t count; /* elements of this rank; in a group of optimizer state those of the parameter's
                    state */
  int32_t rank;  /* number of dimensions; 0: every rank holds the whole parameter */
  int32_t pad_;
  const int64_t *dims;  /* of the whole parameter, or finer ones with the same product */
  const int64_t *begin; /* first index along each dimension */
  const int64_t *size;  /* indices of one rank along each dimension */
  const int32_t *axes;  /* for each dimension the index into ShaleProgram.axes of the axis that
                           splits  it, or -1 */
} ShaleSegment;

/* A group of a unit: parameters that are stored, gathered and reduced as one
 * 1-D tensor. Gaps between segments and the tail are padding and hold zeros.
 * Optimizer state of another shape than its parameters is in a group of its own. */
typedef struct {
  const char *name; /* unit and group, for messages */
  int64_t count;    /* elements, padding included; a multiple of the axis size */
  int32_t segment_count;
  int32_t pad_;
  const ShaleSegment *segments;
} ShaleGroup;

typedef enum {
  SHALE_ROLE_PARAM = 0,
  SHALE_ROLE_LOSS_SCALE =
      1, /* a scalar of the loss scaling; stored in checkpoints, not exported with the weights */
  SHALE_ROLE_SLOT = 2 /* this and above: state of the optimizer, the role - SHALE_ROLE_SLOT of
                         ShaleProgram.slots */
} ShaleRole;

typedef enum {
  SHALE_HYPER_FLAG = 0,            /* the value of a flag */
  SHALE_HYPER_LEARNING_RATE = 1,   /* of the step, by the schedule */
  SHALE_HYPER_BIAS_CORRECTION = 2, /* 1 - base^t, t a count of updates; 1 if t is 0 */
  SHALE_HYPER_STEP_POWER = 3,      /* t^base; t^value without a base */
  SHALE_HYPER_PREVIOUS_ENABLE = 4, /* metric `enable` of the step before, 1 in a run's first step: 0
                                      makes the step change nothing. A program that has it may be
                                      called before the metrics of the step before are known */
  SHALE_HYPER_INVERSE_DECAY = 5,   /* 1 / (1 + t * base) */
  SHALE_HYPER_AFTER_FIRST = 6,     /* base if t is above 0, else 1 */
  SHALE_HYPER_NORM_LIMIT = 7       /* the largest gradient norm of a step that updates; infinity: no
                                      limit. A larger norm makes the step change nothing */
} ShaleHyperSource;

/* A scalar that the step reads. The flag's name is `name` with '-' for '_'. Its values
 * are from `low` to `high`. */
typedef struct {
  const char *name;
  const char *text; /* of --help */
  double value;     /* the flag's default; of the learning rate: 0 if the model's file has none */
  double low, high;
  int32_t high_excluded;
  int32_t source; /* ShaleHyperSource */
  int32_t base;   /* index into ShaleProgram.hyper; -1: none */
  int32_t fixed;  /* 1: the model's file fixes `value`, and a flag may only repeat it */
  int64_t first;  /* t in the first update */
  int64_t step;   /* added to t per applied update */
} ShaleHyper;

/* One piece of this rank's persistent state: a whole group or this rank's equal
 * slice of it. A group may have two pieces of one role: checkpoints hold the one of
 * the wider type; the other is a rounded copy. A piece starts at `offset` of the
 * state block. The rank with coordinate c on `axis` holds elements
 * [c*local_count, (c+1)*local_count) of the group. */
typedef struct {
  int32_t group;       /* index into ShaleProgram.groups */
  int32_t role;        /* ShaleRole, or above SHALE_ROLE_SLOT */
  int32_t type;        /* ShaleType as stored */
  int32_t axis;        /* index into ShaleProgram.axes; -1: whole on every rank */
  int64_t offset;      /* bytes into the state block; aligned to 64. State in host memory
                          follows the device's: its offsets begin at state_bytes */
  int64_t local_count; /* elements on this rank */
} ShaleState;

/* An input of the step. The runtime passes this rank's part: the whole
 * micro-batch has dims[batch_dim] * (product of the data axes' sizes) rows, and the rank
 * with the r-th data coordinate (row-major over data axes) takes the r-th equal slice. */
typedef struct {
  const char *name;
  const char
      *binding; /* "tokens", "tokens+1", "ones", "arange" or "" (must be in the data file);
                   "all-ones": the program was compiled for ones, so the data file must hold only
                   ones; "seed", "step", "microbatch": an i64 scalar that random ops draw from */
  int32_t type;
  int32_t rank;
  const int64_t *dims; /* of this rank's part */
  int32_t batch_dim;   /* -1: not split, the same on every rank */
  int32_t pad_;
  int64_t
      bound; /* values of this integer input must be in [0, bound) or `ignored`; 0: not checked */
  int64_t ignored; /* the label that the loss ignores; 0: none */
} ShaleInput;

typedef enum {
  SHALE_ALL_GATHER = 0,
  SHALE_REDUCE_SCATTER = 1,
  SHALE_ALL_REDUCE = 2
} ShaleCollectiveKind;

/* A collective of the compiled code, for messages, reports and byte counts. */
typedef struct {
  const char *name; /* unit or value that it moves */
  int32_t kind;     /* ShaleCollectiveKind */
  int32_t axis;     /* index into axes */
  /* Bytes that one rank sends per run, with N ranks on the axis: all-gather and
   * reduce-scatter (N-1) * count * element size, all-reduce
   * 2 * (N-1) * ceil(count / N) * element size. */
  int64_t sent_bytes;
  int64_t times; /* runs per step; 0: only in evaluation */
  /* Reductions that are exchanged together are consecutive sites, started one after
   * the other: the index of the first site and their number. If alone: its own index and 1. */
  int32_t bucket;
  int32_t bucket_size;
} ShaleSite;

/* A copy between device and host memory, for traces and reports. */
typedef struct {
  const char *name; /* unit, state or value that it moves */
  const char *node; /* source node of the model, or "" */
  int64_t bytes;
  int64_t times;   /* runs per step; 0: only in evaluation */
  int32_t to_host; /* 1: device to host; 0: host to device */
  int32_t pad_;
} ShaleTransfer;

/* A line of the memory plan; the sum of all lines is the planned peak per rank. */
typedef struct {
  const char *
      category; /* parameters, gradients, optimizer, activations, communication, workspace, fixed */
  const char *what;
  const char *space; /* "device" or "host" */
  int64_t bytes;
} ShalePlanLine;

/* A planned buffer, for --describe, --report-buffers and tests. */
typedef struct {
  const char *name;     /* source node or state */
  const char *category; /* as in ShalePlanLine */
  const char *space;    /* "state", "arena", "host state" or "host arena" */
  int64_t offset;
  int64_t bytes;
  int64_t padding; /* bytes of it that are padding */
} ShaleBuffer;

typedef struct ShaleRank ShaleRank; /* the runtime of this process; opaque to compiled code */

/* A buffer that a kernel reads or writes: `count` elements. */
typedef struct {
  int64_t count;
  int32_t type; /* ShaleType */
  int32_t pad_;
} ShaleOperand;

/* The buffers of the kernels of one name: what shale_launch gets in `args`. */
typedef struct {
  const char *name;
  const ShaleOperand *operands;
  int32_t operand_count;
  int32_t pad_;
} ShaleKernelOperands;

/* A kernel of ShaleProgram.device_code. */
typedef struct {
  const char *name; /* in the device code */
  int32_t threads;  /* per block */
  int32_t pad_;
} ShaleDeviceKernel;

/* A compiled function. `inputs` are in the order of ShaleProgram.inputs, `hyper` in
 * the order of .hyper, `metrics` in the order of the function's metric table. All are addresses
 * in the device's memory. */
typedef void (*ShaleFunction)(ShaleRank *rank, char *state, char *arena, const void *const *inputs,
                              const float *hyper, float *metrics);

typedef struct {
  int32_t abi_version;
  int32_t world_size;
  const char *model;     /* path of the model file */
  const char *target;    /* architecture of the device, or a list, as in --target after the colon;
                            checked at startup */
  const char *host;      /* architecture of the program's code on the host; checked at startup */
  const char *strategy;  /* none, optimizer, grad, full, hybrid */
  const char *optimizer; /* value of --optimizer */
  const char *describe;  /* text that --describe prints after the tables */
  int32_t axis_count;
  int32_t parameter_count;
  int32_t group_count;
  int32_t state_count;
  int32_t input_count;
  int32_t hyper_count;
  int32_t metric_count;      /* of step */
  int32_t eval_metric_count; /* of evaluate */
  int32_t site_count;
  int32_t plan_line_count;
  int32_t buffer_count;
  int32_t accumulate; /* micro-batches per step, at least 1 */
  int32_t kept_count;
  int32_t slot_count;
  int32_t foreign_flag_count;
  int32_t reduces_at_end; /* 1: gradients stay whole until the update and are reduce-scattered there
                             (ZeRO-1) */
  const ShaleAxis *axes;
  const ShaleParameter *parameters;
  const ShaleGroup *groups;
  const ShaleState *states;
  const ShaleInput *inputs;
  const char *const *slots; /* names of the optimizer's state per parameter; part of checkpoints */
  const char *const
      *foreign_flags; /* flags of other optimizers, without "--": they have no effect */
  const ShaleHyper *hyper;
  const char *const
      *metrics;                    /* loss, grad_norm, enable (1: the update was applied), and
                                      loss_scale if the loss is scaled: a run then continues after a skipped update */
  const char *const *eval_metrics; /* loss_sum, count, both over all ranks */
  const ShaleSite *sites;
  const ShalePlanLine *plan;
  const ShaleBuffer *buffers;
  const ShaleTransfer *transfers;
  /* Tensors of the model's state_dict that are not in `parameters`; training does not
   * change them. Type -1: only the name is known. */
  const ShaleParameter *kept;
  int64_t state_bytes;
  int64_t arena_bytes;
  int64_t host_state_bytes; /* state in host memory; 0 unless something is offloaded */
  int64_t host_arena_bytes;
  int64_t transfer_count;     /* copies between device and host memory in all functions */
  int64_t comm_scratch_bytes; /* the runtime's receive buffer; at least 128 bytes per
                                 rank of the largest axis, if that has two ranks */
  int64_t tokens_per_step;    /* of all ranks and micro-batches */
  int64_t
      flops_per_step; /* per rank: floating-point operations of the model, without recomputation */
  /* A step of K micro-batches runs accumulate_first, K - 2 times accumulate_next, and
   * `step` for the last micro-batch. K = 1: `step` only, the others are NULL. K = 2:
   * accumulate_next is NULL. Neither of the accumulate functions writes metrics. */
  ShaleFunction accumulate_first;
  ShaleFunction accumulate_next;
  ShaleFunction step;
  ShaleFunction evaluate; /* may be NULL */
  const void *constants;  /* read-only data of the functions; the runtime copies it to the device */
  int64_t constant_bytes;
  /* Machine code of a device other than the host, for its loader, and the kernels in it; NULL and
   * 0 if the host is the device. */
  const void *device_code;
  int64_t device_code_bytes;
  const ShaleDeviceKernel *const *device_kernels;
  int64_t device_kernel_count;
  int64_t attends;    /* 1: a function calls shale_attention */
  int64_t allow_tf32; /* 1: products of f32 may round their operands to TF32 */
  /* What --memory-limit leaves for a rank: in host memory, and in both memories together. 0: no
   * limit. */
  int64_t host_limit;
  int64_t total_limit;
  const ShaleKernelOperands *kernels; /* those that the functions launch, by name */
  int64_t kernel_count;
} ShaleProgram;

extern const ShaleProgram shale_program;

/* ---- Functions that compiled code calls. None returns after an error: the runtime reports it and
 * exits. */

/* A generated kernel of the host: processes rows [begin, end) of the buffers in `args`. */
typedef void (*ShaleKernel)(void *const *args, int64_t begin, int64_t end);

/* Sets the node of the model that the following launches come from, for traces. */
void shale_note(ShaleRank *rank, const char *node);

/* Runs a kernel. `name` is the kernel's name, for traces; `args` holds `inputs` buffers that it
 * reads, then `outputs` buffers that it writes. `space` (ShaleSpace) is where it runs: with
 * SHALE_SPACE_HOST the buffers are in host memory.
 * On the host `kernel` is a ShaleKernel. It runs over [0, rows), split among threads at multiples
 * of `grain` that depend only on rows, grain and the number of threads. On another device `kernel`
 * is a ShaleDeviceKernel, which runs with `rows` blocks. */
void shale_launch(ShaleRank *rank, const char *name, const void *kernel, void *const *args,
                  int32_t inputs, int32_t outputs, int64_t rows, int64_t grain, int32_t space);

/* Computes C[i][m,n] = op(A[i]) * op(B[i]) for i in [0, batch) on all threads, row-major, with
 * leading dimensions in elements. The matrices of a batch follow one another without gaps. A and B
 * have type `type`: SHALE_F32 or a 16-bit float. C has type `result_type`: `type` or SHALE_F32.
 * Sums are f32, rounded once. If `accumulate` is not 0, the product is added to C, which has type
 * SHALE_F32. */
void shale_gemm(ShaleRank *rank, int32_t transpose_a, int32_t transpose_b, int64_t batch, int64_t m,
                int64_t n, int64_t k, const void *a, int64_t lda, const void *b, int64_t ldb,
                void *c, int64_t ldc, int32_t type, int32_t result_type, int32_t accumulate);

/* Computes a product [m, n] of [m, k] and [k, n], or of transposes, of 16-bit floats of `type`
 * without gaps, and what `epilogue` says: with an operand `with` that has n elements, or m x n for
 * SHALE_EPILOGUE_GELU_GRAD. `before` is null, or receives the m x n values before the GELU. The
 * device's library computes all of it, or a product in c and then `kernel`, launched as by
 * shale_launch on c, `with`, c and, if it is not null, `before`. */
void shale_gemm_epilogue(ShaleRank *rank, int32_t transpose_a, int32_t transpose_b, int64_t m,
                         int64_t n, int64_t k, const void *a, const void *b, void *c, int32_t type,
                         int32_t epilogue, const void *with, void *before, const void *kernel,
                         int64_t rows, int64_t grain);

/* Computes attention of 16-bit floats of `type` on the device: query [batch, length, heads, depth],
 * key [batch, key_length, key_heads, depth], value [batch, key_length, key_heads, value_depth] to
 * result [batch, length, heads, value_depth] and lse [batch, heads, length], the f32 logarithm of
 * each row's sum of exponentials. Query head h reads key head h / (heads / key_heads). If `causal`
 * is not 0, length is key_length and position t sees positions up to t; if `window` is not 0 then,
 * only the last `window` of these. If `key` and `value` are NULL, `query` is [batch, length,
 * heads + 2 * key_heads, depth] and holds the heads of all three. The call may overwrite
 * `workspace_bytes` bytes of `workspace`. */
void shale_attention(ShaleRank *rank, int64_t batch, int64_t heads, int64_t key_heads,
                     int64_t length, int64_t key_length, int64_t depth, int64_t value_depth,
                     int32_t causal, int64_t window, float scale, int32_t type, const void *query,
                     const void *key, const void *value, void *result, float *lse, void *workspace,
                     int64_t workspace_bytes);
/* Computes the gradients of query, key and value, of their shapes, from what the forward pass read
 * and wrote, and the gradient of its result. If `deterministic` is not 0, every run gives the same
 * bits. If `key_gradient` and `value_gradient` are NULL, `query_gradient` is [batch, length, heads
 * + 2 * key_heads, depth] and holds the heads of all three. */
void shale_attention_gradient(ShaleRank *rank, int64_t batch, int64_t heads, int64_t key_heads,
                              int64_t length, int64_t key_length, int64_t depth,
                              int64_t value_depth, int32_t causal, int64_t window, float scale,
                              int32_t type, int32_t deterministic, const void *query,
                              const void *key, const void *value, const void *result,
                              const float *lse, const void *result_gradient, void *query_gradient,
                              void *key_gradient, void *value_gradient, void *workspace,
                              int64_t workspace_bytes);

/* Copies or zeroes bytes of buffers in one memory, in order with launches. */
void shale_copy(ShaleRank *rank, void *target, const void *source, int64_t bytes);
void shale_zero(ShaleRank *rank, void *target, int64_t bytes);

/* Returns scratch memory of the calling thread for a kernel: `offset` bytes into a block
 * of at least `bytes`. The block stays valid until the thread requests a larger one. */
void *shale_scratch(int64_t bytes, int64_t offset);

/* Computes C = alpha * op(A) * op(B) + beta * C in f32 on the calling thread only, for use inside a
 * kernel. */
void shale_gemm_thread(int32_t transpose_a, int32_t transpose_b, int64_t m, int64_t n, int64_t k,
                       float alpha, const float *a, int64_t lda, const float *b, int64_t ldb,
                       float beta, float *c, int64_t ldc);

/* Collectives: `site` indexes ShaleProgram.sites (axis and name). Start returns at
 * once; the buffers belong to the runtime until shale_wait(rank, site). All ranks start
 * collectives in the same order. Sums are in rank order, in f32: the bits do not depend
 * on timing. `count` is in elements, `type` a ShaleType. */

/* recv[c*count ..] = `send` of the rank with coordinate c. send may be recv + own*count. */
void shale_all_gather_start(ShaleRank *rank, int32_t site, const void *send, void *recv,
                            int64_t count, int32_t type);
/* recv[0..count) = sum over the axis' ranks of their send[own*count ..]. recv may be send +
 * own*count. */
void shale_reduce_scatter_start(ShaleRank *rank, int32_t site, const void *send, void *recv,
                                int64_t count, int32_t type);
/* recv[0..count) = sum of send[0..count); recv may be send. */
void shale_all_reduce_start(ShaleRank *rank, int32_t site, const void *send, void *recv,
                            int64_t count, int32_t type);
/* Blocks until the collective that was started at `site` is complete. */
void shale_wait(ShaleRank *rank, int32_t site);

/* Return this rank's state and arena blocks in host memory, and what kernels on the host read of
 * the function's inputs and `hyper`. */
void *shale_host_state(ShaleRank *rank);
void *shale_host_arena(ShaleRank *rank);
const void *const *shale_host_inputs(ShaleRank *rank);
const float *shale_host_hyper(ShaleRank *rank);

/* Returns the address of ShaleProgram.constants in the device's memory. */
const void *shale_constants(ShaleRank *rank);

/* Copies between device and host memory; `index` is below transfer_count. Start returns
 * at once; both buffers belong to the runtime until shale_transfer_wait(rank, index).
 * Copies run in the order in which they start, concurrently with kernels and collectives. */
void shale_transfer_start(ShaleRank *rank, int32_t index, void *target, const void *source,
                          int64_t bytes);
void shale_transfer_wait(ShaleRank *rank, int32_t index);

/* Returns this rank's coordinate on `axis`, an index into ShaleProgram.axes; 0 if `axis` is
 * negative. */
int64_t shale_coordinate(ShaleRank *rank, int32_t axis);
/* Writes the coordinate to a buffer, in order with launches. */
void shale_store_coordinate(ShaleRank *rank, int32_t axis, int64_t *target);

#ifdef __cplusplus
}
#endif

#endif /* SHALE_RUNTIME_H */
