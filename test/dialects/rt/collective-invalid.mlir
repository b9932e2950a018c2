// RUN: shale-opt %s --split-input-file --verify-diagnostics

// collective_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<3xf32>
  %1 = rt.buffer arena activations "x" : memref<8xf32>
  // expected-error @+1 {{counts or types do not agree}}
  %t = rt.collective all_gather %0 to %1 site = 0 axis = "fsdp" name = "x" : memref<3xf32> to memref<8xf32>
}

// -----

// collective_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<8xf32>
  %1 = rt.buffer arena activations "x" : memref<3xf32>
  // expected-error @+1 {{counts or types do not agree}}
  %t = rt.collective reduce_scatter %0 to %1 site = 0 axis = "fsdp" name = "x" : memref<8xf32> to memref<3xf32>
}

// -----

// collective_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<4xf32>
  %1 = rt.buffer arena activations "x" : memref<8xf32>
  // expected-error @+1 {{counts or types do not agree}}
  %t = rt.collective all_reduce %0 to %1 site = 0 axis = "fsdp" name = "x" : memref<4xf32> to memref<8xf32>
}

// -----

// collective_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<2x4xi32>
  %1 = rt.buffer arena activations "x" : memref<1x6xi32>
  // expected-error @+1 {{counts or types do not agree}}
  %t = rt.collective all_to_all %0 to %1 site = 0 axis = "fsdp" name = "x" : memref<2x4xi32> to memref<1x6xi32>
}

// -----

// collective_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<0x4xi32>
  %1 = rt.buffer arena activations "x" : memref<1x0xi32>
  // expected-error @+1 {{counts or types do not agree}}
  %t = rt.collective all_to_all %0 to %1 site = 0 axis = "fsdp" name = "x" : memref<0x4xi32> to memref<1x0xi32>
}

// -----

// collective_c2
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<i32>
  %1 = rt.buffer arena activations "x" : memref<1xi32>
  // expected-error @+1 {{sends 0 pieces of 'memref<i32>' over 'fsdp'}}
  %t = rt.collective all_to_all %0 to %1 site = 0 axis = "fsdp" name = "x" : memref<i32> to memref<1xi32>
}

// -----

// collective_c2
dist.mesh @mesh <[shard "fsdp"=2]>
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<3x4xi32>
  %1 = rt.buffer arena activations "x" : memref<1x12xi32>
  // expected-error @+1 {{sends 3 pieces of 'memref<3x4xi32>' over 'fsdp', which has 2 ranks}}
  %t = rt.collective all_to_all %0 to %1 site = 0 axis = "fsdp" name = "x" : memref<3x4xi32> to memref<1x12xi32>
}

// -----

// wait_c1
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<8xf32>
  %t = rt.collective all_reduce %0 to %0 site = 0 axis = "fsdp" name = "x" : memref<8xf32> to memref<8xf32>
  // expected-error @+1 {{the token is waited for more than once}}
  rt.wait %t
  rt.wait %t
}

// -----

rt.func @step inputs = [] hyper = [] metrics = [] {
  // expected-error @+1 {{'rt.bucket' must be the number of a bucket, on a collective}}
  %0 = rt.buffer arena activations "x" {rt.bucket = 0 : i64} : memref<8xf32>
}

// -----

rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<8xf32>
  // expected-error @+1 {{'rt.bucket' must be the number of a bucket, on a collective}}
  %t = rt.collective all_reduce %0 to %0 site = 0 axis = "fsdp" name = "x" {rt.bucket = -1 : i64} : memref<8xf32> to memref<8xf32>
  rt.wait %t
}

// -----

rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<4xf32>
  // expected-error @+1 {{'broadcast' is no kind of collective}}
  %t = rt.collective broadcast %0 to %0 site = 0 axis = "fsdp" name = "x" : memref<4xf32> to memref<4xf32>
}

// -----

// collective_c3
rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<4xf32>
  // expected-error @+1 {{has an unknown kind 7}}
  %t = "rt.collective"(%0, %0) {kind = 7 : i64, site = 0 : i64, axis = "fsdp", name = "x"} : (memref<4xf32>, memref<4xf32>) -> !rt.token
}

// -----

rt.func @step inputs = [] hyper = [] metrics = [] {
  %0 = rt.buffer arena activations "x" : memref<4xf32>
  // expected-error @+1 {{'rt.encoding' must be a #dist.encoding, on a collective of words (i32)}}
  %t = rt.collective all_reduce %0 to %0 site = 0 axis = "fsdp" name = "x" {rt.encoding = #dist<encoding int8>} : memref<4xf32> to memref<4xf32>
}
