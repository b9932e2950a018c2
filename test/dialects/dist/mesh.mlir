// RUN: shale-opt %s --verify-roundtrip | FileCheck %s

// CHECK: dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>

// CHECK-LABEL: func.func @layouts
// CHECK-SAME: {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>}
func.func @layouts(%a: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>}) -> tensor<4x8xf32> {
  // CHECK: dist.constrain %{{.*}} to <[{}, {"tp"}]> : tensor<4x8xf32>
  %0 = dist.constrain %a to <[{}, {"tp"}]> : tensor<4x8xf32>
  // CHECK: dist.coordinate "fsdp" : tensor<i64>
  %1 = dist.coordinate "fsdp" : tensor<i64>
  // CHECK: dist.shardings = [#dist.sharding<[{"fsdp"}, {}], partial = {"tp": sum}>]
  %2 = nn.neg %0 {dist.shardings = [#dist.sharding<[{"fsdp"}, {}], partial = {"tp": sum}>]} : tensor<4x8xf32>
  // CHECK: dist.constrain %{{.*}} to <[{}, {"fsdp", "tp" in 2}]> : tensor<4x8xf32>
  %3 = dist.constrain %2 to <[{}, {"fsdp", "tp" in 2}]> : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// CHECK: nn.state @w
// CHECK-SAME: dist.plan_costs = [#dist.split_cost<column, gathered = 0, whole = 384, reduced = 262144, sums = 4, chosen = true>, #dist.split_cost<whole, gathered = 8, whole = 448, reduced = 0, sums = 0, chosen = false>]
nn.state @w role = param type = tensor<8x8xf32> {
  dist.plan = "split along dimension 0 (of the model)",
  dist.plan_costs = [#dist.split_cost<column, gathered = 0, whole = 384, reduced = 262144, sums = 4, chosen = true>,
                     #dist.split_cost<whole, gathered = 8, whole = 448, reduced = 0, sums = 0, chosen = false>]}
