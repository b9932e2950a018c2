// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-opt --split-input-file | FileCheck %s
// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-run | FileCheck %s --check-prefix=VALUES

// CHECK-LABEL: func.func private @forms
// CHECK: nn.muon %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} beta %{{.*}} nesterov %{{.*}} match_rms_adamw %{{.*}} weight_decay %{{.*}} factors <lr_scale = 2.000000e+00> : tensor<2x4xf32> grad tensor<2x4xbf16> state tensor<2x4xbf16>, tensor<f32>
// CHECK: nn.muon_step %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} beta %{{.*}} weight_decay %{{.*}} offset %{{.*}} : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>] : tensor<8xf32> grad tensor<8xbf16>, tensor<8xbf16>, tensor<8xf32>, tensor<f32>
func.func private @forms(%w: tensor<2x4xf32>, %h: tensor<2x4xbf16>, %p: tensor<8xf32>, %g: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  %w1, %n1 = nn.muon %w, %h, %h enable %e scale %s lr %s beta %s nesterov %s match_rms_adamw %s weight_decay %s factors <lr_scale = 2.0> : tensor<2x4xf32> grad tensor<2x4xbf16> state tensor<2x4xbf16>, tensor<f32>
  %p1, %m1, %d1 = nn.muon_step %p, %g, %g, %p enable %e scale %s lr %s beta %s weight_decay %s offset %o : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>] : tensor<8xf32> grad tensor<8xbf16>, tensor<8xbf16>, tensor<8xf32>, tensor<f32>
  return
}

// g = (3, 4) in the first row of four, momentum half of it. A matrix of one singular value becomes 0.696436 times its direction, which
// is (0.6, 0.8): the value is that of f(f(f(f(f(1))))) with f(x) = 3.4445 x - 4.775 x^3 + 2.0315 x^5. The factor is sqrt(4 / 2) or
// 0.2 sqrt(4). The parameter is 1 - 0.5 * 0.25 * 2 = 0.75, less half of the matmul.
// VALUES-LABEL: @muon
// VALUES: result0: 4x2xf64 {{.*}} [0.454527055, 0.356036074, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75]
// VALUES: result1: 4x2xf64 {{.*}} [1.5, 2, 0, 0, 0, 0, 0, 0]
// VALUES: result2: 4x2xf64 {{.*}} [0.666427631, 0.638570174, 0.75, 0.75, 0.75, 0.75, 0.75, 0.75]
// VALUES: result3: 4x2xf64 {{.*}} [1, 1, 1, 1, 1, 1, 1, 1]
// CHECK-LABEL: func.func @muon
func.func @muon() -> (tensor<4x2xf64>, tensor<4x2xf64>, tensor<4x2xf64>, tensor<4x2xf64>) {
  %p = nn.constant dense<1.0> : tensor<4x2xf64>
  %g = nn.constant dense<[[6.0, 8.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]]> : tensor<4x2xf64>
  %m = nn.constant dense<0.0> : tensor<4x2xf64>
  %half = nn.constant dense<0.5> : tensor<f64>
  %quarter = nn.constant dense<0.25> : tensor<f64>
  %zero = nn.constant dense<0.0> : tensor<f64>
  %one = nn.constant dense<1.0> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %no = nn.constant dense<false> : tensor<i1>
  %0, %1 = nn.muon %p, %g, %m enable %yes scale %half lr %half beta %half nesterov %one match_rms_adamw %zero weight_decay %quarter factors <decay = 2.0> : tensor<4x2xf64>, tensor<f64>
  %2, %3 = nn.muon %p, %g, %m enable %yes scale %half lr %half beta %half nesterov %zero match_rms_adamw %one weight_decay %quarter factors <decay = 2.0> : tensor<4x2xf64>, tensor<f64>
  %4, %5 = nn.muon %p, %g, %m enable %no scale %half lr %half beta %half nesterov %one match_rms_adamw %one weight_decay %quarter factors <decay = 2.0> : tensor<4x2xf64>, tensor<f64>
  return %0, %1, %2, %4 : tensor<4x2xf64>, tensor<4x2xf64>, tensor<4x2xf64>, tensor<4x2xf64>
}

// g = 2, -2, 0; momentum 1, -1, 0; parameter 1 - 0.5 * 0.25 * 2 = 0.75, less 0.5 times the direction.
// VALUES-LABEL: @muon_step
// VALUES: result0: 3xf64 {{.*}} [0.25, 0.75, -0.25]
// VALUES: result1: 3xf64 {{.*}} [1, -1, 0]
// VALUES: result2: 3xf64 {{.*}} [1, 1, 1]
// CHECK-LABEL: func.func @muon_step
func.func @muon_step() -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %p = nn.constant dense<1.0> : tensor<3xf64>
  %g = nn.constant dense<[4.0, -4.0, 0.0]> : tensor<3xf64>
  %d = nn.constant dense<[1.0, 0.0, 2.0]> : tensor<3xf64>
  %m = nn.constant dense<0.0> : tensor<3xf64>
  %half = nn.constant dense<0.5> : tensor<f64>
  %quarter = nn.constant dense<0.25> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %no = nn.constant dense<false> : tensor<i1>
  %0, %1, %2 = nn.muon_step %p, %g, %m, %d enable %yes scale %half lr %half beta %half weight_decay %quarter factors <decay = 2.0> : tensor<3xf64> grad tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<f64>
  %3, %4, %5 = nn.muon_step %p, %g, %m, %d enable %no scale %half lr %half beta %half weight_decay %quarter factors <decay = 2.0> : tensor<3xf64> grad tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<f64>
  return %0, %1, %3 : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
}

// -----

// muon_c1: a flat group
func.func @muon_c1(%p: tensor<2x4xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  // expected-error@+1 {{updates one parameter: it takes no 'offset' and no 'segments'}}
  %p1, %m1 = nn.muon %p, %p, %p enable %e scale %s lr %s beta %s nesterov %s match_rms_adamw %s weight_decay %s offset %o : tensor<i64> : tensor<2x4xf32>, tensor<f32>
  return
}

// -----

// muon_c2: a vector
func.func @muon_c2(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{updates matrices; got 'tensor<8xf32>'}}
  %p1, %m1 = nn.muon %p, %p, %p enable %e scale %s lr %s beta %s nesterov %s match_rms_adamw %s weight_decay %s : tensor<8xf32>, tensor<f32>
  return
}

// -----

// muon_step_c1: segments with operands that are not 1-D
func.func @muon_step_c1(%p: tensor<2x4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'segments' needs 1-D operands}}
  %p1, %m1, %d1 = nn.muon_step %p, %p, %p, %p enable %e scale %s lr %s beta %s weight_decay %s segments = [#nn.update_range<offset = 0, count = 4>] : tensor<2x4xf32> grad tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<f32>
  return
}

// -----

// muon_step_c2: an offset without segments
func.func @muon_step_c2(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  // expected-error@+1 {{'offset' needs 'segments'}}
  %p1, %m1, %d1 = nn.muon_step %p, %p, %p, %p enable %e scale %s lr %s beta %s weight_decay %s offset %o : tensor<i64> : tensor<8xf32> grad tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<f32>
  return
}

// -----

// The momentum has another shape than the parameter.
func.func @muon_shape(%p: tensor<2x4xf32>, %m: tensor<4x2xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{all of {param, grad, momentum} have same shape}}
  %p1, %m1 = nn.muon %p, %p, %m enable %e scale %s lr %s beta %s nesterov %s match_rms_adamw %s weight_decay %s : tensor<2x4xf32> state tensor<4x2xf32>, tensor<f32>
  return
}

// -----

// The direction has another shape than the parameter.
func.func @muon_step_shape(%p: tensor<8xf32>, %d: tensor<4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{all of {param, grad, momentum, direction} have same shape}}
  %p1, %m1, %d1 = nn.muon_step %p, %p, %p, %d enable %e scale %s lr %s beta %s weight_decay %s : tensor<8xf32> grad tensor<8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<f32>
  return
}
