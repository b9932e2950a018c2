// RUN: shale-opt %s --split-input-file --verify-diagnostics

// matmul_epilogue_c1: three dimensions
func.func @matmul_epilogue_c1_rank(%x: tensor<2x4x8xbf16>, %w: tensor<2x8x4xbf16>, %b: tensor<4xbf16>) {
  // expected-error@+1 {{needs two-dimensional tensors of one element type whose m, n and k agree}}
  %y = nn.matmul_epilogue bias %x, %w with %b : (tensor<2x4x8xbf16>, tensor<2x8x4xbf16>, tensor<4xbf16>) -> tensor<2x4x4xbf16>
  return
}

// -----

// matmul_epilogue_c1: sizes
func.func @matmul_epilogue_c1_sizes(%x: tensor<4x8xbf16>, %w: tensor<16x8xbf16>, %b: tensor<16xbf16>) {
  // expected-error@+1 {{got 'tensor<4x8xbf16>', 'tensor<16x8xbf16>' and 'tensor<4x16xbf16>'}}
  %y = nn.matmul_epilogue bias %x, %w with %b : (tensor<4x8xbf16>, tensor<16x8xbf16>, tensor<16xbf16>) -> tensor<4x16xbf16>
  return
}

// -----

// matmul_epilogue_c1: types
func.func @matmul_epilogue_c1_types(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xf32>) {
  // expected-error@+1 {{of one element type}}
  %y = nn.matmul_epilogue bias %x, %w with %b : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xf32>) -> tensor<4x16xf32>
  return
}

// -----

// matmul_epilogue_c2: a bias for each row
func.func @matmul_epilogue_c2_bias(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<4xbf16>) {
  // expected-error@+1 {{bias of 'tensor<4x16xbf16>' cannot take 'tensor<4xbf16>'}}
  %y = nn.matmul_epilogue bias %x, %w with %b : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<4xbf16>) -> tensor<4x16xbf16>
  return
}

// -----

// matmul_epilogue_c2: a gradient needs the values before the GELU
func.func @matmul_epilogue_c2_gradient(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xbf16>) {
  // expected-error@+1 {{gelu_grad of 'tensor<4x16xbf16>' cannot take 'tensor<16xbf16>'}}
  %y = nn.matmul_epilogue gelu_grad %x, %w with %b : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> tensor<4x16xbf16>
  return
}

// -----

// matmul_epilogue_c2: a bias of another type
func.func @matmul_epilogue_c2_type(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xf32>) {
  // expected-error@+1 {{gelu of 'tensor<4x16xbf16>' cannot take 'tensor<16xf32>'}}
  %y = nn.matmul_epilogue gelu %x, %w with %b : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xf32>) -> tensor<4x16xbf16>
  return
}

// -----

// matmul_epilogue_c3: a bias stores one result
func.func @matmul_epilogue_c3_bias(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xbf16>) {
  // expected-error@+1 {{only gelu stores a second result, of the type of the first; got 'tensor<4x16xbf16>'}}
  %y, %z = nn.matmul_epilogue bias %x, %w with %b : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> (tensor<4x16xbf16>, tensor<4x16xbf16>)
  return
}

// -----

// matmul_epilogue_c3: types
func.func @matmul_epilogue_c3_type(%x: tensor<4x8xbf16>, %w: tensor<8x16xbf16>, %b: tensor<16xbf16>) {
  // expected-error@+1 {{of the type of the first; got 'tensor<4x16xf32>'}}
  %y, %z = nn.matmul_epilogue gelu %x, %w with %b : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> (tensor<4x16xbf16>, tensor<4x16xf32>)
  return
}
