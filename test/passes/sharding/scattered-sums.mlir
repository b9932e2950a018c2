// RUN: shale-opt %s --shale-propagate --shale-verify-sharded --shale-partition -o %t
// RUN: FileCheck %s < %t
// RUN: shale-run --as=f64 %s --compare=%t --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL: @columns: 1 values, 0 differ in value

// A sum over fsdp whose columns tp splits becomes parts that fsdp splits first. The columns are gathered, and then the sum is scattered over fsdp: ranks
// that sliced it first would add slices of different elements.
// CHECK-LABEL: func.func @columns
// CHECK: %[[P:.*]] = nn.reduce sum %{{.*}} dims = [0] : tensor<2x4xf32> -> tensor<4xf32>
// CHECK: %[[G:.*]] = dist.all_gather %[[P]] over "tp" dim = 0 : tensor<4xf32> -> tensor<8xf32>
// CHECK: %[[S:.*]] = dist.reduce_scatter sum %[[G]] over "fsdp" dim = 0 : tensor<8xf32> -> tensor<4xf32>
// CHECK: %[[T:.*]] = dist.slice %[[S]] over "tp" dim = 0 : tensor<4xf32> -> tensor<2xf32>
// CHECK-NOT: dist.all_reduce
// CHECK: nn.exp %[[T]] : tensor<2xf32>
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
func.func @columns(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}) -> tensor<8xf32> {
  %y = dist.constrain %x to <[{"fsdp"}, {"tp"}]> : tensor<4x8xf32>
  %0 = nn.reduce sum %y dims = [0] : tensor<4x8xf32> -> tensor<8xf32>
  %1 = dist.constrain %0 to <[{"fsdp", "tp"}]> : tensor<8xf32>
  %2 = nn.exp %1 : tensor<8xf32>
  return %2 : tensor<8xf32>
}
