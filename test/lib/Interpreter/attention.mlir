// RUN: shale-run %s --print 16 | FileCheck %s

// All scores are equal: each position averages the values that it sees.
// CHECK-LABEL: @causal
// CHECK: result0: 1x1x3x1xf64 {{.*}} [1, 1.5, 3]
// CHECK: result1: 1x1x3xf64 {{.*}} [0, 0.693147181, 1.09861229]
func.func @causal() -> (tensor<1x1x3x1xf64>, tensor<1x1x3xf64>) {
  %q = nn.constant dense<0.0> : tensor<1x1x3x2xf64>
  %v = nn.constant dense<[[[[1.0], [2.0], [6.0]]]]> : tensor<1x1x3x1xf64>
  %0, %1 = nn.attention %q, %q, %v causal scale = 1.000000e+00 : tensor<1x1x3x2xf64>, tensor<1x1x3x2xf64>, tensor<1x1x3x1xf64> -> tensor<1x1x3x1xf64>, tensor<1x1x3xf64>
  return %0, %1 : tensor<1x1x3x1xf64>, tensor<1x1x3xf64>
}

// One query more keys back: it sees all three; heads 0, 1 read key head 0.
// CHECK-LABEL: @grouped
// CHECK: result0: 1x4x1x1xf64 {{.*}} [3, 3, 30, 30]
func.func @grouped() -> tensor<1x4x1x1xf64> {
  %q = nn.constant dense<0.0> : tensor<1x4x1x2xf64>
  %k = nn.constant dense<1.0> : tensor<1x2x3x2xf64>
  %v = nn.constant dense<[[[[1.0], [2.0], [6.0]], [[10.0], [20.0], [60.0]]]]> : tensor<1x2x3x1xf64>
  %0, %1 = nn.attention %q, %k, %v causal scale = 1.000000e+00 : tensor<1x4x1x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x1xf64> -> tensor<1x4x1x1xf64>, tensor<1x4x1xf64>
  return %0 : tensor<1x4x1x1xf64>
}

// Scale and mask: scores 2 * log(3) * 0.5 + 0 and 0, then key 1 is masked out.
// CHECK-LABEL: @masked
// CHECK: result0: 1x1x1x1xf64 {{.*}} [1.75]
// CHECK: result1: 1x1x1x1xf64 {{.*}} [1]
func.func @masked() -> (tensor<1x1x1x1xf64>, tensor<1x1x1x1xf64>) {
  %q = nn.constant dense<2.0> : tensor<1x1x1x1xf64>
  %k = nn.constant dense<[[[[0.0], [1.09861228866811]]]]> : tensor<1x1x2x1xf64>
  %v = nn.constant dense<[[[[1.0], [2.0]]]]> : tensor<1x1x2x1xf64>
  %0, %1 = nn.attention %q, %k, %v scale = 5.000000e-01 : tensor<1x1x1x1xf64>, tensor<1x1x2x1xf64>, tensor<1x1x2x1xf64> -> tensor<1x1x1x1xf64>, tensor<1x1x1xf64>
  %m = nn.constant dense<[[[[0.0, 0xFFF0000000000000]]]]> : tensor<1x1x1x2xf64>
  %2, %3 = nn.attention %q, %k, %v mask %m : tensor<1x1x1x2xf64> scale = 5.000000e-01 : tensor<1x1x1x1xf64>, tensor<1x1x2x1xf64>, tensor<1x1x2x1xf64> -> tensor<1x1x1x1xf64>, tensor<1x1x1xf64>
  return %0, %2 : tensor<1x1x1x1xf64>, tensor<1x1x1x1xf64>
}

// Equal scores: padded keys do not count; a row that sees nothing is zero, its lse 0, or NaN without a guard. A number in
// place of all scores of a row, or added to them, gives all keys the same weight.
// CHECK-LABEL: @seen
// CHECK: result0: 1x1x3x1xf64 {{.*}} [0, 2, 4]
// CHECK: result1: 1x1x3xf64 {{.*}} [0, 0, 0.693147181]
// CHECK: result2: 1x1x3x1xf64 {{.*}} [{{-?}}nan, 2, 4]
// CHECK: result3: 1x1x3x1xf64 {{.*}} [3, 2, 3]
// CHECK: result4: 1x1x3x1xf64 {{.*}} [3, 2, 3]
func.func @seen() -> (tensor<1x1x3x1xf64>, tensor<1x1x3xf64>, tensor<1x1x3x1xf64>, tensor<1x1x3x1xf64>, tensor<1x1x3x1xf64>) {
  %q = nn.constant dense<0.0> : tensor<1x1x3x2xf64>
  %v = nn.constant dense<[[[[1.0], [2.0], [6.0]]]]> : tensor<1x1x3x1xf64>
  %s = nn.constant dense<[[[[false, true, true]]]]> : tensor<1x1x1x3xi1>
  %0, %1 = nn.attention %q, %q, %v seen %s : tensor<1x1x1x3xi1> guard causal scale = 1.000000e+00 : tensor<1x1x3x2xf64>, tensor<1x1x3x2xf64>, tensor<1x1x3x1xf64> -> tensor<1x1x3x1xf64>, tensor<1x1x3xf64>
  %2, %3 = nn.attention %q, %q, %v seen %s : tensor<1x1x1x3xi1> causal scale = 1.000000e+00 : tensor<1x1x3x2xf64>, tensor<1x1x3x2xf64>, tensor<1x1x3x1xf64> -> tensor<1x1x3x1xf64>, tensor<1x1x3xf64>
  %t = nn.constant dense<[[[[false, false, false], [false, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %4, %5 = nn.attention %q, %q, %v seen %t : tensor<1x1x3x3xi1> hidden = -1.0e9 scale = 1.000000e+00 : tensor<1x1x3x2xf64>, tensor<1x1x3x2xf64>, tensor<1x1x3x1xf64> -> tensor<1x1x3x1xf64>, tensor<1x1x3xf64>
  %6, %7 = nn.attention %q, %q, %v seen %t : tensor<1x1x3x3xi1> hidden = -1.0e9 added scale = 1.000000e+00 : tensor<1x1x3x2xf64>, tensor<1x1x3x2xf64>, tensor<1x1x3x1xf64> -> tensor<1x1x3x1xf64>, tensor<1x1x3xf64>
  return %0, %1, %2, %4, %6 : tensor<1x1x3x1xf64>, tensor<1x1x3xf64>, tensor<1x1x3x1xf64>, tensor<1x1x3x1xf64>, tensor<1x1x3x1xf64>
}

// Equal scores: each position averages itself and the one before it; or itself and both neighbours.
// CHECK-LABEL: @window
// CHECK: result0: 1x1x3x1xf64 {{.*}} [1, 1.5, 4]
// CHECK: result1: 1x1x3x1xf64 {{.*}} [1.5, 3, 4]
func.func @window() -> (tensor<1x1x3x1xf64>, tensor<1x1x3x1xf64>) {
  %q = nn.constant dense<0.0> : tensor<1x1x3x2xf64>
  %v = nn.constant dense<[[[[1.0], [2.0], [6.0]]]]> : tensor<1x1x3x1xf64>
  %0, %1 = nn.attention %q, %q, %v causal window = 2 scale = 1.000000e+00 : tensor<1x1x3x2xf64>, tensor<1x1x3x2xf64>, tensor<1x1x3x1xf64> -> tensor<1x1x3x1xf64>, tensor<1x1x3xf64>
  %2, %3 = nn.attention %q, %q, %v window = 2 scale = 1.000000e+00 : tensor<1x1x3x2xf64>, tensor<1x1x3x2xf64>, tensor<1x1x3x1xf64> -> tensor<1x1x3x1xf64>, tensor<1x1x3xf64>
  return %0, %2 : tensor<1x1x3x1xf64>, tensor<1x1x3x1xf64>
}

// A quarter turn: (a, b) becomes (-b, a); the fifth element stays.
// CHECK-LABEL: @rope
// CHECK: result0: 1x5xf64 {{.*}} [-3, -4, 1, 2, 5]
// CHECK: result1: 1x5xf64 {{.*}} [-2, 1, -4, 3, 5]
// CHECK: result2: 1x5xf64 {{.*}} [3, 4, -1, -2, 5]
func.func @rope() -> (tensor<1x5xf64>, tensor<1x5xf64>, tensor<1x5xf64>) {
  %x = nn.constant dense<[[1.0, 2.0, 3.0, 4.0, 5.0]]> : tensor<1x5xf64>
  %c = nn.constant dense<0.0> : tensor<1x2xf64>
  %s = nn.constant dense<1.0> : tensor<1x2xf64>
  %0 = nn.rope %x, %c, %s : tensor<1x5xf64>, tensor<1x2xf64>
  %1 = nn.rope %x, %c, %s interleaved : tensor<1x5xf64>, tensor<1x2xf64>
  %2 = nn.rope %x, %c, %s inverse : tensor<1x5xf64>, tensor<1x2xf64>
  return %0, %1, %2 : tensor<1x5xf64>, tensor<1x5xf64>, tensor<1x5xf64>
}
