// The pass alone, on a program that no other pass has ordered. Copies that only unread copies read are removed, and no bit changes.
// RUN: shale-opt %s --shale-schedule-transfers -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: shale-run %s --compare=%t.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL: @kept: 1 values, 0 differ in their bits

// CHECK-LABEL: func.func @kept
// CHECK: %[[OUT:.*]] = mem.start
// CHECK: %[[HOST:.*]] = mem.wait %[[OUT]]
// CHECK: %[[BACK:.*]] = mem.start
// CHECK: %[[DEVICE:.*]] = mem.wait %[[BACK]]
// CHECK-NOT: mem.
// CHECK: nn.add
func.func @kept(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4xf32> {nn.name = "sum"}) {
  %y = nn.exp %x : tensor<4xf32>
  %host = mem.offload %y : tensor<4xf32>
  %unread = mem.reload %host : tensor<4xf32>
  %other = mem.offload %x : tensor<4xf32>
  %gone = mem.reload %other : tensor<4xf32>
  %device = mem.reload %host : tensor<4xf32>
  %sum = nn.add %x, %device : tensor<4xf32>
  return %sum : tensor<4xf32>
}
