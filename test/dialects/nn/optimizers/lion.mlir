// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-opt --split-input-file | FileCheck %s
// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-run | FileCheck %s --check-prefix=VALUES

// CHECK-LABEL: func.func private @flat
// CHECK: nn.lion %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} beta1 %{{.*}} beta2 %{{.*}} weight_decay %{{.*}} offset %{{.*}} : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>] : tensor<8xf32> grad tensor<8xbf16> state tensor<8xbf16>, tensor<f32>
func.func private @flat(%p: tensor<8xf32>, %g: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  %p1, %m1 = nn.lion %p, %g, %g enable %e scale %s lr %s beta1 %s beta2 %s weight_decay %s offset %o : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>] : tensor<8xf32> grad tensor<8xbf16> state tensor<8xbf16>, tensor<f32>
  return
}

// g = 2, -2, 0; the update's signs 1, -1, 0; parameter 1 - 0.5 * 0.25 * 2 = 0.75, less 0.5 times the sign.
// VALUES-LABEL: @lion
// VALUES: result0: 3xf64 {{.*}} [0.25, 1.25, 0.75]
// VALUES: result1: 3xf64 {{.*}} [0.5, -0.5, 0]
// VALUES: result2: 3xf64 {{.*}} [1, 1, 1]
// CHECK-LABEL: func.func @lion
func.func @lion() -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %p = nn.constant dense<1.0> : tensor<3xf64>
  %g = nn.constant dense<[4.0, -4.0, 0.0]> : tensor<3xf64>
  %m = nn.constant dense<0.0> : tensor<3xf64>
  %half = nn.constant dense<0.5> : tensor<f64>
  %quarter = nn.constant dense<0.25> : tensor<f64>
  %most = nn.constant dense<0.75> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %no = nn.constant dense<false> : tensor<i1>
  %0, %1 = nn.lion %p, %g, %m enable %yes scale %half lr %half beta1 %half beta2 %most weight_decay %quarter factors <decay = 2.0> : tensor<3xf64>, tensor<f64>
  %2, %3 = nn.lion %p, %g, %m enable %no scale %half lr %half beta1 %half beta2 %most weight_decay %quarter factors <decay = 2.0> : tensor<3xf64>, tensor<f64>
  return %0, %1, %2 : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
}

// -----

// lion_c1: segments with operands that are not 1-D
func.func @lion_c1(%p: tensor<2x4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'segments' needs 1-D operands}}
  %p1, %m1 = nn.lion %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s weight_decay %s segments = [#nn.update_range<offset = 0, count = 4>] : tensor<2x4xf32>, tensor<f32>
  return
}

// -----

// lion_c2: an offset without segments
func.func @lion_c2(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  // expected-error@+1 {{'offset' needs 'segments'}}
  %p1, %m1 = nn.lion %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s weight_decay %s offset %o : tensor<i64> : tensor<8xf32>, tensor<f32>
  return
}

// -----

// The state has another shape than the parameter.
func.func @lion_shape(%p: tensor<8xf32>, %m: tensor<4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{all of {param, grad, momentum} have same shape}}
  %p1, %m1 = "nn.lion"(%p, %p, %m, %e, %s, %s, %s, %s, %s) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0>}> : (tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<i1>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) -> (tensor<8xf32>, tensor<4xf32>)
  return
}
