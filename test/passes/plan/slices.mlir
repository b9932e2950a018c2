// A slice of a slice along another axis is placed in the buffer of the first slice's source.
// RUN: shale-opt %s --shale-plan --shale-verify-plan > %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: shale-run %s --ranks 4 --compare=%t.mlir --exact | FileCheck %s --check-prefix=SAME
// SAME: @step: 1 values, 0 differ in their bits

// CHECK-LABEL: rt.func @step
// CHECK: %[[ROWS:.*]] = rt.buffer constant
// CHECK: %[[FLAT:.*]] = rt.view %[[ROWS]] offset = 0 : memref<8x2xf32> -> memref<16xf32>
// CHECK: %[[HALF:.*]] = rt.shard %[[FLAT]] axis = "replica" : memref<16xf32> -> memref<8xf32>
// CHECK: rt.shard %[[HALF]] axis = "fsdp" : memref<8xf32> -> memref<4xf32>
module {
  dist.mesh @mesh <[replica "replica"=2, shard "fsdp"=2]>
  func.func @step(%x: tensor<2x2xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.binding = "tokens", nn.batch_dim = 0 : i64})
      -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "loss"}) {
    %rows = nn.constant dense<[[0.0, 1.0], [2.0, 3.0], [4.0, 5.0], [6.0, 7.0], [8.0, 9.0], [10.0, 11.0], [12.0, 13.0], [14.0, 15.0]]> : tensor<8x2xf32>
    %half = dist.slice %rows over "replica" dim = 0 : tensor<8x2xf32> -> tensor<4x2xf32>
    %own = dist.slice %half over "fsdp" dim = 0 : tensor<4x2xf32> -> tensor<2x2xf32>
    %y = nn.matmul %x, %own : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    %sum = nn.sum_squares %y : (tensor<2x2xf32>) -> tensor<f32>
    %p = dist.start %sum : tensor<f32> -> !dist.pending<tensor<f32>> {
    ^bb0(%a: tensor<f32>):
      %r = dist.all_reduce sum %a over "fsdp" : tensor<f32>
      dist.yield %r : tensor<f32>
    }
    %s = dist.wait %p : !dist.pending<tensor<f32>>
    %q = dist.start %s : tensor<f32> -> !dist.pending<tensor<f32>> {
    ^bb0(%a: tensor<f32>):
      %r = dist.all_reduce sum %a over "replica" : tensor<f32>
      dist.yield %r : tensor<f32>
    }
    %loss = dist.wait %q : !dist.pending<tensor<f32>>
    return %loss : tensor<f32>
  }
}
