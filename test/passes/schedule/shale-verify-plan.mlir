// RUN: shale-opt %s --shale-verify-plan --split-input-file --verify-diagnostics

// Two buffers that share bytes one after the other are right.
rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  %a = rt.buffer arena activations "a" : memref<16xf32>
  %b = rt.buffer arena activations "b" : memref<16xf32>
  rt.zero %a : memref<16xf32>
  rt.zero %b : memref<16xf32>
}

// -----

rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  // expected-note @+1 {{'a' at offset 0}}
  %a = rt.buffer arena activations "a" : memref<32xf32>
  // expected-error @+1 {{'b' shares bytes with a buffer that is live at once}}
  %b = rt.buffer arena offset = 64 activations "b" : memref<16xf32>
  %c = rt.buffer arena offset = 128 activations "c" : memref<32xf32>
  rt.zero %a : memref<32xf32>
  rt.zero %b : memref<16xf32>
  rt.copy %a to %c : memref<32xf32> to memref<32xf32>
}

// -----

// What is being sent is live up to the wait.
rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  // expected-note @+1 {{'a' at offset 0}}
  %a = rt.buffer arena activations "a" : memref<16xf32>
  // expected-error @+1 {{'b' shares bytes with a buffer that is live at once}}
  %b = rt.buffer arena activations "b" : memref<16xf32>
  rt.zero %a : memref<16xf32>
  %t = rt.all_reduce %a to %a site = 0 axis = "fsdp" name = "a" : memref<16xf32> to memref<16xf32>
  rt.zero %b : memref<16xf32>
  rt.wait %t
}

// -----

rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  %a = rt.buffer arena activations "a" : memref<16xf32>
  %b = rt.buffer arena offset = 64 activations "b" : memref<16xf32>
  // expected-error @+1 {{reads 'a' before it is written}}
  rt.copy %a to %b : memref<16xf32> to memref<16xf32>
}

// -----

rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  %a = rt.buffer arena activations "a" : memref<16xf32>
  rt.zero %a : memref<16xf32>
  // expected-error @+1 {{is never waited for}}
  %t = rt.all_reduce %a to %a site = 0 axis = "fsdp" name = "a" : memref<16xf32> to memref<16xf32>
}
