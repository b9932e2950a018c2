// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// Comparisons and ops that use their results.
// CHECK-LABEL: func.func @compare
// CHECK: nn.is_nan %{{.*}} : tensor<4xf32> -> tensor<4xi1>
// CHECK: nn.compare  lt %{{.*}}, %{{.*}} : tensor<4xf32> -> tensor<4xi1>
// CHECK: nn.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<4xf32>
func.func @compare(%x: tensor<4xf32>, %c: tensor<4xi1>) {
  %0 = nn.is_nan %x : tensor<4xf32> -> tensor<4xi1>
  %1 = nn.compare  lt %x, %x : tensor<4xf32> -> tensor<4xi1>
  %2 = nn.select %c, %x, %x : tensor<4xi1>, tensor<4xf32>
  return
}
