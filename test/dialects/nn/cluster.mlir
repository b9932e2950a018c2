// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// A cluster prints its operands as block arguments, and for each result the operand whose buffer it may take.
// CHECK-LABEL: func.func @cluster
// CHECK: nn.cluster (%[[X:.*]] = %arg0 : tensor<4xf32>) -> tensor<4xf32> aliases [0] {
// CHECK-NEXT: %[[Y:.*]] = nn.exp %[[X]] : tensor<4xf32>
// CHECK-NEXT: nn.yield %[[Y]] : tensor<4xf32>
func.func @cluster(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.cluster (%x = %a : tensor<4xf32>) -> tensor<4xf32> aliases [0] {
    %1 = nn.exp %x : tensor<4xf32>
    nn.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
