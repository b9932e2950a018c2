//===- Constant.cpp - Constants, ranges, shapes as values -----------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Compare.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Reads the tensor of an attribute `value`; fails after an error.
static FailureOr<DenseElementsAttr> readValue(Node &node, const AttributeProto &attr) {
  auto data = node.building.readConstant(attr.t());
  if (!data)
    return node.error("attribute 'value': {}", plain(llvm::toString(data.takeError())));
  return *data;
}

/// Returns numbers as a tensor; as a scalar unless they are a `list`.
template <typename T>
static DenseElementsAttr denseOf(Type element, const SmallVector<T> &values, bool list) {
  SmallVector<int64_t> shape(list ? 1 : 0, int64_t(values.size()));
  return DenseElementsAttr::get(RankedTensorType::get(shape, element), ArrayRef<T>(values));
}

static Value importConstant(Node &node) {
  Type i64 = node.builder.getI64Type(), f32 = node.builder.getF32Type();
  DenseElementsAttr value;
  if (const AttributeProto *attr = node.attribute("value")) {
    FailureOr<DenseElementsAttr> read = readValue(node, *attr);
    if (failed(read))
      return {};
    value = *read;
  } else if (const AttributeProto *attr = node.attribute("value_int")) {
    value = denseOf<int64_t>(i64, {attr->i()}, false);
  } else if (const AttributeProto *attr = node.attribute("value_float")) {
    value = denseOf<float>(f32, {attr->f()}, false);
  } else if (const AttributeProto *attr = node.attribute("value_ints")) {
    value = denseOf<int64_t>(i64, {attr->ints().begin(), attr->ints().end()}, true);
  } else if (const AttributeProto *attr = node.attribute("value_floats")) {
    value = denseOf<float>(f32, {attr->floats().begin(), attr->floats().end()}, true);
  } else {
    return node.error("has none of the attributes value, value_int(s), value_float(s)");
  }
  return nn::ConstantOp::create(node.builder, node.loc, value);
}

static Value importConstantOfShape(Node &node) {
  const Sizes &shape = node.ints(0);
  if (llvm::any_of(shape, [](int64_t size) { return size < 0; }))
    return node.error("a size is negative");
  Attribute number = node.builder.getF32FloatAttr(0);
  if (const AttributeProto *attr = node.attribute("value")) {
    FailureOr<DenseElementsAttr> read = readValue(node, *attr);
    if (failed(read))
      return {};
    if (read->getNumElements() != 1)
      return node.error("attribute 'value' must have one element");
    number = *read->getValues<Attribute>().begin();
  }
  auto type = RankedTensorType::get(shape, cast<TypedAttr>(number).getType());
  if (nn::tensorBytes(type) < 0)
    return node.error("the result's size overflows 64 bits");
  return nn::ConstantOp::create(node.builder, node.loc, DenseElementsAttr::get(type, number));
}

static Value importShape(Node &node) {
  ArrayRef<int64_t> shape = Node::type(node.input(0)).getShape();
  int64_t rank = shape.size();
  int64_t start = node.intAttr("start", 0), end = node.intAttr("end", rank);
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  start = clamp(start);
  end = std::max(clamp(end), start);
  return node.constant(shape.slice(start, end - start));
}

static Value importSize(Node &node) {
  return nn::ConstantOp::create(node.builder, node.loc,
                                denseOf<int64_t>(node.builder.getI64Type(),
                                                 {Node::type(node.input(0)).getNumElements()},
                                                 false));
}

static Value importRange(Node &node) {
  double numbers[3];
  for (int i = 0; i < 3; ++i) {
    std::optional<double> number = node.scalarConstant(node.input(i));
    if (!number)
      return node.error("operand {} must be known at compile time", i);
    numbers[i] = *number;
  }
  if (numbers[2] == 0 || !std::isfinite(numbers[2]))
    return node.error("the step is 0");
  double count = std::ceil((numbers[1] - numbers[0]) / numbers[2]);
  if (!(count >= 0))
    count = 0;
  if (count > double(int64_t(1) << 31))
    return node.error("the range has more than 2^31 elements");
  Type element = Node::type(node.input(0)).getElementType();
  Value value = scaled(node, node.iota({int64_t(count)}, 0, element), numbers[2]);
  return numbers[0] != 0 ? node.add(value, numbers[0]) : value;
}

/// EyeLike: 1 on diagonal k of a matrix of the operand's shape, else 0.
static Value importEyeLike(Node &node) {
  auto type = Node::type(node.input(0));
  if (type.getRank() != 2)
    return node.error("the operand must be a matrix; it is {}", type);
  Type element = node.typeAttr("dtype", type.getElementType());
  if (!element)
    return {};
  int64_t k = node.intAttr("k", 0), most = int64_t(1) << 40;
  if (k < -most || k > most)
    return node.error("diagonal {} is out of range", k);
  Value row = node.iota(type.getShape(), 0), column = node.iota(type.getShape(), 1);
  return node.cast(node.binary(node.add(row, double(k)), column, nn::Predicate::EQ), element);
}

static Value importOneHot(Node &node) {
  std::optional<double> known = node.scalarConstant(node.input(1));
  if (!known)
    return node.error("operand 1, the depth, must be known at compile time");
  if (!(*known >= 1 && *known <= double(int64_t(1) << 31)) ||
      Node::type(node.input(1)).getNumElements() != 1)
    return node.error("operand 1, the depth, must be one number from 1 to 2^31; it is {} of {}",
                      node.input(1), int64_t(*known));
  if (Node::type(node.input(2)).getShape() != ArrayRef<int64_t>{2})
    return node.error("operand 2 must have two values, for off and on; it is {}", node.input(2));
  Value places = node.input(0);
  if (isa<FloatType>(Node::type(places).getElementType()))
    places = node.cast(places, node.builder.getI64Type());
  auto ids = Node::type(places);
  int64_t axis = node.intAttr("axis", -1);
  if (failed(node.normalize(axis, ids.getRank() + 1)))
    return {};
  Sizes shape = withDim(ids.getShape(), axis, int64_t(*known));
  Value iota = node.iota(shape, axis, ids.getElementType());
  Value at = node.broadcast(node.unsqueeze(places, axis), shape);
  // Negative indices count from the end.
  Value fromEnd = node.add(at, double(int64_t(*known)));
  at = node.select(node.binary(at, 0, nn::Predicate::LT), fromEnd, at);
  Value hit = node.binary(at, iota, nn::Predicate::EQ);
  auto choice = [&](int64_t number) {
    Value one = node.reshape(node.part(node.input(2), 0, number, number + 1), {});
    return node.broadcast(one, shape);
  };
  Value off = choice(0), on = choice(1);
  return node.select(hit, on, off);
}

void onnx::registerConstantOps(HandlerRegistry &r) {
  r.add("", "Constant", 1, importConstant, needs(0));
  r.add("", "ConstantOfShape", 9, importConstantOfShape, needs(1) | knownInts(0));
  r.add("", "Shape", 1, importShape, needs(1));
  r.add("", "Size", 1, importSize, needs(1));
  r.add("", "Range", 11, importRange, needs(3));
  r.add("", "OneHot", 9, importOneHot, needs(3));
  r.add("", "EyeLike", 9, importEyeLike, needs(1));
}
