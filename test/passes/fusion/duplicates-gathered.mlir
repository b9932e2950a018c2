// RUN: shale-opt %s --shale-fusion | FileCheck %s
// A bias that is part of a gathered unit is not added again in the backward pass: the unit would stay whole until then. The forward kernel
// stores the sum.
#group = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@b, offset = 0, shape = [8]>]>
nn.state @b role = param type = tensor<8xf32>
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#group]

// CHECK-LABEL: @gathered
// CHECK: nn.cluster {{.*}} -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK: nn.cluster (%{{.*}} = %{{.*}} : tensor<4x8xf32>, %{{.*}} = %{{.*}} : tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @gathered(%shard: tensor<8xf32>, %x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %whole = dist.unit_gather %shard @u[0] over "fsdp" {nn.phase = #nn.phase<forward>} : tensor<8xf32> -> tensor<16xf32>
  %b = dist.unit_view %whole @u[0] @b {nn.phase = #nn.phase<forward>} : tensor<16xf32> -> tensor<8xf32>
  %matmul = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %bias = nn.broadcast %b dims = [1] {nn.phase = #nn.phase<forward>} : tensor<8xf32> -> tensor<4x8xf32>
  %sum = nn.add %matmul, %bias {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %y = nn.gelu %sum tanh {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %s = nn.mul %sum, %sum {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %dx = nn.mul %dy, %s {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  return %y, %dx : tensor<4x8xf32>, tensor<4x8xf32>
}

// A part of an argument stays alive anyway.
// CHECK-LABEL: @whole
// CHECK: nn.cluster {{.*}} -> tensor<4x8xf32>
// CHECK: nn.cluster (%{{.*}} = %{{.*}} : tensor<8xf32>, %{{.*}} = %{{.*}} : tensor<4x8xf32>, %{{.*}} = %{{.*}} : tensor<4x8xf32>) -> tensor<4x8xf32>
func.func @whole(%whole: tensor<16xf32>, %x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %b = dist.unit_view %whole @u[0] @b {nn.phase = #nn.phase<forward>} : tensor<16xf32> -> tensor<8xf32>
  %matmul = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %bias = nn.broadcast %b dims = [1] {nn.phase = #nn.phase<forward>} : tensor<8xf32> -> tensor<4x8xf32>
  %sum = nn.add %matmul, %bias {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %y = nn.gelu %sum tanh {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %s = nn.mul %sum, %sum {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %dx = nn.mul %dy, %s {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  return %y, %dx : tensor<4x8xf32>, tensor<4x8xf32>
}
