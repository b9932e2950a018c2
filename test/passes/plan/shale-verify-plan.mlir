// RUN: shale-opt %s --shale-verify-plan --split-input-file --verify-diagnostics

// Two buffers may share bytes if one is dead before the other is written.
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
  // expected-error @+1 {{'b' shares bytes with a buffer that is live at the same time}}
  %b = rt.buffer arena offset = 64 activations "b" : memref<16xf32>
  %c = rt.buffer arena offset = 128 activations "c" : memref<32xf32>
  rt.zero %a : memref<32xf32>
  rt.zero %b : memref<16xf32>
  rt.copy %a to %c : memref<32xf32> to memref<32xf32>
}

// -----

// A buffer that is being sent is live until the wait.
rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  // expected-note @+1 {{'a' at offset 0}}
  %a = rt.buffer arena activations "a" : memref<16xf32>
  // expected-error @+1 {{'b' shares bytes with a buffer that is live at the same time}}
  %b = rt.buffer arena activations "b" : memref<16xf32>
  rt.zero %a : memref<16xf32>
  %t = rt.collective all_reduce %a to %a site = 0 axis = "fsdp" name = "a" : memref<16xf32> to memref<16xf32>
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
  %t = rt.collective all_reduce %a to %a site = 0 axis = "fsdp" name = "a" : memref<16xf32> to memref<16xf32>
}

// -----

// The sum of a row is complete before the row is written, so a softmax of rows may overwrite its input.
rt.kernel @rows(%x: tensor<4x8xf32>) -> tensor<4x8xf32> aliases [0] {
  %0 = nn.exp %x : tensor<4x8xf32>
  %1 = nn.reduce sum %0 dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %2 = nn.broadcast %1 dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %3 = nn.div %0, %2 : tensor<4x8xf32>
  rt.yield %3 : tensor<4x8xf32>
}
rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  %a = rt.buffer arena activations "a" : memref<4x8xf32>
  rt.zero %a : memref<4x8xf32>
  rt.launch @rows(%a) to (%a) : (memref<4x8xf32>) -> memref<4x8xf32>
}

// -----

// The input is read at the written element and one row before it.
// expected-note @+1 {{kernel @shift}}
rt.kernel @shift(%x: tensor<4x8xf32>) -> tensor<4x8xf32> aliases [0] {
  %0 = nn.exp %x : tensor<4x8xf32>
  %1 = nn.slice %0 starts = [0, 0] limits = [3, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<3x8xf32>
  %2 = nn.pad %1 low = [1, 0] high = [0, 0] interior = [0, 0] value = 0.0 : tensor<3x8xf32> -> tensor<4x8xf32>
  %3 = nn.add %0, %2 : tensor<4x8xf32>
  rt.yield %3 : tensor<4x8xf32>
}
rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  %a = rt.buffer arena activations "a" : memref<4x8xf32>
  rt.zero %a : memref<4x8xf32>
  // expected-error @+1 {{writes output 0 over input 0, but element 8 of a result depends on element 0}}
  rt.launch @shift(%a) to (%a) : (memref<4x8xf32>) -> memref<4x8xf32>
}

// -----

// A sum of columns adds an element before the one at its place is written.
rt.kernel @sums(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<2x8xf32>) aliases [0, -1] {
  %0 = nn.reduce sum %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %1 = nn.broadcast %0 dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %2 = nn.div %x, %1 : tensor<4x8xf32>
  %3 = nn.reshape %x : tensor<4x8xf32> -> tensor<2x2x8xf32>
  %4 = nn.reduce sum %3 dims = [1] : tensor<2x2x8xf32> -> tensor<2x8xf32>
  rt.yield %2, %4 : tensor<4x8xf32>, tensor<2x8xf32>
}
rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  %all = rt.buffer arena activations "all" : memref<48xf32>
  rt.zero %all : memref<48xf32>
  %a = rt.view %all offset = 0 : memref<48xf32> -> memref<4x8xf32>
  %b = rt.view %all offset = 128 : memref<48xf32> -> memref<2x8xf32>
  rt.launch @sums(%a) to (%a, %b) : (memref<4x8xf32>) -> (memref<4x8xf32>, memref<2x8xf32>)
}

// -----

// The summed elements are in other rows, which may be overwritten already.
// expected-note @+1 {{kernel @turned}}
rt.kernel @turned(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<2x8xf32>) aliases [0, -1] {
  %0 = nn.reduce sum %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %1 = nn.broadcast %0 dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %2 = nn.div %x, %1 : tensor<4x8xf32>
  %3 = nn.slice %x starts = [2, 0] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<2x8xf32>
  %4 = nn.slice %x starts = [0, 0] limits = [2, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<2x8xf32>
  %5 = nn.concat %3, %4 dim = 0 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<4x8xf32>
  %6 = nn.reshape %5 : tensor<4x8xf32> -> tensor<2x2x8xf32>
  %7 = nn.reduce sum %6 dims = [1] : tensor<2x2x8xf32> -> tensor<2x8xf32>
  rt.yield %2, %7 : tensor<4x8xf32>, tensor<2x8xf32>
}
rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  %all = rt.buffer arena activations "all" : memref<48xf32>
  rt.zero %all : memref<48xf32>
  %a = rt.view %all offset = 0 : memref<48xf32> -> memref<4x8xf32>
  %b = rt.view %all offset = 128 : memref<48xf32> -> memref<2x8xf32>
  // expected-error @+1 {{writes output 0 over input 0, but element 0 of a result depends on element 16}}
  rt.launch @turned(%a) to (%a, %b) : (memref<4x8xf32>) -> (memref<4x8xf32>, memref<2x8xf32>)
}

// -----

// expected-note @+1 {{kernel @over}}
rt.kernel @over(%x: tensor<4x8xf32>, %y: tensor<2x8xf32>) -> (tensor<4x8xf32>, tensor<2x8xf32>) aliases [0, 1] {
  %0 = nn.reduce sum %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %1 = nn.broadcast %0 dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %2 = nn.div %x, %1 : tensor<4x8xf32>
  %3 = nn.reshape %y : tensor<2x8xf32> -> tensor<16xf32>
  %4 = nn.concat %3, %3 dim = 0 : (tensor<16xf32>, tensor<16xf32>) -> tensor<32xf32>
  %5 = nn.reshape %4 : tensor<32xf32> -> tensor<2x2x8xf32>
  %6 = nn.reduce sum %5 dims = [1] : tensor<2x2x8xf32> -> tensor<2x8xf32>
  rt.yield %2, %6 : tensor<4x8xf32>, tensor<2x8xf32>
}
rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  %all = rt.buffer arena activations "all" : memref<48xf32>
  rt.zero %all : memref<48xf32>
  %a = rt.view %all offset = 0 : memref<48xf32> -> memref<4x8xf32>
  %b = rt.view %all offset = 128 : memref<48xf32> -> memref<2x8xf32>
  // expected-error @+1 {{writes output 1 over input 1, but it is complete only after all rows}}
  rt.launch @over(%a, %b) to (%a, %b) : (memref<4x8xf32>, memref<2x8xf32>) -> (memref<4x8xf32>, memref<2x8xf32>)
}

// -----

// An element depends on another element of its row, which may be overwritten already.
// expected-note @+1 {{kernel @reverse}}
rt.kernel @reverse(%x: tensor<4x2xf32>) -> tensor<4x2xf32> aliases [0] {
  %0 = nn.reduce sum %x dims = [1] : tensor<4x2xf32> -> tensor<4xf32>
  %1 = nn.broadcast %0 dims = [0] : tensor<4xf32> -> tensor<4x2xf32>
  %2 = nn.slice %x starts = [0, 1] limits = [4, 2] strides = [1, 1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %3 = nn.slice %x starts = [0, 0] limits = [4, 1] strides = [1, 1] : tensor<4x2xf32> -> tensor<4x1xf32>
  %4 = nn.concat %2, %3 dim = 1 : (tensor<4x1xf32>, tensor<4x1xf32>) -> tensor<4x2xf32>
  %5 = nn.add %1, %4 : tensor<4x2xf32>
  rt.yield %5 : tensor<4x2xf32>
}
rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  %a = rt.buffer arena activations "a" : memref<4x2xf32>
  rt.zero %a : memref<4x2xf32>
  // expected-error @+1 {{writes output 0 over input 0, but element 0 of a result depends on element 1}}
  rt.launch @reverse(%a) to (%a) : (memref<4x2xf32>) -> memref<4x2xf32>
}

// -----

// Only the named input may be overwritten, and only as a whole.
rt.kernel @add(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<16xf32> aliases [0] {
  %0 = nn.add %x, %y : tensor<16xf32>
  rt.yield %0 : tensor<16xf32>
}
rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  %a = rt.buffer arena activations "a" : memref<16xf32>
  %b = rt.buffer arena offset = 64 activations "b" : memref<16xf32>
  rt.zero %a : memref<16xf32>
  rt.zero %b : memref<16xf32>
  // expected-error @+1 {{writes output 0 over input 1, which it reads}}
  rt.launch @add(%a, %b) to (%b) : (memref<16xf32>, memref<16xf32>) -> memref<16xf32>
}

// -----

rt.kernel @exp(%x: tensor<16xf32>) -> tensor<16xf32> aliases [0] {
  %0 = nn.exp %x : tensor<16xf32>
  rt.yield %0 : tensor<16xf32>
}
rt.func @step inputs = [] hyper = [] metrics = ["loss"] {
  %a = rt.buffer arena activations "a" : memref<32xf32>
  rt.zero %a : memref<32xf32>
  %x = rt.view %a offset = 0 : memref<32xf32> -> memref<16xf32>
  %y = rt.view %a offset = 32 : memref<32xf32> -> memref<16xf32>
  // expected-error @+1 {{writes output 0 over input 0, which it reads}}
  rt.launch @exp(%x) to (%y) : (memref<16xf32>) -> memref<16xf32>
}

// -----

// The kernel that may follow a matmul works in place, too.
// expected-note @+1 {{kernel @reverse}}
rt.kernel @reverse(%p: tensor<8x8xbf16>, %b: tensor<8xbf16>) -> tensor<8x8xbf16> aliases [0] {
  %0 = nn.transpose %p perm = [1, 0] : tensor<8x8xbf16> -> tensor<8x8xbf16>
  rt.yield %0 : tensor<8x8xbf16>
}
rt.func @step inputs = [] hyper = [] metrics = [] {
  %x = rt.buffer arena activations "x" : memref<8x8xbf16>
  %b = rt.buffer arena offset = 128 activations "b" : memref<8xbf16>
  %c = rt.buffer arena offset = 192 activations "c" : memref<8x8xbf16>
  rt.zero %x : memref<8x8xbf16>
  rt.zero %b : memref<8xbf16>
  // expected-error @+1 {{writes output 0 over input 0, but element 1 of a result depends on element 8}}
  rt.gemm_epilogue bias %x, %x with %b to %c else @reverse : memref<8x8xbf16>, memref<8x8xbf16>, memref<8xbf16> to memref<8x8xbf16>
}
