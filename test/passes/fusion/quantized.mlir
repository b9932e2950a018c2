// Matmuls of 8-bit floats against NumPy: as `quantized` of nn.matmul, and as nn.quantized_matmul of rounded operands.
// RUN: %python %S/quantized.py %s | FileCheck %s
// RUN: shale-opt %s --shale-quantize-matmuls -o %t.mlir
// RUN: FileCheck %s --check-prefix=IR --input-file %t.mlir
// RUN: %python %S/quantized.py %t.mlir | FileCheck %s
// CHECK: y: 1536 elements
// CHECK: dx: 2048 elements
// CHECK: dw: 3072 elements
// CHECK: an infinite gradient: no element of dx and dw is finite
// IR-COUNT-3: nn.quantized_matmul
// IR-NOT: nn.matmul
module attributes {nn.target = "cpu:x86-64-v3"} {
func.func @step(%x32: tensor<32x64xf32> {nn.name = "x"}, %w32: tensor<48x64xf32> {nn.name = "w"}, %g32: tensor<32x48xf32> {nn.name = "g"}) -> (tensor<32x48xbf16>, tensor<32x64xbf16>, tensor<48x64xf32>) {
  %x = nn.cast %x32 : tensor<32x64xf32> -> tensor<32x64xbf16>
  %w = nn.cast %w32 : tensor<48x64xf32> -> tensor<48x64xbf16>
  %g = nn.cast %g32 : tensor<32x48xf32> -> tensor<32x48xbf16>
  %0 = nn.matmul %x, %w transpose_rhs quantized [f8E4M3FN, f8E4M3FN] {nn.phase = #nn.phase<forward>} : (tensor<32x64xbf16>, tensor<48x64xbf16>) -> tensor<32x48xbf16>
  %1 = nn.matmul %g, %w quantized [f8E5M2, f8E4M3FN] {nn.phase = #nn.phase<backward>} : (tensor<32x48xbf16>, tensor<48x64xbf16>) -> tensor<32x64xbf16>
  %2 = nn.matmul %g, %x transpose_lhs quantized [f8E5M2, f8E4M3FN] {nn.phase = #nn.phase<backward>} : (tensor<32x48xbf16>, tensor<32x64xbf16>) -> tensor<48x64xf32>
  return %0, %1, %2 : tensor<32x48xbf16>, tensor<32x64xbf16>, tensor<48x64xf32>
}
}
