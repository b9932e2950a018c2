// The result of a sum over ranks is not computed again. The smallest value that stands for it is kept: here the residual stream in bf16.
// RUN: shale-opt %s --shale-annotate-recompute=recompute=block -o %t.marked.mlir
// RUN: FileCheck %s < %t.marked.mlir
// RUN: shale-opt %t.marked.mlir --shale-materialize-recompute --shale-verify-memory -o %t.mlir
// RUN: shale-run %s --ranks=2 --compare=%t.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL: @step: {{.*}} 0 differ in their bits
// EQUAL: @wide: {{.*}} 0 differ in their bits

dist.mesh @mesh <[tensor "tp"=2]>
nn.state @h.0.w role = param type = tensor<4x4xf32>
nn.state @h.1.w role = param type = tensor<4x4xf32>

// CHECK-LABEL: @step
func.func @step(%x: tensor<4x4xbf16>, %p: tensor<4x4xf32>) -> tensor<4x4xbf16> {
  // CHECK: dist.all_reduce sum %{{.*}} over "tp" {nn.phase = #forward
  %0 = dist.all_reduce sum %p over "tp" {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32>
  // CHECK: nn.cast %{{.*}} {mem.recompute
  %1 = nn.cast %x {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xbf16> -> tensor<4x4xf32>
  // CHECK: nn.add %{{.*}} {mem.recompute
  %2 = nn.add %0, %1 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32>
  // CHECK: nn.cast %{{.*}} {nn.phase = #forward
  %3 = nn.cast %2 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32> -> tensor<4x4xbf16>
  // CHECK: nn.tanh %{{.*}} {mem.recompute
  %4 = nn.tanh %3 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xbf16>
  %5 = nn.exp %4 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xbf16>
  %6 = nn.add %5, %3 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xbf16>
  %7 = nn.neg %6 {nn.phase = #nn.phase<forward>, nn.scope = "head"} : tensor<4x4xbf16>
  %8 = nn.mul %7, %4 {nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<4x4xbf16>
  return %8 : tensor<4x4xbf16>
}

// Two readers, or none that is smaller: the sum is kept.
// CHECK-LABEL: @wide
func.func @wide(%x: tensor<4x4xf32>, %p: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = dist.all_reduce sum %p over "tp" {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32>
  // CHECK: nn.add %{{.*}} {mem.recompute
  %1 = nn.add %0, %x {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32>
  // CHECK: nn.cast %{{.*}} {mem.recompute
  %2 = nn.cast %1 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32> -> tensor<4x4xbf16>
  // CHECK: nn.tanh %{{.*}} {mem.recompute
  %3 = nn.tanh %1 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32>
  %4 = nn.cast %2 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xbf16> -> tensor<4x4xf32>
  %5 = nn.add %3, %4 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32>
  %6 = nn.neg %5 {nn.phase = #nn.phase<forward>, nn.scope = "head"} : tensor<4x4xf32>
  %7 = nn.mul %6, %3 {nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<4x4xf32>
  %8 = nn.mul %7, %4 {nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<4x4xf32>
  return %8 : tensor<4x4xf32>
}
