// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s
// RUN: shale-run %s --function=values | FileCheck %s --check-prefix=VALUES
// RUN: shale-run %s --function=first | FileCheck %s --check-prefix=FIRST

// CHECK-LABEL: func.func @sort
// CHECK: nn.argsort %{{.*}} bound = 256 : tensor<5x14xi64> -> tensor<70xi32>, tensor<257xi32>
// CHECK: nn.sorted_embedding_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<70xi32>, tensor<257xi32>, tensor<70x64xbf16>, tensor<2x64xf32>) -> tensor<256x64xf32>
// CHECK: %{{.*}}, %{{.*}} = nn.sorted_embedding_grad {{.*}} -> (tensor<256x64xf32>, tensor<256xf32>)
func.func @sort(%i: tensor<5x14xi64>, %g: tensor<70x64xbf16>, %p: tensor<2x64xf32>) {
  %order, %starts = nn.argsort %i bound = 256 : tensor<5x14xi64> -> tensor<70xi32>, tensor<257xi32>
  %0 = nn.sorted_embedding_grad %order, %starts, %g, %p
      : (tensor<70xi32>, tensor<257xi32>, tensor<70x64xbf16>, tensor<2x64xf32>) -> tensor<256x64xf32>
  %1, %squares = nn.sorted_embedding_grad %order, %starts, %g, %p
      : (tensor<70xi32>, tensor<257xi32>, tensor<70x64xbf16>, tensor<2x64xf32>) -> (tensor<256x64xf32>, tensor<256xf32>)
  return
}

// Equal values keep their order; -1, 3 and 9 are out of range. No indices have an order, too.
// VALUES-LABEL: @values
// VALUES: result0: 8xi32 {{.*}} [2, 0, 4, 7, 1, 3, 5, 6]
// VALUES: result1: 4xi32 {{.*}} [0, 1, 3, 4]
// VALUES: result2: 3x1xf32 {{.*}} [3, 6, 8]
// VALUES: result3: 0xi32
// VALUES: result4: 3xi32 {{.*}} [0, 0, 0]
// A whole piece, positions 32 to 63, is not added row by row: its rows are 1, but its sum says 1000. So row 1 is 31 + 1000 + 1,
// row 0 is 1, and row 2 has starts beyond the gradient, which are cut to its 65 rows, of which the last is in no piece.
// VALUES: result5: 3x1xf32 {{.*}} [1, 1032, 0]
// Squares of rows of two columns: 1 + 4, (3 + 5)^2 + (4 + 6)^2, and nothing.
// VALUES: result6: 3x2xf32 {{.*}} [1, 2, 8, 10, 0, 0]
// VALUES: result7: 3xf32 {{.*}} [5, 164, 0]
func.func @values() -> (tensor<8xi32>, tensor<4xi32>, tensor<3x1xf32>, tensor<0xi32>, tensor<3xi32>, tensor<3x1xf32>, tensor<3x2xf32>, tensor<3xf32>) {
  %i = nn.constant dense<[1, -1, 0, 3, 1, 9, -1, 2]> : tensor<8xi64>
  %order, %starts = nn.argsort %i bound = 3 : tensor<8xi64> -> tensor<8xi32>, tensor<4xi32>
  %g = nn.constant dense<[[1.0], [2.0], [3.0], [4.0], [5.0], [6.0], [7.0], [8.0]]> : tensor<8x1xf32>
  %p = nn.constant dense<0.0> : tensor<0x1xf32>
  %0 = nn.sorted_embedding_grad %order, %starts, %g, %p : (tensor<8xi32>, tensor<4xi32>, tensor<8x1xf32>, tensor<0x1xf32>) -> tensor<3x1xf32>
  %none = nn.constant dense<0> : tensor<0xi64>
  %no_order, %zeros = nn.argsort %none bound = 2 : tensor<0xi64> -> tensor<0xi32>, tensor<3xi32>
  %first = nn.constant dense<0> : tensor<65xi32>
  %bounds = nn.constant dense<[-5, 1, 70, 99]> : tensor<4xi32>
  %ones = nn.constant dense<1.0> : tensor<65x1xf32>
  %sums = nn.constant dense<1000.0> : tensor<2x1xf32>
  %1 = nn.sorted_embedding_grad %first, %bounds, %ones, %sums : (tensor<65xi32>, tensor<4xi32>, tensor<65x1xf32>, tensor<2x1xf32>) -> tensor<3x1xf32>
  %three = nn.constant dense<[0, 1, 2]> : tensor<3xi32>
  %ends = nn.constant dense<[0, 1, 3, 3]> : tensor<4xi32>
  %pairs = nn.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %no_sums = nn.constant dense<0.0> : tensor<0x2xf32>
  %2, %squares = nn.sorted_embedding_grad %three, %ends, %pairs, %no_sums : (tensor<3xi32>, tensor<4xi32>, tensor<3x2xf32>, tensor<0x2xf32>) -> (tensor<3x2xf32>, tensor<3xf32>)
  return %order, %starts, %0, %no_order, %zeros, %1, %2, %squares : tensor<8xi32>, tensor<4xi32>, tensor<3x1xf32>, tensor<0xi32>, tensor<3xi32>, tensor<3x1xf32>, tensor<3x2xf32>, tensor<3xf32>
}

// Of equal numbers the first; NaN is the largest.
// FIRST: result0: 2x3xf32 {{.*}} [nan, 5, 5, 7, 2, 1]
// FIRST: result1: 2x3xi64 {{.*}} [2, 1, 3, 1, 0, 2]
// FIRST: result2: 2x2xf32 {{.*}} [-1, 5, 1, 1]
// FIRST: result3: 2x2xi32 {{.*}} [0, 1, 2, 3]
func.func @first() -> (tensor<2x3xf32>, tensor<2x3xi64>, tensor<2x2xf32>, tensor<2x2xi32>) {
  %x = nn.constant dense<[[-1.0, 5.0, 0x7FC00000, 5.0], [2.0, 7.0, 1.0, 1.0]]> : tensor<2x4xf32>
  // CHECK: nn.top_k %{{.*}} : tensor<2x4xf32> -> tensor<2x3xf32>, tensor<2x3xi64>
  %0, %1 = nn.top_k %x : tensor<2x4xf32> -> tensor<2x3xf32>, tensor<2x3xi64>
  // CHECK: nn.top_k %{{.*}} smallest : tensor<2x4xf32> -> tensor<2x2xf32>, tensor<2x2xi32>
  %2, %3 = nn.top_k %x smallest : tensor<2x4xf32> -> tensor<2x2xf32>, tensor<2x2xi32>
  return %0, %1, %2, %3 : tensor<2x3xf32>, tensor<2x3xi64>, tensor<2x2xf32>, tensor<2x2xi32>
}
