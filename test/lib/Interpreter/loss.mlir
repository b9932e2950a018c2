// RUN: shale-run %s | FileCheck %s

// Rows: log(4) of four equal logits; one of probability 3/4; ignored; a label
// out of range, which is counted and adds nothing (its lse is log(2)).
// CHECK-LABEL: @cross_entropy
// CHECK: result0: f64 {{.*}} [1.67397643]
// CHECK: result1: f64 {{.*}} [3]
// CHECK: result2: 4xf64 {{.*}} [0.693147181, 1.38629436, 0.693147181, 0.693147181]
// CHECK: result3: 4x2xf64 {{.*}} [-1, 1, -0.5, 0.5, 0, 0, 1, 1]
func.func @cross_entropy() -> (tensor<f64>, tensor<f64>, tensor<4xf64>, tensor<4x2xf64>) {
  %x = nn.constant dense<[[0.0, 0.0], [1.09861228866811, 0.0], [0.0, 0.0], [0.0, 0.0]]> : tensor<4x2xf64>
  %l = nn.constant dense<[0, 0, 7, 2]> : tensor<4xi64>
  %0, %1, %2 = nn.cross_entropy %x, %l ignore_index = 7 : tensor<4x2xf64>, tensor<4xi64>
  %g = nn.constant dense<2.0> : tensor<f64>
  %3 = nn.cross_entropy_grad %x, %l, %2, %g ignore_index = 7 : tensor<4x2xf64>, tensor<4xi64>
  return %0, %1, %2, %3 : tensor<f64>, tensor<f64>, tensor<4xf64>, tensor<4x2xf64>
}

// As above, with a column of padding before which there are two classes.
// CHECK-LABEL: @classes
// CHECK: result0: f64 {{.*}} [1.67397643]
// CHECK: result1: f64 {{.*}} [3]
// CHECK: result2: 4xf64 {{.*}} [0.693147181, 1.38629436, 0.693147181, 0.693147181]
// CHECK: result3: 4x3xf64 sum 2 [-1, 1, 0, -0.5, 0.5, 0, 0, 0, ...]
func.func @classes() -> (tensor<f64>, tensor<f64>, tensor<4xf64>, tensor<4x3xf64>) {
  %x = nn.constant dense<[[0.0, 0.0, 9.0], [1.09861228866811, 0.0, -1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0x7FF8000000000000]]> : tensor<4x3xf64>
  %l = nn.constant dense<[0, 0, 7, 2]> : tensor<4xi64>
  %0, %1, %2 = nn.cross_entropy %x, %l ignore_index = 7 classes = 2 : tensor<4x3xf64>, tensor<4xi64>
  %g = nn.constant dense<2.0> : tensor<f64>
  %3 = nn.cross_entropy_grad %x, %l, %2, %g ignore_index = 7 classes = 2 : tensor<4x3xf64>, tensor<4xi64>
  return %0, %1, %2, %3 : tensor<f64>, tensor<f64>, tensor<4xf64>, tensor<4x3xf64>
}
