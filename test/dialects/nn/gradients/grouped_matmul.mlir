// RUN: shale-run --check-gradient %s | FileCheck %s

// CHECK: @groups argument 0: {{.*}}, largest error {{(0|[0-9.]+e-(0[7-9]|[1-9][0-9]))$}}
// CHECK: @groups argument 1: {{.*}}, largest error {{(0|[0-9.]+e-(0[7-9]|[1-9][0-9]))$}}
// The second group has no rows, the last row no group.
func.func @groups(%x: tensor<5x3xf64>, %w: tensor<3x3x2xf64>) -> tensor<5x2xf64> {
  %ends = nn.constant dense<[2, 2, 4]> : tensor<3xi32>
  %y = nn.grouped_matmul %x, %w ends = %ends : (tensor<5x3xf64>, tensor<3x3x2xf64>, tensor<3xi32>) -> tensor<5x2xf64>
  return %y : tensor<5x2xf64>
}

// CHECK: @transposed argument 0: {{.*}}, largest error {{(0|[0-9.]+e-(0[7-9]|[1-9][0-9]))$}}
// CHECK: @transposed argument 1: {{.*}}, largest error {{(0|[0-9.]+e-(0[7-9]|[1-9][0-9]))$}}
func.func @transposed(%x: tensor<5x3xf64>, %w: tensor<2x2x3xf64>) -> tensor<5x2xf64> {
  %ends = nn.constant dense<[1, 5]> : tensor<2xi64>
  %y = nn.grouped_matmul %x, %w transpose_rhs ends = %ends : (tensor<5x3xf64>, tensor<2x2x3xf64>, tensor<2xi64>) -> tensor<5x2xf64>
  return %y : tensor<5x2xf64>
}
