// RUN: shale-opt %s --shale-annotate-ranges --split-input-file | FileCheck %s

// Tokens index a table, and shifted they are classes. The range is the smaller one.
// CHECK-LABEL: @tied
// CHECK-SAME: %[[X:.*]]: tensor<2x8xi64> {nn.bound = 32 : i64, nn.role = #nn.role<input>}
func.func @tied(%x: tensor<2x8xi64> {nn.role = #nn.role<input>}, %table: tensor<40x4xf32>, %logits: tensor<14x32xf32>) -> (tensor<2x8x4xf32>, tensor<f32>) {
  %0 = nn.embedding %table, %x : (tensor<40x4xf32>, tensor<2x8xi64>) -> tensor<2x8x4xf32>
  %1 = nn.slice %x starts = [0, 1] limits = [2, 8] strides = [1, 1] : tensor<2x8xi64> -> tensor<2x7xi64>
  %2 = nn.reshape %1 : tensor<2x7xi64> -> tensor<14xi64>
  %sum, %count, %lse = nn.cross_entropy %logits, %2 ignore_index = -100 : tensor<14x32xf32>, tensor<14xi64>
  return %0, %sum : tensor<2x8x4xf32>, tensor<f32>
}

// -----

// Labels that are padded, shifted and converted, with an ignored value.
// CHECK-LABEL: @labels
// CHECK-SAME: {nn.bound = 32 : i64, nn.ignored = -100 : i64, nn.role = #nn.role<label>}
func.func @labels(%y: tensor<2x8xi32> {nn.role = #nn.role<label>}, %logits: tensor<16x32xf32>) -> tensor<f32> {
  %0 = nn.pad %y low = [0, 0] high = [0, 1] interior = [0, 0] value = -1.000000e+02 : tensor<2x8xi32> -> tensor<2x9xi32>
  %1 = nn.slice %0 starts = [0, 1] limits = [2, 9] strides = [1, 1] : tensor<2x9xi32> -> tensor<2x8xi32>
  %2 = nn.cast %1 : tensor<2x8xi32> -> tensor<2x8xi64>
  %3 = nn.reshape %2 : tensor<2x8xi64> -> tensor<16xi64>
  %sum, %count, %lse = nn.cross_entropy %logits, %3 ignore_index = -100 : tensor<16x32xf32>, tensor<16xi64>
  return %sum : tensor<f32>
}

// -----

// One column is an index and another is not, so the input has no range.
// CHECK-LABEL: @packed
// CHECK-SAME: %{{.*}}: tensor<2x2xi64> {nn.role = #nn.role<input>}
// CHECK-SAME: %{{.*}}: tensor<2xi64> {nn.role = #nn.role<input>}
func.func @packed(%x: tensor<2x2xi64> {nn.role = #nn.role<input>}, %n: tensor<2xi64> {nn.role = #nn.role<input>}, %table: tensor<40x4xf32>) -> (tensor<2x1x4xf32>, tensor<2x1xi64>, tensor<2xi64>) {
  %0 = nn.slice %x starts = [0, 0] limits = [2, 1] strides = [1, 1] : tensor<2x2xi64> -> tensor<2x1xi64>
  %1 = nn.slice %x starts = [0, 1] limits = [2, 2] strides = [1, 1] : tensor<2x2xi64> -> tensor<2x1xi64>
  %2 = nn.embedding %table, %0 : (tensor<40x4xf32>, tensor<2x1xi64>) -> tensor<2x1x4xf32>
  %3 = nn.neg %1 : tensor<2x1xi64>
  %4 = nn.neg %n : tensor<2xi64>
  return %2, %3, %4 : tensor<2x1x4xf32>, tensor<2x1xi64>, tensor<2xi64>
}

// -----

// A mask is not an index; the operand of a gather is.
// CHECK-LABEL: @select
// CHECK-SAME: {nn.bound = 9 : i64, nn.role = #nn.role<input>}
func.func @select(%x: tensor<2xi64> {nn.role = #nn.role<input>}, %m: tensor<2xi1>, %t: tensor<9xf32>) -> tensor<2xf32> {
  %zero = nn.constant dense<0> : tensor<2xi64>
  %0 = nn.select %m, %x, %zero : tensor<2xi1>, tensor<2xi64>
  %1 = nn.gather %t, %0 dim = 0 : (tensor<9xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
