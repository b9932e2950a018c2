// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s
// RUN: shale-run %s --function=values --print=12 | FileCheck %s --check-prefix=VALUES
// RUN: shale-run %s --function=wide --print=12 | FileCheck %s --check-prefix=WIDE
// RUN: shale-run %s --function=matmul | FileCheck %s --check-prefix=MATMUL

// CHECK-LABEL: func.func @ops
// CHECK: %[[X:.*]] = nn.quantize %{{.*}} : tensor<16x32xf32> -> tensor<16x32xf8E4M3FN>
// CHECK: %[[G:.*]] = nn.quantize %{{.*}} : tensor<16x32xf32> -> tensor<16x32xf8E5M2>
// CHECK: nn.quantized_matmul %[[X]], %[[X]] scales %{{.*}}, %{{.*}} : tensor<16x32xf8E4M3FN>, tensor<16x32xf8E4M3FN> -> tensor<16x16xbf16>
// CHECK: nn.quantized_matmul %[[G]], %[[X]] scales %{{.*}}, %{{.*}} : tensor<16x32xf8E5M2>, tensor<16x32xf8E4M3FN> -> tensor<16x16xf32>
func.func @ops(%x: tensor<16x32xf32>, %s: tensor<f32>) {
  %0 = nn.quantize %x : tensor<16x32xf32> -> tensor<16x32xf8E4M3FN>
  %1 = nn.quantize %x : tensor<16x32xf32> -> tensor<16x32xf8E5M2>
  %2 = nn.quantized_matmul %0, %0 scales %s, %s : tensor<16x32xf8E4M3FN>, tensor<16x32xf8E4M3FN> -> tensor<16x16xbf16>
  %3 = nn.quantized_matmul %1, %0 scales %s, %s : tensor<16x32xf8E5M2>, tensor<16x32xf8E4M3FN> -> tensor<16x16xf32>
  return
}

// Ties go to even, numbers beyond the range and infinities to the largest number, NaN stays. 2^-9 is the smallest number, and
// half of it is a tie with 0.
// VALUES: result0: 12xf8E4M3FN {{.*}} [1, 1.125, 1.25, 448, -448, 448, -448, nan, 0.001953125, 0, 0.00390625, -0]
func.func @values() -> tensor<12xf8E4M3FN> {
  %x = nn.constant dense<[1.0625, 1.125, 1.1875, 447.0, -500.0, 0x7F800000, 0xFF800000, 0x7FC00000, 0.001953125, 0.0009765625, 0.0029296875, -0.0001]> : tensor<12xf32>
  %y = nn.quantize %x : tensor<12xf32> -> tensor<12xf8E4M3FN>
  return %y : tensor<12xf8E4M3FN>
}

// WIDE: result0: 12xf8E5M2 {{.*}} [1, 1.25, 1.5, 57344, -57344, 57344, -57344, nan, 1.52587891e-05, 0, 3.05175781e-05, -0]
func.func @wide() -> tensor<12xf8E5M2> {
  %x = nn.constant dense<[1.125, 1.25, 1.375, 57344.0, -60000.0, 0x7F800000, 0xFF800000, 0x7FC00000, 1.52587890625e-05, 7.62939453125e-06, 2.288818359375e-05, -1.0e-07]> : tensor<12xf32>
  %y = nn.quantize %x : tensor<12xf32> -> tensor<12xf8E5M2>
  return %y : tensor<12xf8E5M2>
}

// [1 2] [3; 0.5] * 2 * 0.25 = 2.
// MATMUL: result0: 1x1xf32 {{.*}} [2]
func.func @matmul() -> tensor<1x1xf32> {
  %x = nn.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %y = nn.constant dense<[[3.0, 0.5]]> : tensor<1x2xf32>
  %s = nn.constant dense<2.0> : tensor<f32>
  %t = nn.constant dense<0.25> : tensor<f32>
  %0 = nn.quantize %x : tensor<1x2xf32> -> tensor<1x2xf8E4M3FN>
  %1 = nn.quantize %y : tensor<1x2xf32> -> tensor<1x2xf8E5M2>
  %2 = nn.quantized_matmul %0, %1 scales %s, %t : tensor<1x2xf8E4M3FN>, tensor<1x2xf8E5M2> -> tensor<1x1xf32>
  return %2 : tensor<1x1xf32>
}
