// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// Operand and result of different element types.
// CHECK-LABEL: func.func @cast
// CHECK: nn.cast %{{.*}} : tensor<4xi64> -> tensor<4xf32>
func.func @cast(%i: tensor<4xi64>) {
  %0 = nn.cast %i : tensor<4xi64> -> tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @bitcast
// CHECK: nn.bitcast %{{.*}} : tensor<4xf32> -> tensor<4xi32>
// CHECK: nn.bitcast %{{.*}} : tensor<4xi32> -> tensor<4xf32>
func.func @bitcast(%x: tensor<4xf32>) {
  %0 = nn.bitcast %x : tensor<4xf32> -> tensor<4xi32>
  %1 = nn.bitcast %0 : tensor<4xi32> -> tensor<4xf32>
  return
}
