//===- Node.cpp - One node while it is translated -------------------------===//
#include "lib/Frontend/ONNX/Building.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Node::Node(Building &building, const NodeProto &proto, Scope &scope, int depth,
           SmallVector<Binding> operands)
    : building(building), builder(building.builder), proto(proto), scope(scope),
      version(scope.opsetOf(proto)), depth(depth), loc(building.context.locationOf(proto)),
      in(std::move(operands)), attributesRead(proto.attribute_size()),
      operandsRead(proto.input_size()) {}

bool Node::isFromPyTorch() const {
  return building.context.model.proto().producer_name() == "pytorch";
}

std::string Node::tracedAs() const { return readFxNode(proto).target; }

Refused Node::fail(const std::string &message) {
  if (!failedOnce)
    building.context.error(message);
  failedOnce = true;
  return {};
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

const AttributeProto *Node::attribute(StringRef name) {
  for (int i = 0; i < proto.attribute_size(); ++i) {
    const AttributeProto &attr = proto.attribute(i);
    if (StringRef(attr.name()) != name)
      continue;
    attributesRead.set(i);
    return resolved(attr);
  }
  return nullptr;
}

const AttributeProto *Node::resolved(const AttributeProto &attribute) const {
  return attribute.ref_attr_name().empty() ? &attribute
                                           : scope.attributes.lookup(attribute.ref_attr_name());
}

/// Returns an attribute; it is an error if it is of another type.
const AttributeProto *Node::typedAttribute(StringRef name, bool (AttributeProto::*is)() const,
                                           const char *type) {
  const AttributeProto *attr = attribute(name);
  if (attr && !(attr->*is)())
    (void)error("attribute {} must be {}", name, type);
  return attr;
}

int64_t Node::intAttr(StringRef name, int64_t missing) {
  const AttributeProto *attr = typedAttribute(name, &AttributeProto::has_i, "an integer");
  return attr ? attr->i() : missing;
}

bool Node::flagAttr(StringRef name, bool missing) {
  int64_t value = intAttr(name, missing);
  if (value != 0 && value != 1)
    (void)error("attribute {} is {}, and must be 0 or 1", name, value);
  return value == 1;
}

double Node::floatAttr(StringRef name, double missing) {
  const AttributeProto *attr = typedAttribute(name, &AttributeProto::has_f, "a number");
  return attr ? double(attr->f()) : missing;
}

std::string Node::stringAttr(StringRef name, StringRef missing) {
  const AttributeProto *attr = typedAttribute(name, &AttributeProto::has_s, "a string");
  return attr ? attr->s() : missing.str();
}

std::string Node::choiceAttr(StringRef name, ArrayRef<StringRef> choices) {
  std::string text = stringAttr(name, choices.front());
  if (!llvm::is_contained(choices, text))
    (void)error(name + " '" + displayName(text) + "' is not one of " + llvm::join(choices, ", "));
  return text;
}

std::optional<SmallVector<int64_t>> Node::intsAttr(StringRef name) {
  const AttributeProto *attr = attribute(name);
  if (!attr)
    return std::nullopt;
  if (attr->has_i() || attr->has_f() || attr->has_s() || attr->has_t() || attr->floats_size() > 0)
    (void)error("attribute '" + name + "' must be a list of integers");
  return SmallVector<int64_t>(attr->ints().begin(), attr->ints().end());
}

Type Node::typeAttr(StringRef name, Type missing) {
  if (!attribute(name))
    return missing;
  int64_t code = intAttr(name, 0);
  std::string why = "its code exceeds 32 bits";
  Type element =
      code == int32_t(code) ? elementType(builder.getContext(), int32_t(code), why) : Type();
  return element ? element : error("attribute '" + name + "': " + why);
}

LogicalResult Node::normalize(int64_t &axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return error("axis {} is out of range for a tensor of rank {}", axis, rank);
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
// Operands and results
//===----------------------------------------------------------------------===//

int Node::numInputs() const { return proto.input_size(); }

int Node::numOutputs() const { return proto.output_size(); }

void Node::noteRead(int operand) const {
  if (operand < int(operandsRead.size()))
    operandsRead.set(operand);
}

SmallVector<Tensor> Node::operands() {
  return llvm::map_to_vector(llvm::seq<int>(0, in.size()), [&](int i) { return input(i); });
}

Tensor Node::input(int operand) {
  noteRead(operand);
  if (operand < int(in.size()) && in[operand].isSequence)
    return error("operand {} is a sequence, not a tensor", operand);
  return Tensor(*this, operand < int(in.size()) ? in[operand].value : Value());
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

LogicalResult Node::require(int count) {
  for (int i = 0; i < count; ++i)
    if (!input(i))
      return error("operand " + Twine(i) + " is missing");
  return success();
}

int64_t Node::onlyInt(int operand, const char *what, std::optional<int64_t> missing) {
  if (missing && !has(operand))
    return *missing;
  Sizes values;
  if (succeeded(constantInts(operand, values)) && values.size() == 1)
    return values.front();
  (void)error("operand {}, the {}, must be one constant, but has {} elements", operand, what,
              values.size());
  return 0;
}

LogicalResult Node::constantInts(int operand, SmallVectorImpl<int64_t> &values) {
  if (!input(operand))
    return error("operand {} is missing", operand);
  DenseElementsAttr attr = building.constantOf(input(operand));
  if (!attr)
    return error(
        "operand {} ({}) must be known at compile time: give every dimension it depends on with --dim",
        operand, proto.input(operand));
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
  if (isa<FloatType>(attr.getElementType()))
    return (*attr.getValues<APFloat>().begin()).convertToDouble();
  APInt number = *attr.getValues<APInt>().begin();
  return attr.getElementType().isInteger(1) ? double(number.getZExtValue())
                                            : double(number.getSExtValue());
}

void Node::set(int result, Value value, int32_t narrow) {
  if (!value)
    return (void)error("cannot be imported");
  bind(result, {value, {}, false, narrow});
}

LogicalResult Node::give(Tensor result) {
  if (result)
    set(0, result);
  return success(bool(result));
}

void Node::bind(int result, Binding binding) {
  if (wants(result) && !scope.values.try_emplace(proto.output(result), std::move(binding)).second)
    (void)error("value '" + displayName(proto.output(result)) + "' is defined twice");
}

void Node::setSequence(int result, ArrayRef<Value> items) {
  if (!wants(result))
    return;
  if (llvm::any_of(in, [](const Binding &operand) { return operand.narrow != 0; }))
    return (void)error("a sequence of integers other than int32 and int64 is not supported");
  bind(result, {{}, llvm::to_vector(items), true});
}

const Binding *Node::operand(int operand) const { return has(operand) ? &in[operand] : nullptr; }

const Binding *Node::sequence(int operand) const {
  const Binding *binding = this->operand(operand);
  return binding && binding->isSequence ? binding : nullptr;
}
