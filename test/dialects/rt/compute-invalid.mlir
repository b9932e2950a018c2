// RUN: shale-opt %s --split-input-file --verify-diagnostics

// launch_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  // expected-error @+1 {{found no rt.kernel named @none}}
  rt.launch @none() to () : () -> ()
}

// -----

// launch_c1
rt.kernel @k(%a: tensor<4xf32>) -> () {
}
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<3xf32>
  // expected-error @+1 {{input 0 of @k is 'tensor<4xf32>'; got 'memref<3xf32>'}}
  rt.launch @k(%0) to () : (memref<3xf32>) -> ()
}

// -----

// gemm_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<4x4xf64>
  // expected-error @+1 {{needs matrices of f32 or of one 16-bit float type, and of one batch}}
  rt.gemm %0, %0 to %0 : memref<4x4xf64>, memref<4x4xf64> to memref<4x4xf64>
}

// -----

// gemm_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<4x4xf32>
  %1 = rt.buffer arena activations "y" : memref<4x4xbf16>
  // expected-error @+1 {{needs matrices of f32 or of one 16-bit float type}}
  rt.gemm %0, %0 to %1 : memref<4x4xf32>, memref<4x4xf32> to memref<4x4xbf16>
}

// -----

// gemm_c2
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<4x3xf32>
  // expected-error @+1 {{sizes do not agree}}
  rt.gemm %0, %0 to %0 : memref<4x3xf32>, memref<4x3xf32> to memref<4x3xf32>
}

// -----

// gemm_c3
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<4x4xbf16>
  // expected-error @+1 {{accumulates in f32; got 'memref<4x4xbf16>'}}
  rt.gemm %0, %0 to %0 accumulate : memref<4x4xbf16>, memref<4x4xbf16> to memref<4x4xbf16>
}

// -----

// gemm_c4: scales
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<16x16xf8E4M3FN>
  %1 = rt.buffer arena activations "y" : memref<16x16xbf16>
  // expected-error @+1 {{of 8-bit floats needs transpose_b, two scales of f32 and no batch, and any other matmul no scales; got 'memref<16x16xf8E4M3FN>' and 'memref<16x16xf8E4M3FN>' to 'memref<16x16xbf16>' with 0 scales}}
  rt.gemm %0, %0 transpose_b to %1 : memref<16x16xf8E4M3FN>, memref<16x16xf8E4M3FN> to memref<16x16xbf16>
}

// -----

// gemm_c4: the layout
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<16x16xf8E4M3FN>
  %1 = rt.buffer arena activations "y" : memref<16x16xbf16>
  %s = rt.buffer arena activations "s" : memref<f32>
  // expected-error @+1 {{of 8-bit floats needs transpose_b}}
  rt.gemm %0, %0 scales %s, %s to %1 : memref<16x16xf8E4M3FN>, memref<16x16xf8E4M3FN> scales memref<f32>, memref<f32> to memref<16x16xbf16>
}

// -----

// gemm_c4: only 8-bit floats have scales
rt.func @step inputs = [] hyper = [] metrics = [] {
  %1 = rt.buffer arena activations "y" : memref<16x16xbf16>
  %s = rt.buffer arena activations "s" : memref<f32>
  // expected-error @+1 {{any other matmul no scales}}
  rt.gemm %1, %1 transpose_b scales %s, %s to %1 : memref<16x16xbf16>, memref<16x16xbf16> scales memref<f32>, memref<f32> to memref<16x16xbf16>
}

// -----

// gemm_c4: two matrices of e5m2
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<16x16xf8E5M2>
  %1 = rt.buffer arena activations "y" : memref<16x16xbf16>
  %s = rt.buffer arena activations "s" : memref<f32>
  // expected-error @+1 {{of 8-bit floats needs transpose_b}}
  rt.gemm %0, %0 transpose_b scales %s, %s to %1 : memref<16x16xf8E5M2>, memref<16x16xf8E5M2> scales memref<f32>, memref<f32> to memref<16x16xbf16>
}

// -----

// sdpa_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %q = rt.buffer arena activations "q" : memref<2x8x4x16xf32>
  %l = rt.buffer arena activations "l" : memref<2x4x8xf32>
  %w = rt.buffer arena workspace "w" : memref<64xf32>
  // expected-error @+1 {{of one 16-bit float type, lse [B, H, T] of f32 and a one-dimensional workspace}}
  rt.sdpa %q, %q, %q scale = 1.0 to %q, %l workspace %w : memref<2x8x4x16xf32>, memref<2x8x4x16xf32>, memref<2x8x4x16xf32> to memref<2x8x4x16xf32>, memref<2x4x8xf32>, memref<64xf32>
}

// -----

// sdpa_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %q = rt.buffer arena activations "q" : memref<2x8x4x16xbf16>
  %l = rt.buffer arena activations "l" : memref<2x8x4xf32>
  %w = rt.buffer arena workspace "w" : memref<64xf32>
  // expected-error @+1 {{lse [B, H, T] of f32 and a one-dimensional workspace; got 'memref<2x8x4x16xbf16>'}}
  rt.sdpa %q, %q, %q scale = 1.0 to %q, %l workspace %w : memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16> to memref<2x8x4x16xbf16>, memref<2x8x4xf32>, memref<64xf32>
}

// -----

// sdpa_c1: one buffer, of which an odd number of heads is left for key and value
rt.func @step inputs = [] hyper = [] metrics = [] {
  %x = rt.buffer arena activations "x" : memref<2x8x9x16xbf16>
  %q = rt.buffer arena activations "q" : memref<2x8x4x16xbf16>
  %l = rt.buffer arena activations "l" : memref<2x4x8xf32>
  %w = rt.buffer arena workspace "w" : memref<64xf32>
  // expected-error @+1 {{or one buffer [B, T, H + 2 G, D], and result [B, T, H, E] of one 16-bit float type}}
  rt.sdpa %x scale = 1.0 to %q, %l workspace %w : memref<2x8x9x16xbf16> to memref<2x8x4x16xbf16>, memref<2x4x8xf32>, memref<64xf32>
}

// -----

// sdpa_c2
rt.func @step inputs = [] hyper = [] metrics = [] {
  %q = rt.buffer arena activations "q" : memref<2x8x4x16xbf16>
  %k = rt.buffer arena activations "k" : memref<2x6x4x16xbf16>
  %l = rt.buffer arena activations "l" : memref<2x4x8xf32>
  %w = rt.buffer arena workspace "w" : memref<64xf32>
  // expected-error @+1 {{needs a positive multiple of key heads, and as many queries as keys if it is causal}}
  rt.sdpa %q, %k, %k causal scale = 1.0 to %q, %l workspace %w : memref<2x8x4x16xbf16>, memref<2x6x4x16xbf16>, memref<2x6x4x16xbf16> to memref<2x8x4x16xbf16>, memref<2x4x8xf32>, memref<64xf32>
}

// -----

// sdpa_c2_window: a window on both sides
rt.func @step inputs = [] hyper = [] metrics = [] {
  %q = rt.buffer arena activations "q" : memref<2x8x4x16xbf16>
  %k = rt.buffer arena activations "k" : memref<2x8x4x16xbf16>
  %l = rt.buffer arena activations "l" : memref<2x4x8xf32>
  %w = rt.buffer arena workspace "w" : memref<64xf32>
  // expected-error @+1 {{window must be positive and come with causal; got 4}}
  rt.sdpa %q, %k, %k window = 4 scale = 1.0 to %q, %l workspace %w : memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16> to memref<2x8x4x16xbf16>, memref<2x4x8xf32>, memref<64xf32>
}

// -----

// sdpa_grad_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %q = rt.buffer arena activations "q" : memref<2x8x4x16xbf16>
  %l = rt.buffer arena activations "l" : memref<2x4x8xf32>
  %w = rt.buffer arena workspace "w" : memref<8x8xf32>
  // expected-error @+1 {{a one-dimensional workspace}}
  rt.sdpa_grad %q, %q, %q from %q, %l, %q scale = 1.0 to (%q, %q, %q) workspace %w : memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16> from memref<2x8x4x16xbf16>, memref<2x4x8xf32> to (memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16>), memref<8x8xf32>
}

// -----

// sdpa_grad_c2
rt.func @step inputs = [] hyper = [] metrics = [] {
  %q = rt.buffer arena activations "q" : memref<2x8x4x16xbf16>
  %l = rt.buffer arena activations "l" : memref<2x4x8xf32>
  %w = rt.buffer arena workspace "w" : memref<64xf32>
  // expected-error @+1 {{needs results of the types of query, key and value, or 'memref<2x8x12x16xbf16>'}}
  rt.sdpa_grad %q, %q, %q from %q, %l, %q scale = 1.0 to (%q) workspace %w : memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16>, memref<2x8x4x16xbf16> from memref<2x8x4x16xbf16>, memref<2x4x8xf32> to (memref<2x8x4x16xbf16>), memref<64xf32>
}

// -----

// gemm_epilogue_c1: only 16-bit floats
rt.func @step inputs = [] hyper = [] metrics = [] {
  %x = rt.buffer arena activations "x" : memref<8x8xf32>
  %b = rt.buffer arena activations "b" : memref<8xf32>
  // expected-error @+1 {{needs matrices of one 16-bit float type whose m, n and k agree}}
  rt.gemm_epilogue bias %x, %x with %b to %x else @kernel : memref<8x8xf32>, memref<8x8xf32>, memref<8xf32> to memref<8x8xf32>
}

// -----

// gemm_epilogue_c1: sizes
rt.func @step inputs = [] hyper = [] metrics = [] {
  %x = rt.buffer arena activations "x" : memref<8x16xbf16>
  %b = rt.buffer arena activations "b" : memref<16xbf16>
  // expected-error @+1 {{got 'memref<8x16xbf16>', 'memref<8x16xbf16>' and 'memref<8x16xbf16>'}}
  rt.gemm_epilogue bias %x, %x with %b to %x else @kernel : memref<8x16xbf16>, memref<8x16xbf16>, memref<16xbf16> to memref<8x16xbf16>
}

// -----

// gemm_epilogue_c2
rt.func @step inputs = [] hyper = [] metrics = [] {
  %x = rt.buffer arena activations "x" : memref<8x8xbf16>
  %b = rt.buffer arena activations "b" : memref<8xbf16>
  // expected-error @+1 {{gelu_grad of 'memref<8x8xbf16>' cannot take 'memref<8xbf16>'}}
  rt.gemm_epilogue gelu_grad %x, %x with %b to %x else @kernel : memref<8x8xbf16>, memref<8x8xbf16>, memref<8xbf16> to memref<8x8xbf16>
}

// -----

// gemm_epilogue_c3: no kernel
rt.func @step inputs = [] hyper = [] metrics = [] {
  %x = rt.buffer arena activations "x" : memref<8x8xbf16>
  %b = rt.buffer arena activations "b" : memref<8xbf16>
  // expected-error @+1 {{needs an rt.kernel @kernel of type '(tensor<8x8xbf16>, tensor<8xbf16>) -> tensor<8x8xbf16>'}}
  rt.gemm_epilogue bias %x, %x with %b to %x else @kernel : memref<8x8xbf16>, memref<8x8xbf16>, memref<8xbf16> to memref<8x8xbf16>
}

// -----

// gemm_epilogue_c3: a kernel that does not work in place
rt.kernel @kernel(%p: tensor<8x8xbf16>, %b: tensor<8xbf16>) -> tensor<8x8xbf16> {
  rt.yield %p : tensor<8x8xbf16>
}
rt.func @step inputs = [] hyper = [] metrics = [] {
  %x = rt.buffer arena activations "x" : memref<8x8xbf16>
  %b = rt.buffer arena activations "b" : memref<8xbf16>
  // expected-error @+1 {{that may write its first output over its first input}}
  rt.gemm_epilogue bias %x, %x with %b to %x else @kernel : memref<8x8xbf16>, memref<8x8xbf16>, memref<8xbf16> to memref<8x8xbf16>
}

// -----

// grouped_gemm_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<6x4xf32>
  %1 = rt.buffer arena activations "w" : memref<3x5x8xf32>
  %2 = rt.buffer arena activations "e" : memref<3xi32>
  %3 = rt.buffer arena activations "y" : memref<6x8xf32>
  // expected-error @+1 {{sizes do not agree}}
  rt.grouped_gemm %0, %1 ends %2 to %3 : memref<6x4xf32>, memref<3x5x8xf32>, memref<3xi32> to memref<6x8xf32>
}

// -----

// grouped_gemm_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<6x4xf32>
  %1 = rt.buffer arena activations "e" : memref<3xi32>
  // expected-error @+1 {{needs rows, matrices and ends of groups}}
  rt.grouped_gemm %0, %0 ends %1 to %0 : memref<6x4xf32>, memref<6x4xf32>, memref<3xi32> to memref<6x4xf32>
}

// -----

// grouped_gemm_c2
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<6x4xf32>
  %1 = rt.buffer arena activations "w" : memref<3x4x8xf32>
  %2 = rt.buffer arena activations "e" : memref<3xf32>
  %3 = rt.buffer arena activations "y" : memref<6x8xf32>
  // expected-error @+1 {{needs matrices of f32 or of one 16-bit float type, and integers}}
  rt.grouped_gemm %0, %1 ends %2 to %3 : memref<6x4xf32>, memref<3x4x8xf32>, memref<3xf32> to memref<6x8xf32>
}
