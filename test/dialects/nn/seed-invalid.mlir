// RUN: shale-opt %s --split-input-file --verify-diagnostics

// seed_c1: a scalar
func.func @seed_c1() {
  // expected-error@+1 {{result #0 must be 0D tensor of}}
  %0 = nn.seed : tensor<4xf32>
  return
}

// -----

// seed_c1: of floats
func.func @seed_c1_integers() {
  // expected-error@+1 {{result #0 must be 0D tensor of}}
  %0 = nn.seed : tensor<i64>
  return
}
