//===- Narrow.cpp - Integers of types that values do not have -------------===//
//
// Values are i32, i64 or truth values. The other integers of a file, of 8, 16 and
// 32 bits, are held in a wider type, the carrier. The importer keeps the file's type
// beside each value and reduces results to its range, so that arithmetic wraps
// around as it does in that type.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Building.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

std::optional<NarrowInteger> onnx::narrowInteger(int32_t dataType) {
  static constexpr std::pair<int32_t, NarrowInteger> known[] = {{2, {8, false, 32}},
                                                                {3, {8, true, 32}},
                                                                {4, {16, false, 32}},
                                                                {5, {16, true, 32}},
                                                                {12, {32, false, 64}}};
  for (const auto &[number, type] : known)
    if (number == dataType)
      return type;
  return std::nullopt;
}

/// Returns the operand whose type a result has; -1 if the result's type depends on no operand.
static int operandOfType(StringRef op, int result) {
  if (op == "TopK")
    return result == 0 ? 0 : -1;
  return llvm::StringSwitch<int>(op)
      .Cases({"Shape", "Size", "ArgMax", "ArgMin", "NonZero", "If", "Loop", "Scan"}, -1)
      .Cases({"CastLike", "Where"}, 1)
      .Case("OneHot", 2)
      .Default(0);
}

/// Returns the ONNX data type of a result if that is a narrow integer, else 0. `value` is the
/// result.
static int32_t narrowResult(Node &node, int result, Value value) {
  const std::string &op = node.proto.op_type();
  auto element = dyn_cast<IntegerType>(Tensor(node, value).element());
  if (!element || element.isInteger(1))
    return 0;
  int32_t dataType = 0;
  if (op == "Cast" || (op == "EyeLike" && node.attribute("dtype")))
    dataType = int32_t(node.intAttr(op == "Cast" ? "to" : "dtype", 0));
  else if (op == "Constant" || op == "ConstantOfShape")
    dataType = node.attribute("value") ? node.attribute("value")->t().data_type() : 0;
  else if (int operand = operandOfType(op, result); operand >= 0)
    dataType = node.narrow(operand);
  std::optional<NarrowInteger> type = narrowInteger(dataType);
  return type && element.isInteger(type->carrier) ? dataType : 0;
}

/// Whether each element of an operator's result is one of its operands, or a constant of the file.
static bool movesElements(StringRef op) {
  return llvm::StringSwitch<bool>(op)
      .Cases({"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice"}, true)
      .Cases({"Split", "Concat", "Gather", "GatherElements", "GatherND", "Expand", "Tile"}, true)
      .Cases({"Pad", "Where", "Max", "Min", "Clip", "Constant", "ConstantOfShape"}, true)
      .Cases({"EyeLike", "OneHot", "Trilu", "ReduceMax", "ReduceMin", "TopK"}, true)
      .Cases({"Compress", "Dropout", "MaxPool", "Relu", "Sign"}, true)
      .Default(false);
}

/// Reduces a result of the node to a narrow type, unless the operator only moves or chooses
/// elements. Returns null after an error.
static Value reduced(Node &node, Value value, int32_t dataType) {
  if (movesElements(node.proto.op_type()))
    return value;
  NarrowInteger narrow = *narrowInteger(dataType);
  double count = std::ldexp(1, narrow.bits);
  Tensor all = Tensor(node, value).like(count);
  // The remainder has the sign of the value.
  Tensor rest = binary<nn::RemOp>(Tensor(node, value), all);
  if (narrow.isSigned)
    rest = select(rest >= count / 2, rest - all, rest);
  return select(rest < (narrow.isSigned ? -count / 2 : 0), rest + all, rest);
}

/// Records the types of results that values do not have, and reduces these to them.
LogicalResult Building::finishNarrow(Node &node) {
  for (int i = 0; i < node.numOutputs(); ++i) {
    auto found = node.scope.values.find(node.proto.output(i));
    if (!node.wants(i) || found == node.scope.values.end() || !found->second.value ||
        found->second.narrow)
      continue;
    Binding &result = found->second;
    result.narrow = narrowResult(node, i, result.value);
    if (result.narrow && !(result.value = reduced(node, result.value, result.narrow)))
      return failure();
  }
  return success();
}
