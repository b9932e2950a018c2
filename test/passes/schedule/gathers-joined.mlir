// Gathers of groups of one unit that are used together are one exchange: a bucket.
// RUN: shale-opt %s --shale-split-collectives --shale-order-ops -o %t.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers | FileCheck %s
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=0" | FileCheck %s
// RUN: shale-opt %t.mlir --shale-prefetch-gathers -o %t.gathered.mlir
// RUN: shale-run %s --ranks 4 --compare=%t.gathered.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL: @step: 1 values, 0 differ in their bits

// The group of the split weight and that of the whole scale start side by side, although the scale is used first. The other unit, and
// the second gather of the first one, which begins when the first is no longer whole, are exchanges of their own.
module attributes {dist.strategy = #dist.strategy<full>} {
  dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
  dist.unit @a on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@sa, offset = 0, shape = [4, 4]>]>,
                                          #dist.group<"f32.tp", type = f32, wire = f32, reduce = f32, trained = true, axes = ["tp"], count = 32, segments = [#dist.segment<@wa, offset = 0, shape = [4, 4]>]>]
  dist.unit @b on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@wb, offset = 16, shape = [4, 4]>]>]
  nn.state @sa role = param type = tensor<4x4xf32>
  nn.state @wa role = param type = tensor<4x4xf32>
  nn.state @wb role = param type = tensor<4x4xf32>
  nn.state @fs role = param type = tensor<32xf32> {dist.unit = @a, dist.group = 0 : i64, dist.axis = "fsdp"}
  nn.state @fa role = param type = tensor<32xf32> {dist.unit = @a, dist.group = 1 : i64, dist.axis = "fsdp"}
  nn.state @fb role = param type = tensor<32xf32> {dist.unit = @b, dist.group = 0 : i64, dist.axis = "fsdp"}

  // CHECK-LABEL: func.func @step
  // CHECK: dist.start %{{.*}} {dist.bucket = 0 : i64}
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: dist.unit_gather {{.*}} @a[0]
  // CHECK-NEXT: dist.yield
  // CHECK-NEXT: }
  // CHECK-NEXT: dist.start %{{.*}} {dist.bucket = 0 : i64}
  // CHECK-NEXT: ^bb0
  // CHECK-NEXT: dist.unit_gather {{.*}} @a[1]
  // CHECK-NOT: dist.bucket
  // CHECK: dist.unit_gather {{.*}} @b[0]
  // CHECK-NOT: dist.bucket
  // CHECK: dist.unit_gather {{.*}} @a[0]
  // CHECK-NOT: dist.bucket
  func.func @step(%x: tensor<4x4xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %fs: tensor<16xf32> {nn.state = @fs},
                  %fa: tensor<16xf32> {nn.state = @fa}, %fb: tensor<16xf32> {nn.state = @fb}) -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "loss"}) {
    %gs = dist.unit_gather %fs @a[0] over "fsdp" : tensor<16xf32> -> tensor<32xf32>
    %ga = dist.unit_gather %fa @a[1] over "fsdp" : tensor<16xf32> -> tensor<32xf32>
    %gb = dist.unit_gather %fb @b[0] over "fsdp" : tensor<16xf32> -> tensor<32xf32>
    %again = mem.barrier %fs : tensor<16xf32>
    %gs2 = dist.unit_gather %again @a[0] over "fsdp" : tensor<16xf32> -> tensor<32xf32>
    %sa = dist.unit_view %gs @a[0] @sa : tensor<32xf32> -> tensor<4x4xf32>
    %wa = dist.unit_view %ga @a[1] @wa : tensor<32xf32> -> tensor<4x4xf32>
    %wb = dist.unit_view %gb @b[0] @wb : tensor<32xf32> -> tensor<4x4xf32>
    %sa2 = dist.unit_view %gs2 @a[0] @sa : tensor<32xf32> -> tensor<4x4xf32>
    %0 = nn.mul %x, %sa : tensor<4x4xf32>
    %1 = nn.matmul %0, %wa : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = nn.mul %1, %sa : tensor<4x4xf32>
    %3 = nn.matmul %2, %wb : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %4 = nn.mul %3, %sa2 : tensor<4x4xf32>
    %loss = nn.sum_squares %4 {nn.phase = #nn.phase<update>} : (tensor<4x4xf32>) -> tensor<f32>
    return %loss : tensor<f32>
  }
}
