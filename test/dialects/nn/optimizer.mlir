// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// The update of one parameter.
// CHECK-LABEL: func.func @whole
// CHECK: nn.sum_squares %{{.*}}, %{{.*}} : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
// CHECK: nn.adamw %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} beta1 %{{.*}} beta2 %{{.*}} epsilon %{{.*}} weight_decay %{{.*}} bias1 %{{.*}} bias2 %{{.*}} : tensor<8xf32>, tensor<f32>
// CHECK: nn.sgd %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} momentum %{{.*}} weight_decay %{{.*}} factors <decay = 0.000000e+00> : tensor<8xf32>, tensor<f32>
func.func @whole(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  %0 = nn.sum_squares %p, %s : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s : tensor<8xf32>, tensor<f32>
  %p2, %v2 = nn.sgd %p, %p, %p enable %e scale %s lr %s momentum %s weight_decay %s factors <decay = 0.000000e+00> : tensor<8xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func.func @sums
// CHECK: nn.accumulate @w %{{.*}} : tensor<8xf32>
// CHECK: nn.accumulate @w %{{.*}} into %{{.*}} : tensor<8xf32> : tensor<8xf32>
func.func @sums(%g: tensor<8xf32>) {
  %0 = nn.accumulate @w %g : tensor<8xf32>
  %1 = nn.accumulate @w %g into %0 : tensor<8xf32> : tensor<8xf32>
  return
}

// The update of a rank's slice of a group.
// CHECK-LABEL: func.func @flat
// CHECK: nn.adamw %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} beta1 %{{.*}} beta2 %{{.*}} epsilon %{{.*}} weight_decay %{{.*}} bias1 %{{.*}} bias2 %{{.*}} offset %{{.*}} : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>, #nn.update_range<offset = 16, count = 8, factors = #nn.update_factors<decay = 0.000000e+00>>] : tensor<8xf32>, tensor<f32>
// CHECK: nn.sgd %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} momentum %{{.*}} weight_decay %{{.*}} offset %{{.*}} : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>, #nn.update_range<offset = 16, count = 8, factors = #nn.update_factors<decay = 0.000000e+00>>] : tensor<8xf32>, tensor<f32>
func.func @flat(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s offset %o : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>, #nn.update_range<offset = 16, count = 8, factors = #nn.update_factors<decay = 0.000000e+00>>] : tensor<8xf32>, tensor<f32>
  %p2, %v2 = nn.sgd %p, %p, %p enable %e scale %s lr %s momentum %s weight_decay %s offset %o : tensor<i64> segments = [#nn.update_range<offset = 0, count = 4>, #nn.update_range<offset = 16, count = 8, factors = #nn.update_factors<decay = 0.000000e+00>>] : tensor<8xf32>, tensor<f32>
  return
}

// CHECK-LABEL: func.func @rounded
// CHECK: nn.sgd %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} momentum %{{.*}} weight_decay %{{.*}} rounded by %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64> {numbers = array<i64: 64>} : tensor<8xbf16> grad tensor<8xf32> state tensor<8xf32>, tensor<f32>
// CHECK: nn.assign %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} rounded by %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64> offset %{{.*}} : tensor<i64> segments = [#nn.update_range<offset = 4, count = 2>] : tensor<8xbf16> grad tensor<8xf32>, tensor<f32>
// CHECK: nn.assign %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} : tensor<8xbf16> grad tensor<8xf32>, tensor<f32>
func.func @rounded(%p: tensor<8xbf16>, %x: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %seed: tensor<i64>, %step: tensor<i64>) -> (tensor<8xbf16>, tensor<8xf32>, tensor<8xbf16>, tensor<8xbf16>) {
  %0, %1 = nn.sgd %p, %x, %x enable %e scale %s lr %s momentum %s weight_decay %s rounded by %seed, %step : tensor<i64>, tensor<i64> {numbers = array<i64: 64>} : tensor<8xbf16> grad tensor<8xf32> state tensor<8xf32>, tensor<f32>
  %2 = nn.assign %p, %x enable %e scale %s rounded by %seed, %step : tensor<i64>, tensor<i64> offset %step : tensor<i64> segments = [#nn.update_range<offset = 4, count = 2>] : tensor<8xbf16> grad tensor<8xf32>, tensor<f32>
  %3 = nn.assign %p, %x enable %e scale %s : tensor<8xbf16> grad tensor<8xf32>, tensor<f32>
  return %0, %1, %2, %3 : tensor<8xbf16>, tensor<8xf32>, tensor<8xbf16>, tensor<8xbf16>
}
