// The flag of the user would have no effect.
// RUN: shale-opt %s --shale-quantize-matmuls 2>&1 | FileCheck %s
// RUN: shale-opt %s --shale-quantize-matmuls --remarks-filter=quantize-matmuls 2>&1 | FileCheck %s --check-prefix=REMARK
// REMARK: operands of a matmul of 16 x 48 x 30 stay as they are: these sizes are not all multiples of 16
// CHECK: warning: no matmul has operands of 8-bit floats: no matmul's sizes are all multiples of 16 on a rank
// CHECK: nn.matmul %arg0, %arg1 transpose_rhs : (tensor<16x30xbf16>, tensor<48x30xbf16>) -> tensor<16x48xbf16>
func.func @odd(%x: tensor<16x30xbf16>, %w: tensor<48x30xbf16>) -> tensor<16x48xbf16> {
  %0 = nn.matmul %x, %w transpose_rhs quantized [f8E4M3FN, f8E4M3FN] : (tensor<16x30xbf16>, tensor<48x30xbf16>) -> tensor<16x48xbf16>
  return %0 : tensor<16x48xbf16>
}
