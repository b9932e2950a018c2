// Each op that a loss becomes has the phase of the loss: ops of different phases would not share a kernel, and the loss and its gradient
// would read the logits once more and store the exponentials.
// RUN: shale-opt %s --shale-decompose -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: grep -E "^ *%%.* = " %t.mlir | not grep -v "nn.phase = #backward"
// CHECK-LABEL: @loss
// CHECK-COUNT-2: nn.compare ne
// CHECK-NOT: nn.cross_entropy
func.func @loss(%logits: tensor<4x9xf32>, %labels: tensor<4xi64>, %g: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<4x9xf32>) {
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 classes = 7 {nn.phase = #nn.phase<backward>} : tensor<4x9xf32>, tensor<4xi64>
  %d = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = -100 classes = 7 {nn.phase = #nn.phase<backward>} : tensor<4x9xf32>, tensor<4xi64>
  return %sum, %count, %d : tensor<f32>, tensor<f32>, tensor<4x9xf32>
}
