// RUN: shale-opt %s --split-input-file --verify-diagnostics

// attention_c1: operands of wrong ranks
func.func @attention_c1(%q: tensor<4x8x16xf32>) {
  // expected-error@+1 {{expects query [B, H, T, D]}}
  %o, %l = nn.attention %q, %q, %q scale = 1.0 : tensor<4x8x16xf32>, tensor<4x8x16xf32>, tensor<4x8x16xf32> -> tensor<4x8x16xf32>, tensor<4x8xf32>
  return
}

// -----

// attention_c1_depth: query and key of different depths
func.func @attention_c1_depth(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x15xf32>) {
  // expected-error@+1 {{expects query [B, H, T, D]}}
  %o, %l = nn.attention %q, %k, %k scale = 1.0 : tensor<2x4x8x16xf32>, tensor<2x2x8x15xf32>, tensor<2x2x8x15xf32> -> tensor<2x4x8x15xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_c1_lse: not one lse per row
func.func @attention_c1_lse(%q: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{expects query [B, H, T, D]}}
  %o, %l = nn.attention %q, %q, %q scale = 1.0 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4xf32>
  return
}

// -----

// attention_c2: query heads are not a multiple of key heads
func.func @attention_c2(%q: tensor<2x4x8x16xf32>, %k: tensor<2x3x8x16xf32>) {
  // expected-error@+1 {{query heads must be a positive multiple of key heads; got 4 and 3}}
  %o, %l = nn.attention %q, %k, %k scale = 1.0 : tensor<2x4x8x16xf32>, tensor<2x3x8x16xf32>, tensor<2x3x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_c3: a mask that does not broadcast to the scores
func.func @attention_c3(%q: tensor<2x4x8x16xf32>, %m: tensor<1x1x8x7xf32>) {
  // expected-error@+1 {{mask must broadcast to [2, 4, 8, 8]}}
  %o, %l = nn.attention %q, %q, %q mask %m : tensor<1x1x8x7xf32> scale = 1.0 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_c3_seen: truth values that do not broadcast to the scores
func.func @attention_c3_seen(%q: tensor<2x4x8x16xf32>, %m: tensor<1x3x8x8xi1>) {
  // expected-error@+1 {{seen must broadcast to [2, 4, 8, 8]}}
  %o, %l = nn.attention %q, %q, %q seen %m : tensor<1x3x8x8xi1> scale = 1.0 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_c6: the number for hidden keys is NaN
func.func @attention_c6(%q: tensor<2x4x8x16xf32>, %m: tensor<1x1x8x8xi1>) {
  // expected-error@+1 {{'hidden' requires 'seen' and must be finite or -inf; got}}
  %o, %l = nn.attention %q, %q, %q seen %m : tensor<1x1x8x8xi1> hidden = 0x7FF8000000000000 scale = 1.0 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_c6_added: no finite number to add
func.func @attention_c6_added(%q: tensor<2x4x8x16xf32>, %m: tensor<1x1x8x8xi1>) {
  // expected-error@+1 {{'added' requires a finite 'hidden'; got}}
  %o, %l = nn.attention %q, %q, %q seen %m : tensor<1x1x8x8xi1> added scale = 1.0 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_grad_c6: the number for hidden keys is infinite
func.func @attention_grad_c6(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>, %m: tensor<1x1x8x8xi1>) {
  // expected-error@+1 {{'hidden' requires 'seen' and must be finite or -inf; got}}
  %dq, %dk, %dv = nn.attention_grad %q, %q, %q, %q, %l, %q seen %m : tensor<1x1x8x8xi1> hidden = 0x7FF0000000000000 scale = 1.0 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_c7: a window without the position itself
func.func @attention_c7(%q: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{window must be positive; got 0}}
  %o, %l = nn.attention %q, %q, %q causal window = 0 scale = 1.0 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_grad_c7: a negative window
func.func @attention_grad_c7(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4x8xf32>) {
  // expected-error@+1 {{window must be positive; got -9223372036854775808}}
  %dq, %dk, %dv = nn.attention_grad %q, %q, %q, %q, %l, %q window = -9223372036854775808 scale = 1.0 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_c4: the scale is not finite
func.func @attention_c4(%q: tensor<2x4x8x16xf32>) {
  // expected-error@+1 {{scale must be finite}}
  %o, %l = nn.attention %q, %q, %q scale = 0x7FF8000000000000 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_grad_c1: types that differ from those of the forward op
func.func @attention_grad_c1(%q: tensor<2x4x8x16xf32>, %l: tensor<2x4xf32>) {
  // expected-error@+1 {{expects query [B, H, T, D]}}
  %dq, %dk, %dv = nn.attention_grad %q, %q, %q, %q, %l, %q scale = 1.0 : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4xf32>
  return
}

// -----

// rope_c1: more rotated elements than the last dimension has
func.func @rope_c1(%x: tensor<2x4x8x16xf32>, %c: tensor<8x9xf32>) {
  // expected-error@+1 {{expects input [..., T, D] and cos [T, R/2]}}
  %0 = nn.rope %x, %c, %c : tensor<2x4x8x16xf32>, tensor<8x9xf32>
  return
}

// -----

// rope_c1_positions: not one row per position
func.func @rope_c1_positions(%x: tensor<2x4x8x16xf32>, %c: tensor<7x8xf32>) {
  // expected-error@+1 {{expects input [..., T, D] and cos [T, R/2]}}
  %0 = nn.rope %x, %c, %c : tensor<2x4x8x16xf32>, tensor<7x8xf32>
  return
}

// -----

// attention_c5_ratio: a ratio of 1 or more
func.func @attention_c5_ratio(%q: tensor<2x4x8x16xf32>, %s: tensor<i64>) {
  // expected-error@+1 {{dropout needs a ratio in [0, 1) and an id in [0, 2^32); got 1.000000e+00 and 3}}
  %o, %l = nn.attention %q, %q, %q scale = 1.0 dropout <ratio = 1.0 : f64, id = 3> (%s, %s, %s : tensor<i64>, tensor<i64>, tensor<i64>) : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_c5_random: one of the three random operands is missing
func.func @attention_c5_random(%q: tensor<2x4x8x16xf32>, %s: tensor<i64>) {
  // expected-error@+1 {{dropout needs the random operands seed, step and micro-batch, and an offset if it has `of`; got 2 random operands}}
  %o, %l = nn.attention %q, %q, %q scale = 1.0 dropout <ratio = 0.5 : f64, id = 3> (%s, %s : tensor<i64>, tensor<i64>) : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_c5_place: a part without its place in the whole
func.func @attention_c5_place(%q: tensor<2x4x8x16xf32>, %s: tensor<i64>) {
  // expected-error@+1 {{got 3 random operands}}
  %o, %l = nn.attention %q, %q, %q scale = 1.0 dropout <ratio = 0.5 : f64, id = 3, of = [4, 4, 1, 8, 8]> (%s, %s, %s : tensor<i64>, tensor<i64>, tensor<i64>) : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_c5_whole: a whole that does not contain the part
func.func @attention_c5_whole(%q: tensor<2x4x8x16xf32>, %s: tensor<i64>) {
  // expected-error@+1 {{the whole must be [B, G, R, T, S] with no dimension smaller than in the local type}}
  %o, %l = nn.attention %q, %q, %q scale = 1.0 dropout <ratio = 0.5 : f64, id = 3, of = [4, 4, 1, 8, 9]> (%s, %s, %s, %s : tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// attention_c5_count: more than 2^48 probabilities
func.func @attention_c5_count(%q: tensor<2x4x8x16xf32>, %s: tensor<i64>) {
  // expected-error@+1 {{the whole must have at most 2^48 probabilities}}
  %o, %l = nn.attention %q, %q, %q scale = 1.0 dropout <ratio = 0.5 : f64, id = 3, of = [4611686018427387904, 4, 1, 8, 8]> (%s, %s, %s, %s : tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) : tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// -----

// rope_c1: the same with heads
func.func @rope_c1_headed(%x: tensor<4x16xf32>, %c: tensor<4x8xf32>) {
  // expected-error@+1 {{expects input [..., T, H, D] and cos [T, R/2]}}
  %0 = nn.rope %x, %c, %c headed : tensor<4x16xf32>, tensor<4x8xf32>
  return
}
