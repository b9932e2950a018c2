// RUN: shale-opt %s --split-input-file --verify-diagnostics

// slot_c1
// expected-error @+1 {{offset must be a multiple of 64; got 8}}
rt.slot @w parameters offset = 8 : tensor<4xf32>

// -----

// buffer_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  // expected-error @+1 {{offset must be a multiple of 64; got -64}}
  %0 = rt.buffer arena offset = -64 activations "x" : memref<4xf32>
}

// -----

// buffer_c2
module attributes {rt.arena_bytes = 64 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    // expected-error @+1 {{ends beyond the block's 64 bytes}}
    %0 = rt.buffer arena offset = 64 activations "x" : memref<4xf32>
  }
}

// -----

// buffer_c3
rt.func @step inputs = [] hyper = ["lr"] metrics = [] {
  // expected-error @+1 {{index 1 is not one of the function's 1}}
  %0 = rt.buffer hyper index = 1 fixed "lr" : memref<f32>
}

// -----

// buffer_c3
rt.func @step inputs = [] hyper = ["lr"] metrics = [] {
  // expected-error @+1 {{needs an index}}
  %0 = rt.buffer hyper fixed "lr" : memref<f32>
}

// -----

// buffer_c4
rt.func @step inputs = [] hyper = [] metrics = [] {
  // expected-error @+1 {{needs a symbol}}
  %0 = rt.buffer state offset = 0 parameters "w" : memref<f32>
}

// -----

// buffer_c5
rt.func @step inputs = [] hyper = ["lr"] metrics = [] {
  // expected-error @+1 {{must be memref<f32>; got 'memref<4xf32>'}}
  %0 = rt.buffer hyper index = 0 fixed "lr" : memref<4xf32>
}

// -----

// view_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<4xf32>
  // expected-error @+1 {{needs 16 bytes at 8 of 16}}
  %1 = rt.view %0 offset = 8 : memref<4xf32> -> memref<4xf32>
}

// -----

// shard_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<4xf32>
  // expected-error @+1 {{expected a source with a whole multiple of the result's elements, of the same type; got 'memref<4xf32>' and 'memref<3xf32>'}}
  %1 = rt.shard %0 axis = "fsdp" : memref<4xf32> -> memref<3xf32>
}

// -----

// copy_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<4xf32>
  %1 = rt.buffer arena activations "x" : memref<3xf32>
  // expected-error @+1 {{cannot copy}}
  rt.copy %0 to %1 : memref<4xf32> to memref<3xf32>
}

// -----

// buffer_c6
rt.func @step inputs = [] hyper = ["lr"] metrics = [] {
  // expected-error @+1 {{cannot be in host memory}}
  %0 = rt.buffer hyper host index = 0 fixed "lr" : memref<f32>
}

// -----

// transfer_c1
module attributes {rt.arena_bytes = 128 : i64, rt.host_arena_bytes = 64 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    %0 = rt.buffer arena offset = 0 activations "x" : memref<4xf32>
    %1 = rt.buffer arena host offset = 0 activations "x" : memref<8xf32>
    // expected-error @+1 {{cannot copy 'memref<4xf32>' to 'memref<8xf32>'}}
    %2 = rt.transfer %0 to %1 index = 0 name = "x" : memref<4xf32> to memref<8xf32>
    rt.wait %2
  }
}

// -----

// transfer_c1
module attributes {rt.arena_bytes = 128 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    %0 = rt.buffer arena offset = 0 activations "x" : memref<4xf32>
    %1 = rt.buffer arena offset = 64 activations "y" : memref<4xf32>
    // expected-error @+1 {{must copy between the device's memory and the host's}}
    %2 = rt.transfer %0 to %1 index = 0 name = "x" : memref<4xf32> to memref<4xf32>
    rt.wait %2
  }
}
