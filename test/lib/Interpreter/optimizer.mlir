// RUN: shale-run %s | FileCheck %s

// CHECK-LABEL: @sum_squares
// CHECK: result0: f32 {{.*}} [55]
func.func @sum_squares() -> tensor<f32> {
  %a = nn.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %b = nn.constant dense<[[4.0], [5.0]]> : tensor<2x1xf32>
  %0 = nn.sum_squares %a, %b : (tensor<3xf32>, tensor<2x1xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// g = 4 * 0.5 = 2, then 2 + 1 * 0.25 * 2 = 2.5; velocity 2 * 0.5 + 2.5 = 3.5;
// parameter 1 - 0.5 * 3.5. Disabled, all stays.
// CHECK-LABEL: @sgd
// CHECK: result0: 1xf64 {{.*}} [-0.75]
// CHECK: result1: 1xf64 {{.*}} [3.5]
// CHECK: result2: 1xf64 {{.*}} [1]
// CHECK: result3: 1xf64 {{.*}} [2]
func.func @sgd() -> (tensor<1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<1xf64>) {
  %p = nn.constant dense<1.0> : tensor<1xf64>
  %g = nn.constant dense<4.0> : tensor<1xf64>
  %v = nn.constant dense<2.0> : tensor<1xf64>
  %half = nn.constant dense<0.5> : tensor<f64>
  %quarter = nn.constant dense<0.25> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %no = nn.constant dense<false> : tensor<i1>
  %0, %1 = nn.sgd %p, %g, %v enable %yes scale %half lr %half momentum %half weight_decay %quarter factors <decay = 2.000000e+00> : tensor<1xf64>, tensor<f64>
  %2, %3 = nn.sgd %p, %g, %v enable %no scale %half lr %half momentum %half weight_decay %quarter factors <decay = 2.000000e+00> : tensor<1xf64>, tensor<f64>
  return %0, %1, %2, %3 : tensor<1xf64>, tensor<1xf64>, tensor<1xf64>, tensor<1xf64>
}

// g = 2; parameter 1 - 0.5 * 0.25 = 0.875; moments 1 and 3; with bias 0.5 and
// 0.75 the step is 0.5 / 0.5 * 1 / (sqrt(3) / sqrt(0.75) + 0) = 0.5.
// CHECK-LABEL: @adamw
// CHECK: result0: 1xf64 {{.*}} [0.375]
// CHECK: result1: 1xf64 {{.*}} [1]
// CHECK: result2: 1xf64 {{.*}} [3]
func.func @adamw() -> (tensor<1xf64>, tensor<1xf64>, tensor<1xf64>) {
  %p = nn.constant dense<1.0> : tensor<1xf64>
  %g = nn.constant dense<4.0> : tensor<1xf64>
  %m = nn.constant dense<0.0> : tensor<1xf64>
  %v = nn.constant dense<2.0> : tensor<1xf64>
  %half = nn.constant dense<0.5> : tensor<f64>
  %quarter = nn.constant dense<0.25> : tensor<f64>
  %most = nn.constant dense<0.75> : tensor<f64>
  %zero = nn.constant dense<0.0> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %0, %1, %2 = nn.adamw %p, %g, %m, %v enable %yes scale %half lr %half beta1 %half beta2 %half epsilon %zero weight_decay %quarter bias1 %half bias2 %most : tensor<1xf64>, tensor<f64>
  return %0, %1, %2 : tensor<1xf64>, tensor<1xf64>, tensor<1xf64>
}

// A slice of a group from element 2 on: element 2 is padding, 3 and 4 belong to
// a segment that began before, 5 to one with another decay.
// CHECK-LABEL: @segments
// CHECK: result0: 4xf64 {{.*}} [1, 0, 0, -1]
func.func @segments() -> tensor<4xf64> {
  %p = nn.constant dense<1.0> : tensor<4xf64>
  %g = nn.constant dense<1.0> : tensor<4xf64>
  %v = nn.constant dense<0.0> : tensor<4xf64>
  %one = nn.constant dense<1.0> : tensor<f64>
  %zero = nn.constant dense<0.0> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %offset = nn.constant dense<2> : tensor<i64>
  %0, %1 = nn.sgd %p, %g, %v enable %yes scale %one lr %one momentum %zero weight_decay %one offset %offset : tensor<i64> segments = [#nn.update_range<offset = 0, count = 2, factors = #nn.update_factors<decay = 9.0>>, #nn.update_range<offset = 3, count = 2, factors = #nn.update_factors<decay = 0.0>>, #nn.update_range<offset = 5, count = 3>] : tensor<4xf64>, tensor<f64>
  return %0 : tensor<4xf64>
}

// Factors on the learning rate: 1 - 0.5 * 2 * 1 = 0 without segments; with them 1 - 2 * 0.25 and 1 - 2 * 1.
// CHECK-LABEL: @scaled
// CHECK: result0: 1xf64 {{.*}} [0]
// CHECK: result1: 3xf64 {{.*}} [0.5, 0.5, -1]
func.func @scaled() -> (tensor<1xf64>, tensor<3xf64>) {
  %p = nn.constant dense<1.0> : tensor<1xf64>
  %v = nn.constant dense<0.0> : tensor<1xf64>
  %ps = nn.constant dense<1.0> : tensor<3xf64>
  %vs = nn.constant dense<0.0> : tensor<3xf64>
  %one = nn.constant dense<1.0> : tensor<f64>
  %two = nn.constant dense<2.0> : tensor<f64>
  %zero = nn.constant dense<0.0> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %0, %1 = nn.sgd %p, %p, %v enable %yes scale %one lr %two momentum %zero weight_decay %zero factors <lr_scale = 0.5> : tensor<1xf64>, tensor<f64>
  %2, %3 = nn.sgd %ps, %ps, %vs enable %yes scale %one lr %two momentum %zero weight_decay %zero segments = [#nn.update_range<offset = 0, count = 2, factors = #nn.update_factors<lr_scale = 0.25>>, #nn.update_range<offset = 2, count = 1>] : tensor<3xf64>, tensor<f64>
  return %0, %2 : tensor<1xf64>, tensor<3xf64>
}
