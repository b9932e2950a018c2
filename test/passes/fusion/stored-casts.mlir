// The kernel of an update stores the 16-bit copies of its results, on each target. Moments and parameter stay in place.
// RUN: shale-opt %s --shale-fusion --split-input-file | FileCheck %s
// RUN: shale-opt %s --shale-fusion=singletons --split-input-file | FileCheck %s --check-prefix=ALONE

module attributes {nn.target = "cuda:sm_90a"} {
  // CHECK-LABEL: @copies
  // CHECK: nn.cluster ({{.*}}) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<8xf16>, tensor<8xbf16>) aliases [0, 2, -1, -1, -1] attributes {nn.phase = #update} {
  // CHECK-NEXT: [[PARAM:%.+]], [[VELOCITY:%.+]] = nn.sgd
  // CHECK-NEXT: [[A:%.+]] = nn.cast [[PARAM]] : tensor<8xf32> -> tensor<8xbf16>
  // CHECK-NEXT: [[B:%.+]] = nn.cast [[PARAM]] : tensor<8xf32> -> tensor<8xf16>
  // CHECK-NEXT: [[C:%.+]] = nn.cast [[VELOCITY]] : tensor<8xf32> -> tensor<8xbf16>
  // CHECK-NEXT: nn.yield [[PARAM]], [[VELOCITY]], [[A]], [[B]], [[C]]
  // CHECK-NOT: nn.cluster
  // CHECK: return
  // ALONE-LABEL: @copies
  // ALONE: nn.sgd
  // ALONE-COUNT-3: nn.cluster
  func.func @copies(%p: tensor<8xf32>, %g: tensor<8xf32>, %v: tensor<8xf32>, %e: tensor<i1>, %s: tensor<f32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<8xf16>, tensor<8xbf16>) {
    %p1, %v1 = nn.sgd %p, %g, %v enable %e scale %s lr %s momentum %s weight_decay %s {nn.phase = #nn.phase<update>} : tensor<8xf32>, tensor<f32>
    %0 = nn.cast %p1 : tensor<8xf32> -> tensor<8xbf16>
    %1 = nn.cast %p1 : tensor<8xf32> -> tensor<8xf16>
    %2 = nn.cast %v1 : tensor<8xf32> -> tensor<8xbf16>
    return %p1, %v1, %0, %1, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<8xf16>, tensor<8xbf16>
  }
}

// -----

// What is not a cast of a result from f32 to 16 bits is another kernel: a widened 16-bit parameter, a sum, a cast of another value.
module attributes {nn.target = "cpu:x86-64-v3"} {
  // CHECK-LABEL: @others
  // CHECK: nn.sgd
  // CHECK-NOT: nn.sgd
  // CHECK-COUNT-2: nn.cluster
  // CHECK: return
  func.func @others(%p: tensor<8xbf16>, %g: tensor<8xbf16>, %v: tensor<8xbf16>, %w: tensor<8xf32>, %e: tensor<i1>, %s: tensor<f32>) -> (tensor<8xbf16>, tensor<8xbf16>, tensor<8xf32>, tensor<bf16>, tensor<8xbf16>) {
    %p1, %v1 = nn.sgd %p, %g, %v enable %e scale %s lr %s momentum %s weight_decay %s : tensor<8xbf16>, tensor<f32>
    %0 = nn.cast %p1 : tensor<8xbf16> -> tensor<8xf32>
    %1 = nn.reduce sum %v1 dims = [0] : tensor<8xbf16> -> tensor<bf16>
    %2 = nn.cast %w : tensor<8xf32> -> tensor<8xbf16>
    return %p1, %v1, %0, %1, %2 : tensor<8xbf16>, tensor<8xbf16>, tensor<8xf32>, tensor<bf16>, tensor<8xbf16>
  }
}
