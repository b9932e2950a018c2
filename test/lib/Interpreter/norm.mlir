// RUN: shale-run %s | FileCheck %s

// The softmax of a row of -inf is NaN.
// CHECK-LABEL: @softmax
// CHECK: result0: 3x2xf64 {{.*}} [0.5, 0.5, 0.75, 0.25, {{-?}}nan, {{-?}}nan]
func.func @softmax() -> tensor<3x2xf64> {
  %x = nn.constant dense<[[1.0, 1.0], [1.09861228866811, 0.0], [0xFFF0000000000000, 0xFFF0000000000000]]> : tensor<3x2xf64>
  %0 = nn.softmax %x : tensor<3x2xf64>
  return %0 : tensor<3x2xf64>
}

// The row 1, 3 has mean 2 and variance 1; 0, 0 has rstd 1 / sqrt(epsilon).
// CHECK-LABEL: @layer_norm
// CHECK: result0: 2x2xf64 {{.*}} [-1, 3, 1, 1]
// CHECK: result1: 2xf64 {{.*}} [2, 0]
// CHECK: result2: 2xf64 {{.*}} [1, 1]
func.func @layer_norm() -> (tensor<2x2xf64>, tensor<2xf64>, tensor<2xf64>) {
  %x = nn.constant dense<[[0.0, 4.0], [0.0, 0.0]]> : tensor<2x2xf64>
  %y = nn.constant dense<[[1.0, 3.0], [0.0, 0.0]]> : tensor<2x2xf64>
  %s = nn.constant dense<[2.0, 2.0]> : tensor<2xf64>
  %b = nn.constant dense<1.0> : tensor<2xf64>
  %0, %1, %2 = nn.layer_norm %y, %s, %b epsilon = 0.000000e+00 : tensor<2x2xf64>, tensor<2xf64> -> tensor<2xf64>
  %z = nn.constant dense<[[1.0, 3.0], [0.0, 0.0]]> : tensor<2x2xf64>
  %3, %4, %5 = nn.layer_norm %x, %s, %b epsilon = 1.000000e+00 : tensor<2x2xf64>, tensor<2xf64> -> tensor<2xf64>
  // Rows of one result each: the first without epsilon, the second with 1.
  %r0 = nn.slice %0 starts = [0, 0] limits = [1, 2] strides = [1, 1] : tensor<2x2xf64> -> tensor<1x2xf64>
  %r1 = nn.slice %3 starts = [1, 0] limits = [2, 2] strides = [1, 1] : tensor<2x2xf64> -> tensor<1x2xf64>
  %r = nn.concat %r0, %r1 dim = 0 : (tensor<1x2xf64>, tensor<1x2xf64>) -> tensor<2x2xf64>
  %m = nn.slice %1 starts = [0] limits = [1] strides = [1] : tensor<2xf64> -> tensor<1xf64>
  %m1 = nn.slice %4 starts = [1] limits = [2] strides = [1] : tensor<2xf64> -> tensor<1xf64>
  %ms = nn.concat %m, %m1 dim = 0 : (tensor<1xf64>, tensor<1xf64>) -> tensor<2xf64>
  %q = nn.slice %2 starts = [0] limits = [1] strides = [1] : tensor<2xf64> -> tensor<1xf64>
  %q1 = nn.slice %5 starts = [1] limits = [2] strides = [1] : tensor<2xf64> -> tensor<1xf64>
  %qs = nn.concat %q, %q1 dim = 0 : (tensor<1xf64>, tensor<1xf64>) -> tensor<2xf64>
  return %r, %ms, %qs : tensor<2x2xf64>, tensor<2xf64>, tensor<2xf64>
}

// The mean square of 1, 7 is 25.
// CHECK-LABEL: @rms_norm
// CHECK: result0: 1x2xf64 {{.*}} [0.4, 2.8]
// CHECK: result1: 1xf64 {{.*}} [0.2]
func.func @rms_norm() -> (tensor<1x2xf64>, tensor<1xf64>) {
  %x = nn.constant dense<[[1.0, 7.0]]> : tensor<1x2xf64>
  %s = nn.constant dense<2.0> : tensor<2xf64>
  %0, %1 = nn.rms_norm %x, %s epsilon = 0.000000e+00 : tensor<1x2xf64>, tensor<2xf64> -> tensor<1xf64>
  return %0, %1 : tensor<1x2xf64>, tensor<1xf64>
}
