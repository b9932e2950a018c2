// RUN: shale-opt %s --split-input-file --shale-split-sequence | FileCheck %s
// RUN: shale-opt %s --split-input-file --shale-split-sequence --shale-propagate --shale-partition | FileCheck %s --check-prefix=LOCAL
// RUN: not shale-opt %s --split-input-file --shale-split-sequence=sequence-parallel=true 2>&1 | FileCheck %s --check-prefix=ERROR

// A sum over ranks is scattered over examples, and gathered again before the next matmul: once for two views of it, and once
// more, behind a barrier, for the backward pass. The residual is added to a half of the rows.
// CHECK-LABEL: func.func @layer
// CHECK: %[[Y:.*]] = nn.matmul {{.*}}nn.scope = "down"
// CHECK: %[[ROWS:.*]] = dist.constrain %[[Y]] to <[{"fsdp", "tp"}, {}]> {{.*}}nn.scope = "down"
// CHECK: %[[SUM:.*]] = nn.add %{{.*}}, %[[ROWS]]
// CHECK: %[[ALL:.*]] = dist.constrain %[[NORM:.*]] to <[{}, {}]> {nn.phase = #forward
// CHECK-COUNT-2: nn.reshape %[[ALL]]
// CHECK: %[[AGAIN:.*]] = dist.constrain %[[NORM]] to <[{}, {}]> {nn.phase = #backward
// CHECK: nn.reshape %[[AGAIN]]
// LOCAL-LABEL: func.func @layer
// LOCAL: dist.reduce_scatter sum %{{.*}} over "tp" dim = 0 {{.*}}: tensor<4x8xf32> -> tensor<2x8xf32>
// LOCAL: dist.slice %{{.*}} over "tp" dim = 0
// LOCAL: nn.add {{.*}} : tensor<2x8xf32>
// LOCAL: %[[NORM:.*]] = nn.gelu {{.*}} : tensor<2x8xf32>
// LOCAL: dist.all_gather %[[NORM]] over "tp" dim = 0
// LOCAL-NOT: dist.all_gather
// LOCAL: %[[AGAIN:.*]] = mem.barrier %[[NORM]]
// LOCAL: dist.all_gather %[[AGAIN]] over "tp" dim = 0 {nn.phase = #backward
// ERROR-NOT: error
// ERROR: error: sequence-parallel: the 2 ranks of axis 'tp' cannot split rows: a data rank needs a multiple of 2 examples, or each example such a length
#forward = #nn.phase<forward>
#backward = #nn.phase<backward>
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
func.func @layer(%x: tensor<8x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
                 %up: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}, %down: tensor<6x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>},
                 %q: tensor<8x4xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}, %k: tensor<8x4xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>})
    -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>) {
  %h = nn.matmul %x, %up {nn.phase = #forward, nn.scope = "up"} : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %y = nn.matmul %h, %down {nn.phase = #forward, nn.scope = "down"} : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
  %s = nn.add %x, %y {nn.phase = #forward} : tensor<8x8xf32>
  %n = nn.gelu %s {nn.phase = #forward} : tensor<8x8xf32>
  %n1 = nn.reshape %n {nn.phase = #forward} : tensor<8x8xf32> -> tensor<8x8xf32>
  %n2 = nn.reshape %n {nn.phase = #forward} : tensor<8x8xf32> -> tensor<8x8xf32>
  %a = nn.matmul %n1, %q {nn.phase = #forward} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %b = nn.matmul %n2, %k {nn.phase = #forward} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  %c = nn.matmul %n1, %q {nn.phase = #backward} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %a, %b, %c : tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// A sum over the examples of data ranks, which is a sum over tensor ranks, too, has no rows of examples.
// CHECK-LABEL: func.func @gradient
// CHECK-NOT: dist.constrain
// LOCAL-LABEL: func.func @gradient
// LOCAL-DAG: dist.all_reduce sum %{{.*}} over "tp"
// LOCAL-DAG: dist.all_reduce sum %{{.*}} over "fsdp"
// ERROR: error: sequence-parallel: the 2 ranks of axis
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
func.func @gradient(%x: tensor<8x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
                    %up: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}, %down: tensor<6x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>})
    -> tensor<8x8xf32> {
  %h = nn.matmul %x, %up : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %g = nn.matmul %x, %h transpose_lhs : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %y = nn.matmul %g, %down : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
  %z = nn.tanh %y : tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}

// -----

// One example for each data rank: its positions are split, also where examples and positions are one dimension.
// CHECK-LABEL: func.func @positions
// CHECK: dist.constrain %{{.*}} to <[{"fsdp", "tp"}, {}]> : tensor<12x8xf32>
// CHECK: dist.constrain %{{.*}} to <[{"fsdp"}, {"tp"}, {}]> : tensor<2x6x8xf32>
// ERROR-NOT: error
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
func.func @positions(%x: tensor<2x6x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
                     %down: tensor<8x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}, %e: tensor<2x8x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}, {}]>})
    -> (tensor<12x8xf32>, tensor<2x6x8xf32>) {
  %flat = nn.reshape %x : tensor<2x6x8xf32> -> tensor<12x8xf32>
  %y = nn.matmul %flat, %down : (tensor<12x8xf32>, tensor<8x8xf32>) -> tensor<12x8xf32>
  %z = nn.tanh %y : tensor<12x8xf32>
  %w = nn.matmul %x, %e : (tensor<2x6x8xf32>, tensor<2x8x8xf32>) -> tensor<2x6x8xf32>
  %v = nn.tanh %w : tensor<2x6x8xf32>
  return %z, %v : tensor<12x8xf32>, tensor<2x6x8xf32>
}

// -----

// Three examples for each data rank: positions are split, in three blocks where examples and positions are one dimension. What is not a
// sum follows.
// CHECK-LABEL: func.func @blocks
// CHECK: dist.constrain %{{.*}} to <[{"fsdp", "tp" in 3}, {}]> : tensor<24x8xf32>
// CHECK: dist.constrain %{{.*}} to <[{}, {}, {}]> : tensor<6x4x8xf32>
// LOCAL-LABEL: func.func @blocks
// LOCAL: %[[Y:.*]] = nn.matmul {{.*}} -> tensor<12x8xf32>
// LOCAL: %[[BLOCKS:.*]] = nn.reshape %[[Y]] : tensor<12x8xf32> -> tensor<3x4x8xf32>
// LOCAL: %[[PARTS:.*]] = dist.reduce_scatter sum %[[BLOCKS]] over "tp" dim = 1 : tensor<3x4x8xf32> -> tensor<3x2x8xf32>
// LOCAL: nn.reshape %[[PARTS]] : tensor<3x2x8xf32> -> tensor<6x8xf32>
// LOCAL: nn.tanh {{.*}} : tensor<6x8xf32>
// LOCAL: nn.reshape {{.*}} : tensor<6x8xf32> -> tensor<3x2x8xf32>
// LOCAL: nn.gelu {{.*}} : tensor<3x2x8xf32>
// LOCAL: %[[ALL:.*]] = dist.all_gather {{.*}} over "tp" dim = 1 : tensor<3x2x8xf32> -> tensor<3x4x8xf32>
// LOCAL: nn.reshape %[[ALL]] : tensor<3x4x8xf32> -> tensor<12x8xf32>
// ERROR-NOT: error
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
func.func @blocks(%x: tensor<6x4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
                  %down: tensor<8x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}, %up: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>})
    -> tensor<24x6xf32> {
  %flat = nn.reshape %x : tensor<6x4x8xf32> -> tensor<24x8xf32>
  %y = nn.matmul %flat, %down : (tensor<24x8xf32>, tensor<8x8xf32>) -> tensor<24x8xf32>
  %z = nn.tanh %y : tensor<24x8xf32>
  %t = nn.reshape %z : tensor<24x8xf32> -> tensor<6x4x8xf32>
  %g = nn.gelu %t : tensor<6x4x8xf32>
  %s = nn.reshape %g : tensor<6x4x8xf32> -> tensor<24x8xf32>
  %h = nn.matmul %s, %up : (tensor<24x8xf32>, tensor<8x6xf32>) -> tensor<24x6xf32>
  return %h : tensor<24x6xf32>
}

// -----

// A view joins the positions with three examples: it has them in blocks, and nothing is gathered for it.
// CHECK-LABEL: func.func @joined
// CHECK: dist.constrain %{{.*}} to <[{"fsdp"}, {"tp"}, {}]> : tensor<6x4x8xf32>
// LOCAL-LABEL: func.func @joined
// LOCAL: dist.reduce_scatter sum %{{.*}} over "tp" dim = 1 : tensor<3x4x8xf32> -> tensor<3x2x8xf32>
// LOCAL-NOT: dist.
// LOCAL: nn.gelu {{.*}} : tensor<6x8xf32>
// ERROR-NOT: error
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
func.func @joined(%x: tensor<6x4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
                  %e: tensor<6x8x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}, {}]>}) -> tensor<24x8xf32> {
  %w = nn.matmul %x, %e : (tensor<6x4x8xf32>, tensor<6x8x8xf32>) -> tensor<6x4x8xf32>
  %t = nn.tanh %w : tensor<6x4x8xf32>
  %flat = nn.reshape %t : tensor<6x4x8xf32> -> tensor<24x8xf32>
  %g = nn.gelu %flat : tensor<24x8xf32>
  return %g : tensor<24x8xf32>
}

// -----

// Three examples on two ranks: nothing is split.
// CHECK-LABEL: func.func @odd
// CHECK-NOT: dist.constrain
// LOCAL-LABEL: func.func @odd
// LOCAL: dist.all_reduce
dist.mesh @mesh <[tensor "tp"=2]>
func.func @odd(%x: tensor<3x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %down: tensor<8x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}) -> tensor<3x8xf32> {
  %y = nn.matmul %x, %down : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<3x8xf32>
  %z = nn.tanh %y : tensor<3x8xf32>
  return %z : tensor<3x8xf32>
}

// -----

// Two tensor axes of which a matmul sums over one.
// CHECK-LABEL: func.func @one_of_two
// CHECK: dist.constrain %{{.*}} to <[{"tp"}, {}]> : tensor<2x8xf32>
// ERROR-NOT: error
dist.mesh @mesh <[tensor "tp"=2, tensor "tq"=2]>
func.func @one_of_two(%x: tensor<2x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %down: tensor<8x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}) -> tensor<2x8xf32> {
  %y = nn.matmul %x, %down : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
  %z = nn.tanh %y : tensor<2x8xf32>
  return %z : tensor<2x8xf32>
}

// -----

// ERROR: error: sequence-parallel: the 2 ranks of axis 'tp' cannot split rows: a data rank needs a multiple of 2 examples, or each example such a length
// A sum that each data rank has whole, as of rows that other examples index, has rows of all examples: it stays whole.
// CHECK-LABEL: func.func @of_all_examples
// CHECK-NOT: dist.constrain
// CHECK: return
// LOCAL-LABEL: func.func @of_all_examples
// LOCAL: dist.all_reduce sum %{{.*}} over "tp"
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
func.func @of_all_examples(%x: tensor<8x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %rows: tensor<8x8xf32>,
                           %up: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}, %down: tensor<6x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>})
    -> (tensor<8x8xf32>, tensor<8x8xf32>) {
  %h = nn.matmul %rows, %up : (tensor<8x8xf32>, tensor<8x6xf32>) -> tensor<8x6xf32>
  %y = nn.matmul %h, %down : (tensor<8x6xf32>, tensor<6x8xf32>) -> tensor<8x8xf32>
  %s = nn.add %rows, %y : tensor<8x8xf32>
  %g = nn.gelu %x : tensor<8x8xf32>
  return %s, %g : tensor<8x8xf32>, tensor<8x8xf32>
}
