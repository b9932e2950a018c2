// RUN: shale-opt %s --shale-split-clusters --split-input-file --verify-diagnostics

// One error lists all ops without a kernel: those alone in a cluster, those split from a cluster, and those outside of clusters.
func.func @refused(%x: tensor<4x4xf32>, %q: tensor<1x1x4x8xf64>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<1x1x4x8xf64>) {
  %0 = nn.cluster (%a = %x : tensor<4x4xf32>) -> tensor<4x4xf32> {
    // expected-error@+1 {{'nn.matmul' has no kernel on this target: 'nn.matmul' op cannot be part of a kernel}}
    %1 = nn.matmul %a, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    nn.yield %1 : tensor<4x4xf32>
  }
  %2 = nn.cluster (%a = %x : tensor<4x4xf32>) -> tensor<4x4xf32> {
    // expected-note@+1 {{'nn.matmul' has none either: 'nn.matmul' op cannot be part of a kernel}}
    %1 = nn.matmul %a, %a transpose_rhs : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    nn.yield %1 : tensor<4x4xf32>
  }
  // expected-note@+1 {{'nn.attention' has none either: 'nn.attention' op has a kernel for f32 and 16-bit floats only; got 'tensor<1x1x4x8xf64>'}}
  %o, %l = nn.attention %q, %q, %q scale = 5.000000e-01 : tensor<1x1x4x8xf64>, tensor<1x1x4x8xf64>, tensor<1x1x4x8xf64> -> tensor<1x1x4x8xf64>, tensor<1x1x4xf64>
  return %0, %2, %o : tensor<4x4xf32>, tensor<4x4xf32>, tensor<1x1x4x8xf64>
}

// -----

// The library's matmuls are of f32 and 16-bit floats.
func.func @double(%x: tensor<4x4xf64>) -> tensor<4x4xf64> {
  // expected-error@+1 {{'nn.matmul' has no kernel on this target: 'nn.matmul' op cannot be part of a kernel}}
  %0 = nn.matmul %x, %x : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  return %0 : tensor<4x4xf64>
}
