// Debian's LLVM counts no statistics of passes, so shale-opt counts ops before and after each.
// RUN: shale-opt %s --pass-pipeline='builtin.module(func.func(canonicalize),shale-fusion)' --mlir-pass-statistics -o %t.mlir 2>&1 | FileCheck %s
// RUN: shale-opt %s --shale-fusion -o %t.mlir 2>&1 | count 0
// CHECK: ops before and after each pass:
// CHECK-NEXT: canonicalize: 6 -> 5; nn.exp 3 -> 2
// CHECK-NEXT: shale-fusion: 7 -> 11; nn.cluster 0 -> 2, nn.yield 0 -> 2

// A pass that changes nothing, and one that fails.
// RUN: shale-opt %t.mlir --canonicalize --mlir-pass-statistics -o %t.again.mlir 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: canonicalize: [[N:[0-9]+]] -> [[N]]{{$}}
// RUN: not shale-opt %s --shale-autodiff --mlir-pass-statistics 2>&1 | FileCheck %s --check-prefix=FAILS
// FAILS: error:
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.exp %x : tensor<4xf32>
  %1 = nn.tanh %0 : tensor<4xf32>
  %dead = nn.exp %x : tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.exp %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
