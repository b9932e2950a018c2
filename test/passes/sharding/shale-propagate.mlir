// RUN: shale-opt %s --shale-propagate --shale-verify-sharded | FileCheck %s

dist.mesh @mesh <[tensor "one"=1, shard "fsdp"=2, tensor "tp"=2]>
nn.state @w role = param type = tensor<8x6xf32>
nn.state @v role = param type = tensor<6x8xf32>

// A data axis splits the batch; a reshape keeps it on the major factor; the
// column-split weight splits columns, the row-split one makes partial sums. An
// axis of size one is never written.
// CHECK-LABEL: func.func @layers
// CHECK-SAME: %{{.*}}: tensor<4x3x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}, {}]>
// CHECK-SAME: %{{.*}}: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>
// CHECK-SAME: %{{.*}}: tensor<6x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>
func.func @layers(%x: tensor<4x3x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
    %w: tensor<8x6xf32> {nn.state = @w, dist.sharding = #dist.sharding<[{}, {"one", "tp"}]>},
    %v: tensor<6x8xf32> {nn.state = @v, dist.sharding = #dist.sharding<[{"tp"}, {}]>}) -> tensor<f32> {
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %0 = nn.reshape %x : tensor<4x3x8xf32> -> tensor<12x8xf32>
  // CHECK: nn.matmul {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %1 = nn.matmul %0, %w : (tensor<12x8xf32>, tensor<8x6xf32>) -> tensor<12x6xf32>
  // CHECK: nn.gelu {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %2 = nn.gelu %1 : tensor<12x6xf32>
  // CHECK: nn.matmul {{.*}}[#dist.sharding<[{"fsdp"}, {}], partial = {"tp": sum}>]
  %3 = nn.matmul %2, %v : (tensor<12x6xf32>, tensor<6x8xf32>) -> tensor<12x8xf32>
  // Linear: the sum stays partial.
  // CHECK: nn.neg {{.*}}[#dist.sharding<[{"fsdp"}, {}], partial = {"tp": sum}>]
  %4 = nn.neg %3 : tensor<12x8xf32>
  // Not linear: the operand must be summed first.
  // CHECK: nn.tanh {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %5 = nn.tanh %4 : tensor<12x8xf32>
  // Constants of batch size are built as slices.
  // CHECK: nn.constant {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %6 = nn.constant dense<2.0> : tensor<12x8xf32>
  // CHECK: nn.mul {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %7 = nn.mul %5, %6 : tensor<12x8xf32>
  // CHECK: nn.reduce {{.*}}[#dist.sharding<[], partial = {"fsdp": sum}>]
  %8 = nn.reduce sum %7 dims = [0, 1] : tensor<12x8xf32> -> tensor<f32>
  return %8 : tensor<f32>
}

// A constraint takes precedence over propagation.
// CHECK-LABEL: func.func @constrained
func.func @constrained(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}) -> tensor<4x8xf32> {
  // CHECK: nn.neg {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %0 = nn.neg %x : tensor<4x8xf32>
  // CHECK: dist.constrain {{.*}}dist.shardings = [#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %1 = dist.constrain %0 to <[{}, {"tp"}]> : tensor<4x8xf32>
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %2 = nn.exp %1 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
