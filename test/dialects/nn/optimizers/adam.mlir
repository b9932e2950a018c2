// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-opt --split-input-file | FileCheck %s
// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-run | FileCheck %s --check-prefix=VALUES

// CHECK-LABEL: func.func private @flat
// CHECK: nn.adam %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} beta1 %{{.*}} beta2 %{{.*}} epsilon %{{.*}} weight_decay %{{.*}} decoupled_decay %{{.*}} shrink %{{.*}} bias1 %{{.*}} bias2 %{{.*}} offset %{{.*}} : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>] : tensor<8xf32> grad tensor<8xbf16> state tensor<8xbf16>, tensor<f32>
func.func private @flat(%p: tensor<8xf32>, %g: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  %p1, %m1, %v1 = nn.adam %p, %g, %g, %g enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s decoupled_decay %s shrink %s bias1 %s bias2 %s offset %o : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>] : tensor<8xf32> grad tensor<8xbf16> state tensor<8xbf16>, tensor<f32>
  return
}

// g = 4 * 0.5 + 1 * 0.25 * 2 = 2.5; moments 1.25 and 0.25 * 6.25 = 1.5625, whose root is 1.25. The rate is
// 0.5 * sqrt(0.25) / 0.5 = 0.5, the step 0.5 * 1.25 / (1.25 + 0.75) = 0.3125. Decay after it: 1 - (0.5 * 0.25 + 0.25) * 2 = 0.25.
// The second element: g = -2 + 0.5 = -1.5, moments -0.75 and 0.5625, step 0.5 * -0.75 / (0.75 + 0.75) = -0.25.
// VALUES-LABEL: @adam
// VALUES: result0: 2xf64 {{.*}} [0.171875, 0.3125]
// VALUES: result1: 2xf64 {{.*}} [1.25, -0.75]
// VALUES: result2: 2xf64 {{.*}} [1.5625, 0.5625]
// VALUES: result3: 2xf64 {{.*}} [1, 1]
// CHECK-LABEL: func.func @adam
func.func @adam() -> (tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) {
  %p = nn.constant dense<1.0> : tensor<2xf64>
  %g = nn.constant dense<[4.0, -4.0]> : tensor<2xf64>
  %m = nn.constant dense<0.0> : tensor<2xf64>
  %quarter = nn.constant dense<0.25> : tensor<f64>
  %half = nn.constant dense<0.5> : tensor<f64>
  %most = nn.constant dense<0.75> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %no = nn.constant dense<false> : tensor<i1>
  %0, %1, %2 = nn.adam %p, %g, %m, %m enable %yes scale %half lr %half beta1 %half beta2 %most epsilon %most weight_decay %quarter decoupled_decay %quarter shrink %quarter bias1 %half bias2 %quarter factors <decay = 2.0> : tensor<2xf64>, tensor<f64>
  %3, %4, %5 = nn.adam %p, %g, %m, %m enable %no scale %half lr %half beta1 %half beta2 %most epsilon %most weight_decay %quarter decoupled_decay %quarter shrink %quarter bias1 %half bias2 %quarter factors <decay = 2.0> : tensor<2xf64>, tensor<f64>
  return %0, %1, %2, %3 : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
}

// -----

// adam_c1: segments with operands that are not 1-D
func.func @adam_c1(%p: tensor<2x4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'segments' needs 1-D operands}}
  %p1, %m1, %v1 = nn.adam %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s decoupled_decay %s shrink %s bias1 %s bias2 %s segments = [#nn.update_range<offset = 0, count = 4>] : tensor<2x4xf32>, tensor<f32>
  return
}

// -----

// adam_c2: an offset without segments
func.func @adam_c2(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  // expected-error@+1 {{'offset' needs 'segments'}}
  %p1, %m1, %v1 = nn.adam %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s decoupled_decay %s shrink %s bias1 %s bias2 %s offset %o : tensor<i64> : tensor<8xf32>, tensor<f32>
  return
}

// -----

// The file's settings are those of the optimizer.
// expected-error@+1 {{'nn.hypers' must be floats by the names of the hyper-parameters of 'nn.optimizer', on a module}}
module attributes {nn.optimizer = "adam", nn.hypers = {momentum = 0.5 : f64}} {
}

// -----

// expected-error@+1 {{'nn.hyper_defaults' must be floats by the names}}
module attributes {nn.optimizer = "adam", nn.hyper_defaults = {lr = 1 : i64}} {
}

// -----

// expected-error@+1 {{'nn.hypers' must be floats by the names}}
module attributes {nn.hypers = {lr = 0.5 : f64}} {
}

// -----

// expected-error@+1 {{'nn.counter' must be two numbers of updates, not negative, on a module}}
module attributes {nn.counter = array<i64: -1, 1>} {
}

// -----

// expected-error@+1 {{'nn.counter' must be two numbers of updates, not negative, on a module}}
module attributes {nn.counter = array<i64: 1>} {
}
