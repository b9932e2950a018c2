// RUN: shale-opt %s --split-input-file --shale-divide-parameters | FileCheck %s

// The weight [in, out] and the bias of a matmul whose columns are cut into three.
// CHECK-DAG: nn.state @"qkv.w/0" role = param type = tensor<8x4xf32> {dist.tensor = #dist.tensor_split<column>, factors = #nn.update_factors<decay = 0.000000e+00>, nn.part = #nn.part<@qkv.w, dim = 1, begin = 0>, unit = "h.0"}
// CHECK-DAG: nn.state @"qkv.w/2" role = param type = tensor<8x6xf32> {{.*}}nn.part = #nn.part<@qkv.w, dim = 1, begin = 6>
// CHECK-DAG: nn.state @qkv.w role = divided type = tensor<8x12xf32> {{.*}}init = #nn.fill
// CHECK-DAG: nn.state @"qkv.b/1" role = param type = tensor<2xf32> {nn.part = #nn.part<@qkv.b, dim = 0, begin = 4>}
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:.*]]: tensor<8x8xf32>, %[[W0:.*]]: tensor<8x4xf32> {nn.state = @"qkv.w/0"}, %[[B0:.*]]: tensor<4xf32> {nn.state = @"qkv.b/0"}
// CHECK: %[[Y:.*]] = nn.matmul %[[X]], %[[W0]] {nn.scope = "h.0.qkv"} : (tensor<8x8xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
// CHECK: %[[B:.*]] = nn.broadcast %[[B0]] dims = [1] {nn.scope = "h.0.qkv"} : tensor<4xf32> -> tensor<8x4xf32>
// CHECK: %[[S:.*]] = nn.add %[[Y]], %[[B]] {nn.scope = "h.0.qkv"} : tensor<8x4xf32>
// CHECK: nn.reshape %[[S]] {{.*}}: tensor<8x4xf32> -> tensor<2x4x4xf32>
// CHECK-NOT: nn.slice
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @"qkv.w" role = param type = tensor<8x12xf32> {factors = #nn.update_factors<decay = 0.0>, dist.tensor = #dist.tensor_split<column>, init = #nn.fill<1.0 : f64>, unit = "h.0"}
nn.state @"qkv.b" role = param type = tensor<12xf32>
func.func @forward(%x: tensor<8x8xf32>, %w: tensor<8x12xf32> {nn.state = @"qkv.w"}, %b: tensor<12xf32> {nn.state = @"qkv.b"}) -> (tensor<2x4x4xf32>, tensor<2x4x2xf32>, tensor<2x4x6xf32>) {
  %0 = nn.matmul %x, %w {nn.scope = "h.0.qkv"} : (tensor<8x8xf32>, tensor<8x12xf32>) -> tensor<8x12xf32>
  %1 = nn.broadcast %b dims = [1] {nn.scope = "h.0.qkv"} : tensor<12xf32> -> tensor<8x12xf32>
  %2 = nn.add %0, %1 {nn.scope = "h.0.qkv"} : tensor<8x12xf32>
  %3 = nn.reshape %2 {nn.scope = "h.0.qkv"} : tensor<8x12xf32> -> tensor<2x4x12xf32>
  %q = nn.slice %3 starts = [0, 0, 0] limits = [2, 4, 4] strides = [1, 1, 1] : tensor<2x4x12xf32> -> tensor<2x4x4xf32>
  %v = nn.slice %3 starts = [0, 0, 6] limits = [2, 4, 12] strides = [1, 1, 1] : tensor<2x4x12xf32> -> tensor<2x4x6xf32>
  %k = nn.slice %3 starts = [0, 0, 4] limits = [2, 4, 6] strides = [1, 1, 1] : tensor<2x4x12xf32> -> tensor<2x4x2xf32>
  return %q, %k, %v : tensor<2x4x4xf32>, tensor<2x4x2xf32>, tensor<2x4x6xf32>
}

// -----

// The weight [out, in]; the cut is along the first of the dimensions that the columns become, after a transpose.
// CHECK-DAG: nn.part = #nn.part<@w, dim = 0, begin = 8>
// CHECK-LABEL: func.func @forward
// CHECK: nn.matmul {{.*}} transpose_rhs : (tensor<6x8xf32>, tensor<8x8xf32>) -> tensor<6x8xf32>
// CHECK: nn.reshape {{.*}} : tensor<6x8xf32> -> tensor<2x3x1x2x4xf32>
// CHECK: nn.transpose {{.*}} perm = [2, 0, 3, 1, 4] : tensor<2x3x1x2x4xf32> -> tensor<1x2x2x3x4xf32>
// CHECK: nn.matmul {{.*}} transpose_rhs
// CHECK-NOT: nn.slice
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @w role = param type = tensor<16x8xf32>
func.func @forward(%x: tensor<6x8xf32>, %w: tensor<16x8xf32> {nn.state = @w}) -> (tensor<1x2x2x3x4xf32>, tensor<1x2x2x3x4xf32>) {
  %0 = nn.matmul %x, %w transpose_rhs : (tensor<6x8xf32>, tensor<16x8xf32>) -> tensor<6x16xf32>
  %1 = nn.reshape %0 : tensor<6x16xf32> -> tensor<2x3x2x2x4xf32>
  %2 = nn.transpose %1 perm = [2, 0, 3, 1, 4] : tensor<2x3x2x2x4xf32> -> tensor<2x2x2x3x4xf32>
  %q = nn.slice %2 starts = [0, 0, 0, 0, 0] limits = [1, 2, 2, 3, 4] strides = [1, 1, 1, 1, 1] : tensor<2x2x2x3x4xf32> -> tensor<1x2x2x3x4xf32>
  %k = nn.slice %2 starts = [1, 0, 0, 0, 0] limits = [2, 2, 2, 3, 4] strides = [1, 1, 1, 1, 1] : tensor<2x2x2x3x4xf32> -> tensor<1x2x2x3x4xf32>
  return %q, %k : tensor<1x2x2x3x4xf32>, tensor<1x2x2x3x4xf32>
}

// -----

// Left alone: without tensor ranks; columns left out or taken twice; a part that two ranks do not divide; another reader of the
// matmul, of the weight; a second name; a cut that is not of the columns, or has a stride; a nonlinear op in between.
// CHECK-LABEL: func.func @one_rank
// CHECK: nn.slice
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=1]>
nn.state @w role = param type = tensor<8x8xf32>
func.func @one_rank(%x: tensor<4x8xf32>, %w: tensor<8x8xf32> {nn.state = @w}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %q = nn.slice %0 starts = [0, 0] limits = [4, 4] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %k = nn.slice %0 starts = [0, 4] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  return %q, %k : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// CHECK-LABEL: func.func @left_alone
// CHECK-NOT: nn.part
// CHECK-COUNT-16: nn.slice
// CHECK-NOT: nn.slice
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @gap role = param type = tensor<8x8xf32>
nn.state @twice role = param type = tensor<8x8xf32>
nn.state @odd role = param type = tensor<8x8xf32>
nn.state @read role = param type = tensor<8x8xf32>
nn.state @used role = param type = tensor<8x8xf32>
nn.state @tied role = param type = tensor<8x8xf32> {names = ["other"]}
nn.state @rows role = param type = tensor<8x8xf32>
nn.state @tanh role = param type = tensor<8x8xf32>
func.func @left_alone(%x: tensor<4x8xf32>, %gap: tensor<8x8xf32> {nn.state = @gap}, %twice: tensor<8x8xf32> {nn.state = @twice},
                %odd: tensor<8x8xf32> {nn.state = @odd}, %read: tensor<8x8xf32> {nn.state = @read}, %used: tensor<8x8xf32> {nn.state = @used},
                %tied: tensor<8x8xf32> {nn.state = @tied}, %rows: tensor<8x8xf32> {nn.state = @rows}, %tanh: tensor<8x8xf32> {nn.state = @tanh})
    -> (tensor<4x8xf32>, tensor<8x8xf32>) {
  %0 = nn.matmul %x, %gap : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %00 = nn.slice %0 starts = [0, 0] limits = [4, 2] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x2xf32>
  %01 = nn.slice %0 starts = [0, 4] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %1 = nn.matmul %x, %twice : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %10 = nn.slice %1 starts = [0, 0] limits = [4, 6] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x6xf32>
  %11 = nn.slice %1 starts = [0, 4] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %2 = nn.matmul %x, %odd : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %20 = nn.slice %2 starts = [0, 0] limits = [4, 5] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x5xf32>
  %21 = nn.slice %2 starts = [0, 5] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x3xf32>
  %3 = nn.matmul %x, %read : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %30 = nn.slice %3 starts = [0, 0] limits = [4, 4] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %31 = nn.slice %3 starts = [0, 4] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %4 = nn.matmul %x, %used : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %40 = nn.slice %4 starts = [0, 0] limits = [4, 4] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %41 = nn.slice %4 starts = [0, 4] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %5 = nn.matmul %x, %tied : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %50 = nn.slice %5 starts = [0, 0] limits = [4, 4] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %51 = nn.slice %5 starts = [0, 4] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %6 = nn.matmul %x, %rows : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %60 = nn.slice %6 starts = [0, 0] limits = [2, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<2x8xf32>
  %61 = nn.slice %6 starts = [0, 0] limits = [4, 8] strides = [1, 2] : tensor<4x8xf32> -> tensor<4x4xf32>
  %7 = nn.matmul %x, %tanh : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %8 = nn.tanh %7 : tensor<4x8xf32>
  %70 = nn.slice %8 starts = [0, 0] limits = [4, 4] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %71 = nn.slice %8 starts = [0, 4] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  return %3, %used : tensor<4x8xf32>, tensor<8x8xf32>
}

// -----

// Gradients that the file computes are divided as the matmul is: that of the input is a sum, those of the parameters are results.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %[[X:.*]]: tensor<6x4xf32>, %[[GQ:.*]]: tensor<2x3x4xf32>, %[[GK:.*]]: tensor<2x3x2xf32>, %[[W0:.*]]: tensor<4x4xf32> {nn.state = @"w/0"}, %[[B0:.*]]: tensor<4xf32> {nn.state = @"b/0"}, %[[W1:.*]]: tensor<2x4xf32>
// CHECK-SAME: -> (tensor<2x3x4xf32>, tensor<2x3x2xf32>, tensor<6x4xf32>, tensor<4x4xf32> {nn.gradient_of = @"w/0"}, tensor<4xf32> {nn.gradient_of = @"b/0"}, tensor<2x4xf32> {nn.gradient_of = @"w/1"}, tensor<2xf32> {nn.gradient_of = @"b/1"})
// CHECK-NOT: nn.concat
// CHECK: %[[Q:.*]] = nn.reshape %[[GQ]] {nn.scope = "h"} : tensor<2x3x4xf32> -> tensor<6x4xf32>
// CHECK: %[[K:.*]] = nn.reshape %[[GK]] {nn.scope = "h"} : tensor<2x3x2xf32> -> tensor<6x2xf32>
// CHECK: %[[DX0:.*]] = nn.matmul %[[Q]], %[[W0]] {nn.scope = "h"} : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
// CHECK: %[[DX1:.*]] = nn.matmul %[[K]], %[[W1]] {nn.scope = "h"}
// CHECK: %[[DX:.*]] = nn.add %[[DX0]], %[[DX1]] {nn.scope = "h"}
// CHECK: %[[DW0:.*]] = nn.matmul %[[Q]], %[[X]] transpose_lhs : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[DW1:.*]] = nn.matmul %[[K]], %[[X]] transpose_lhs : (tensor<6x2xf32>, tensor<6x4xf32>) -> tensor<2x4xf32>
// CHECK: %[[DB0:.*]] = nn.reduce sum %[[Q]] dims = [0] : tensor<6x4xf32> -> tensor<4xf32>
// CHECK: %[[DB1:.*]] = nn.reduce sum %[[K]] dims = [0]
// CHECK: return {{.*}}, {{.*}}, %[[DX]], %[[DW0]], %[[DB0]], %[[DW1]], %[[DB1]]
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @w role = param type = tensor<6x4xf32>
nn.state @b role = param type = tensor<6xf32>
func.func @forward(%x: tensor<6x4xf32>, %gq: tensor<2x3x4xf32>, %gk: tensor<2x3x2xf32>, %w: tensor<6x4xf32> {nn.state = @w}, %b: tensor<6xf32> {nn.state = @b})
    -> (tensor<2x3x4xf32>, tensor<2x3x2xf32>, tensor<6x4xf32>, tensor<6x4xf32> {nn.gradient_of = @w, nn.name = "grad.w"}, tensor<6xf32> {nn.gradient_of = @b}) {
  %0 = nn.matmul %x, %w transpose_rhs {nn.scope = "h"} : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x6xf32>
  %1 = nn.broadcast %b dims = [1] : tensor<6xf32> -> tensor<6x6xf32>
  %2 = nn.add %0, %1 : tensor<6x6xf32>
  %3 = nn.reshape %2 : tensor<6x6xf32> -> tensor<2x3x6xf32>
  %q = nn.slice %3 starts = [0, 0, 0] limits = [2, 3, 4] strides = [1, 1, 1] : tensor<2x3x6xf32> -> tensor<2x3x4xf32>
  %k = nn.slice %3 starts = [0, 0, 4] limits = [2, 3, 6] strides = [1, 1, 1] : tensor<2x3x6xf32> -> tensor<2x3x2xf32>
  %4 = nn.concat %gq, %gk dim = 2 : (tensor<2x3x4xf32>, tensor<2x3x2xf32>) -> tensor<2x3x6xf32>
  %5 = nn.reshape %4 {nn.scope = "h"} : tensor<2x3x6xf32> -> tensor<6x6xf32>
  %dx = nn.matmul %5, %w {nn.scope = "h"} : (tensor<6x6xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %dw = nn.matmul %5, %x transpose_lhs : (tensor<6x6xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %db = nn.reduce sum %5 dims = [0] : tensor<6x6xf32> -> tensor<6xf32>
  return %q, %k, %dx, %dw, %db : tensor<2x3x4xf32>, tensor<2x3x2xf32>, tensor<6x4xf32>, tensor<6x4xf32>, tensor<6xf32>
}

// -----

// Gradients of other parts than those of the matmul stay whole, and so do the parameters: the file may compute them of anything.
// CHECK: nn.state @w role = param type = tensor<4x4xf32>
// CHECK: nn.concat
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @w role = param type = tensor<4x4xf32>
func.func @forward(%x: tensor<6x4xf32>, %g: tensor<6x1xf32>, %h: tensor<6x3xf32>, %w: tensor<4x4xf32> {nn.state = @w})
    -> (tensor<6x2xf32>, tensor<6x2xf32>, tensor<4x4xf32> {nn.gradient_of = @w}) {
  %0 = nn.matmul %x, %w : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %q = nn.slice %0 starts = [0, 0] limits = [6, 2] strides = [1, 1] : tensor<6x4xf32> -> tensor<6x2xf32>
  %k = nn.slice %0 starts = [0, 2] limits = [6, 4] strides = [1, 1] : tensor<6x4xf32> -> tensor<6x2xf32>
  %1 = nn.concat %g, %h dim = 1 : (tensor<6x1xf32>, tensor<6x3xf32>) -> tensor<6x4xf32>
  %dw = nn.matmul %x, %1 transpose_lhs : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
  return %q, %k, %dw : tensor<6x2xf32>, tensor<6x2xf32>, tensor<4x4xf32>
}

// -----

// The matrices of experts and their biases, which are looked up by the experts of the rows.
// CHECK-DAG: nn.state @"up/0" role = param type = tensor<4x6x8xf32> {{.*}}nn.part = #nn.part<@up, dim = 1, begin = 0>
// CHECK-DAG: nn.state @"up/1" role = param type = tensor<4x6x8xf32> {{.*}}nn.part = #nn.part<@up, dim = 1, begin = 6>
// CHECK-DAG: nn.state @"bias/1" role = param type = tensor<4x6xf32> {nn.part = #nn.part<@bias, dim = 1, begin = 6>}
// CHECK-LABEL: func.func @experts
// CHECK: %[[GATE:.*]] = nn.expert_matmul %arg0, %arg2 transpose_rhs experts = %arg1 : (tensor<10x8xf32>, tensor<4x6x8xf32>, tensor<10xi64>) -> tensor<10x6xf32>
// CHECK: %[[ROWS:.*]] = nn.embedding %arg3, %arg1 : (tensor<4x6xf32>, tensor<10xi64>) -> tensor<10x6xf32>
// CHECK: nn.add %[[GATE]], %[[ROWS]] : tensor<10x6xf32>
// CHECK: nn.expert_matmul %arg0, %arg4 transpose_rhs
// CHECK-NOT: nn.slice
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @up role = param type = tensor<4x12x8xf32>
nn.state @bias role = param type = tensor<4x12xf32>
func.func @experts(%x: tensor<10x8xf32>, %w: tensor<4x12x8xf32> {nn.state = @up}, %b: tensor<4x12xf32> {nn.state = @bias}, %experts: tensor<10xi64>) -> (tensor<10x6xf32>, tensor<10x6xf32>) {
  %0 = nn.expert_matmul %x, %w transpose_rhs experts = %experts : (tensor<10x8xf32>, tensor<4x12x8xf32>, tensor<10xi64>) -> tensor<10x12xf32>
  %1 = nn.embedding %b, %experts : (tensor<4x12xf32>, tensor<10xi64>) -> tensor<10x12xf32>
  %2 = nn.add %0, %1 : tensor<10x12xf32>
  %gate = nn.slice %2 starts = [0, 0] limits = [10, 6] strides = [1, 1] : tensor<10x12xf32> -> tensor<10x6xf32>
  %up = nn.slice %2 starts = [0, 6] limits = [10, 12] strides = [1, 1] : tensor<10x12xf32> -> tensor<10x6xf32>
  return %gate, %up : tensor<10x6xf32>, tensor<10x6xf32>
}

// -----

// Experts may be cut, but not the bias of their rows by its other dimension.
// CHECK-LABEL: func.func @rows
// CHECK: nn.expert_matmul {{.*}} -> tensor<10x12xf32>
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @up role = param type = tensor<4x8x12xf32>
nn.state @bias role = param type = tensor<10xf32>
func.func @rows(%x: tensor<10x8xf32>, %w: tensor<4x8x12xf32> {nn.state = @up}, %b: tensor<10xf32> {nn.state = @bias}, %experts: tensor<10xi64>) -> (tensor<10x6xf32>, tensor<10x6xf32>) {
  %0 = nn.expert_matmul %x, %w experts = %experts : (tensor<10x8xf32>, tensor<4x8x12xf32>, tensor<10xi64>) -> tensor<10x12xf32>
  %1 = nn.broadcast %b dims = [0] : tensor<10xf32> -> tensor<10x12xf32>
  %2 = nn.add %0, %1 : tensor<10x12xf32>
  %gate = nn.slice %2 starts = [0, 0] limits = [10, 6] strides = [1, 1] : tensor<10x12xf32> -> tensor<10x6xf32>
  %up = nn.slice %2 starts = [0, 6] limits = [10, 12] strides = [1, 1] : tensor<10x12xf32> -> tensor<10x6xf32>
  return %gate, %up : tensor<10x6xf32>, tensor<10x6xf32>
}

// -----

// A value per column that is computed from all columns of a parameter, one that is a part of it, and another matmul.
// CHECK-LABEL: func.func @sums
// CHECK: nn.matmul %arg0, %arg1 : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
// CHECK-LABEL: func.func @part
// CHECK: nn.matmul %arg0, %arg1 : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
// CHECK-LABEL: func.func @gates
// CHECK: nn.matmul %arg0, %arg1 : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @w role = param type = tensor<8x16xf32>
nn.state @v role = param type = tensor<4x16xf32>
func.func @sums(%x: tensor<4x8xf32>, %w: tensor<8x16xf32> {nn.state = @w}, %v: tensor<4x16xf32> {nn.state = @v}) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = nn.cumsum %v dim = 1 : tensor<4x16xf32>
  %2 = nn.add %0, %1 : tensor<4x16xf32>
  %a = nn.slice %2 starts = [0, 0] limits = [4, 8] strides = [1, 1] : tensor<4x16xf32> -> tensor<4x8xf32>
  %b = nn.slice %2 starts = [0, 8] limits = [4, 16] strides = [1, 1] : tensor<4x16xf32> -> tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

dist.mesh @mesh <[tensor "tp"=2]>
nn.state @w role = param type = tensor<8x16xf32>
nn.state @v role = param type = tensor<6x16xf32>
func.func @part(%x: tensor<4x8xf32>, %w: tensor<8x16xf32> {nn.state = @w}, %v: tensor<6x16xf32> {nn.state = @v}) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = nn.slice %v starts = [0, 0] limits = [4, 16] strides = [1, 1] : tensor<6x16xf32> -> tensor<4x16xf32>
  %2 = nn.add %0, %1 : tensor<4x16xf32>
  %a = nn.slice %2 starts = [0, 0] limits = [4, 8] strides = [1, 1] : tensor<4x16xf32> -> tensor<4x8xf32>
  %b = nn.slice %2 starts = [0, 8] limits = [4, 16] strides = [1, 1] : tensor<4x16xf32> -> tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

dist.mesh @mesh <[tensor "tp"=2]>
nn.state @w role = param type = tensor<8x16xf32>
nn.state @v role = param type = tensor<8x16xf32>
func.func @gates(%x: tensor<4x8xf32>, %w: tensor<8x16xf32> {nn.state = @w}, %v: tensor<8x16xf32> {nn.state = @v}) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %1 = nn.matmul %x, %v : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %2 = nn.add %0, %1 : tensor<4x16xf32>
  %a = nn.slice %2 starts = [0, 0] limits = [4, 8] strides = [1, 1] : tensor<4x16xf32> -> tensor<4x8xf32>
  %b = nn.slice %2 starts = [0, 8] limits = [4, 16] strides = [1, 1] : tensor<4x16xf32> -> tensor<4x8xf32>
  return %a, %b : tensor<4x8xf32>, tensor<4x8xf32>
}
