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

#define SHALE_ABI_VERSION 27

/* Limits on the pieces into which the runtime cuts an f32 matmul on a CPU. The
 * host's matrix library packs each piece into buffers that it allocates: at most
 * SHALE_GEMM_COLUMNS columns per call, in blocks of at most SHALE_GEMM_BLOCK rows and
 * that depth. The memory plan depends on both. */
#define SHALE_GEMM_COLUMNS 2016
#define SHALE_GEMM_BLOCK 384
/* Matmuls of 16-bit floats are widened to f32 piece by piece in a thread's scratch
 * buffer: at most this many rows and columns, SHALE_GEMM_BLOCK deep. */
#define SHALE_GEMM_PANEL 768

/* Bytes of device memory for the workspace of a GPU's matrix library: more than its
 * algorithms took in docs/measurements/h200.md, section D. */
#define SHALE_BLAS_WORKSPACE (32 << 20)

/* The most blocks of threads on which a GPU's communication library may run a collective, for
 * each communicator. Each takes a multiprocessor while the collective runs, and memory, which the
 * plan counts. */
#define SHALE_COMM_BLOCKS 16

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

/* Where memory is, and where work on it runs: on the device or on the host. */
typedef enum { SHALE_SPACE_DEVICE = 0, SHALE_SPACE_HOST = 1 } ShaleSpace;

typedef enum {
  SHALE_F32 = 0,
  SHALE_F64 = 1,
  SHALE_BF16 = 2,
  SHALE_F16 = 3,
  SHALE_I64 = 4,
  SHALE_I32 = 5,
  SHALE_BOOL = 6,    /* one byte, 0 or 1 */
  SHALE_F8_E4M3 = 7, /* 8-bit floats of matmuls: without infinity, largest 448 */
  SHALE_F8_E5M2 = 8, /* largest 57344 */
  SHALE_INT8_BLOCKS =
      9,             /* words of blocks of 8-bit integers with a scale, which collectives move */
  SHALE_NO_TYPE = -1 /* of a tensor of which only the name is known */
} ShaleType;

/* What is done to a matmul [m, n] before it is stored. GELU is the approximation with
 * tanh. */
typedef enum {
  SHALE_EPILOGUE_BIAS = 0,     /* a bias [n] is added to each row */
  SHALE_EPILOGUE_GELU = 1,     /* a bias [n] is added, then GELU is applied */
  SHALE_EPILOGUE_GELU_GRAD = 2 /* it is multiplied by the derivative of GELU at values [m, n] */
} ShaleEpilogue;

typedef enum { SHALE_INIT_FILL = 0, SHALE_INIT_FILE = 1, SHALE_INIT_DATA = 2 } ShaleInitKind;

/* What is hashed of each parameter to check that a file of initial values is unchanged: all of at
 * most SHALE_HASHED_BYTES bytes. Of a longer one, SHALE_HASHED_BLOCKS blocks of equal size,
 * together SHALE_HASHED_BYTES: block k begins at byte k * (length - block size) /
 * (SHALE_HASHED_BLOCKS - 1). */
#define SHALE_HASHED_BYTES (1 << 20)
#define SHALE_HASHED_BLOCKS 64

typedef enum {
  SHALE_ROLE_PARAM = 0,
  SHALE_ROLE_LOSS_SCALE =
      1, /* a scalar of the loss scaling; stored in checkpoints, not exported with the weights */
  SHALE_ROLE_RESIDUAL = 2, /* what a rank has not sent yet of its gradients: the part of one rank of
                              a value that all axes divide; stored in checkpoints, not exported */
  SHALE_ROLE_SLOT = 3      /* this and above: state of the optimizer, the role - SHALE_ROLE_SLOT of
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
  SHALE_HYPER_NORM_LIMIT = 7,      /* the largest gradient norm of a step that updates; infinity: no
                                      limit. A larger norm makes the step change nothing */
  SHALE_HYPER_OWN_RATE = 8 /* of the step, by the schedule with base in the place of --lr; the
                              learning rate if base is 0 */
} ShaleHyperSource;

typedef enum {
#define SHALE_COLLECTIVE(NAME, Name, text, number, sends, receives, sums) SHALE_##NAME = number,
#include "shale/Collectives.def"
#undef SHALE_COLLECTIVE
} ShaleCollectiveKind;

/* The words of shale/Words.def. */
typedef enum {
#define SHALE_BINDING(NAME, Name, text, number) SHALE_BINDING_##NAME = number,
#include "shale/Words.def"
} ShaleBinding;

typedef enum {
#define SHALE_CATEGORY(NAME, Name, text, number) SHALE_CATEGORY_##NAME = number,
#include "shale/Words.def"
} ShaleCategory;

typedef enum {
#define SHALE_BLOCK(NAME, Name, text, number) SHALE_BLOCK_##NAME = number,
#include "shale/Words.def"
} ShaleBlock;

typedef struct ShaleRank ShaleRank; /* the runtime of this process; opaque to compiled code */

/* A compiled function. `inputs` are in the order of ShaleProgram.inputs, `hyper` in
 * the order of .hyper, `metrics` in the order of the function's metric table. All are addresses
 * in the device's memory. */
typedef void (*ShaleFunction)(ShaleRank *rank, char *state, char *arena, const void *const *inputs,
                              const float *hyper, float *metrics);

/* A generated kernel of the host: processes rows [begin, end) of the buffers in `args`. */
typedef void (*ShaleKernel)(void *const *args, int64_t begin, int64_t end);

/* The structs of Structs.def. */
#define SHALE_STRUCT(Name) typedef struct {
#define SHALE_NUMBER(Type, Name) Type Name;
#define SHALE_WORD(Enum, Name) int32_t Name;
#define SHALE_ADDRESS(Type, Name) Type *Name;
#define SHALE_TABLE(Type, Name, Count)                                                             \
  Type const *Name;                                                                                \
  int64_t Count;
#define SHALE_CODE(Type, Name) Type Name;
#define SHALE_ROW(Struct, Name) Struct Name;
#define SHALE_END(Name)                                                                            \
  }                                                                                                \
  Name;
#include "shale/Structs.def"

extern const ShaleProgram shale_program;

/* The functions of Calls.def. */
#define SHALE_CALL(Result, Name, Type, First) Result Name(Type First
#define SHALE_ARGUMENT(Type, Name) , Type Name
#define SHALE_CALL_END(Name) );
#include "shale/Calls.def"

#ifdef __cplusplus
}
#endif

#endif /* SHALE_RUNTIME_H */
