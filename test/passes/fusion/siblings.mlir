// A recomputed value joins a kernel that reads the same operands, which are then read once.
// RUN: shale-opt %s --shale-fusion -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: shale-run %s --compare=%t.mlir --exact | FileCheck %s --check-prefix=EQUAL
// RUN: sed s/cuda:sm_90a/cpu:x86-64-v3/ %s | shale-opt --shale-fusion -o %t.cpu.mlir
// RUN: FileCheck %s --input-file %t.cpu.mlir --check-prefix=CPU
// RUN: shale-run %s --compare=%t.cpu.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @joined: 2 values, 0 differ in their bits
// EQUAL-DAG: @flat: 2 values, 0 differ in their bits
// EQUAL-DAG: @read: 3 values, 0 differ in their bits
// EQUAL-DAG: @two: 3 values, 0 differ in their bits
// EQUAL-DAG: @through: 2 values, 0 differ in their bits
// EQUAL-DAG: @back: 2 values, 0 differ in their bits
// EQUAL-DAG: @narrow: 2 values, 0 differ in their bits
// EQUAL-DAG: @unequal: 2 values, 0 differ in their bits
// EQUAL-DAG: @sliced: 2 values, 0 differ in their bits
// EQUAL-DAG: @parts: 2 values, 0 differ in their bits
// EQUAL-DAG: @rows: 2 values, 0 differ in their bits
// EQUAL-DAG: @sums: 2 values, 0 differ in their bits
// EQUAL-DAG: @more: 2 values, 0 differ in their bits
// EQUAL-DAG: @kept: 2 values, 0 differ in their bits
// EQUAL-DAG: @phases: 2 values, 0 differ in their bits

module attributes {nn.target = "cuda:sm_90a"} {
// The gradients of gate and up are joined for one matmul. Their kernel stores the activation, too, and reads gate and up once, although the
// matmul that reads the activation comes first.
// CHECK-LABEL: func.func @joined
// CHECK: %[[KEPT:.*]]:2 = mem.barrier
// CHECK: %[[DH:.*]] = nn.matmul
// CHECK: %[[BOTH:.*]]:2 = nn.cluster (%{{[^,]*}} = %[[KEPT]]#0 : tensor<4x64xf32>, %{{[^,]*}} = %[[KEPT]]#1 : tensor<4x64xf32>, %{{[^,]*}} = %[[DH]] : tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x128xf32>) attributes {mem.recomputes = ["act", "product"], nn.phase = #backward}
// CHECK: nn.silu
// CHECK-NOT: nn.silu
// CHECK: nn.concat
// CHECK-NOT: nn.cluster
// CHECK: nn.matmul %[[BOTH]]#0
// CHECK-NOT: nn.cluster
// CHECK: return %{{.*}}, %[[BOTH]]#1
// A CPU's loops over a row of parts would compute the parts one after the other.
// CPU-LABEL: func.func @joined
// CPU: nn.cluster {{.*}} -> tensor<4x64xf32> {{.*}}{mem.recomputed, mem.recomputes = ["act", "product"], nn.phase = #backward}
// CPU: nn.cluster {{.*}} -> tensor<4x128xf32> {{.*}}{mem.recomputes = ["act"], nn.phase = #backward}
func.func @joined(%gate: tensor<4x64xf32> {nn.name = "joined.gate"}, %up: tensor<4x64xf32> {nn.name = "joined.up"}, %dy: tensor<4x8xf32> {nn.name = "joined.dy"}, %w: tensor<8x64xf32> {nn.name = "joined.w"})
    -> (tensor<64x8xf32>, tensor<4x128xf32>) {
  %kept:2 = mem.barrier %gate, %up {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>, tensor<4x64xf32>
  %s = nn.silu %kept#0 {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32> loc("act")
  %h = nn.mul %s, %kept#1 {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32> loc("product")
  %dw = nn.matmul %h, %dy transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x64xf32>, tensor<4x8xf32>) -> tensor<64x8xf32>
  %dh = nn.matmul %dy, %w {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<8x64xf32>) -> tensor<4x64xf32>
  %dup = nn.mul %dh, %s {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %t = nn.sigmoid %gate {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %u = nn.mul %t, %up {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %dgate = nn.mul %dh, %u {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %both = nn.concat %dgate, %dup dim = 1 {nn.phase = #nn.phase<backward>} : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x128xf32>
  return %dw, %both : tensor<64x8xf32>, tensor<4x128xf32>
}

// Two kernels of elements, on each target: an activation and its gradient have no op in common.
// CHECK-LABEL: func.func @flat
// CHECK: %[[DH:.*]] = nn.matmul
// CHECK: %[[BOTH:.*]]:2 = nn.cluster ({{.*}}%[[DH]]{{.*}}) -> (tensor<4x64xf32>, tensor<4x64xf32>)
// CHECK-NOT: nn.cluster
// CHECK: return
// CPU-LABEL: func.func @flat
// CPU: nn.cluster {{.*}} -> (tensor<4x64xf32>, tensor<4x64xf32>)
// CPU-NOT: nn.cluster
// CPU: return
func.func @flat(%x: tensor<4x64xf32> {nn.name = "flat.x"}, %dy: tensor<4x8xf32> {nn.name = "flat.dy"}, %w: tensor<8x64xf32> {nn.name = "flat.w"})
    -> (tensor<64x8xf32>, tensor<4x64xf32>) {
  %kept = mem.barrier %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %h = nn.tanh %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %dw = nn.matmul %h, %dy transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x64xf32>, tensor<4x8xf32>) -> tensor<64x8xf32>
  %dh = nn.matmul %dy, %w {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<8x64xf32>) -> tensor<4x64xf32>
  %t = nn.sigmoid %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %dx = nn.mul %dh, %t {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  return %dw, %dx : tensor<64x8xf32>, tensor<4x64xf32>
}

// The other kernel also reads the result.
// CHECK-LABEL: func.func @read
// CHECK: nn.cluster {{.*}} -> (tensor<4x64xf32>, tensor<4x128xf32>)
// CHECK-NOT: nn.cluster
// CHECK: return
func.func @read(%x: tensor<4x64xf32> {nn.name = "read.x"}, %dy: tensor<4x64xf32> {nn.name = "read.dy"}, %w: tensor<64x8xf32> {nn.name = "read.w"}) -> (tensor<4x64xf32>, tensor<4x8xf32>, tensor<4x128xf32>) {
  %kept = mem.barrier %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %h = nn.exp %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %y = nn.matmul %h, %w {nn.phase = #nn.phase<backward>} : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %a = nn.mul %x, %dy {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %both = nn.concat %a, %h dim = 1 {nn.phase = #nn.phase<backward>} : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x128xf32>
  return %h, %y, %both : tensor<4x64xf32>, tensor<4x8xf32>, tensor<4x128xf32>
}

// Two matmuls read the recomputed value, which is computed in the kernel of the gradient.
// CHECK-LABEL: func.func @two
// CHECK: nn.cluster {{.*}} -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x64xf32>)
// CHECK-NOT: nn.cluster
// CHECK: return
// CPU-LABEL: func.func @two
// CPU: nn.cluster {{.*}} -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<4x64xf32>)
// CPU-NOT: nn.cluster
// CPU: return
func.func @two(%x: tensor<4x64xf32> {nn.name = "two.x"}, %dy: tensor<4x64xf32> {nn.name = "two.dy"}, %w: tensor<64x8xf32> {nn.name = "two.w"}) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x64xf32>) {
  %kept = mem.barrier %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %a = nn.tanh %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %b = nn.neg %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %y = nn.matmul %a, %w {nn.phase = #nn.phase<backward>} : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %z = nn.matmul %b, %w {nn.phase = #nn.phase<backward>} : (tensor<4x64xf32>, tensor<64x8xf32>) -> tensor<4x8xf32>
  %dx = nn.mul %x, %dy {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  return %y, %z, %dx : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x64xf32>
}

// A path through a matmul leads from the one to the other.
// CHECK-LABEL: func.func @through
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
// CHECK: nn.matmul
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
// CPU-LABEL: func.func @through
// CPU: nn.cluster {{.*}} -> tensor<4x64xf32>
// CPU: nn.matmul
// CPU: nn.cluster {{.*}} -> tensor<4x64xf32>
func.func @through(%x: tensor<4x64xf32> {nn.name = "through.x"}, %w: tensor<64x64xf32> {nn.name = "through.w"}) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %kept = mem.barrier %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %h = nn.tanh %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %y = nn.matmul %h, %w {nn.phase = #nn.phase<backward>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %t = nn.sigmoid %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %dx = nn.mul %y, %t {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  return %h, %dx : tensor<4x64xf32>, tensor<4x64xf32>
}

// A path the other way: the barrier of the recomputed value depends on a result of the other kernel.
// CHECK-LABEL: func.func @back
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
// CHECK: nn.matmul
// CHECK: mem.barrier
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
func.func @back(%x: tensor<4x64xf32> {nn.name = "back.x"}, %dy: tensor<4x64xf32> {nn.name = "back.dy"}, %w: tensor<64x64xf32> {nn.name = "back.w"}) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %t = nn.sigmoid %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %dx = nn.mul %dy, %t {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %y = nn.matmul %dx, %w {nn.phase = #nn.phase<backward>} : (tensor<4x64xf32>, tensor<64x64xf32>) -> tensor<4x64xf32>
  %kept:2 = mem.barrier %x, %y {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>, tensor<4x64xf32>
  %h = nn.tanh %kept#0 {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  return %h, %y : tensor<4x64xf32>, tensor<4x64xf32>
}

// Parts that are narrower than a sector of memory are computed one after the other.
// CHECK-LABEL: func.func @narrow
// CHECK: nn.cluster {{.*}} -> tensor<4x8xf32>
// CHECK: nn.cluster {{.*}} -> tensor<4x16xf32>
func.func @narrow(%x: tensor<4x8xf32> {nn.name = "narrow.x"}, %dy: tensor<4x8xf32> {nn.name = "narrow.dy"}) -> (tensor<4x8xf32>, tensor<4x16xf32>) {
  %kept = mem.barrier %x {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %h = nn.tanh %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %a = nn.mul %x, %dy {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %b = nn.sub %x, %dy {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %both = nn.concat %a, %b dim = 1 {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x16xf32>
  return %h, %both : tensor<4x8xf32>, tensor<4x16xf32>
}

// Tensors of different sizes have no common places.
// CHECK-LABEL: func.func @unequal
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
// CHECK: nn.cluster {{.*}} -> tensor<4x192xf32>
func.func @unequal(%x: tensor<4x64xf32> {nn.name = "unequal.x"}, %dy: tensor<4x64xf32> {nn.name = "unequal.dy"}, %z: tensor<4x128xf32> {nn.name = "unequal.z"}) -> (tensor<4x64xf32>, tensor<4x192xf32>) {
  %kept = mem.barrier %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %h = nn.tanh %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %a = nn.mul %x, %dy {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %both = nn.concat %a, %z dim = 1 {nn.phase = #nn.phase<backward>} : (tensor<4x64xf32>, tensor<4x128xf32>) -> tensor<4x192xf32>
  return %h, %both : tensor<4x64xf32>, tensor<4x192xf32>
}

// Part of a larger tensor is read elsewhere.
// CHECK-LABEL: func.func @sliced
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
// CHECK: nn.cluster {{.*}} -> tensor<4x128xf32>
func.func @sliced(%x: tensor<4x64xf32> {nn.name = "sliced.x"}, %dy: tensor<4x64xf32> {nn.name = "sliced.dy"}, %z: tensor<4x128xf32> {nn.name = "sliced.z"}) -> (tensor<4x64xf32>, tensor<4x128xf32>) {
  %kept = mem.barrier %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %h = nn.tanh %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %a = nn.mul %x, %dy {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %b = nn.slice %z starts = [0, 64] limits = [4, 128] strides = [1, 1] {nn.phase = #nn.phase<backward>} : tensor<4x128xf32> -> tensor<4x64xf32>
  %both = nn.concat %a, %b dim = 1 {nn.phase = #nn.phase<backward>} : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x128xf32>
  return %h, %both : tensor<4x64xf32>, tensor<4x128xf32>
}

// The parts themselves are computed again.
// CHECK-LABEL: func.func @parts
// CHECK: nn.cluster {{.*}} -> tensor<4x128xf32>
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
func.func @parts(%x: tensor<4x64xf32> {nn.name = "parts.x"}, %dy: tensor<4x64xf32> {nn.name = "parts.dy"}) -> (tensor<4x128xf32>, tensor<4x64xf32>) {
  %kept = mem.barrier %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %a = nn.tanh %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %b = nn.neg %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %both = nn.concat %a, %b dim = 1 {mem.recomputed, nn.phase = #nn.phase<backward>} : (tensor<4x64xf32>, tensor<4x64xf32>) -> tensor<4x128xf32>
  %dx = nn.mul %x, %dy {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  return %both, %dx : tensor<4x128xf32>, tensor<4x64xf32>
}

// Elements have no places in common with rows, here with a value for each row, then with a reduction.
// CHECK-LABEL: func.func @rows
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
// CPU-LABEL: func.func @rows
// CPU: nn.cluster {{.*}} -> tensor<4x64xf32>
// CPU: nn.cluster {{.*}} -> tensor<4x64xf32>
func.func @rows(%x: tensor<4x64xf32> {nn.name = "rows.x"}, %m: tensor<4xf32> {nn.name = "rows.m"}) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %kept = mem.barrier %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %h = nn.tanh %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %e = nn.exp %m {nn.phase = #nn.phase<backward>} : tensor<4xf32>
  %b = nn.broadcast %e dims = [0] {nn.phase = #nn.phase<backward>} : tensor<4xf32> -> tensor<4x64xf32>
  %a = nn.mul %x, %b {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  return %h, %a : tensor<4x64xf32>, tensor<4x64xf32>
}

// CHECK-LABEL: func.func @sums
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
// CHECK: nn.cluster {{.*}} -> tensor<4xf32>
// CPU-LABEL: func.func @sums
// CPU: nn.cluster {{.*}} -> tensor<4x64xf32>
// CPU: nn.cluster {{.*}} -> tensor<4xf32>
func.func @sums(%x: tensor<4x64xf32> {nn.name = "sums.x"}, %dy: tensor<4x64xf32> {nn.name = "sums.dy"}) -> (tensor<4x64xf32>, tensor<4xf32>) {
  %kept = mem.barrier %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %h = nn.tanh %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %a = nn.mul %x, %dy {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %s = nn.reduce sum %a dims = [1] {nn.phase = #nn.phase<backward>} : tensor<4x64xf32> -> tensor<4xf32>
  return %h, %s : tensor<4x64xf32>, tensor<4xf32>
}

// The recomputed value has an operand that the other kernel does not read. Joined, that operand would live longer.
// CHECK-LABEL: func.func @more
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
func.func @more(%x: tensor<4x64xf32> {nn.name = "more.x"}, %y: tensor<4x64xf32> {nn.name = "more.y"}, %dy: tensor<4x64xf32> {nn.name = "more.dy"}) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %kept:2 = mem.barrier %x, %y {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>, tensor<4x64xf32>
  %h = nn.mul %kept#0, %kept#1 {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %dx = nn.add %x, %dy {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  return %h, %dx : tensor<4x64xf32>, tensor<4x64xf32>
}

// No value is recomputed: kernels that read one value can be far apart.
// CHECK-LABEL: func.func @kept
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
// CPU-LABEL: func.func @kept
// CPU: nn.cluster {{.*}} -> tensor<4x64xf32>
// CPU: nn.cluster {{.*}} -> tensor<4x64xf32>
func.func @kept(%x: tensor<4x64xf32> {nn.name = "kept.x"}, %dy: tensor<4x64xf32> {nn.name = "kept.dy"}) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %h = nn.tanh %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %dx = nn.mul %x, %dy {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  return %h, %dx : tensor<4x64xf32>, tensor<4x64xf32>
}

// Phases do not share kernels.
// CHECK-LABEL: func.func @phases
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32> aliases [0] attributes {nn.phase = #forward}
// CHECK: nn.cluster {{.*}} -> tensor<4x64xf32>
func.func @phases(%x: tensor<4x64xf32> {nn.name = "phases.x"}, %y: tensor<4x64xf32> {nn.name = "phases.y"}) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %z = nn.mul %x, %y {nn.phase = #nn.phase<forward>} : tensor<4x64xf32>
  %kept = mem.barrier %x {nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  %h = nn.tanh %kept {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4x64xf32>
  return %h, %z : tensor<4x64xf32>, tensor<4x64xf32>
}
}
