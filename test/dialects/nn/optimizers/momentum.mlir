// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-opt --split-input-file | FileCheck %s
// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-run | FileCheck %s --check-prefix=VALUES

// CHECK-LABEL: func.func private @flat
// CHECK: nn.momentum %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} momentum %{{.*}} gradient_weight %{{.*}} nesterov %{{.*}} weight_decay %{{.*}} weight %{{.*}} offset %{{.*}} : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>] : tensor<8xf32> grad tensor<8xbf16> state tensor<8xbf16>, tensor<f32>
func.func private @flat(%p: tensor<8xf32>, %g: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  %p1, %v1 = nn.momentum %p, %g, %g enable %e scale %s lr %s momentum %s gradient_weight %s nesterov %s weight_decay %s weight %s offset %o : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>] : tensor<8xf32> grad tensor<8xbf16> state tensor<8xbf16>, tensor<f32>
  return
}

// g = 3 * 0.5 + 1 * 0.25 * 2 = 2; the velocity 4 * 0.5 + 2 * 0.25 = 2.5. The usual step is 0.5 * 2.5 = 1.25, Nesterov's
// 0.5 * (2 + 0.5 * 2.5) = 1.625.
// VALUES-LABEL: @momentum
// VALUES: result0: 1xf64 {{.*}} [-0.25]
// VALUES: result1: 1xf64 {{.*}} [2.5]
// VALUES: result2: 1xf64 {{.*}} [-0.625]
// VALUES: result3: 1xf64 {{.*}} [1]
// CHECK-LABEL: func.func @momentum
func.func @momentum() -> (tensor<1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<1xf64>) {
  %p = nn.constant dense<1.0> : tensor<1xf64>
  %g = nn.constant dense<3.0> : tensor<1xf64>
  %v = nn.constant dense<4.0> : tensor<1xf64>
  %zero = nn.constant dense<0.0> : tensor<f64>
  %quarter = nn.constant dense<0.25> : tensor<f64>
  %half = nn.constant dense<0.5> : tensor<f64>
  %one = nn.constant dense<1.0> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %no = nn.constant dense<false> : tensor<i1>
  %0, %1 = nn.momentum %p, %g, %v enable %yes scale %half lr %half momentum %half gradient_weight %one nesterov %zero weight_decay %quarter weight %quarter factors <decay = 2.0> : tensor<1xf64>, tensor<f64>
  %2, %3 = nn.momentum %p, %g, %v enable %yes scale %half lr %half momentum %half gradient_weight %one nesterov %one weight_decay %quarter weight %quarter factors <decay = 2.0> : tensor<1xf64>, tensor<f64>
  %4, %5 = nn.momentum %p, %g, %v enable %no scale %half lr %half momentum %half gradient_weight %one nesterov %one weight_decay %quarter weight %quarter factors <decay = 2.0> : tensor<1xf64>, tensor<f64>
  return %0, %1, %2, %4 : tensor<1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<1xf64>
}

// -----

// momentum_c1: segments with operands that are not 1-D
func.func @momentum_c1(%p: tensor<2x4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'segments' needs 1-D operands}}
  %p1, %v1 = nn.momentum %p, %p, %p enable %e scale %s lr %s momentum %s gradient_weight %s nesterov %s weight_decay %s weight %s segments = [#nn.update_range<offset = 0, count = 4>] : tensor<2x4xf32>, tensor<f32>
  return
}

// -----

// momentum_c2: an offset without segments
func.func @momentum_c2(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  // expected-error@+1 {{'offset' needs 'segments'}}
  %p1, %v1 = nn.momentum %p, %p, %p enable %e scale %s lr %s momentum %s gradient_weight %s nesterov %s weight_decay %s weight %s offset %o : tensor<i64> : tensor<8xf32>, tensor<f32>
  return
}
