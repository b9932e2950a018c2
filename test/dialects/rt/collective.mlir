// RUN: shale-opt %s | shale-opt | FileCheck %s

// In place: the sent buffer is a slice of the received one, or the received buffer is a slice of the sent one.
// CHECK-LABEL: rt.func @step
rt.func @step inputs = [] hyper = [] metrics = [] {
  %a = rt.buffer arena activations "a" : memref<32xf32>
  // CHECK: %[[S:.*]] = rt.shard
  %s = rt.shard %a axis = "fsdp" : memref<32xf32> -> memref<16xf32>
  // CHECK: %[[T:.*]] = rt.collective all_gather %[[S]] to %[[A:.*]] site = 0 axis = "fsdp" name = "a" : memref<16xf32> to memref<32xf32>
  %t = rt.collective all_gather %s to %a site = 0 axis = "fsdp" name = "a" : memref<16xf32> to memref<32xf32>
  // CHECK-NEXT: rt.wait %[[T]]
  rt.wait %t
  // CHECK: rt.collective reduce_scatter %[[A]] to %[[S]] site = 1
  %u = rt.collective reduce_scatter %a to %s site = 1 axis = "fsdp" name = "a" : memref<32xf32> to memref<16xf32>
  rt.wait %u
  // CHECK: rt.collective all_reduce %[[A]] to %[[A]] site = 2
  %v = rt.collective all_reduce %a to %a site = 2 axis = "fsdp" name = "a" : memref<32xf32> to memref<32xf32>
  rt.wait %v
  %from = rt.buffer arena activations "from" : memref<2x3xi32>
  %to = rt.buffer arena activations "to" : memref<1x6xi32>
  // CHECK: rt.collective all_to_all %{{.*}} to %{{.*}} site = 3 axis = "fsdp" name = "a" : memref<2x3xi32> to memref<1x6xi32>
  %w = rt.collective all_to_all %from to %to site = 3 axis = "fsdp" name = "a" : memref<2x3xi32> to memref<1x6xi32>
  rt.wait %w
}
