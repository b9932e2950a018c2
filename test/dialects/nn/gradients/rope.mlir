// RUN: shale-run --check-gradient %s | FileCheck %s

// Both pairings, forward and inverse. The last element of a row is not rotated.
func.func @rope(%x: tensor<2x3x5xf64>, %c: tensor<3x2xf64> {nn.role = #nn.role<input>}, %s: tensor<3x2xf64> {nn.role = #nn.role<input>}) -> (tensor<2x3x5xf64>, tensor<2x3x5xf64>) {
  %0 = nn.rope %x, %c, %s : tensor<2x3x5xf64>, tensor<3x2xf64>
  %1 = nn.rope %x, %c, %s interleaved inverse : tensor<2x3x5xf64>, tensor<3x2xf64>
  return %0, %1 : tensor<2x3x5xf64>, tensor<2x3x5xf64>
}
// CHECK: @rope argument 0: 30 elements

// Heads are between positions and features.
func.func @headed(%x: tensor<3x2x5xf64>, %c: tensor<3x2xf64> {nn.role = #nn.role<input>}, %s: tensor<3x2xf64> {nn.role = #nn.role<input>}) -> tensor<3x2x5xf64> {
  %0 = nn.rope %x, %c, %s headed : tensor<3x2x5xf64>, tensor<3x2xf64>
  return %0 : tensor<3x2x5xf64>
}
// CHECK: @headed argument 0: 30 elements
