// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// Every op of rt in one program: kernels, data, the state block and calls in order.
module attributes {rt.arena_bytes = 1024 : i64, rt.state_bytes = 256 : i64} {
  // CHECK: rt.slot @w parameters offset = 64 axis = "fsdp" : tensor<16xf32>
  rt.slot @w parameters offset = 64 axis = "fsdp" : tensor<16xf32>
  // CHECK: rt.constant @ids dense<[1, 2]> : tensor<2xi64>
  rt.constant @ids dense<[1, 2]> : tensor<2xi64>

  // CHECK: rt.kernel @add(%{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>) -> tensor<4xf32> aliases [0] attributes {grain = 1 : i64, rows = 4 : i64}
  rt.kernel @add(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> aliases [0] attributes {rows = 4 : i64, grain = 1 : i64} {
    %0 = nn.add %a, %b : tensor<4xf32>
    // CHECK: rt.yield
    rt.yield %0 : tensor<4xf32>
  }

  // CHECK-LABEL: rt.func @step inputs = [{batch_dim = 0 : i64, binding = "tokens", name = "x", type = tensor<4xi64>}] hyper = ["lr"] metrics = ["loss"]
  rt.func @step inputs = [{name = "x", binding = "tokens", type = tensor<4xi64>, batch_dim = 0 : i64}] hyper = ["lr"] metrics = ["loss"] {
    // CHECK-DAG: %[[W:.*]] = rt.buffer state offset = 64 @w parameters "w" padding = 16 : memref<16xf32>
    %w = rt.buffer state offset = 64 @w parameters "w" padding = 16 : memref<16xf32>
    // CHECK-DAG: %[[FULL:.*]] = rt.buffer arena parameters "w" : memref<32xf32>
    %full = rt.buffer arena parameters "w" : memref<32xf32>
    %y = rt.buffer arena offset = 128 activations "y" : memref<4xf32>
    %i = rt.buffer arena offset = 192 activations "coordinate" : memref<i64>
    %x = rt.buffer input index = 0 activations "x" : memref<4xi64>
    %ids = rt.buffer constant @ids fixed "ids" : memref<2xi64>
    // CHECK-DAG: rt.buffer hyper index = 0 fixed "lr" : memref<f32>
    %lr = rt.buffer hyper index = 0 fixed "lr" : memref<f32>
    %loss = rt.buffer metric index = 0 fixed "loss" : memref<f32>
    // CHECK: %[[T:.*]] = rt.collective all_gather %[[W]] to %[[FULL]] site = 0 axis = "fsdp" name = "w" : memref<16xf32> to memref<32xf32>
    %t = rt.collective all_gather %w to %full site = 0 axis = "fsdp" name = "w" : memref<16xf32> to memref<32xf32>
    // CHECK: rt.wait %[[T]]
    rt.wait %t
    // CHECK: %[[V:.*]] = rt.view %[[FULL]] offset = 16 : memref<32xf32> -> memref<4xf32>
    %v = rt.view %full offset = 16 : memref<32xf32> -> memref<4xf32>
    // CHECK: rt.shard %[[FULL]] axis = "fsdp" : memref<32xf32> -> memref<16xf32>
    %s = rt.shard %full axis = "fsdp" : memref<32xf32> -> memref<16xf32>
    // CHECK: rt.launch @add(%[[V]], %[[V]]) to (%{{.*}}) : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
    rt.launch @add(%v, %v) to (%y) : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
    %m = rt.view %full offset = 0 : memref<32xf32> -> memref<4x4xf32>
    %c = rt.view %full offset = 64 : memref<32xf32> -> memref<4x4xf32>
    // CHECK: rt.gemm %{{.*}}, %{{.*}} transpose_b to %{{.*}} : memref<4x4xf32>, memref<4x4xf32> to memref<4x4xf32>
    rt.gemm %m, %m transpose_b to %c : memref<4x4xf32>, memref<4x4xf32> to memref<4x4xf32>
    // CHECK: rt.coordinate axis = "fsdp" to %{{.*}} : memref<i64>
    rt.coordinate axis = "fsdp" to %i : memref<i64>
    // CHECK: rt.copy %{{.*}} to %{{.*}} : memref<f32> to memref<f32>
    rt.copy %lr to %loss : memref<f32> to memref<f32>
    // CHECK: rt.zero %{{.*}} : memref<16xf32>
    rt.zero %s : memref<16xf32>
    %t1 = rt.collective reduce_scatter %full to %w site = 1 axis = "fsdp" name = "w" : memref<32xf32> to memref<16xf32>
    rt.wait %t1
    %t2 = rt.collective all_reduce %loss to %loss site = 2 axis = "fsdp" name = "loss" : memref<f32> to memref<f32>
    rt.wait %t2
  }
}
