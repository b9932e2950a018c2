// RUN: shale-opt %s --shale-annotate-matmuls | FileCheck %s
// RUN: shale-opt %s --shale-annotate-matmuls --remarks-filter=annotate-matmuls 2>&1 | FileCheck %s --check-prefix=REMARK
// Its gradients have e5m2 where they read the gradient of the result.
// RUN: shale-opt %s --shale-annotate-matmuls --shale-autodiff | FileCheck %s --check-prefix=GRADIENT
// RUN: sed s/cuda:sm_90a/cuda:sm_80/ %s > %t.target.mlir
// RUN: not shale-opt %t.target.mlir --shale-annotate-matmuls 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: error: --matmul-dtype fp8: target cuda:sm_80 has no matmuls of 8-bit floats: give another --target, or leave out --matmul-dtype
// RUN: sed 's/param = bf16/param = f16/' %s > %t.param.mlir
// RUN: not shale-opt %t.param.mlir --shale-annotate-matmuls 2>&1 | FileCheck %s --check-prefix=PARAM
// PARAM: error: --matmul-dtype fp8 needs parameters that are used in bf16: give --param-dtype bf16, or leave out --matmul-dtype
// On a mesh with tensor axes, too:
// RUN: shale-opt %s --shale-annotate-mesh=mesh=fsdp=2,tp=2 --shale-annotate-matmuls | FileCheck %s
// RUN: sed 's/, tensor<f32>) {/, tensor<f32>, tensor<32x16xf32> {nn.gradient_of = @w}) {/;s/%count : tensor<f32>/%count, %w : tensor<f32>/;s/^\(  return .*\)$/\1, tensor<32x16xf32>/' %s > %t.given.mlir
// RUN: not shale-opt %t.given.mlir --shale-annotate-matmuls 2>&1 | FileCheck %s --check-prefix=GIVEN
// GIVEN: error: --matmul-dtype fp8 needs gradients that Shale derives, and the file computes its own

module attributes {nn.target = "cuda:sm_90a", nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
nn.state @w role = param type = tensor<32x16xf32>
nn.state @head role = param type = tensor<48x32xf32>

// Matmuls with a parameter or a part of one, but not those of two activations, nor the head's.
// CHECK-LABEL: func.func @forward
// CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_rhs quantized [f8E4M3FN, f8E4M3FN] : (tensor<16x16xf32>, tensor<32x16xf32>)
// CHECK: nn.matmul %{{.*}}, %{{.*}} quantized [f8E4M3FN, f8E4M3FN] : (tensor<16x16xf32>, tensor<16x16xf32>)
// CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<16x16xf32>, tensor<16x32xf32>)
// CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_lhs : (tensor<16x32xf32>, tensor<16x32xf32>)
// CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_rhs : (tensor<32x32xf32>, tensor<48x32xf32>)
// REMARK-COUNT-1: no other matmul follows on the way to the loss: operands stay as they are
// GRADIENT-DAG: nn.matmul %{{.*}}, %{{.*}} transpose_lhs quantized [f8E5M2, f8E4M3FN] {nn.phase = #backward} : (tensor<16x32xf32>, tensor<16x16xf32>) -> tensor<32x16xf32>
// GRADIENT-DAG: nn.matmul %{{.*}}, %{{.*}} transpose_lhs quantized [f8E4M3FN, f8E5M2] {nn.phase = #backward} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
func.func @forward(%x: tensor<16x16xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<32x16xf32> {nn.state = @w},
                   %head: tensor<48x32xf32> {nn.state = @head}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.matmul %x, %w transpose_rhs : (tensor<16x16xf32>, tensor<32x16xf32>) -> tensor<16x32xf32>
  %part = nn.slice %w starts = [0, 0] limits = [16, 16] strides = [1, 1] : tensor<32x16xf32> -> tensor<16x16xf32>
  %1 = nn.matmul %x, %part : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = nn.matmul %1, %0 : (tensor<16x16xf32>, tensor<16x32xf32>) -> tensor<16x32xf32>
  %3 = nn.matmul %0, %2 transpose_lhs : (tensor<16x32xf32>, tensor<16x32xf32>) -> tensor<32x32xf32>
  %logits = nn.matmul %3, %head transpose_rhs : (tensor<32x32xf32>, tensor<48x32xf32>) -> tensor<32x48xf32>
  %sum = nn.reduce sum %logits dims = [0, 1] : tensor<32x48xf32> -> tensor<f32>
  %count = nn.constant dense<1.0> : tensor<f32>
  return %sum, %sum, %count : tensor<f32>, tensor<f32>, tensor<f32>
}
}
