// RUN: shale-run --check-gradient %s | FileCheck %s

// All flags, with and without batch dimensions.
func.func @matmul000(%a: tensor<3x4xf64>, %b: tensor<4x2xf64>) -> tensor<3x2xf64> {
  %0 = nn.matmul %a, %b : (tensor<3x4xf64>, tensor<4x2xf64>) -> tensor<3x2xf64>
  return %0 : tensor<3x2xf64>
}
func.func @matmul001(%a: tensor<3x4xf64>, %b: tensor<2x4xf64>) -> tensor<3x2xf64> {
  %0 = nn.matmul %a, %b transpose_rhs : (tensor<3x4xf64>, tensor<2x4xf64>) -> tensor<3x2xf64>
  return %0 : tensor<3x2xf64>
}
func.func @matmul010(%a: tensor<4x3xf64>, %b: tensor<4x2xf64>) -> tensor<3x2xf64> {
  %0 = nn.matmul %a, %b transpose_lhs : (tensor<4x3xf64>, tensor<4x2xf64>) -> tensor<3x2xf64>
  return %0 : tensor<3x2xf64>
}
func.func @matmul011(%a: tensor<4x3xf64>, %b: tensor<2x4xf64>) -> tensor<3x2xf64> {
  %0 = nn.matmul %a, %b transpose_lhs transpose_rhs : (tensor<4x3xf64>, tensor<2x4xf64>) -> tensor<3x2xf64>
  return %0 : tensor<3x2xf64>
}
func.func @matmul100(%a: tensor<2x3x4xf64>, %b: tensor<2x4x2xf64>) -> tensor<2x3x2xf64> {
  %0 = nn.matmul %a, %b : (tensor<2x3x4xf64>, tensor<2x4x2xf64>) -> tensor<2x3x2xf64>
  return %0 : tensor<2x3x2xf64>
}
func.func @matmul101(%a: tensor<2x3x4xf64>, %b: tensor<2x2x4xf64>) -> tensor<2x3x2xf64> {
  %0 = nn.matmul %a, %b transpose_rhs : (tensor<2x3x4xf64>, tensor<2x2x4xf64>) -> tensor<2x3x2xf64>
  return %0 : tensor<2x3x2xf64>
}
func.func @matmul110(%a: tensor<2x4x3xf64>, %b: tensor<2x4x2xf64>) -> tensor<2x3x2xf64> {
  %0 = nn.matmul %a, %b transpose_lhs : (tensor<2x4x3xf64>, tensor<2x4x2xf64>) -> tensor<2x3x2xf64>
  return %0 : tensor<2x3x2xf64>
}
func.func @matmul111(%a: tensor<2x4x3xf64>, %b: tensor<2x2x4xf64>) -> tensor<2x3x2xf64> {
  %0 = nn.matmul %a, %b transpose_lhs transpose_rhs : (tensor<2x4x3xf64>, tensor<2x2x4xf64>) -> tensor<2x3x2xf64>
  return %0 : tensor<2x3x2xf64>
}
// CHECK: @matmul000 argument 0: 12 elements
// CHECK: @matmul000 argument 1: 8 elements
// CHECK: @matmul001 argument 0: 12 elements
// CHECK: @matmul001 argument 1: 8 elements
// CHECK: @matmul010 argument 0: 12 elements
// CHECK: @matmul010 argument 1: 8 elements
// CHECK: @matmul011 argument 0: 12 elements
// CHECK: @matmul011 argument 1: 8 elements
// CHECK: @matmul100 argument 0: 24 elements
// CHECK: @matmul100 argument 1: 16 elements
// CHECK: @matmul101 argument 0: 24 elements
// CHECK: @matmul101 argument 1: 16 elements
// CHECK: @matmul110 argument 0: 24 elements
// CHECK: @matmul110 argument 1: 16 elements
// CHECK: @matmul111 argument 0: 24 elements
// CHECK: @matmul111 argument 1: 16 elements
