// RUN: shale-opt %s | shale-opt | FileCheck %s

// A kernel without results, and a batch of products.
rt.kernel @nothing(%a: tensor<2x4x8xf32>) -> () {
}
// CHECK-LABEL: rt.func @step
rt.func @step inputs = [] hyper = [] metrics = [] {
  %a = rt.buffer arena activations "a" : memref<2x4x8xf32>
  %b = rt.buffer arena offset = 256 activations "b" : memref<2x4x3xf32>
  %c = rt.buffer arena offset = 512 activations "c" : memref<2x8x3xf32>
  // CHECK: rt.launch @nothing(%[[A:.*]]) to () : (memref<2x4x8xf32>) -> ()
  rt.launch @nothing(%a) to () : (memref<2x4x8xf32>) -> ()
  // CHECK: rt.gemm %[[A]], %{{.*}} transpose_a to %{{.*}} : memref<2x4x8xf32>, memref<2x4x3xf32> to memref<2x8x3xf32>
  rt.gemm %a, %b transpose_a to %c : memref<2x4x8xf32>, memref<2x4x3xf32> to memref<2x8x3xf32>
  // CHECK: rt.gemm %[[A]], %{{.*}} transpose_a to %{{.*}} accumulate : memref<2x4x8xf32>, memref<2x4x3xf32> to memref<2x8x3xf32>
  rt.gemm %a, %b transpose_a to %c accumulate : memref<2x4x8xf32>, memref<2x4x3xf32> to memref<2x8x3xf32>
}
