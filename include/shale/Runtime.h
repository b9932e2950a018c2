/* The C ABI between a compiled training program and Shale's runtime library.
 *
 * The compiler emits one object file that defines `shale_program` and the
 * functions it points to; the runtime (runtime/) defines every function below
 * and `main`. The header is plain C, includes nothing of LLVM, and changes only
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

#define SHALE_ABI_VERSION 6

/* How the runtime cuts matrix products for the library, which packs a piece into
 * buffers that it allocates: at most this many columns at once, and blocks of at
 * most this many rows and of this depth. The memory plan follows from them. */
#define SHALE_GEMM_COLUMNS 2016
#define SHALE_GEMM_BLOCK 384
/* Products of half types are widened piece by piece in a thread's scratch: of at
 * most this many rows and columns, SHALE_GEMM_BLOCK deep. */
#define SHALE_GEMM_PANEL 768

/* Exit codes of the program (and of shalec, where they apply). */
enum {
  SHALE_EXIT_OK = 0,
  SHALE_EXIT_USAGE = 64,      /* bad flags */
  SHALE_EXIT_DATA = 65,       /* bad or unsupported model, data or checkpoint */
  SHALE_EXIT_NO_INPUT = 66,   /* an input file is missing */
  SHALE_EXIT_UNAVAILABLE = 69, /* this machine lacks a device, a library or instructions */
  SHALE_EXIT_INTERNAL = 70,   /* a bug of Shale */
  SHALE_EXIT_IO = 74,         /* disk */
  SHALE_EXIT_PREEMPTED = 75,  /* stopped by a signal, state saved */
  SHALE_EXIT_PEER = 76,       /* a peer or a collective failed */
  SHALE_EXIT_NO_FIT = 78,     /* does not fit the memory limit */
  SHALE_EXIT_NON_FINITE = 93, /* non-finite loss or norm: do not requeue */
  SHALE_EXIT_INTERRUPTED = 130 /* Ctrl-C, state saved */
};

typedef enum {
  SHALE_F32 = 0,
  SHALE_F64 = 1,
  SHALE_BF16 = 2,
  SHALE_F16 = 3,
  SHALE_I64 = 4,
  SHALE_I32 = 5,
  SHALE_BOOL = 6 /* one byte, 0 or 1 */
} ShaleType;

/* What ranks along an axis share out: the batch (replica, and shard, over which state is split, too), or
 * single values (tensor). */
typedef enum { SHALE_AXIS_REPLICA = 0, SHALE_AXIS_SHARD = 1, SHALE_AXIS_TENSOR = 2 } ShaleAxisKind;

/* One axis of the mesh; the last axis of the table varies fastest over ranks. */
typedef struct {
  const char *name;
  int64_t size;
  int32_t kind; /* ShaleAxisKind */
  int32_t pad_;
} ShaleAxis;

typedef enum { SHALE_INIT_FILL = 0, SHALE_INIT_FILE = 1, SHALE_INIT_DATA = 2 } ShaleInitKind;

/* A file of initial values is told from another of its size by this much of each parameter. */
#define SHALE_HASHED_BYTES 4096

/* Where a parameter's initial value comes from. */
typedef struct {
  int32_t kind;       /* ShaleInitKind */
  int32_t transposed; /* file holds the transpose of a 2-D parameter */
  double fill;        /* SHALE_INIT_FILL: every element */
  const char *file;   /* as it was found at compile time; else beside the program. SHALE_INIT_DATA: the bytes themselves */
  int64_t file_size;  /* size of that file when it was compiled; 0: it was not there */
  int64_t offset;     /* bytes into the file */
  int64_t length;     /* bytes */
  int64_t hash;       /* XXH3 of the first SHALE_HASHED_BYTES of them at compile time; 0: not known */
  double mean;        /* of these values at compile time, from a sample where they are many */
  double deviation;   /* their standard deviation; negative: not known, the file was not there */
  int32_t type;       /* ShaleType of the file's elements; may differ from the parameter's */
  int32_t pad_;
} ShaleInit;

/* A parameter or buffer, whole, under PyTorch's name. */
typedef struct {
  const char *name;
  const char *const *aliases; /* other names of a tied parameter, NULL-terminated; may be NULL */
  int32_t type;               /* ShaleType of the whole, as files carry it */
  int32_t rank;
  const int64_t *dims;
  int64_t count;
  int32_t trained; /* 0: frozen or buffer */
  int32_t buffer;  /* 1: a buffer of the model, no parameter; 2: and none of its state_dict */
  ShaleInit init;
} ShaleParameter;

/* A parameter's place in a group's one-dimensional tensor. */
typedef struct {
  int32_t parameter; /* index into ShaleProgram.parameters */
  float decay;       /* factor on weight decay: 1 or 0 */
  int64_t offset;    /* elements into the group; starts are aligned to 64 bytes */
  int64_t count;     /* elements */
} ShaleSegment;

/* A group of a unit: parameters that are stored, gathered and reduced as one
 * 1-D tensor. Gaps between segments and the tail are padding and hold zeros. */
typedef struct {
  const char *name; /* unit and group, for messages */
  int64_t count;    /* elements, padding included; a multiple of its axis' size */
  int32_t segment_count;
  int32_t pad_;
  const ShaleSegment *segments;
} ShaleGroup;

typedef enum {
  SHALE_ROLE_PARAM = 0,
  SHALE_ROLE_MOMENT1 = 1, /* AdamW's first moment */
  SHALE_ROLE_MOMENT2 = 2, /* AdamW's second moment */
  SHALE_ROLE_MOMENTUM = 3, /* SGD's momentum buffer */
  SHALE_ROLE_LOSS_SCALE = 4 /* a scalar of the loss scaling; in checkpoints, not in weights */
} ShaleRole;

/* One piece of this rank's persistent state: all of a group or this rank's equal
 * slice of it. A group may have two pieces of one role: the wider one is what
 * checkpoints hold, the other a rounded copy. It lies at `offset` of the state block. The rank with coordinate c on
 * `axis` holds elements [c*local_count, (c+1)*local_count) of the group. */
typedef struct {
  int32_t group; /* index into ShaleProgram.groups */
  int32_t role;  /* ShaleRole */
  int32_t type;  /* ShaleType as stored */
  int32_t axis;  /* index into ShaleProgram.axes; -1: whole on every rank */
  int64_t offset; /* bytes into the state block; aligned to 64. The block in host
                     memory follows the device's: its bytes begin at state_bytes */
  int64_t local_count;
} ShaleState;

/* An input of the step. The runtime hands over this rank's part: the whole
 * micro-batch has dims[batch_dim] * (product of the data axes) rows, and the rank
 * with the r-th data coordinate (row-major over data axes) takes the r-th equal slice. */
typedef struct {
  const char *name;
  const char *binding; /* "tokens", "tokens+1", "ones", "arange" or "" (must be in the data file);
                          "all-ones": the program was compiled for ones, so the data file must have nothing else;
                          "seed", "step", "microbatch": an i64 scalar that random numbers are drawn from */
  int32_t type;
  int32_t rank;
  const int64_t *dims; /* of this rank's part */
  int32_t batch_dim;   /* -1: not split, the same on every rank */
  int32_t pad_;
  int64_t bound;   /* values of this integer input must be in [0, bound) or `ignored`; 0: not checked */
  int64_t ignored; /* the label that counts for nothing; 0 where there is none */
} ShaleInput;

typedef enum {
  SHALE_ALL_GATHER = 0,
  SHALE_REDUCE_SCATTER = 1,
  SHALE_ALL_REDUCE = 2
} ShaleCollectiveKind;

/* A collective of the compiled code, for messages, reports and the count of bytes. */
typedef struct {
  const char *name;    /* unit or value it moves */
  int32_t kind;        /* ShaleCollectiveKind */
  int32_t axis;        /* index into axes */
  /* What one rank sends when it runs once, with N ranks on the axis: all-gather
   * and reduce-scatter (N-1) * count * size of an element, all-reduce
   * 2 * (N-1) * ceil(count / N) * size. */
  int64_t sent_bytes;
  int64_t times; /* it runs in one step; 0: only in an evaluation */
  /* Reductions that are exchanged together are consecutive sites, started one after
   * the other: the first of them and how many there are. Alone: itself and 1. */
  int32_t bucket;
  int32_t bucket_size;
} ShaleSite;

/* A copy between device and host memory, for traces and reports. */
typedef struct {
  const char *name; /* unit, state or value it moves */
  const char *node; /* of the model, or "" */
  int64_t bytes;
  int64_t times;   /* it runs in one step; 0: only in an evaluation */
  int32_t to_host; /* else to the device */
  int32_t pad_;
} ShaleTransfer;

/* A line of the memory plan; the sum of all lines is the planned peak of a rank. */
typedef struct {
  const char *category; /* parameters, gradients, optimizer, activations, communication, workspace, fixed */
  const char *what;
  const char *space; /* "device" or "host" */
  int64_t bytes;
} ShalePlanLine;

/* A planned buffer, for the running program's own table (--describe, tests). */
typedef struct {
  const char *name;     /* source node or state */
  const char *category; /* as in ShalePlanLine */
  const char *space;    /* "state", "arena", "host state" or "host arena" */
  int64_t offset;
  int64_t bytes;
  int64_t padding; /* of these bytes */
} ShaleBuffer;

typedef struct ShaleRank ShaleRank; /* the runtime of this process; opaque to compiled code */

/* A compiled function. `inputs` in the order of ShaleProgram.inputs, `hyper` in
 * the order of .hyper, `metrics` in the order of the function's metric table. */
typedef void (*ShaleFunction)(ShaleRank *rank, char *state, char *arena,
                              const void *const *inputs, const float *hyper,
                              float *metrics);

typedef struct {
  int32_t abi_version;
  int32_t world_size;
  const char *model;     /* path of the model file */
  const char *target;    /* e.g. "x86-64-v4": checked against this CPU at start */
  const char *strategy;  /* none, optimizer, grad, full, hybrid */
  const char *optimizer; /* adamw, sgd */
  const char *describe;  /* text that --describe prints after its own tables */
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
  int32_t accumulate; /* micro-batches a step, at least 1 */
  int32_t kept_count;
  int32_t reduces_at_end; /* 1: gradients stay whole until the update and are reduced to slices there (ZeRO-1) */
  const ShaleAxis *axes;
  const ShaleParameter *parameters;
  const ShaleGroup *groups;
  const ShaleState *states;
  const ShaleInput *inputs;
  /* lr, beta1, beta2, eps, weight_decay, momentum, clip_grad_norm (0: off),
   * bias1 = 1 - beta1^t, bias2 = 1 - beta2^t with t = updates applied so far + 1,
   * step (from 0) */
  const char *const *hyper;
  const char *const *metrics;      /* loss, grad_norm, enable (1: the update was applied), and
                                      loss_scale where the loss is scaled: then a run goes on after a skip */
  const char *const *eval_metrics; /* loss_sum, count: over all ranks */
  const ShaleSite *sites;
  const ShalePlanLine *plan;
  const ShaleBuffer *buffers;
  const ShaleTransfer *transfers;
  /* What the model's state_dict has beside `parameters` and the step does not change.
   * Type -1: only the name is known. */
  const ShaleParameter *kept;
  int64_t state_bytes;
  int64_t arena_bytes;
  int64_t host_state_bytes; /* in host memory, when something is offloaded */
  int64_t host_arena_bytes;
  int64_t transfer_count; /* copies between the memories, in all functions */
  int64_t comm_scratch_bytes; /* the runtime's receive buffer; at least 128 bytes for
                                 each rank of the largest axis, if that has two */
  int64_t tokens_per_step;    /* of the whole program, all micro-batches */
  int64_t flops_per_step;     /* of one rank: the model's operations, what is computed again not counted */
  /* A step of K micro-batches is accumulate_first, K - 2 times accumulate_next, and
   * step with the last one; K = 1: step alone, the others are NULL. K = 2:
   * accumulate_next is NULL. Neither writes metrics. */
  ShaleFunction accumulate_first;
  ShaleFunction accumulate_next;
  ShaleFunction step;
  ShaleFunction evaluate; /* may be NULL */
} ShaleProgram;

extern const ShaleProgram shale_program;

/* ---- what compiled code calls. None returns on error: the runtime reports and exits. */

/* A generated kernel: works on rows [begin, end) of what `args` describe. */
typedef void (*ShaleKernel)(void *const *args, int64_t begin, int64_t end);

/* What is launched next comes from this node of the model, for traces. */
void shale_note(ShaleRank *rank, const char *node);

/* Runs `kernel` over [0, rows), cut at multiples of `grain` that depend only on
 * rows, grain and the number of threads. `name` is the kernel's, for traces;
 * `args` are `inputs` buffers that it reads, then `outputs` that it writes. */
void shale_launch(ShaleRank *rank, const char *name, ShaleKernel kernel,
                  void *const *args, int32_t inputs, int32_t outputs,
                  int64_t rows, int64_t grain);

/* C[m,n] = op(A) * op(B), on all threads. A and B are of `type`, SHALE_F32 or a
 * half type, C of `result_type`, which is that or SHALE_F32. Sums are f32, rounded
 * once. */
void shale_gemm(ShaleRank *rank, int32_t transpose_a, int32_t transpose_b,
                int64_t m, int64_t n, int64_t k, const void *a, int64_t lda,
                const void *b, int64_t ldb, void *c, int64_t ldc, int32_t type,
                int32_t result_type);

/* Memory of the calling thread for a kernel: `offset` bytes into a block of at
 * least `bytes`, which keeps its place until the thread asks for a larger one. */
void *shale_scratch(int64_t bytes, int64_t offset);

/* The product on the calling thread only, for use inside a kernel. */
void shale_gemm_thread(int32_t transpose_a, int32_t transpose_b, int64_t m,
                       int64_t n, int64_t k, float alpha, const float *a,
                       int64_t lda, const float *b, int64_t ldb, float beta,
                       float *c, int64_t ldc);

/* Collectives: `site` indexes ShaleProgram.sites (axis and name); start returns at
 * once, buffers belong to the runtime until shale_wait(rank, site). Ranks start
 * them in one order. Sums are in rank order, in f32: the bits do not depend on timing. */

/* recv[c*count ..] = send of coordinate c. send may be recv + own*count. */
void shale_all_gather_start(ShaleRank *rank, int32_t site, const void *send,
                            void *recv, int64_t count, int32_t type);
/* recv[0..count) = sum over coordinates of their send[own*count ..]. recv may be send + own*count. */
void shale_reduce_scatter_start(ShaleRank *rank, int32_t site, const void *send,
                                void *recv, int64_t count, int32_t type);
/* recv[0..count) = sum of send[0..count); recv may be send. */
void shale_all_reduce_start(ShaleRank *rank, int32_t site, const void *send,
                            void *recv, int64_t count, int32_t type);
void shale_wait(ShaleRank *rank, int32_t site);

/* The blocks in host memory. */
void *shale_host_state(ShaleRank *rank);
void *shale_host_arena(ShaleRank *rank);

/* Copies between device and host memory, `index` below transfer_count: start returns
 * at once, both buffers belong to the runtime until shale_transfer_wait(rank, index).
 * They run in the order in which they start, beside kernels and collectives. */
void shale_transfer_start(ShaleRank *rank, int32_t index, void *target,
                          const void *source, int64_t bytes);
void shale_transfer_wait(ShaleRank *rank, int32_t index);

/* This rank's coordinate on an axis. */
int64_t shale_coordinate(ShaleRank *rank, int32_t axis);

#ifdef __cplusplus
}
#endif

#endif /* SHALE_RUNTIME_H */
