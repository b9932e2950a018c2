// RUN: shale-opt %s --shale-split-clusters | FileCheck %s
// RUN: shale-opt %s --shale-split-clusters -o %t.mlir
// RUN: shale-run %s --compare=%t.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL: @different: 2 values, 0 differ in their bits
// EQUAL: @kept: 1 values, 0 differ in their bits

// The outputs have no rows in common, so there is no schedule, and each op becomes a cluster.
// CHECK-LABEL: func.func @different
func.func @different(%x: tensor<4xf32>, %y: tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
  // CHECK: nn.cluster
  // CHECK-NEXT: nn.exp
  // CHECK-NEXT: nn.yield
  // CHECK: nn.cluster
  // CHECK-NEXT: nn.neg
  // CHECK-NEXT: nn.yield
  // CHECK: nn.cluster
  // CHECK-NEXT: nn.tanh
  // CHECK-NEXT: nn.yield
  // CHECK-NOT: nn.cluster
  %0:2 = nn.cluster (%a = %x : tensor<4xf32>, %b = %y : tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
    %1 = nn.exp %a : tensor<4xf32>
    %2 = nn.neg %b : tensor<6xf32>
    %3 = nn.tanh %2 : tensor<6xf32>
    nn.yield %1, %3 : tensor<4xf32>, tensor<6xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<6xf32>
}

// A cluster that has a kernel stays as it is.
// CHECK-LABEL: func.func @kept
func.func @kept(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: nn.cluster
  // CHECK-NEXT: nn.exp
  // CHECK-NEXT: nn.neg
  // CHECK-NEXT: nn.yield
  %0 = nn.cluster (%a = %x : tensor<4xf32>) -> tensor<4xf32> {
    %1 = nn.exp %a : tensor<4xf32>
    %2 = nn.neg %1 : tensor<4xf32>
    nn.yield %2 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
