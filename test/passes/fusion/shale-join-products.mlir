// RUN: shale-opt %s --shale-join-products | FileCheck %s
// RUN: shale-opt %s --shale-join-products -o %t.mlir
// RUN: shale-opt %t.mlir | FileCheck %s
// RUN: shale-run --as=f64 %s --compare=%t.mlir | FileCheck %s --check-prefix=EQUAL
// EQUAL: @three: 2 values, 0 differ

#q = #dist.segment<@q, offset = 0, shape = [32, 64], decay = 1.0 : f64>
#k = #dist.segment<@k, offset = 2048, shape = [32, 64], decay = 1.0 : f64>
#v = #dist.segment<@v, offset = 4096, shape = [32, 64], decay = 1.0 : f64>
#far = #dist.segment<@far, offset = 6176, shape = [32, 64], decay = 1.0 : f64>
#group = #dist.group<"bf16", type = bf16, wire = bf16, reduce = f32, trained = true, axes = [], count = 8224, segments = [#q, #k, #v, #far]>
module attributes {nn.target = "cuda:sm_90a"} {
  dist.mesh @mesh <[shard "fsdp"=1]>
  dist.unit @u on @mesh["fsdp"] groups = [#group]

  // Three of four layers have weights that follow one another; the sum keeps the term of the fourth, and
  // another one.
  // CHECK-LABEL: func.func @three
  // CHECK: %[[FLAT:.*]]: tensor<8224xbf16>, %[[X:.*]]: tensor<16x64xbf16>
  // CHECK: %[[DY:.*]] = nn.concat %[[Q:.*]], %[[K:.*]], %[[V:.*]] dim = 1 : (tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>) -> tensor<16x96xbf16>
  // CHECK: %[[W:.*]] = dist.unit_view %[[FLAT]] @u[0] @q : tensor<8224xbf16> -> tensor<96x64xbf16>
  // CHECK: %[[DX:.*]] = nn.matmul %[[DY]], %[[W]] : (tensor<16x96xbf16>, tensor<96x64xbf16>) -> tensor<16x64xbf16>
  // CHECK: %[[WIDE:.*]] = nn.cast %[[DX]]
  // CHECK: %[[DW:.*]] = nn.matmul %[[DY]], %[[X]] transpose_lhs : (tensor<16x96xbf16>, tensor<16x64xbf16>) -> tensor<96x64xf32>
  // CHECK: %[[SUM:.*]] = nn.add %[[WIDE]], %{{.*}}
  // CHECK: %[[ALL:.*]] = nn.add %[[SUM]], %{{.*}}
  // CHECK-NOT: nn.add
  // CHECK: dist.unit_pack @u[0] [@q, @far](%[[DW]], %{{.*}}) : (tensor<96x64xf32>, tensor<32x64xf32>) -> tensor<8224xf32>
  // CHECK: return %[[ALL]]
  func.func @three(%flat: tensor<8224xbf16>, %x: tensor<16x64xbf16>, %dq: tensor<16x32xf32>, %other: tensor<16x64xf32>)
      -> (tensor<16x64xf32>, tensor<8224xf32>) {
    %q = dist.unit_view %flat @u[0] @q : tensor<8224xbf16> -> tensor<32x64xbf16>
    %k = dist.unit_view %flat @u[0] @k : tensor<8224xbf16> -> tensor<32x64xbf16>
    %v = dist.unit_view %flat @u[0] @v : tensor<8224xbf16> -> tensor<32x64xbf16>
    %far = dist.unit_view %flat @u[0] @far : tensor<8224xbf16> -> tensor<32x64xbf16>
    %dy_q = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
    %dy_k = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
    %dy_v = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
    %dy_far = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
    %dx_q = nn.matmul %dy_q, %q : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    %dx_k = nn.matmul %dy_k, %k : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    %dx_v = nn.matmul %dy_v, %v : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    %dx_far = nn.matmul %dy_far, %far : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    %dw_q = nn.matmul %dy_q, %x transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
    %dw_k = nn.matmul %dy_k, %x transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
    %dw_v = nn.matmul %dy_v, %x transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
    %dw_far = nn.matmul %dy_far, %x transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
    %wide_q = nn.cast %dx_q : tensor<16x64xbf16> -> tensor<16x64xf32>
    %wide_k = nn.cast %dx_k : tensor<16x64xbf16> -> tensor<16x64xf32>
    %wide_v = nn.cast %dx_v : tensor<16x64xbf16> -> tensor<16x64xf32>
    %wide_far = nn.cast %dx_far : tensor<16x64xbf16> -> tensor<16x64xf32>
    %s0 = nn.add %wide_far, %wide_v : tensor<16x64xf32>
    %s1 = nn.add %s0, %wide_k : tensor<16x64xf32>
    %s2 = nn.add %s1, %wide_q : tensor<16x64xf32>
    %dx = nn.add %s2, %other : tensor<16x64xf32>
    %packed = dist.unit_pack @u[0] [@q, @k, @v, @far](%dw_q, %dw_k, %dw_v, %dw_far)
        : (tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<8224xf32>
    return %dx, %packed : tensor<16x64xf32>, tensor<8224xf32>
  }

  // The layers read different values: nothing changes.
  // CHECK-LABEL: func.func @inputs
  // CHECK-NOT: nn.concat
  func.func @inputs(%flat: tensor<8224xbf16>, %x: tensor<16x64xbf16>, %dq: tensor<16x32xf32>, %other: tensor<16x64xf32>)
      -> (tensor<16x64xf32>, tensor<8224xf32>) {
    %y = nn.cast %other : tensor<16x64xf32> -> tensor<16x64xbf16>
    %q = dist.unit_view %flat @u[0] @q : tensor<8224xbf16> -> tensor<32x64xbf16>
    %k = dist.unit_view %flat @u[0] @k : tensor<8224xbf16> -> tensor<32x64xbf16>
    %dy_q = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
    %dy_k = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
    %dx_q = nn.matmul %dy_q, %q : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    %dx_k = nn.matmul %dy_k, %k : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    %dw_q = nn.matmul %dy_q, %x transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
    %dw_k = nn.matmul %dy_k, %y transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
    %wide_q = nn.cast %dx_q : tensor<16x64xbf16> -> tensor<16x64xf32>
    %wide_k = nn.cast %dx_k : tensor<16x64xbf16> -> tensor<16x64xf32>
    %dx = nn.add %wide_k, %wide_q : tensor<16x64xf32>
    %packed = dist.unit_pack @u[0] [@q, @k](%dw_q, %dw_k) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<8224xf32>
    return %dx, %packed : tensor<16x64xf32>, tensor<8224xf32>
  }

  // The gradient of a layer's result has a third reader: nothing changes. The sum of one product with itself
  // is no pair of layers, either.
  // CHECK-LABEL: func.func @readers
  // CHECK-NOT: nn.concat
  func.func @readers(%flat: tensor<8224xbf16>, %x: tensor<16x64xbf16>, %dq: tensor<16x32xf32>)
      -> (tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x32xbf16>, tensor<8224xf32>) {
    %q = dist.unit_view %flat @u[0] @q : tensor<8224xbf16> -> tensor<32x64xbf16>
    %k = dist.unit_view %flat @u[0] @k : tensor<8224xbf16> -> tensor<32x64xbf16>
    %dy_q = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
    %dy_k = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
    %dx_q = nn.matmul %dy_q, %q : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    %dx_k = nn.matmul %dy_k, %k : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    %dw_q = nn.matmul %dy_q, %x transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
    %dw_k = nn.matmul %dy_k, %x transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
    %wide_q = nn.cast %dx_q : tensor<16x64xbf16> -> tensor<16x64xf32>
    %wide_k = nn.cast %dx_k : tensor<16x64xbf16> -> tensor<16x64xf32>
    %dx = nn.add %wide_k, %wide_q : tensor<16x64xf32>
    %twice = nn.add %dx, %dx : tensor<16x64xf32>
    %packed = dist.unit_pack @u[0] [@q, @k](%dw_q, %dw_k) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<8224xf32>
    return %dx, %twice, %dy_q, %packed : tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x32xbf16>, tensor<8224xf32>
  }
}
