//===- Policies.h - Values of flags and of passes' options ----------------===//
//
// A value has one text, which users type for shalec and for shale-opt. Each type here has
//   std::string parseText(StringRef text, T &value);  // returns an error, or an empty string
//   std::string textOf(const T &value);               // a text that parses to the value
// so that a text is parsed once and nothing depends on strings from there on.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_SUPPORT_POLICIES_H
#define SHALE_SUPPORT_POLICIES_H

#include "dialects/dist/Dist.h"
#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace shale {

namespace nn {
struct Optimizer;
}

/// Which state is sliced over ranks. Hybrid is full on a mesh that has a replica axis.
enum class Sharding { None, Optimizer, Grad, Full, Hybrid };
/// Returns the strategy of a module with this sharding.
dist::Strategy strategyOf(Sharding sharding);

/// Types of parameters at use, of sums of gradients and of buffers.
enum class FloatKind { F32, BF16, F16 };
/// The type of parameters at rest; None: that of their use.
enum class MasterKind { F32, None };
/// How a new parameter is rounded to the type in which it is kept.
enum class RoundingKind { Nearest, Stochastic };
/// Types of the optimizer's state.
enum class MomentKind { F32, BF16 };

/// Types of the operands of matmuls with parameters; Param: that of their use.
enum class MatmulKind { Param, FP8 };
/// The type in which data are sent: as they are, as 8-bit integers with a scale per block, or as
/// floats.
enum class WireKind { Same, Encoded, BF16, F16, F32 };
/// Types of what ranks send: `none`, or a list of `gather=int8` for gathers of parameters,
/// `reduce=int8` for sums of gradients and `tensor=f32` for sums over tensor axes.
struct WireTypes {
  WireKind gather = WireKind::Same, reduce = WireKind::Same, tensor = WireKind::Same;
  /// How, where they are encoded.
  dist::Encoding gatherAs = dist::Encoding::Int8, reduceAs = dist::Encoding::Int8;
  bool any() const {
    return gather != WireKind::Same || reduce != WireKind::Same || tensor != WireKind::Same;
  }
  /// Whether parameters are gathered as 16-bit floats.
  bool gathersFloats() const { return gather == WireKind::BF16 || gather == WireKind::F16; }
};

/// When a bucket of gradients is reduced: while the next one is made, or before that.
enum class ReductionOrder { Overlap, Memory };

/// The bytes of gradients that are reduced together: a size, or `auto`, the strategy's number.
struct BucketSize {
  std::optional<int64_t> bytes;
};

/// The default, PyTorch's: DDP fills buckets of 25 MiB; FSDP reduces one unit at a time (0), so
/// that no gradient stays whole longer than its unit.
int64_t defaultBucketBytes(dist::Strategy strategy);

/// How attention is computed: by the target's library where it can, or by generated kernels.
enum class AttentionKind { Auto, Generated };

/// Which modules are gathered at once: `block`, `class:NAME`, `size:100M`, `match:REGEX`.
struct UnitPolicy {
  enum Kind { Block, Class, Size, Match };
  Kind kind = Block;
  /// Size: the least number of elements of a unit.
  int64_t size = 0;
  /// Class: the name of a class; Match: a regular expression.
  std::string name;
};

/// What is computed again rather than kept: `none`, `block[:FRACTION]`, `selective`, `class:NAME`,
/// `match:REGEX`, or `auto`: the planner chooses.
struct RecomputePolicy {
  enum Kind { None, Block, Selective, Class, Match, Auto };
  Kind kind = None;
  /// Block: the fraction of blocks.
  double fraction = 1;
  /// Class: the name of a class; Match: a regular expression.
  std::string name;
};

/// The fraction of bytes of each kind of memory that is kept on the host, the largest tensors
/// first: `none`, `all`, or a list of `params`, `grads`, `optimizer` and `activations`, each with
/// `:FRACTION` (0 to 1) or without. The states of one parameter's optimizer stay together.
struct OffloadPolicy {
  double params = 0, grads = 0, optimizer = 0, activations = 0;
  bool any() const { return params + grads + optimizer + activations > 0; }
};

/// The rows of logits that exist at once while a loss is computed: `off`: all; a number; `auto`:
/// the target's number if all logits take 64 MiB or more, else all.
struct LossChunk {
  enum Kind { Auto, Off, Rows };
  Kind kind = Auto;
  int64_t rows = 0;
};

/// Whether tensor axes split rows of activations between matmuls; auto: where that is possible.
enum class SequenceParallel { Auto, On, Off };

/// Factors on scalars of updates, by parameter: `REGEX=X`, separated by commas. A comma within a
/// regular expression is part of it.
struct UpdateScales {
  std::vector<std::pair<std::string, double>> entries;
};

/// Optimizers by parameter: `REGEX=NAME`, separated by commas. A comma within a regular expression
/// is part of it.
struct OptimizerChoices {
  std::vector<std::pair<std::string, std::string>> entries;
};

/// How tensor axes split parameters: `REGEX=column|row|whole`, separated by commas. A comma within
/// a regular expression is part of it. By default nothing is said of any parameter.
struct TensorPlan {
  std::vector<std::pair<std::string, dist::TensorSplit>> entries;
};

std::string parseText(llvm::StringRef text, Sharding &value);
std::string parseText(llvm::StringRef text, FloatKind &value);
std::string parseText(llvm::StringRef text, MasterKind &value);
std::string parseText(llvm::StringRef text, RoundingKind &value);
std::string parseText(llvm::StringRef text, MomentKind &value);
std::string parseText(llvm::StringRef text, MatmulKind &value);
std::string parseText(llvm::StringRef text, WireTypes &value);
std::string parseText(llvm::StringRef text, ReductionOrder &value);
std::string parseText(llvm::StringRef text, BucketSize &value);
std::string parseText(llvm::StringRef text, AttentionKind &value);
std::string parseText(llvm::StringRef text, UnitPolicy &value);
std::string parseText(llvm::StringRef text, RecomputePolicy &value);
std::string parseText(llvm::StringRef text, OffloadPolicy &value);
std::string parseText(llvm::StringRef text, LossChunk &value);
std::string parseText(llvm::StringRef text, TensorPlan &value);
std::string parseText(llvm::StringRef text, UpdateScales &value);
std::string parseText(llvm::StringRef text, OptimizerChoices &value);
std::string parseText(llvm::StringRef text, SequenceParallel &value);
std::string parseText(llvm::StringRef text, const nn::Optimizer *&value);

std::string textOf(Sharding value);
std::string textOf(FloatKind value);
std::string textOf(MasterKind value);
std::string textOf(RoundingKind value);
std::string textOf(MomentKind value);
std::string textOf(MatmulKind value);
std::string textOf(WireTypes value);
std::string textOf(ReductionOrder value);
std::string textOf(BucketSize value);
std::string textOf(AttentionKind value);
std::string textOf(const UnitPolicy &value);
std::string textOf(const RecomputePolicy &value);
std::string textOf(const OffloadPolicy &value);
std::string textOf(const LossChunk &value);
std::string textOf(const TensorPlan &value);
std::string textOf(const UpdateScales &value);
std::string textOf(const OptimizerChoices &value);
std::string textOf(SequenceParallel value);
std::string textOf(const nn::Optimizer *value);

} // namespace shale

#endif // SHALE_SUPPORT_POLICIES_H
