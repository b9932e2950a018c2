// A slice whose stride divides each rank's part, and a pad with such steps, work on the parts; so do those of whole blocks.
// RUN: shale-opt %s --shale-propagate --shale-verify-sharded --shale-partition -o %t
// RUN: FileCheck %s < %t
// RUN: shale-opt %t --shale-lower-collectives -o %t.lowered
// RUN: shale-run --as=f64 %s --compare=%t --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// RUN: shale-run --as=f64 %s --compare=%t.lowered --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL: @pairs: 1 values, 0 differ in value
// EQUAL: @rows: 1 values, 0 differ in value
// EQUAL: @last: 1 values, 0 differ in value
// EQUAL: @blocks: 1 values, 0 differ in value
// EQUAL: @half: 1 values, 0 differ in value
// EQUAL: @uneven: 1 values, 0 differ in value
// EQUAL: @stride: 1 values, 0 differ in value
// EQUAL: @across: 1 values, 0 differ in value
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>

// Even and odd columns, as rotary positions of neighbours and interleaved gates have them, and the gradient of a slice.
// CHECK-LABEL: func.func @pairs
// CHECK-NOT: dist.all_gather
// CHECK: nn.slice %{{.*}} starts = [0, 0] limits = [4, 4] strides = [1, 2] : tensor<4x4xf32> -> tensor<4x2xf32>
// CHECK: nn.slice %{{.*}} starts = [0, 1] limits = [4, 4] strides = [1, 2] : tensor<4x4xf32> -> tensor<4x2xf32>
// CHECK: nn.pad %{{.*}} low = [0, 1] high = [0, 0] interior = [0, 1] value = 2.0{{.*}} : tensor<4x2xf32> -> tensor<4x4xf32>
// CHECK: dist.all_gather {{.*}} over "tp" dim = 1 : tensor<4x4xf32> -> tensor<4x8xf32>
func.func @pairs(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "a", dist.sharding = #dist.sharding<[{}, {}]>}) -> tensor<4x8xf32> {
  %part = dist.constrain %x to <[{}, {"tp"}]> : tensor<4x8xf32>
  %even = nn.slice %part starts = [0, 0] limits = [4, 8] strides = [1, 2] : tensor<4x8xf32> -> tensor<4x4xf32>
  %odd = nn.slice %part starts = [0, 1] limits = [4, 8] strides = [1, 2] : tensor<4x8xf32> -> tensor<4x4xf32>
  %both = nn.mul %even, %odd : tensor<4x4xf32>
  %back = nn.pad %both low = [0, 1] high = [0, 0] interior = [0, 1] value = 2.0 : tensor<4x4xf32> -> tensor<4x8xf32>
  %sum = nn.add %part, %back : tensor<4x8xf32>
  return %sum : tensor<4x8xf32>
}

// Pairs of examples, which data ranks divide.
// CHECK-LABEL: func.func @rows
// CHECK: nn.slice %{{.*}} starts = [0, 0] limits = [4, 3] strides = [2, 1] : tensor<4x3xf32> -> tensor<2x3xf32>
// CHECK: nn.slice %{{.*}} starts = [1, 0] limits = [4, 3] strides = [2, 1] : tensor<4x3xf32> -> tensor<2x3xf32>
// CHECK: nn.sub {{.*}} : tensor<2x3xf32>
func.func @rows(%x: tensor<8x3xf32> {nn.role = #nn.role<input>, nn.name = "b", nn.batch_dim = 0 : i64}) -> tensor<4x3xf32> {
  %chosen = nn.slice %x starts = [0, 0] limits = [8, 3] strides = [2, 1] : tensor<8x3xf32> -> tensor<4x3xf32>
  %other = nn.slice %x starts = [1, 0] limits = [8, 3] strides = [2, 1] : tensor<8x3xf32> -> tensor<4x3xf32>
  %difference = nn.sub %chosen, %other : tensor<4x3xf32>
  return %difference : tensor<4x3xf32>
}

// The limit is right behind the last element that is taken.
// CHECK-LABEL: func.func @last
// CHECK: nn.slice %{{.*}} starts = [1] limits = [5] strides = [3] : tensor<6xf32> -> tensor<2xf32>
func.func @last(%x: tensor<12xf32> {nn.role = #nn.role<input>, nn.name = "c", dist.sharding = #dist.sharding<[{}]>}) -> tensor<4xf32> {
  %part = dist.constrain %x to <[{"tp"}]> : tensor<12xf32>
  %s = nn.slice %part starts = [1] limits = [11] strides = [3] : tensor<12xf32> -> tensor<4xf32>
  %e = nn.exp %s : tensor<4xf32>
  return %e : tensor<4xf32>
}

// Each rank has two rows of three examples of four. It takes those of the last two examples, then odd ones of these.
// CHECK-LABEL: func.func @blocks
// CHECK: nn.slice %{{.*}} starts = [2, 0] limits = [6, 3] strides = [1, 1] : tensor<6x3xf32> -> tensor<4x3xf32>
// CHECK: nn.slice %{{.*}} starts = [1, 0] limits = [4, 3] strides = [2, 1] : tensor<4x3xf32> -> tensor<2x3xf32>
// CHECK: nn.pad %{{.*}} low = [1, 0] high = [0, 0] interior = [1, 0] {{.*}} : tensor<2x3xf32> -> tensor<4x3xf32>
// CHECK: nn.pad %{{.*}} low = [2, 0] high = [0, 0] interior = [0, 0] {{.*}} : tensor<4x3xf32> -> tensor<6x3xf32>
// CHECK: dist.all_gather {{.*}} over "tp" dim = 1 : tensor<3x2x3xf32> -> tensor<3x4x3xf32>
func.func @blocks(%x: tensor<12x3xf32> {nn.role = #nn.role<input>, nn.name = "d", dist.sharding = #dist.sharding<[{}, {}]>}) -> tensor<12x3xf32> {
  %rows = dist.constrain %x to <[{"tp" in 3}, {}]> : tensor<12x3xf32>
  %two = nn.slice %rows starts = [4, 0] limits = [12, 3] strides = [1, 1] : tensor<12x3xf32> -> tensor<8x3xf32>
  %odd = nn.slice %two starts = [1, 0] limits = [8, 3] strides = [2, 1] : tensor<8x3xf32> -> tensor<4x3xf32>
  %e = nn.exp %odd : tensor<4x3xf32>
  %wide = nn.pad %e low = [1, 0] high = [0, 0] interior = [1, 0] value = 0.0 : tensor<4x3xf32> -> tensor<8x3xf32>
  %sum = nn.add %wide, %two : tensor<8x3xf32>
  %all = nn.pad %sum low = [4, 0] high = [0, 0] interior = [0, 0] value = 1.0 : tensor<8x3xf32> -> tensor<12x3xf32>
  return %all : tensor<12x3xf32>
}

// One block of two has no blocks.
// CHECK-LABEL: func.func @half
// CHECK: nn.slice %{{.*}} starts = [2, 0] limits = [4, 3] strides = [1, 1] : tensor<4x3xf32> -> tensor<2x3xf32>
// CHECK: nn.exp {{.*}} : tensor<2x3xf32>
// CHECK: dist.all_gather {{.*}} over "tp" dim = 0 : tensor<2x3xf32> -> tensor<4x3xf32>
func.func @half(%x: tensor<8x3xf32> {nn.role = #nn.role<input>, nn.name = "e", dist.sharding = #dist.sharding<[{}, {}]>}) -> tensor<4x3xf32> {
  %rows = dist.constrain %x to <[{"tp" in 2}, {}]> : tensor<8x3xf32>
  %one = nn.slice %rows starts = [4, 0] limits = [8, 3] strides = [1, 1] : tensor<8x3xf32> -> tensor<4x3xf32>
  %e = nn.exp %one : tensor<4x3xf32>
  return %e : tensor<4x3xf32>
}

// A part of three columns is no whole number of pairs.
// CHECK-LABEL: func.func @uneven
// CHECK: dist.all_gather {{.*}} over "tp" dim = 1 : tensor<4x3xf32> -> tensor<4x6xf32>
// CHECK: nn.slice {{.*}} : tensor<4x6xf32> -> tensor<4x3xf32>
func.func @uneven(%x: tensor<4x6xf32> {nn.role = #nn.role<input>, nn.name = "f", dist.sharding = #dist.sharding<[{}, {}]>}) -> tensor<4x3xf32> {
  %part = dist.constrain %x to <[{}, {"tp"}]> : tensor<4x6xf32>
  %even = nn.slice %part starts = [0, 0] limits = [4, 6] strides = [1, 2] : tensor<4x6xf32> -> tensor<4x3xf32>
  return %even : tensor<4x3xf32>
}

// A stride that does not divide the columns.
// CHECK-LABEL: func.func @stride
// CHECK: dist.all_gather {{.*}} over "tp" dim = 1 : tensor<4x4xf32> -> tensor<4x8xf32>
// CHECK: nn.slice {{.*}} : tensor<4x8xf32> -> tensor<4x2xf32>
func.func @stride(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "g", dist.sharding = #dist.sharding<[{}, {}]>}) -> tensor<4x2xf32> {
  %part = dist.constrain %x to <[{}, {"tp"}]> : tensor<4x8xf32>
  %third = nn.slice %part starts = [0, 0] limits = [4, 6] strides = [1, 3] : tensor<4x8xf32> -> tensor<4x2xf32>
  return %third : tensor<4x2xf32>
}

// Rows from the middle of an example on: its blocks are cut.
// CHECK-LABEL: func.func @across
// CHECK: dist.all_gather {{.*}} over "tp" dim = 1 : tensor<3x2x3xf32> -> tensor<3x4x3xf32>
// CHECK: nn.slice {{.*}} : tensor<12x3xf32> -> tensor<8x3xf32>
func.func @across(%x: tensor<12x3xf32> {nn.role = #nn.role<input>, nn.name = "h", dist.sharding = #dist.sharding<[{}, {}]>}) -> tensor<8x3xf32> {
  %rows = dist.constrain %x to <[{"tp" in 3}, {}]> : tensor<12x3xf32>
  %e = nn.exp %rows : tensor<12x3xf32>
  %some = nn.slice %e starts = [2, 0] limits = [10, 3] strides = [1, 1] : tensor<12x3xf32> -> tensor<8x3xf32>
  return %some : tensor<8x3xf32>
}
