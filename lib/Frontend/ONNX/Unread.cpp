//===- Unread.cpp - Attributes and operands that a handler did not read ---===//
//
// A newer operator set, or a newer ONNX Runtime, adds attributes and operands to
// an operator. A handler that does not know them would import another operator,
// so they are refused, except for those of the tables here.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Building.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::min();

/// Whether a list of words has a word.
bool hasWord(StringRef list, StringRef word) {
  return llvm::is_contained(llvm::split(list, ' '), word);
}

/// Attributes that a handler need not read.
struct WithoutEffect {
  StringLiteral domain, ops, attributes;
  /// The integer that it must be; kAny: every value.
  int64_t only = kAny;
  /// The string that it must be.
  StringLiteral text = "";
};

constexpr StringLiteral kStandard = "", kRuntime = "com.microsoft";

constexpr WithoutEffect kWithoutEffect[] = {
    // The softmax computes in 32 bits or more, whatever the operands' type.
    {kStandard, "Attention", "softmax_precision"},
    // Apply to 8-bit floats, which no value has.
    {kStandard, "Cast CastLike", "saturate round_mode"},
    // Before operator set 12 a Dropout is that of inference.
    {kStandard, "Dropout", "ratio"},
    // A program draws by its own seed.
    {kStandard, "Dropout", "seed"},
    // The factor of operand C, which is absent.
    {kStandard, "Gemm", "beta"},
    // The order of indices in a second result. That result is refused.
    {kStandard, "MaxPool", "storage_order"},
    // The value outside of the region of tf_crop_and_resize. That mode is refused.
    {kStandard, "Resize", "extrapolation_value"},
    // Ignored by definition if the operand of sizes is there.
    {kStandard, "SplitToSequence", "keepdims"},
    // Only allows another order of the results.
    {kStandard, "TopK", "sorted"},
    // Read if there is a mask, or with do_rotary.
    {kRuntime, "Attention", "mask_filter_value rotary_embedding_dim"},
    {kRuntime, "MultiHeadAttention", "mask_filter_value"},
    {kRuntime, "GroupQueryAttention", "rotary_interleaved"},
    // Attributes of the cache of earlier positions. Its operands and results are refused.
    {kRuntime, "Attention", "past_present_share_buffer"},
    {kRuntime, "GroupQueryAttention", "kv_cache_bit_width sliding_window_cache", 0},
    {kRuntime, "GroupQueryAttention", "k_quant_type v_quant_type", kAny, "NONE"},
    // The default, which is what the handler does.
    {kRuntime, "GroupQueryAttention", "causal", 1},
    // What a further result holds. That result is refused.
    {kRuntime, "GroupQueryAttention", "qk_output"},
    // Attributes of norms. The weights of these norms are operands, and those are refused.
    {kRuntime, "GroupQueryAttention", "qk_norm_epsilon q_norm_epsilon k_norm_epsilon"},
    // The type of a further result. That result is refused.
    {kRuntime, "EmbedLayerNormalization", "mask_index_type"},
};

/// Operands that a handler need not read.
struct OperandWithoutEffect {
  StringLiteral domain, op;
  int first, last;
};

constexpr OperandWithoutEffect kOperandsWithoutEffect[] = {
    // The ratio of a Dropout that is not in training mode.
    {kStandard, "Dropout", 1, 1},
    // The fill value of modes other than constant.
    {kStandard, "Pad", 2, 2},
    // The region of tf_crop_and_resize. That mode is refused.
    {kStandard, "Resize", 1, 1},
    // Lengths of padded sequences, which causality hides, and the length of the cache. Tables and
    // positions of a rotation, without do_rotary.
    {kRuntime, "GroupQueryAttention", 5, 9},
};

/// The operator sets in which operators have attributes. The handler reads the attribute in
/// every operator set. 11 is the oldest operator set that Shale supports.
struct Lifetime {
  StringLiteral ops, attributes;
  int64_t first, last = std::numeric_limits<int64_t>::max();
};

constexpr Lifetime kLifetimes[] = {
    {"ArgMax ArgMin", "select_last_index", 12},
    {"Attention", "left_window_size right_window_size", 25},
    {"AveragePool", "dilations", 19},
    {"BatchNormalization", "training_mode", 14},
    {"Constant", "value_float value_floats value_int value_ints", 12},
    {"GatherND", "batch_dims", 12},
    {"GroupNormalization", "stash_type", 21},
    {"Range", "stash_type", 27},
    {"ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp", "noop_with_empty_axes", 18},
    {"ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare", "noop_with_empty_axes", 18},
    {"ReduceSum", "noop_with_empty_axes", 13},
    {"Reshape", "allowzero", 14},
    {"Resize", "antialias axes keep_aspect_ratio_policy", 18},
    {"ScatterElements ScatterND", "reduction", 16},
    {"Shape", "end start", 15},
    {"SpaceToDepth", "mode", 28},
    {"Split", "num_outputs", 18},
    {"Split", "split", 1, 12},
};

bool hasNoEffect(StringRef domain, StringRef op, StringRef name, const AttributeProto &attribute) {
  return llvm::any_of(kWithoutEffect, [&](const WithoutEffect &row) {
    return row.domain == domain && hasWord(row.ops, op) && hasWord(row.attributes, name) &&
           (row.only == kAny || (attribute.has_i() && attribute.i() == row.only)) &&
           (row.text.empty() || row.text == attribute.s());
  });
}

} // namespace

LogicalResult onnx::requireAllRead(Node &node) {
  const NodeProto &proto = node.proto;
  StringRef domain = domainOf(proto.domain()), op = proto.op_type();
  for (int i = 0; i < proto.attribute_size(); ++i) {
    const AttributeProto *attr = node.resolved(proto.attribute(i));
    if (!attr)
      continue; // of a function, and the call does not give it
    StringRef name = proto.attribute(i).name();
    for (int j = 0; j < i; ++j)
      if (StringRef(proto.attribute(j).name()) == name)
        return node.error("attribute {} is given twice", name);
    for (const Lifetime &row : kLifetimes)
      if (domain.empty() && (node.version < row.first || node.version > row.last) &&
          hasWord(row.ops, op) && hasWord(row.attributes, name))
        return node.error("attribute {} is not one of operator set {}", name, node.version);
    if (!node.hasReadAttribute(i) && !hasNoEffect(domain, op, name, *attr))
      return node.error(
          "attribute {} is not supported: the result may depend on it. Export with an older opset, or change the model so that it is not set",
          name);
  }
  for (int i = 0; i < proto.input_size(); ++i) {
    if (node.hasReadOperand(i) || proto.input(i).empty() ||
        llvm::any_of(kOperandsWithoutEffect, [&](const OperandWithoutEffect &row) {
          return row.domain == domain && row.op == op && row.first <= i && i <= row.last;
        }))
      continue;
    return node.error("operand {} ({}) is not supported: the result may depend on it", i,
                      proto.input(i));
  }
  return success();
}
