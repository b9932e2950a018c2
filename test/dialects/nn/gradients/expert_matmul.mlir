// RUN: shale-run --check-gradient %s | FileCheck %s

// CHECK: @experts argument 0: {{.*}}, largest error {{(0|[0-9.]+e-(0[7-9]|[1-9][0-9]))$}}
// CHECK: @experts argument 1: {{.*}}, largest error {{(0|[0-9.]+e-(0[7-9]|[1-9][0-9]))$}}
// The second expert has no rows, two rows no expert.
func.func @experts(%x: tensor<5x3xf64>, %w: tensor<3x3x2xf64>) -> tensor<5x2xf64> {
  %experts = nn.constant dense<[2, 0, -1, 2, 3]> : tensor<5xi32>
  %y = nn.expert_matmul %x, %w experts = %experts : (tensor<5x3xf64>, tensor<3x3x2xf64>, tensor<5xi32>) -> tensor<5x2xf64>
  return %y : tensor<5x2xf64>
}

// CHECK: @transposed argument 0: {{.*}}, largest error {{(0|[0-9.]+e-(0[7-9]|[1-9][0-9]))$}}
// CHECK: @transposed argument 1: {{.*}}, largest error {{(0|[0-9.]+e-(0[7-9]|[1-9][0-9]))$}}
func.func @transposed(%x: tensor<5x3xf64>, %w: tensor<2x2x3xf64>) -> tensor<5x2xf64> {
  %experts = nn.constant dense<[1, 0, 0, 1, 0]> : tensor<5xi64>
  %y = nn.expert_matmul %x, %w transpose_rhs experts = %experts : (tensor<5x3xf64>, tensor<2x2x3xf64>, tensor<5xi64>) -> tensor<5x2xf64>
  return %y : tensor<5x2xf64>
}
