// RUN: shale-opt %s --split-input-file --verify-diagnostics

// all_gather_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<3xf32>
  %1 = rt.buffer arena activations "x" : memref<8xf32>
  // expected-error @+1 {{counts or types do not agree}}
  %t = rt.all_gather %0 to %1 site = 0 axis = "fsdp" name = "x" : memref<3xf32> to memref<8xf32>
}

// -----

// reduce_scatter_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<8xf32>
  %1 = rt.buffer arena activations "x" : memref<3xf32>
  // expected-error @+1 {{counts or types do not agree}}
  %t = rt.reduce_scatter %0 to %1 site = 0 axis = "fsdp" name = "x" : memref<8xf32> to memref<3xf32>
}

// -----

// all_reduce_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<4xf32>
  %1 = rt.buffer arena activations "x" : memref<8xf32>
  // expected-error @+1 {{counts or types do not agree}}
  %t = rt.all_reduce %0 to %1 site = 0 axis = "fsdp" name = "x" : memref<4xf32> to memref<8xf32>
}

// -----

// wait_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<8xf32>
  %t = rt.all_reduce %0 to %0 site = 0 axis = "fsdp" name = "x" : memref<8xf32> to memref<8xf32>
  // expected-error @+1 {{the token is waited for more than once}}
  rt.wait %t
  rt.wait %t
}
