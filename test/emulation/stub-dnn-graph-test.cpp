// Operation graphs of the emulated cuDNN, made without the frontend.
#include "StubTest.h"

#include <cmath>
#include <cudnn.h>

using namespace shale::stub::test;

namespace {

#define EXPECT_DNN(call) EXPECT_EQ(call, CUDNN_STATUS_SUCCESS) << lastError()

std::string lastError() {
  char text[256];
  cudnnGetLastErrorString(text, sizeof(text));
  return text;
}

using Descriptor = cudnnBackendDescriptor_t;

Descriptor create(cudnnBackendDescriptorType_t type) {
  Descriptor made = nullptr;
  EXPECT_DNN(cudnnBackendCreateDescriptor(type, &made));
  return made;
}
template <typename Type>
cudnnStatus_t set(Descriptor descriptor, cudnnBackendAttributeName_t name,
                  cudnnBackendAttributeType_t type, const std::vector<Type> &values) {
  return cudnnBackendSetAttribute(descriptor, name, type, values.size(), values.data());
}
cudnnStatus_t setParts(Descriptor descriptor, cudnnBackendAttributeName_t name,
                       const std::vector<Descriptor> &parts) {
  return set(descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, parts);
}

using Sizes = std::vector<int64_t>;

/// A descriptor of an f32 tensor without gaps.
Descriptor tensor(int64_t number, const Sizes &sizes, bool isVirtual = false, Sizes strides = {}) {
  Descriptor made = create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  if (strides.empty()) {
    strides.assign(sizes.size(), 1);
    for (int i = int(sizes.size()) - 2; i >= 0; --i)
      strides[i] = strides[i + 1] * sizes[i + 1];
  }
  EXPECT_DNN(set<cudnnDataType_t>(made, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE,
                                  {CUDNN_DATA_FLOAT}));
  EXPECT_DNN(set(made, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, sizes));
  EXPECT_DNN(set(made, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, strides));
  EXPECT_DNN(set<int64_t>(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {number}));
  EXPECT_DNN(set<int64_t>(made, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, {16}));
  EXPECT_DNN(cudnnBackendSetAttribute(made, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1,
                                      &isVirtual));
  EXPECT_DNN(cudnnBackendFinalize(made));
  return made;
}

Descriptor matmul(Descriptor a, Descriptor b, Descriptor c) {
  Descriptor what = create(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  EXPECT_DNN(set<cudnnDataType_t>(what, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                                  {CUDNN_DATA_FLOAT}));
  EXPECT_DNN(cudnnBackendFinalize(what));
  Descriptor made = create(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_MATMUL_DESC, {what}));
  EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_MATMUL_ADESC, {a}));
  EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_MATMUL_BDESC, {b}));
  EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_MATMUL_CDESC, {c}));
  EXPECT_DNN(cudnnBackendFinalize(made));
  return made;
}

Descriptor pointwise(cudnnPointwiseMode_t mode, Descriptor x, Descriptor b, Descriptor y) {
  Descriptor what = create(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  EXPECT_DNN(set<cudnnPointwiseMode_t>(what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE,
                                       {mode}));
  EXPECT_DNN(set<cudnnDataType_t>(what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE,
                                  {CUDNN_DATA_FLOAT}));
  EXPECT_DNN(cudnnBackendFinalize(what));
  Descriptor made = create(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, {what}));
  EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, {x}));
  if (b) {
    EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, {b}));
  }
  EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, {y}));
  EXPECT_DNN(cudnnBackendFinalize(made));
  return made;
}

Descriptor reduction(cudnnReduceTensorOp_t mode, Descriptor x, Descriptor y) {
  Descriptor what = create(CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  EXPECT_DNN(set<cudnnReduceTensorOp_t>(what, CUDNN_ATTR_REDUCTION_OPERATOR,
                                        CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, {mode}));
  EXPECT_DNN(set<cudnnDataType_t>(what, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
                                  {CUDNN_DATA_FLOAT}));
  EXPECT_DNN(cudnnBackendFinalize(what));
  Descriptor made = create(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_REDUCTION_DESC, {what}));
  EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, {x}));
  EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, {y}));
  EXPECT_DNN(cudnnBackendFinalize(made));
  return made;
}

Descriptor reshape(Descriptor x, Descriptor y) {
  Descriptor made = create(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, {x}));
  EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, {y}));
  EXPECT_DNN(cudnnBackendFinalize(made));
  return made;
}

/// The device with a handle of cuDNN.
struct Dnn : Gpu {
  cudnnHandle_t handle = nullptr;

  Dnn() {
    EXPECT_DNN(cudnnCreate(&handle));
    EXPECT_DNN(cudnnSetStream(handle, reinterpret_cast<cudaStream_t>(streams[0])));
  }
  Descriptor graph(const std::vector<Descriptor> &operations) const {
    Descriptor made = create(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    EXPECT_DNN(setParts(made, CUDNN_ATTR_OPERATIONGRAPH_OPS, operations));
    EXPECT_DNN(
        set<cudnnHandle_t>(made, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, {handle}));
    return made;
  }
  /// The plan of an engine for a graph.
  Descriptor plan(Descriptor graph, int64_t number) const {
    Descriptor engine = create(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    EXPECT_DNN(setParts(engine, CUDNN_ATTR_ENGINE_OPERATION_GRAPH, {graph}));
    EXPECT_DNN(set<int64_t>(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, {number}));
    EXPECT_DNN(cudnnBackendFinalize(engine));
    Descriptor configuration = create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    EXPECT_DNN(setParts(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, {engine}));
    EXPECT_DNN(cudnnBackendFinalize(configuration));
    Descriptor made = create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    EXPECT_DNN(setParts(made, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, {configuration}));
    EXPECT_DNN(cudnnBackendFinalize(made));
    return made;
  }
  cudnnStatus_t execute(Descriptor plan, const std::vector<int64_t> &numbers,
                        const std::vector<CUdeviceptr> &addresses, CUdeviceptr workspace) const {
    Descriptor pack = create(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    EXPECT_DNN(set(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, numbers));
    EXPECT_DNN(set(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, addresses));
    EXPECT_DNN(set<CUdeviceptr>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                {workspace}));
    EXPECT_DNN(cudnnBackendFinalize(pack));
    return cudnnBackendExecute(handle, plan, pack);
  }
};

std::vector<float> numbers(size_t count) {
  std::vector<float> made(count);
  for (size_t i = 0; i < count; ++i)
    made[i] = float(int(i * 7 % 11) - 5); // sums of matmuls are exact
  return made;
}

} // namespace

TEST(StubDnn, ComputesOperationsThatShareMatrices) {
  expectPasses({}, [] {
    Dnn dnn;
    // Four matrices times two, of which consecutive ones share one; then sums over pairs.
    Descriptor a = tensor(1, {1, 4, 3, 5}), b = tensor(2, {1, 2, 5, 2});
    Descriptor c = tensor(3, {1, 4, 3, 2}, true), sums = tensor(4, {1, 2, 3, 2});
    Descriptor largest = tensor(5, {1, 4, 3, 1}),
               transposed = tensor(6, {1, 4, 2, 3}, true, {24, 6, 1, 2});
    Descriptor doubled = tensor(7, {1, 4, 2, 3});
    // In another order than that of the data.
    Descriptor graph =
        dnn.graph({pointwise(CUDNN_POINTWISE_ADD, transposed, transposed, doubled),
                   reduction(CUDNN_REDUCE_TENSOR_ADD, c, sums), matmul(a, b, c),
                   reshape(c, transposed), reduction(CUDNN_REDUCE_TENSOR_MAX, c, largest)});
    EXPECT_DNN(cudnnBackendFinalize(graph));
    std::vector<float> left = numbers(60), right = numbers(20), expected(24);
    CUdeviceptr x = dnn.upload(left), y = dnn.upload(right), s = dnn.allocate(48),
                l = dnn.allocate(48), d = dnn.allocate(96), workspace = dnn.allocate(4096);
    for (int head = 0; head < 4; ++head)
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 2; ++j)
          for (int k = 0; k < 5; ++k)
            expected[head * 6 + i * 2 + j] +=
                left[head * 15 + i * 5 + k] * right[head / 2 * 10 + k * 2 + j];
    for (int64_t engine : {0, 1, 2, 5, 17}) {
      ASSERT_EQ(dnn.execute(dnn.plan(graph, engine), {1, 2, 4, 5, 7}, {x, y, s, l, d}, workspace),
                CUDNN_STATUS_SUCCESS)
          << lastError();
      CHECK_CU(cuStreamSynchronize(dnn.streams[0]));
      std::vector<float> sum = dnn.download<float>(s, 12), most = dnn.download<float>(l, 12),
                         twice = dnn.download<float>(d, 24);
      for (int head = 0; head < 4; ++head)
        for (int i = 0; i < 3; ++i) {
          const float *row = &expected[head * 6 + i * 2];
          EXPECT_EQ(most[head * 3 + i], std::max(row[0], row[1]));
          for (int j = 0; j < 2; ++j) {
            EXPECT_EQ(twice[head * 6 + j * 3 + i], 2 * row[j]);
            if (head % 2 == 0) {
              EXPECT_EQ(sum[head / 2 * 6 + i * 2 + j], row[j] + row[6 + j]);
            }
          }
        }
      CHECK_CU(cuMemsetD8Async(s, 0xff, 48, dnn.streams[0]));
      CHECK_CU(cuMemsetD8Async(l, 0xff, 48, dnn.streams[0]));
      CHECK_CU(cuMemsetD8Async(d, 0xff, 96, dnn.streams[0]));
    }
  });
}

TEST(StubDnn, OverwritesItsWorkspace) {
  expectPasses({}, [] {
    Dnn dnn;
    Descriptor x = tensor(1, {1, 1, 1, 8}), y = tensor(2, {1, 1, 1, 8});
    Descriptor graph = dnn.graph({pointwise(CUDNN_POINTWISE_EXP, x, nullptr, y)});
    EXPECT_DNN(cudnnBackendFinalize(graph));
    Descriptor plan = dnn.plan(graph, 0);
    int64_t bytes = 0;
    EXPECT_DNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                        CUDNN_TYPE_INT64, 1, nullptr, &bytes));
    ASSERT_GT(bytes, 0);
    std::vector<char> old(bytes + 4, 1);
    CUdeviceptr workspace = dnn.upload(old), from = dnn.upload(numbers(8)), to = dnn.allocate(32);
    EXPECT_DNN(dnn.execute(plan, {1, 2}, {from, to}, workspace));
    CHECK_CU(cuStreamSynchronize(dnn.streams[0]));
    std::vector<char> now = dnn.download<char>(workspace, bytes + 4);
    for (int64_t i = 0; i < bytes + 4; ++i)
      ASSERT_EQ(now[i], i < bytes ? char(-1) : 1) << i;
    std::vector<float> made = dnn.download<float>(to, 8);
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(made[i], std::exp(numbers(8)[i]));
    // What is not given, given twice, misaligned or missing.
    EXPECT_EQ(dnn.execute(plan, {1}, {from}, workspace), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(dnn.execute(plan, {1, 3}, {from, to}, workspace), CUDNN_STATUS_BAD_PARAM);
    EXPECT_EQ(dnn.execute(plan, {1, 1}, {from, to}, workspace),
              CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
    EXPECT_EQ(dnn.execute(plan, {1, 2}, {from, to + 4}, workspace),
              CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    EXPECT_EQ(dnn.execute(plan, {1, 2}, {from, to}, 0), CUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    EXPECT_DNN(dnn.execute(plan, {1, 2}, {from, to + 16}, workspace)); // 16 bytes too far
    EXPECT_EQ(cuStreamSynchronize(dnn.streams[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(StubDnn, RefusesWhatItDoesNotKnow) {
  expectPasses({}, [] {
    Dnn dnn;
    Descriptor made = nullptr;
    EXPECT_EQ(cudnnBackendCreateDescriptor(CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR, &made),
              CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_NE(lastError().find("no descriptor type 41"), std::string::npos);
    made = create(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    EXPECT_EQ(set<int64_t>(made, CUDNN_ATTR_TENSOR_VECTOR_COUNT, CUDNN_TYPE_INT64, {4}),
              CUDNN_STATUS_NOT_SUPPORTED);
    EXPECT_NE(lastError().find("does not know attribute 904"), std::string::npos);
    EXPECT_EQ(set<float>(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_FLOAT, {4}),
              CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    EXPECT_EQ(set<int64_t>(made, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, {4, 5}),
              CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
    EXPECT_EQ(cudnnBackendFinalize(made), CUDNN_STATUS_BAD_PARAM); // attributes are missing
    Descriptor operation = create(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    EXPECT_EQ(setParts(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, {made}),
              CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  });
}

TEST(StubDnn, RefusesGraphsThatItCannotCompute) {
  expectPasses({}, [] {
    Dnn dnn;
    Descriptor x = tensor(1, {1, 2, 3, 4}), y = tensor(2, {1, 2, 3, 4}),
               wide = tensor(3, {1, 2, 4, 4});
    Descriptor inner = tensor(4, {1, 2, 3, 4}, true), other = tensor(5, {1, 2, 3, 4}, true);
    auto refuses = [&](const std::vector<Descriptor> &operations, cudnnStatus_t status,
                       const char *text) {
      EXPECT_EQ(cudnnBackendFinalize(dnn.graph(operations)), status);
      std::string error = lastError();
      EXPECT_NE(error.find(text), std::string::npos) << error;
    };
    refuses({pointwise(CUDNN_POINTWISE_TANH_FWD, x, nullptr, y)}, CUDNN_STATUS_NOT_SUPPORTED,
            "no pointwise mode 101");
    refuses({pointwise(CUDNN_POINTWISE_ADD, x, nullptr, y)}, CUDNN_STATUS_BAD_PARAM,
            "other operands");
    refuses({pointwise(CUDNN_POINTWISE_ADD, x, wide, y)}, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
            "tensor 3 does not fit tensor 2");
    refuses({reduction(CUDNN_REDUCE_TENSOR_MUL, x, y)}, CUDNN_STATUS_NOT_SUPPORTED,
            "no reduction 1");
    refuses({matmul(x, y, wide)}, CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH, "other sizes");
    refuses({reshape(x, wide)}, CUDNN_STATUS_NOT_SUPPORTED, "only exchanges dimensions");
    refuses({pointwise(CUDNN_POINTWISE_EXP, inner, nullptr, y)}, CUDNN_STATUS_BAD_PARAM,
            "tensor 4 is virtual, but nothing makes it");
    refuses({pointwise(CUDNN_POINTWISE_EXP, inner, nullptr, other),
             pointwise(CUDNN_POINTWISE_EXP, other, nullptr, inner)},
            CUDNN_STATUS_BAD_PARAM, "cycle");
    refuses({pointwise(CUDNN_POINTWISE_EXP, x, nullptr, y),
             pointwise(CUDNN_POINTWISE_LOG, x, nullptr, y)},
            CUDNN_STATUS_BAD_PARAM, "two operations make tensor 2");
    refuses({pointwise(CUDNN_POINTWISE_EXP, tensor(2, {1, 2, 3, 4}), nullptr, y)},
            CUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "two descriptors describe tensor 2");
  });
}
