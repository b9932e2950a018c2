// An axis splits each of two blocks of rows: the positions of two examples. Local forms that number their elements number those of both.
// RUN: shale-opt %s --shale-propagate --shale-verify-sharded --shale-partition -o %t
// RUN: FileCheck %s < %t
// RUN: shale-opt %t --shale-lower-collectives -o %t.lowered
// RUN: shale-run --as=f64 %s --compare=%t --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// RUN: shale-run --as=f64 %s --compare=%t.lowered --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL: @numbers: 1 values, 0 differ in value
// EQUAL: @moved: 1 values, 0 differ in value
// EQUAL: @views: 2 values, 0 differ in value

// Each rank of "fsdp" has two examples of four positions, each rank of "tp" two positions of both.
// CHECK-LABEL: func.func @numbers
// CHECK: %[[EXAMPLE:.*]] = nn.iota dim = 0 : tensor<2x2x3xi64>
// CHECK: nn.mul %[[EXAMPLE]]
// CHECK: nn.iota dim = 1 : tensor<2x2x3xi64>
// CHECK: dist.coordinate "fsdp"
// CHECK: dist.coordinate "tp"
// CHECK: nn.dropout {{.*}} of [4, 4, 3] {{.*}}: tensor<2x2x3xf32>
// CHECK: nn.uniform {{.*}} of [4, 4, 3] {{.*}}: tensor<2x2x3xf32>
// CHECK: nn.constant dense<[
// CHECK: dist.slice {{.*}} over "fsdp" dim = 0 : tensor<16x1xf32> -> tensor<8x1xf32>
// CHECK: dist.slice {{.*}} over "tp" dim = 1 : tensor<2x4x1xf32> -> tensor<2x2x1xf32>
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
func.func @numbers(%x: tensor<16x3xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %s: tensor<i64>) -> tensor<16x3xf32> {
  %rows = dist.constrain %x to <[{"fsdp", "tp" in 2}, {}]> : tensor<16x3xf32>
  %row = nn.iota dim = 0 : tensor<16x3xi64>
  %number = nn.cast %row : tensor<16x3xi64> -> tensor<16x3xf32>
  %sum = nn.add %rows, %number : tensor<16x3xf32>
  %drop = nn.dropout %sum seed %s step %s microbatch %s ratio = 0.5 id = 1 : tensor<16x3xf32>, tensor<i64>
  %noise = nn.uniform seed %s step %s microbatch %s id = 2 : tensor<16x3xf32>, tensor<i64>
  %noisy = nn.add %drop, %noise : tensor<16x3xf32>
  %table = nn.constant dense<[[0.0], [1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0], [8.0], [9.0], [10.0], [11.0], [12.0], [13.0], [14.0], [15.0]]> : tensor<16x1xf32>
  %column = nn.broadcast %table dims = [0, 1] : tensor<16x1xf32> -> tensor<16x3xf32>
  %all = nn.add %noisy, %column : tensor<16x3xf32>
  return %all : tensor<16x3xf32>
}

// A split moves between a dimension in blocks and another one.
// CHECK-LABEL: func.func @moved
// CHECK: dist.all_to_all {{.*}} over "tp" split = 2 concat = 1 : tensor<2x2x4xf32> -> tensor<2x4x2xf32>
// CHECK: dist.all_to_all {{.*}} over "tp" split = 1 concat = 2 : tensor<2x4x2xf32> -> tensor<2x2x4xf32>
func.func @moved(%x: tensor<8x4xf32> {nn.role = #nn.role<input>, nn.name = "y", dist.sharding = #dist.sharding<[{}, {}]>}) -> tensor<8x4xf32> {
  %rows = dist.constrain %x to <[{"tp" in 2}, {}]> : tensor<8x4xf32>
  %t = nn.tanh %rows : tensor<8x4xf32>
  %columns = dist.constrain %t to <[{}, {"tp"}]> : tensor<8x4xf32>
  %g = nn.gelu %columns : tensor<8x4xf32>
  %again = dist.constrain %g to <[{"tp" in 2}, {}]> : tensor<8x4xf32>
  %e = nn.exp %again : tensor<8x4xf32>
  return %e : tensor<8x4xf32>
}

// Two blocks of six rows are two blocks of two by three rows, which stay split up to the end, but no blocks of three by four rows.
// CHECK-LABEL: func.func @views
// CHECK: %[[T:.*]] = nn.tanh {{.*}} : tensor<6x4xf32>
// CHECK: %[[VIEW:.*]] = nn.reshape %[[T]] : tensor<6x4xf32> -> tensor<2x3x4xf32>
// CHECK: dist.all_gather {{.*}} over "tp" dim = 1 : tensor<2x3x4xf32> -> tensor<2x6x4xf32>
// CHECK: nn.reshape {{.*}} : tensor<12x4xf32> -> tensor<3x4x4xf32>
// CHECK: nn.reshape %[[VIEW]] : tensor<2x3x4xf32> -> tensor<2x1x3x4xf32>
// CHECK: dist.all_gather {{.*}} over "tp" dim = 1 : tensor<2x1x3x4xf32> -> tensor<2x2x3x4xf32>
func.func @views(%x: tensor<12x4xf32> {nn.role = #nn.role<input>, nn.name = "z", dist.sharding = #dist.sharding<[{}, {}]>}) -> (tensor<4x3x4xf32>, tensor<3x4x4xf32>) {
  %rows = dist.constrain %x to <[{"tp" in 2}, {}]> : tensor<12x4xf32>
  %t = nn.tanh %rows : tensor<12x4xf32>
  %other = nn.reshape %t : tensor<12x4xf32> -> tensor<4x3x4xf32>
  %third = nn.reshape %t : tensor<12x4xf32> -> tensor<3x4x4xf32>
  return %other, %third : tensor<4x3x4xf32>, tensor<3x4x4xf32>
}

// A view that is read in blocks, of a value that cannot have them.
// CHECK-LABEL: func.func @argument
// CHECK: dist.slice {{.*}} over "tp" dim = 1 : tensor<3x4x4xf32> -> tensor<3x2x4xf32>
func.func @argument(%x: tensor<12x4xf32> {nn.role = #nn.role<input>, nn.name = "w", dist.sharding = #dist.sharding<[{}, {}]>}) -> tensor<3x4x4xf32> {
  %v = nn.reshape %x : tensor<12x4xf32> -> tensor<3x4x4xf32>
  %c = dist.constrain %v to <[{}, {"tp"}, {}]> : tensor<3x4x4xf32>
  return %c : tensor<3x4x4xf32>
}

// Nothing is split.
// CHECK-LABEL: func.func @empty
// CHECK: nn.iota dim = 0 : tensor<0xi64>
func.func @empty(%x: tensor<0xi64> {nn.role = #nn.role<input>, nn.name = "e", dist.sharding = #dist.sharding<[{}]>}) -> tensor<0xi64> {
  %i = nn.iota dim = 0 : tensor<0xi64>
  %s = nn.add %x, %i : tensor<0xi64>
  %c = dist.constrain %s to <[{"tp"}]> : tensor<0xi64>
  return %c : tensor<0xi64>
}
