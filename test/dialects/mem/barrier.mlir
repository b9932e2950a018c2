// RUN: shale-opt %s --verify-roundtrip --cse --canonicalize | FileCheck %s

// Two barriers of one value are two values: neither CSE nor folding merges them.
// CHECK-LABEL: func.func @kept
func.func @kept(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: mem.barrier %{{.*}} : tensor<4xf32>
  %0 = mem.barrier %a : tensor<4xf32>
  // CHECK: mem.barrier %{{.*}} : tensor<4xf32>
  %1 = mem.barrier %a : tensor<4xf32>
  // CHECK: nn.neg %{{.*}} {mem.recompute}
  %2 = nn.neg %1 {mem.recompute} : tensor<4xf32>
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}

// A barrier whose results are not read is removed.
// CHECK-LABEL: func.func @unread
func.func @unread(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: return
  %0 = mem.barrier %a : tensor<4xf32>
  %1:2 = mem.barrier %0, %a : tensor<4xf32>, tensor<4xf32>
  return %a : tensor<4xf32>
}
