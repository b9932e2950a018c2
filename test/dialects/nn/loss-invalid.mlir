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

// -----

// cross_entropy_c2: more classes than columns
func.func @cross_entropy_c2(%x: tensor<4x6xf32>, %l: tensor<4xi64>) {
  // expected-error@+1 {{has 7 classes, but logits 'tensor<4x6xf32>'}}
  %s, %c, %e = nn.cross_entropy %x, %l ignore_index = -100 classes = 7 : tensor<4x6xf32>, tensor<4xi64>
  return
}

// -----

// cross_entropy_grad_c2: no class
func.func @cross_entropy_grad_c2(%x: tensor<4x6xf32>, %l: tensor<4xi64>, %e: tensor<4xf32>, %g: tensor<f32>) {
  // expected-error@+1 {{has 0 classes, but logits 'tensor<4x6xf32>'}}
  %0 = nn.cross_entropy_grad %x, %l, %e, %g ignore_index = -100 classes = 0 : tensor<4x6xf32>, tensor<4xi64>
  return
}
