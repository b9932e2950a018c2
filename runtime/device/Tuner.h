// Algorithms of matmuls. A device whose library has several for one matmul times them
// before the first step; the program keeps the choices (MatmulFile.h).
#ifndef SHALE_RUNTIME_DEVICE_TUNER_H
#define SHALE_RUNTIME_DEVICE_TUNER_H

#include "runtime/device/Device.h"

#include <map>
#include <string>

namespace shale::rt {

/// The algorithm of a matmul. That of a matmul with an epilogue may be to compute matmul and
/// epilogue one after the other, which is also the default.
struct Choice {
  std::string algorithm; // opaque to all but the device: hexadecimal digits
  // Microseconds of the library's first proposal, or of a matmul and its epilogue apart, and of
  // the chosen algorithm; 0: not timed.
  double first = 0, best = 0;
};

/// By MatmulTuner::keyOf.
using Choices = std::map<std::string, Choice>;

class MatmulTuner {
public:
  virtual ~MatmulTuner() = default;

  /// Returns what algorithms depend on besides the matmul, as text: library, its version, GPU.
  virtual std::string machine() const = 0;
  /// Returns the key that selects an algorithm: shape, types and the like. Matmuls with one key
  /// have the same algorithm.
  virtual std::string keyOf(const Matmul &matmul) const = 0;

  /// Gives choose() memory that it may overwrite until end(), so that timing does not change the
  /// state: operands in this memory are filled with random numbers, and results outside of it are
  /// written into it instead.
  virtual void begin(char *scratch, int64_t bytes) = 0;
  /// Times the algorithms of a matmul with its own operands, in turn. Failure of the device ends
  /// the process. The library's first proposal is chosen (for a matmul with an epilogue, computing
  /// both one after the other) unless another algorithm is faster by a margin. If `timed` is false
  /// it is chosen without timing.
  virtual Choice choose(const Matmul &matmul, bool timed) = 0;
  /// Zeroes the memory of begin().
  virtual void end() = 0;
  /// Returns the seconds that choose() took on the device, all together.
  virtual double seconds() const = 0;

  /// Lets the matmuls of this key use an algorithm. Returns false if the device cannot run it.
  virtual bool use(const Matmul &matmul, const std::string &algorithm) = 0;
};

} // namespace shale::rt

#endif
