// The place at which packed gradients are reduced.
// RUN: shale-opt %s --shale-split-collectives --shale-order-ops -o %t.mlir
// RUN: shale-opt %t.mlir --shale-bucket-reductions | FileCheck %s
// RUN: shale-opt %t.mlir --shale-bucket-reductions -o %t.reduced.mlir
// RUN: shale-run %s --ranks 2 --compare=%t.reduced.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL: @step: 3 values, 0 differ in their bits
// RUN: shale-opt %t.mlir --shale-bucket-reductions="bucket-size=256" | FileCheck %s --check-prefix=BUCKET
// RUN: shale-opt %t.mlir --shale-bucket-reductions="bucket-size=128" | FileCheck %s --check-prefix=ALONE
// RUN: shale-opt %t.mlir --shale-bucket-reductions="order=memory" | FileCheck %s --check-prefix=EARLY
// RUN: not shale-opt %t.mlir --shale-bucket-reductions="order=late" 2>&1 | FileCheck %s --check-prefix=ORDER
// ORDER: for the --order option: 'late' is not one of overlap, memory
// RUN: not shale-opt %t.mlir --shale-bucket-reductions="bucket-size=-1" 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: for the --bucket-size option: expects a size such as 25MiB, 0 or auto; got '-1'

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

  // Both gradients are reduced as soon as they are packed, one after the other.
  // CHECK-LABEL: func.func @step
  // CHECK: dist.unit_pack @c[0]
  // CHECK-NEXT: %[[RC:.*]] = dist.start
  // CHECK: dist.reduce_scatter
  // CHECK: nn.neg
  // CHECK: dist.unit_pack @b[0]
  // CHECK-NEXT: dist.wait %[[RC]]
  // CHECK-NEXT: %[[RB:.*]] = dist.start
  // CHECK: dist.reduce_scatter
  // CHECK: nn.tanh
  // CHECK: dist.wait %[[RB]]
  // CHECK: nn.sum_squares

  // Both gradients, 128 bytes each, are one bucket, which starts where the second is packed. A gradient that fills a bucket is alone.
  // BUCKET-LABEL: func.func @step
  // BUCKET: dist.unit_pack @c[0]
  // BUCKET-NOT: dist.start
  // BUCKET: dist.unit_pack @b[0]
  // BUCKET-NEXT: dist.start {{.*}}dist.bucket = 0
  // BUCKET: dist.reduce_scatter
  // BUCKET: dist.start {{.*}}dist.bucket = 0
  // BUCKET: dist.reduce_scatter
  // BUCKET: dist.wait
  // ALONE-LABEL: func.func @step
  // ALONE-NOT: dist.bucket

  // The gradient of c is no longer there when that of b is made.
  // EARLY-LABEL: func.func @step
  // EARLY: dist.unit_pack @c[0]
  // EARLY-NEXT: %[[RC:.*]] = dist.start
  // EARLY: dist.reduce_scatter
  // EARLY: dist.wait %[[RC]]
  // EARLY-NEXT: nn.neg
  // EARLY: dist.unit_pack @b[0]

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
