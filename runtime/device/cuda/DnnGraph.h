// Attention as a graph of operations for cuDNN. The header includes cudnn-frontend, which takes
// long to compile: it is only for Dnn.cpp and for the test that gives the graphs to cuDNN.
#ifndef SHALE_RUNTIME_DEVICE_CUDA_DNNGRAPH_H
#define SHALE_RUNTIME_DEVICE_CUDA_DNNGRAPH_H

#include "runtime/device/Device.h"

// cuDNN is opened by DynamicLibrary. The frontend itself opens only libcudart, that of CUDA 12
// before that of CUDA 13, and only to ask for the current context, which it does without if it
// cannot. So it gets no library.
#include <dlfcn.h>
#define dlopen(name, flags) nullptr
#define NV_CUDNN_FRONTEND_USE_DYNAMIC_LOADING
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>
#undef dlopen

namespace shale::rt::cuda {

namespace fe = cudnn_frontend;

/// Numbers of the tensors in the graphs. Addresses are passed in this order.
enum AttentionTensor : int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOutput,
  kLse,
  kOutputGradient,
  kQueryGradient,
  kKeyGradient,
  kValueGradient
};

using GraphTensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// Gives a tensor its number, sizes and strides.
inline void placeTensor(fe::graph::Tensor_attributes &tensor, AttentionTensor number,
                        const Attention::Tensor &place, int64_t batch, int64_t heads,
                        int64_t length, int64_t depth) {
  const int64_t *strides = place.strides;
  tensor.set_uid(number)
      .set_dim({batch, heads, length, depth})
      .set_stride({strides[0], strides[1], strides[2], strides[3]});
}

/// Makes the options that the forward pass and the gradient have in common.
template <typename Options> Options attentionOptions(const Attention &a) {
  Options options;
  options.set_name("attention").set_attn_scale(a.scale);
  if (a.causal)
    options
        .set_diagonal_alignment(a.length == a.keyLength ? fe::DiagonalAlignment_t::TOP_LEFT
                                                        : fe::DiagonalAlignment_t::BOTTOM_RIGHT)
        .set_diagonal_band_right_bound(0);
  if (a.window > 0 && a.window < a.keyLength) // sees s > t - window
    options.set_diagonal_band_left_bound(int(a.window));
  return options;
}

/// Makes the graph of an attention on GPUs of an architecture (90: compute capability 9.0). cuDNN
/// has not seen it yet: neither its sizes nor its strides are checked.
inline std::shared_ptr<fe::graph::Graph> attentionGraph(const Attention &a, int architecture) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(a.type == Dtype::BF16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  graph->set_sm_version(architecture);
  // Plans outlive the CUDA graphs that were captured from them.
  graph->set_cuda_graph_retention(fe::CudaGraphRetention_t::NONE);

  auto input = [&](AttentionTensor number, const Attention::Tensor &place, int64_t heads,
                   int64_t length, int64_t depth) {
    fe::graph::Tensor_attributes tensor;
    placeTensor(tensor, number, place, a.batch, heads, length, depth);
    return graph->tensor(tensor);
  };
  auto output = [&](const GraphTensor &tensor, AttentionTensor number,
                    const Attention::Tensor &place, int64_t heads, int64_t length, int64_t depth) {
    tensor->set_output(true);
    placeTensor(*tensor, number, place, a.batch, heads, length, depth);
  };
  const Attention::Tensor dense = {a.lse, {a.heads * a.length, a.length, 1, 1}};
  GraphTensor query = input(kQuery, a.query, a.heads, a.length, a.depth);
  GraphTensor key = input(kKey, a.key, a.keyHeads, a.keyLength, a.depth);
  GraphTensor value = input(kValue, a.value, a.keyHeads, a.keyLength, a.valueDepth);

  if (!a.isGradient()) {
    auto options = attentionOptions<fe::graph::SDPA_attributes>(a);
    options.set_generate_stats(a.lse != nullptr)
        .set_implementation(fe::AttentionImplementation_t::COMPOSITE);
    auto [result, lse] = graph->sdpa(query, key, value, options);
    output(result, kOutput, a.output, a.heads, a.length, a.valueDepth);
    if (a.lse) {
      output(lse, kLse, dense, a.heads, a.length, 1);
      lse->set_data_type(fe::DataType_t::FLOAT);
    }
    return graph;
  }
  auto options = attentionOptions<fe::graph::SDPA_backward_attributes>(a);
  options.set_deterministic_algorithm(a.deterministic);
  GraphTensor result = input(kOutput, a.output, a.heads, a.length, a.valueDepth);
  GraphTensor lse = input(kLse, dense, a.heads, a.length, 1);
  lse->set_data_type(fe::DataType_t::FLOAT);
  GraphTensor gradient = input(kOutputGradient, a.outputGradient, a.heads, a.length, a.valueDepth);
  auto [dQuery, dKey, dValue] =
      graph->sdpa_backward(query, key, value, result, gradient, lse, options);
  output(dQuery, kQueryGradient, a.queryGradient, a.heads, a.length, a.depth);
  output(dKey, kKeyGradient, a.keyGradient, a.keyHeads, a.keyLength, a.depth);
  output(dValue, kValueGradient, a.valueGradient, a.keyHeads, a.keyLength, a.valueDepth);
  return graph;
}

/// Lets cuDNN propose plans for a graph, on the device of `handle` or, if that is null, on that of
/// the graph's device properties. Plans that are not deterministic are deselected on request.
inline fe::error_t proposePlans(fe::graph::Graph &graph, cudnnHandle_t handle, bool deterministic) {
  fe::error_t error = graph.validate();
  if (error.is_good())
    error = graph.build_operation_graph(handle);
  if (error.is_good())
    error = graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
  if (error.is_good() && deterministic)
    graph.deselect_numeric_notes({fe::NumericalNote_t::NONDETERMINISTIC});
  return error;
}

} // namespace shale::rt::cuda

#endif
