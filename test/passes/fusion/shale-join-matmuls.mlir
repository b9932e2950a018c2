// RUN: shale-opt %s --shale-join-matmuls | FileCheck %s
// RUN: shale-opt %s --shale-join-matmuls -o %t.mlir
// RUN: shale-opt %t.mlir | FileCheck %s
// RUN: shale-run --as=f64 %s --compare=%t.mlir | FileCheck %s --check-prefix=EQUAL
// EQUAL: @three: 2 values, 0 differ
// EQUAL: @grouped: 2 values, 0 differ

#q = #dist.segment<@q, offset = 0, shape = [32, 64]>
#k = #dist.segment<@k, offset = 2048, shape = [32, 64]>
#v = #dist.segment<@v, offset = 4096, shape = [32, 64]>
#far = #dist.segment<@far, offset = 6176, shape = [32, 64]>
#gq = #dist.segment<@gq, offset = 0, shape = [32, 64]>
#gk = #dist.segment<@gk, offset = 2048, shape = [16, 64]>
#gv = #dist.segment<@gv, offset = 3072, shape = [16, 64]>
#wa = #dist.segment<@wa, offset = 4096, shape = [48, 64]>
#wb = #dist.segment<@wb, offset = 7168, shape = [32, 64]>
#grouped = #dist.group<"bf16", type = bf16, wire = bf16, reduce = f32, trained = true, axes = [], count = 9216, segments = [#gq, #gk, #gv, #wa, #wb]>
#group = #dist.group<"bf16", type = bf16, wire = bf16, reduce = f32, trained = true, axes = [], count = 9216, segments = [#q, #k, #v, #far]>
module attributes {nn.target = "cuda:sm_90a"} {
  dist.mesh @mesh <[shard "fsdp"=1]>
  dist.unit @u on @mesh["fsdp"] groups = [#group]
  dist.unit @g on @mesh["fsdp"] groups = [#grouped]

  // Three of four layers have weights that follow one another; the sum keeps the term of the fourth, and
  // another one.
  // CHECK-LABEL: func.func @three
  // CHECK: %[[FLAT:.*]]: tensor<9216xbf16>, %[[X:.*]]: tensor<16x64xbf16>
  // CHECK: %[[DY:.*]] = nn.concat %[[Q:.*]], %[[K:.*]], %[[V:.*]] dim = 1 : (tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>) -> tensor<16x96xbf16>
  // CHECK: %[[W:.*]] = dist.unit_view %[[FLAT]] @u[0] @q : tensor<9216xbf16> -> tensor<96x64xbf16>
  // CHECK: %[[DX:.*]] = nn.matmul %[[DY]], %[[W]] : (tensor<16x96xbf16>, tensor<96x64xbf16>) -> tensor<16x64xbf16>
  // CHECK: %[[WIDE:.*]] = nn.cast %[[DX]]
  // CHECK: %[[DW:.*]] = nn.matmul %[[DY]], %[[X]] transpose_lhs : (tensor<16x96xbf16>, tensor<16x64xbf16>) -> tensor<96x64xf32>
  // CHECK: %[[SUM:.*]] = nn.add %[[WIDE]], %{{.*}}
  // CHECK: %[[ALL:.*]] = nn.add %[[SUM]], %{{.*}}
  // CHECK-NOT: nn.add
  // CHECK: dist.unit_pack @u[0] [@q, @far](%[[DW]], %{{.*}}) : (tensor<96x64xf32>, tensor<32x64xf32>) -> tensor<9216xf32>
  // CHECK: return %[[ALL]]
  func.func @three(%flat: tensor<9216xbf16>, %x: tensor<16x64xbf16>, %dq: tensor<16x32xf32>, %other: tensor<16x64xf32>)
      -> (tensor<16x64xf32>, tensor<9216xf32>) {
    %q = dist.unit_view %flat @u[0] @q : tensor<9216xbf16> -> tensor<32x64xbf16>
    %k = dist.unit_view %flat @u[0] @k : tensor<9216xbf16> -> tensor<32x64xbf16>
    %v = dist.unit_view %flat @u[0] @v : tensor<9216xbf16> -> tensor<32x64xbf16>
    %far = dist.unit_view %flat @u[0] @far : tensor<9216xbf16> -> tensor<32x64xbf16>
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
        : (tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<9216xf32>
    return %dx, %packed : tensor<16x64xf32>, tensor<9216xf32>
  }

  // The layers read different values: nothing changes.
  // CHECK-LABEL: func.func @inputs
  // CHECK-NOT: nn.concat
  func.func @inputs(%flat: tensor<9216xbf16>, %x: tensor<16x64xbf16>, %dq: tensor<16x32xf32>, %other: tensor<16x64xf32>)
      -> (tensor<16x64xf32>, tensor<9216xf32>) {
    %y = nn.cast %other : tensor<16x64xf32> -> tensor<16x64xbf16>
    %q = dist.unit_view %flat @u[0] @q : tensor<9216xbf16> -> tensor<32x64xbf16>
    %k = dist.unit_view %flat @u[0] @k : tensor<9216xbf16> -> tensor<32x64xbf16>
    %dy_q = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
    %dy_k = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
    %dx_q = nn.matmul %dy_q, %q : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    %dx_k = nn.matmul %dy_k, %k : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    %dw_q = nn.matmul %dy_q, %x transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
    %dw_k = nn.matmul %dy_k, %y transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
    %wide_q = nn.cast %dx_q : tensor<16x64xbf16> -> tensor<16x64xf32>
    %wide_k = nn.cast %dx_k : tensor<16x64xbf16> -> tensor<16x64xf32>
    %dx = nn.add %wide_k, %wide_q : tensor<16x64xf32>
    %packed = dist.unit_pack @u[0] [@q, @k](%dw_q, %dw_k) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<9216xf32>
    return %dx, %packed : tensor<16x64xf32>, tensor<9216xf32>
  }

  // The gradient of a layer's result has a third reader: nothing changes. The sum of one matmul with itself
  // is no pair of layers, either.
  // CHECK-LABEL: func.func @readers
  // CHECK-NOT: nn.concat
  func.func @readers(%flat: tensor<9216xbf16>, %x: tensor<16x64xbf16>, %dq: tensor<16x32xf32>)
      -> (tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x32xbf16>, tensor<9216xf32>) {
    %q = dist.unit_view %flat @u[0] @q : tensor<9216xbf16> -> tensor<32x64xbf16>
    %k = dist.unit_view %flat @u[0] @k : tensor<9216xbf16> -> tensor<32x64xbf16>
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
    %packed = dist.unit_pack @u[0] [@q, @k](%dw_q, %dw_k) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<9216xf32>
    return %dx, %twice, %dy_q, %packed : tensor<16x64xf32>, tensor<16x64xf32>, tensor<16x32xbf16>, tensor<9216xf32>
  }

  // Query, key and value of grouped heads have different widths. Query and key come from rotary positions, which write
  // the joined rows, and the value from an op whose result is copied.
  // CHECK-LABEL: func.func @grouped
  // CHECK: %[[FLAT:.*]]: tensor<9216xbf16>, %[[X:.*]]: tensor<16x64xbf16>
  // CHECK: %[[DY:.*]] = nn.concat %[[Q:.*]], %[[K:.*]], %[[V:.*]] dim = 1 : (tensor<16x32xbf16>, tensor<16x16xbf16>, tensor<16x16xbf16>) -> tensor<16x64xbf16>
  // CHECK: %[[W:.*]] = dist.unit_view %[[FLAT]] @g[0] @gq : tensor<9216xbf16> -> tensor<64x64xbf16>
  // CHECK: %[[DX:.*]] = nn.matmul %[[DY]], %[[W]] : (tensor<16x64xbf16>, tensor<64x64xbf16>) -> tensor<16x64xbf16>
  // CHECK: %[[WIDE:.*]] = nn.cast %[[DX]]
  // CHECK: %[[DW:.*]] = nn.matmul %[[DY]], %[[X]] transpose_lhs : (tensor<16x64xbf16>, tensor<16x64xbf16>) -> tensor<64x64xf32>
  // CHECK-NOT: nn.add
  // CHECK: dist.unit_pack @g[0] [@gq](%[[DW]]) : (tensor<64x64xf32>) -> tensor<9216xf32>
  // CHECK: return %[[WIDE]]
  func.func @grouped(%flat: tensor<9216xbf16>, %x: tensor<16x64xbf16>, %dq: tensor<16x32xf32>, %other: tensor<16x64xf32>)
      -> (tensor<16x64xf32>, tensor<9216xf32>) {
    %c = nn.slice %other starts = [0, 0] limits = [8, 8] strides = [1, 1] : tensor<16x64xf32> -> tensor<8x8xf32>
    %half_q = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
    %heads_q = nn.reshape %half_q : tensor<16x32xbf16> -> tensor<2x8x2x16xbf16>
    %part_k = nn.slice %x starts = [0, 0] limits = [16, 16] strides = [1, 1] : tensor<16x64xbf16> -> tensor<16x16xbf16>
    %heads_k = nn.reshape %part_k : tensor<16x16xbf16> -> tensor<2x8x1x16xbf16>
    %part_v = nn.slice %x starts = [0, 16] limits = [16, 32] strides = [1, 1] : tensor<16x64xbf16> -> tensor<16x16xbf16>
    %q = dist.unit_view %flat @g[0] @gq : tensor<9216xbf16> -> tensor<32x64xbf16>
    %k = dist.unit_view %flat @g[0] @gk : tensor<9216xbf16> -> tensor<16x64xbf16>
    %v = dist.unit_view %flat @g[0] @gv : tensor<9216xbf16> -> tensor<16x64xbf16>
    %rq = nn.rope %heads_q, %c, %c inverse headed : tensor<2x8x2x16xbf16>, tensor<8x8xf32>
    %rk = nn.rope %heads_k, %c, %c inverse headed : tensor<2x8x1x16xbf16>, tensor<8x8xf32>
    %dy_q = nn.reshape %rq : tensor<2x8x2x16xbf16> -> tensor<16x32xbf16>
    %dy_k = nn.reshape %rk : tensor<2x8x1x16xbf16> -> tensor<16x16xbf16>
    %dy_v = nn.transpose %part_v perm = [1, 0] : tensor<16x16xbf16> -> tensor<16x16xbf16>
    %dx_v = nn.matmul %dy_v, %v : (tensor<16x16xbf16>, tensor<16x64xbf16>) -> tensor<16x64xbf16>
    %dw_v = nn.matmul %dy_v, %x transpose_lhs : (tensor<16x16xbf16>, tensor<16x64xbf16>) -> tensor<16x64xf32>
    %dx_k = nn.matmul %dy_k, %k : (tensor<16x16xbf16>, tensor<16x64xbf16>) -> tensor<16x64xbf16>
    %dw_k = nn.matmul %dy_k, %x transpose_lhs : (tensor<16x16xbf16>, tensor<16x64xbf16>) -> tensor<16x64xf32>
    %wide_v = nn.cast %dx_v : tensor<16x64xbf16> -> tensor<16x64xf32>
    %wide_k = nn.cast %dx_k : tensor<16x64xbf16> -> tensor<16x64xf32>
    %s0 = nn.add %wide_v, %wide_k : tensor<16x64xf32>
    %dx_q = nn.matmul %dy_q, %q : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    %dw_q = nn.matmul %dy_q, %x transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
    %wide_q = nn.cast %dx_q : tensor<16x64xbf16> -> tensor<16x64xf32>
    %dx = nn.add %s0, %wide_q : tensor<16x64xf32>
    %packed = dist.unit_pack @g[0] [@gq, @gk, @gv](%dw_q, %dw_k, %dw_v)
        : (tensor<32x64xf32>, tensor<16x64xf32>, tensor<16x64xf32>) -> tensor<9216xf32>
    return %dx, %packed : tensor<16x64xf32>, tensor<9216xf32>
  }

  // Both gradients would be copied, 80 columns, to leave out one result of 64 columns: nothing changes.
  // CHECK-LABEL: func.func @copies
  // CHECK-NOT: nn.concat
  func.func @copies(%flat: tensor<9216xbf16>, %x: tensor<16x64xbf16>, %dq: tensor<16x32xf32>, %other: tensor<16x64xf32>)
      -> (tensor<16x64xf32>, tensor<9216xf32>) {
    %a = dist.unit_view %flat @g[0] @wa : tensor<9216xbf16> -> tensor<48x64xbf16>
    %b = dist.unit_view %flat @g[0] @wb : tensor<9216xbf16> -> tensor<32x64xbf16>
    %part_a = nn.slice %x starts = [0, 0] limits = [16, 48] strides = [1, 1] : tensor<16x64xbf16> -> tensor<16x48xbf16>
    %da = nn.reshape %part_a : tensor<16x48xbf16> -> tensor<48x16xbf16>
    %half_b = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
    %db = nn.reshape %half_b : tensor<16x32xbf16> -> tensor<32x16xbf16>
    %dy_a = nn.transpose %da perm = [1, 0] : tensor<48x16xbf16> -> tensor<16x48xbf16>
    %dy_b = nn.transpose %db perm = [1, 0] : tensor<32x16xbf16> -> tensor<16x32xbf16>
    %dx_a = nn.matmul %dy_a, %a : (tensor<16x48xbf16>, tensor<48x64xbf16>) -> tensor<16x64xbf16>
    %dx_b = nn.matmul %dy_b, %b : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
    %dw_a = nn.matmul %dy_a, %x transpose_lhs : (tensor<16x48xbf16>, tensor<16x64xbf16>) -> tensor<48x64xf32>
    %dw_b = nn.matmul %dy_b, %x transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
    %wide_a = nn.cast %dx_a : tensor<16x64xbf16> -> tensor<16x64xf32>
    %wide_b = nn.cast %dx_b : tensor<16x64xbf16> -> tensor<16x64xf32>
    %dx = nn.add %wide_a, %wide_b : tensor<16x64xf32>
    %packed = dist.unit_pack @g[0] [@wa, @wb](%dw_a, %dw_b) : (tensor<48x64xf32>, tensor<32x64xf32>) -> tensor<9216xf32>
    return %dx, %packed : tensor<16x64xf32>, tensor<9216xf32>
  }
}
