// RUN: shale-opt %s --shale-cluster-kernels --split-input-file --verify-diagnostics

func.func @different(%x: tensor<4xf32>, %y: tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
  %0:2 = nn.cluster (%a = %x : tensor<4xf32>, %b = %y : tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
    %1 = nn.exp %a : tensor<4xf32>
    %2 = nn.exp %b : tensor<6xf32>
    // expected-error @+1 {{outputs of 4 and 6 elements have no common rows}}
    nn.yield %1, %2 : tensor<4xf32>, tensor<6xf32>
  }
  return %0#0, %0#1 : tensor<4xf32>, tensor<6xf32>
}

// -----

func.func @matmul(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{no schedule found for this kernel}}
  %0 = nn.cluster (%a = %x : tensor<4x4xf32>) -> tensor<4x4xf32> {
    // expected-error @+1 {{cannot be part of a kernel}}
    %1 = nn.matmul %a, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    nn.yield %1 : tensor<4x4xf32>
  }
  return %0 : tensor<4x4xf32>
}

// -----

func.func @double(%q: tensor<1x1x4x8xf64>) -> tensor<1x1x4x8xf64> {
  // expected-error @+1 {{has a kernel for f32 and 16-bit floats only; got 'tensor<1x1x4x8xf64>'}}
  %o, %l = nn.attention %q, %q, %q scale = 5.000000e-01 : tensor<1x1x4x8xf64>, tensor<1x1x4x8xf64>, tensor<1x1x4x8xf64> -> tensor<1x1x4x8xf64>, tensor<1x1x4xf64>
  return %o : tensor<1x1x4x8xf64>
}
