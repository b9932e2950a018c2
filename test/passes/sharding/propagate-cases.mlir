// RUN: shale-opt %s --shale-propagate --shale-verify-sharded | FileCheck %s

// One function per case, as in basic_propagation.mlir of Shardy (openxla/shardy). In each the arguments have the layouts that
// are given, and the layouts of all other values follow.

dist.mesh @mesh <[replica "replica"=2, shard "fsdp"=2, tensor "tp"=2, tensor "one"=1]>

//===- Elementwise ops and broadcasts -------------------------------------===//

// Forward: the result takes the split of the operand.
// CHECK-LABEL: func.func @forward(
func.func @forward(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) {
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %0 = nn.exp %x : tensor<4x8xf32>
  return
}

// Backward: a constant takes the split with which it is read.
// CHECK-LABEL: func.func @backward(
func.func @backward(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) {
  // CHECK: nn.constant {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %0 = nn.constant dense<2.0> : tensor<4x8xf32>
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %1 = nn.exp %0 : tensor<4x8xf32>
  // CHECK: nn.add {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %2 = nn.add %1, %x : tensor<4x8xf32>
  return
}

// Sideways: a split that one user wants reaches the other users.
// CHECK-LABEL: func.func @sideways(
func.func @sideways(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) {
  // CHECK: nn.constant {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %0 = nn.constant dense<2.0> : tensor<4x8xf32>
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %1 = nn.exp %0 : tensor<4x8xf32>
  // CHECK: nn.add {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %2 = nn.add %0, %x : tensor<4x8xf32>
  return
}

// Arguments are fixed: a split with which one is read does not reach it.
// CHECK-LABEL: func.func @arguments_are_fixed(
// CHECK-SAME: dist.sharding = #dist.sharding<[{}, {"tp"}]>
// CHECK-SAME: dist.sharding = #dist.sharding<[{}, {}]>
func.func @arguments_are_fixed(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
    %y: tensor<4x8xf32>) {
  // CHECK: nn.add {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %0 = nn.add %x, %y : tensor<4x8xf32>
  return
}

// Different dimensions by different axes: both splits.
// CHECK-LABEL: func.func @two_axes(
func.func @two_axes(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>},
    %y: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) {
  // CHECK: nn.add {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %0 = nn.add %x, %y : tensor<4x8xf32>
  return
}

// Two axes on one dimension, major to minor.
// CHECK-LABEL: func.func @two_axes_of_one_dimension(
func.func @two_axes_of_one_dimension(%x: tensor<8x3xf32> {dist.sharding = #dist.sharding<[{"fsdp", "tp"}, {}]>}) {
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{"fsdp", "tp"}, {}]>]
  %0 = nn.exp %x : tensor<8x3xf32>
  return
}

// Operands with the axes of a dimension in different orders: data axes come first.
// CHECK-LABEL: func.func @order_of_axes(
func.func @order_of_axes(%x: tensor<8x3xf32> {dist.sharding = #dist.sharding<[{"tp", "fsdp"}, {}]>},
    %y: tensor<8x3xf32> {dist.sharding = #dist.sharding<[{"fsdp", "tp"}, {}]>}) {
  // CHECK: nn.add {{.*}}[#dist.sharding<[{"fsdp", "tp"}, {}]>]
  %0 = nn.add %y, %x : tensor<8x3xf32>
  // CHECK: nn.add {{.*}}[#dist.sharding<[{"fsdp", "tp"}, {}]>]
  %1 = nn.add %x, %y : tensor<8x3xf32>
  return
}

// Conflict: the first operand decides which dimension an axis splits.
// CHECK-LABEL: func.func @conflict_of_dimensions(
func.func @conflict_of_dimensions(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
    %y: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}) {
  // CHECK: nn.add {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %0 = nn.add %x, %y : tensor<4x8xf32>
  // CHECK: nn.add {{.*}}[#dist.sharding<[{"tp"}, {}]>]
  %1 = nn.add %y, %x : tensor<4x8xf32>
  return
}

// Two axes for one dimension split it together, the data axis first, as far as its size permits.
// CHECK-LABEL: func.func @conflict_of_axes(
func.func @conflict_of_axes(%x: tensor<4x3xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>},
    %y: tensor<4x3xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>},
    %z: tensor<2x3xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}, %w: tensor<2x3xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>}) {
  // CHECK: nn.add {{.*}}[#dist.sharding<[{"fsdp", "tp"}, {}]>]
  %0 = nn.add %y, %x : tensor<4x3xf32>
  // CHECK: nn.add {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %1 = nn.add %z, %w : tensor<2x3xf32>
  return
}

// Axes of one rank and dimensions of size one split nothing.
// CHECK-LABEL: func.func @ones(
// CHECK-SAME: dist.sharding = #dist.sharding<[{}, {}]>
// CHECK-SAME: dist.sharding = #dist.sharding<[{"tp"}, {}]>
func.func @ones(%x: tensor<4x1xf32> {dist.sharding = #dist.sharding<[{"one"}, {}]>},
    %y: tensor<4x1xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}) {
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{}, {}]>]
  %0 = nn.exp %x : tensor<4x1xf32>
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{"tp"}, {}]>]
  %1 = nn.exp %y : tensor<4x1xf32>
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %2 = nn.reshape %1 : tensor<4x1xf32> -> tensor<1x4xf32>
  return
}

// A scalar is split by nothing.
// CHECK-LABEL: func.func @scalar(
func.func @scalar(%x: tensor<f32>, %y: tensor<4xf32> {dist.sharding = #dist.sharding<[{"tp"}]>}) {
  // CHECK: nn.exp {{.*}}[#dist.sharding<[]>]
  %0 = nn.exp %x : tensor<f32>
  // CHECK: nn.broadcast {{.*}}[#dist.sharding<[{"tp"}]>]
  %1 = nn.broadcast %0 dims = [] : tensor<f32> -> tensor<4xf32>
  // CHECK: nn.mul {{.*}}[#dist.sharding<[{"tp"}]>]
  %2 = nn.mul %1, %y : tensor<4xf32>
  return
}

// A broadcast along new dimensions is whole there until a user wants a part; the operand's
// dimensions keep their split.
// CHECK-LABEL: func.func @broadcast(
func.func @broadcast(%x: tensor<8xf32> {dist.sharding = #dist.sharding<[{"tp"}]>},
    %y: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>}) {
  // CHECK: nn.broadcast {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %0 = nn.broadcast %x dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  // CHECK: nn.broadcast {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %1 = nn.broadcast %x dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  // CHECK: nn.add {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %2 = nn.add %1, %y : tensor<4x8xf32>
  return
}

// A broadcast dimension of size one: the operand stays whole.
// CHECK-LABEL: func.func @broadcast_of_one(
func.func @broadcast_of_one(%x: tensor<1x8xf32>,
    %y: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>}) {
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{}, {}]>]
  %0 = nn.exp %x : tensor<1x8xf32>
  // CHECK: nn.broadcast {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %1 = nn.broadcast %0 dims = [0, 1] : tensor<1x8xf32> -> tensor<4x8xf32>
  // CHECK: nn.add {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %2 = nn.add %1, %y : tensor<4x8xf32>
  return
}

// A comparison and a select, whose operands have different types.
// CHECK-LABEL: func.func @select(
func.func @select(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {"tp"}]>}, %y: tensor<4x8xf32>) {
  // CHECK: nn.compare lt {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %0 = nn.compare lt %x, %y : tensor<4x8xf32> -> tensor<4x8xi1>
  // CHECK: nn.select {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %1 = nn.select %0, %y, %y : tensor<4x8xi1>, tensor<4x8xf32>
  return
}

//===- Matmuls ----------------------------------------------------===//

// Rows, columns and both.
// CHECK-LABEL: func.func @matmul(
func.func @matmul(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>},
    %w: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) {
  // CHECK: nn.matmul {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %0 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return
}

// One axis for rows and columns: the first operand decides.
// CHECK-LABEL: func.func @product_of_one_axis(
func.func @product_of_one_axis(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>},
    %w: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) {
  // CHECK: nn.matmul {{.*}}[#dist.sharding<[{"tp"}, {}]>]
  %0 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return
}

// The dimension of the sum is split in one operand only: the other one is sliced.
// CHECK-LABEL: func.func @matmul_split_depth(
func.func @matmul_split_depth(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
    %w: tensor<8x6xf32>) {
  // CHECK: nn.matmul {{.*}}[#dist.sharding<[{}, {}], partial = {"tp": sum}>]
  %0 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return
}

// Two axes on the dimension of the sum.
// CHECK-LABEL: func.func @matmul_split_twice(
func.func @matmul_split_twice(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"fsdp", "tp"}]>},
    %w: tensor<8x6xf32>) {
  // CHECK: nn.matmul {{.*}}[#dist.sharding<[{}, {}], partial = {"fsdp": sum, "tp": sum}>]
  %0 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  return
}

// Transposed operands.
// CHECK-LABEL: func.func @matmul_transposed(
func.func @matmul_transposed(%x: tensor<8x4xf32> {dist.sharding = #dist.sharding<[{"tp"}, {"fsdp"}]>},
    %w: tensor<6x8xf32>) {
  // CHECK: nn.matmul {{.*}}[#dist.sharding<[{"fsdp"}, {}], partial = {"tp": sum}>]
  %0 = nn.matmul %x, %w transpose_lhs transpose_rhs : (tensor<8x4xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
  return
}

// Backward through a matmul: columns reach the weight that is computed, not the other operand.
// CHECK-LABEL: func.func @matmul_backward(
func.func @matmul_backward(%x: tensor<4x8xf32>, %y: tensor<4x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) {
  // CHECK: nn.constant {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %0 = nn.constant dense<2.0> : tensor<8x6xf32>
  // CHECK: nn.matmul {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %1 = nn.matmul %x, %0 : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK: nn.mul {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %2 = nn.mul %1, %y : tensor<4x6xf32>
  return
}

//===- Partial sums -------------------------------------------------------===//

// Two partial sums are added before they are reduced. A partial sum and a whole value are not.
// CHECK-LABEL: func.func @partial_add(
func.func @partial_add(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
    %w: tensor<8x6xf32>,
    %b: tensor<4x6xf32>) {
  // CHECK: nn.matmul {{.*}}[#dist.sharding<[{}, {}], partial = {"tp": sum}>]
  %0 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK: nn.matmul {{.*}}[#dist.sharding<[{}, {}], partial = {"tp": sum}>]
  %1 = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  // CHECK: nn.add {{.*}}[#dist.sharding<[{}, {}], partial = {"tp": sum}>]
  %2 = nn.add %0, %1 : tensor<4x6xf32>
  // CHECK: nn.add {{.*}}[#dist.sharding<[{}, {}]>]
  %3 = nn.add %2, %b : tensor<4x6xf32>
  return
}

// A matmul with a whole value is linear, a matmul of two partial sums is not.
// CHECK-LABEL: func.func @partial_mul(
func.func @partial_mul(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"fsdp"}]>}) {
  // CHECK: nn.reduce sum {{.*}}[#dist.sharding<[{}], partial = {"fsdp": sum}>]
  %0 = nn.reduce sum %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  // CHECK: nn.neg {{.*}}[#dist.sharding<[{}], partial = {"fsdp": sum}>]
  %1 = nn.neg %0 : tensor<4xf32>
  // CHECK: nn.mul {{.*}}[#dist.sharding<[{}]>]
  %2 = nn.mul %0, %0 : tensor<4xf32>
  // CHECK: nn.constant {{.*}}[#dist.sharding<[{}]>]
  %3 = nn.constant dense<3.0> : tensor<4xf32>
  // CHECK: nn.mul {{.*}}[#dist.sharding<[{}], partial = {"fsdp": sum}>]
  %4 = nn.mul %0, %3 : tensor<4xf32>
  return
}

// On a tensor axis a value with two users is summed once for both; on a data axis each user may
// keep it partial.
// CHECK-LABEL: func.func @partial_of_two_users(
func.func @partial_of_two_users(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
    %y: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"fsdp"}]>}) {
  // CHECK: nn.reduce sum {{.*}}[#dist.sharding<[{}], partial = {"tp": sum}>]
  %0 = nn.reduce sum %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  // CHECK: nn.neg {{.*}}[#dist.sharding<[{}]>]
  %1 = nn.neg %0 : tensor<4xf32>
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{}]>]
  %2 = nn.exp %0 : tensor<4xf32>
  // CHECK: nn.reduce sum {{.*}}[#dist.sharding<[{}], partial = {"fsdp": sum}>]
  %3 = nn.reduce sum %y dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  // CHECK: nn.neg {{.*}}[#dist.sharding<[{}], partial = {"fsdp": sum}>]
  %4 = nn.neg %3 : tensor<4xf32>
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{}]>]
  %5 = nn.exp %3 : tensor<4xf32>
  return
}

// Partial over two axes, and split over a third.
// CHECK-LABEL: func.func @partial_over_two_axes(
func.func @partial_over_two_axes(%x: tensor<4x8x2xf32> {dist.sharding = #dist.sharding<[{"replica"}, {"fsdp", "tp"}, {}]>}) {
  // CHECK: nn.reduce sum {{.*}}[#dist.sharding<[{"replica"}, {}], partial = {"fsdp": sum, "tp": sum}>]
  %0 = nn.reduce sum %x dims = [1] : tensor<4x8x2xf32> -> tensor<4x2xf32>
  // CHECK: nn.neg {{.*}}[#dist.sharding<[{"replica"}, {}], partial = {"fsdp": sum, "tp": sum}>]
  %1 = nn.neg %0 : tensor<4x2xf32>
  return
}

// A sum of a partial sum over another dimension stays partial over both axes.
// CHECK-LABEL: func.func @partial_of_partial(
func.func @partial_of_partial(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {"tp"}]>}) {
  // CHECK: nn.reduce sum {{.*}}[#dist.sharding<[{"fsdp"}], partial = {"tp": sum}>]
  %0 = nn.reduce sum %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  // CHECK: nn.reduce sum {{.*}}[#dist.sharding<[], partial = {"fsdp": sum, "tp": sum}>]
  %1 = nn.reduce sum %0 dims = [0] : tensor<4xf32> -> tensor<f32>
  return
}

// A maximum over a split dimension is a partial maximum, which nothing keeps.
// CHECK-LABEL: func.func @partial_max(
func.func @partial_max(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) {
  // CHECK: nn.reduce max {{.*}}[#dist.sharding<[{}], partial = {"tp": max}>]
  %0 = nn.reduce max %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  // CHECK: nn.neg {{.*}}[#dist.sharding<[{}]>]
  %1 = nn.neg %0 : tensor<4xf32>
  return
}

// A reduced dimension of size one has no axis.
// CHECK-LABEL: func.func @reduce_one(
func.func @reduce_one(%x: tensor<4x1xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}) {
  // CHECK: nn.reduce sum {{.*}}[#dist.sharding<[{"tp"}]>]
  %0 = nn.reduce sum %x dims = [1] : tensor<4x1xf32> -> tensor<4xf32>
  return
}

// A cast rounds, so it needs the whole sum.
// CHECK-LABEL: func.func @partial_cast(
func.func @partial_cast(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"fsdp"}]>}) {
  // CHECK: nn.reduce sum {{.*}}[#dist.sharding<[{}], partial = {"fsdp": sum}>]
  %0 = nn.reduce sum %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  // CHECK: nn.cast {{.*}}[#dist.sharding<[{}]>]
  %1 = nn.cast %0 : tensor<4xf32> -> tensor<4xbf16>
  // CHECK: nn.cast {{.*}}[#dist.sharding<[{}]>]
  %2 = nn.cast %0 : tensor<4xf32> -> tensor<4xi64>
  return
}

//===- Data movement ------------------------------------------------------===//

// CHECK-LABEL: func.func @transpose(
func.func @transpose(%x: tensor<2x4x8xf32> {dist.sharding = #dist.sharding<[{}, {"fsdp"}, {"tp"}]>}) {
  // CHECK: nn.transpose {{.*}}[#dist.sharding<[{"tp"}, {}, {"fsdp"}]>]
  %0 = nn.transpose %x perm = [2, 0, 1] : tensor<2x4x8xf32> -> tensor<8x2x4xf32>
  return
}

// Merging dimensions: the major one keeps its split; the minor one only where the major one is
// split completely.
// CHECK-LABEL: func.func @merge(
func.func @merge(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>},
    %y: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
    %z: tensor<2x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {"tp"}]>}) {
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{"tp"}]>]
  %0 = nn.reshape %x : tensor<4x8xf32> -> tensor<32xf32>
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{}]>]
  %1 = nn.reshape %y : tensor<4x8xf32> -> tensor<32xf32>
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{"fsdp", "tp"}]>]
  %2 = nn.reshape %z : tensor<2x8xf32> -> tensor<16xf32>
  return
}

// Dividing a dimension: axes split the major factor as far as its size permits, and then the next
// one.
// CHECK-LABEL: func.func @divide(
func.func @divide(%x: tensor<32xf32> {dist.sharding = #dist.sharding<[{"fsdp", "tp"}]>}) {
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{"fsdp", "tp"}, {}]>]
  %0 = nn.reshape %x : tensor<32xf32> -> tensor<4x8xf32>
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %1 = nn.reshape %x : tensor<32xf32> -> tensor<2x16xf32>
  return
}

// The axis does not divide the major factor: the dimension is whole.
// CHECK-LABEL: func.func @divide_odd(
func.func @divide_odd(%x: tensor<12xf32> {dist.sharding = #dist.sharding<[{"tp"}]>}) {
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{}, {}]>]
  %0 = nn.reshape %x : tensor<12xf32> -> tensor<3x4xf32>
  return
}

// Dimensions are regrouped: the common major factor keeps its split. Without a common factor
// nothing does.
// CHECK-LABEL: func.func @regroup(
func.func @regroup(%x: tensor<4x6xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>},
    %y: tensor<3x4xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) {
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{"tp"}, {}]>]
  %0 = nn.reshape %x : tensor<4x6xf32> -> tensor<8x3xf32>
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{}, {}]>]
  %1 = nn.reshape %y : tensor<3x4xf32> -> tensor<2x6xf32>
  return
}

// Dimensions of size one come and go.
// CHECK-LABEL: func.func @squeeze(
func.func @squeeze(%x: tensor<1x8x1xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}, {}]>}) {
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{"tp"}]>]
  %0 = nn.reshape %x : tensor<1x8x1xf32> -> tensor<8xf32>
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{"tp"}, {}]>]
  %1 = nn.reshape %0 : tensor<8xf32> -> tensor<8x1xf32>
  return
}

// A slice of a dimension needs it whole. Other dimensions keep their split, and so does one that is
// taken whole.
// CHECK-LABEL: func.func @slice(
func.func @slice(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {"tp"}]>}) {
  // CHECK: nn.slice {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %0 = nn.slice %x starts = [0, 2] limits = [4, 8] strides = [1, 3] : tensor<4x8xf32> -> tensor<4x2xf32>
  // CHECK: nn.slice {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %1 = nn.slice %x starts = [0, 0] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// CHECK-LABEL: func.func @pad(
func.func @pad(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {"tp"}]>}) {
  // CHECK: nn.pad {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %0 = nn.pad %x low = [0, 1] high = [0, 1] interior = [0, 0] value = 0.0 : tensor<4x8xf32> -> tensor<4x10xf32>
  return
}

// A concatenation needs its dimension whole.
// CHECK-LABEL: func.func @concat(
func.func @concat(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {"tp"}]>}, %y: tensor<4x8xf32>) {
  // CHECK: nn.concat {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %0 = nn.concat %x, %y dim = 1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  // CHECK: nn.concat {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %1 = nn.concat %x, %y dim = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}

// A lookup needs the rows of the table whole. The indices' dimensions and the columns may be split.
// CHECK-LABEL: func.func @gather(
func.func @gather(%t: tensor<16x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
    %i: tensor<4xi64> {dist.sharding = #dist.sharding<[{"fsdp"}]>},
    %u: tensor<16x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}) {
  // CHECK: nn.gather {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %0 = nn.gather %t, %i dim = 0 : (tensor<16x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  // CHECK: nn.gather {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %1 = nn.gather %u, %i dim = 0 : (tensor<16x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  return
}

// A table whose rows are split gives partial rows (each rank has zeros for the rows of others).
// CHECK-LABEL: func.func @embedding(
func.func @embedding(%t: tensor<16x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>},
    %u: tensor<16x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
    %i: tensor<4x2xi64> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>}) {
  // CHECK: nn.embedding {{.*}}[#dist.sharding<[{"fsdp"}, {}, {}], partial = {"tp": sum}>]
  %0 = nn.embedding %t, %i : (tensor<16x8xf32>, tensor<4x2xi64>) -> tensor<4x2x8xf32>
  // CHECK: nn.embedding {{.*}}[#dist.sharding<[{"fsdp"}, {}, {"tp"}]>]
  %1 = nn.embedding %u, %i : (tensor<16x8xf32>, tensor<4x2xi64>) -> tensor<4x2x8xf32>
  return
}

// The gradient of a table: its rows are whole, a sum over the split indices.
// CHECK-LABEL: func.func @embedding_grad(
func.func @embedding_grad(%i: tensor<4x2xi64> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>},
    %g: tensor<4x2x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}, {"tp"}]>}) {
  // CHECK: nn.embedding_grad {{.*}}[#dist.sharding<[{}, {"tp"}], partial = {"fsdp": sum}>]
  %0 = nn.embedding_grad %i, %g : (tensor<4x2xi64>, tensor<4x2x8xf32>) -> tensor<16x8xf32>
  return
}

// A cumulative sum needs its dimension whole.
// CHECK-LABEL: func.func @cumsum(
func.func @cumsum(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {"tp"}]>}) {
  // CHECK: nn.cumsum {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %0 = nn.cumsum %x dim = 1 exclusive reverse : tensor<4x8xf32>
  return
}

// A softmax needs its dimension whole.
// CHECK-LABEL: func.func @softmax(
func.func @softmax(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {"tp"}]>}) {
  // CHECK: nn.softmax {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %0 = nn.softmax %x : tensor<4x8xf32>
  return
}

//===- Priority and constraints -------------------------------------------===//

// Data axes come first, in whichever order the mesh and the operands have them.
// CHECK-LABEL: func.func @priority(
func.func @priority(%x: tensor<2x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>},
    %y: tensor<2x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>}) {
  // CHECK: nn.add {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %0 = nn.add %x, %y : tensor<2x8xf32>
  return
}

// A constraint determines all tensor axes: the operand's split ends there. Data axes that it does
// not name pass.
// CHECK-LABEL: func.func @closed(
func.func @closed(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {"tp"}]>}) {
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %0 = nn.exp %x : tensor<4x8xf32>
  // CHECK: dist.constrain {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %1 = dist.constrain %0 to <[{}, {}]> : tensor<4x8xf32>
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %2 = nn.exp %1 : tensor<4x8xf32>
  return
}

// Users that want different splits of one value: the last user's is taken, and partition reshards
// for the other.
// CHECK-LABEL: func.func @conflicting_users(
func.func @conflicting_users(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>},
    %y: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>}) {
  // CHECK: nn.constant {{.*}}[#dist.sharding<[{"tp"}, {}]>]
  %0 = nn.constant dense<2.0> : tensor<4x8xf32>
  // CHECK: nn.add {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %1 = nn.add %0, %x : tensor<4x8xf32>
  // CHECK: nn.add {{.*}}[#dist.sharding<[{"tp"}, {}]>]
  %2 = nn.add %0, %y : tensor<4x8xf32>
  return
}

// A split goes forward, then backward past a reshape to a constant.
// CHECK-LABEL: func.func @far(
func.func @far(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>}) {
  // CHECK: nn.constant {{.*}}[#dist.sharding<[{"fsdp"}]>]
  %0 = nn.constant dense<2.0> : tensor<32xf32>
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{"fsdp"}, {}]>]
  %1 = nn.reshape %0 : tensor<32xf32> -> tensor<4x8xf32>
  // CHECK: nn.transpose {{.*}}[#dist.sharding<[{}, {"fsdp"}]>]
  %2 = nn.transpose %1 perm = [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  // CHECK: nn.transpose {{.*}}[#dist.sharding<[{}, {"fsdp"}]>]
  %3 = nn.transpose %x perm = [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  // CHECK: nn.mul {{.*}}[#dist.sharding<[{}, {"fsdp"}]>]
  %4 = nn.mul %2, %3 : tensor<8x4xf32>
  return
}

// A constraint moves an axis to another dimension.
// CHECK-LABEL: func.func @moved(
func.func @moved(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) {
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{}, {"tp"}]>]
  %0 = nn.exp %x : tensor<4x8xf32>
  // CHECK: dist.constrain {{.*}}[#dist.sharding<[{"tp"}, {}]>]
  %1 = dist.constrain %0 to <[{"tp"}, {}]> : tensor<4x8xf32>
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{"tp"}, {}]>]
  %2 = nn.exp %1 : tensor<4x8xf32>
  return
}

// The batch is split over all data axes.
// CHECK-LABEL: func.func @batch_of_two_axes(
// CHECK-SAME: dist.sharding = #dist.sharding<[{"replica", "fsdp"}, {}]>
func.func @batch_of_two_axes(%x: tensor<8x3xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}) {
  // CHECK: nn.exp {{.*}}[#dist.sharding<[{"replica", "fsdp"}, {}]>]
  %0 = nn.exp %x : tensor<8x3xf32>
  return
}

// The batch in a minor dimension: it is gathered where it becomes a minor factor, unless a
// transpose makes it major.
// CHECK-LABEL: func.func @minor_batch(
// CHECK-SAME: dist.sharding = #dist.sharding<[{}, {"replica", "fsdp"}]>
func.func @minor_batch(%x: tensor<3x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 1 : i64}) {
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{}]>]
  %0 = nn.reshape %x : tensor<3x8xf32> -> tensor<24xf32>
  // CHECK: nn.transpose {{.*}}[#dist.sharding<[{"replica", "fsdp"}, {}]>]
  %1 = nn.transpose %x perm = [1, 0] : tensor<3x8xf32> -> tensor<8x3xf32>
  // CHECK: nn.reshape {{.*}}[#dist.sharding<[{"replica", "fsdp"}]>]
  %2 = nn.reshape %1 : tensor<8x3xf32> -> tensor<24xf32>
  return
}

// Backward: an op without operands.
// CHECK-LABEL: func.func @iota(
func.func @iota(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {"tp"}]>}) {
  // CHECK: nn.iota {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %0 = nn.iota dim = 1 : tensor<4x8xf32>
  // CHECK: nn.add {{.*}}[#dist.sharding<[{"fsdp"}, {"tp"}]>]
  %1 = nn.add %0, %x : tensor<4x8xf32>
  return
}
