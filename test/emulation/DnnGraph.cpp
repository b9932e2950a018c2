// Reads and checks the operation graphs of the emulated cuDNN.
#include "DnnGraph.h"

#include <algorithm>

using namespace shale::stub;

int64_t DnnTensor::elements() const {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

int64_t DnnTensor::elementBytes() const {
  switch (type) {
  case CUDNN_DATA_HALF:
  case CUDNN_DATA_BFLOAT16:
    return 2;
  case CUDNN_DATA_BOOLEAN:
    return 1;
  default:
    return 4;
  }
}

int64_t DnnTensor::extent() const {
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i)
    last += (sizes[i] - 1) * strides[i];
  return (last + 1) * elementBytes();
}

const DnnOperation *DnnOperations::maker(int tensor) const {
  for (const DnnOperation &operation : operations)
    if (operation.y == tensor)
      return &operation;
  return nullptr;
}

int DnnOperations::find(int64_t number) const {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].number == number)
      return static_cast<int>(i);
  return -1;
}

namespace {

using Sizes = std::vector<int64_t>;

bool isFloat(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

std::string nameOf(const DnnTensor &tensor) { return "tensor " + std::to_string(tensor.number); }

/// Operands and modes of a pointwise operation; 0 operands: the stand-in does not know it.
int operandsOf(int mode) {
  switch (mode) {
  case CUDNN_POINTWISE_EXP:
  case CUDNN_POINTWISE_LOG:
  case CUDNN_POINTWISE_IDENTITY:
  case CUDNN_POINTWISE_GEN_INDEX:
    return 1;
  case CUDNN_POINTWISE_ADD:
  case CUDNN_POINTWISE_SUB:
  case CUDNN_POINTWISE_MUL:
  case CUDNN_POINTWISE_DIV:
  case CUDNN_POINTWISE_CMP_GT:
  case CUDNN_POINTWISE_CMP_GE:
  case CUDNN_POINTWISE_CMP_LT:
  case CUDNN_POINTWISE_CMP_LE:
    return 2;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return 3;
  default:
    return 0;
  }
}

/// Reads the operations of one graph.
class Reader {
public:
  explicit Reader(DnnOperations &read) : read(read) {}

  cudnnStatus_t operation(const Descriptor &from) {
    DnnOperation made;
    switch (from.type) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      return matmul(from, made);
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      return pointwise(from, made);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      return reduction(from, made);
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return reshape(from, made);
    default:
      return refuse(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                    "descriptor type " + std::to_string(from.type) + " is no operation");
    }
  }

  /// Sorts the operations so that each follows those that make its operands.
  cudnnStatus_t sort() {
    std::vector<DnnOperation> sorted, left = std::move(read.operations);
    std::vector<bool> made(read.tensors.size());
    for (size_t i = 0; i < read.tensors.size(); ++i)
      made[i] = std::none_of(left.begin(), left.end(),
                             [&](const DnnOperation &o) { return o.y == int(i); });
    for (size_t i = 0; i < read.tensors.size(); ++i)
      SHALE_DNN_REQUIRE(!made[i] || !read.tensors[i].isVirtual, BAD_PARAM,
                        nameOf(read.tensors[i]) + " is virtual, but nothing makes it");
    while (!left.empty()) {
      auto ready = std::find_if(left.begin(), left.end(), [&](const DnnOperation &o) {
        return made[o.x] && (o.b < 0 || made[o.b]) && (o.t < 0 || made[o.t]);
      });
      SHALE_DNN_REQUIRE(ready != left.end(), BAD_PARAM, "the operations form a cycle");
      made[ready->y] = true;
      sorted.push_back(*ready);
      left.erase(ready);
    }
    read.operations = std::move(sorted);
    return CUDNN_STATUS_SUCCESS;
  }

private:
  const Sizes &sizes(int tensor) const { return read.tensors[tensor].sizes; }

  cudnnStatus_t tensor(const Part &from, int &index) {
    index = -1;
    if (!from)
      return CUDNN_STATUS_SUCCESS;
    SHALE_DNN_REQUIRE(from->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR, BAD_PARAM_DESCRIPTOR_TYPE,
                      "an operand is no tensor");
    const auto &tensor = from->as<DnnTensor>();
    index = read.find(tensor.number);
    if (index >= 0)
      return from == descriptors[index] ? CUDNN_STATUS_SUCCESS
                                        : refuse(CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES,
                                                 "two descriptors describe " + nameOf(tensor));
    SHALE_DNN_REQUIRE(tensor.sizes.size() == 4, NOT_SUPPORTED_SHAPE,
                      nameOf(tensor) + " has not 4 dimensions");
    index = static_cast<int>(read.tensors.size());
    read.tensors.push_back(tensor);
    descriptors.push_back(from);
    return CUDNN_STATUS_SUCCESS;
  }

  cudnnStatus_t add(const DnnOperation &made) {
    SHALE_DNN_REQUIRE(!read.maker(made.y), BAD_PARAM,
                      "two operations make " + nameOf(read.tensors[made.y]));
    SHALE_DNN_REQUIRE(!read.tensors[made.y].byValue, BAD_PARAM,
                      nameOf(read.tensors[made.y]) + " is made, but passed by value");
    read.operations.push_back(made);
    return CUDNN_STATUS_SUCCESS;
  }

  cudnnStatus_t matmul(const Descriptor &from, DnnOperation &made) {
    made.kind = DnnOperation::Matmul;
    for (auto [name, place] : {std::pair{CUDNN_ATTR_OPERATION_MATMUL_ADESC, &made.x},
                               {CUDNN_ATTR_OPERATION_MATMUL_BDESC, &made.b},
                               {CUDNN_ATTR_OPERATION_MATMUL_CDESC, &made.y}})
      if (cudnnStatus_t failed = tensor(from.part(name), *place))
        return failed;
    auto type = from.part(CUDNN_ATTR_OPERATION_MATMUL_DESC)
                    ->get<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE);
    SHALE_DNN_REQUIRE(type == CUDNN_DATA_FLOAT, NOT_SUPPORTED_DATA_TYPE, "a matmul is not in f32");
    for (int index : {made.x, made.b, made.y})
      SHALE_DNN_REQUIRE(isFloat(read.tensors[index].type), NOT_SUPPORTED_DATA_TYPE,
                        nameOf(read.tensors[index]) + " of a matmul is no float");
    const Sizes &a = sizes(made.x), &b = sizes(made.b), &c = sizes(made.y);
    SHALE_DNN_REQUIRE(a[3] == b[2] && c[2] == a[2] && c[3] == b[3], BAD_PARAM_SHAPE_MISMATCH,
                      "the matmul " + nameOf(read.tensors[made.y]) + " has other sizes");
    // Matrices of A and B may be fewer than those of C: consecutive ones share them.
    for (const Sizes *side : {&a, &b})
      for (int i = 0; i < 2; ++i)
        SHALE_DNN_REQUIRE(c[i] % (*side)[i] == 0, BAD_PARAM_SHAPE_MISMATCH,
                          "matrices of " + nameOf(read.tensors[made.y]) + " have no factor each");
    return add(made);
  }

  cudnnStatus_t pointwise(const Descriptor &from, DnnOperation &made) {
    made.kind = DnnOperation::Pointwise;
    for (auto [name, place] : {std::pair{CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &made.x},
                               {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, &made.b},
                               {CUDNN_ATTR_OPERATION_POINTWISE_TDESC, &made.t},
                               {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &made.y}})
      if (cudnnStatus_t failed = tensor(from.part(name), *place))
        return failed;
    Part what = from.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    made.mode = what->get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    made.axis = what->get<int64_t>(CUDNN_ATTR_POINTWISE_AXIS, -1, 0);
    auto type = what->get<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC);
    SHALE_DNN_REQUIRE(type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_INT32 ||
                          type == CUDNN_DATA_BOOLEAN,
                      NOT_SUPPORTED_DATA_TYPE, "a pointwise operation has another type");
    for (auto scale :
         {CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2})
      SHALE_DNN_REQUIRE(from.get<float>(scale, 1, 0) == 1, NOT_SUPPORTED,
                        "a pointwise operation has a factor");
    int operands = operandsOf(made.mode);
    SHALE_DNN_REQUIRE(operands > 0, NOT_SUPPORTED,
                      "the stand-in has no pointwise mode " + std::to_string(made.mode));
    SHALE_DNN_REQUIRE((made.b >= 0) == (operands > 1) && (made.t >= 0) == (operands > 2), BAD_PARAM,
                      "pointwise mode " + std::to_string(made.mode) + " has other operands");
    SHALE_DNN_REQUIRE(made.mode != CUDNN_POINTWISE_GEN_INDEX || (made.axis >= 0 && made.axis < 4),
                      BAD_PARAM, "an index has no axis");
    for (int index : {made.x, made.b, made.t})
      for (int i = 0; index >= 0 && i < 4; ++i)
        SHALE_DNN_REQUIRE(
            sizes(index)[i] == sizes(made.y)[i] || sizes(index)[i] == 1, BAD_PARAM_SHAPE_MISMATCH,
            nameOf(read.tensors[index]) + " does not fit " + nameOf(read.tensors[made.y]));
    return add(made);
  }

  cudnnStatus_t reduction(const Descriptor &from, DnnOperation &made) {
    made.kind = DnnOperation::Reduction;
    for (auto [name, place] : {std::pair{CUDNN_ATTR_OPERATION_REDUCTION_XDESC, &made.x},
                               {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, &made.y}})
      if (cudnnStatus_t failed = tensor(from.part(name), *place))
        return failed;
    Part what = from.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
    made.mode = what->get<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
    SHALE_DNN_REQUIRE(made.mode == CUDNN_REDUCE_TENSOR_ADD || made.mode == CUDNN_REDUCE_TENSOR_MAX,
                      NOT_SUPPORTED, "the stand-in has no reduction " + std::to_string(made.mode));
    auto type = what->get<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE);
    SHALE_DNN_REQUIRE(type == CUDNN_DATA_FLOAT && isFloat(read.tensors[made.x].type) &&
                          isFloat(read.tensors[made.y].type),
                      NOT_SUPPORTED_DATA_TYPE, "a reduction is not in f32");
    for (int i = 0; i < 4; ++i)
      SHALE_DNN_REQUIRE(sizes(made.x)[i] % sizes(made.y)[i] == 0, BAD_PARAM_SHAPE_MISMATCH,
                        "the reduction " + nameOf(read.tensors[made.y]) + " has other sizes");
    return add(made);
  }

  /// A reshape keeps the memory: an element of Y is the one of X at the same distance.
  cudnnStatus_t reshape(const Descriptor &from, DnnOperation &made) {
    made.kind = DnnOperation::Reshape;
    for (auto [name, place] : {std::pair{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, &made.x},
                               {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, &made.y}})
      if (cudnnStatus_t failed = tensor(from.part(name), *place))
        return failed;
    const DnnTensor &x = read.tensors[made.x], &y = read.tensors[made.y];
    std::vector<std::pair<int64_t, int64_t>> left, right;
    for (int i = 0; i < 4; ++i) {
      left.push_back({x.sizes[i], x.strides[i]});
      right.push_back({y.sizes[i], y.strides[i]});
    }
    SHALE_DNN_REQUIRE(std::is_permutation(left.begin(), left.end(), right.begin()), NOT_SUPPORTED,
                      "the stand-in only exchanges dimensions of " + nameOf(x));
    return add(made);
  }

  DnnOperations &read;
  std::vector<Part> descriptors; // of the tensors
};

} // namespace

cudnnStatus_t shale::stub::readOperations(const Descriptor &graph, DnnOperations &read) {
  Reader reader(read);
  for (const Part &operation : graph.attributes.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).parts)
    if (cudnnStatus_t failed = reader.operation(*operation))
      return failed;
  return reader.sort();
}
