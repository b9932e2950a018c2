// RUN: shale-run --check-gradient %s | FileCheck %s

// The gradients of query, key and value.
func.func @causal(%q: tensor<2x4x3x2xf64>, %k: tensor<2x4x3x2xf64>, %v: tensor<2x4x3x5xf64>) -> tensor<2x4x3x5xf64> {
  %o, %l = nn.attention %q, %k, %v causal scale = 7.000000e-01 : tensor<2x4x3x2xf64>, tensor<2x4x3x2xf64>, tensor<2x4x3x5xf64> -> tensor<2x4x3x5xf64>, tensor<2x4x3xf64>
  return %o : tensor<2x4x3x5xf64>
}
// Two query heads share one key head, and there are more keys than queries.
func.func @grouped(%q: tensor<1x4x3x2xf64>, %k: tensor<1x2x5x2xf64>, %v: tensor<1x2x5x2xf64>) -> tensor<1x4x3x2xf64> {
  %o, %l = nn.attention %q, %k, %v causal scale = 7.000000e-01 : tensor<1x4x3x2xf64>, tensor<1x2x5x2xf64>, tensor<1x2x5x2xf64> -> tensor<1x4x3x2xf64>, tensor<1x4x3xf64>
  return %o : tensor<1x4x3x2xf64>
}
func.func @masked(%q: tensor<1x2x3x2xf64>, %k: tensor<1x2x3x2xf64>, %v: tensor<1x2x3x2xf64>, %m: tensor<1x1x3x3xf64> {nn.role = #nn.role<input>}) -> tensor<1x2x3x2xf64> {
  %o, %l = nn.attention %q, %k, %v mask %m : tensor<1x1x3x3xf64> scale = 7.000000e-01 : tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64> -> tensor<1x2x3x2xf64>, tensor<1x2x3xf64>
  return %o : tensor<1x2x3x2xf64>
}
// Forward and backward passes drop the same probabilities. Two query heads share one key head.
func.func @dropped(%q: tensor<2x4x3x2xf64>, %k: tensor<2x2x3x2xf64>, %v: tensor<2x2x3x2xf64>) -> tensor<2x4x3x2xf64> {
  %s = nn.constant dense<3> : tensor<i64>
  %o, %l = nn.attention %q, %k, %v causal scale = 7.000000e-01 dropout <ratio = 0.4 : f64, id = 7> (%s, %s, %s : tensor<i64>, tensor<i64>, tensor<i64>) : tensor<2x4x3x2xf64>, tensor<2x2x3x2xf64>, tensor<2x2x3x2xf64> -> tensor<2x4x3x2xf64>, tensor<2x4x3xf64>
  return %o : tensor<2x4x3x2xf64>
}
// Padding and a causal mask: the first queries of batch row 1 see no key, and their rows are zero.
func.func @seen(%q: tensor<2x2x3x2xf64>, %k: tensor<2x2x3x2xf64>, %v: tensor<2x2x3x2xf64>) -> tensor<2x2x3x2xf64> {
  %s = nn.constant dense<[[[[true, true, false]]], [[[false, false, true]]]]> : tensor<2x1x1x3xi1>
  %o, %l = nn.attention %q, %k, %v seen %s : tensor<2x1x1x3xi1> guard causal scale = 7.000000e-01 : tensor<2x2x3x2xf64>, tensor<2x2x3x2xf64>, tensor<2x2x3x2xf64> -> tensor<2x2x3x2xf64>, tensor<2x2x3xf64>
  return %o : tensor<2x2x3x2xf64>
}
// Hidden keys get a finite score that still contributes to the result, and a bias is added.
func.func @replaced(%q: tensor<1x2x3x2xf64>, %k: tensor<1x2x3x2xf64>, %v: tensor<1x2x3x2xf64>, %m: tensor<1x2x1x3xf64> {nn.role = #nn.role<input>}) -> tensor<1x2x3x2xf64> {
  %s = nn.constant dense<[[[[true, false, true], [false, false, false], [true, true, false]]]]> : tensor<1x1x3x3xi1>
  %o, %l = nn.attention %q, %k, %v mask %m : tensor<1x2x1x3xf64> seen %s : tensor<1x1x3x3xi1> hidden = -0.5 scale = 7.000000e-01 : tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64> -> tensor<1x2x3x2xf64>, tensor<1x2x3xf64>
  return %o : tensor<1x2x3x2xf64>
}
// All keys of a row are hidden by the lowest number: all get the same probability, in the gradient, too.
func.func @lowest(%q: tensor<1x2x3x2xf64>, %k: tensor<1x2x3x2xf64>, %v: tensor<1x2x3x2xf64>) -> tensor<1x2x3x2xf64> {
  %s = nn.constant dense<[[[[true, false, true], [false, false, false], [true, true, false]]]]> : tensor<1x1x3x3xi1>
  %o, %l = nn.attention %q, %k, %v seen %s : tensor<1x1x3x3xi1> hidden = -3.4028234663852886E+38 scale = 7.000000e-01 : tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64> -> tensor<1x2x3x2xf64>, tensor<1x2x3xf64>
  return %o : tensor<1x2x3x2xf64>
}
func.func @added(%q: tensor<1x2x3x2xf64>, %k: tensor<1x2x3x2xf64>, %v: tensor<1x2x3x2xf64>) -> tensor<1x2x3x2xf64> {
  %s = nn.constant dense<[[[[true, false, true], [false, false, false], [true, true, false]]]]> : tensor<1x1x3x3xi1>
  %o, %l = nn.attention %q, %k, %v seen %s : tensor<1x1x3x3xi1> hidden = -0.5 added scale = 7.000000e-01 : tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64>, tensor<1x2x3x2xf64> -> tensor<1x2x3x2xf64>, tensor<1x2x3xf64>
  return %o : tensor<1x2x3x2xf64>
}
// Each position sees those that are fewer than two away. Two query heads share one key head, and there are more keys than queries.
func.func @window(%q: tensor<1x4x3x2xf64>, %k: tensor<1x2x5x2xf64>, %v: tensor<1x2x5x2xf64>) -> tensor<1x4x3x2xf64> {
  %o, %l = nn.attention %q, %k, %v window = 2 scale = 7.000000e-01 : tensor<1x4x3x2xf64>, tensor<1x2x5x2xf64>, tensor<1x2x5x2xf64> -> tensor<1x4x3x2xf64>, tensor<1x4x3xf64>
  return %o : tensor<1x4x3x2xf64>
}
// CHECK: @causal argument 0: 48 elements
// CHECK: @causal argument 1: 48 elements
// CHECK: @causal argument 2: 120 elements
// CHECK: @grouped argument 0: 24 elements
// CHECK: @grouped argument 1: 20 elements
// CHECK: @grouped argument 2: 20 elements
// CHECK: @masked argument 0: 12 elements
// CHECK: @masked argument 1: 12 elements
// CHECK: @masked argument 2: 12 elements
// CHECK: @dropped argument 0: 48 elements
// CHECK: @dropped argument 1: 24 elements
// CHECK: @dropped argument 2: 24 elements
// CHECK: @seen argument 0: 24 elements
// CHECK: @seen argument 1: 24 elements
// CHECK: @seen argument 2: 24 elements
// CHECK: @replaced argument 0: 12 elements
// CHECK: @replaced argument 1: 12 elements
// CHECK: @replaced argument 2: 12 elements
// CHECK: @lowest argument 0: 12 elements
// CHECK: @lowest argument 1: 12 elements
// CHECK: @lowest argument 2: 12 elements
// CHECK: @added argument 0: 12 elements
// CHECK: @added argument 1: 12 elements
// CHECK: @added argument 2: 12 elements
// CHECK: @window argument 0: 24 elements
// CHECK: @window argument 1: 20 elements
// CHECK: @window argument 2: 20 elements
