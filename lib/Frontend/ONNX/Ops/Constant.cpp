//===- Constant.cpp - Constants, ranges, shapes as values -----------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static LogicalResult importConstant(Node &node) {
  OpBuilder &b = node.builder;
  auto set = [&](DenseElementsAttr value) {
    node.set(0, nn::ConstantOp::create(b, node.loc, value));
    return success();
  };
  if (const AttributeProto *attr = node.attribute("value")) {
    auto data = node.building.readConstant(attr->t());
    if (!data)
      return node.error("attribute 'value': " + llvm::toString(data.takeError()));
    return set(*data);
  }
  if (const AttributeProto *attr = node.attribute("value_int"))
    return set(
        DenseElementsAttr::get(RankedTensorType::get({}, b.getI64Type()), int64_t(attr->i())));
  if (const AttributeProto *attr = node.attribute("value_float"))
    return set(DenseElementsAttr::get(RankedTensorType::get({}, b.getF32Type()), attr->f()));
  if (const AttributeProto *attr = node.attribute("value_ints")) {
    SmallVector<int64_t> values(attr->ints().begin(), attr->ints().end());
    return set(
        DenseElementsAttr::get(RankedTensorType::get({int64_t(values.size())}, b.getI64Type()),
                               ArrayRef<int64_t>(values)));
  }
  if (const AttributeProto *attr = node.attribute("value_floats")) {
    SmallVector<float> values(attr->floats().begin(), attr->floats().end());
    return set(DenseElementsAttr::get(
        RankedTensorType::get({int64_t(values.size())}, b.getF32Type()), ArrayRef<float>(values)));
  }
  return node.error("has none of the attributes value, value_int(s), value_float(s)");
}

/// Reads a shape operand; fails if a size is negative.
static LogicalResult shapeOperand(Node &node, int operand, SmallVectorImpl<int64_t> &shape) {
  if (failed(node.require(operand + 1)) || failed(node.constantInts(operand, shape)))
    return failure();
  for (int64_t size : shape)
    if (size < 0)
      return node.error("a size is negative");
  return success();
}

static LogicalResult importConstantOfShape(Node &node) {
  SmallVector<int64_t> shape;
  if (failed(shapeOperand(node, 0, shape)))
    return failure();
  Type element = node.builder.getF32Type();
  DenseElementsAttr value;
  if (const AttributeProto *attr = node.attribute("value")) {
    auto data = node.building.readConstant(attr->t());
    if (!data)
      return node.error("attribute 'value': " + llvm::toString(data.takeError()));
    value = *data;
    if (value.getNumElements() != 1)
      return node.error("attribute 'value' must have one element");
    element = value.getElementType();
  }
  auto type = RankedTensorType::get(shape, element);
  if (nn::tensorBytes(type) < 0)
    return node.error("the result's size overflows 64 bits");
  if (!value) {
    node.set(0, node.constant(type, 0.0));
    return success();
  }
  Attribute first = *value.getValues<Attribute>().begin();
  node.set(0, nn::ConstantOp::create(node.builder, node.loc, DenseElementsAttr::get(type, first)));
  return success();
}

static LogicalResult importShape(Node &node) {
  if (failed(node.require(1)))
    return failure();
  ArrayRef<int64_t> shape = Node::type(node.input(0)).getShape();
  int64_t rank = shape.size();
  int64_t start = node.intAttr("start", 0), end = node.intAttr("end", rank);
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  start = clamp(start);
  end = std::max(clamp(end), start);
  node.set(0, node.constant(shape.slice(start, end - start)));
  return success();
}

static LogicalResult importSize(Node &node) {
  if (failed(node.require(1)))
    return failure();
  auto type = RankedTensorType::get({}, node.builder.getI64Type());
  node.set(0, nn::ConstantOp::create(
                  node.builder, node.loc,
                  DenseElementsAttr::get(type, Node::type(node.input(0)).getNumElements())));
  return success();
}

static LogicalResult importRange(Node &node) {
  if (failed(node.require(3)))
    return failure();
  double numbers[3];
  for (int i = 0; i < 3; ++i) {
    std::optional<double> number = node.scalarConstant(node.input(i));
    if (!number)
      return node.error("operand " + Twine(i) + " must be known at compile time");
    numbers[i] = *number;
  }
  if (numbers[2] == 0 || !std::isfinite(numbers[2]))
    return node.error("the step is 0");
  double count = std::ceil((numbers[1] - numbers[0]) / numbers[2]);
  if (!(count >= 0))
    count = 0;
  if (count > double(int64_t(1) << 31))
    return node.error("the range has more than 2^31 elements");
  auto type = RankedTensorType::get({int64_t(count)}, Node::type(node.input(0)).getElementType());
  Value value = nn::IotaOp::create(node.builder, node.loc, type, 0);
  if (numbers[2] != 1)
    value = node.binary<nn::MulOp>(value, node.constant(type, numbers[2]));
  if (numbers[0] != 0)
    value = node.binary<nn::AddOp>(value, node.constant(type, numbers[0]));
  node.set(0, value);
  return success();
}

/// EyeLike: 1 on diagonal k of a matrix of the operand's shape, else 0.
static LogicalResult importEyeLike(Node &node) {
  if (failed(node.require(1)))
    return failure();
  auto type = Node::type(node.input(0));
  if (type.getRank() != 2)
    return node.error("the operand must be a matrix; it is " + Node::name(type));
  Type element = type.getElementType();
  if (node.attribute("dtype")) {
    std::string why;
    element = elementType(node.builder.getContext(), node.intAttr("dtype", 0), why);
    if (!element)
      return node.error(why);
  }
  auto places = RankedTensorType::get(type.getShape(), node.builder.getI64Type());
  int64_t k = node.intAttr("k", 0), most = int64_t(1) << 40;
  if (k < -most || k > most)
    return node.error("diagonal " + Twine(k) + " is out of range");
  Value row = nn::IotaOp::create(node.builder, node.loc, places, 0);
  Value column = nn::IotaOp::create(node.builder, node.loc, places, 1);
  Value shifted = node.binary<nn::AddOp>(row, node.constant(places, double(k)));
  node.set(0, node.cast(node.binary(shifted, column, nn::Predicate::EQ), element));
  return success();
}

static LogicalResult importOneHot(Node &node) {
  if (failed(node.require(3)))
    return failure();
  std::optional<double> known = node.scalarConstant(node.input(1));
  if (!known)
    return node.error("operand 1, the depth, must be known at compile time");
  if (failed(node.requireNumbers(0)))
    return failure();
  if (!(*known >= 1 && *known <= double(int64_t(1) << 31)) ||
      Node::type(node.input(1)).getNumElements() != 1)
    return node.error("operand 1, the depth, must be one number from 1 to 2^31; it is " +
                      Node::name(node.input(1).getType()) + " of " + Twine(int64_t(*known)));
  if (Node::type(node.input(2)).getShape() != ArrayRef<int64_t>{2})
    return node.error("operand 2 must have two values, for off and on; it is " +
                      Node::name(node.input(2).getType()));
  SmallVector<int64_t> depth = {int64_t(*known)};
  Value places = node.input(0);
  if (isa<FloatType>(Node::type(places).getElementType()))
    places = node.cast(places, node.builder.getI64Type());
  if (!places)
    return failure();
  auto ids = Node::type(places);
  int64_t axis = node.intAttr("axis", -1), rank = ids.getRank() + 1;
  if (failed(node.normalize(axis, rank)))
    return failure();
  SmallVector<int64_t> shape(ids.getShape()), unit(ids.getShape());
  shape.insert(shape.begin() + axis, depth[0]);
  unit.insert(unit.begin() + axis, 1);
  Value iota = nn::IotaOp::create(node.builder, node.loc,
                                  RankedTensorType::get(shape, ids.getElementType()), axis);
  Value at = node.broadcast(node.reshape(places, unit), shape);
  // Negative indices count from the end.
  Value zero = node.constant(RankedTensorType::get(shape, ids.getElementType()), 0);
  Value size = node.constant(RankedTensorType::get(shape, ids.getElementType()), double(depth[0]));
  Value fromEnd = node.binary<nn::AddOp>(at, size);
  Value isNegative = node.binary(at, zero, nn::Predicate::LT);
  if (!fromEnd || !isNegative)
    return failure();
  at = node.create<nn::SelectOp>(at.getType(), isNegative, fromEnd, at);
  Value hit = node.binary(at, iota, nn::Predicate::EQ);
  Value off = node.broadcast(node.reshape(node.slice(node.input(2), {0}, {1}, {1}), {}), shape);
  Value on = node.broadcast(node.reshape(node.slice(node.input(2), {1}, {2}, {1}), {}), shape);
  if (!hit || !off || !on)
    return failure();
  node.set(0, node.create<nn::SelectOp>(on.getType(), hit, on, off));
  return success();
}

void onnx::registerConstantOps(HandlerRegistry &r) {
  r.add("", "Constant", 1, importConstant);
  r.add("", "ConstantOfShape", 9, importConstantOfShape);
  r.add("", "Shape", 1, importShape);
  r.add("", "Size", 1, importSize);
  r.add("", "Range", 11, importRange);
  r.add("", "OneHot", 9, importOneHot);
  r.add("", "EyeLike", 9, importEyeLike);
}
