// An op that allocates memory is delayed past one that frees some, if this lowers the largest sum of live bytes between them.
// RUN: shale-opt %s --shale-stage-schedule --shale-verify-scheduled -o %t.scheduled.mlir
// RUN: FileCheck %s --input-file %t.scheduled.mlir
// RUN: shale-opt %t.scheduled.mlir --shale-plan --shale-verify-plan -o %t.planned.mlir
// RUN: shale-run %s --ranks 2 --compare=%t.scheduled.mlir --exact | FileCheck %s --check-prefix=EQUAL
// RUN: shale-run %t.scheduled.mlir --ranks 2 --compare=%t.planned.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @gathered: 2 values, 0 differ in their bits
// EQUAL-DAG: @kept: 2 values, 0 differ in their bits
// EQUAL-DAG: @overwritten: 2 values, 0 differ in their bits
// EQUAL-DAG: @phases: 2 values, 0 differ in their bits

module attributes {dist.strategy = #dist.strategy<full>} {
  dist.mesh @mesh <[shard "fsdp"=2]>
  dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 1024, segments = [#dist.segment<@w, offset = 0, shape = [16, 64]>]>]
  nn.state @w role = param type = tensor<16x64xf32>
  nn.state @f role = param type = tensor<1024xf32> {dist.unit = @u, dist.group = 0 : i64, dist.axis = "fsdp"}

  // The gathered weight, 4 KiB, is read for the last time by the gradient of the input: its own gradient, 4 KiB too, is made after that.
  // CHECK-LABEL: func.func @gathered
  // CHECK: nn.matmul {{.*}} transpose_rhs
  // CHECK: nn.matmul {{.*}} transpose_lhs
  func.func @gathered(%x: tensor<8x16xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %y: tensor<8x64xf32> {nn.role = #nn.role<input>, nn.name = "y"},
                      %f: tensor<512xf32> {nn.state = @f}) -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "sum"}, tensor<512xf32> {nn.state = @f}) {
    %g = dist.unit_gather %f @u[0] over "fsdp" : tensor<512xf32> -> tensor<1024xf32>
    %w = dist.unit_view %g @u[0] @w : tensor<1024xf32> -> tensor<16x64xf32>
    %dw = nn.matmul %x, %y transpose_lhs : (tensor<8x16xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
    %dx = nn.matmul %y, %w transpose_rhs : (tensor<8x64xf32>, tensor<16x64xf32>) -> tensor<8x16xf32>
    %p = dist.unit_pack @u[0] [@w](%dw) : (tensor<16x64xf32>) -> tensor<1024xf32>
    %r = dist.reduce_scatter sum %p over "fsdp" dim = 0 : tensor<1024xf32> -> tensor<512xf32>
    %s = nn.sum_squares %dx : (tensor<8x16xf32>) -> tensor<f32>
    return %s, %r : tensor<f32>, tensor<512xf32>
  }

  // No weight is gathered, and the operands of the gradient, 512 bytes, would have to stay live: the order does not change.
  // CHECK-LABEL: func.func @kept
  // CHECK: nn.matmul {{.*}} transpose_lhs
  // CHECK: nn.matmul {{.*}} transpose_rhs
  func.func @kept(%x: tensor<8x16xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %y: tensor<8x64xf32> {nn.role = #nn.role<input>, nn.name = "y"},
                  %w: tensor<8x64xf32> {nn.role = #nn.role<input>, nn.name = "v"}, %old: tensor<16x64xf32> {nn.state = @w}) -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "sum"}, tensor<16x64xf32> {nn.state = @w}) {
    %h = nn.tanh %x : tensor<8x16xf32>
    %dw = nn.matmul %h, %y transpose_lhs : (tensor<8x16xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
    %dx = nn.matmul %y, %w transpose_rhs : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x8xf32>
    %s = nn.sum_squares %dx : (tensor<8x8xf32>) -> tensor<f32>
    return %s, %dw : tensor<f32>, tensor<16x64xf32>
  }

  // Not past an op that overwrites an operand.
  // CHECK-LABEL: func.func @overwritten
  // CHECK: nn.matmul {{.*}} transpose_lhs
  // CHECK: nn.tanh
  // CHECK: nn.matmul {{.*}} transpose_rhs
  func.func @overwritten(%x: tensor<8x16xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %y: tensor<8x64xf32> {nn.role = #nn.role<input>, nn.name = "y"},
                         %f: tensor<512xf32> {nn.state = @f}) -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "sum"}, tensor<512xf32> {nn.state = @f}) {
    %g = dist.unit_gather %f @u[0] over "fsdp" : tensor<512xf32> -> tensor<1024xf32>
    %w = dist.unit_view %g @u[0] @w : tensor<1024xf32> -> tensor<16x64xf32>
    %a = nn.neg %y : tensor<8x64xf32>
    %dw = nn.matmul %x, %a transpose_lhs : (tensor<8x16xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
    %b = nn.tanh %a : tensor<8x64xf32>
    %dx = nn.matmul %b, %w transpose_rhs : (tensor<8x64xf32>, tensor<16x64xf32>) -> tensor<8x16xf32>
    %p = dist.unit_pack @u[0] [@w](%dw) : (tensor<16x64xf32>) -> tensor<1024xf32>
    %r = dist.reduce_scatter sum %p over "fsdp" dim = 0 : tensor<1024xf32> -> tensor<512xf32>
    %s = nn.sum_squares %dx : (tensor<8x16xf32>) -> tensor<f32>
    return %s, %r : tensor<f32>, tensor<512xf32>
  }

  // Not into another phase.
  // CHECK-LABEL: func.func @phases
  // CHECK: nn.matmul {{.*}} transpose_lhs
  // CHECK: nn.matmul {{.*}} transpose_rhs
  func.func @phases(%x: tensor<8x16xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %y: tensor<8x64xf32> {nn.role = #nn.role<input>, nn.name = "y"},
                    %f: tensor<512xf32> {nn.state = @f}) -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "sum"}, tensor<512xf32> {nn.state = @f}) {
    %g = dist.unit_gather %f @u[0] over "fsdp" : tensor<512xf32> -> tensor<1024xf32>
    %w = dist.unit_view %g @u[0] @w : tensor<1024xf32> -> tensor<16x64xf32>
    %dw = nn.matmul %x, %y transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<8x16xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
    %dx = nn.matmul %y, %w transpose_rhs {nn.phase = #nn.phase<update>} : (tensor<8x64xf32>, tensor<16x64xf32>) -> tensor<8x16xf32>
    %p = dist.unit_pack @u[0] [@w](%dw) : (tensor<16x64xf32>) -> tensor<1024xf32>
    %r = dist.reduce_scatter sum %p over "fsdp" dim = 0 : tensor<1024xf32> -> tensor<512xf32>
    %s = nn.sum_squares %dx : (tensor<8x16xf32>) -> tensor<f32>
    return %s, %r : tensor<f32>, tensor<512xf32>
  }
}
