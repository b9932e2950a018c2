// RUN: shale-opt %s --split-input-file --verify-diagnostics

func.func @start_c1(%0: tensor<4xf32>) {
  // expected-error@+1 {{result must be pending of 'tensor<4xf32>'}}
  %p = mem.start %0 to host : tensor<4xf32> -> !dist.pending<tensor<8xf32>>
  return
}

// -----

func.func @start_c2(%0: tensor<4xf32>) {
  // expected-error@+1 {{must be waited for exactly once, in its block}}
  %p = mem.start %0 to host : tensor<4xf32> -> !dist.pending<tensor<4xf32>>
  return
}

// -----

func.func @wait_c1(%0: !dist.pending<tensor<4xf32>>) -> tensor<4xf32> {
  // expected-error@+1 {{must wait for a mem.start of its result's type}}
  %1 = mem.wait %0 : !dist.pending<tensor<4xf32>> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

// expected-error@+1 {{'mem.space' must be "host"}}
nn.state @w role = param type = tensor<4xf32> {mem.space = "disk"}

// -----

func.func @offload(%0: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{'mem.offload' must be a unit attribute}}
  %1 = nn.exp %0 {mem.offload = 1 : i64} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

func.func @offload_c1(%0: tensor<4xf32>) -> tensor<8xf32> {
  // expected-error@+1 {{all of {input, result} have same type}}
  %1 = "mem.offload"(%0) : (tensor<4xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// -----

func.func @reload_c1(%0: tensor<4xf32>) -> tensor<4xbf16> {
  // expected-error@+1 {{all of {input, result} have same type}}
  %1 = "mem.reload"(%0) : (tensor<4xf32>) -> tensor<4xbf16>
  return %1 : tensor<4xbf16>
}
