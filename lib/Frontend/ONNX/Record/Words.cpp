//===- Words.cpp - The words of PyTorch's exporter ------------------------===//
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace shale::onnx;
using llvm::StringRef;

namespace {

struct Row {
  words::Trait trait;
  /// The versions whose files have these words.
  llvm::StringLiteral versions;
  llvm::StringLiteral kinds;
};

} // namespace

using words::Trait;

/// Kinds are ATen's operations (torch 2.9 to 2.15); `prims` and names with an overload
/// ("convert_element_type_default") are what torch.export's decompositions write.
static constexpr Row kRows[] = {
    {Trait::Moves, "2.9",
     "alias slice select view _unsafe_view reshape transpose permute t numpy_T mT unsqueeze squeeze "
     "expand expand_as repeat repeat_interleave clone contiguous to _to_copy type_as float detach "
     "getitem split split_with_sizes chunk unbind narrow flatten unflatten embedding index_select "
     "index movedim swapaxes convert_element_type_default _assert_tensor_metadata lift_fresh_copy "
     "ravel dropout native_dropout feature_dropout identity"},
    {Trait::Converts, "2.9", "type_as _to_copy to float convert_element_type_default"},
    {Trait::Turns, "2.9", "t transpose permute numpy_T mT movedim swapaxes"},
    {Trait::MakesContiguous, "2.9",
     "linear addmm mm matmul embedding layer_norm conv1d conv2d conv3d convolution"},
    {Trait::Creates, "2.9",
     "scalar_tensor_default scalar_tensor full zeros ones arange full_like zeros_like ones_like "
     "new_full new_zeros new_ones linspace eye"},
    {Trait::Masks, "2.9", "eq ne lt le gt ge isnan isinf"},
    {Trait::Computes, "2.9",
     "add sub rsub mul div pow matmul mm bmm mv addmm baddbmm linear einsum outer softmax sum mean "
     "var log_softmax cumsum lerp maximum where minimum clamp clamp_min clamp_max norm amax amin "
     "roll layer_norm cumprod linalg_vector_norm exp log sigmoid tanh neg abs sqrt rsqrt sin cos silu "
     "reciprocal square softplus log_sigmoid"},
    {Trait::IsRemoved, "onnxscript 0.5", "add sub mul div"},
    {Trait::IsSum, "onnxscript 0.5 to 0.7", "add sub"},
    {Trait::IsUnboundedAtZero, "2.9", "sqrt rsqrt log log2 log10 reciprocal div pow acos acosh"},
    {Trait::ReadsAsItIs, "2.9",
     "bilinear _trilinear conv3d convolution prelu scatter index_put floor_divide fmod remainder "
     "logaddexp atan2"},
    {Trait::IsGroupNorm, "2.9", "group_norm native_group_norm"},
    {Trait::IsBatchNorm, "2.9",
     "batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional"},
};

/// Returns the set of traits of each kind, a bit per trait.
static llvm::StringMap<uint32_t> readRows() {
  llvm::StringMap<uint32_t> traits;
  for (const Row &row : kRows) {
    llvm::SmallVector<StringRef> kinds;
    row.kinds.split(kinds, ' ');
    for (StringRef kind : kinds)
      traits[kind] |= uint32_t(1) << unsigned(row.trait);
  }
  return traits;
}

bool words::is(StringRef kind, Trait trait) {
  static const llvm::StringMap<uint32_t> traits = readRows();
  bool isMask = kind.starts_with("bitwise_") || kind.starts_with("logical_");
  return (trait == Trait::Masks && isMask) || (traits.lookup(kind) >> unsigned(trait) & 1);
}

/// Source: the signatures of ATen's operations.
int words::biasPlaceOf(StringRef kind) {
  return llvm::StringSwitch<int>(kind)
      .Case("addmm", 0)
      .Cases({"linear", "conv1d", "conv2d", "conv3d", "convolution"}, 2)
      .Case("layer_norm", 3)
      .Default(-1);
}

/// Source: the signatures of ATen's operations.
int words::attentionDropoutPlaceOf(StringRef kind) {
  return llvm::StringSwitch<int>(kind)
      .Case("scaled_dot_product_attention", 4)
      .Cases({"_scaled_dot_product_flash_attention", "_scaled_dot_product_flash_attention_for_cpu"},
             3)
      .Case("_scaled_dot_product_efficient_attention", 5)
      .Default(-1);
}

/// Source: onnxscript 0.7, function_libs/torch_lib/ops (functions that do not read an argument).
static constexpr words::LeftOut kLeftOut[] = {
    {"embedding", 3, "scale_grad_by_freq", "True", "Export with scale_grad_by_freq=False"},
    {"embedding_bag", 3, "scale_grad_by_freq", "True", "Export with scale_grad_by_freq=False"},
    {"avg_pool2d", 6, "divisor_override", "",
     "Leave it out of the model, and multiply by the size of the window divided by it"},
    {"avg_pool3d", 6, "divisor_override", "",
     "Leave it out of the model, and multiply by the size of the window divided by it"},
    {"scatter_reduce", 4, "reduce", "mean",
     "Write it as two sums, of the values and of ones, and divide them"},
};

llvm::ArrayRef<words::LeftOut> words::leftOutArguments() { return kLeftOut; }

/// Source: onnx.proto, TensorProto.DataType.
int words::dataTypeOf(StringRef name) {
  return llvm::StringSwitch<int>(name)
      .Case("torch.float32", 1)
      .Case("torch.int32", 6)
      .Case("torch.int64", 7)
      .Case("torch.bool", 9)
      .Case("torch.float16", 10)
      .Case("torch.float64", 11)
      .Case("torch.bfloat16", 16)
      .Default(0);
}

StringRef words::kindOf(StringRef target) {
  target.consume_front(kAten);
  return target.split('.').first;
}
