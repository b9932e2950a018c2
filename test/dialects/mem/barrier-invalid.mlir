// RUN: shale-opt %s --split-input-file --verify-diagnostics

func.func @barrier_c1(%a: tensor<4xf32>) {
  // expected-error@+1 {{'mem.barrier' op failed to verify that one result per operand, of its type}}
  %0 = "mem.barrier"(%a) : (tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

func.func @unknown(%a: tensor<4xf32>) {
  // expected-error@+1 {{'mem.recompute' must be a unit attribute}}
  %0 = nn.neg %a {mem.recompute = 1} : tensor<4xf32>
  return
}

// -----

func.func @recomputes(%a: tensor<4xf32>) {
  // expected-error@+1 {{'mem.recomputes' must be a list of names}}
  %0 = nn.neg %a {mem.recomputes = ["n", 1]} : tensor<4xf32>
  return
}

// -----

func.func @unknown(%a: tensor<4xf32>) {
  // expected-error@+1 {{unknown attribute 'mem.recomput'}}
  %0 = nn.neg %a {mem.recomput} : tensor<4xf32>
  return
}
