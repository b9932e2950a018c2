// RUN: sed s/STRATEGY/full/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefix=FULL
// RUN: sed s/STRATEGY/grad/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefix=GRAD
// RUN: sed s/STRATEGY/none/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefix=NONE

// Every use of @w but the update casts it to bf16, and its gradient is reduced in bf16: the group is sent in bf16 and
// reduced in bf16. With full the gather converts; otherwise uses read a copy, which the update rewrites.
module attributes {dist.strategy = #dist.strategy<STRATEGY>} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<8x8xf32> {unit = "u"}
nn.state @v role = moment("momentum") type = tensor<8x8xf32> {of = @w}

// FULL: dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32.used.bf16.reduced.bf16", type = f32, wire = bf16, reduce = bf16, trained = true
// FULL-NOT: copy
// FULL: func.func @step
// FULL-SAME: %[[SHARD:[a-z0-9]+]]: tensor<32xf32>
// FULL: dist.unit_gather %[[SHARD]] @u[0] over "fsdp" {{.*}} : tensor<32xf32> -> tensor<64xbf16>
// FULL: dist.unit_view {{.*}} : tensor<64xbf16> -> tensor<8x8xbf16>
// FULL: dist.unit_pack {{.*}} : (tensor<8x8xbf16>) -> tensor<64xbf16>
// FULL: dist.reduce_scatter sum {{.*}} : tensor<64xbf16> -> tensor<32xbf16>
// FULL: nn.sgd %[[SHARD]], {{.*}} : tensor<32xf32> grad tensor<32xbf16>, tensor<f32>
// FULL-NOT: all_gather

// GRAD: nn.state @u.f32.used.bf16.reduced.bf16 role = param type = tensor<64xf32> {dist.axis = "fsdp"
// GRAD: nn.state @u.f32.used.bf16.reduced.bf16.copy role = param type = tensor<64xbf16> {dist.copy = @u.f32.used.bf16.reduced.bf16
// GRAD: func.func @step
// GRAD-SAME: %[[KEPT:[a-z0-9]+]]: tensor<32xf32>
// GRAD-SAME: %[[COPY:[a-z0-9]+]]: tensor<64xbf16>
// GRAD: dist.unit_view %[[COPY]]
// GRAD: dist.reduce_scatter
// GRAD: %[[NEW:.*]], %{{.*}} = nn.sgd %[[KEPT]]
// GRAD: %[[HALF:.*]] = nn.cast %[[NEW]] {{.*}} : tensor<32xf32> -> tensor<32xbf16>
// GRAD: dist.all_gather %[[HALF]] over "fsdp" dim = 0 {{.*}} : tensor<32xbf16> -> tensor<64xbf16>

// NONE: func.func @step
// NONE-SAME: %[[KEPT:[a-z0-9]+]]: tensor<64xf32>
// NONE-SAME: %[[COPY:[a-z0-9]+]]: tensor<64xbf16>
// NONE: dist.all_reduce sum {{.*}} : tensor<64xbf16>
// NONE: %[[NEW:.*]], %{{.*}} = nn.sgd %[[KEPT]]
// NONE: nn.cast %[[NEW]] {{.*}} : tensor<64xf32> -> tensor<64xbf16>
// NONE-NOT: all_gather
func.func @step(%x: tensor<4x8xbf16> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w: tensor<8x8xf32> {nn.state = @w},
                %v: tensor<8x8xf32> {nn.state = @v}, %h: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"},
                %e: tensor<i1> {nn.role = #nn.role<input>, nn.name = "e"})
    -> (tensor<8x8xf32> {nn.state = @w}, tensor<8x8xf32> {nn.state = @v}) {
  %0 = nn.cast %w {nn.phase = #nn.phase<forward>} : tensor<8x8xf32> -> tensor<8x8xbf16>
  %y = nn.matmul %x, %0 {nn.phase = #nn.phase<forward>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %g = nn.matmul %x, %y transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xbf16>
  %p, %v1 = nn.sgd %w, %g, %v enable %e scale %h lr %h momentum %h weight_decay %h {nn.phase = #nn.phase<update>} : tensor<8x8xf32> grad tensor<8x8xbf16> state tensor<8x8xf32>, tensor<f32>
  return %p, %v1 : tensor<8x8xf32>, tensor<8x8xf32>
}
}
