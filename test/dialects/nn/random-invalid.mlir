// RUN: shale-opt %s --split-input-file --verify-diagnostics

// dropout_c1: the ratio is one
func.func @dropout_c1(%x: tensor<4xf32>, %s: tensor<i64>) {
  // expected-error@+1 {{ratio must be in [0, 1); got 1}}
  %0 = nn.dropout %x seed %s step %s microbatch %s ratio = 1.0 id = 0 : tensor<4xf32>, tensor<i64>
  return
}

// -----

// dropout_c1: an id that does not fit 32 bits
func.func @dropout_c1_id(%x: tensor<4xf32>, %s: tensor<i64>) {
  // expected-error@+1 {{id must be in [0, 2^32)}}
  %0 = nn.dropout %x seed %s step %s microbatch %s ratio = 0.5 id = 4294967296 : tensor<4xf32>, tensor<i64>
  return
}

// -----

// dropout_c2: the whole is smaller than the part
func.func @dropout_c2(%x: tensor<4x2xf32>, %s: tensor<i64>) {
  // expected-error@+1 {{the whole must have rank 2 and no dimension smaller than in 'tensor<4x2xf32>'}}
  %0 = nn.dropout %x seed %s step %s microbatch %s ratio = 0.5 id = 0 of [2, 2] : tensor<4x2xf32>, tensor<i64>
  return
}

// -----

// dropout_c2: an offset without a whole
func.func @dropout_c2_offset(%x: tensor<4xf32>, %s: tensor<i64>) {
  // expected-error@+1 {{'offset' needs the shape of the whole}}
  %0 = nn.dropout %x seed %s step %s microbatch %s offset %s : tensor<i64> ratio = 0.5 id = 0 : tensor<4xf32>, tensor<i64>
  return
}

// -----

// dropout_c3: too many elements
func.func @dropout_c3(%x: tensor<4x2xf32>, %s: tensor<i64>) {
  // expected-error@+1 {{the whole must have at most 2^48 elements}}
  %0 = nn.dropout %x seed %s step %s microbatch %s ratio = 0.5 id = 0 of [281474976710656, 2] : tensor<4x2xf32>, tensor<i64>
  return
}

// -----

// uniform_c1: an id that does not fit 32 bits
func.func @uniform_c1(%s: tensor<i64>) {
  // expected-error@+1 {{id must be in [0, 2^32)}}
  %0 = nn.uniform seed %s step %s microbatch %s id = 4294967296 : tensor<4xf32>, tensor<i64>
  return
}

// -----

// uniform_c2: the whole is smaller than the part
func.func @uniform_c2(%s: tensor<i64>) {
  // expected-error@+1 {{the whole must have rank 2 and no dimension smaller than in 'tensor<4x2xf32>'}}
  %0 = nn.uniform seed %s step %s microbatch %s id = 0 of [2, 2] : tensor<4x2xf32>, tensor<i64>
  return
}

// -----

// uniform_c2: an offset without a whole
func.func @uniform_c2_offset(%s: tensor<i64>) {
  // expected-error@+1 {{'offset' needs the shape of the whole}}
  %0 = nn.uniform seed %s step %s microbatch %s offset %s : tensor<i64> id = 0 : tensor<4xf32>, tensor<i64>
  return
}

// -----

// uniform_c3: more elements than numbers
func.func @uniform_c3(%s: tensor<i64>) {
  // expected-error@+1 {{the whole must have at most 2^48 elements}}
  %0 = nn.uniform seed %s step %s microbatch %s id = 0 of [16777216, 16777217] : tensor<4x4xf32>, tensor<i64>
  return
}
