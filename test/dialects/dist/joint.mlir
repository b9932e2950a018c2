// RUN: shale-opt %s --verify-roundtrip | FileCheck %s
// RUN: shale-run %s --ranks=8 | FileCheck %s --check-prefix=VALUES

// A joint axis: the ranks that differ on two axes of the mesh only.
// CHECK: dist.mesh @mesh <[tensor "a"=2, shard "fsdp"=2, tensor "b"=2]> joint ["a+b"]
dist.mesh @mesh <[tensor "a"=2, shard "fsdp"=2, tensor "b"=2]> joint ["a+b"]

// Coordinates along it are row-major.
// VALUES: result0: 4xi64 sum 6 [0, 1, 2, 3]
// CHECK-LABEL: func.func @coordinates
func.func @coordinates() -> tensor<4xi64> {
  // CHECK: dist.coordinate "a+b"
  %0 = dist.coordinate "a+b" : tensor<i64>
  %1 = nn.reshape %0 : tensor<i64> -> tensor<1xi64>
  // CHECK: dist.all_gather %{{.*}} over "a+b" dim = 0
  %2 = dist.all_gather %1 over "a+b" dim = 0 : tensor<1xi64> -> tensor<4xi64>
  return %2 : tensor<4xi64>
}
