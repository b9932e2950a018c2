// Attention in a window, and its gradient, in simpler ops: the interpreter gives the same numbers before and after.
// RUN: shale-opt %s --shale-decompose=all -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: shale-run --as=f64 %s --compare=%t.mlir

// CHECK-LABEL: @one_side
// CHECK-NOT: nn.attention
// CHECK: nn.compare le
// CHECK: nn.compare lt
// CHECK: nn.and
// CHECK-NOT: nn.attention
func.func @one_side(%q: tensor<1x4x5x8xf32>, %k: tensor<1x2x5x8xf32>, %dy: tensor<1x4x5x8xf32>) -> (tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>) {
  %o, %l = nn.attention %q, %k, %k causal window = 2 scale = 5.000000e-01 : tensor<1x4x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32> -> tensor<1x4x5x8xf32>, tensor<1x4x5xf32>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %k, %o, %l, %dy causal window = 2 scale = 5.000000e-01 : tensor<1x4x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5xf32>
  return %o, %dq, %dk, %dv : tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>
}

// CHECK-LABEL: @both_sides
// CHECK-NOT: nn.attention
// CHECK-COUNT-2: nn.compare lt
func.func @both_sides(%q: tensor<1x4x5x8xf32>, %k: tensor<1x2x5x8xf32>) -> tensor<1x4x5x8xf32> {
  %o, %l = nn.attention %q, %k, %k window = 2 scale = 5.000000e-01 : tensor<1x4x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32> -> tensor<1x4x5x8xf32>, tensor<1x4x5xf32>
  return %o : tensor<1x4x5x8xf32>
}
