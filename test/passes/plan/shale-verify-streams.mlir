// RUN: shale-opt %s --shale-verify-streams --split-input-file --verify-diagnostics

// Accesses after the wait are ordered. An op that only reads may run beside a copy that reads.
module attributes {rt.arena_bytes = 256 : i64, rt.host_arena_bytes = 64 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    %a = rt.buffer arena activations "a" : memref<16xf32>
    %b = rt.buffer arena offset = 64 activations "b" : memref<16xf32>
    %h = rt.buffer arena host activations "a" : memref<16xf32>
    rt.zero %a : memref<16xf32>
    %t = rt.transfer %a to %h index = 0 name = "a" : memref<16xf32> to memref<16xf32>
    rt.copy %a to %b : memref<16xf32> to memref<16xf32>
    rt.wait %t
    rt.zero %a : memref<16xf32>
  }
}

// -----

// An op writes the buffer that a copy is reading.
module attributes {rt.arena_bytes = 256 : i64, rt.host_arena_bytes = 64 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    %a = rt.buffer arena activations "a" : memref<16xf32>
    %h = rt.buffer arena host activations "a" : memref<16xf32>
    // expected-note @+1 {{'rt.transfer' of 'a' is in flight}}
    %t = rt.transfer %a to %h index = 0 name = "a" : memref<16xf32> to memref<16xf32>
    // expected-error @+1 {{writes 'a' while another stream reads it: an rt.wait is missing before this op}}
    rt.zero %a : memref<16xf32>
    rt.wait %t
  }
}

// -----

// An op reads bytes that are still being received, through another buffer.
module attributes {rt.arena_bytes = 256 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    %a = rt.buffer arena communication "a" : memref<32xf32>
    %piece = rt.buffer arena offset = 128 communication "piece" : memref<16xf32>
    %same = rt.buffer arena offset = 64 activations "same" : memref<16xf32>
    %b = rt.buffer arena offset = 192 activations "b" : memref<16xf32>
    // expected-note @+1 {{'all-gather' of 'a' is in flight}}
    %t = rt.collective all_gather %piece to %a site = 0 axis = "fsdp" name = "a" : memref<16xf32> to memref<32xf32>
    // expected-error @+1 {{reads 'same' while another stream writes it}}
    rt.copy %same to %b : memref<16xf32> to memref<16xf32>
    rt.wait %t
  }
}

// -----

// A gather reads a slice that another stream is still copying.
module attributes {rt.arena_bytes = 256 : i64, rt.host_arena_bytes = 64 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    %h = rt.buffer arena host parameters "piece" : memref<16xf32>
    %piece = rt.buffer arena parameters "piece" : memref<16xf32>
    %all = rt.buffer arena offset = 64 communication "all" : memref<32xf32>
    // expected-note @+1 {{'rt.transfer' of 'piece' is in flight}}
    %t = rt.transfer %h to %piece index = 0 name = "piece" : memref<16xf32> to memref<16xf32>
    // expected-error @+1 {{reads 'piece' while another stream writes it}}
    %g = rt.collective all_gather %piece to %all site = 0 axis = "fsdp" name = "all" : memref<16xf32> to memref<32xf32>
    rt.wait %t
    rt.wait %g
  }
}

// -----

// The place of a shard in its buffer is unknown, so the whole buffer counts.
module attributes {rt.arena_bytes = 256 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    %a = rt.buffer arena gradients "a" : memref<32xf32>
    %own = rt.shard %a axis = "fsdp" : memref<32xf32> -> memref<16xf32>
    %half = rt.view %a offset = 64 : memref<32xf32> -> memref<16xf32>
    // expected-note @+1 {{'reduce-scatter' of 'a' is in flight}}
    %t = rt.collective reduce_scatter %a to %own site = 0 axis = "fsdp" name = "a" : memref<32xf32> to memref<16xf32>
    // expected-error @+1 {{writes 'a' while another stream}}
    rt.zero %half : memref<16xf32>
    rt.wait %t
  }
}

// -----

// A reduction reads what another one, along another axis, is still writing: each axis may have streams of its own.
module attributes {rt.arena_bytes = 256 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    %a = rt.buffer arena gradients "a" : memref<32xf32>
    %own = rt.buffer arena offset = 128 gradients "own" : memref<16xf32>
    // expected-note @+1 {{'reduce-scatter' of 'own' is in flight}}
    %s = rt.collective reduce_scatter %a to %own site = 0 axis = "fsdp" name = "a" : memref<32xf32> to memref<16xf32>
    // expected-error @+1 {{while another stream writes it: an rt.wait is missing before this op}}
    %t = rt.collective all_reduce %own to %own site = 1 axis = "replica" name = "own" : memref<16xf32> to memref<16xf32>
    rt.wait %s
    rt.wait %t
  }
}

// -----

// Copies to and from the host are on two streams: the host's buffer is read before it is filled.
module attributes {rt.arena_bytes = 256 : i64, rt.host_arena_bytes = 64 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    %a = rt.buffer arena activations "a" : memref<16xf32>
    %b = rt.buffer arena offset = 64 activations "b" : memref<16xf32>
    %h = rt.buffer arena host activations "h" : memref<16xf32>
    // expected-note @+1 {{'rt.transfer' of 'h' is in flight}}
    %out = rt.transfer %a to %h index = 0 name = "a" : memref<16xf32> to memref<16xf32>
    // expected-error @+1 {{reads 'h' while another stream writes it}}
    %in = rt.transfer %h to %b index = 1 name = "a" : memref<16xf32> to memref<16xf32>
    rt.wait %out
    rt.wait %in
  }
}

// -----

// Copies of one direction run in order, so the second may overwrite the target of the first.
module attributes {rt.arena_bytes = 256 : i64, rt.host_arena_bytes = 64 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    %a = rt.buffer arena activations "a" : memref<16xf32>
    %b = rt.buffer arena offset = 64 activations "b" : memref<16xf32>
    %h = rt.buffer arena host activations "h" : memref<16xf32>
    %1 = rt.transfer %a to %h index = 0 name = "a" : memref<16xf32> to memref<16xf32>
    %2 = rt.transfer %b to %h index = 1 name = "b" : memref<16xf32> to memref<16xf32>
    rt.wait %2
    rt.wait %1
  }
}

// -----

module attributes {rt.arena_bytes = 256 : i64, rt.host_arena_bytes = 64 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    %a = rt.buffer arena activations "a" : memref<16xf32>
    %h = rt.buffer arena host activations "a" : memref<16xf32>
    // expected-error @+1 {{is in flight when the function returns: an rt.wait is missing}}
    %t = rt.transfer %a to %h index = 0 name = "a" : memref<16xf32> to memref<16xf32>
  }
}

// -----

// The two reductions are swapped.
module attributes {rt.arena_bytes = 256 : i64} {
  rt.func @step inputs = [] hyper = [] metrics = [] {
    %a = rt.buffer arena gradients "a" : memref<16xf32>
    %b = rt.buffer arena offset = 64 gradients "b" : memref<16xf32>
    %s = rt.collective all_reduce %a to %a site = 0 axis = "fsdp" name = "a" {rt.bucket = 0 : i64} : memref<16xf32> to memref<16xf32>
    // expected-error @+1 {{waits for a bucket before all of its collectives are started}}
    rt.wait %s
    // expected-note @+1 {{this one is started later}}
    %t = rt.collective all_reduce %b to %b site = 1 axis = "fsdp" name = "b" {rt.bucket = 0 : i64} : memref<16xf32> to memref<16xf32>
    rt.wait %t
  }
}
