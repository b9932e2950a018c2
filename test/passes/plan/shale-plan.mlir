// RUN: shale-opt %s --shale-plan --shale-verify-plan | FileCheck %s

// One parameter in a unit, sharded over two ranks: buffers of the gathered unit, of the packed gradient and of its slice.
// CHECK: module attributes {dist.strategy = #dist.strategy<full>, rt.arena_bytes = {{[0-9]+}} : i64, rt.state_bytes = 64 : i64, rt.threads = 1 : i64}
module attributes {dist.strategy = #dist.strategy<full>} {
  dist.mesh @mesh <[shard "fsdp"=2]>
  dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 4]>]>]
  nn.state @w role = param type = tensor<4x4xf32>
  nn.state @f role = param type = tensor<32xf32> {dist.unit = @u, dist.group = 0 : i64, dist.axis = "fsdp"}

  // CHECK-LABEL: rt.func @step
  // CHECK-SAME: inputs = [{batch_dim = 0 : i64, binding = "tokens", name = "x", type = tensor<4x4xf32>}] hyper = ["lr"] metrics = ["loss", "enable"]
  // CHECK-DAG: %[[F:.*]] = rt.buffer state @"f@slot" parameters "f" : memref<16xf32>
  // CHECK-DAG: %[[U:.*]] = rt.buffer arena{{.*}} parameters "u" : memref<32xf32>
  // CHECK-DAG: %[[P:.*]] = rt.buffer arena{{.*}} communication "u" padding = 64 : memref<32xf32>
  // CHECK-DAG: %[[G:.*]] = rt.buffer arena{{.*}} gradients "u" padding = 32 : memref<16xf32>
  // CHECK-DAG: %[[LOSS:.*]] = rt.buffer metric index = 0
  // CHECK-DAG: %[[ENABLE:.*]] = rt.buffer metric index = 1
  // CHECK: %[[T:.*]] = rt.collective all_gather %[[F]] to %[[U]] site = 0 axis = "fsdp" name = "u"
  // CHECK: rt.wait %[[T]]
  // CHECK: %[[W:.*]] = rt.view %[[U]] offset = 0 : memref<32xf32> -> memref<4x4xf32>
  // CHECK: rt.gemm %{{.*}}, %[[W]] to %[[Y:.*]] :
  // In place, since y is not read again.
  // CHECK: rt.launch @tanh_0(%[[Y]]) to (%[[Y]])
  // The gradient is written directly into the packed buffer.
  // CHECK: %[[DW:.*]] = rt.view %[[P]] offset = 0 : memref<32xf32> -> memref<4x4xf32>
  // CHECK: rt.gemm %{{.*}}, %[[Y]] transpose_a to %[[DW]]
  // CHECK: %[[GAP:.*]] = rt.view %[[P]] offset = 64 : memref<32xf32> -> memref<16xf32>
  // CHECK: rt.zero %[[GAP]]
  // CHECK: rt.collective reduce_scatter %[[P]] to %[[G]] site = 1
  // CHECK: rt.launch @sum_squares_1(%[[G]]) to (%[[LOSS]])
  // New state overwrites the old state.
  // CHECK: rt.launch @broadcast_mul_sub_2(%[[F]], %[[G]], %{{.*}}) to (%[[F]])
  // CHECK: rt.launch @cast_{{.*}} to (%[[ENABLE]])
  // CHECK: rt.slot @"f@slot" parameters offset = 0 axis = "fsdp" : tensor<16xf32>
  // A constant whose elements are equal is part of the kernel.
  // CHECK: rt.kernel @tanh_0
  func.func @step(%x: tensor<4x4xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.binding = "tokens", nn.batch_dim = 0 : i64},
                  %f: tensor<16xf32> {nn.state = @f}, %lr: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
      -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "loss"}, tensor<i1> {nn.role = #nn.role<metric>, nn.name = "enable"},
          tensor<16xf32> {nn.state = @f}) {
    %p = dist.start %f : tensor<16xf32> -> !dist.pending<tensor<32xf32>> {
    ^bb0(%a: tensor<16xf32>):
      %r = dist.unit_gather %a @u[0] over "fsdp" : tensor<16xf32> -> tensor<32xf32>
      dist.yield %r : tensor<32xf32>
    }
    %u = dist.wait %p : !dist.pending<tensor<32xf32>>
    %w = dist.unit_view %u @u[0] @w : tensor<32xf32> -> tensor<4x4xf32>
    %y = nn.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %t = nn.tanh %y : tensor<4x4xf32>
    %dw = nn.matmul %x, %t transpose_lhs : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %pack = dist.unit_pack @u[0] [@w](%dw) : (tensor<4x4xf32>) -> tensor<32xf32>
    %q = dist.start %pack : tensor<32xf32> -> !dist.pending<tensor<16xf32>> {
    ^bb0(%a: tensor<32xf32>):
      %r = dist.reduce_scatter sum %a over "fsdp" dim = 0 : tensor<32xf32> -> tensor<16xf32>
      dist.yield %r : tensor<16xf32>
    }
    %g = dist.wait %q : !dist.pending<tensor<16xf32>>
    %loss = nn.sum_squares %g : (tensor<16xf32>) -> tensor<f32>
    %new = nn.cluster (%cf = %f : tensor<16xf32>, %cg = %g : tensor<16xf32>, %clr = %lr : tensor<f32>) -> tensor<16xf32> aliases [0] {
      %b = nn.broadcast %clr dims = [] : tensor<f32> -> tensor<16xf32>
      %m = nn.mul %cg, %b : tensor<16xf32>
      %s = nn.sub %cf, %m : tensor<16xf32>
      nn.yield %s : tensor<16xf32>
    }
    %zero = nn.constant dense<0.0> : tensor<f32>
    %enable = nn.compare gt %loss, %zero : tensor<f32> -> tensor<i1>
    return %loss, %enable, %new : tensor<f32>, tensor<i1>, tensor<16xf32>
  }
}
