// RUN: sed s/STRATEGY/full/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefixes=SPLIT
// RUN: sed s/STRATEGY/optimizer/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefixes=SPLIT
// RUN: sed s/STRATEGY/none/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefix=NONE
// RUN: sed 's/STRATEGY/full/; s/shard "fsdp"=2/replica "dp"=3, shard "fsdp"=2/; s/4x8/12x8/g' %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefix=HYBRID
// RUN: sed 's/STRATEGY/full/; s/"fsdp"=2/"fsdp"=1/' %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefix=ONE

// The rank's sum of gradient and residual is sent as 8-bit integers; what they lack is the new residual. Where all ranks need the sum, it is
// rounded a second time. Slices, and the pieces in which they are sent, are blocks of 256 elements. In a step that is left out a residual stays as it was.
module attributes {dist.strategy = #dist.strategy<STRATEGY>, dist.quantize_reductions = #dist<encoding int8>} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<8x8xf32> {unit = "u"}
nn.state @b role = param type = tensor<8xf32> {unit = "u"}
nn.state @v role = moment("momentum") type = tensor<8x8xf32> {of = @w}
nn.state @c role = moment("momentum") type = tensor<8xf32> {of = @b}

// SPLIT: dist.unit @u {{.*}} count = 512, segments = [#dist.segment<@w, offset = 0, {{.*}}>, #dist.segment<@b, offset = 256, {{.*}}>]>
// SPLIT: nn.state @u.f32.residual.fsdp role = residual type = tensor<512xf32>
// SPLIT: func.func @step
// SPLIT-SAME: %[[R:[a-z0-9.]+]]: tensor<512xf32> {nn.state = @u.f32.residual.fsdp}
// SPLIT: %[[PACK:.*]] = dist.unit_pack
// SPLIT: %[[SENT:.*]] = nn.add %[[PACK]], %[[R]]
// SPLIT: %[[LACK:.*]] = dist.quantization_error %[[SENT]] as int8
// SPLIT: %[[SLICE:.*]] = dist.reduce_scatter sum %[[SENT]] over "fsdp" dim = 0 as int8 {{.*}} : tensor<512xf32> -> tensor<256xf32>
// SPLIT-NOT: all_reduce
// SPLIT: nn.sgd {{.*}}, %[[SLICE]],
// SPLIT: %[[OUT:.*]] = nn.not
// SPLIT: %[[OUTS:.*]] = nn.broadcast %[[OUT]] {{.*}} -> tensor<512xi1>
// SPLIT: %[[KEPT:.*]] = nn.select %[[OUTS]], %[[R]], %[[LACK]]
// SPLIT: return {{.*}}%[[KEPT]]

// NONE: count = 512
// NONE: nn.state @u.f32.residual.fsdp role = residual type = tensor<512xf32>
// NONE: nn.state @u.f32.residual.fsdp.sum role = residual type = tensor<256xf32>
// NONE: %[[SLICE:.*]] = dist.reduce_scatter sum {{.*}} as int8 {{.*}} : tensor<512xf32> -> tensor<256xf32>
// NONE: %[[SUM:.*]] = nn.add %[[SLICE]], %{{.*}} : tensor<256xf32>
// NONE: dist.quantization_error %[[SUM]] as int8
// NONE: dist.all_gather %[[SUM]] over "fsdp" dim = 0 as int8 {{.*}} : tensor<256xf32> -> tensor<512xf32>

// NONE-COUNT-2: nn.select
// NONE: return

// HYBRID: count = 1536
// HYBRID: nn.state @u.f32.residual.fsdp role = residual type = tensor<1536xf32>
// HYBRID: nn.state @u.f32.residual.dp role = residual type = tensor<768xf32>
// HYBRID: nn.state @u.f32.residual.dp.sum role = residual type = tensor<256xf32>
// HYBRID: dist.reduce_scatter sum {{.*}} over "fsdp" dim = 0 as int8 {{.*}} : tensor<1536xf32> -> tensor<768xf32>
// HYBRID: dist.reduce_scatter sum {{.*}} over "dp" dim = 0 as int8 {{.*}} : tensor<768xf32> -> tensor<256xf32>
// HYBRID: dist.all_gather {{.*}} over "dp" dim = 0 as int8 {{.*}} : tensor<256xf32> -> tensor<768xf32>

// ONE: count = {{72|80}}, segments
// ONE-NOT: quantized
func.func @step(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w: tensor<8x8xf32> {nn.state = @w},
                %b: tensor<8xf32> {nn.state = @b}, %v: tensor<8x8xf32> {nn.state = @v}, %c: tensor<8xf32> {nn.state = @c},
                %h: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"}, %e: tensor<i1> {nn.role = #nn.role<input>, nn.name = "e"})
    -> (tensor<8x8xf32> {nn.state = @w}, tensor<8xf32> {nn.state = @b}, tensor<8x8xf32> {nn.state = @v}, tensor<8xf32> {nn.state = @c}) {
  %0 = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = nn.broadcast %b dims = [1] {nn.phase = #nn.phase<forward>} : tensor<8xf32> -> tensor<4x8xf32>
  %y = nn.add %0, %1 {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %g = nn.matmul %x, %y transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %d = nn.reduce sum %y dims = [0] {nn.phase = #nn.phase<backward>} : tensor<4x8xf32> -> tensor<8xf32>
  %p, %v1 = nn.sgd %w, %g, %v enable %e scale %h lr %h momentum %h weight_decay %h {nn.phase = #nn.phase<update>} : tensor<8x8xf32>, tensor<f32>
  %q, %c1 = nn.sgd %b, %d, %c enable %e scale %h lr %h momentum %h weight_decay %h {nn.phase = #nn.phase<update>} : tensor<8xf32>, tensor<f32>
  return %p, %q, %v1, %c1 : tensor<8x8xf32>, tensor<8xf32>, tensor<8x8xf32>, tensor<8xf32>
}
}
