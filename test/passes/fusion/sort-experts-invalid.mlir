// RUN: shale-opt %s --split-input-file --shale-sort-experts --verify-diagnostics

func.func @parts(%x: tensor<4x2xf32>, %w: tensor<4x2x3xf32>, %experts: tensor<4xi32>) -> tensor<4x3xf32> {
  // expected-error@+1 {{has 2 parts, which only ranks of an axis of experts can have: run --shale-partition}}
  %y = nn.expert_matmul %x, %w experts = %experts parts = 2 : (tensor<4x2xf32>, tensor<4x2x3xf32>, tensor<4xi32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

func.func @parts_of_gradient(%x: tensor<4x2xf32>, %g: tensor<4x3xf32>, %experts: tensor<4xi32>) -> tensor<4x2x3xf32> {
  // expected-error@+1 {{has 4 parts, which only ranks of an axis of experts can have: run --shale-partition}}
  %y = nn.expert_matmul_grad %x, %g experts = %experts parts = 4 : (tensor<4x2xf32>, tensor<4x3xf32>, tensor<4xi32>) -> tensor<4x2x3xf32>
  return %y : tensor<4x2x3xf32>
}
