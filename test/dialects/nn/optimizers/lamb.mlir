// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-opt --split-input-file | FileCheck %s
// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-run | FileCheck %s --check-prefix=VALUES

// CHECK-LABEL: func.func private @types
// CHECK: nn.lamb %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} beta1 %{{.*}} beta2 %{{.*}} epsilon %{{.*}} weight_decay %{{.*}} bias1 %{{.*}} bias2 %{{.*}} : tensor<2x4xf32> grad tensor<2x4xbf16> state tensor<2x4xbf16>, tensor<f32>
func.func private @types(%p: tensor<2x4xf32>, %g: tensor<2x4xbf16>, %s: tensor<f32>, %e: tensor<i1>) {
  %p1, %m1, %v1 = nn.lamb %p, %g, %g, %g enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s : tensor<2x4xf32> grad tensor<2x4xbf16> state tensor<2x4xbf16>, tensor<f32>
  return
}

// g = 2, -2; moments 1, -1 and 2, 2; direction 1 / 0.5 / (sqrt(2 / 0.5) + 2) = 0.5 with either sign, and the decay adds
// 0.25 * 2 * (3, 4) = (1.5, 2). The update (2, 1.5) has norm 2.5 and the parameter 5: 3 - 0.5 * 2 * 2 and 4 - 0.5 * 2 * 1.5.
// Then a parameter of 0, and an update of 0: the ratio is 1. Then nothing is enabled.
// VALUES-LABEL: @lamb
// VALUES: result0: 2xf64 {{.*}} [1, 2.5]
// VALUES: result1: 2xf64 {{.*}} [1, -1]
// VALUES: result2: 2xf64 {{.*}} [2, 2]
// VALUES: result3: 2xf64 {{.*}} [-0.25, 0.25]
// VALUES: result4: 2xf64 {{.*}} [3, 4]
// VALUES: result5: 2xf64 {{.*}} [3, 4]
// VALUES: result6: 2xf64 {{.*}} [0, 0]
// CHECK-LABEL: func.func @lamb
func.func @lamb() -> (tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) {
  %p = nn.constant dense<[3.0, 4.0]> : tensor<2xf64>
  %g = nn.constant dense<[4.0, -4.0]> : tensor<2xf64>
  %none = nn.constant dense<0.0> : tensor<2xf64>
  %zero = nn.constant dense<0.0> : tensor<f64>
  %quarter = nn.constant dense<0.25> : tensor<f64>
  %half = nn.constant dense<0.5> : tensor<f64>
  %two = nn.constant dense<2.0> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %no = nn.constant dense<false> : tensor<i1>
  %0, %1, %2 = nn.lamb %p, %g, %none, %none enable %yes scale %half lr %half beta1 %half beta2 %half epsilon %two weight_decay %quarter bias1 %half bias2 %half factors <decay = 2.0> : tensor<2xf64>, tensor<f64>
  %3, %4, %5 = nn.lamb %none, %g, %none, %none enable %yes scale %half lr %half beta1 %half beta2 %half epsilon %two weight_decay %quarter bias1 %half bias2 %half factors <decay = 2.0> : tensor<2xf64>, tensor<f64>
  %6, %7, %8 = nn.lamb %p, %none, %none, %none enable %yes scale %half lr %half beta1 %half beta2 %half epsilon %two weight_decay %zero bias1 %half bias2 %half factors <decay = 2.0> : tensor<2xf64>, tensor<f64>
  %9, %10, %11 = nn.lamb %p, %g, %none, %none enable %no scale %half lr %half beta1 %half beta2 %half epsilon %two weight_decay %quarter bias1 %half bias2 %half factors <decay = 2.0> : tensor<2xf64>, tensor<f64>
  return %0, %1, %2, %3, %6, %9, %10 : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
}

// -----

// lamb_c1: segments
func.func @lamb_c1(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{updates one parameter: it takes no 'offset' and no 'segments'}}
  %p1, %m1, %v1 = nn.lamb %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s segments = [#nn.update_range<offset = 0, count = 4>] : tensor<8xf32>, tensor<f32>
  return
}

// -----

// The state has another shape than the parameter.
func.func @lamb_shape(%p: tensor<8xf32>, %m: tensor<4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{all of {param, grad, moment1} have same shape}}
  %p1, %m1, %v1 = "nn.lamb"(%p, %p, %m, %m, %e, %s, %s, %s, %s, %s, %s, %s, %s) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0>}> : (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<i1>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}
