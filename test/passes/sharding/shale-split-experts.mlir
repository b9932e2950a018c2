// RUN: shale-opt %s --split-input-file --shale-split-experts --verify-diagnostics | FileCheck %s

// A block of two choices of experts for each token: tokens are gathered before they are repeated, what is between the matmuls has only the
// rows of a part, and the sum over parts comes after that over a token's experts.
// CHECK-LABEL: func.func @block
// CHECK-SAME: %[[X:.*]]: tensor<6x8xf32>, %[[E:.*]]: tensor<12xi32>, %[[S:.*]]: tensor<6x2xf32>
// CHECK-SAME: %[[UP:.*]]: tensor<4x8x5xf32> {dist.sharding = #dist.sharding<[{"ep"}, {}, {}]>, nn.state = @up}
// CHECK-SAME: %[[DOWN:.*]]: tensor<4x5x8xf32> {dist.sharding = #dist.sharding<[{"ep"}, {}, {}]>, nn.state = @down}
// CHECK: %[[NUMBERS:.*]] = nn.reshape %{{.*}} : tensor<2x12xi32> -> tensor<24xi32>
// CHECK: dist.constrain %[[X]] to <[{}, {}]>
// CHECK: %[[TOKENS:.*]] = nn.reshape %{{.*}} : tensor<2x6x8xf32> -> tensor<12x8xf32>
// CHECK: nn.broadcast %[[TOKENS]] dims = [0, 2] : tensor<12x8xf32> -> tensor<12x2x8xf32>
// CHECK: %[[H:.*]] = nn.expert_matmul %{{.*}}, %[[UP]] experts = %[[NUMBERS]] parts = 2 : (tensor<24x8xf32>, tensor<4x8x5xf32>, tensor<24xi32>) -> tensor<24x5xf32>
// CHECK-NOT: nn.reduce
// CHECK: %[[A:.*]] = nn.silu %[[H]] : tensor<24x5xf32>
// CHECK: nn.expert_matmul %[[A]], %[[DOWN]] experts = %[[NUMBERS]] parts = 2 : {{.*}} -> tensor<24x8xf32>
// CHECK-NOT: nn.reduce sum %{{.*}} dims = [0]
// CHECK: nn.reduce sum %{{.*}} dims = [1] : tensor<12x2x8xf32> -> tensor<12x8xf32>
// CHECK: %[[Y:.*]] = nn.reduce sum %{{.*}} dims = [0] : tensor<2x6x8xf32> -> tensor<6x8xf32>
// CHECK: nn.add %[[X]], %[[Y]] : tensor<6x8xf32>
dist.mesh @mesh <[shard "fsdp"=2, expert "ep"=2]>
nn.state @up role = param type = tensor<4x8x5xf32>
nn.state @down role = param type = tensor<4x5x8xf32>
func.func @block(%x: tensor<6x8xf32>, %experts: tensor<12xi32>, %scores: tensor<6x2xf32>, %up: tensor<4x8x5xf32> {nn.state = @up},
                 %down: tensor<4x5x8xf32> {nn.state = @down}) -> tensor<6x8xf32> {
  %0 = nn.broadcast %x dims = [0, 2] : tensor<6x8xf32> -> tensor<6x2x8xf32>
  %1 = nn.reshape %0 : tensor<6x2x8xf32> -> tensor<12x8xf32>
  %2 = nn.expert_matmul %1, %up experts = %experts : (tensor<12x8xf32>, tensor<4x8x5xf32>, tensor<12xi32>) -> tensor<12x5xf32>
  %3 = nn.silu %2 : tensor<12x5xf32>
  %4 = nn.expert_matmul %3, %down experts = %experts : (tensor<12x5xf32>, tensor<4x5x8xf32>, tensor<12xi32>) -> tensor<12x8xf32>
  %5 = nn.reshape %4 : tensor<12x8xf32> -> tensor<6x2x8xf32>
  %6 = nn.broadcast %scores dims = [0, 1] : tensor<6x2xf32> -> tensor<6x2x8xf32>
  %7 = nn.mul %5, %6 : tensor<6x2x8xf32>
  %8 = nn.reduce sum %7 dims = [1] : tensor<6x2x8xf32> -> tensor<6x8xf32>
  %9 = nn.add %x, %8 : tensor<6x8xf32>
  return %9 : tensor<6x8xf32>
}

// -----

// What is not linear in the result is no term of a sum: the rows of other parts are masked.
// CHECK-LABEL: func.func @nonlinear
// CHECK: %[[Y:.*]] = nn.expert_matmul
// CHECK: %[[Z:.*]] = nn.exp %[[Y]] : tensor<20x6xf32>
// CHECK: %[[TERMS:.*]] = nn.select %{{.*}}, %[[Z]], %{{.*}} : tensor<20x6xi1>, tensor<20x6xf32>
// CHECK: nn.reshape %[[TERMS]] : tensor<20x6xf32> -> tensor<2x10x6xf32>
// CHECK: nn.reduce sum
dist.mesh @mesh <[expert "ep"=2]>
nn.state @w role = param type = tensor<4x8x6xf32>
func.func @nonlinear(%x: tensor<10x8xf32>, %experts: tensor<10xi32>, %w: tensor<4x8x6xf32> {nn.state = @w}) -> tensor<10x6xf32> {
  %0 = nn.expert_matmul %x, %w experts = %experts : (tensor<10x8xf32>, tensor<4x8x6xf32>, tensor<10xi32>) -> tensor<10x6xf32>
  %1 = nn.exp %0 : tensor<10x6xf32>
  return %1 : tensor<10x6xf32>
}

// -----

// The rows of a second choice of experts are others: a value is summed in between.
// CHECK-LABEL: func.func @second
// CHECK: %[[FIRST:.*]] = nn.expert_matmul {{.*}} parts = 2 : (tensor<20x8xf32>
// CHECK: %[[SUM:.*]] = nn.reduce sum %{{.*}} dims = [0] : tensor<2x10x8xf32> -> tensor<10x8xf32>
// CHECK: dist.constrain %[[SUM]] to <[{}, {}]> : tensor<10x8xf32>
// CHECK: nn.expert_matmul
dist.mesh @mesh <[expert "ep"=2]>
nn.state @w role = param type = tensor<4x8x8xf32>
func.func @second(%x: tensor<10x8xf32>, %a: tensor<10xi32>, %b: tensor<10xi32>, %w: tensor<4x8x8xf32> {nn.state = @w}) -> tensor<10x8xf32> {
  %0 = nn.expert_matmul %x, %w experts = %a : (tensor<10x8xf32>, tensor<4x8x8xf32>, tensor<10xi32>) -> tensor<10x8xf32>
  %1 = nn.expert_matmul %0, %w experts = %b : (tensor<10x8xf32>, tensor<4x8x8xf32>, tensor<10xi32>) -> tensor<10x8xf32>
  return %1 : tensor<10x8xf32>
}

// -----

// Twice as many experts are other parts: what has the rows of one is not taken for the other.
// CHECK-LABEL: func.func @counts
// CHECK: nn.expert_matmul {{.*}} parts = 2 : (tensor<20x8xf32>, tensor<4x8x8xf32>
// CHECK: %[[SUM:.*]] = nn.reduce sum %{{.*}} dims = [0] : tensor<2x10x8xf32> -> tensor<10x8xf32>
// CHECK: dist.constrain %[[SUM]]
// CHECK: nn.expert_matmul {{.*}} parts = 2 : (tensor<20x8xf32>, tensor<8x8x8xf32>
dist.mesh @mesh <[expert "ep"=2]>
nn.state @w role = param type = tensor<4x8x8xf32>
nn.state @v role = param type = tensor<8x8x8xf32>
func.func @counts(%x: tensor<10x8xf32>, %a: tensor<10xi32>, %w: tensor<4x8x8xf32> {nn.state = @w}, %v: tensor<8x8x8xf32> {nn.state = @v}) -> tensor<10x8xf32> {
  %0 = nn.expert_matmul %x, %w experts = %a : (tensor<10x8xf32>, tensor<4x8x8xf32>, tensor<10xi32>) -> tensor<10x8xf32>
  %1 = nn.expert_matmul %0, %v experts = %a : (tensor<10x8xf32>, tensor<8x8x8xf32>, tensor<10xi32>) -> tensor<10x8xf32>
  return %1 : tensor<10x8xf32>
}

// -----

// A dimension of rows and columns is not one of rows. Its terms are masked before.
// CHECK-LABEL: func.func @joined
// CHECK: nn.exp
// CHECK: nn.select
// CHECK: nn.reshape %{{.*}} : tensor<20x6xf32> -> tensor<120xf32>
// CHECK: nn.add %{{.*}} : tensor<60xf32>
dist.mesh @mesh <[expert "ep"=2]>
nn.state @w role = param type = tensor<4x8x6xf32>
func.func @joined(%x: tensor<10x8xf32>, %a: tensor<10xi32>, %y: tensor<60xf32>, %w: tensor<4x8x6xf32> {nn.state = @w}) -> tensor<60xf32> {
  %0 = nn.expert_matmul %x, %w experts = %a : (tensor<10x8xf32>, tensor<4x8x6xf32>, tensor<10xi32>) -> tensor<10x6xf32>
  %1 = nn.exp %0 : tensor<10x6xf32>
  %2 = nn.reshape %1 : tensor<10x6xf32> -> tensor<60xf32>
  %3 = nn.add %2, %y : tensor<60xf32>
  return %3 : tensor<60xf32>
}

// -----

// Experts along another dimension of the parameter.
// CHECK-LABEL: func.func @turned
// CHECK-SAME: tensor<8x4x8xf32> {dist.sharding = #dist.sharding<[{}, {"ep"}, {}]>, nn.state = @w}
dist.mesh @mesh <[expert "ep"=2]>
nn.state @w role = param type = tensor<8x4x8xf32>
func.func @turned(%x: tensor<10x8xf32>, %a: tensor<10xi32>, %w: tensor<8x4x8xf32> {nn.state = @w}) -> tensor<10x8xf32> {
  %0 = nn.transpose %w perm = [1, 0, 2] : tensor<8x4x8xf32> -> tensor<4x8x8xf32>
  %1 = nn.expert_matmul %x, %0 experts = %a : (tensor<10x8xf32>, tensor<4x8x8xf32>, tensor<10xi32>) -> tensor<10x8xf32>
  return %1 : tensor<10x8xf32>
}

// -----

// An axis of one rank splits nothing.
// CHECK-LABEL: func.func @single
// CHECK-NOT: parts
dist.mesh @mesh <[expert "ep"=1]>
nn.state @w role = param type = tensor<4x8x8xf32>
func.func @single(%x: tensor<10x8xf32>, %a: tensor<10xi32>, %w: tensor<4x8x8xf32> {nn.state = @w}) -> tensor<10x8xf32> {
  %0 = nn.expert_matmul %x, %w experts = %a : (tensor<10x8xf32>, tensor<4x8x8xf32>, tensor<10xi32>) -> tensor<10x8xf32>
  return %0 : tensor<10x8xf32>
}

// -----

dist.mesh @mesh <[expert "ep"=4]>
nn.state @w role = param type = tensor<6x8x8xf32>
func.func @indivisible(%x: tensor<10x8xf32>, %a: tensor<10xi32>, %w: tensor<6x8x8xf32> {nn.state = @w}) -> tensor<10x8xf32> {
  // expected-error@+1 {{has 6 experts, which the 4 ranks of axis 'ep' do not divide: use a number of ranks that divides 6}}
  %0 = nn.expert_matmul %x, %w experts = %a : (tensor<10x8xf32>, tensor<6x8x8xf32>, tensor<10xi32>) -> tensor<10x8xf32>
  return %0 : tensor<10x8xf32>
}

// -----

// expected-error@+1 {{axis 'ep' splits experts, and no matmul of experts was found: use its ranks as fsdp}}
module {
  dist.mesh @mesh <[expert "ep"=4]>
  func.func @dense(%x: tensor<10x8xf32>) -> tensor<10x8xf32> {
    return %x : tensor<10x8xf32>
  }
}

// -----

dist.mesh @mesh <[expert "ep"=2]>
nn.state @w role = param type = tensor<4x8x8xf32>
func.func @computed(%x: tensor<10x8xf32>, %a: tensor<10xi32>, %w: tensor<4x8x8xf32> {nn.state = @w}) -> tensor<10x8xf32> {
  %0 = nn.softmax %w : tensor<4x8x8xf32>
  %1 = nn.transpose %0 perm = [2, 1, 0] : tensor<4x8x8xf32> -> tensor<8x8x4xf32>
  // expected-error@+1 {{cannot be split by experts: its matrices are no parameters, or are computed from all experts; use the ranks as fsdp}}
  %2 = nn.expert_matmul %x, %1 experts = %a : (tensor<10x8xf32>, tensor<8x8x4xf32>, tensor<10xi32>) -> tensor<10x4xf32>
  %3 = nn.concat %2, %2 dim = 1 : (tensor<10x4xf32>, tensor<10x4xf32>) -> tensor<10x8xf32>
  return %3 : tensor<10x8xf32>
}
