// RUN: shale-opt %s --shale-annotate-recompute=recompute=block | FileCheck %s --check-prefix=BLOCK
// RUN: shale-opt %s --shale-annotate-recompute=recompute=selective | FileCheck %s --check-prefix=SELECT
// RUN: shale-opt %s --shale-annotate-recompute=recompute=match:h.1 | FileCheck %s --check-prefix=MATCH
// RUN: shale-opt %s --shale-annotate-recompute=recompute=block:0.5 | FileCheck %s --check-prefix=HALF
// RUN: shale-opt %s --shale-annotate-recompute=recompute=block:0 | FileCheck %s --implicit-check-not=mem.recompute
// RUN: not shale-opt %s --shale-annotate-recompute=recompute=block:2 2>&1 | FileCheck %s --check-prefix=FRACTION
// FRACTION: for the --recompute option: expects a fraction from 0 to 1 after ':'; got '2'
// RUN: shale-opt %s --shale-annotate-recompute=recompute=none | FileCheck %s --implicit-check-not=mem.recompute
// RUN: not shale-opt %s --shale-annotate-recompute=recompute=match:zzz 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not shale-opt %s --shale-annotate-recompute=recompute=match:[ 2>&1 | FileCheck %s --check-prefix=REGEX
// RUN: not shale-opt %s --shale-annotate-recompute=recompute=everything 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// NOTHING: --recompute match:zzz matches no module scope
// REGEX: --recompute match:[: not a regular expression
// RUN: not shale-opt %s --shale-annotate-recompute=recompute=class:Foo 2>&1 | FileCheck %s --check-prefix=CLASS
// CLASS: --recompute
// UNKNOWN: for the --recompute option: 'everything' is not one of none, block[:FRACTION], selective, auto, class:NAME, match:REGEX
// RUN: not shale-opt %s --shale-annotate-recompute=recompute=auto 2>&1 | FileCheck %s --check-prefix=AUTO
// AUTO: error: --recompute auto: shalec's planner chooses the policy; name the policy that this pass applies

nn.state @h.0.w role = param type = tensor<64x64xf32>
nn.state @h.1.w role = param type = tensor<64x64xf32>

// The result of a block that the next block reads is kept, also if it is read through a view. An op
// without a scope belongs to the block of its users.
// BLOCK-LABEL: func.func @step
// SELECT-LABEL: func.func @step
// MATCH-LABEL: func.func @step
// HALF-LABEL: func.func @step
func.func @step(%x: tensor<64x64xf32>, %w0: tensor<64x64xf32>, %w1: tensor<64x64xf32>) -> tensor<64x64xf32> {
  // BLOCK: nn.matmul %{{.*}} {mem.recompute
  // SELECT: nn.matmul %{{[^{]*}} {nn.phase
  // MATCH: nn.matmul %{{[^{]*}} {nn.phase
  // HALF: nn.matmul %{{.*}} {mem.recompute
  %0 = nn.matmul %x, %w0 {nn.phase = #nn.phase<forward>, nn.scope = "h.0.fc"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  // BLOCK: nn.tanh %{{.*}} {mem.recompute
  // SELECT: nn.tanh %{{.*}} {mem.recompute
  // MATCH: nn.tanh %{{[^{]*}} {nn.phase
  %1 = nn.tanh %0 {nn.phase = #nn.phase<forward>} : tensor<64x64xf32>
  // BLOCK: nn.add %{{[^{]*}} {nn.phase
  // SELECT: nn.add %{{[^{]*}} {nn.phase
  %2 = nn.add %1, %x {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<64x64xf32>
  %3 = nn.reshape %2 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<64x64xf32> -> tensor<64x64xf32>
  // BLOCK: nn.matmul %{{.*}} {mem.recompute
  // SELECT: nn.matmul %{{[^{]*}} {nn.phase
  // MATCH: nn.matmul %{{.*}} {mem.recompute
  // HALF: nn.matmul %{{[^{]*}} {nn.phase
  %4 = nn.matmul %3, %w1 {nn.phase = #nn.phase<forward>, nn.scope = "h.1.fc"} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  // BLOCK: nn.tanh %{{.*}} {mem.recompute
  // SELECT: nn.tanh %{{.*}} {mem.recompute
  // MATCH: nn.tanh %{{.*}} {mem.recompute
  %5 = nn.tanh %4 {nn.phase = #nn.phase<forward>, nn.scope = "h.1"} : tensor<64x64xf32>
  // The sum of a row is much smaller than the row.
  // SELECT: nn.reduce sum %{{[^{]*}} {nn.phase
  %6 = nn.reduce sum %5 dims = [1] {nn.phase = #nn.phase<forward>, nn.scope = "h.1"} : tensor<64x64xf32> -> tensor<64xf32>
  // Outside of blocks only selective recomputes.
  // BLOCK: nn.exp %{{[^{]*}} {nn.phase
  // SELECT: nn.exp %{{.*}} {mem.recompute
  %7 = nn.exp %x {nn.phase = #nn.phase<forward>} : tensor<64x64xf32>
  %8 = nn.broadcast %6 dims = [0] {nn.phase = #nn.phase<backward>, nn.scope = "h.1"} : tensor<64xf32> -> tensor<64x64xf32>
  %9 = nn.mul %8, %5 {nn.phase = #nn.phase<backward>, nn.scope = "h.1"} : tensor<64x64xf32>
  %10 = nn.mul %9, %1 {nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<64x64xf32>
  %11 = nn.mul %10, %7 {nn.phase = #nn.phase<backward>} : tensor<64x64xf32>
  return %11 : tensor<64x64xf32>
}

// A value that the model computes in front of a block is the block's input, which all policies keep.
// BLOCK-LABEL: func.func @input
// SELECT-LABEL: func.func @input
func.func @input(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
  // BLOCK-NEXT: nn.exp %{{[^{]*}} {nn.phase
  // SELECT-NEXT: nn.exp %{{[^{]*}} {nn.phase
  %0 = nn.exp %x {nn.phase = #nn.phase<forward>, nn.scope = ""} : tensor<64x64xf32>
  // BLOCK-NEXT: nn.tanh %{{.*}} {mem.recompute
  // SELECT-NEXT: nn.tanh %{{.*}} {mem.recompute
  %1 = nn.tanh %0 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<64x64xf32>
  %2 = nn.mul %1, %0 {nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}
