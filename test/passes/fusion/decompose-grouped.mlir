// A target without a call or a kernel for groups of rows multiplies the rows, spread over the groups, with all matrices.
// RUN: shale-opt %s --shale-decompose=all=true -o %t.mlir
// RUN: not grep grouped_matmul %t.mlir
// RUN: shale-run %s --compare=%t.mlir --as f64 --tolerance 1e-12 | FileCheck %s

// CHECK: @groups: {{.*}} values, 0 differ
func.func @groups(%x: tensor<7x3xf32> {nn.name = "x"}, %w: tensor<4x3x2xf32> {nn.name = "w"}, %g: tensor<7x2xf32> {nn.name = "g"})
    -> (tensor<7x2xf32>, tensor<7x3xf32>, tensor<4x3x2xf32>, tensor<1x3x2xf32>) {
  %ends = nn.constant dense<[2, 2, 5, 6]> : tensor<4xi32>
  %one = nn.constant dense<[7]> : tensor<1xi64>
  %y = nn.grouped_matmul %x, %w ends = %ends : (tensor<7x3xf32>, tensor<4x3x2xf32>, tensor<4xi32>) -> tensor<7x2xf32>
  %dx = nn.grouped_matmul %g, %w transpose_rhs ends = %ends : (tensor<7x2xf32>, tensor<4x3x2xf32>, tensor<4xi32>) -> tensor<7x3xf32>
  %dw = nn.grouped_matmul_grad %x, %g ends = %ends : (tensor<7x3xf32>, tensor<7x2xf32>, tensor<4xi32>) -> tensor<4x3x2xf32>
  %all = nn.grouped_matmul_grad %x, %g ends = %one : (tensor<7x3xf32>, tensor<7x2xf32>, tensor<1xi64>) -> tensor<1x3x2xf32>
  return %y, %dx, %dw, %all : tensor<7x2xf32>, tensor<7x3xf32>, tensor<4x3x2xf32>, tensor<1x3x2xf32>
}
