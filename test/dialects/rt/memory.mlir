// RUN: shale-opt %s | shale-opt | FileCheck %s

// Views, slices, copies and fills within buffers.
// CHECK-LABEL: rt.func @step
rt.func @step inputs = [] hyper = [] metrics = [] {
  // CHECK: %[[A:.*]] = rt.buffer arena offset = 64 activations "a" : memref<4x8xf32>
  %a = rt.buffer arena offset = 64 activations "a" : memref<4x8xf32>
  %i = rt.buffer arena offset = 256 activations "i" : memref<i64>
  // CHECK: rt.view %[[A]] offset = 64 : memref<4x8xf32> -> memref<16xf32>
  %v = rt.view %a offset = 64 : memref<4x8xf32> -> memref<16xf32>
  // CHECK: %[[S:.*]] = rt.shard %[[A]] axis = "fsdp" : memref<4x8xf32> -> memref<16xf32>
  %s = rt.shard %a axis = "fsdp" : memref<4x8xf32> -> memref<16xf32>
  // CHECK: rt.zero %[[S]] : memref<16xf32>
  rt.zero %s : memref<16xf32>
  // CHECK: rt.copy %[[S]] to %{{.*}} : memref<16xf32> to memref<16xf32>
  rt.copy %s to %v : memref<16xf32> to memref<16xf32>
  // CHECK: rt.coordinate axis = "fsdp" to %{{.*}} : memref<i64>
  rt.coordinate axis = "fsdp" to %i : memref<i64>
}
