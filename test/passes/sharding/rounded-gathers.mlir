// RUN: sed s/STRATEGY/full/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units -o %t.full.mlir && FileCheck %s --check-prefixes=BOTH,FULL < %t.full.mlir
// RUN: sed s/STRATEGY/grad/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefixes=BOTH,GRAD
// RUN: sed s/STRATEGY/optimizer/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefixes=BOTH,GRAD
// RUN: sed s/STRATEGY/none/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefix=NONE
// RUN: sed 's/STRATEGY/full/; s/xf32/xbf16/g' %s | not shale-opt --shale-propagate --shale-partition --shale-materialize-units 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: sed 's/STRATEGY/full/; s/gathers = bf16/gathers = i8/' %s | not shale-opt 2>&1 | FileCheck %s --check-prefix=WRONG

// Shards are rounded before they are sent: all ranks compute with the same values, in f32.
// RUN: shale-opt %t.full.mlir --shale-convert-gathers -o %t.converted.mlir && FileCheck %s --check-prefix=SENT < %t.converted.mlir
// RUN: shale-run --ranks=2 %t.full.mlir --compare=%t.converted.mlir --exact | FileCheck %s --check-prefix=BITS
// BITS: 0 differ in their bits

// Every strategy that splits something stores shards of what is trained, and casts what it has gathered to f32; with full alone both are
// repeated for the backward pass. What is frozen is split and gathered by full.
module attributes {dist.strategy = #dist.strategy<STRATEGY>, dist.quantize_gathers = bf16} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<8x8xf32> {unit = "u"}
nn.state @b role = param type = tensor<8xf32> {unit = "u"}
nn.state @frozen role = param type = tensor<8xf32> {unit = "u"}
nn.state @v role = moment("momentum") type = tensor<8x8xf32> {of = @w}
nn.state @c role = moment("momentum") type = tensor<8xf32> {of = @b}

// BOTH: dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32.sent.bf16", type = f32, wire = bf16, {{.*}} segments = [#dist.segment<@w, offset = 0, {{.*}}>, #dist.segment<@b, offset = 64, {{.*}}>] storage = <gathered f32 rest = "fsdp" {{.*}}>>,
// BOTH-NOT: dist.copy
// BOTH: func.func @step
// BOTH-SAME: %[[SHARD:[a-z0-9.]+]]: tensor<{{[0-9]+}}xf32> {nn.state = @u.f32.sent.bf16}
// FULL: %[[GATHERED:.*]] = dist.unit_gather %[[SHARD]] @u[0] over "fsdp" {mem.recompute{{.*}}} : tensor<[[SLICE:[0-9]+]]xf32> -> tensor<[[COUNT:[0-9]+]]xbf16>
// FULL: %[[WHOLE:.*]] = nn.cast %[[GATHERED]] {mem.recompute{{.*}}} : tensor<[[COUNT]]xbf16> -> tensor<[[COUNT]]xf32>
// FULL: dist.unit_view %[[WHOLE]] @u[0] @w {{.*}} -> tensor<8x8xf32>
// FULL: dist.unit_gather %{{.*}} @u[1] over "fsdp" {{.*}} -> tensor<{{[0-9]+}}xbf16>
// GRAD: %[[GATHERED:.*]] = dist.unit_gather %[[SHARD]] @u[0] over "fsdp"
// GRAD: nn.cast %[[GATHERED]]
// GRAD-NOT: mem.recompute
// GRAD-NOT: dist.unit_gather
// BOTH: nn.sgd %[[SHARD]]
// BOTH-NOT: all_gather

// SENT: %[[HALF:.*]] = nn.cast %{{.*}} : tensor<[[SLICE:[0-9]+]]xf32> -> tensor<[[SLICE]]xbf16>
// SENT: dist.unit_gather %[[HALF]] @u[0] over "fsdp" {{.*}} : tensor<[[SLICE]]xbf16> -> tensor<{{[0-9]+}}xbf16>

// NONE: dist.unit @u
// NONE-NOT: sent.bf16

// SAME: error: --wire-dtype gather=bf16 has no effect: no parameter is gathered that the model uses in f32; leave it out

// WRONG: error: {{.*}}'dist.quantize_gathers' must be an encoding or a 16-bit float
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
