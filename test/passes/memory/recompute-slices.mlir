// --shale-materialize-recompute on annotated slices: the clones of a block are behind one barrier, which also takes a gradient,
// in front of the first reader. Only ops that are read are cloned.
// RUN: shale-opt %s --shale-annotate-recompute=recompute=block --shale-materialize-recompute --shale-verify-memory -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: shale-run %s --compare=%t.mlir --exact | FileCheck %s --check-prefix=EQUAL
// Without its barrier a clone would be merged with the original. Deleting any barrier is found.
// RUN: %python %S/mutate.py shale-opt %t.mlir | FileCheck %s --check-prefix=MUTANTS
// EQUAL: 0 differ in their bits
// MUTANTS: 2 of mem{{..}}barrier, each is missed

nn.state @h.0.w role = param type = tensor<4x4xf32>
nn.state @h.1.w role = param type = tensor<4x4xf32>

// CHECK: func.func @step({{.*}}) -> tensor<4x4xf32> attributes {mem.recompute_flops = 160 : i64}
func.func @step(%x: tensor<4x4xf32>, %w0: tensor<4x4xf32>, %w1: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = nn.matmul %x, %w0 {nn.phase = #nn.phase<forward>, nn.scope = "h.0.fc"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = nn.tanh %0 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32>
  %unread = nn.exp %1 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32>
  %2 = nn.add %unread, %x {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32>
  %3 = nn.tanh %2 {nn.phase = #nn.phase<forward>, nn.scope = "h.1"} : tensor<4x4xf32>
  %4 = nn.exp %3 {nn.phase = #nn.phase<forward>, nn.scope = "h.1"} : tensor<4x4xf32>
  %5 = nn.neg %4 {nn.phase = #nn.phase<forward>, nn.scope = "head"} : tensor<4x4xf32>
  // CHECK: %[[G:.*]] = nn.mul
  %6 = nn.mul %5, %5 {nn.phase = #nn.phase<backward>, nn.scope = "head"} : tensor<4x4xf32>
  // CHECK: %[[B:.*]]:2 = mem.barrier %{{.*}}, %[[G]] {nn.phase = #backward}
  // CHECK: %[[C:.*]] = nn.tanh %[[B]]#0 {mem.recomputed, nn.phase = #backward, nn.scope = "h.1"}
  // CHECK: %[[G1:.*]] = nn.mul %[[G]], %[[C]]
  %7 = nn.mul %6, %3 {nn.phase = #nn.phase<backward>, nn.scope = "h.1"} : tensor<4x4xf32>
  // CHECK-NOT: nn.exp
  // CHECK: %[[B0:.*]]:3 = mem.barrier %{{.*}}, %{{.*}}, %[[G1]]
  // CHECK: %[[M:.*]] = nn.matmul %[[B0]]#0, %[[B0]]#1 {mem.recomputed, nn.phase = #backward
  // CHECK: %[[T:.*]] = nn.tanh %[[M]]
  // CHECK: nn.mul %[[G1]], %[[T]]
  %8 = nn.mul %7, %1 {nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<4x4xf32>
  return %8 : tensor<4x4xf32>
}
