// RUN: shale-opt %s --split-input-file --verify-diagnostics

// sdpa_c1: operands of wrong ranks
func.func @sdpa_c1(%q: tensor<8x4x16xf32>) {
  // expected-error@+1 {{expects query [B, T, H, D], key [B, S, G, D]}}
  %o, %l = nn.sdpa %q, %q, %q scale = 1.0 : tensor<8x4x16xf32>, tensor<8x4x16xf32>, tensor<8x4x16xf32> -> tensor<8x4x16xf32>, tensor<4x8xf32>
  return
}

// -----

// sdpa_c1: heads stand before positions
func.func @sdpa_c1_lse(%q: tensor<2x8x4x16xf32>) {
  // expected-error@+1 {{lse [B, H, T] of one element type; got 'tensor<2x8x4x16xf32>'}}
  %o, %l = nn.sdpa %q, %q, %q scale = 1.0 : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x8x4xf32>
  return
}

// -----

// sdpa_c2
func.func @sdpa_c2(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x3x16xf32>) {
  // expected-error@+1 {{query heads must be a positive multiple of key heads; got 4 and 3}}
  %o, %l = nn.sdpa %q, %k, %k scale = 1.0 : tensor<2x8x4x16xf32>, tensor<2x8x3x16xf32>, tensor<2x8x3x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// sdpa_c3
func.func @sdpa_c3(%q: tensor<2x8x4x16xf32>, %k: tensor<2x6x4x16xf32>) {
  // expected-error@+1 {{is causal, so it needs as many queries as keys; got 8 and 6}}
  %o, %l = nn.sdpa %q, %k, %k causal scale = 1.0 : tensor<2x8x4x16xf32>, tensor<2x6x4x16xf32>, tensor<2x6x4x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// sdpa_c4
func.func @sdpa_c4(%q: tensor<2x8x4x16xf32>) {
  // expected-error@+1 {{scale must be finite; got}}
  %o, %l = nn.sdpa %q, %q, %q scale = 0x7FF0000000000000 : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// sdpa_c5
func.func @sdpa_c5(%q: tensor<2x8x4x16xf32>) {
  // expected-error@+1 {{window must be positive and come with causal; got -2}}
  %o, %l = nn.sdpa %q, %q, %q causal window = -2 scale = 1.0 : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// sdpa_grad_c1_window: a window on both sides
func.func @sdpa_grad_c1_window(%q: tensor<2x8x4x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{window must be positive and come with causal; got 3}}
  %dq, %dk, %dv = nn.sdpa_grad %q, %q, %q from %q, %l, %q window = 3 scale = 1.0 : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> from tensor<2x8x4x16xf32>, tensor<2x4x8xf32> -> tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>
  return
}

// -----

// sdpa_grad_c1
func.func @sdpa_grad_c1(%q: tensor<2x8x4x16xf32>, %l: tensor<2x8x4xf32>) {
  // expected-error@+1 {{expects query [B, T, H, D]}}
  %dq, %dk, %dv = nn.sdpa_grad %q, %q, %q from %q, %l, %q scale = 1.0 : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> from tensor<2x8x4x16xf32>, tensor<2x8x4xf32> -> tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>
  return
}

// -----

// sdpa_grad_c2: two results, not three or one
func.func @sdpa_grad_c2(%q: tensor<2x8x4x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{needs results of the types of query, key and value, or 'tensor<2x8x12x16xf32>' if all have one length and depth}}
  %dq, %dk = nn.sdpa_grad %q, %q, %q from %q, %l, %q scale = 1.0 : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> from tensor<2x8x4x16xf32>, tensor<2x4x8xf32> -> tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>
  return
}

// -----

// sdpa_grad_c2: one result, but query and key have different lengths
func.func @sdpa_grad_c2_lengths(%q: tensor<2x8x4x16xf32>, %k: tensor<2x6x4x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{if all have one length and depth}}
  %g = nn.sdpa_grad %q, %k, %k from %q, %l, %q scale = 1.0 : tensor<2x8x4x16xf32>, tensor<2x6x4x16xf32>, tensor<2x6x4x16xf32> from tensor<2x8x4x16xf32>, tensor<2x4x8xf32> -> tensor<2x8x12x16xf32>
  return
}

// -----

// sdpa_c1: two operands
func.func @sdpa_c1_two(%q: tensor<2x8x4x16xf32>) {
  // expected-error@+1 {{expects query [B, T, H, D], key [B, S, G, D] and value [B, S, G, E], or one tensor [B, T, H + 2 G, D]}}
  %o, %l = nn.sdpa %q, %q scale = 1.0 : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// sdpa_c1: an odd number of heads is left for key and value
func.func @sdpa_c1_odd(%x: tensor<2x8x7x16xf32>) {
  // expected-error@+1 {{or one tensor [B, T, H + 2 G, D], result [B, T, H, E] and lse [B, H, T] of one element type; got 'tensor<2x8x7x16xf32>'}}
  %o, %l = nn.sdpa %x scale = 1.0 : tensor<2x8x7x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// sdpa_c1: the result has more heads than the operand
func.func @sdpa_c1_few(%x: tensor<2x8x2x16xf32>) {
  // expected-error@+1 {{or one tensor [B, T, H + 2 G, D]}}
  %o, %l = nn.sdpa %x scale = 1.0 : tensor<2x8x2x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// sdpa_c2: no heads are left for key and value
func.func @sdpa_c2_none(%x: tensor<2x8x4x16xf32>) {
  // expected-error@+1 {{query heads must be a positive multiple of key heads; got 4 and 0}}
  %o, %l = nn.sdpa %x scale = 1.0 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// sdpa_grad_c1: values in one operand have the features of queries
func.func @sdpa_grad_c1_depth(%x: tensor<2x8x12x16xf32>, %o: tensor<2x8x4x8xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{or one tensor [B, T, H + 2 G, D]}}
  %g = nn.sdpa_grad %x from %o, %l, %o scale = 1.0 : tensor<2x8x12x16xf32> from tensor<2x8x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x8x12x16xf32>
  return
}
