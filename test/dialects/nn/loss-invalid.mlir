// RUN: shale-opt %s --split-input-file --verify-diagnostics

// cross_entropy_c1: not one label per row
func.func @cross_entropy_c1(%x: tensor<32x256xf32>, %l: tensor<31xi64>) {
  // expected-error@+1 {{expects logits [N, V] and labels [N]}}
  %s, %c, %e = nn.cross_entropy %x, %l ignore_index = -100 : tensor<32x256xf32>, tensor<31xi64>
  return
}

// -----

// cross_entropy_c1_rank: logits that are not 2-D
func.func @cross_entropy_c1_rank(%x: tensor<2x3x4xf32>, %l: tensor<2xi64>) {
  // expected-error@+1 {{expects logits [N, V] and labels [N]}}
  %s, %c, %e = nn.cross_entropy %x, %l ignore_index = -100 : tensor<2x3x4xf32>, tensor<2xi64>
  return
}

// -----

// cross_entropy_grad_c1: not one label per row
func.func @cross_entropy_grad_c1(%x: tensor<32x256xf32>, %l: tensor<31xi64>, %e: tensor<32xf32>, %g: tensor<f32>) {
  // expected-error@+1 {{expects logits [N, V] and labels [N]}}
  %0 = nn.cross_entropy_grad %x, %l, %e, %g ignore_index = -100 : tensor<32x256xf32>, tensor<31xi64>
  return
}
