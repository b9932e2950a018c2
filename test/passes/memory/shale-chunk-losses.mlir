// RUN: shale-opt %s --shale-chunk-losses=loss-chunk=2 -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// Sums in another order agree in f64.
// RUN: shale-run --as f64 %s --compare=%t.mlir --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @forward: 2 values, 0 differ in value
// EQUAL-DAG: @step: 4 values, 0 differ in value
// EQUAL-DAG: @narrow: 2 values, 0 differ in value
// EQUAL-DAG: @sequences: 3 values, 0 differ in value
// EQUAL-DAG: @ignored: 2 values, 0 differ in value
// EQUAL-DAG: @few: 1 values, 0 differ in value
// RUN: shale-opt %s --shale-chunk-losses=loss-chunk=2 --remarks-filter=chunk-losses 2>&1 >%t.again.mlir | FileCheck %s --check-prefix=REMARK
// RUN: shale-opt %s --shale-chunk-losses=loss-chunk=off | FileCheck %s --check-prefix=OFF
// OFF-NOT: nn.slice
// By default logits below 64 MiB stay whole. The target has the number of rows.
// RUN: shale-opt %s --shale-chunk-losses | FileCheck %s --check-prefix=OFF
// RUN: not shale-opt %s --shale-chunk-losses=loss-chunk=0 2>&1 | FileCheck %s --check-prefix=WRONG
// WRONG: expects auto, off or a number of rows; got '0'

// The count of labels is computed first, so that gradients can divide by it.
// CHECK-LABEL: @forward
// CHECK: %[[IGNORED:.*]] = nn.constant dense<-100> : tensor<4xi64>
// CHECK: %[[COUNTED:.*]] = nn.compare ne %[[LABELS:.*]], %[[IGNORED]]
// CHECK: %[[COUNT:.*]] = nn.reduce sum
// CHECK: %[[X0:.*]] = nn.slice %[[X:.*]] starts = [0, 0] limits = [2, 3] strides = [1, 1]
// CHECK: %[[L0:.*]] = nn.matmul %[[X0]], %[[W:.*]] transpose_rhs : (tensor<2x3xf32>, tensor<9x3xf32>) -> tensor<2x9xf32>
// CHECK: %[[Y0:.*]] = nn.slice %[[LABELS]] starts = [0] limits = [2] strides = [1]
// CHECK: %[[S0:[^,]*]], %{{.*}}, %{{.*}} = nn.cross_entropy %[[L0]], %[[Y0]]
// CHECK: nn.slice %[[X]] starts = [2, 0] limits = [4, 3]
// CHECK: %[[S1:[^,]*]], %{{.*}}, %{{.*}} = nn.cross_entropy
// CHECK: %[[SUM:.*]] = nn.add %[[S0]], %[[S1]]
// CHECK-NOT: nn.cross_entropy
// CHECK: return %[[SUM]], %[[COUNT]]
func.func @forward(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>) -> (tensor<f32>, tensor<f32>) {
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x9xf32>, tensor<4xi64>
  return %sum, %count : tensor<f32>, tensor<f32>
}

// With a backward pass each chunk has its gradient. All of it is part of the backward pass. The ops between that depend on the
// sum come later.
// CHECK-LABEL: @step
// CHECK: %[[COUNT:.*]] = nn.reduce sum
// CHECK: %[[G:.*]] = nn.div %{{.*}}, %[[COUNT]]
// CHECK: nn.matmul {{.*}} transpose_rhs {nn.phase = #backward, nn.scope = "head"} : (tensor<2x3xf32>, tensor<9x3xf32>) -> tensor<2x9xf32>
// CHECK: nn.cross_entropy {{.*}}nn.phase = #backward
// CHECK: %[[D0:.*]] = nn.cross_entropy_grad {{.*}}, %[[G]]
// CHECK: %[[DX0:.*]] = nn.matmul %[[D0]], %{{.*}} {{.*}} -> tensor<2x3xf32>
// CHECK: %[[DW0:.*]] = nn.matmul %[[D0]], %{{.*}} transpose_lhs {{.*}} -> tensor<9x3xf32>
// CHECK: nn.cross_entropy_grad
// CHECK: %[[DW:.*]] = nn.matmul_add %[[DW0]], %{{.*}}, %{{.*}} transpose_lhs {{.*}} -> tensor<9x3xf32>
// CHECK: %[[DX:.*]] = nn.concat %[[DX0]], %{{.*}} dim = 0
// CHECK: %[[LOSS:.*]] = nn.div
// CHECK: return %[[LOSS]], %[[DX]], %[[DW]]
// REMARK: the loss over 4 rows is computed in 2 chunks
func.func @step(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>) -> (tensor<f32>, tensor<4x3xf32>, tensor<9x3xf32>, tensor<f32>) {
  %logits = nn.matmul %x, %w transpose_rhs {nn.phase = #nn.phase<forward>, nn.scope = "head"} : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 {nn.phase = #nn.phase<forward>} : tensor<4x9xf32>, tensor<4xi64>
  %loss = nn.div %sum, %count {nn.phase = #nn.phase<forward>} : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32> {nn.phase = #nn.phase<backward>}
  %g = nn.div %one, %count {nn.phase = #nn.phase<backward>} : tensor<f32>
  %d = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = -100 {nn.phase = #nn.phase<backward>} : tensor<4x9xf32>, tensor<4xi64>
  %dx = nn.matmul %d, %w {nn.phase = #nn.phase<backward>, nn.scope = "head"} : (tensor<4x9xf32>, tensor<9x3xf32>) -> tensor<4x3xf32>
  %dw = nn.matmul %d, %x transpose_lhs {nn.phase = #nn.phase<backward>, nn.scope = "head"} : (tensor<4x9xf32>, tensor<4x3xf32>) -> tensor<9x3xf32>
  return %loss, %dx, %dw, %count : tensor<f32>, tensor<4x3xf32>, tensor<9x3xf32>, tensor<f32>
}

// Sums of 16-bit matmuls are added in f32 and rounded once.
// CHECK-LABEL: @narrow
// CHECK: %[[DW0:.*]] = nn.matmul %{{.*}} transpose_lhs : (tensor<2x9xbf16>, tensor<2x3xbf16>) -> tensor<9x3xf32>
// CHECK: %[[DW:.*]] = nn.matmul_add %[[DW0]], {{.*}} : (tensor<9x3xf32>, tensor<2x9xbf16>, tensor<2x3xbf16>) -> tensor<9x3xf32>
// CHECK: %[[R:.*]] = nn.cast %[[DW]] : tensor<9x3xf32> -> tensor<9x3xbf16>
// CHECK: return %{{.*}}, %[[R]]
func.func @narrow(%x32: tensor<4x3xf32>, %w32: tensor<9x3xf32>, %labels: tensor<4xi64>, %g: tensor<f32>) -> (tensor<f32>, tensor<9x3xbf16>) {
  %x = nn.cast %x32 : tensor<4x3xf32> -> tensor<4x3xbf16>
  %w = nn.cast %w32 : tensor<9x3xf32> -> tensor<9x3xbf16>
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x3xbf16>, tensor<9x3xbf16>) -> tensor<4x9xbf16>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x9xbf16>, tensor<4xi64>
  %d = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = -100 : tensor<4x9xbf16>, tensor<4xi64>
  %dw = nn.matmul %d, %x transpose_lhs : (tensor<4x9xbf16>, tensor<4x3xbf16>) -> tensor<9x3xbf16>
  return %sum, %dw : tensor<f32>, tensor<9x3xbf16>
}

// Ops between the matmul and the loss, and rows that are two dimensions. A bias has its gradient summed over chunks.
// CHECK-LABEL: @sequences
// CHECK: nn.matmul {{.*}} -> tensor<2x9xf32>
// CHECK: nn.reshape %{{.*}} : tensor<2x9xf32> -> tensor<1x2x9xf32>
// CHECK: %[[BIAS:.*]] = nn.broadcast %{{.*}} : tensor<9xf32> -> tensor<1x2x9xf32>
// CHECK: nn.add %{{.*}}, %[[BIAS]] : tensor<1x2x9xf32>
// CHECK: %[[DB0:.*]] = nn.reduce sum %{{.*}} dims = [0] : tensor<2x9xf32> -> tensor<9xf32>
// CHECK: %[[DB1:.*]] = nn.reduce sum %{{.*}} dims = [0] : tensor<2x9xf32> -> tensor<9xf32>
// CHECK: nn.add %[[DB0]], %[[DB1]]
func.func @sequences(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>, %g: tensor<f32>, %b: tensor<9xf32>) -> (tensor<f32>, tensor<9xf32>, tensor<4x3xf32>) {
  %matmul = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %apart = nn.reshape %matmul : tensor<4x9xf32> -> tensor<2x2x9xf32>
  %bias = nn.broadcast %b dims = [2] : tensor<9xf32> -> tensor<2x2x9xf32>
  %biased = nn.add %apart, %bias : tensor<2x2x9xf32>
  %logits = nn.reshape %biased : tensor<2x2x9xf32> -> tensor<4x9xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x9xf32>, tensor<4xi64>
  %d = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = -100 : tensor<4x9xf32>, tensor<4xi64>
  %db = nn.reduce sum %d dims = [0] : tensor<4x9xf32> -> tensor<9xf32>
  %dx = nn.matmul %d, %w : (tensor<4x9xf32>, tensor<9x3xf32>) -> tensor<4x3xf32>
  return %sum, %db, %dx : tensor<f32>, tensor<9xf32>, tensor<4x3xf32>
}

// Ignored labels are not counted.
// CHECK-LABEL: @ignored
func.func @ignored(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>) -> (tensor<f32>, tensor<f32>) {
  %labels = nn.constant dense<[1, -100, -100, 8]> : tensor<4xi64>
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x9xf32>, tensor<4xi64>
  return %sum, %count : tensor<f32>, tensor<f32>
}

// Not split: the logits are a result, rows are mixed, the gradient depends on the loss.
// CHECK-LABEL: @result
// CHECK-NOT: nn.slice
// REMARK: the loss over 4 rows is computed at once: func.return reads or makes all rows
func.func @result(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>) -> (tensor<f32>, tensor<4x9xf32>) {
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x9xf32>, tensor<4xi64>
  return %sum, %logits : tensor<f32>, tensor<4x9xf32>
}

// CHECK-LABEL: @mixed
// CHECK-NOT: nn.slice
// REMARK: the loss over 4 rows is computed at once: nn.cumsum cannot be split into 2 ranges of rows
func.func @mixed(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>) -> tensor<f32> {
  %matmul = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %logits = nn.cumsum %matmul dim = 0 : tensor<4x9xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x9xf32>, tensor<4xi64>
  return %sum : tensor<f32>
}

// CHECK-LABEL: @squared
// CHECK-NOT: nn.slice
// REMARK: the loss over 4 rows is computed at once: nn.cross_entropy_grad needs
func.func @squared(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>) -> tensor<4x3xf32> {
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x9xf32>, tensor<4xi64>
  %g = nn.add %sum, %sum : tensor<f32>
  %d = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = -100 : tensor<4x9xf32>, tensor<4xi64>
  %dx = nn.matmul %d, %w : (tensor<4x9xf32>, tensor<9x3xf32>) -> tensor<4x3xf32>
  return %dx : tensor<4x3xf32>
}

// Two losses read one matmul, and a random number per row.
// CHECK-LABEL: @two
// CHECK-NOT: nn.slice
// REMARK: the loss over 4 rows is computed at once: another loss reads the same logits
func.func @two(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>) -> (tensor<f32>, tensor<f32>) {
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x9xf32>, tensor<4xi64>
  %again, %count2, %lse2 = nn.cross_entropy %logits, %labels ignore_index = 0 : tensor<4x9xf32>, tensor<4xi64>
  return %sum, %again : tensor<f32>, tensor<f32>
}

// CHECK-LABEL: @dropped
// CHECK-NOT: nn.slice
// REMARK: the loss over 4 rows is computed at once: nn.dropout draws other numbers for each row
func.func @dropped(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>, %g: tensor<f32>, %b: tensor<9xf32>, %seed: tensor<i64>) -> tensor<f32> {
  %matmul = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %logits = nn.dropout %matmul seed %seed step %seed microbatch %seed ratio = 5.000000e-01 id = 0 : tensor<4x9xf32>, tensor<i64>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x9xf32>, tensor<4xi64>
  return %sum : tensor<f32>
}

// No columns of x, and no classes.
// CHECK-LABEL: @empty
// CHECK: nn.matmul {{.*}} : (tensor<2x0xf32>, tensor<9x0xf32>) -> tensor<2x9xf32>
// CHECK: nn.cross_entropy {{.*}} : tensor<4x0xf32>
func.func @empty(%x: tensor<4x3xf32>, %w9: tensor<9x3xf32>, %labels: tensor<4xi64>) -> (tensor<f32>, tensor<f32>) {
  %none = nn.constant dense<1.0> : tensor<4x0xf32>
  %w = nn.constant dense<1.0> : tensor<9x0xf32>
  %logits = nn.matmul %none, %w transpose_rhs : (tensor<4x0xf32>, tensor<9x0xf32>) -> tensor<4x9xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x9xf32>, tensor<4xi64>
  %sum2, %count2, %lse2 = nn.cross_entropy %none, %labels ignore_index = -100 : tensor<4x0xf32>, tensor<4xi64>
  return %sum, %sum2 : tensor<f32>, tensor<f32>
}

// With fewer classes than hidden values, the matmul is where the chunks begin. A constant that is as large is sliced.
// CHECK-LABEL: @few
// CHECK: %[[H:.*]] = nn.tanh %{{.*}} : tensor<4x9xf32>
// CHECK: %[[NOISE:.*]] = nn.iota dim = 0 : tensor<4x3xi64>
// CHECK: nn.slice %[[H]] starts = [0, 0]
// CHECK: nn.slice %{{.*}} : tensor<4x3x{{.*}}> -> tensor<2x3x
// CHECK-NOT: nn.tanh
func.func @few(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>) -> tensor<f32> {
  %wide = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %h = nn.tanh %wide : tensor<4x9xf32>
  %logits = nn.matmul %h, %w : (tensor<4x9xf32>, tensor<9x3xf32>) -> tensor<4x3xf32>
  %noise = nn.iota dim = 0 : tensor<4x3xi64>
  %noise32 = nn.cast %noise : tensor<4x3xi64> -> tensor<4x3xf32>
  %moved = nn.add %logits, %noise32 : tensor<4x3xf32>
  %zero = nn.sub %labels, %labels : tensor<4xi64>
  %sum, %count, %lse = nn.cross_entropy %moved, %zero ignore_index = -100 : tensor<4x3xf32>, tensor<4xi64>
  return %sum : tensor<f32>
}
