// RUN: shale-opt --shale-recover-rope %s | FileCheck %s

// CHECK-LABEL: func.func @rope
// CHECK-DAG: %[[C:.*]] = nn.constant dense<{{\[}}[1.000000e+00], [5.000000e-01]]> : tensor<2x1xf32>
// CHECK-DAG: %[[S:.*]] = nn.constant dense<{{\[}}[0.000000e+00], [8.000000e-01]]> : tensor<2x1xf32>
// CHECK: nn.rope %arg0, %[[C]], %[[S]] : tensor<3x2x2xf32>, tensor<2x1xf32>
func.func @rope(%x: tensor<3x2x2xf32>) -> tensor<3x2x2xf32> {
  %c = nn.constant dense<[[[1.0, 1.0], [0.5, 0.5]]]> : tensor<1x2x2xf32>
  %s = nn.constant dense<[[0.0, 0.0], [0.8, 0.8]]> : tensor<2x2xf32>
  %0 = nn.broadcast %c dims = [0, 1, 2] : tensor<1x2x2xf32> -> tensor<3x2x2xf32>
  %1 = nn.broadcast %s dims = [1, 2] : tensor<2x2xf32> -> tensor<3x2x2xf32>
  %2 = nn.mul %x, %0 : tensor<3x2x2xf32>
  %3 = nn.slice %x starts = [0, 0, 0] limits = [3, 2, 1] strides = [1, 1, 1] : tensor<3x2x2xf32> -> tensor<3x2x1xf32>
  %4 = nn.slice %x starts = [0, 0, 1] limits = [3, 2, 2] strides = [1, 1, 1] : tensor<3x2x2xf32> -> tensor<3x2x1xf32>
  %5 = nn.neg %4 : tensor<3x2x1xf32>
  %6 = nn.concat %5, %3 dim = 2 : (tensor<3x2x1xf32>, tensor<3x2x1xf32>) -> tensor<3x2x2xf32>
  %7 = nn.mul %6, %1 : tensor<3x2x2xf32>
  %8 = nn.add %2, %7 : tensor<3x2x2xf32>
  return %8 : tensor<3x2x2xf32>
}

// The halves of the cosines differ.
// CHECK-LABEL: func.func @halves_differ
// CHECK-NOT: nn.rope
func.func @halves_differ(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %c = nn.constant dense<[[1.0, 1.0], [0.5, 0.6]]> : tensor<2x2xf32>
  %s = nn.constant dense<[[0.0, 0.0], [0.8, 0.8]]> : tensor<2x2xf32>
  %2 = nn.mul %x, %c : tensor<2x2xf32>
  %3 = nn.slice %x starts = [0, 0] limits = [2, 1] strides = [1, 1] : tensor<2x2xf32> -> tensor<2x1xf32>
  %4 = nn.slice %x starts = [0, 1] limits = [2, 2] strides = [1, 1] : tensor<2x2xf32> -> tensor<2x1xf32>
  %5 = nn.neg %4 : tensor<2x1xf32>
  %6 = nn.concat %5, %3 dim = 1 : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x2xf32>
  %7 = nn.mul %6, %s : tensor<2x2xf32>
  %8 = nn.add %2, %7 : tensor<2x2xf32>
  return %8 : tensor<2x2xf32>
}
