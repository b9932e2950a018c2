// Ops that are built for an op have its phase and module scope, which policies of recomputation and offload read.
// RUN: shale-opt %s --shale-propagate --shale-verify-sharded --shale-partition -o %t
// RUN: FileCheck %s --implicit-check-not=dist.shardings < %t
// RUN: grep -E "^ *%%.* = " %t | not grep -v 'nn.phase = #forward, nn.scope = "block"'

// Rows are split over fsdp, the rows of the table and the classes over tp. Each of these ops builds its own local form.
// CHECK: nn.iota dim = 0 {{.*}}tensor<2x8xi64>
// CHECK: nn.slice {{.*}}tensor<2x8xi64> -> tensor<2x4xi64>
// CHECK: nn.embedding {{.*}}tensor<2x4x16xf32>
// CHECK: nn.dropout {{.*}}of [4, 4, 16]
// CHECK: nn.attention {{.*}}dropout {{.*}}of = [4, 1, 1, 4, 4]
// CHECK: %{{.*}}, %{{.*}}, %[[LSE:.*]] = nn.cross_entropy {{.*}} ignore_index = -1 {{.*}}tensor<8x8xf32>
// CHECK: %[[PART:.*]] = nn.reshape %[[LSE]] {{.*}}tensor<1x8xf32>
// CHECK: dist.all_gather %[[PART]] over "tp" dim = 0
// CHECK: dist.all_reduce sum {{.*}} over "tp" {{.*}}tensor<f32>
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
func.func @forward(%tokens: tensor<4x8xi64> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>},
                   %table: tensor<16x16xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}, %s: tensor<i64>) -> (tensor<f32>, tensor<f32>) {
  %row = nn.iota dim = 0 {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x8xi64>
  %sum = nn.add %tokens, %row {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x8xi64>
  %ids = nn.slice %sum starts = [0, 0] limits = [4, 8] strides = [1, 2] {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x8xi64> -> tensor<4x4xi64>
  %e = nn.embedding %table, %ids {nn.phase = #nn.phase<forward>, nn.scope = "block"} : (tensor<16x16xf32>, tensor<4x4xi64>) -> tensor<4x4x16xf32>
  %d = nn.dropout %e seed %s step %s microbatch %s ratio = 0.5 id = 1 {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x4x16xf32>, tensor<i64>
  %q = nn.reshape %d {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x4x16xf32> -> tensor<4x1x4x16xf32>
  %o, %l = nn.attention %q, %q, %q causal scale = 1.0 dropout <ratio = 0.5 : f64, id = 2> (%s, %s, %s : tensor<i64>, tensor<i64>, tensor<i64>) {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x1x4x16xf32>, tensor<4x1x4x16xf32>, tensor<4x1x4x16xf32> -> tensor<4x1x4x16xf32>, tensor<4x1x4xf32>
  %x = nn.reshape %o {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x1x4x16xf32> -> tensor<16x16xf32>
  %logits = nn.matmul %x, %table transpose_rhs {nn.phase = #nn.phase<forward>, nn.scope = "block"} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %labels = nn.reshape %ids {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x4xi64> -> tensor<16xi64>
  %loss, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<16x16xf32>, tensor<16xi64>
  %total = dist.constrain %loss to <[]> {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<f32>
  %rows = dist.constrain %count to <[]> {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<f32>
  return %total, %rows : tensor<f32>, tensor<f32>
}
