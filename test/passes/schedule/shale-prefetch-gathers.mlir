// Gathers ahead of use: one unit by default, at most as many as may be whole at once.
// RUN: shale-opt %s --shale-split-collectives --shale-order-ops -o %t.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers | FileCheck %s
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=0" | FileCheck %s --check-prefix=LAZY
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=3 max-gathers-in-flight=3" | FileCheck %s --check-prefix=EAGER
// RUN: shale-opt %t.mlir --shale-prefetch-gathers -o %t.gathered.mlir
// RUN: shale-run %s --ranks 2 --compare=%t.gathered.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL: @step: 3 values, 0 differ in their bits
// RUN: not shale-opt %t.mlir --shale-prefetch-gathers="prefetch=-1" 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not shale-opt %t.mlir --shale-prefetch-gathers="max-gathers-in-flight=0" 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: prefetch must be at least 0 and max-gathers-in-flight at least 1

// Three units of one weight each, fully sharded over two ranks.
module attributes {dist.strategy = #dist.strategy<full>} {
  dist.mesh @mesh <[shard "fsdp"=2]>
  dist.unit @a on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@wa, offset = 0, shape = [4, 4]>]>]
  dist.unit @b on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@wb, offset = 16, shape = [4, 4]>]>]
  dist.unit @c on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@wc, offset = 0, shape = [4, 4]>]>]
  nn.state @wa role = param type = tensor<4x4xf32>
  nn.state @wb role = param type = tensor<4x4xf32>
  nn.state @wc role = param type = tensor<4x4xf32>
  nn.state @fa role = param type = tensor<32xf32> {dist.unit = @a, dist.group = 0 : i64, dist.axis = "fsdp"}
  nn.state @fb role = param type = tensor<32xf32> {dist.unit = @b, dist.group = 0 : i64, dist.axis = "fsdp"}
  nn.state @fc role = param type = tensor<32xf32> {dist.unit = @c, dist.group = 0 : i64, dist.axis = "fsdp"}

  // The gather of a is wanted at once; that of b starts when a comes into use; that of c only when a is no longer whole.
  // CHECK-LABEL: func.func @step
  // CHECK: %[[PA:.*]] = dist.start %{{.*}}
  // CHECK: dist.unit_gather {{.*}} @a[0]
  // CHECK: %[[A:.*]] = dist.wait %[[PA]]
  // CHECK: dist.unit_gather {{.*}} @b[0]
  // CHECK: dist.unit_view %[[A]] @a[0] @wa
  // CHECK: nn.matmul
  // CHECK: dist.wait
  // CHECK: dist.unit_gather {{.*}} @c[0]
  // CHECK: dist.unit_view {{.*}} @b[0] @wb
  // CHECK: nn.matmul
  // CHECK: dist.wait
  // CHECK: dist.unit_view {{.*}} @c[0] @wc
  // CHECK: nn.matmul

  // LAZY-LABEL: func.func @step
  // LAZY: nn.matmul
  // LAZY: dist.unit_gather {{.*}} @b[0]
  // LAZY: nn.matmul
  // LAZY: dist.unit_gather {{.*}} @c[0]

  // EAGER-LABEL: func.func @step
  // EAGER: dist.unit_gather {{.*}} @a[0]
  // EAGER: dist.unit_gather {{.*}} @b[0]
  // EAGER: dist.unit_gather {{.*}} @c[0]
  // EAGER: nn.matmul
  func.func @step(%x: tensor<4x4xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %fa: tensor<16xf32> {nn.state = @fa},
                  %fb: tensor<16xf32> {nn.state = @fb}, %fc: tensor<16xf32> {nn.state = @fc})
      -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "loss"}, tensor<16xf32> {nn.state = @fb}, tensor<16xf32> {nn.state = @fc}) {
    %ga = dist.unit_gather %fa @a[0] over "fsdp" : tensor<16xf32> -> tensor<32xf32>
    %gb = dist.unit_gather %fb @b[0] over "fsdp" : tensor<16xf32> -> tensor<32xf32>
    %gc = dist.unit_gather %fc @c[0] over "fsdp" : tensor<16xf32> -> tensor<32xf32>
    %wa = dist.unit_view %ga @a[0] @wa : tensor<32xf32> -> tensor<4x4xf32>
    %wb = dist.unit_view %gb @b[0] @wb : tensor<32xf32> -> tensor<4x4xf32>
    %wc = dist.unit_view %gc @c[0] @wc : tensor<32xf32> -> tensor<4x4xf32>
    %0 = nn.matmul %x, %wa : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %1 = nn.matmul %0, %wb : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = nn.matmul %1, %wc : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %3 = nn.neg %2 : tensor<4x4xf32>
    %4 = nn.tanh %3 : tensor<4x4xf32>
    %pc = dist.unit_pack @c[0] [@wc](%2) : (tensor<4x4xf32>) -> tensor<32xf32>
    %rc = dist.reduce_scatter sum %pc over "fsdp" dim = 0 : tensor<32xf32> -> tensor<16xf32>
    %pb = dist.unit_pack @b[0] [@wb](%3) : (tensor<4x4xf32>) -> tensor<32xf32>
    %rb = dist.reduce_scatter sum %pb over "fsdp" dim = 0 : tensor<32xf32> -> tensor<16xf32>
    %loss = nn.sum_squares %4, %rb, %rc {nn.phase = #nn.phase<update>} : (tensor<4x4xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<f32>
    return %loss, %rb, %rc : tensor<f32>, tensor<16xf32>, tensor<16xf32>
  }
}
