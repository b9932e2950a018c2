// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-opt --split-input-file | FileCheck %s
// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-run | FileCheck %s --check-prefix=VALUES

// CHECK-LABEL: func.func private @types
// CHECK: nn.adafactor %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} beta2_decay %{{.*}} epsilon1 %{{.*}} epsilon2 %{{.*}} clip %{{.*}} weight_decay %{{.*}} weight %{{.*}} limit %{{.*}} : tensor<2x4xf32> grad tensor<2x4xbf16> state tensor<6xbf16>, tensor<f32>
func.func private @types(%p: tensor<2x4xf32>, %g: tensor<2x4xbf16>, %m: tensor<6xbf16>, %s: tensor<f32>, %e: tensor<i1>) {
  %p1, %m1 = nn.adafactor %p, %g, %m enable %e scale %s lr %s beta2_decay %s epsilon1 %s epsilon2 %s clip %s weight_decay %s weight %s limit %s : tensor<2x4xf32> grad tensor<2x4xbf16> state tensor<6xbf16>, tensor<f32>
  return
}

// The scaled gradient is 2 4 / 4 8: rows and columns have means of squares of 10 and 40, and the rows a mean of 25. The variances
// are 4 16 / 16 64, so that the direction is 1 everywhere. The rate is that of limit, 0.25, as the parameter has a root mean square of 1:
// 1 * (1 - 0.5 * 0.25 * 2) - 0.25. Then the direction, larger than the clip of 0.5, is scaled down to it.
// VALUES-LABEL: @matrix
// VALUES: result0: 2x2xf64 {{.*}} [0.5, 0.5, 0.5, 0.5]
// VALUES: result1: 4xf64 {{.*}} [10, 40, 10, 40]
// VALUES: result2: 2x2xf64 {{.*}} [0.625, 0.625, 0.625, 0.625]
// VALUES: result3: 2x2xf64 {{.*}} [1, 1, 1, 1]
// VALUES: result4: 4xf64 {{.*}} [0, 0, 0, 0]
// CHECK-LABEL: func.func @matrix
func.func @matrix() -> (tensor<2x2xf64>, tensor<4xf64>, tensor<2x2xf64>, tensor<2x2xf64>, tensor<4xf64>) {
  %p = nn.constant dense<1.0> : tensor<2x2xf64>
  %g = nn.constant dense<[[4.0, 8.0], [8.0, 16.0]]> : tensor<2x2xf64>
  %m = nn.constant dense<0.0> : tensor<4xf64>
  %small = nn.constant dense<1.0e-9> : tensor<f64>
  %quarter = nn.constant dense<0.25> : tensor<f64>
  %half = nn.constant dense<0.5> : tensor<f64>
  %one = nn.constant dense<1.0> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %no = nn.constant dense<false> : tensor<i1>
  %0, %1 = nn.adafactor %p, %g, %m enable %yes scale %half lr %half beta2_decay %one epsilon1 %small epsilon2 %small clip %one weight_decay %quarter weight %one limit %quarter factors <decay = 2.0> : tensor<2x2xf64> state tensor<4xf64>, tensor<f64>
  %2, %3 = nn.adafactor %p, %g, %m enable %yes scale %half lr %half beta2_decay %one epsilon1 %small epsilon2 %small clip %half weight_decay %quarter weight %one limit %quarter factors <decay = 2.0> : tensor<2x2xf64> state tensor<4xf64>, tensor<f64>
  %4, %5 = nn.adafactor %p, %g, %m enable %no scale %half lr %half beta2_decay %one epsilon1 %small epsilon2 %small clip %one weight_decay %quarter weight %one limit %quarter factors <decay = 2.0> : tensor<2x2xf64> state tensor<4xf64>, tensor<f64>
  return %0, %1, %2, %4, %5 : tensor<2x2xf64>, tensor<4xf64>, tensor<2x2xf64>, tensor<2x2xf64>, tensor<4xf64>
}

// Two matrices of one row each, whose variances are their columns. Then a vector, whose moment of 2 moves half way to 4 and 16, and
// whose parameters of 0 take eps2 of 0.25 and lr of 0.5: -0.125 * (2, -4) / (sqrt 3, 3), of root mean square 1.2472.
// VALUES-LABEL: @others
// VALUES: result0: 2x1x2xf64 {{.*}} [0.5, 0.5, 0.5, 0.5]
// VALUES: result1: 6xf64 {{.*}} [10, 5, 4, 16, 1, 9]
// VALUES: result2: 2xf64 {{.*}} [-0.115727512, 0.133630621]
// VALUES: result3: 2xf64 {{.*}} [3, 9]
// VALUES: result4: f64 {{.*}} [0.75]
// CHECK-LABEL: func.func @others
func.func @others() -> (tensor<2x1x2xf64>, tensor<6xf64>, tensor<2xf64>, tensor<2xf64>, tensor<f64>) {
  %p = nn.constant dense<1.0> : tensor<2x1x2xf64>
  %g = nn.constant dense<[[[2.0, 4.0]], [[1.0, 3.0]]]> : tensor<2x1x2xf64>
  %m = nn.constant dense<0.0> : tensor<6xf64>
  %vp = nn.constant dense<0.0> : tensor<2xf64>
  %vg = nn.constant dense<[2.0, -4.0]> : tensor<2xf64>
  %vm = nn.constant dense<2.0> : tensor<2xf64>
  %zero = nn.constant dense<0.0> : tensor<f64>
  %small = nn.constant dense<1.0e-9> : tensor<f64>
  %quarter = nn.constant dense<0.25> : tensor<f64>
  %half = nn.constant dense<0.5> : tensor<f64>
  %one = nn.constant dense<1.0> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %0, %1 = nn.adafactor %p, %g, %m enable %yes scale %one lr %half beta2_decay %one epsilon1 %small epsilon2 %small clip %one weight_decay %zero weight %one limit %one : tensor<2x1x2xf64> state tensor<6xf64>, tensor<f64>
  %2, %3 = nn.adafactor %vp, %vg, %vm enable %yes scale %one lr %half beta2_decay %one epsilon1 %small epsilon2 %quarter clip %one weight_decay %zero weight %half limit %one : tensor<2xf64>, tensor<f64>
  %4, %5 = nn.adafactor %one, %half, %zero enable %yes scale %one lr %half beta2_decay %one epsilon1 %small epsilon2 %quarter clip %one weight_decay %zero weight %one limit %quarter : tensor<f64>, tensor<f64>
  return %0, %1, %2, %3, %4 : tensor<2x1x2xf64>, tensor<6xf64>, tensor<2xf64>, tensor<2xf64>, tensor<f64>
}

// -----

// adafactor_c1: segments, which adafactor does not support
func.func @adafactor_c1(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{updates one parameter: it takes no 'offset' and no 'segments'}}
  %p1, %m1 = nn.adafactor %p, %p, %p enable %e scale %s lr %s beta2_decay %s epsilon1 %s epsilon2 %s clip %s weight_decay %s weight %s limit %s segments = [#nn.update_range<offset = 0, count = 4>] : tensor<8xf32>, tensor<f32>
  return
}

// -----

// adafactor_c2: the moment does not have one element per row and per column
func.func @adafactor_c2(%p: tensor<2x4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{the moment of 'tensor<2x4xf32>' must be 1-D with 6 elements; got 'tensor<2x4xf32>'}}
  %p1, %m1 = nn.adafactor %p, %p, %p enable %e scale %s lr %s beta2_decay %s epsilon1 %s epsilon2 %s clip %s weight_decay %s weight %s limit %s : tensor<2x4xf32>, tensor<f32>
  return
}

// -----

// adafactor_c2: the moment does not have the shape of the vector
func.func @adafactor_c2_vector(%p: tensor<8xf32>, %m: tensor<9xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{the moment must have the shape of 'tensor<8xf32>'; got 'tensor<9xf32>'}}
  %p1, %m1 = nn.adafactor %p, %p, %m enable %e scale %s lr %s beta2_decay %s epsilon1 %s epsilon2 %s clip %s weight_decay %s weight %s limit %s : tensor<8xf32> state tensor<9xf32>, tensor<f32>
  return
}
