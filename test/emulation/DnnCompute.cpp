// Computes the operation graphs of the emulated cuDNN, one operation after the other.
#include "BlasMatmul.h"
#include "DnnGraph.h"
#include "Floats.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

using namespace shale::stub;

namespace {

using Values = std::vector<float>; // of a tensor, without gaps
using Index = int64_t[4];

/// Calls `body` with the index of the first element of each row of a tensor, in the order of
/// Values.
template <typename Body> void forEachRow(const DnnTensor &tensor, Body body) {
  const std::vector<int64_t> &sizes = tensor.sizes;
  Index at = {};
  for (at[0] = 0; at[0] < sizes[0]; ++at[0])
    for (at[1] = 0; at[1] < sizes[1]; ++at[1])
      for (at[2] = 0; at[2] < sizes[2]; ++at[2])
        body(at);
}

/// Calls `body` with the distance of each element of a tensor from the first, in the order of
/// Values.
template <typename Body> void forEachOffset(const DnnTensor &tensor, Body body) {
  forEachRow(tensor, [&](const Index &at) {
    int64_t offset = 0;
    for (int i = 0; i < 4; ++i)
      offset += at[i] * tensor.strides[i];
    for (int64_t l = 0; l < tensor.sizes[3]; ++l)
      body(offset + l * tensor.strides[3]);
  });
}

/// The positions in Values of the elements that are at an index of a larger tensor `whole`. A
/// dimension of one element is repeated; another shorter one is shared by consecutive elements.
class Positions {
public:
  Positions(const DnnTensor &tensor, const DnnTensor &whole) {
    int64_t step = 1;
    for (int i = 3; i >= 0; --i) {
      parts[i].resize(whole.sizes[i]);
      for (int64_t at = 0; at < whole.sizes[i]; ++at)
        parts[i][at] = at / (whole.sizes[i] / tensor.sizes[i]) * step;
      step *= tensor.sizes[i];
    }
  }
  int64_t operator[](const Index &at) const {
    return parts[0][at[0]] + parts[1][at[1]] + parts[2][at[2]] + parts[3][at[3]];
  }
  /// The distances of a row's elements from its first.
  const std::vector<int64_t> &row() const { return parts[3]; }

private:
  std::vector<int64_t> parts[4]; // of the sum, by dimension and index
};

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

/// Computes `count` elements of an operation from those of its operands.
void apply(int mode, const float *x, const float *b, const float *t, int64_t count, float *to) {
  auto each = [&](auto function) {
    for (int64_t i = 0; i < count; ++i)
      to[i] = function(i);
  };
  switch (mode) {
  case CUDNN_POINTWISE_EXP:
    return each([&](int64_t i) { return std::exp(x[i]); });
  case CUDNN_POINTWISE_LOG:
    return each([&](int64_t i) { return std::log(x[i]); });
  case CUDNN_POINTWISE_ADD:
    return each([&](int64_t i) { return x[i] + b[i]; });
  case CUDNN_POINTWISE_SUB:
    return each([&](int64_t i) { return x[i] - b[i]; });
  case CUDNN_POINTWISE_MUL:
    return each([&](int64_t i) { return x[i] * b[i]; });
  case CUDNN_POINTWISE_DIV:
    return each([&](int64_t i) { return x[i] / b[i]; });
  case CUDNN_POINTWISE_CMP_GT:
    return each([&](int64_t i) { return x[i] > b[i]; });
  case CUDNN_POINTWISE_CMP_GE:
    return each([&](int64_t i) { return x[i] >= b[i]; });
  case CUDNN_POINTWISE_CMP_LT:
    return each([&](int64_t i) { return x[i] < b[i]; });
  case CUDNN_POINTWISE_CMP_LE:
    return each([&](int64_t i) { return x[i] <= b[i]; });
  case CUDNN_POINTWISE_BINARY_SELECT:
    return each([&](int64_t i) { return t[i] != 0 ? x[i] : b[i]; });
  default: // CUDNN_POINTWISE_IDENTITY
    return each([&](int64_t i) { return x[i]; });
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
      matmul(operation, made);
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
    read.resize(tensor.elements());
    const char *from = place(index);
    float *next = read.data();
    forEachOffset(tensor, [&](int64_t offset) { *next++ = load(from, tensor.type, offset); });
    return read;
  }

  void keep(int index, Values made) {
    const DnnTensor &tensor = graph.operand(index);
    if (tensor.type != CUDNN_DATA_FLOAT)
      for (float &value : made)
        value = rounded(tensor.type, value);
    if (!tensor.isVirtual) {
      char *to = place(index);
      const float *next = made.data();
      forEachOffset(tensor, [&](int64_t offset) { store(to, tensor.type, offset, *next++); });
    }
    values[index] = std::move(made);
  }

  void matmul(const DnnOperation &operation, Values &made) {
    const DnnTensor &a = graph.operand(operation.x), &b = graph.operand(operation.b),
                    &c = graph.operand(operation.y);
    const Values &left = operand(operation.x), &right = operand(operation.b);
    int64_t m = c.sizes[2], n = c.sizes[3], k = a.sizes[3];
    int64_t turn = static_cast<int64_t>(order.start % k);
    Positions lefts(a, cornerOf(a, c)), rights(b, cornerOf(b, c));
    Values x(m * k), y(k * n);
    for (int64_t batch = 0; batch < c.sizes[0]; ++batch)
      for (int64_t head = 0; head < c.sizes[1]; ++head) {
        const Index first = {batch, head, 0, 0};
        const float *from = &left[lefts[first]];
        for (int64_t i = 0; i < m; ++i)
          std::rotate_copy(from + i * k, from + i * k + turn, from + (i + 1) * k, &x[i * k]);
        from = &right[rights[first]];
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
    int64_t columns = whole.sizes[3];
    float *row = made.data();
    if (operation.mode == CUDNN_POINTWISE_GEN_INDEX) {
      forEachRow(whole, [&](const Index &at) {
        for (int64_t l = 0; l < columns; ++l)
          *row++ = static_cast<float>(operation.axis == 3 ? l : at[operation.axis]);
      });
      return;
    }
    struct Operand {
      const Values &values;
      Positions positions;
      Values &row;
    };
    std::vector<Operand> operands;
    Values rows[3];
    const int indices[] = {operation.x, operation.b, operation.t};
    for (int j = 0; j < 3; ++j) {
      rows[j].resize(columns);
      if (indices[j] >= 0)
        operands.push_back(
            {operand(indices[j]), Positions(graph.operand(indices[j]), whole), rows[j]});
    }
    forEachRow(whole, [&](const Index &at) {
      for (const Operand &each : operands) {
        const float *from = &each.values[each.positions[at]];
        for (int64_t l = 0; l < columns; ++l)
          each.row[l] = from[each.positions.row()[l]];
      }
      apply(operation.mode, rows[0].data(), rows[1].data(), rows[2].data(), columns, row);
      row += columns;
    });
  }

  void reduction(const DnnOperation &operation, Values &made) {
    const DnnTensor &whole = graph.operand(operation.x), &result = graph.operand(operation.y);
    const float *from = operand(operation.x).data();
    Positions positions(result, whole);
    bool sums = operation.mode == CUDNN_REDUCE_TENSOR_ADD;
    std::fill(made.begin(), made.end(), sums ? 0.0f : -INFINITY);
    forEachRow(whole, [&](const Index &at) {
      float *to = &made[positions[at]];
      for (int64_t part : positions.row()) {
        float value = *from++;
        to[part] = sums ? to[part] + value : std::max(to[part], value);
      }
    });
  }

  void reshape(const DnnOperation &operation, Values &made) {
    const DnnTensor &from = graph.operand(operation.x), &to = graph.operand(operation.y);
    const float *old = operand(operation.x).data();
    // Values by their distance from the first.
    std::vector<float> memory(from.extent() / from.elementBytes());
    forEachOffset(from, [&](int64_t offset) { memory[offset] = *old++; });
    float *next = made.data();
    forEachOffset(to, [&](int64_t offset) { *next++ = memory[offset]; });
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
