// Which tensors of a file are masks and position numbers, by their values.
#include "runtime/checkpoint/Masks.h"
#include "runtime/checkpoint/SafetensorsWriter.h"
#include "test/unit/runtime/TemporaryFolder.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>

using namespace shale::rt;

namespace {
class Masks : public TemporaryFolder {
protected:
  /// Whether a tensor of this shape with f32 values, or values in another type, is a mask.
  bool is(const std::vector<int64_t> &shape, const std::function<double(int64_t)> &value,
          Dtype type = Dtype::F32, const char *name = "h.0.attn.bias") {
    int64_t count = 1;
    for (int64_t d : shape)
      count *= d;
    std::string bytes(count * sizeOf(type), '\0');
    for (int64_t i = 0; i < count; ++i) {
      double number = value(i);
      convert(Dtype::F64, &number, type, bytes.data() + i * sizeOf(type), 1);
    }
    std::string path = put("x.bin", bytes);
    TensorInfo info;
    info.type = type;
    info.shape = shape;
    info.offset = 0;
    info.bytes = int64_t(bytes.size());
    return isMask(InputFile(path), info, name);
  }
};

TEST_F(Masks, Triangles) {
  const int64_t n = 70;
  auto triangle = [&](double below, double above) {
    return [=](int64_t i) { return i % n <= i / n ? below : above; };
  };
  for (Dtype type : {Dtype::F32, Dtype::U8, Dtype::BF16, Dtype::F16})
    EXPECT_TRUE(is({1, 1, n, n}, triangle(1, 0), type));
  EXPECT_TRUE(is({n, n}, triangle(0, 1)));
  EXPECT_TRUE(is({1, n, n}, triangle(0, -1e9)));
  EXPECT_TRUE(is({n, n}, triangle(0, -INFINITY)));
  // Weights, and squares that are nearly masks.
  EXPECT_FALSE(is({n, n}, triangle(1, 0.5)));
  EXPECT_FALSE(is({n, n}, triangle(0, 0)));
  EXPECT_FALSE(is({n, n}, [](int64_t) { return 1; }));
  EXPECT_FALSE(is({n, n}, [=](int64_t i) { return i == n * n - 1 ? 0 : triangle(1, 0)(i); }));
  EXPECT_FALSE(is({n, n}, [=](int64_t i) { return i % n == i / n; })); // an identity
  EXPECT_FALSE(is({2, n, n}, triangle(1, 0)));
  EXPECT_FALSE(is({n, n + 1}, triangle(1, 0)));
}

TEST_F(Masks, CountsAndNumbers) {
  auto count = [](int64_t i) { return double(i); };
  EXPECT_TRUE(is({1, 512}, count, Dtype::I64));
  EXPECT_TRUE(is({70000}, count, Dtype::I32));
  EXPECT_FALSE(is({512}, count)); // F32
  EXPECT_FALSE(is({512}, [](int64_t i) { return i + 1.0; }, Dtype::I64));
  EXPECT_FALSE(is({2, 512}, count, Dtype::I64));
  const char *name = "h.0.attn.masked_bias";
  EXPECT_TRUE(is({}, [](int64_t) { return -1e4; }, Dtype::F32, name));
  EXPECT_TRUE(is({1}, [](int64_t) { return -1e9; }, Dtype::F32, name));
  EXPECT_FALSE(is({}, [](int64_t) { return -1e4; }, Dtype::F32, "h.0.attn.bias"));
  EXPECT_FALSE(is({}, [](int64_t) { return 0.5; }, Dtype::F32, name));
  EXPECT_FALSE(is({0}, count, Dtype::I64, name));
  EXPECT_FALSE(is({0, 0}, count));
}
} // namespace
