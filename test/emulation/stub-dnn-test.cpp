// The runtime's attention (runtime/device/cuda/Dnn.h) on the emulated cuDNN, against plain loops.
#include "AttentionReference.h"
#include "Floats.h"
#include "StubTest.h"
#include "lib/Target/CUDA/AttentionBytes.h"
#include "runtime/device/cuda/Dnn.h"
#include "runtime/device/cuda/DynamicLibrary.h"

using namespace shale::stub;
using namespace shale::stub::test;
using namespace shale::cuda;
using shale::rt::Attention;
using shale::rt::Dtype;
using shale::rt::cuda::Dnn;

namespace {

enum class Layout { Heads, Positions, Packed }; // [B,H,T,D], [B,T,H,D], parts of one matmul

struct Case {
  int64_t batch = 2, heads = 4, keyHeads = 4, length = 24, keyLength = 24, depth = 16,
          valueDepth = 16;
  bool causal = true, deterministic = false;
  int64_t window = 0;
  Dtype type = Dtype::BF16;
  Layout layout = Layout::Positions;
};

/// The bytes that a program plans.
int64_t plannedBytes(const Case &c, bool gradient, int architecture = 90) {
  return attentionBytes(
      {c.batch, c.heads, c.keyHeads, c.length, c.keyLength, c.depth, c.valueDepth}, gradient,
      c.deterministic, architecture);
}

uint16_t narrowTo(Dtype type, double value) {
  return type == Dtype::BF16 ? BFloat::of(float(value)).bits : Half::of(float(value)).bits;
}
double widen(Dtype type, uint16_t bits) {
  return type == Dtype::BF16 ? float(BFloat{bits}) : float(Half{bits});
}

constexpr uint16_t kUntouched = 0x5a5a;

/// Device memory with some of the tensors.
struct Block {
  CUdeviceptr memory = 0;
  std::vector<uint16_t> bits;
  std::vector<bool> used;

  void reserve(Gpu &gpu, int64_t elements) {
    bits.assign(elements, kUntouched);
    used.assign(elements, false);
    memory = gpu.allocate(elements * 2);
  }
};

/// A tensor in a block.
struct Placed {
  Block *block = nullptr;
  int64_t first = 0, strides[4] = {};

  int64_t index(const Tensor4 &t, size_t i) const {
    int64_t rest = i, sum = first;
    for (auto [size, stride] : {std::pair{t.depth, strides[3]},
                                {t.length, strides[2]},
                                {t.heads, strides[1]},
                                {t.batch, strides[0]}}) {
      sum += rest % size * stride;
      rest /= size;
    }
    return sum;
  }
  void write(Dtype type, const Tensor4 &t) {
    for (size_t i = 0; i < t.values.size(); ++i)
      block->bits[index(t, i)] = narrowTo(type, t.values[i]);
  }
  void mark(const Tensor4 &t) {
    for (size_t i = 0; i < t.values.size(); ++i)
      block->used[index(t, i)] = true;
  }
  Attention::Tensor place() const {
    Attention::Tensor made;
    made.data = reinterpret_cast<void *>(block->memory + 2 * first);
    std::copy_n(strides, 4, made.strides);
    return made;
  }
};

/// An attention with its memory, its reference and cuDNN.
struct Problem {
  Gpu gpu;
  Case c;
  AttentionReference reference;
  Block inputs[3], outputs[2], gradients[3];
  Placed query, key, value, output, outputGradient, queryGradient, keyGradient, valueGradient;
  CUdeviceptr lse = 0, workspace = 0;
  int64_t workspaceBytes = 0;
  Dnn dnn;

  explicit Problem(const Case &c) : c(c), dnn((openLibraries(), 0)) {
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    auto draw = [&](int64_t heads, int64_t length, int64_t depth) {
      Tensor4 made(c.batch, heads, length, depth);
      for (double &value : made.values)
        value = widen(c.type, narrowTo(c.type, normal(random)));
      return made;
    };
    reference.query = draw(c.heads, c.length, c.depth);
    reference.key = draw(c.keyHeads, c.keyLength, c.depth);
    reference.value = draw(c.keyHeads, c.keyLength, c.valueDepth);
    reference.outputGradient = draw(c.heads, c.length, c.valueDepth);
    reference.causal = c.causal, reference.window = c.window;
    reference.scale = float(1 / std::sqrt(double(c.depth)));
    reference.unit = c.type == Dtype::BF16 ? 0x1p-8 : 0x1p-11;
    reference.compute();
    place(inputs, query, key, value);
    place(gradients, queryGradient, keyGradient, valueGradient);
    output = alone(outputs[0], reference.output, c.layout);
    outputGradient = alone(outputs[1], reference.output, Layout::Positions);
    query.write(c.type, reference.query);
    key.write(c.type, reference.key);
    value.write(c.type, reference.value);
    outputGradient.write(c.type, reference.outputGradient);
    lse = gpu.allocate(c.batch * c.heads * c.length * 4);
    setWorkspace(plannedBytes(c, true));
    upload();
  }

  static void openLibraries() { shale::rt::cuda::setLibraryFolder(STUBS); }

  void setWorkspace(int64_t bytes) {
    workspaceBytes = bytes;
    workspace = gpu.allocate(bytes);
  }
  Placed alone(Block &block, const Tensor4 &t, Layout layout) {
    // A gap of 8 elements behind each row of heads or positions.
    Placed made{&block, 8, {}};
    int64_t inner = t.depth + 8;
    if (layout == Layout::Heads) {
      int64_t strides[] = {t.heads * t.length * inner, t.length * inner, inner, 1};
      std::copy_n(strides, 4, made.strides);
    } else {
      int64_t strides[] = {t.length * t.heads * inner, inner, t.heads * inner, 1};
      std::copy_n(strides, 4, made.strides);
    }
    block.reserve(gpu, 8 + t.batch * t.heads * t.length * inner);
    made.mark(t);
    return made;
  }
  /// Places tensors of the sizes of query, key and value.
  void place(Block (&blocks)[3], Placed &first, Placed &second, Placed &third) {
    if (c.layout != Layout::Packed) {
      first = alone(blocks[0], reference.query, c.layout);
      second = alone(blocks[1], reference.key, c.layout);
      third = alone(blocks[2], reference.value, c.layout);
      return;
    }
    int64_t row = c.heads * c.depth + c.keyHeads * (c.depth + c.valueDepth), start = 0;
    blocks[0].reserve(gpu, c.batch * c.length * row);
    for (auto [placed, tensor] : {std::pair{&first, &reference.query},
                                  {&second, &reference.key},
                                  {&third, &reference.value}}) {
      *placed = {&blocks[0], start, {c.length * row, tensor->depth, row, 1}};
      placed->mark(*tensor);
      start += tensor->heads * tensor->depth;
    }
  }
  void upload() {
    for (Block *block : {&inputs[0], &inputs[1], &inputs[2], &outputs[0], &outputs[1],
                         &gradients[0], &gradients[1], &gradients[2]}) {
      if (!block->memory)
        continue;
      EXPECT_CU(cuMemcpyHtoD(block->memory, block->bits.data(), block->bits.size() * 2));
    }
  }
  /// Gives the gradient an output and its lse that were not computed by cuDNN.
  void provideOutput() {
    output.write(c.type, reference.output);
    std::vector<float> sums(reference.lse.values.begin(), reference.lse.values.end());
    EXPECT_CU(cuMemcpyHtoD(lse, sums.data(), sums.size() * 4));
    upload();
  }

  Attention attention(bool gradient) const {
    Attention a = {};
    a.batch = c.batch, a.heads = c.heads, a.keyHeads = c.keyHeads;
    a.length = c.length, a.keyLength = c.keyLength;
    a.depth = c.depth, a.valueDepth = c.valueDepth;
    a.causal = c.causal, a.window = c.window, a.deterministic = c.deterministic;
    a.scale = float(reference.scale), a.type = c.type;
    a.query = query.place(), a.key = key.place(), a.value = value.place();
    a.output = output.place(), a.lse = reinterpret_cast<float *>(lse);
    if (gradient) {
      a.outputGradient = outputGradient.place(), a.queryGradient = queryGradient.place();
      a.keyGradient = keyGradient.place(), a.valueGradient = valueGradient.place();
    }
    a.workspace = reinterpret_cast<void *>(workspace);
    a.workspaceBytes = workspaceBytes;
    return a;
  }
  void attend(bool gradient) { dnn.attend(attention(gradient), gpu.streams[0]); }

  /// Reads a block that was written, and checks that its gaps were not.
  void fetch(Block &block) {
    CHECK_CU(cuStreamSynchronize(gpu.streams[0]));
    block.bits = gpu.download<uint16_t>(block.memory, block.bits.size());
    for (size_t i = 0; i < block.bits.size(); ++i)
      ASSERT_TRUE(block.used[i] || block.bits[i] == kUntouched) << "element " << i;
  }
  void compare(const Placed &placed, const Tensor4 &expected, const Tensor4 &bar,
               const char *what) {
    for (size_t i = 0; i < expected.values.size(); ++i)
      ASSERT_NEAR(widen(c.type, placed.block->bits[placed.index(expected, i)]), expected.values[i],
                  bar.values[i] + 1e-6)
          << what << " " << i;
  }
  void checkForward() {
    attend(false);
    fetch(outputs[0]);
    compare(output, reference.output, reference.outputBar, "output");
    std::vector<float> sums = gpu.download<float>(lse, reference.lse.values.size());
    for (size_t i = 0; i < sums.size(); ++i)
      ASSERT_NEAR(sums[i], reference.lse.values[i], 1e-5 * (1 + std::abs(sums[i]))) << "lse " << i;
  }
  void checkGradient() {
    provideOutput();
    attend(true);
    for (Block &block : gradients)
      if (block.memory)
        fetch(block);
    compare(queryGradient, reference.queryGradient, reference.queryBar, "query's gradient");
    compare(keyGradient, reference.keyGradient, reference.keyBar, "key's gradient");
    compare(valueGradient, reference.valueGradient, reference.valueBar, "value's gradient");
  }
  /// The bits of all gradients after one more call.
  std::vector<uint16_t> gradientBits() {
    attend(true);
    std::vector<uint16_t> all;
    for (Block &block : gradients)
      if (block.memory) {
        fetch(block);
        all.insert(all.end(), block.bits.begin(), block.bits.end());
      }
    return all;
  }
};

/// Runs `body` in a process that must end with `code` and a message.
#define EXPECT_ENDS(code, message, ...)                                                            \
  EXPECT_EXIT(([&] { __VA_ARGS__; }(), std::exit(0)), testing::ExitedWithCode(code), message)

} // namespace

TEST(Dnn, ComputesAllForms) {
  expectPasses({}, [] {
    for (Dtype type : {Dtype::BF16, Dtype::F16})
      for (Layout layout : {Layout::Heads, Layout::Positions, Layout::Packed})
        for (int bits = 0; bits < 16; ++bits) {
          Case c;
          c.type = type, c.layout = layout;
          c.causal = bits & 1, c.deterministic = bits & 2;
          c.keyHeads = bits & 4 ? 2 : 4;
          if (bits & 8) { // other sizes
            c.batch = 1, c.length = 20, c.valueDepth = 24;
            c.keyLength = layout == Layout::Packed ? 20 : 37;
          }
          SCOPED_TRACE(testing::Message() << shale::rt::nameOf(type) << ", layout " << int(layout)
                                          << ", form " << bits);
          Problem problem(c);
          problem.checkForward();
          problem.checkGradient();
          ASSERT_FALSE(testing::Test::HasFailure());
        }
  });
}

TEST(Dnn, Windows) {
  expectPasses({}, [] {
    for (int64_t window : {1, 5, 23, 24, 1000})
      for (bool deterministic : {false, true}) {
        Case c;
        c.window = window, c.deterministic = deterministic, c.keyHeads = 2;
        SCOPED_TRACE(testing::Message() << "window " << window);
        Problem problem(c);
        problem.checkForward();
        problem.checkGradient();
        ASSERT_FALSE(testing::Test::HasFailure());
      }
  });
}

TEST(Dnn, AttendsInEveryOrderOfWork) {
  for (const char *order : {"first", "last", "random:1", "random:2"})
    expectPasses({{"SHALE_STUB_ORDER", order}}, [] {
      Problem problem(Case{});
      problem.checkForward();
      problem.checkGradient();
    });
}

TEST(Dnn, KeepsPlansOfSeveralShapes) {
  expectPasses({}, [] {
    Problem problem(Case{});
    problem.checkForward();
    problem.checkGradient();
    problem.c.causal = problem.reference.causal = false;
    problem.reference.compute();
    problem.checkForward();
    problem.checkGradient();
    problem.c.causal = problem.reference.causal = true;
    problem.reference.compute();
    problem.checkForward();
    problem.c.window = problem.reference.window = 7;
    problem.reference.compute();
    problem.checkForward();
    problem.checkGradient();
  });
}

TEST(Dnn, ForwardNeedsNoLse) {
  expectPasses({}, [] {
    Problem problem(Case{});
    Attention a = problem.attention(false);
    a.lse = nullptr;
    problem.dnn.attend(a, problem.gpu.streams[0]);
    problem.fetch(problem.outputs[0]);
    problem.compare(problem.output, problem.reference.output, problem.reference.outputBar,
                    "output");
  });
}

TEST(Dnn, IsDeterministicOnRequest) {
  expectPasses({}, [] {
    Case c;
    c.length = c.keyLength = 64;
    for (int architecture : {90, 100}) {
      setenv("SHALE_STUB_CAPABILITY", architecture == 90 ? "9.0" : "10.0", 1);
      c.deterministic = true;
      Problem problem(c);
      problem.setWorkspace(plannedBytes(c, true, architecture));
      problem.provideOutput();
      std::vector<uint16_t> first = problem.gradientBits();
      for (int run = 0; run < 2; ++run)
        EXPECT_EQ(problem.gradientBits(), first);
      // The plan that comes first adds up in any order.
      c.deterministic = false;
      Problem other(c);
      other.provideOutput();
      first = other.gradientBits();
      EXPECT_NE(other.gradientBits(), first);
      EXPECT_NE(other.gradientBits(), first);
    }
  });
}

TEST(Dnn, ReplaysInAGraph) {
  expectPasses({}, [] {
    Case c;
    c.deterministic = true;
    Problem problem(c);
    problem.checkForward(); // builds the plan
    std::vector<uint16_t> direct = problem.outputs[0].bits;
    CUstream stream = problem.gpu.streams[0];
    CHECK_CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    problem.attend(false);
    CUgraph graph = nullptr;
    CHECK_CU(cuStreamEndCapture(stream, &graph));
    CUgraphExec exec = nullptr;
    CHECK_CU(cuGraphInstantiate(&exec, graph, 0));
    std::fill(problem.outputs[0].bits.begin(), problem.outputs[0].bits.end(), kUntouched);
    problem.upload();
    problem.fetch(problem.outputs[0]);
    EXPECT_EQ(problem.outputs[0].bits[8], kUntouched); // not run by the capture
    CHECK_CU(cuGraphLaunch(exec, stream));
    problem.fetch(problem.outputs[0]);
    EXPECT_EQ(problem.outputs[0].bits, direct);
    // Other inputs at the same addresses.
    problem.reference.value.values[0] += 1;
    problem.reference.compute();
    problem.value.write(c.type, problem.reference.value);
    problem.upload();
    CHECK_CU(cuGraphLaunch(exec, stream));
    problem.fetch(problem.outputs[0]);
    EXPECT_NE(problem.outputs[0].bits, direct);
    problem.compare(problem.output, problem.reference.output, problem.reference.outputBar,
                    "output");
  });
}

TEST(Dnn, NeedsItsWorkspace) {
  for (int form = 0; form < 4; ++form) {
    Case c;
    c.deterministic = form & 1;
    c.keyHeads = form & 2 ? 2 : 4;
    SCOPED_TRACE(form);
    expectPasses({}, [&] { // the plan with the least workspace
      Problem problem(c);
      problem.setWorkspace(plannedBytes(c, true) - 256);
      problem.checkGradient();
    });
    EXPECT_ENDS(
        SHALE_EXIT_NO_FIT,
        "needs [0-9]* bytes of workspace for the .*gradient of causal attention of 2 rows, 4 "
        "heads .*, but the program planned [0-9]* bytes; .* --attention generated",
        Problem problem(c);
        problem.setWorkspace(plannedBytes(c, true) - 257); problem.attend(true));
  }
}

TEST(Dnn, RefusesWhatCudnnRefuses) {
  const char *message =
      "cuDNN [0-9.]* has no plan for the .*causal attention .* on GPUs of compute "
      "capability 9.0: .*; compile the program with --attention generated";
  Case c;
  c.depth = 12;
  EXPECT_ENDS(SHALE_EXIT_UNAVAILABLE, message, Problem(c).attend(true));
  c = {};
  c.length = 25; // the first position sees no key
  EXPECT_ENDS(SHALE_EXIT_UNAVAILABLE, message, Problem(c).attend(false));
  EXPECT_ENDS(SHALE_EXIT_UNAVAILABLE, message, Problem(c).attend(true));
  c = {};
  EXPECT_ENDS(SHALE_EXIT_UNAVAILABLE, message, Problem problem(c);
              problem.query.strides[2] += 4; // rows are not aligned
              problem.attend(false));
  EXPECT_ENDS(SHALE_EXIT_UNAVAILABLE, message, Problem problem(c); problem.key.strides[3] = 2;
              problem.attend(false));
  EXPECT_ENDS(SHALE_EXIT_UNAVAILABLE, message, Problem problem(c); problem.c.keyHeads = 3;
              problem.attend(false));
}

TEST(Dnn, NeedsAUsableLibrary) {
  EXPECT_ENDS(SHALE_EXIT_OK, "", Problem::openLibraries(); Dnn::check());
  auto check = [] {
    try {
      Problem::openLibraries();
      Dnn::check();
    } catch (const shale::rt::Error &error) {
      shale::rt::die(error.code, error.what());
    }
  };
  EXPECT_ENDS(SHALE_EXIT_UNAVAILABLE,
              "cuDNN has version 9.18.1; this program needs 9.19.0 or later: .* --cuda-libraries",
              setenv("SHALE_STUB_CUDNN_VERSION", "91801", 1);
              check());
  EXPECT_ENDS(
      SHALE_EXIT_UNAVAILABLE, "cuDNN does not start: CUDNN_STATUS_NOT_INITIALIZED",
      setenv("SHALE_STUB_FAIL", "cudnnCreate=CUDNN_STATUS_NOT_INITIALIZED", 1);
      try { Problem problem(Case{}); } catch (const shale::rt::Error &error) {
        shale::rt::die(error.code, error.what());
      });
}

TEST(Dnn, NamesALibraryThatCannotBeOpened) {
  // The loader's first one is an empty file.
  EXPECT_ENDS(
      SHALE_EXIT_UNAVAILABLE, "this program needs cuDNN 9: .*libcudnn.so.9.*--cuda-libraries",
      try { Dnn::check(); } catch (const shale::rt::Error &error) {
        shale::rt::die(error.code, error.what());
      });
}

TEST(Dnn, ReportsCallsThatFail) {
  EXPECT_ENDS(SHALE_EXIT_INTERNAL,
              "cuDNN cannot compute the causal attention of .*CUDNN_STATUS_EXECUTION_FAILED",
              setenv("SHALE_STUB_FAIL", "cudnnBackendExecute@2=CUDNN_STATUS_EXECUTION_FAILED", 1);
              Problem problem(Case{}); problem.attend(false); problem.attend(false));
  EXPECT_ENDS(SHALE_EXIT_INTERNAL, "cuDNN cannot compute .*: CUDNN_STATUS_BAD_PARAM",
              setenv("SHALE_STUB_FAIL", "cudnnSetStream=CUDNN_STATUS_BAD_PARAM", 1);
              Problem(Case{}).attend(true));
  for (const char *function :
       {"cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute", "cudnnBackendFinalize"})
    for (int call : {1, 20, 60}) {
      std::string fault =
          std::string(function) + "@" + std::to_string(call) + "=CUDNN_STATUS_INTERNAL_ERROR";
      EXPECT_ENDS(SHALE_EXIT_UNAVAILABLE, "cuDNN 9.* has no plan for .*",
                  setenv("SHALE_STUB_FAIL", fault.c_str(), 1);
                  Problem(Case{}).attend(true));
    }
}

TEST(Dnn, FindsMemoryThatIsTooSmall) {
  expectPasses({}, [] {
    Problem problem(Case{});
    Attention a = problem.attention(true);
    a.workspace = reinterpret_cast<void *>(problem.gpu.allocate(1024)); // the call states more
    problem.dnn.attend(a, problem.gpu.streams[0]);
    EXPECT_EQ(cuStreamSynchronize(problem.gpu.streams[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
  expectPasses({}, [] {
    Problem problem(Case{});
    Attention a = problem.attention(true);
    a.queryGradient = a.query; // over an operand
    problem.dnn.attend(a, problem.gpu.streams[0]);
    EXPECT_EQ(cuStreamSynchronize(problem.gpu.streams[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}
