// A block gathers the rows of a tensor axis again in the backward pass, from the rank's slice; the result of a sum over ranks is kept.
// RUN: shale-opt %s --shale-annotate-recompute=recompute=block --shale-materialize-recompute --shale-verify-memory -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: shale-run %s --ranks=2 --compare=%t.mlir --exact | FileCheck %s --check-prefix=EQUAL
// RUN: %python %S/mutate.py shale-opt %t.mlir | FileCheck %s --check-prefix=MUTANTS
// EQUAL: 0 differ in their bits
// MUTANTS: 1 of mem{{..}}barrier, each is missed

// Selective recomputation sends nothing twice.
// RUN: shale-opt %s --shale-annotate-recompute=recompute=selective --shale-materialize-recompute --shale-verify-memory | FileCheck %s --check-prefix=SELECT
// SELECT-COUNT-1: dist.all_gather
// SELECT-NOT: dist.all_gather

dist.mesh @mesh <[tensor "tp"=2]>
nn.state @h.0.w role = param type = tensor<4x4xf32>
nn.state @h.1.w role = param type = tensor<4x4xf32>

// CHECK: func.func @step(%[[X:[^:]*]]:
func.func @step(%x: tensor<2x4xf32>, %w0: tensor<4x4xf32>, %w1: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK: dist.all_gather %{{.*}} over "tp" dim = 0 {mem.recompute, nn.phase = #forward
  %n = nn.tanh %x {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<2x4xf32>
  %0 = dist.all_gather %n over "tp" dim = 0 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<2x4xf32> -> tensor<4x4xf32>
  %1 = nn.matmul %0, %w0 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: %[[S:.*]] = dist.all_reduce sum %{{.*}} over "tp" {nn.phase = #forward
  %2 = dist.all_reduce sum %1 over "tp" {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32>
  %3 = nn.exp %2 {nn.phase = #nn.phase<forward>, nn.scope = "h.0"} : tensor<4x4xf32>
  // CHECK: %[[B:.*]]:2 = mem.barrier
  // CHECK: %[[T:.*]] = nn.tanh %[[B]]#0 {mem.recomputed
  // CHECK: dist.all_gather %[[T]] over "tp" dim = 0 {mem.recomputed, nn.phase = #backward
  // CHECK-NOT: dist.all_reduce
  %4 = nn.neg %3 {nn.phase = #nn.phase<forward>, nn.scope = "head"} : tensor<4x4xf32>
  %5 = nn.mul %4, %4 {nn.phase = #nn.phase<backward>, nn.scope = "head"} : tensor<4x4xf32>
  %6 = nn.mul %5, %3 {nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<4x4xf32>
  %7 = nn.mul %6, %0 {nn.phase = #nn.phase<backward>, nn.scope = "h.0"} : tensor<4x4xf32>
  return %7 : tensor<4x4xf32>
}
