// RUN: shale-opt %s --shale-sort-lookups -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// Sums in another order agree in f64.
// RUN: shale-run --as f64 %s --compare=%t.mlir --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @twice: 2 values, 0 differ in value
// EQUAL-DAG: @ragged: 1 values, 0 differ in value
// EQUAL-DAG: @unchanged: 3 values, 0 differ in value
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

module attributes {nn.target = "cuda:sm_90a"} {
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
}
