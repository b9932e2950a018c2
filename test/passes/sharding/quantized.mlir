// RUN: sed s/STRATEGY/full/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefixes=BOTH,FULL
// RUN: sed s/STRATEGY/grad/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefixes=BOTH,GRAD
// RUN: sed s/STRATEGY/optimizer/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefixes=BOTH,GRAD
// RUN: sed s/STRATEGY/none/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefix=NONE
// RUN: sed 's/STRATEGY/full/; s/"fsdp"=2/"fsdp"=1/' %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefix=NONE

// Blocks of 256 elements have one scale: parameters and slices begin with one. Every strategy that splits something stores shards of
// what is trained; with full alone they are gathered again for the backward pass. What is frozen is split and gathered by full.
module attributes {dist.strategy = #dist.strategy<STRATEGY>, dist.quantize_gathers = #dist<encoding int8>} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<8x8xf32> {unit = "u"}
nn.state @b role = param type = tensor<8xf32> {unit = "u"}
nn.state @frozen role = param type = tensor<8xf32> {unit = "u"}
nn.state @v role = moment("momentum") type = tensor<8x8xf32> {of = @w}
nn.state @c role = moment("momentum") type = tensor<8xf32> {of = @b}

// BOTH: dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", {{.*}} count = 512, segments = [#dist.segment<@w, offset = 0, {{.*}}>, #dist.segment<@b, offset = 256, {{.*}}>] storage = <gathered f32 rest = "fsdp" {{.*}}gather = int8 {{.*}}>>,
// BOTH-NOT: dist.copy
// BOTH: func.func @step
// BOTH-SAME: %[[SHARD:[a-z0-9]+]]: tensor<256xf32>
// FULL: dist.unit_gather %[[SHARD]] @u[0] over "fsdp" as int8 {mem.recompute{{.*}}} : tensor<256xf32> -> tensor<512xf32>
// FULL: dist.unit_gather %{{.*}} @u[1] over "fsdp" as int8 {{.*}} : tensor<256xf32> -> tensor<512xf32>
// GRAD: dist.unit_gather %[[SHARD]] @u[0] over "fsdp" as int8
// GRAD-NOT: mem.recompute
// GRAD-NOT: dist.unit_gather
// BOTH: nn.sgd %[[SHARD]]
// BOTH-NOT: all_gather

// NONE: count = {{72|80}}, segments = [#dist.segment<@w, offset = 0, {{.*}}>, #dist.segment<@b, offset = 64
// NONE-NOT: quantized
func.func @step(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w: tensor<8x8xf32> {nn.state = @w},
                %b: tensor<8xf32> {nn.state = @b}, %f: tensor<8xf32> {nn.state = @frozen},
                %v: tensor<8x8xf32> {nn.state = @v}, %c: tensor<8xf32> {nn.state = @c}, %h: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"},
                %e: tensor<i1> {nn.role = #nn.role<input>, nn.name = "e"})
    -> (tensor<8x8xf32> {nn.state = @w}, tensor<8xf32> {nn.state = @b}, tensor<8x8xf32> {nn.state = @v}, tensor<8xf32> {nn.state = @c}) {
  %0 = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = nn.broadcast %b dims = [1] {nn.phase = #nn.phase<forward>} : tensor<8xf32> -> tensor<4x8xf32>
  %2 = nn.add %0, %1 {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %3 = nn.broadcast %f dims = [1] {nn.phase = #nn.phase<forward>} : tensor<8xf32> -> tensor<4x8xf32>
  %y = nn.mul %2, %3 {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %g = nn.matmul %x, %y transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %d = nn.reduce sum %y dims = [0] {nn.phase = #nn.phase<backward>} : tensor<4x8xf32> -> tensor<8xf32>
  %p, %v1 = nn.sgd %w, %g, %v enable %e scale %h lr %h momentum %h weight_decay %h {nn.phase = #nn.phase<update>} : tensor<8x8xf32>, tensor<f32>
  %q, %c1 = nn.sgd %b, %d, %c enable %e scale %h lr %h momentum %h weight_decay %h {nn.phase = #nn.phase<update>} : tensor<8xf32>, tensor<f32>
  return %p, %q, %v1, %c1 : tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>
}
}
