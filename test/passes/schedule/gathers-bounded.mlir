// Shards that are cast before they are gathered: the casts move with the gathers, and at most as many units are whole as may be, for each
// number of units ahead.
// RUN: shale-opt %s --shale-split-collectives --shale-order-ops -o %t.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=0 max-gathers-in-flight=1" --shale-verify-scheduled=max-gathers-in-flight=1 -o %t-0-1.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=1 max-gathers-in-flight=1" --shale-verify-scheduled=max-gathers-in-flight=1 -o %t-1-1.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=1 max-gathers-in-flight=2" --shale-verify-scheduled=max-gathers-in-flight=2 -o %t-1-2.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=2 max-gathers-in-flight=1" --shale-verify-scheduled=max-gathers-in-flight=1 -o %t-2-1.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=2 max-gathers-in-flight=2" --shale-verify-scheduled=max-gathers-in-flight=2 -o %t-2-2.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=2 max-gathers-in-flight=3" --shale-verify-scheduled=max-gathers-in-flight=3 -o %t-2-3.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=3 max-gathers-in-flight=2" --shale-verify-scheduled=max-gathers-in-flight=2 -o %t-3-2.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=3 max-gathers-in-flight=3" --shale-verify-scheduled=max-gathers-in-flight=3 -o %t-3-3.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=5 max-gathers-in-flight=1" --shale-verify-scheduled=max-gathers-in-flight=1 -o %t-5-1.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=5 max-gathers-in-flight=2" --shale-verify-scheduled=max-gathers-in-flight=2 -o %t-5-2.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=5 max-gathers-in-flight=4" --shale-verify-scheduled=max-gathers-in-flight=4 -o %t-5-4.mlir
// RUN: shale-opt %t.mlir --shale-prefetch-gathers="prefetch=5 max-gathers-in-flight=5" --shale-verify-scheduled=max-gathers-in-flight=5 -o %t-5-5.mlir

// What the bound keeps back is not ahead of more than one unit.
// RUN: FileCheck %s --check-prefix=TWO < %t-5-2.mlir
// TWO-LABEL: func.func @step
// TWO: dist.unit_gather {{.*}} @a[0]
// TWO: dist.unit_gather {{.*}} @b[0]
// TWO: nn.matmul
// TWO: dist.unit_gather {{.*}} @c[0]
// TWO: nn.matmul
// TWO: dist.unit_gather {{.*}} @d[0]
// TWO: nn.matmul
// TWO: dist.unit_gather {{.*}} @e[0]

// Without a bound that matters all casts and gathers come first, in the order of use.
// RUN: FileCheck %s --check-prefix=FIVE < %t-5-5.mlir
// FIVE-LABEL: func.func @step
// FIVE: dist.unit_gather {{.*}} @a[0]
// FIVE: dist.unit_gather {{.*}} @b[0]
// FIVE: dist.unit_gather {{.*}} @c[0]
// FIVE: dist.unit_gather {{.*}} @d[0]
// FIVE: dist.unit_gather {{.*}} @e[0]
// FIVE: nn.matmul

// RUN: shale-run %s --ranks 2 --compare=%t-5-2.mlir --exact | FileCheck %s --check-prefix=EQUAL
// RUN: shale-run %s --ranks 2 --compare=%t-3-3.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL: @step: 1 values, 0 differ in their bits

// A smaller bound is not met.
// RUN: not shale-opt %t-5-5.mlir --shale-verify-scheduled=max-gathers-in-flight=4 2>&1 | FileCheck %s --check-prefix=FOUR
// FOUR: error: {{.*}}brings unit 'e' too early: 5 units are whole or in flight at once, of which 1 are in use; at most 4 may be (max-gathers-in-flight)

module attributes {dist.strategy = #dist.strategy<full>} {
  dist.mesh @mesh <[shard "fsdp"=2]>
  dist.unit @a on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@wa, offset = 0, shape = [4, 4]>]>]
  dist.unit @b on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@wb, offset = 0, shape = [4, 4]>]>]
  dist.unit @c on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@wc, offset = 0, shape = [4, 4]>]>]
  dist.unit @d on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@wd, offset = 0, shape = [4, 4]>]>]
  dist.unit @e on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@we, offset = 0, shape = [4, 4]>]>]
  nn.state @wa role = param type = tensor<4x4xf32>
  nn.state @wb role = param type = tensor<4x4xf32>
  nn.state @wc role = param type = tensor<4x4xf32>
  nn.state @wd role = param type = tensor<4x4xf32>
  nn.state @we role = param type = tensor<4x4xf32>
  nn.state @fa role = param type = tensor<16xf32> {dist.unit = @a, dist.group = 0 : i64, dist.axis = "fsdp"}
  nn.state @fb role = param type = tensor<16xf32> {dist.unit = @b, dist.group = 0 : i64, dist.axis = "fsdp"}
  nn.state @fc role = param type = tensor<16xf32> {dist.unit = @c, dist.group = 0 : i64, dist.axis = "fsdp"}
  nn.state @fd role = param type = tensor<16xf32> {dist.unit = @d, dist.group = 0 : i64, dist.axis = "fsdp"}
  nn.state @fe role = param type = tensor<16xf32> {dist.unit = @e, dist.group = 0 : i64, dist.axis = "fsdp"}
  func.func @step(%x: tensor<4x4xbf16> {nn.role = #nn.role<input>, nn.name = "x"}, %fa: tensor<8xf32> {nn.state = @fa}, %fb: tensor<8xf32> {nn.state = @fb}, %fc: tensor<8xf32> {nn.state = @fc}, %fd: tensor<8xf32> {nn.state = @fd}, %fe: tensor<8xf32> {nn.state = @fe})
      -> (tensor<4x4xbf16> {nn.role = #nn.role<metric>, nn.name = "y"}) {
    %sa = nn.cast %fa : tensor<8xf32> -> tensor<8xbf16>
    %ga = dist.unit_gather %sa @a[0] over "fsdp" : tensor<8xbf16> -> tensor<16xbf16>
    %wa = dist.unit_view %ga @a[0] @wa : tensor<16xbf16> -> tensor<4x4xbf16>
    %sb = nn.cast %fb : tensor<8xf32> -> tensor<8xbf16>
    %gb = dist.unit_gather %sb @b[0] over "fsdp" : tensor<8xbf16> -> tensor<16xbf16>
    %wb = dist.unit_view %gb @b[0] @wb : tensor<16xbf16> -> tensor<4x4xbf16>
    %sc = nn.cast %fc : tensor<8xf32> -> tensor<8xbf16>
    %gc = dist.unit_gather %sc @c[0] over "fsdp" : tensor<8xbf16> -> tensor<16xbf16>
    %wc = dist.unit_view %gc @c[0] @wc : tensor<16xbf16> -> tensor<4x4xbf16>
    %sd = nn.cast %fd : tensor<8xf32> -> tensor<8xbf16>
    %gd = dist.unit_gather %sd @d[0] over "fsdp" : tensor<8xbf16> -> tensor<16xbf16>
    %wd = dist.unit_view %gd @d[0] @wd : tensor<16xbf16> -> tensor<4x4xbf16>
    %se = nn.cast %fe : tensor<8xf32> -> tensor<8xbf16>
    %ge = dist.unit_gather %se @e[0] over "fsdp" : tensor<8xbf16> -> tensor<16xbf16>
    %we = dist.unit_view %ge @e[0] @we : tensor<16xbf16> -> tensor<4x4xbf16>
    %ya = nn.matmul %x, %wa : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %yb = nn.matmul %ya, %wb : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %yc = nn.matmul %yb, %wc : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %yd = nn.matmul %yc, %wd : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    %ye = nn.matmul %yd, %we : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
    return %ye : tensor<4x4xbf16>
  }
}
