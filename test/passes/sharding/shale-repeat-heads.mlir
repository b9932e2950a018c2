// RUN: shale-opt %s --split-input-file --shale-repeat-heads | FileCheck %s
// RUN: shale-opt %s --split-input-file --shale-repeat-heads --remarks-filter=repeat-heads 2>&1 | FileCheck %s --check-prefix=SAID

// Three key heads for twelve query heads on four ranks: each is repeated four times, so that each rank has three query heads and
// their keys. A bias and a rotation are on the way from the weight.
// SAID: remark: {{.*}}3 key heads are repeated 4 times for 4 tensor ranks
// CHECK-DAG: nn.state @k role = param type = tensor<8x6xf32> {dist.plan = "whole on each rank: its 3 key heads are repeated 4 times for 4 tensor ranks", dist.tensor = #dist.tensor_split<whole>}
// CHECK-DAG: nn.state @v role = param {{.*}}dist.tensor = #dist.tensor_split<whole>
// CHECK-DAG: nn.state @q role = param type = tensor<8x24xf32>{{$}}
// CHECK-LABEL: func.func @grouped
// CHECK: dist.constrain %{{.*}} to <[{}, {}, {}, {}]> {nn.scope = "h.0"} : tensor<1x3x5x2xf32>
// CHECK: %[[EQ:.*]] = nn.compare eq {{.*}} {nn.scope = "h.0"} : tensor<1x3x4x3xi64> -> tensor<1x3x4x3xi1>
// CHECK: %[[ONE:.*]] = nn.select %[[EQ]], {{.*}} : tensor<1x3x4x3xi1>, tensor<1x3x4x3xf32>
// CHECK: %[[S:.*]] = nn.reshape %[[ONE]] {{.*}} : tensor<1x3x4x3xf32> -> tensor<1x12x3xf32>
// CHECK: %[[K:.*]] = nn.matmul %[[S]], %{{.*}} {nn.scope = "h.0"} : (tensor<1x12x3xf32>, tensor<1x3x10xf32>) -> tensor<1x12x10xf32>
// CHECK: %[[KR:.*]] = nn.reshape %[[K]] {nn.scope = "h.0"} : tensor<1x12x10xf32> -> tensor<1x12x5x2xf32>
// CHECK: %[[V:.*]] = nn.matmul
// CHECK: %[[VR:.*]] = nn.reshape %[[V]]
// CHECK: nn.attention %{{.*}}, %[[KR]], %[[VR]]
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=4]>
nn.state @q role = param type = tensor<8x24xf32>
nn.state @k role = param type = tensor<8x6xf32>
nn.state @kb role = param type = tensor<6xf32>
nn.state @v role = param type = tensor<6x8xf32>
func.func @grouped(%x: tensor<5x8xf32>, %wq: tensor<8x24xf32> {nn.state = @q}, %wk: tensor<8x6xf32> {nn.state = @k}, %bk: tensor<6xf32> {nn.state = @kb},
    %wv: tensor<6x8xf32> {nn.state = @v}) -> tensor<1x12x5x2xf32> {
  %q0 = nn.matmul %x, %wq : (tensor<5x8xf32>, tensor<8x24xf32>) -> tensor<5x24xf32>
  %q1 = nn.reshape %q0 : tensor<5x24xf32> -> tensor<1x5x12x2xf32>
  %q2 = nn.transpose %q1 perm = [0, 2, 1, 3] : tensor<1x5x12x2xf32> -> tensor<1x12x5x2xf32>
  %k0 = nn.matmul %x, %wk : (tensor<5x8xf32>, tensor<8x6xf32>) -> tensor<5x6xf32>
  %b = nn.broadcast %bk dims = [1] : tensor<6xf32> -> tensor<5x6xf32>
  %k1 = nn.add %k0, %b : tensor<5x6xf32>
  %k2 = nn.reshape %k1 : tensor<5x6xf32> -> tensor<1x5x3x2xf32>
  %k3 = nn.transpose %k2 perm = [0, 2, 1, 3] : tensor<1x5x3x2xf32> -> tensor<1x3x5x2xf32>
  %v0 = nn.matmul %x, %wv transpose_rhs : (tensor<5x8xf32>, tensor<6x8xf32>) -> tensor<5x6xf32>
  %v1 = nn.reshape %v0 : tensor<5x6xf32> -> tensor<1x5x3x2xf32>
  %v2 = nn.transpose %v1 perm = [0, 2, 1, 3] : tensor<1x5x3x2xf32> -> tensor<1x3x5x2xf32>
  %o, %lse = nn.attention %q2, %k3, %v2 causal scale = 1.0 {nn.scope = "h.0"} : tensor<1x12x5x2xf32>, tensor<1x3x5x2xf32>, tensor<1x3x5x2xf32> -> tensor<1x12x5x2xf32>, tensor<1x12x5xf32>
  return %o : tensor<1x12x5x2xf32>
}

// -----

// A single key head is not repeated; its parameter is whole.
// SAID: remark: {{.*}}key head serves all 4 tensor ranks
// CHECK: nn.state @kv role = param {{.*}}dist.plan = "whole on each rank: its key head serves all 4 tensor ranks", dist.tensor = #dist.tensor_split<whole>
// CHECK-LABEL: func.func @single
// CHECK-NOT: nn.select
// CHECK: nn.attention
dist.mesh @mesh <[tensor "tp"=4]>
nn.state @kv role = param type = tensor<8x8xf32>
func.func @single(%x: tensor<5x8xf32>, %w: tensor<8x8xf32> {nn.state = @kv}, %q: tensor<1x4x5x8xf32>) -> tensor<1x4x5x8xf32> {
  %0 = nn.matmul %x, %w : (tensor<5x8xf32>, tensor<8x8xf32>) -> tensor<5x8xf32>
  %1 = nn.reshape %0 : tensor<5x8xf32> -> tensor<1x1x5x8xf32>
  %o, %l = nn.attention %q, %1, %1 causal scale = 1.0 : tensor<1x4x5x8xf32>, tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32> -> tensor<1x4x5x8xf32>, tensor<1x4x5xf32>
  return %o : tensor<1x4x5x8xf32>
}

// -----

// Left alone: heads that divide; query heads that do not divide; keys without a parameter; one parameter for
// queries and keys; a parameter that the user splits.
// CHECK-NOT: tensor_split<whole>
// CHECK-LABEL: func.func @left_alone
// CHECK-COUNT-5: nn.attention
// CHECK-NOT: nn.select
dist.mesh @mesh <[tensor "tp"=4]>
nn.state @w role = param type = tensor<8x8xf32>
nn.state @typed role = param type = tensor<8x8xf32> {dist.tensor = #dist.tensor_split<column>}
func.func @left_alone(%x: tensor<5x8xf32>, %w: tensor<8x8xf32> {nn.state = @w}, %t: tensor<8x8xf32> {nn.state = @typed}, %q8: tensor<1x8x5x1xf32>, %q6: tensor<1x6x5x2xf32>,
    %q4: tensor<1x4x5x4xf32>, %k2: tensor<1x2x5x4xf32>) -> (tensor<1x8x5x1xf32>, tensor<1x6x5x2xf32>, tensor<1x4x5x4xf32>, tensor<1x4x5x4xf32>, tensor<1x4x5x4xf32>) {
  %0 = nn.matmul %x, %w : (tensor<5x8xf32>, tensor<8x8xf32>) -> tensor<5x8xf32>
  %many = nn.reshape %0 : tensor<5x8xf32> -> tensor<1x8x5x1xf32>
  %o0, %l0 = nn.attention %q8, %many, %many causal scale = 1.0 : tensor<1x8x5x1xf32>, tensor<1x8x5x1xf32>, tensor<1x8x5x1xf32> -> tensor<1x8x5x1xf32>, tensor<1x8x5xf32>
  %cut = nn.slice %0 starts = [0, 0] limits = [5, 6] strides = [1, 1] : tensor<5x8xf32> -> tensor<5x6xf32>
  %three = nn.reshape %cut : tensor<5x6xf32> -> tensor<1x3x5x2xf32>
  %o2, %l2 = nn.attention %q6, %three, %three causal scale = 1.0 : tensor<1x6x5x2xf32>, tensor<1x3x5x2xf32>, tensor<1x3x5x2xf32> -> tensor<1x6x5x2xf32>, tensor<1x6x5xf32>
  %o3, %l3 = nn.attention %q4, %k2, %k2 causal scale = 1.0 : tensor<1x4x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x4x5x4xf32>, tensor<1x4x5xf32>
  %two = nn.reshape %0 : tensor<5x8xf32> -> tensor<1x2x5x4xf32>
  %both = nn.concat %two, %two dim = 1 : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x4x5x4xf32>
  %o4, %l4 = nn.attention %both, %two, %two causal scale = 1.0 : tensor<1x4x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x4x5x4xf32>, tensor<1x4x5xf32>
  %5 = nn.matmul %x, %t : (tensor<5x8xf32>, tensor<8x8xf32>) -> tensor<5x8xf32>
  %user = nn.reshape %5 : tensor<5x8xf32> -> tensor<1x2x5x4xf32>
  %o5, %l5 = nn.attention %q4, %user, %user causal scale = 1.0 : tensor<1x4x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32> -> tensor<1x4x5x4xf32>, tensor<1x4x5xf32>
  return %o0, %o2, %o3, %o4, %o5 : tensor<1x8x5x1xf32>, tensor<1x6x5x2xf32>, tensor<1x4x5x4xf32>, tensor<1x4x5x4xf32>, tensor<1x4x5x4xf32>
}
