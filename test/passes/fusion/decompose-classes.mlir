// A loss over padded logits, decomposed, is that of the op: one label is ignored, one is a column of padding.
// RUN: shale-opt %s --shale-decompose -o %t.mlir
// RUN: shale-run --as=f64 %s --compare=%t.mlir | FileCheck %s --check-prefix=EQUAL
// RUN: FileCheck %s < %t.mlir

// EQUAL: 0 differ
// CHECK: nn.constant dense<3> : tensor<4x5xi64>
// CHECK-NOT: nn.cross_entropy
func.func @loss(%x: tensor<4x5xf32>) -> (tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4x5xf32>) {
  %l = nn.constant dense<[0, -100, 2, 4]> : tensor<4xi64>
  %s, %c, %e = nn.cross_entropy %x, %l ignore_index = -100 classes = 3 : tensor<4x5xf32>, tensor<4xi64>
  %g = nn.cross_entropy_grad %x, %l, %e, %s ignore_index = -100 classes = 3 : tensor<4x5xf32>, tensor<4xi64>
  return %s, %c, %e, %g : tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4x5xf32>
}
