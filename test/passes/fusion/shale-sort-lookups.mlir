// RUN: shale-opt %s --shale-sort-lookups -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// Sums in another order agree in f64.
// RUN: shale-run --as f64 %s --compare=%t.mlir --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @twice: 2 values, 0 differ in value
// EQUAL-DAG: @ragged: 1 values, 0 differ in value
// EQUAL-DAG: @unchanged: 3 values, 0 differ in value
// EQUAL-DAG: @norm: {{[0-9]+}} values, 0 differ in value
// EQUAL-DAG: @norm_alone: {{[0-9]+}} values, 0 differ in value
// EQUAL-DAG: @norm_of_others: {{[0-9]+}} values, 0 differ in value
// EQUAL-DAG: @norm_of_sums: {{[0-9]+}} values, 0 differ in value
// A CPU's target sorts nothing.
// RUN: sed s/cuda:sm_90a/cpu:x86-64-v3/ %s > %t.cpu.mlir
// RUN: shale-opt %t.cpu.mlir --shale-sort-lookups | FileCheck %s --check-prefix=CPU
// CPU-NOT: nn.argsort
// A module for an unknown target is an error.
// RUN: sed s/cuda:sm_90a/cuda:sm_1/ %s > %t.unknown.mlir
// RUN: not shale-opt %t.unknown.mlir --shale-sort-lookups 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: {{.*}}unknown GPU architecture 'sm_1'
// RUN: shale-opt %s --shale-sort-lookups --remarks-filter=sort-lookups 2>&1 -o /dev/null | FileCheck %s --check-prefix=REMARK
// REMARK: 1024 indices of a table of 50 rows are sorted, and their gradients summed in 32 pieces of 32
// REMARK: 1100 indices of a table of 7 rows are sorted, and their gradients summed in 34 pieces of 32
// REMARK-COUNT-4: the squares of 9 rows are summed where the rows are
// REMARK-NOT: the squares

#table = #dist.segment<@table, offset = 0, shape = [9, 3]>
#bias = #dist.segment<@bias, offset = 32, shape = [3]>
#single = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#table]>
#both = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 36, segments = [#table, #bias]>
#backward = #nn.phase<backward>
#update = #nn.phase<update>
module attributes {nn.target = "cuda:sm_90a"} {
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @single on @mesh["fsdp"] groups = [#single]
dist.unit @both on @mesh["fsdp"] groups = [#both]
// Two lookups by the same indices share the sort. Indices below 0 and from 50 on add nothing. The phase stays.
// CHECK-LABEL: @twice
// CHECK: %[[ORDER:.*]], %[[STARTS:.*]] = nn.argsort %[[IDS:.*]] bound = 50 {nn.phase = #backward} : tensor<4x256xi64> -> tensor<1024xi32>, tensor<51xi32>
// CHECK: %[[ROWS:.*]] = nn.reshape %{{.*}} {nn.phase = #backward} : tensor<4x256x6xf32> -> tensor<1024x6xf32>
// CHECK: %[[TERMS:.*]] = nn.embedding %[[ROWS]], %[[ORDER]] {nn.phase = #backward} : (tensor<1024x6xf32>, tensor<1024xi32>) -> tensor<1024x6xf32>
// CHECK: %[[PARTS:.*]] = nn.reshape %[[TERMS]] {nn.phase = #backward} : tensor<1024x6xf32> -> tensor<32x32x6xf32>
// CHECK: %[[PIECES:.*]] = nn.reduce sum %[[PARTS]] dims = [1] {nn.phase = #backward} : tensor<32x32x6xf32> -> tensor<32x6xf32>
// CHECK: %[[FIRST:.*]] = nn.sorted_embedding_grad %[[ORDER]], %[[STARTS]], %[[ROWS]], %[[PIECES]] {nn.phase = #backward}
// CHECK-NOT: nn.argsort
// CHECK: %[[SECOND:.*]] = nn.sorted_embedding_grad %[[ORDER]], %[[STARTS]],
// CHECK-NOT: nn.embedding_grad
// CHECK: return %[[FIRST]], %[[SECOND]]
func.func @twice(%x: tensor<4x256x6xf32>) -> (tensor<50x6xf32>, tensor<50x6xf32>) {
  %i = nn.iota dim = 1 : tensor<4x256xi64>
  %square = nn.mul %i, %i : tensor<4x256xi64>
  %seven = nn.constant dense<7> : tensor<4x256xi64>
  %part = nn.div %square, %seven : tensor<4x256xi64>
  %whole = nn.mul %part, %seven : tensor<4x256xi64>
  %rest = nn.sub %square, %whole : tensor<4x256xi64>
  %scale = nn.constant dense<13> : tensor<4x256xi64>
  %wide = nn.mul %rest, %scale : tensor<4x256xi64>
  %one = nn.constant dense<1> : tensor<4x256xi64>
  %ids = nn.sub %wide, %one : tensor<4x256xi64>
  %0 = nn.embedding_grad %ids, %x {nn.phase = #nn.phase<backward>} : (tensor<4x256xi64>, tensor<4x256x6xf32>) -> tensor<50x6xf32>
  %y = nn.mul %x, %x : tensor<4x256x6xf32>
  %1 = nn.embedding_grad %ids, %y {nn.phase = #nn.phase<backward>} : (tensor<4x256xi64>, tensor<4x256x6xf32>) -> tensor<50x6xf32>
  return %0, %1 : tensor<50x6xf32>, tensor<50x6xf32>
}

// The last positions are no piece. 16-bit rows are widened before they are added.
// CHECK-LABEL: @ragged
// CHECK: %[[ORDER:.*]], %{{.*}} = nn.argsort %{{.*}} bound = 7 : tensor<1100xi32> -> tensor<1100xi32>, tensor<8xi32>
// CHECK: %[[PART:.*]] = nn.slice %[[ORDER]] starts = [0] limits = [1088] strides = [1] : tensor<1100xi32> -> tensor<1088xi32>
// CHECK: %[[TERMS:.*]] = nn.embedding %[[X:.*]], %[[PART]] : (tensor<1100x3xbf16>, tensor<1088xi32>) -> tensor<1088x3xbf16>
// CHECK: nn.cast %[[TERMS]] : tensor<1088x3xbf16> -> tensor<1088x3xf32>
// CHECK: nn.sorted_embedding_grad %[[ORDER]], %{{.*}}, %[[X]], %{{.*}} : (tensor<1100xi32>, tensor<8xi32>, tensor<1100x3xbf16>, tensor<34x3xf32>) -> tensor<7x3xf32>
func.func @ragged() -> tensor<7x3xf32> {
  %number = nn.iota dim = 0 : tensor<1100x3xi64>
  %x = nn.cast %number : tensor<1100x3xi64> -> tensor<1100x3xbf16>
  %i = nn.iota dim = 0 : tensor<1100xi32>
  %three = nn.constant dense<300> : tensor<1100xi32>
  %ids = nn.div %i, %three : tensor<1100xi32>
  %0 = nn.embedding_grad %ids, %x : (tensor<1100xi32>, tensor<1100x3xbf16>) -> tensor<7x3xf32>
  return %0 : tensor<7x3xf32>
}

// Few indices, none, and another op.
// CHECK-LABEL: @unchanged
// CHECK-NOT: nn.argsort
// CHECK: nn.embedding_grad
// CHECK: nn.embedding_grad
// CHECK: nn.gather_nd_grad
func.func @unchanged() -> (tensor<7x3xf32>, tensor<7x3xf32>, tensor<7x3xf32>) {
  %x = nn.constant dense<1.0> : tensor<1023x3xf32>
  %y = nn.constant dense<1.0> : tensor<0x3xf32>
  %z = nn.constant dense<1.0> : tensor<2048x3xf32>
  %i = nn.constant dense<5> : tensor<1023xi64>
  %0 = nn.embedding_grad %i, %x : (tensor<1023xi64>, tensor<1023x3xf32>) -> tensor<7x3xf32>
  %none = nn.constant dense<0> : tensor<0xi64>
  %1 = nn.embedding_grad %none, %y : (tensor<0xi64>, tensor<0x3xf32>) -> tensor<7x3xf32>
  %j = nn.constant dense<5> : tensor<2048x1xi64>
  %2 = nn.gather_nd_grad %j, %z batch_dims = 0 : (tensor<2048x1xi64>, tensor<2048x3xf32>) -> tensor<7x3xf32>
  return %0, %1, %2 : tensor<7x3xf32>, tensor<7x3xf32>, tensor<7x3xf32>
}

// Squares of a gradient that is packed alone are summed with it. The pack has padding, and has another reader.
// CHECK-LABEL: @norm(
// CHECK-SAME: %[[OTHER:[a-z0-9]+]]: tensor<40xf32> {{.*}}, %[[LAST:[a-z0-9]+]]: tensor<f32> {{.*}})
// CHECK: %[[GRAD:.*]], %[[SQUARES:.*]] = nn.sorted_embedding_grad {{.*}} {nn.phase = #backward} : {{.*}} -> (tensor<9x3xf32>, tensor<9xf32>)
// CHECK: %[[PACK:.*]] = dist.unit_pack @single[0] [@table](%[[GRAD]])
// CHECK: %[[SUM:.*]] = nn.reduce sum %[[SQUARES]] dims = [0] {nn.phase = #update} : tensor<9xf32> -> tensor<f32>
// CHECK: %[[REST:.*]] = nn.sum_squares %[[OTHER]], %[[LAST]] {nn.phase = #update} : (tensor<40xf32>, tensor<f32>) -> tensor<f32>
// CHECK: %[[NORM:.*]] = nn.add %[[SUM]], %[[REST]] {nn.phase = #update} : tensor<f32>
// CHECK: return %[[PACK]], %[[NORM]]
func.func @norm(%x: tensor<1100x3xbf16> {nn.name = "norm.x"}, %other: tensor<40xf32> {nn.name = "norm.other"}, %last: tensor<f32> {nn.name = "norm.last"}) -> (tensor<32xf32>, tensor<f32>) {
  %i = nn.iota dim = 0 : tensor<1100xi32>
  %part = nn.constant dense<150> : tensor<1100xi32>
  %ids = nn.div %i, %part : tensor<1100xi32>
  %0 = nn.embedding_grad %ids, %x {nn.phase = #backward} : (tensor<1100xi32>, tensor<1100x3xbf16>) -> tensor<9x3xf32>
  %1 = dist.unit_pack @single[0] [@table](%0) {nn.phase = #backward} : (tensor<9x3xf32>) -> tensor<32xf32>
  %2 = nn.sum_squares %other, %1, %last {nn.phase = #update} : (tensor<40xf32>, tensor<32xf32>, tensor<f32>) -> tensor<f32>
  return %1, %2 : tensor<32xf32>, tensor<f32>
}

// A gradient is squared twice, in the next op, and a third time in another shape.
// CHECK-LABEL: @norm_alone(
// CHECK: %{{.*}}, %[[SQUARES:.*]] = nn.sorted_embedding_grad {{.*}} -> (tensor<9x3xf32>, tensor<9xf32>)
// CHECK-NOT: nn.sum_squares
// CHECK-COUNT-3: nn.reduce sum %[[SQUARES]] dims = [0] : tensor<9xf32> -> tensor<f32>
// CHECK: return
func.func @norm_alone(%x: tensor<1100x3xf32> {nn.name = "norm_alone.x"}) -> (tensor<f32>, tensor<f32>) {
  %i = nn.iota dim = 0 : tensor<1100xi32>
  %part = nn.constant dense<150> : tensor<1100xi32>
  %ids = nn.div %i, %part : tensor<1100xi32>
  %0 = nn.embedding_grad %ids, %x : (tensor<1100xi32>, tensor<1100x3xf32>) -> tensor<9x3xf32>
  %1 = nn.sum_squares %0, %0 : (tensor<9x3xf32>, tensor<9x3xf32>) -> tensor<f32>
  %flat = nn.reshape %0 : tensor<9x3xf32> -> tensor<27xf32>
  %2 = nn.sum_squares %flat : (tensor<27xf32>) -> tensor<f32>
  return %1, %2 : tensor<f32>, tensor<f32>
}

// Squares of other values: a scaled gradient, a part of one, a rounded one, one that is packed with another, and none.
// CHECK-LABEL: @norm_of_others(
// CHECK-NOT: -> (tensor<9x3xf32>, tensor<9xf32>)
// CHECK: nn.sum_squares {{.*}} : (tensor<9x3xf32>, tensor<4x3xf32>, tensor<9x3xbf16>, tensor<36xf32>) -> tensor<f32>
// CHECK: return
func.func @norm_of_others(%x: tensor<1100x3xf32> {nn.name = "norm_of_others.x"}, %bias: tensor<3xf32> {nn.name = "norm_of_others.bias"}) -> (tensor<9x3xf32>, tensor<f32>) {
  %i = nn.iota dim = 0 : tensor<1100xi32>
  %piece = nn.constant dense<150> : tensor<1100xi32>
  %ids = nn.div %i, %piece : tensor<1100xi32>
  %0 = nn.embedding_grad %ids, %x : (tensor<1100xi32>, tensor<1100x3xf32>) -> tensor<9x3xf32>
  %two = nn.constant dense<2.0> : tensor<9x3xf32>
  %scaled = nn.mul %0, %two : tensor<9x3xf32>
  %part = nn.slice %0 starts = [0, 0] limits = [4, 3] strides = [1, 1] : tensor<9x3xf32> -> tensor<4x3xf32>
  %rounded = nn.cast %0 : tensor<9x3xf32> -> tensor<9x3xbf16>
  %pack = dist.unit_pack @both[0] [@table, @bias](%0, %bias) : (tensor<9x3xf32>, tensor<3xf32>) -> tensor<36xf32>
  %1 = nn.sum_squares %scaled, %part, %rounded, %pack : (tensor<9x3xf32>, tensor<4x3xf32>, tensor<9x3xbf16>, tensor<36xf32>) -> tensor<f32>
  return %0, %1 : tensor<9x3xf32>, tensor<f32>
}

// Gradients that are summed first: over ranks, over micro-batches, and over the uses of a tied table.
// CHECK-LABEL: @norm_of_sums(
// CHECK-NOT: -> (tensor<9x3xf32>, tensor<9xf32>)
// CHECK: nn.sum_squares {{.*}} : (tensor<16xf32>, tensor<32xf32>, tensor<9x3xf32>, tensor<9x3xf32>) -> tensor<f32>
// CHECK: return
func.func @norm_of_sums(%x: tensor<1100x3xf32> {nn.name = "norm_of_sums.x"}, %earlier: tensor<9x3xf32> {nn.name = "norm_of_sums.earlier"}, %tied: tensor<9x3xf32> {nn.name = "norm_of_sums.tied"}) -> tensor<f32> {
  %i = nn.iota dim = 0 : tensor<1100xi32>
  %piece = nn.constant dense<150> : tensor<1100xi32>
  %ids = nn.div %i, %piece : tensor<1100xi32>
  %0 = nn.embedding_grad %ids, %x : (tensor<1100xi32>, tensor<1100x3xf32>) -> tensor<9x3xf32>
  %pack = dist.unit_pack @single[0] [@table](%0) : (tensor<9x3xf32>) -> tensor<32xf32>
  %shard = dist.reduce_scatter sum %pack over "fsdp" dim = 0 : tensor<32xf32> -> tensor<16xf32>
  %reduced = dist.all_reduce sum %pack over "fsdp" : tensor<32xf32>
  %all = nn.accumulate @table %0 into %earlier : tensor<9x3xf32> : tensor<9x3xf32>
  %sum = nn.add %0, %tied : tensor<9x3xf32>
  %1 = nn.sum_squares %shard, %reduced, %all, %sum : (tensor<16xf32>, tensor<32xf32>, tensor<9x3xf32>, tensor<9x3xf32>) -> tensor<f32>
  %2 = dist.all_reduce sum %1 over "fsdp" : tensor<f32>
  return %2 : tensor<f32>
}
}
