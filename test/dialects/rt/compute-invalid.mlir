// RUN: shale-opt %s --split-input-file --verify-diagnostics

// launch_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  // expected-error @+1 {{@none is no rt.kernel}}
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
