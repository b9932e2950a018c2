// RUN: shale-opt %s | shale-opt | FileCheck %s

// A kernel without results, and a batch of matmuls.
rt.kernel @nothing(%a: tensor<2x4x8xf32>) -> () {
}
// CHECK-LABEL: rt.func @step
rt.func @step inputs = [] hyper = [] metrics = [] {
  %a = rt.buffer arena activations "a" : memref<2x4x8xf32>
  %b = rt.buffer arena offset = 256 activations "b" : memref<2x4x3xf32>
  %c = rt.buffer arena offset = 512 activations "c" : memref<2x8x3xf32>
  // CHECK: rt.launch @nothing(%[[A:.*]]) to () : (memref<2x4x8xf32>) -> ()
  rt.launch @nothing(%a) to () : (memref<2x4x8xf32>) -> ()
  // CHECK: rt.gemm %[[A]], %{{.*}} transpose_a to %{{.*}} : memref<2x4x8xf32>, memref<2x4x3xf32> to memref<2x8x3xf32>
  rt.gemm %a, %b transpose_a to %c : memref<2x4x8xf32>, memref<2x4x3xf32> to memref<2x8x3xf32>
  // CHECK: rt.gemm %[[A]], %{{.*}} transpose_a to %{{.*}} accumulate : memref<2x4x8xf32>, memref<2x4x3xf32> to memref<2x8x3xf32>
  rt.gemm %a, %b transpose_a to %c accumulate : memref<2x4x8xf32>, memref<2x4x3xf32> to memref<2x8x3xf32>
}

// Matmuls of 8-bit floats, which read their scales.
// CHECK-LABEL: rt.func @scaled
rt.func @scaled inputs = [] hyper = [] metrics = [] {
  %a = rt.buffer arena activations "a" : memref<16x32xf8E5M2>
  %b = rt.buffer arena offset = 512 activations "b" : memref<48x32xf8E4M3FN>
  %c = rt.buffer arena offset = 2048 activations "c" : memref<16x48xbf16>
  %s = rt.buffer arena offset = 4096 activations "s" : memref<f32>
  // CHECK: rt.gemm %[[A:.*]], %[[B:.*]] transpose_b scales %[[S:.*]], %[[S]] to %{{.*}} : memref<16x32xf8E5M2>, memref<48x32xf8E4M3FN> scales memref<f32>, memref<f32> to memref<16x48xbf16>
  rt.gemm %a, %b transpose_b scales %s, %s to %c : memref<16x32xf8E5M2>, memref<48x32xf8E4M3FN> scales memref<f32>, memref<f32> to memref<16x48xbf16>
}

// Attention with two query heads per key head, and its gradient.
// CHECK-LABEL: rt.func @attention
rt.func @attention inputs = [] hyper = [] metrics = [] {
  %q = rt.buffer arena activations "q" : memref<2x8x4x16xbf16>
  %k = rt.buffer arena offset = 2048 activations "k" : memref<2x8x2x16xbf16>
  %o = rt.buffer arena offset = 4096 activations "o" : memref<2x8x4x16xbf16>
  %l = rt.buffer arena offset = 8192 activations "l" : memref<2x4x8xf32>
  %w = rt.buffer arena offset = 12288 workspace "w" : memref<64xf32>
  // CHECK: rt.sdpa %[[Q:.*]], %[[K:.*]], %[[K]] causal scale = 2.500000e-01 to %[[O:.*]], %[[L:.*]] workspace %[[W:.*]] : memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16> to memref<2x8x4x16xbf16>, memref<2x4x8xf32>, memref<64xf32>
  rt.sdpa %q, %k, %k causal scale = 0.25 to %o, %l workspace %w : memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16> to memref<2x8x4x16xbf16>, memref<2x4x8xf32>, memref<64xf32>
  // CHECK: rt.sdpa_grad %[[Q]], %[[K]], %[[K]] from %[[O]], %[[L]], %[[O]] causal deterministic scale = 2.500000e-01 to (%{{.*}}, %{{.*}}, %{{.*}}) workspace %[[W]] : memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16> from memref<2x8x4x16xbf16>, memref<2x4x8xf32> to (memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16>), memref<64xf32>
  rt.sdpa_grad %q, %k, %k from %o, %l, %o causal deterministic scale = 0.25 to (%q, %k, %k) workspace %w : memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16> from memref<2x8x4x16xbf16>, memref<2x4x8xf32> to (memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16>), memref<64xf32>
  // CHECK: rt.sdpa %{{.*}} causal window = 4 scale = 2.500000e-01 to
  rt.sdpa %q, %k, %k causal window = 4 scale = 0.25 to %o, %l workspace %w : memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16> to memref<2x8x4x16xbf16>, memref<2x4x8xf32>, memref<64xf32>
  %g = rt.buffer arena offset = 16384 activations "g" : memref<2x8x8x16xbf16>
  // CHECK: rt.sdpa_grad %[[Q]], %[[K]], %[[K]] from %[[O]], %[[L]], %[[O]] scale = 2.500000e-01 to (%{{.*}}) workspace %[[W]] : memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16> from memref<2x8x4x16xbf16>, memref<2x4x8xf32> to (memref<2x8x8x16xbf16>), memref<64xf32>
  rt.sdpa_grad %q, %k, %k from %o, %l, %o scale = 0.25 to (%g) workspace %w : memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16> from memref<2x8x4x16xbf16>, memref<2x4x8xf32> to (memref<2x8x8x16xbf16>), memref<64xf32>
  // One buffer holds the heads of query, key and value.
  // CHECK: rt.sdpa %[[X:.*]] causal scale = 2.500000e-01 to %[[O]], %[[L]] workspace %[[W]] : memref<2x8x8x16xbf16> to memref<2x8x4x16xbf16>, memref<2x4x8xf32>, memref<64xf32>
  rt.sdpa %g causal scale = 0.25 to %o, %l workspace %w : memref<2x8x8x16xbf16> to memref<2x8x4x16xbf16>, memref<2x4x8xf32>, memref<64xf32>
  // CHECK: rt.sdpa_grad %[[X]] from %[[O]], %[[L]], %[[O]] causal scale = 2.500000e-01 to (%[[Q]], %[[K]], %[[K]]) workspace %[[W]] : memref<2x8x8x16xbf16> from memref<2x8x4x16xbf16>, memref<2x4x8xf32> to (memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16>), memref<64xf32>
  rt.sdpa_grad %g from %o, %l, %o causal scale = 0.25 to (%q, %k, %k) workspace %w : memref<2x8x8x16xbf16> from memref<2x8x4x16xbf16>, memref<2x4x8xf32> to (memref<2x8x4x16xbf16>, memref<2x8x2x16xbf16>, memref<2x8x2x16xbf16>), memref<64xf32>
  %m = rt.buffer arena offset = 32768 activations "m" : memref<8x8xbf16>
  %n = rt.buffer arena offset = 32896 activations "n" : memref<8x8xbf16>
  %b = rt.buffer arena offset = 33024 activations "b" : memref<8xbf16>
  // CHECK: rt.gemm_epilogue gelu %[[M:.*]], %[[M]] with %[[B:.*]] transpose_a to %[[M]], %[[N:.*]] else @gelu : memref<8x8xbf16>, memref<8x8xbf16>, memref<8xbf16> to memref<8x8xbf16>, memref<8x8xbf16>
  rt.gemm_epilogue gelu %m, %m with %b transpose_a to %m, %n else @gelu : memref<8x8xbf16>, memref<8x8xbf16>, memref<8xbf16> to memref<8x8xbf16>, memref<8x8xbf16>
  // CHECK: rt.gemm_epilogue gelu_grad %[[M]], %[[M]] with %[[N]] transpose_b to %[[M]] else @gelu_grad : memref<8x8xbf16>, memref<8x8xbf16>, memref<8x8xbf16> to memref<8x8xbf16>
  rt.gemm_epilogue gelu_grad %m, %m with %n transpose_b to %m else @gelu_grad : memref<8x8xbf16>, memref<8x8xbf16>, memref<8x8xbf16> to memref<8x8xbf16>
}
// CHECK-LABEL: rt.func @groups
rt.func @groups inputs = [] hyper = [] metrics = [] {
  %x = rt.buffer arena offset = 0 activations "x" : memref<6x4xf32>
  %w = rt.buffer arena offset = 128 activations "w" : memref<3x4x8xf32>
  %e = rt.buffer arena offset = 512 activations "e" : memref<3xi32>
  %y = rt.buffer arena offset = 576 activations "y" : memref<6x8xf32>
  // CHECK: rt.grouped_gemm %[[X:.*]], %[[W:.*]] ends %[[E:.*]] to %[[Y:.*]] : memref<6x4xf32>, memref<3x4x8xf32>, memref<3xi32> to memref<6x8xf32>
  rt.grouped_gemm %x, %w ends %e to %y : memref<6x4xf32>, memref<3x4x8xf32>, memref<3xi32> to memref<6x8xf32>
  // CHECK: rt.grouped_gemm %[[Y]], %[[W]] transpose_b ends %[[E]] to %[[X]]
  rt.grouped_gemm %y, %w transpose_b ends %e to %x : memref<6x8xf32>, memref<3x4x8xf32>, memref<3xi32> to memref<6x4xf32>
  // CHECK: rt.grouped_gemm %[[X]], %[[Y]] transpose_a ends %[[E]] to %[[W]]
  rt.grouped_gemm %x, %y transpose_a ends %e to %w : memref<6x4xf32>, memref<6x8xf32>, memref<3xi32> to memref<3x4x8xf32>
}
rt.kernel @gelu(%p: tensor<8x8xbf16>, %b: tensor<8xbf16>) -> (tensor<8x8xbf16>, tensor<8x8xbf16>) aliases [0, -1] {
  rt.yield %p, %p : tensor<8x8xbf16>, tensor<8x8xbf16>
}
rt.kernel @gelu_grad(%p: tensor<8x8xbf16>, %z: tensor<8x8xbf16>) -> tensor<8x8xbf16> aliases [0] {
  rt.yield %p : tensor<8x8xbf16>
}
