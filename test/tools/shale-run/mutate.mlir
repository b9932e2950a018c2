// A collective without effect is reported, a needed one is not.
// RUN: not shale-run --as=f64 --ranks=2 --mutate %s | FileCheck %s
// CHECK: @step: no result changes without %{{.*}} = dist.all_reduce max
// CHECK-NOT: dist.all_reduce sum
// CHECK: 2 collectives deleted, one at a time: {{[01]}} times other results, {{[01]}} refused when run, 0 refused by verifiers, 1 unnoticed

// A program without collectives proves nothing.
// RUN: not shale-run --mutate %S/compare.mlir

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @step(%x: tensor<2x4xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64})
    -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "loss"}) {
  %0 = nn.reduce sum %x dims = [0, 1] : tensor<2x4xf32> -> tensor<f32>
  %1 = dist.all_reduce sum %0 over "fsdp" : tensor<f32>
  // All ranks have the same value here.
  %2 = dist.all_reduce max %1 over "fsdp" : tensor<f32>
  return %2 : tensor<f32>
}
