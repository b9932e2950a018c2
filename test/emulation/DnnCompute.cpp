// Computes the operation graphs of the emulated cuDNN, one operation after the other.
#include "BlasProduct.h"
#include "DnnGraph.h"
#include "Floats.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

using namespace shale::stub;

namespace {

using Values = std::vector<float>; // of a tensor, without gaps
using Index = int64_t[4];

/// Calls `body` with each index of a tensor, in the order of Values.
template <typename Body> void forEach(const DnnTensor &tensor, Body body) {
  const std::vector<int64_t> &sizes = tensor.sizes;
  Index at;
  for (at[0] = 0; at[0] < sizes[0]; ++at[0])
    for (at[1] = 0; at[1] < sizes[1]; ++at[1])
      for (at[2] = 0; at[2] < sizes[2]; ++at[2])
        for (at[3] = 0; at[3] < sizes[3]; ++at[3])
          body(at);
}

int64_t offset(const DnnTensor &tensor, const Index &at) {
  int64_t sum = 0;
  for (int i = 0; i < 4; ++i)
    sum += at[i] * tensor.strides[i];
  return sum;
}

/// The position in Values of the element that is at `at` of a larger tensor `whole`. A dimension of
/// one element is repeated; another shorter one is shared by consecutive elements.
int64_t position(const DnnTensor &tensor, const DnnTensor &whole, const Index &at) {
  int64_t sum = 0;
  for (int i = 0; i < 4; ++i)
    sum = sum * tensor.sizes[i] + at[i] / (whole.sizes[i] / tensor.sizes[i]);
  return sum;
}

float load(const char *from, cudnnDataType_t type, int64_t index) {
  switch (type) {
  case CUDNN_DATA_HALF:
    return reinterpret_cast<const Half *>(from)[index];
  case CUDNN_DATA_BFLOAT16:
    return reinterpret_cast<const BFloat *>(from)[index];
  case CUDNN_DATA_INT32:
    return static_cast<float>(reinterpret_cast<const int32_t *>(from)[index]);
  case CUDNN_DATA_BOOLEAN:
    return from[index] != 0;
  default:
    return reinterpret_cast<const float *>(from)[index];
  }
}

void store(char *to, cudnnDataType_t type, int64_t index, float value) {
  switch (type) {
  case CUDNN_DATA_HALF:
    reinterpret_cast<Half *>(to)[index] = Half::of(value);
    break;
  case CUDNN_DATA_BFLOAT16:
    reinterpret_cast<BFloat *>(to)[index] = BFloat::of(value);
    break;
  case CUDNN_DATA_INT32:
    reinterpret_cast<int32_t *>(to)[index] = static_cast<int32_t>(value);
    break;
  case CUDNN_DATA_BOOLEAN:
    to[index] = value != 0;
    break;
  default:
    reinterpret_cast<float *>(to)[index] = value;
  }
}

/// `value` as a tensor of the type holds it.
float rounded(cudnnDataType_t type, float value) {
  char bytes[4];
  store(bytes, type, 0, value);
  return load(bytes, type, 0);
}

float apply(int mode, float x, float b, float t) {
  switch (mode) {
  case CUDNN_POINTWISE_EXP:
    return std::exp(x);
  case CUDNN_POINTWISE_LOG:
    return std::log(x);
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_CMP_GT:
    return x > b;
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b;
  case CUDNN_POINTWISE_CMP_LT:
    return x < b;
  case CUDNN_POINTWISE_CMP_LE:
    return x <= b;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return t != 0 ? x : b;
  default: // CUDNN_POINTWISE_IDENTITY
    return x;
  }
}

class Machine {
public:
  Machine(const DnnOperations &graph, const DnnOrder &order,
          const std::function<char *(int)> &place)
      : graph(graph), order(order), place(place), values(graph.tensors.size()),
        uses(graph.tensors.size()) {
    for (const DnnOperation &operation : graph.operations)
      for (int index : {operation.x, operation.b, operation.t})
        if (index >= 0)
          ++uses[index];
  }

  void run(const DnnOperation &operation) {
    Values made(graph.operand(operation.y).elements());
    switch (operation.kind) {
    case DnnOperation::Matmul:
      product(operation, made);
      break;
    case DnnOperation::Pointwise:
      pointwise(operation, made);
      break;
    case DnnOperation::Reduction:
      reduction(operation, made);
      break;
    case DnnOperation::Reshape:
      reshape(operation, made);
      break;
    }
    keep(operation.y, std::move(made));
    for (int index : {operation.x, operation.b, operation.t})
      if (index >= 0 && --uses[index] == 0)
        values[index] = {};
  }

private:
  /// The values of a tensor. What has an address is read there.
  const Values &operand(int index) {
    const DnnTensor &tensor = graph.operand(index);
    if (tensor.isVirtual)
      return values[index];
    Values &read = values[index];
    read.clear();
    const char *from = place(index);
    forEach(tensor,
            [&](const Index &at) { read.push_back(load(from, tensor.type, offset(tensor, at))); });
    return read;
  }

  void keep(int index, Values made) {
    const DnnTensor &tensor = graph.operand(index);
    for (float &value : made)
      value = rounded(tensor.type, value);
    if (!tensor.isVirtual) {
      char *to = place(index);
      size_t i = 0;
      forEach(tensor,
              [&](const Index &at) { store(to, tensor.type, offset(tensor, at), made[i++]); });
    }
    values[index] = std::move(made);
  }

  void product(const DnnOperation &operation, Values &made) {
    const DnnTensor &a = graph.operand(operation.x), &b = graph.operand(operation.b),
                    &c = graph.operand(operation.y);
    const Values &left = operand(operation.x), &right = operand(operation.b);
    int64_t m = c.sizes[2], n = c.sizes[3], k = a.sizes[3];
    int64_t turn = static_cast<int64_t>(order.start % k);
    Values x(m * k), y(k * n);
    for (int64_t batch = 0; batch < c.sizes[0]; ++batch)
      for (int64_t head = 0; head < c.sizes[1]; ++head) {
        const Index first = {batch, head, 0, 0};
        const float *from = &left[position(a, cornerOf(a, c), first)];
        for (int64_t i = 0; i < m; ++i)
          for (int64_t l = 0; l < k; ++l)
            x[i * k + l] = from[i * k + (l + turn) % k];
        from = &right[position(b, cornerOf(b, c), first)];
        for (int64_t l = 0; l < k; ++l)
          std::copy_n(from + (l + turn) % k * n, n, &y[l * n]);
        multiply(m, n, k, static_cast<int>(std::min<int64_t>(order.parts, k)), x.data(), y.data(),
                 &made[(batch * c.sizes[1] + head) * m * n]);
      }
  }

  /// A tensor with the matrices of `side`, as many as `whole` has.
  static DnnTensor cornerOf(const DnnTensor &side, const DnnTensor &whole) {
    DnnTensor made = side;
    made.sizes[0] = whole.sizes[0];
    made.sizes[1] = whole.sizes[1];
    return made;
  }

  void pointwise(const DnnOperation &operation, Values &made) {
    const DnnTensor &whole = graph.operand(operation.y);
    if (operation.mode == CUDNN_POINTWISE_GEN_INDEX) {
      size_t i = 0;
      forEach(whole, [&](const Index &at) { made[i++] = static_cast<float>(at[operation.axis]); });
      return;
    }
    const int indices[] = {operation.x, operation.b, operation.t};
    const Values *operands[3] = {};
    for (int j = 0; j < 3; ++j)
      if (indices[j] >= 0)
        operands[j] = &operand(indices[j]);
    size_t i = 0;
    forEach(whole, [&](const Index &at) {
      float inputs[3] = {};
      for (int j = 0; j < 3; ++j)
        if (operands[j])
          inputs[j] = (*operands[j])[position(graph.operand(indices[j]), whole, at)];
      made[i++] = apply(operation.mode, inputs[0], inputs[1], inputs[2]);
    });
  }

  void reduction(const DnnOperation &operation, Values &made) {
    const DnnTensor &whole = graph.operand(operation.x), &result = graph.operand(operation.y);
    const Values &from = operand(operation.x);
    bool sums = operation.mode == CUDNN_REDUCE_TENSOR_ADD;
    std::fill(made.begin(), made.end(), sums ? 0.0f : -INFINITY);
    size_t i = 0;
    forEach(whole, [&](const Index &at) {
      float &target = made[position(result, whole, at)];
      float value = from[i++];
      target = sums ? target + value : std::max(target, value);
    });
  }

  void reshape(const DnnOperation &operation, Values &made) {
    const DnnTensor &from = graph.operand(operation.x), &to = graph.operand(operation.y);
    const Values &old = operand(operation.x);
    // Values by their distance from the first.
    std::vector<float> memory(from.extent() / from.elementBytes());
    size_t i = 0;
    forEach(from, [&](const Index &at) { memory[offset(from, at)] = old[i++]; });
    i = 0;
    forEach(to, [&](const Index &at) { made[i++] = memory[offset(to, at)]; });
  }

  const DnnOperations &graph;
  const DnnOrder &order;
  const std::function<char *(int)> &place;
  std::vector<Values> values; // by tensor
  std::vector<int> uses;      // that are left
};

} // namespace

void shale::stub::computeOperations(const DnnOperations &graph, const DnnOrder &order,
                                    const std::function<char *(int)> &place) {
  Machine machine(graph, order, place);
  for (const DnnOperation &operation : graph.operations)
    machine.run(operation);
}
