// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --cse --canonicalize | FileCheck %s --check-prefix=MERGED

// CHECK-LABEL: func.func @moves
func.func @moves(%0: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[H:.*]] = mem.offload %{{.*}} : tensor<4xf32>
  %1 = mem.offload %0 : tensor<4xf32>
  // CHECK: mem.reload %[[H]] : tensor<4xf32>
  %2 = mem.reload %1 : tensor<4xf32>
  return %2 : tensor<4xf32>
}

// CHECK-LABEL: func.func @halves
func.func @halves(%0: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[P:.*]] = mem.start %{{.*}} to host : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  %p = mem.start %0 to host : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  // CHECK: mem.wait %[[P]] : !dist.pending<tensor<4xf32>> -> tensor<4xf32>
  %1 = mem.wait %p : !dist.pending<tensor<4xf32>> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Two copies of one value are not merged. A copy that is not read is removed.
// MERGED-LABEL: func.func @two
func.func @two(%0: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // MERGED-COUNT-4: mem.{{offload|reload}}
  // MERGED-NOT: mem.
  %1 = mem.offload %0 : tensor<4xf32>
  %2 = mem.offload %0 : tensor<4xf32>
  %3 = mem.reload %1 : tensor<4xf32>
  %4 = mem.reload %2 : tensor<4xf32>
  %5 = mem.reload %2 : tensor<4xf32>
  return %3, %4 : tensor<4xf32>, tensor<4xf32>
}
