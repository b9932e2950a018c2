// RUN: shale-run --check-gradient %s | FileCheck %s

// Strides whose last element lies before the limit, and an empty slice.
func.func @slice(%a: tensor<4x9xf64>) -> (tensor<4x3xf64>, tensor<2x9xf64>, tensor<0x9xf64>) {
  %0 = nn.slice %a starts = [0, 1] limits = [4, 8] strides = [1, 3] : tensor<4x9xf64> -> tensor<4x3xf64>
  %1 = nn.slice %a starts = [1, 0] limits = [4, 9] strides = [2, 1] : tensor<4x9xf64> -> tensor<2x9xf64>
  %2 = nn.slice %a starts = [2, 0] limits = [2, 9] strides = [1, 1] : tensor<4x9xf64> -> tensor<0x9xf64>
  return %0, %1, %2 : tensor<4x3xf64>, tensor<2x9xf64>, tensor<0x9xf64>
}
// CHECK: @slice argument 0: 36 elements
