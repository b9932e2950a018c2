// Ops that are cheaper to recompute than to store are computed by each kernel that reads them.
// RUN: shale-opt %s --shale-fusion -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: shale-run %s --compare=%t.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @pieces: 2 values, 0 differ in their bits
// EQUAL-DAG: @activation: 2 values, 0 differ in their bits
// EQUAL-DAG: @kept: 3 values, 0 differ in their bits
// EQUAL-DAG: @columns: 2 values, 0 differ in their bits
// EQUAL-DAG: @joined: 2 values, 0 differ in their bits
// EQUAL-DAG: @wide: 2 values, 0 differ in their bits

// Two kernels read slices of a matmul and each add the 16-bit bias. Neither stores the sum.
// CHECK-LABEL: @pieces
// CHECK: %[[MATMUL:.*]] = nn.matmul
// CHECK: nn.cluster (%{{.*}} = %{{.*}} : tensor<8xbf16>, %{{.*}} = %[[MATMUL]] : tensor<4x8xbf16>) -> tensor<4x4xbf16>
// CHECK: nn.cluster (%{{.*}} = %{{.*}} : tensor<8xbf16>, %{{.*}} = %[[MATMUL]] : tensor<4x8xbf16>) -> tensor<4x4xbf16>
// CHECK-NOT: nn.cluster
// CHECK: return
func.func @pieces(%x: tensor<4x8xbf16> {nn.name = "pieces.x"}, %w: tensor<8x8xbf16> {nn.name = "pieces.w"}, %b: tensor<8xbf16> {nn.name = "pieces.b"}) -> (tensor<4x4xbf16>, tensor<4x4xbf16>) {
  %matmul = nn.matmul %x, %w : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  %bias = nn.broadcast %b dims = [1] : tensor<8xbf16> -> tensor<4x8xbf16>
  %wide_bias = nn.cast %bias : tensor<4x8xbf16> -> tensor<4x8xf32>
  %wide = nn.cast %matmul : tensor<4x8xbf16> -> tensor<4x8xf32>
  %sum = nn.add %wide, %wide_bias : tensor<4x8xf32>
  %y = nn.cast %sum : tensor<4x8xf32> -> tensor<4x8xbf16>
  %0 = nn.slice %y starts = [0, 0] limits = [4, 4] strides = [1, 1] : tensor<4x8xbf16> -> tensor<4x4xbf16>
  %1 = nn.slice %y starts = [0, 4] limits = [4, 8] strides = [1, 1] : tensor<4x8xbf16> -> tensor<4x4xbf16>
  return %0, %1 : tensor<4x4xbf16>, tensor<4x4xbf16>
}

// The backward pass adds the bias to the matmul again. The forward kernel writes only its result, and the backward kernel reads the matmul once.
// CHECK-LABEL: @activation
// CHECK: %[[MATMUL:.*]] = nn.matmul
// CHECK: %[[Y:.*]] = nn.cluster (%{{.*}} = %{{.*}} : tensor<8xf32>, %{{.*}} = %[[MATMUL]] : tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: nn.gelu
// CHECK: nn.matmul %[[Y]]
// CHECK: nn.cluster (%{{.*}} = %{{.*}} : tensor<8xf32>, %{{.*}} = %[[MATMUL]] : tensor<4x8xf32>, %{{.*}} = %{{.*}} : tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK-NOT: nn.cluster
// CHECK: return
func.func @activation(%x: tensor<4x8xf32> {nn.name = "activation.x"}, %w: tensor<8x8xf32> {nn.name = "activation.w"}, %b: tensor<8xf32> {nn.name = "activation.b"}, %dy: tensor<4x8xf32> {nn.name = "activation.dy"})
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %matmul = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %bias = nn.broadcast %b dims = [1] {nn.phase = #nn.phase<forward>} : tensor<8xf32> -> tensor<4x8xf32>
  %sum = nn.add %matmul, %bias {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %y = nn.gelu %sum tanh {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %out = nn.matmul %y, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %t = nn.tanh %sum {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %s = nn.mul %t, %sum {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %dx = nn.mul %dy, %s {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  return %out, %dx : tensor<4x8xf32>, tensor<4x8xf32>
}

// Values that a matmul of the backward pass reads are stored. So are values that are smaller than their operands.
// CHECK-LABEL: @kept
// CHECK: nn.cluster {{.*}} -> tensor<4x8xf32> aliases [0] attributes {nn.phase = #forward}
// CHECK: nn.cluster {{.*}} -> tensor<4x8xi1> attributes {nn.phase = #forward}
// CHECK: nn.cluster (%{{.*}} : tensor<4x8xi1>, %{{.*}} : tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: return
func.func @kept(%x: tensor<4x8xf32> {nn.name = "kept.x"}, %w: tensor<8x8xf32> {nn.name = "kept.w"}, %dy: tensor<4x8xf32> {nn.name = "kept.dy"}) -> (tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>) {
  %matmul = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %y = nn.exp %matmul {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %zero = nn.constant dense<0.0> : tensor<4x8xf32>
  %positive = nn.compare lt %zero, %matmul {nn.phase = #nn.phase<forward>} : tensor<4x8xf32> -> tensor<4x8xi1>
  %dw = nn.matmul %y, %dy transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %dx = nn.select %positive, %dy, %zero {nn.phase = #nn.phase<backward>} : tensor<4x8xi1>, tensor<4x8xf32>
  return %y, %dw, %dx : tensor<4x8xf32>, tensor<8x8xf32>, tensor<4x8xf32>
}

// The gradient of a norm's weight reduces columns, so its kernel is not that of the rows. It computes the matmuls from what is stored in 16
// bits, and they are never written. In f32 it would read as much as it saves.
// CHECK-LABEL: @columns
// CHECK: nn.cluster (%{{.*}} = %{{.*}} : tensor<2x8x4xbf16>, %{{.*}} = %{{.*}} : tensor<2x8x4xbf16>, %{{.*}} = %{{.*}} : tensor<2x8xf32>) -> tensor<4x4xf32>
// CHECK: nn.cluster (%{{.*}} = %{{.*}} : tensor<2x8x4xbf16>, %{{.*}} = %{{.*}} : tensor<2x8xf32>) -> tensor<2x8x4xf32>
// CHECK-NOT: nn.cluster
// CHECK: return
func.func @columns(%w: tensor<4x4xbf16> {nn.name = "columns.w"}, %x: tensor<16x4xbf16> {nn.name = "columns.x"}, %m: tensor<2x8xf32> {nn.name = "columns.m"}) -> (tensor<4x4xf32>, tensor<2x8x4xf32>) {
  %matmul = nn.matmul %x, %w : (tensor<16x4xbf16>, tensor<4x4xbf16>) -> tensor<16x4xbf16>
  %dy = nn.reshape %matmul : tensor<16x4xbf16> -> tensor<2x8x4xbf16>
  %rows = nn.reshape %x : tensor<16x4xbf16> -> tensor<2x8x4xbf16>
  %a = nn.cast %dy : tensor<2x8x4xbf16> -> tensor<2x8x4xf32>
  %b = nn.cast %rows : tensor<2x8x4xbf16> -> tensor<2x8x4xf32>
  %c = nn.broadcast %m dims = [0, 1] : tensor<2x8xf32> -> tensor<2x8x4xf32>
  %d = nn.mul %b, %c : tensor<2x8x4xf32>
  %v = nn.mul %a, %d : tensor<2x8x4xf32>
  %r = nn.reshape %v : tensor<2x8x4xf32> -> tensor<4x4x4xf32>
  %s = nn.reduce sum %r dims = [1] : tensor<4x4x4xf32> -> tensor<4x4xf32>
  %s1 = nn.reduce sum %d dims = [2] : tensor<2x8x4xf32> -> tensor<2x8xf32>
  %s2 = nn.broadcast %s1 dims = [0, 1] : tensor<2x8xf32> -> tensor<2x8x4xf32>
  %o = nn.mul %s2, %d : tensor<2x8x4xf32>
  return %s, %o : tensor<4x4xf32>, tensor<2x8x4xf32>
}

// Gradients of gate and up are joined for one matmul. Their kernel computes the recomputed activation again instead of reading it, and
// reads the gate once, although a part of the ops reads it before the barrier.
// CHECK-LABEL: @joined
// CHECK: %[[KEPT:.*]]:2 = mem.barrier
// CHECK: nn.cluster (%{{[^,]*}} = %[[KEPT]]#0 : tensor<4x8xf32>, %{{[^,]*}} = %[[KEPT]]#1 : tensor<4x8xf32>) -> tensor<4x8xf32>
// CHECK: nn.cluster (%{{[^,]*}}, %{{[^,]*}}, %{{[^,]*}}) -> tensor<4x16xf32>
// CHECK: nn.concat
// CHECK-NOT: nn.cluster
// CHECK: return
func.func @joined(%gate: tensor<4x8xf32> {nn.name = "joined.gate"}, %up: tensor<4x8xf32> {nn.name = "joined.up"}, %dh: tensor<4x8xf32> {nn.name = "joined.dh"}, %w: tensor<8x8xf32> {nn.name = "joined.w"})
    -> (tensor<4x8xf32>, tensor<4x16xf32>) {
  %kept:2 = mem.barrier %gate, %up {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>, tensor<4x8xf32>
  %s = nn.silu %kept#0 {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %h = nn.mul %s, %kept#1 {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %y = nn.matmul %h, %w {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %dup = nn.mul %dh, %s {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %t = nn.sigmoid %gate {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %u = nn.mul %t, %up {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %dgate = nn.mul %dh, %u {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %both = nn.concat %dgate, %dup dim = 1 {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %y, %both : tensor<4x8xf32>, tensor<4x16xf32>
}

// Here the clones would read more than they save: four values for each that is joined.
// CHECK-LABEL: @wide
// CHECK: nn.cluster {{.*}} -> (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK: nn.cluster {{.*}} -> tensor<4x8xf32>
// CHECK: return
func.func @wide(%a: tensor<4x4xf32> {nn.name = "wide.a"}, %b: tensor<4x4xf32> {nn.name = "wide.b"}, %c: tensor<4x4xf32> {nn.name = "wide.c"}, %d: tensor<4x4xf32> {nn.name = "wide.d"}, %w: tensor<4x4xf32> {nn.name = "wide.w"})
    -> (tensor<4x4xf32>, tensor<4x8xf32>) {
  %0 = nn.add %a, %b : tensor<4x4xf32>
  %1 = nn.mul %0, %c : tensor<4x4xf32>
  %2 = nn.sub %1, %d : tensor<4x4xf32>
  %3 = nn.exp %2 : tensor<4x4xf32>
  %y = nn.matmul %3, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = nn.tanh %3 : tensor<4x4xf32>
  %both = nn.concat %3, %4 dim = 1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x8xf32>
  return %y, %both : tensor<4x4xf32>, tensor<4x8xf32>
}
