//===- Node.cpp - One node while it is translated -------------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Reduce.h"
#include "include/shale/Runtime.h"
#include "lib/Frontend/ONNX/Building.h"
#include "lib/Frontend/ONNX/Signature.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Node::Node(Building &building, const NodeProto &proto, Scope &scope, int depth, Operands operands)
    : building(building), builder(building.builder), proto(proto), scope(scope),
      version(scope.opsetOf(proto)), depth(depth), loc(building.locationOf(proto)),
      in(std::move(operands)) {}

std::string Node::name(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

int Node::numInputs() const { return proto.input_size(); }

int Node::numOutputs() const { return proto.output_size(); }

void Node::noteRead(int operand) const {
  if (operand >= int(operandsRead.size()))
    operandsRead.resize(operand + 1);
  operandsRead.set(operand);
}

ArrayRef<Value> Node::operands() const {
  for (size_t i = 0; i < in.values.size(); ++i)
    noteRead(int(i));
  return in.values;
}

Value Node::input(int operand) const {
  noteRead(operand);
  return operand < int(in.values.size()) ? in.values[operand] : Value();
}

bool Node::has(int operand) const {
  noteRead(operand);
  return operand < proto.input_size() && !proto.input(operand).empty() &&
         !scope.absent.contains(proto.input(operand));
}

bool Node::wants(int result) const {
  return result < proto.output_size() && !proto.output(result).empty();
}

bool Node::isRead(int result) const {
  return wants(result) && (depth > 0 || building.isRead(proto.output(result)));
}

bool Node::isState(Value value) const { return building.isState(value); }

std::string Node::parameterBehind(Value value) const { return building.parameterBehind(value); }

bool Node::isFromPyTorch() const { return building.isFromPyTorch(); }

std::string Node::tracedAs() const { return readFxNode(proto).target; }

LogicalResult Node::error(const Twine &message) {
  if (!failedOnce)
    building.error(message);
  failedOnce = true;
  return failure();
}

LogicalResult Node::require(int count) {
  for (int i = 0; i < count; ++i)
    if (!input(i))
      return error("operand " + Twine(i) + " is missing");
  return success();
}

LogicalResult Node::requireFloats(int count) {
  if (failed(require(count)))
    return failure();
  for (int i = 0; i < count; ++i)
    if (!isa<FloatType>(type(input(i)).getElementType()))
      return error("operand " + Twine(i) + " must have floats, but is " + name(type(input(i))) +
                   ": cast it first");
  return success();
}

LogicalResult Node::requireNumbers(int operand) {
  if (failed(require(operand + 1)))
    return failure();
  if (type(input(operand)).getElementType().isInteger(1))
    return error("operand " + Twine(operand) + " must have numbers, but is " +
                 name(type(input(operand))) + ": cast it first");
  return success();
}

LogicalResult Node::constantInts(int operand, SmallVectorImpl<int64_t> &values) {
  DenseElementsAttr attr = building.constantOf(input(operand));
  if (!attr)
    return error("operand " + Twine(operand) + " ('" + displayName(proto.input(operand)) +
                 "') must be known at compile time: give every dimension it "
                 "depends on with --dim");
  if (!attr.getElementType().isSignlessInteger() || attr.getElementType().isInteger(1))
    return error("operand " + Twine(operand) + " must be of integers");
  if (attr.getNumElements() > 4096)
    return error("operand " + Twine(operand) + " has too many elements");
  for (APInt value : attr.getValues<APInt>())
    values.push_back(value.getSExtValue());
  return success();
}

std::optional<double> Node::scalarConstant(Value value) {
  DenseElementsAttr attr = building.constantOf(value);
  if (!attr || attr.getNumElements() == 0 || (attr.getNumElements() != 1 && !attr.isSplat()))
    return std::nullopt;
  if (isa<FloatType>(attr.getElementType())) {
    APFloat number = *attr.getValues<APFloat>().begin();
    bool inexact;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
    return number.convertToDouble();
  }
  APInt number = *attr.getValues<APInt>().begin();
  return attr.getElementType().isInteger(1) ? double(number.getZExtValue())
                                            : double(number.getSExtValue());
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

const AttributeProto *Node::attribute(StringRef name) {
  for (int i = 0; i < proto.attribute_size(); ++i) {
    const AttributeProto &attr = proto.attribute(i);
    if (StringRef(attr.name()) != name)
      continue;
    attributesRead.resize(std::max<unsigned>(attributesRead.size(), i + 1));
    attributesRead.set(i);
    return resolved(attr);
  }
  return nullptr;
}

const AttributeProto *Node::resolved(const AttributeProto &attribute) const {
  return attribute.ref_attr_name().empty() ? &attribute
                                           : scope.attributes.lookup(attribute.ref_attr_name());
}

int64_t Node::intAttr(StringRef name, int64_t missing) {
  const AttributeProto *attr = attribute(name);
  if (attr && !attr->has_i()) {
    badAttributes = true;
    (void)error("attribute '" + name + "' must be an integer");
  }
  return attr ? attr->i() : missing;
}

bool Node::flagAttr(StringRef name, bool missing) {
  int64_t value = intAttr(name, missing);
  if (value != 0 && value != 1) {
    badAttributes = true;
    (void)error("attribute '" + name + "' is " + Twine(value) + ", and must be 0 or 1");
  }
  return value == 1;
}

double Node::floatAttr(StringRef name, double missing) {
  const AttributeProto *attr = attribute(name);
  if (attr && !attr->has_f()) {
    badAttributes = true;
    (void)error("attribute '" + name + "' must be a number");
  }
  return attr ? double(attr->f()) : missing;
}

std::string Node::stringAttr(StringRef name, StringRef missing) {
  const AttributeProto *attr = attribute(name);
  if (attr && !attr->has_s()) {
    badAttributes = true;
    (void)error("attribute '" + name + "' must be a string");
  }
  return attr ? attr->s() : missing.str();
}

std::optional<SmallVector<int64_t>> Node::intsAttr(StringRef name) {
  const AttributeProto *attr = attribute(name);
  if (!attr)
    return std::nullopt;
  if (attr->has_i() || attr->has_f() || attr->has_s() || attr->has_t() || attr->floats_size() > 0) {
    badAttributes = true;
    (void)error("attribute '" + name + "' must be a list of integers");
  }
  return SmallVector<int64_t>(attr->ints().begin(), attr->ints().end());
}

LogicalResult Node::normalize(int64_t &axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return error("axis " + Twine(axis) + " is out of range for a tensor of rank " + Twine(rank));
  axis += axis < 0 ? rank : 0;
  return success();
}

LogicalResult Node::normalizeAll(SmallVectorImpl<int64_t> &axes, int64_t rank) {
  for (int64_t &axis : axes)
    if (failed(normalize(axis, rank)))
      return failure();
  llvm::sort(axes);
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return error("an axis is given twice");
  return success();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

void Node::set(int result, Value value, int32_t narrow) {
  if (!value) {
    (void)error("cannot be imported");
    return;
  }
  if (!wants(result))
    return;
  Binding binding;
  binding.value = value;
  binding.narrow = narrow;
  if (!scope.values.try_emplace(proto.output(result), binding).second)
    (void)error("value '" + displayName(proto.output(result)) + "' is defined twice");
}

void Node::setSequence(int result, SmallVector<Value> items) {
  if (!wants(result))
    return;
  if (llvm::any_of(in.narrowTypes, [](int32_t type) { return type != 0; })) {
    (void)error("a sequence of integers other than int32 and int64 is not supported");
    return;
  }
  Binding binding;
  binding.items = std::move(items);
  binding.isSequence = true;
  if (!scope.values.try_emplace(proto.output(result), std::move(binding)).second)
    (void)error("value '" + displayName(proto.output(result)) + "' is defined twice");
}

const Binding *Node::sequence(int operand) const {
  if (!has(operand))
    return nullptr;
  const Binding *binding = scope.find(proto.input(operand));
  return binding && binding->isSequence ? binding : nullptr;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

Value Node::finish(Operation *op) {
  for (Type result : op->getResultTypes())
    if (nn::tensorBytes(llvm::cast<RankedTensorType>(result)) < 0) {
      (void)error("the result's size overflows 64 bits");
      return {};
    }
  if (failed(op->getName().verifyInvariants(op))) { // after its own diagnostic
    failedOnce = true;
    return {};
  }
  return building.finish(op);
}

void Node::adopt(Operation *op) { building.setScope(op); }

Value Node::constant(RankedTensorType type, double value) {
  return nn::splat(builder, loc, type, value);
}

Value Node::constant(ArrayRef<int64_t> values) {
  auto type = RankedTensorType::get({int64_t(values.size())}, builder.getI64Type());
  return nn::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, values));
}

Value Node::reshape(Value value, ArrayRef<int64_t> shape) {
  if (!value || type(value).getShape() == shape)
    return value;
  if (auto previous = value.getDefiningOp<nn::ReshapeOp>())
    return reshape(previous.getInput(), shape);
  return create<nn::ReshapeOp>(RankedTensorType::get(shape, type(value).getElementType()), value);
}

Value Node::transpose(Value value, ArrayRef<int64_t> perm) {
  if (!value)
    return {};
  SmallVector<int64_t> shape;
  bool identity = true;
  for (auto [i, p] : llvm::enumerate(perm)) {
    shape.push_back(type(value).getDimSize(p));
    identity &= int64_t(i) == p;
  }
  if (identity)
    return value;
  return create<nn::TransposeOp>(RankedTensorType::get(shape, type(value).getElementType()), value,
                                 perm);
}

LogicalResult Node::broadcastShape(ArrayRef<Value> values, SmallVectorImpl<int64_t> &shape) {
  shape.clear();
  for (Value value : values) {
    ArrayRef<int64_t> other = type(value).getShape();
    if (other.size() > shape.size())
      shape.insert(shape.begin(), other.size() - shape.size(), 1);
    for (size_t i = 0; i < other.size(); ++i) {
      int64_t &size = shape[shape.size() - other.size() + i];
      if (size == 1)
        size = other[i];
      else if (other[i] != 1 && other[i] != size)
        return error("shapes do not broadcast: sizes " + Twine(size) + " and " + Twine(other[i]) +
                     " meet" + building.broadcastHint(values, size, other[i]));
    }
  }
  return success();
}

Value Node::broadcast(Value value, ArrayRef<int64_t> shape) {
  if (!value || type(value).getShape() == shape)
    return value;
  SmallVector<int64_t> dims;
  for (int64_t i = 0, rank = type(value).getRank(); i < rank; ++i)
    dims.push_back(int64_t(shape.size()) - rank + i);
  return create<nn::BroadcastOp>(RankedTensorType::get(shape, type(value).getElementType()), value,
                                 dims);
}

Value Node::slice(Value value, ArrayRef<int64_t> starts, ArrayRef<int64_t> limits,
                  ArrayRef<int64_t> strides) {
  if (!value)
    return {};
  SmallVector<int64_t> shape;
  for (size_t i = 0; i < starts.size(); ++i)
    shape.push_back((limits[i] - starts[i] + strides[i] - 1) / strides[i]);
  if (type(value).getShape() == ArrayRef<int64_t>(shape))
    return value;
  return create<nn::SliceOp>(RankedTensorType::get(shape, type(value).getElementType()), value,
                             starts, limits, strides);
}

Value Node::cast(Value value, Type element) {
  if (!value || type(value).getElementType() == element)
    return value;
  return create<nn::CastOp>(type(value).clone(element), value);
}

Value Node::reduce(nn::ReduceKind kind, Value value, ArrayRef<int64_t> dims, bool keepDims) {
  if (!value)
    return {};
  SmallVector<int64_t> shape, kept;
  for (int64_t i = 0; i < type(value).getRank(); ++i) {
    bool reduced = llvm::is_contained(dims, i);
    if (!reduced)
      shape.push_back(type(value).getDimSize(i));
    kept.push_back(reduced ? 1 : type(value).getDimSize(i));
  }
  Value result = value;
  if (!dims.empty())
    result = create<nn::ReduceOp>(RankedTensorType::get(shape, type(value).getElementType()), kind,
                                  value, dims);
  return keepDims ? reshape(result, kept) : result;
}

Value Node::binary(Value lhs, Value rhs, nn::Predicate predicate) {
  Value values[] = {lhs, rhs};
  SmallVector<int64_t> shape;
  if (!lhs || !rhs || failed(broadcastShape(values, shape)))
    return {};
  lhs = broadcast(lhs, shape);
  rhs = broadcast(rhs, shape);
  if (!lhs || !rhs)
    return {};
  if (lhs.getType() != rhs.getType()) {
    (void)error("operands have types " + name(lhs.getType()) + " and " + name(rhs.getType()));
    return {};
  }
  return create<nn::CompareOp>(type(lhs).clone(builder.getI1Type()), predicate, lhs, rhs);
}

Value Node::matmul(Value lhs, Value rhs, bool transposeLhs, bool transposeRhs) {
  if (!lhs || !rhs)
    return {};
  // A product with a transposed matrix reads the matrix itself.
  auto peel = [](Value &value, bool &flag) {
    auto transpose = value.getDefiningOp<nn::TransposeOp>();
    if (transpose && transpose.getPerm() == ArrayRef<int64_t>{1, 0}) {
      value = transpose.getInput();
      flag = !flag;
    }
  };
  peel(lhs, transposeLhs);
  peel(rhs, transposeRhs);
  SmallVector<int64_t> left(type(lhs).getShape()), right(type(rhs).getShape());
  size_t rank = left.size();
  Type element = type(lhs).getElementType();
  int64_t m = left[rank - (transposeLhs ? 1 : 2)], k = left[rank - (transposeLhs ? 2 : 1)];
  int64_t n = right[rank - (transposeRhs ? 2 : 1)], k2 = right[rank - (transposeRhs ? 1 : 2)];
  if (k != k2 || element != type(rhs).getElementType() || !isa<FloatType>(element)) {
    (void)error("matrices " + name(lhs.getType()) + " and " + name(rhs.getType()) +
                " do not multiply");
    return {};
  }
  SmallVector<int64_t> shape(ArrayRef<int64_t>(left).drop_back(2));
  shape.append({m, n});
  return create<nn::MatmulOp>(RankedTensorType::get(shape, element), lhs, rhs, transposeLhs,
                              transposeRhs);
}
