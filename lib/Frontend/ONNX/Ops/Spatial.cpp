//===- Spatial.cpp - The spatial dimensions of convolutions and pools -----===//
#include "lib/Frontend/ONNX/Ops/Spatial.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

Sizes SpatialAxes::list(int64_t SpatialAxis::*field) const {
  Sizes values;
  for (const SpatialAxis &axis : *this)
    values.push_back(axis.*field);
  return values;
}

void SpatialAxes::forEachElement(llvm::function_ref<void(ArrayRef<int64_t>)> visit) const {
  Sizes at(size(), 0);
  for (int64_t n = count(&SpatialAxis::kernel); n > 0; --n) {
    visit(at);
    for (size_t i = size(); i-- > 0;) {
      if (++at[i] < (*this)[i].kernel)
        break;
      at[i] = 0;
    }
  }
}

static bool isSize(int64_t number) { return number >= 1 && number <= INT32_MAX; }

LogicalResult SpatialAxes::read(Node &node, ArrayRef<int64_t> sizes, ArrayRef<int64_t> kernel,
                                const char *what) {
  for (auto [size, extent] : llvm::zip(sizes, kernel)) {
    if (!isSize(size) || !isSize(extent))
      return node.error(what);
    push_back({size, extent});
  }
  return failure(failed(readList(node, "strides", &SpatialAxis::stride, 1)) ||
                 failed(readList(node, "dilations", &SpatialAxis::dilation, 1)));
}

LogicalResult SpatialAxes::readList(Node &node, StringRef name, int64_t SpatialAxis::*field,
                                    int64_t least) {
  std::optional<Sizes> values = node.intsAttr(name);
  if (!values)
    return success();
  if (values->size() != size())
    return node.error("{} has {} values for {} spatial dimensions", plain(name), values->size(),
                      size());
  for (auto [axis, value] : llvm::zip(*this, *values)) {
    if (value < least || value > INT32_MAX)
      return node.error("{} has the value {}", plain(name), value);
    axis.*field = value;
  }
  return failure(node.hasFailed());
}

LogicalResult SpatialAxes::readPads(Node &node) {
  Sizes pads = node.intsAttr("pads").value_or(Sizes(size() * 2, 0));
  if (pads.size() != size() * 2)
    return node.error("pads has {} values for {} spatial dimensions", pads.size(), size());
  for (int64_t pad : pads)
    if (pad < 0 || pad > INT32_MAX)
      return node.error("pads are negative or too large");
  for (auto [i, axis] : llvm::enumerate(*this))
    axis.before = pads[i], axis.after = pads[size() + i];
  return success();
}

std::string onnx::readAutoPad(Node &node) {
  return node.choiceAttr("auto_pad", {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"});
}

LogicalResult onnx::checkConvolution(Node &node, int64_t most, const char *what,
                                     bool isTransposed) {
  auto input = node.input(0).type(), kernel = node.input(1).type();
  int64_t rank = input.getRank(), groups = node.intAttr("group", 1);
  if (rank < 3 || rank > most || kernel.getRank() != rank)
    return node.error("{} dimensions are supported; input and weight are {} and {}", what, input,
                      kernel);
  if (input.getElementType() != kernel.getElementType() || !isa<FloatType>(input.getElementType()))
    return node.error("input and weight have element types {} and {}", input.getElementType(),
                      kernel.getElementType());
  int64_t channels = input.getDimSize(1), first = kernel.getDimSize(0);
  if (groups < 1 || channels % groups != 0 ||
      (isTransposed ? first != channels
                    : first % groups != 0 || kernel.getDimSize(1) != channels / groups))
    return node.error("{} groups of input {} and weight {} do not fit", groups, input, kernel);
  auto shape = node.intsAttr("kernel_shape");
  if (shape && ArrayRef<int64_t>(*shape) != kernel.getShape().drop_front(2))
    return node.error("kernel_shape is not that of the weight {}", kernel);
  return success();
}

LogicalResult onnx::setWithBias(Node &node, Tensor result, int64_t channels) {
  if (Tensor bias = node.input(2); result && bias) {
    if (bias.shape() != ArrayRef<int64_t>{channels})
      return node.error("the bias is {} for {} channels", bias, channels);
    result = result + bias;
  }
  node.set(0, channelsSecond(result));
  return success();
}

Tensor onnx::channelsLast(Tensor value) {
  if (!value)
    return {};
  return value.transpose(dimToEnd(value.rank(), 1), /*joined=*/true);
}

Tensor onnx::channelsSecond(Tensor value) {
  if (!value)
    return {};
  int64_t rank = value.rank();
  return value.transpose(joinedSizes({{0, rank - 1}, dimRange(1, rank - 1)}), /*joined=*/true);
}
