// Collectives are split into start and wait. Unused ones are removed.
// RUN: shale-opt %s --shale-split-collectives | FileCheck %s
// RUN: shale-opt %s --shale-split-collectives -o %t.mlir
// RUN: shale-opt %t.mlir --shale-split-collectives --shale-verify-scheduled | FileCheck %s
// RUN: shale-run %s --ranks 2 --compare=%t.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL: @sum: 1 values, 0 differ in their bits

dist.mesh @mesh <[shard "fsdp"=2]>

// CHECK-LABEL: func.func @sum
// CHECK-NOT: nn.exp
// CHECK: %[[P:.*]] = dist.start
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<4xf32>):
// CHECK-NEXT: %[[R:.*]] = dist.all_reduce sum %[[A]] over "fsdp"
// CHECK-NEXT: dist.yield %[[R]]
// CHECK: %[[W:.*]] = dist.wait %[[P]]
// CHECK-NEXT: return %[[W]]
func.func @sum(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> tensor<4xf32> {
  %unused = nn.exp %x : tensor<4xf32>
  %0 = dist.all_reduce sum %x over "fsdp" : tensor<4xf32>
  return %0 : tensor<4xf32>
}
