// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s
// RUN: shale-run --check-gradient --function=quantized %s | FileCheck %s --check-prefix=GRADIENT

// All flags, with and without batch dimensions.
// CHECK-LABEL: func.func @matmul
// CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
// CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_rhs : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
// CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_lhs transpose_rhs : (tensor<4x8xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
// CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<2x6x4xf32>, tensor<2x4x8xf32>) -> tensor<2x6x8xf32>
func.func @matmul(%a: tensor<6x4xf32>, %b: tensor<4x8xf32>, %c: tensor<8x4xf32>, %d: tensor<2x6x4xf32>, %e: tensor<2x4x8xf32>) {
  %0 = nn.matmul %a, %b : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %1 = nn.matmul %a, %c transpose_rhs : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
  %2 = nn.matmul %b, %a transpose_lhs transpose_rhs : (tensor<4x8xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
  %3 = nn.matmul %d, %e : (tensor<2x6x4xf32>, tensor<2x4x8xf32>) -> tensor<2x6x8xf32>
  return
}

// CHECK-LABEL: func.func @matmul_add
// CHECK: nn.matmul_add %{{.*}}, %{{.*}}, %{{.*}} transpose_lhs : (tensor<4x8xf32>, tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
// CHECK: nn.matmul_add %{{.*}}, %{{.*}}, %{{.*}} transpose_rhs : (tensor<6x8xf32>, tensor<6x4xbf16>, tensor<8x4xbf16>) -> tensor<6x8xf32>
func.func @matmul_add(%s: tensor<4x8xf32>, %a: tensor<6x4xf32>, %b: tensor<6x8xf32>, %c: tensor<6x4xbf16>, %d: tensor<8x4xbf16>) {
  %0 = nn.matmul_add %s, %a, %b transpose_lhs : (tensor<4x8xf32>, tensor<6x4xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %1 = nn.matmul_add %b, %c, %d transpose_rhs : (tensor<6x8xf32>, tensor<6x4xbf16>, tensor<8x4xbf16>) -> tensor<6x8xf32>
  return
}

// In f64 nothing is rounded.
// GRADIENT: @quantized argument 0: 24 elements
// GRADIENT: @quantized argument 1: 32 elements
// CHECK-LABEL: func.func @quantized
// CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_rhs quantized [f8E4M3FN, f8E4M3FN] : (tensor<6x4xf64>, tensor<8x4xf64>) -> tensor<6x8xf64>
func.func @quantized(%a: tensor<6x4xf64>, %b: tensor<8x4xf64>) -> tensor<6x8xf64> {
  %0 = nn.matmul %a, %b transpose_rhs quantized [f8E4M3FN, f8E4M3FN] : (tensor<6x4xf64>, tensor<8x4xf64>) -> tensor<6x8xf64>
  return %0 : tensor<6x8xf64>
}
