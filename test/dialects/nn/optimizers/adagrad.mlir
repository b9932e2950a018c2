// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-opt --split-input-file | FileCheck %s
// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-run | FileCheck %s --check-prefix=VALUES

// CHECK-LABEL: func.func private @flat
// CHECK: nn.adagrad %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} lr_decay %{{.*}} epsilon %{{.*}} weight_decay %{{.*}} rate %{{.*}} offset %{{.*}} : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>] : tensor<8xf32> grad tensor<8xbf16> state tensor<8xbf16>, tensor<f32>
func.func private @flat(%p: tensor<8xf32>, %g: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  %p1, %h1 = nn.adagrad %p, %g, %g enable %e scale %s lr %s lr_decay %s epsilon %s weight_decay %s rate %s offset %o : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>] : tensor<8xf32> grad tensor<8xbf16> state tensor<8xbf16>, tensor<f32>
  return
}

// g = 5 * 0.5 + 1 * 0.25 * 2 = 3; the sum 7 + 9 = 16; the step 0.5 * 0.5 * 3 / (4 + 2) = 0.125. The second: g = -2.5 + 0.5 = -2,
// the sum 0 + 4, the step 0.25 * -2 / (2 + 2) = -0.125.
// VALUES-LABEL: @adagrad
// VALUES: result0: 2xf64 {{.*}} [0.875, 1.125]
// VALUES: result1: 2xf64 {{.*}} [16, 4]
// VALUES: result2: 2xf64 {{.*}} [1, 1]
// CHECK-LABEL: func.func @adagrad
func.func @adagrad() -> (tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) {
  %p = nn.constant dense<1.0> : tensor<2xf64>
  %g = nn.constant dense<[5.0, -5.0]> : tensor<2xf64>
  %h = nn.constant dense<[7.0, 0.0]> : tensor<2xf64>
  %quarter = nn.constant dense<0.25> : tensor<f64>
  %half = nn.constant dense<0.5> : tensor<f64>
  %two = nn.constant dense<2.0> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %no = nn.constant dense<false> : tensor<i1>
  %0, %1 = nn.adagrad %p, %g, %h enable %yes scale %half lr %half lr_decay %two epsilon %two weight_decay %quarter rate %half factors <decay = 2.0> : tensor<2xf64>, tensor<f64>
  %2, %3 = nn.adagrad %p, %g, %h enable %no scale %half lr %half lr_decay %two epsilon %two weight_decay %quarter rate %half factors <decay = 2.0> : tensor<2xf64>, tensor<f64>
  return %0, %1, %2 : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
}

// -----

// adagrad_c1: segments with operands that are not 1-D
func.func @adagrad_c1(%p: tensor<2x4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'segments' needs 1-D operands}}
  %p1, %h1 = nn.adagrad %p, %p, %p enable %e scale %s lr %s lr_decay %s epsilon %s weight_decay %s rate %s segments = [#nn.update_range<offset = 0, count = 4>] : tensor<2x4xf32>, tensor<f32>
  return
}

// -----

// adagrad_c2: an offset without segments
func.func @adagrad_c2(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  // expected-error@+1 {{'offset' needs 'segments'}}
  %p1, %h1 = nn.adagrad %p, %p, %p enable %e scale %s lr %s lr_decay %s epsilon %s weight_decay %s rate %s offset %o : tensor<i64> : tensor<8xf32>, tensor<f32>
  return
}
