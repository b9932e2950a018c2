// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: (shale-run %s --function=values; echo @experts; shale-run %s --function=experts; echo @parts; shale-run %s --function=parts) | FileCheck %s --check-prefix=VALUES

// CHECK-LABEL: func.func @matmul
func.func @matmul(%x: tensor<5x3xf64>, %w: tensor<3x3x2xf64>) -> tensor<5x2xf64> {
  %ends = nn.constant dense<[2, 2, 4]> : tensor<3xi32>
  // CHECK: nn.grouped_matmul %{{.*}}, %{{.*}} ends = %{{.*}} : (tensor<5x3xf64>, tensor<3x3x2xf64>, tensor<3xi32>) -> tensor<5x2xf64>
  %y = nn.grouped_matmul %x, %w ends = %ends : (tensor<5x3xf64>, tensor<3x3x2xf64>, tensor<3xi32>) -> tensor<5x2xf64>
  return %y : tensor<5x2xf64>
}

func.func @transposed(%x: tensor<5x3xf64>, %w: tensor<2x2x3xf64>) -> tensor<5x2xf64> {
  %ends = nn.constant dense<[1, 5]> : tensor<2xi64>
  // CHECK: nn.grouped_matmul %{{.*}}, %{{.*}} transpose_rhs ends = %{{.*}}
  %y = nn.grouped_matmul %x, %w transpose_rhs ends = %ends : (tensor<5x3xf64>, tensor<2x2x3xf64>, tensor<2xi64>) -> tensor<5x2xf64>
  return %y : tensor<5x2xf64>
}

// The second group has no rows, the last row no group.
// VALUES: result0: 4x1xf32 sum 15 [3, 7, 5, 0]
// VALUES: result1: 3x2x1xf32 sum 95 [31, 42, 0, 0, 10, 12]
func.func @values() -> (tensor<4x1xf32>, tensor<3x2x1xf32>) {
  %x = nn.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]> : tensor<4x2xf32>
  %w = nn.constant dense<[[[1.0], [1.0]], [[9.0], [9.0]], [[1.0], [0.0]]]> : tensor<3x2x1xf32>
  %g = nn.constant dense<[[1.0], [10.0], [2.0], [5.0]]> : tensor<4x1xf32>
  %ends = nn.constant dense<[2, 2, 3]> : tensor<3xi32>
  %y = nn.grouped_matmul %x, %w ends = %ends : (tensor<4x2xf32>, tensor<3x2x1xf32>, tensor<3xi32>) -> tensor<4x1xf32>
  // CHECK: nn.grouped_matmul_grad %{{.*}}, %{{.*}} ends = %{{.*}} : (tensor<4x2xf32>, tensor<4x1xf32>, tensor<3xi32>) -> tensor<3x2x1xf32>
  %dw = nn.grouped_matmul_grad %x, %g ends = %ends : (tensor<4x2xf32>, tensor<4x1xf32>, tensor<3xi32>) -> tensor<3x2x1xf32>
  return %y, %dw : tensor<4x1xf32>, tensor<3x2x1xf32>
}

// Rows in any order. The second expert has no rows, the last two rows no expert.
// VALUES: @experts
// VALUES: result0: 5x1xf32 sum 15 [5, 3, 7, 0, 0]
// VALUES: result1: 3x2x1xf32 sum 95 [10, 12, 0, 0, 31, 42]
func.func @experts() -> (tensor<5x1xf32>, tensor<3x2x1xf32>) {
  %x = nn.constant dense<[[5.0, 6.0], [1.0, 2.0], [3.0, 4.0], [7.0, 8.0], [7.0, 8.0]]> : tensor<5x2xf32>
  %w = nn.constant dense<[[[1.0], [0.0]], [[9.0], [9.0]], [[1.0], [1.0]]]> : tensor<3x2x1xf32>
  %g = nn.constant dense<[[2.0], [1.0], [10.0], [5.0], [5.0]]> : tensor<5x1xf32>
  %experts = nn.constant dense<[0, 2, 2, -1, 3]> : tensor<5xi64>
  // CHECK: nn.expert_matmul %{{.*}}, %{{.*}} experts = %{{.*}} : (tensor<5x2xf32>, tensor<3x2x1xf32>, tensor<5xi64>) -> tensor<5x1xf32>
  %y = nn.expert_matmul %x, %w experts = %experts : (tensor<5x2xf32>, tensor<3x2x1xf32>, tensor<5xi64>) -> tensor<5x1xf32>
  // CHECK: nn.expert_matmul_grad %{{.*}}, %{{.*}} experts = %{{.*}} : (tensor<5x2xf32>, tensor<5x1xf32>, tensor<5xi64>) -> tensor<3x2x1xf32>
  %dw = nn.expert_matmul_grad %x, %g experts = %experts : (tensor<5x2xf32>, tensor<5x1xf32>, tensor<5xi64>) -> tensor<3x2x1xf32>
  return %y, %dw : tensor<5x1xf32>, tensor<3x2x1xf32>
}

// Two parts: rows 0 and 1 have only experts 0 and 1, the others only 2 and 3.
// VALUES: @parts
// VALUES: result0: 4x1xf32 sum 105 [99, 0, 6, 0]
// VALUES: result1: 4x2x1xf32 sum 92 [0, 0, 10, 12, 0, 0, 30, 40]
func.func @parts() -> (tensor<4x1xf32>, tensor<4x2x1xf32>) {
  %x = nn.constant dense<[[5.0, 6.0], [1.0, 2.0], [3.0, 4.0], [7.0, 8.0]]> : tensor<4x2xf32>
  %w = nn.constant dense<[[[1.0], [0.0]], [[9.0], [9.0]], [[1.0], [1.0]], [[2.0], [0.0]]]> : tensor<4x2x1xf32>
  %g = nn.constant dense<[[2.0], [1.0], [10.0], [5.0]]> : tensor<4x1xf32>
  %experts = nn.constant dense<[1, 2, 3, 0]> : tensor<4xi64>
  // CHECK: nn.expert_matmul %{{.*}}, %{{.*}} experts = %{{.*}} parts = 2 of = 8 : (tensor<4x2xf32>, tensor<4x2x1xf32>, tensor<4xi64>) -> tensor<4x1xf32>
  %y = nn.expert_matmul %x, %w experts = %experts parts = 2 of = 8 : (tensor<4x2xf32>, tensor<4x2x1xf32>, tensor<4xi64>) -> tensor<4x1xf32>
  // CHECK: nn.expert_matmul_grad %{{.*}}, %{{.*}} experts = %{{.*}} parts = 2 : (tensor<4x2xf32>, tensor<4x1xf32>, tensor<4xi64>) -> tensor<4x2x1xf32>
  %dw = nn.expert_matmul_grad %x, %g experts = %experts parts = 2 : (tensor<4x2xf32>, tensor<4x1xf32>, tensor<4xi64>) -> tensor<4x2x1xf32>
  return %y, %dw : tensor<4x1xf32>, tensor<4x2x1xf32>
}
