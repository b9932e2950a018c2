// RUN: shale-opt --shale-fusion %s | FileCheck %s

// What computes the input of means joins their kernel, whose only output they are. Values by row and by column join the kernel of elements, whose
// result may take the place of the parameter.
module attributes {nn.target = "cpu:x86-64-v3"} {
// CHECK-LABEL: func.func @means
// CHECK: %[[MEANS:.*]] = nn.cluster
// CHECK-NEXT: nn.broadcast
// CHECK-NEXT: nn.mul
// CHECK-NEXT: nn.segment_means %{{.*}} squares factors
// CHECK-NEXT: nn.yield
// CHECK: nn.cluster (%{{.*}} = %[[MEANS]]
// CHECK-NEXT: nn.sqrt
func.func @means(%g: tensor<32xf32>, %s: tensor<f32>, %o: tensor<i64>) -> tensor<12xf32> {
  %0 = nn.broadcast %s dims = [] : tensor<f32> -> tensor<32xf32>
  %1 = nn.mul %g, %0 : tensor<32xf32>
  %2 = nn.segment_means %1 squares factors offset %o : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [4, 8], at = 0>] : tensor<32xf32> -> tensor<12xf32>
  %3 = nn.sqrt %2 : tensor<12xf32>
  return %3 : tensor<12xf32>
}

// CHECK-LABEL: func.func @elements
// CHECK: nn.cluster (
// CHECK-SAME: aliases
// CHECK-NEXT: nn.segment_broadcast %{{.*}} rows
// CHECK-NEXT: nn.segment_broadcast %{{.*}} columns
// CHECK-NEXT: nn.mul
// CHECK-NEXT: nn.sub
// CHECK-NEXT: nn.yield
func.func @elements(%p: tensor<32xf32>, %m: tensor<12xf32>) -> tensor<32xf32> {
  %0 = nn.segment_broadcast %m rows segments = [#nn.factored_range<offset = 0, shape = [4, 8], at = 0>] : tensor<12xf32> -> tensor<32xf32>
  %1 = nn.segment_broadcast %m columns segments = [#nn.factored_range<offset = 0, shape = [4, 8], at = 0>] : tensor<12xf32> -> tensor<32xf32>
  %2 = nn.mul %0, %1 : tensor<32xf32>
  %3 = nn.sub %p, %2 : tensor<32xf32>
  return %3 : tensor<32xf32>
}

// A value that another op reads, too, is stored, and read by the means.
// CHECK-LABEL: func.func @shared
// CHECK: %[[SHARED:.*]] = nn.cluster
// CHECK-NEXT: nn.neg
// CHECK: nn.cluster (%{{.*}} = %[[SHARED]]
// CHECK-NEXT: nn.segment_means
// CHECK-NEXT: nn.yield
func.func @shared(%x: tensor<32xf32>) -> (tensor<1xf32>, tensor<32xf32>) {
  %0 = nn.neg %x : tensor<32xf32>
  %1 = nn.segment_means %0 segments = [#nn.factored_range<offset = 0, shape = [4, 8], at = 0>] : tensor<32xf32> -> tensor<1xf32>
  return %1, %0 : tensor<1xf32>, tensor<32xf32>
}
}
