// The device that runs compiled functions: its memory, its work, and copies between its
// memory and the host's. A device is a folder under runtime/device with one class.
//
// Work is in the order of the calls: a launch sees the results of those before it. Only
// copies and collectives run beside it, between their start and their wait. What the
// process reads or writes itself (inputs, state, checkpoints) passes through read() and
// write(), because device memory need not be in its address space.
#ifndef SHALE_RUNTIME_DEVICE_DEVICE_H
#define SHALE_RUNTIME_DEVICE_DEVICE_H

#include "runtime/core/Error.h"
#include "runtime/core/Types.h"
#include "shale/Runtime.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace shale::rt {

/// A zeroed block of memory, at least 64-byte aligned, released on destruction.
class Memory {
public:
  virtual ~Memory() = default;
  /// Address in its space; null for a block without bytes.
  char *data() const { return start; }
  int64_t size() const { return length; }

protected:
  char *start = nullptr;
  int64_t length = 0;
};

/// A generated kernel, as for shale_launch. `args` holds `count` buffers and need not outlive the
/// call. With SHALE_SPACE_HOST the kernel runs on the host, on buffers in host memory.
struct Launch {
  const void *kernel;
  void *const *args;
  int32_t count;
  int64_t rows, grain;
  ShaleSpace space;
};

/// Returns "bias", "gelu" or "gelu gradient".
inline const char *nameOf(ShaleEpilogue kind) {
  return kind == SHALE_EPILOGUE_BIAS   ? "bias"
         : kind == SHALE_EPILOGUE_GELU ? "gelu"
                                       : "gelu gradient";
}

/// The op that a matmul's result passes through before it is stored in c, as in
/// shale_gemm_epilogue.
struct Epilogue {
  ShaleEpilogue kind = SHALE_EPILOGUE_BIAS;
  const void *with = nullptr; // null: there is no epilogue
  void *before = nullptr;     // null: not stored
  const void *kernel = nullptr;
  int64_t rows = 0, grain = 1;

  explicit operator bool() const { return with; }
};

/// The type of b, and the factors on a and b, of a matmul of 8-bit floats. The factors lie in the
/// device's memory.
struct Scaling {
  Dtype typeB = Dtype::F8E4M3;
  const float *a = nullptr, *b = nullptr; // null: the matmul is not of 8-bit floats
  explicit operator bool() const { return a; }
};

/// The groups of rows of a matmul: group e has rows ends[e - 1], or 0, to ends[e] - 1. b has one
/// matrix for each group or, if a is transposed, c has.
struct Groups {
  const void *ends = nullptr; ///< of int64_t or int32_t, in the device's memory
  bool wide = false;
  int64_t count = 0;
  explicit operator bool() const { return ends; }
};

/// c = alpha op(a) op(b) + beta c, row-major: op(a) is m x k, op(b) k x n, c m x n, with leading
/// dimensions in elements. a and b are both f32 or the same 16-bit float. For 16-bit floats, c has
/// that type or f32, alpha is 1, and beta is 0 unless c has type f32. With tf32, operands of f32
/// may be rounded to TF32. With `scaling`, a and b are 8-bit floats, a is not transposed and b is,
/// alpha is 1, beta 0, and c f32 or a 16-bit float. The matrices of a batch follow one another
/// without gaps. With an epilogue, c has a 16-bit type, and there is one matrix. With groups there
/// is one batch, beta is 0, and the sizes are those of one group with all rows.
struct Matmul {
  bool transposeA, transposeB;
  int64_t m, n, k;
  float alpha;
  const void *a;
  int64_t lda;
  const void *b;
  int64_t ldb;
  float beta;
  void *c;
  int64_t ldc;
  Dtype type = Dtype::F32, resultType = Dtype::F32;
  int64_t batch = 1;
  bool tf32 = false;
  Epilogue epilogue = {};
  Scaling scaling = {};
  Groups groups = {};

  Dtype typeOfB() const { return scaling ? scaling.typeB : type; }
  /// Returns the matmul without its epilogue.
  Matmul alone() const {
    Matmul matmul = *this;
    matmul.epilogue = {};
    return matmul;
  }
  /// Passes the kernel of the epilogue to `launch`. The kernel reads c and writes it.
  template <typename Launcher> void launchEpilogue(const Launcher &launch) const {
    void *args[] = {c, const_cast<void *>(epilogue.with), c, epilogue.before};
    launch(Launch{epilogue.kernel, args, epilogue.before ? 4 : 3, epilogue.rows, epilogue.grain,
                  SHALE_SPACE_DEVICE});
  }
};

/// output = softmax(scale * query key^T) value for each batch row and head, or its gradient. Query
/// head h reads key head h / (heads / keyHeads).
struct Attention {
  int64_t batch, heads, keyHeads;
  int64_t length, keyLength; // positions of query and output; of key and value
  int64_t depth, valueDepth; // features of query and key; of value and output
  bool causal;               // position t sees positions s <= t + (keyLength - length)
  int64_t window = 0;        // of these the last `window`; 0: all
  bool deterministic;        // gradient: the same bits in every run
  float scale;
  Dtype type; // of all tensors: bf16 or f16
  /// Strides are in elements: of batch row, head, position and feature. The last is 1.
  struct Tensor {
    void *data = nullptr;
    int64_t strides[4] = {};
  };
  Tensor query, key, value, output;
  /// f32 [batch, heads, length], dense: the natural logarithm of each row's sum of exponentials.
  /// The forward pass writes it, unless it is null; the gradient reads it.
  float *lse = nullptr;
  /// The gradients. They are null in a call of the forward pass.
  Tensor outputGradient, queryGradient, keyGradient, valueGradient;
  void *workspace; // device memory that the call may overwrite
  int64_t workspaceBytes;

  bool isGradient() const { return queryGradient.data; }
};

class MatmulTuner;

/// A point in the device's work that the process can wait for.
class Mark {
public:
  virtual ~Mark() = default;
  /// Moves the mark behind all work that is enqueued.
  virtual void set() = 0;
  /// Returns when the work before the mark is done; at once if it was never set.
  virtual void wait() = 0;
};

class Device {
public:
  virtual ~Device() = default;

  /// Returns what a user calls it: "cpu (x86-64-v4)".
  virtual std::string describe() const = 0;
  /// Whether device memory is host memory, so that the process may access it directly.
  virtual bool sharesMemory() const = 0;
  /// Whether the device has collectives on its memory (connectDevices).
  virtual bool hasCollectives() const { return false; }
  /// Whether calls return before their work is done, so that it pays to run ahead of it.
  virtual bool runsAhead() const { return false; }

  /// Returns what times the algorithms of matmuls (Tuner.h); null if there is nothing to choose.
  virtual MatmulTuner *tuner() { return nullptr; }

  /// Returns a JSON object for --report-device: "blocks" of device memory in the order of their
  /// allocation, each with what it is for ("what"), its "bytes" and those by which the driver's
  /// count of memory in use grew ("counted"); and the bytes of the device that are in use now
  /// ("used"), by any process. Empty if the device shares the memory of the host.
  virtual std::string reportMemory() { return "{}"; }

  // ---- memory; failure throws

  /// Allocates a block in the device's memory, or in host memory that the device copies from and to
  /// and that the process may read and write directly. Fails with exit code 78 if there is no room.
  /// `what` names the block in messages.
  virtual std::unique_ptr<Memory> allocate(ShaleSpace space, int64_t bytes, const char *what) = 0;
  /// Copy between device or host memory and memory of the process, in order with work. read() is
  /// complete on return; `source` of write() may change after it.
  virtual void read(void *target, const char *source, int64_t bytes) = 0;
  virtual void write(char *target, const void *source, int64_t bytes) = 0;

  // ---- work of compiled code; failure ends the process

  virtual void launch(const Launch &launch) = 0;
  virtual void multiply(const Matmul &matmul) = 0;
  /// Fails with exit code 78 if the workspace is too small, and 69 if the device's library does not
  /// compute such an attention.
  virtual void attend(const Attention &) {
    die(SHALE_EXIT_INTERNAL, "this device has no attention of its own");
  }
  /// Copies within one memory.
  virtual void copy(void *target, const void *source, int64_t bytes) = 0;
  /// Copies between device memory and host memory of allocate(), in order with launches. The call
  /// may return before the copy is done.
  virtual void copyAcross(void *target, const void *source, int64_t bytes) = 0;
  /// Sets every byte of a range.
  virtual void fill(void *target, int byte, int64_t bytes) = 0;
  /// Stores a number in device memory.
  virtual void store(int64_t *target, int64_t value) = 0;
  /// Starts a copy between device and host memory; `index` is below transfer_count. At most one
  /// copy of an index may be in flight.
  virtual void startCopy(int32_t index, void *target, const void *source, int64_t bytes) = 0;
  /// Makes all work that is enqueued later wait for a copy.
  virtual void waitCopy(int32_t index) = 0;
  /// Returns when all work that is enqueued is done.
  virtual void finish() = 0;
  virtual std::unique_ptr<Mark> makeMark() = 0;
  /// Runs a compiled function, which `body` calls, in order with other work. A device may record
  /// the work of one call and replay it in place of later calls of the same function. With
  /// `observed` it calls `body` each time, so that each call that the function makes can be
  /// observed.
  virtual void call(ShaleFunction function, bool observed, const std::function<void()> &body) = 0;
};

struct DeviceOptions {
  int localRank = 0;     // among the ranks of the host
  std::string libraries; // folder that is searched first for the device's libraries
  bool graphs = true;    // whether calls may be replayed
};

/// Throws with exit code 69 if this machine cannot run the program, and 64 if the program has no
/// code for the device.
void checkDevice(const ShaleProgram &program, const DeviceOptions &options);

/// Opens the device that the program was compiled for.
std::unique_ptr<Device> openDevice(const ShaleProgram &program, const DeviceOptions &options);

} // namespace shale::rt

#endif
