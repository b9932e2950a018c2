// RUN: shale-run %s --print 24 | FileCheck %s

// CHECK-LABEL: @movement
// CHECK: result0: 2x3xi64 {{.*}} [0, 1, 2, 0, 1, 2]
// CHECK: result1: 3x2xi64 {{.*}} [1, 4, 2, 5, 3, 6]
// CHECK: result2: 6xi64 {{.*}} [1, 2, 3, 4, 5, 6]
// CHECK: result3: 2x2x3xi64 {{.*}} [1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6]
// CHECK: result4: 2x2xi64 {{.*}} [1, 3, 4, 6]
// CHECK: result5: 4x4xi64 {{.*}} [9, 9, 9, 9, 1, 2, 3, 9, 9, 9, 9, 9, 4, 5, 6, 9]
// CHECK: result6: 2x5xi64 {{.*}} [1, 2, 3, 7, 8, 4, 5, 6, 9, 10]
func.func @movement() -> (tensor<2x3xi64>, tensor<3x2xi64>, tensor<6xi64>, tensor<2x2x3xi64>, tensor<2x2xi64>, tensor<4x4xi64>, tensor<2x5xi64>) {
  %x = nn.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>
  %0 = nn.iota dim = 1 : tensor<2x3xi64>
  %1 = nn.transpose %x perm = [1, 0] : tensor<2x3xi64> -> tensor<3x2xi64>
  %2 = nn.reshape %x : tensor<2x3xi64> -> tensor<6xi64>
  %3 = nn.broadcast %x dims = [0, 2] : tensor<2x3xi64> -> tensor<2x2x3xi64>
  %4 = nn.slice %x starts = [0, 0] limits = [2, 3] strides = [1, 2] : tensor<2x3xi64> -> tensor<2x2xi64>
  %5 = nn.pad %x low = [1, 0] high = [0, 1] interior = [1, 0] value = 9.000000e+00 : tensor<2x3xi64> -> tensor<4x4xi64>
  %y = nn.constant dense<[[7, 8], [9, 10]]> : tensor<2x2xi64>
  %6 = nn.concat %x, %y dim = 1 : (tensor<2x3xi64>, tensor<2x2xi64>) -> tensor<2x5xi64>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<2x3xi64>, tensor<3x2xi64>, tensor<6xi64>, tensor<2x2x3xi64>, tensor<2x2xi64>, tensor<4x4xi64>, tensor<2x5xi64>
}

// CHECK-LABEL: @gathers
// CHECK: result0: 2x2xf32 {{.*}} [3, 1, 6, 4]
// CHECK: result1: 1x1x3xf32 {{.*}} [4, 5, 6]
// CHECK: result2: 2xf32 {{.*}} [2, 6]
// CHECK: result3: 2xf32 {{.*}} [3, 4]
func.func @gathers() -> (tensor<2x2xf32>, tensor<1x1x3xf32>, tensor<2xf32>, tensor<2xf32>) {
  %x = nn.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %i = nn.constant dense<[2, 0]> : tensor<2xi64>
  %0 = nn.gather %x, %i dim = 1 : (tensor<2x3xf32>, tensor<2xi64>) -> tensor<2x2xf32>
  %j = nn.constant dense<[[1]]> : tensor<1x1xi32>
  %1 = nn.gather %x, %j dim = 0 : (tensor<2x3xf32>, tensor<1x1xi32>) -> tensor<1x1x3xf32>
  %k = nn.constant dense<[[0, 1], [1, 2]]> : tensor<2x2xi64>
  %2 = nn.gather_nd %x, %k batch_dims = 0 : (tensor<2x3xf32>, tensor<2x2xi64>) -> tensor<2xf32>
  %l = nn.constant dense<[[2], [0]]> : tensor<2x1xi64>
  %3 = nn.gather_nd %x, %l batch_dims = 1 : (tensor<2x3xf32>, tensor<2x1xi64>) -> tensor<2xf32>
  return %0, %1, %2, %3 : tensor<2x2xf32>, tensor<1x1x3xf32>, tensor<2xf32>, tensor<2xf32>
}

// Floats that are read out of range are NaN, integers are 0.
// CHECK-LABEL: @out_of_range
// CHECK: result0: 3xf32 {{.*}} [5, {{-?}}nan, {{-?}}nan]
// CHECK: result1: 3xi64 {{.*}} [5, 0, 0]
func.func @out_of_range() -> (tensor<3xf32>, tensor<3xi64>) {
  %x = nn.constant dense<[4.0, 5.0]> : tensor<2xf32>
  %y = nn.constant dense<[4, 5]> : tensor<2xi64>
  %i = nn.constant dense<[[1], [2], [-1]]> : tensor<3x1xi64>
  %0 = nn.gather_nd %x, %i batch_dims = 0 : (tensor<2xf32>, tensor<3x1xi64>) -> tensor<3xf32>
  %1 = nn.gather_nd %y, %i batch_dims = 0 : (tensor<2xi64>, tensor<3x1xi64>) -> tensor<3xi64>
  return %0, %1 : tensor<3xf32>, tensor<3xi64>
}

// Tuple [0, 1] twice, one out of range; then one index a row.
// CHECK-LABEL: @scatters
// CHECK: result0: 2x3xf32 {{.*}} [0, 5, 0, 0, 0, 2]
// CHECK: result1: 2x3xf32 {{.*}} [0, 0, 7, 8, 0, 0]
func.func @scatters() -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %k = nn.constant dense<[[0, 1], [1, 2], [0, 1], [0, 3]]> : tensor<4x2xi64>
  %g = nn.constant dense<[1.0, 2.0, 4.0, 8.0]> : tensor<4xf32>
  %0 = nn.gather_nd_grad %k, %g batch_dims = 0 : (tensor<4x2xi64>, tensor<4xf32>) -> tensor<2x3xf32>
  %l = nn.constant dense<[[2], [0]]> : tensor<2x1xi64>
  %h = nn.constant dense<[7.0, 8.0]> : tensor<2xf32>
  %1 = nn.gather_nd_grad %l, %h batch_dims = 1 : (tensor<2x1xi64>, tensor<2xf32>) -> tensor<2x3xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}

// CHECK-LABEL: @sums
// CHECK: result0: 2x3xi64 {{.*}} [1, 3, 6, 4, 9, 15]
// CHECK: result1: 2x3xi64 {{.*}} [5, 3, 0, 11, 6, 0]
// CHECK: result2: 2xi64 {{.*}} [6, 15]
// CHECK: result3: 3xi64 {{.*}} [4, 5, 6]
// CHECK: result4: i64 {{.*}} [720]
// CHECK: result5: 2xf32 {{.*}} [nan, 1]
// CHECK: result6: 2xf32 {{.*}} [-inf, -inf]
func.func @sums() -> (tensor<2x3xi64>, tensor<2x3xi64>, tensor<2xi64>, tensor<3xi64>, tensor<i64>, tensor<2xf32>, tensor<2xf32>) {
  %x = nn.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi64>
  %0 = nn.cumsum %x dim = 1 : tensor<2x3xi64>
  %1 = nn.cumsum %x dim = 1 exclusive reverse : tensor<2x3xi64>
  %2 = nn.reduce sum %x dims = [1] : tensor<2x3xi64> -> tensor<2xi64>
  %3 = nn.reduce max %x dims = [0] : tensor<2x3xi64> -> tensor<3xi64>
  %4 = nn.reduce prod %x dims = [0, 1] : tensor<2x3xi64> -> tensor<i64>
  %n = nn.constant dense<[[0x7FC00000, 1.0], [2.0, 1.0]]> : tensor<2x2xf32>
  %5 = nn.reduce min %n dims = [1] : tensor<2x2xf32> -> tensor<2xf32>
  %e = nn.constant dense<1.0> : tensor<2x0xf32>
  %6 = nn.reduce max %e dims = [1] : tensor<2x0xf32> -> tensor<2xf32>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<2x3xi64>, tensor<2x3xi64>, tensor<2xi64>, tensor<3xi64>, tensor<i64>, tensor<2xf32>, tensor<2xf32>
}
