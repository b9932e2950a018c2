// RUN: shale-opt %s --split-input-file --verify-diagnostics

// argsort_c1: a bound of 31 bits
func.func @argsort_c1(%i: tensor<4xi64>) {
  // expected-error@+1 {{expects a bound of at least 0, and less than 2147483647 for the bound and the number of indices; got -1 and 4}}
  %0, %1 = nn.argsort %i bound = -1 : tensor<4xi64> -> tensor<4xi32>, tensor<0xi32>
  return
}

// -----

func.func @argsort_c1_large(%i: tensor<4xi64>) {
  // expected-error@+1 {{got 2147483647 and 4}}
  %0, %1 = nn.argsort %i bound = 2147483647 : tensor<4xi64> -> tensor<4xi32>, tensor<2147483648xi32>
  return
}

// -----

func.func @argsort_c1_many(%i: tensor<65536x65536xi64>) {
  // expected-error@+1 {{got 3 and 4294967296}}
  %0, %1 = nn.argsort %i bound = 3 : tensor<65536x65536xi64> -> tensor<4294967296xi32>, tensor<4xi32>
  return
}

// -----

// argsort_c2: a position for each index, and one start more than values
func.func @argsort_c2(%i: tensor<2x4xi64>) {
  // expected-error@+1 {{expects an order of 8 and starts of 4 elements of type i32; got 'tensor<2x4xi32>' and 'tensor<4xi32>'}}
  %0, %1 = nn.argsort %i bound = 3 : tensor<2x4xi64> -> tensor<2x4xi32>, tensor<4xi32>
  return
}

// -----

func.func @argsort_c2_starts(%i: tensor<8xi64>) {
  // expected-error@+1 {{got 'tensor<8xi32>' and 'tensor<3xi32>'}}
  %0, %1 = nn.argsort %i bound = 3 : tensor<8xi64> -> tensor<8xi32>, tensor<3xi32>
  return
}

// -----

func.func @argsort_c2_type(%i: tensor<8xi64>) {
  // expected-error@+1 {{got 'tensor<8xi64>' and 'tensor<4xi32>'}}
  %0, %1 = nn.argsort %i bound = 3 : tensor<8xi64> -> tensor<8xi64>, tensor<4xi32>
  return
}

// -----

// argsort_float: integer indices
func.func @argsort_float(%i: tensor<8xf32>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of 64-bit signless integer or 32-bit}}
  %0, %1 = nn.argsort %i bound = 3 : tensor<8xf32> -> tensor<8xi32>, tensor<4xi32>
  return
}

// -----

// sorted_embedding_grad_c1: a start more than rows
func.func @sorted_embedding_grad_c1(%o: tensor<70xi32>, %s: tensor<256xi32>, %g: tensor<70x64xf32>, %p: tensor<2x64xf32>) {
  // expected-error@+1 {{expects a 2-D table [V, D] and starts of V + 1 elements; got 'tensor<256x64xf32>' and 'tensor<256xi32>'}}
  %0 = nn.sorted_embedding_grad %o, %s, %g, %p : (tensor<70xi32>, tensor<256xi32>, tensor<70x64xf32>, tensor<2x64xf32>) -> tensor<256x64xf32>
  return
}

// -----

func.func @sorted_embedding_grad_c1_rank(%o: tensor<70xi32>, %s: tensor<257xi32>, %g: tensor<70x64xf32>, %p: tensor<2x64xf32>) {
  // expected-error@+1 {{got 'tensor<256xf32>' and 'tensor<257xi32>'}}
  %0 = nn.sorted_embedding_grad %o, %s, %g, %p : (tensor<70xi32>, tensor<257xi32>, tensor<70x64xf32>, tensor<2x64xf32>) -> tensor<256xf32>
  return
}

// -----

// sorted_embedding_grad_c2: a gradient of the table's width
func.func @sorted_embedding_grad_c2(%o: tensor<70xi32>, %s: tensor<257xi32>, %g: tensor<70x63xf32>, %p: tensor<2x64xf32>) {
  // expected-error@+1 {{expects a gradient [N, D] of the table's element type, and an order of N elements; got 'tensor<70x63xf32>' and 'tensor<70xi32>' for 'tensor<256x64xf32>'}}
  %0 = nn.sorted_embedding_grad %o, %s, %g, %p : (tensor<70xi32>, tensor<257xi32>, tensor<70x63xf32>, tensor<2x64xf32>) -> tensor<256x64xf32>
  return
}

// -----

func.func @sorted_embedding_grad_c2_order(%o: tensor<71xi32>, %s: tensor<257xi32>, %g: tensor<70x64xf32>, %p: tensor<2x64xf32>) {
  // expected-error@+1 {{and an order of N elements; got 'tensor<70x64xf32>' and 'tensor<71xi32>'}}
  %0 = nn.sorted_embedding_grad %o, %s, %g, %p : (tensor<71xi32>, tensor<257xi32>, tensor<70x64xf32>, tensor<2x64xf32>) -> tensor<256x64xf32>
  return
}

// -----

func.func @sorted_embedding_grad_c2_type(%o: tensor<70xi32>, %s: tensor<257xi32>, %g: tensor<70x64xf64>, %p: tensor<2x64xf32>) {
  // expected-error@+1 {{of the table's element type}}
  %0 = nn.sorted_embedding_grad %o, %s, %g, %p : (tensor<70xi32>, tensor<257xi32>, tensor<70x64xf64>, tensor<2x64xf32>) -> tensor<256x64xf32>
  return
}

// -----

// sorted_embedding_grad_c3: a sum for each whole piece, of the result's type
func.func @sorted_embedding_grad_c3(%o: tensor<70xi32>, %s: tensor<257xi32>, %g: tensor<70x64xf32>, %p: tensor<3x64xf32>) {
  // expected-error@+1 {{expects sums of the pieces of 32 positions, 'tensor<2x64xf32>'; got 'tensor<3x64xf32>'}}
  %0 = nn.sorted_embedding_grad %o, %s, %g, %p : (tensor<70xi32>, tensor<257xi32>, tensor<70x64xf32>, tensor<3x64xf32>) -> tensor<256x64xf32>
  return
}

// -----

func.func @sorted_embedding_grad_c3_type(%o: tensor<70xi32>, %s: tensor<257xi32>, %g: tensor<70x64xbf16>, %p: tensor<2x64xbf16>) {
  // expected-error@+1 {{got 'tensor<2x64xbf16>'}}
  %0 = nn.sorted_embedding_grad %o, %s, %g, %p : (tensor<70xi32>, tensor<257xi32>, tensor<70x64xbf16>, tensor<2x64xbf16>) -> tensor<256x64xf32>
  return
}

// -----

// sorted_embedding_grad_c4: a sum of squares for each row
func.func @sorted_embedding_grad_c4(%o: tensor<70xi32>, %s: tensor<257xi32>, %g: tensor<70x64xbf16>, %p: tensor<2x64xf32>) {
  // expected-error@+1 {{expects a sum of squares for each row of the table, 'tensor<256xf32>'; got 'tensor<257xf32>'}}
  %0, %1 = nn.sorted_embedding_grad %o, %s, %g, %p : (tensor<70xi32>, tensor<257xi32>, tensor<70x64xbf16>, tensor<2x64xf32>) -> (tensor<256x64xf32>, tensor<257xf32>)
  return
}

// -----

func.func @sorted_embedding_grad_c4_rank(%o: tensor<70xi32>, %s: tensor<257xi32>, %g: tensor<70x64xbf16>, %p: tensor<2x64xf32>) {
  // expected-error@+1 {{expects a sum of squares for each row of the table, 'tensor<256xf32>'; got 'tensor<256x1xf32>'}}
  %0, %1 = nn.sorted_embedding_grad %o, %s, %g, %p : (tensor<70xi32>, tensor<257xi32>, tensor<70x64xbf16>, tensor<2x64xf32>) -> (tensor<256x64xf32>, tensor<256x1xf32>)
  return
}

// -----

func.func @sorted_embedding_grad_c4_type(%o: tensor<70xi32>, %s: tensor<257xi32>, %g: tensor<70x64xbf16>, %p: tensor<2x64xf32>) {
  // expected-error@+1 {{expects a sum of squares for each row of the table, 'tensor<256xf32>'; got 'tensor<256xbf16>'}}
  %0, %1 = nn.sorted_embedding_grad %o, %s, %g, %p : (tensor<70xi32>, tensor<257xi32>, tensor<70x64xbf16>, tensor<2x64xf32>) -> (tensor<256x64xf32>, tensor<256xbf16>)
  return
}

// -----

func.func @top_k_c1(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{expects lines with at least as many elements as results}}
  %0, %1 = nn.top_k %x : tensor<2x4xf32> -> tensor<2x5xf32>, tensor<2x5xi64>
  return
}

// -----

func.func @top_k_c1_scalar(%x: tensor<f32>) {
  // expected-error@+1 {{expects lines with at least as many elements as results}}
  %0, %1 = nn.top_k %x : tensor<f32> -> tensor<f32>, tensor<i64>
  return
}

// -----

func.func @top_k_c2(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{expects values 'tensor<2x3xf32>' and indices of this shape; got 'tensor<3x3xf32>'}}
  %0, %1 = nn.top_k %x : tensor<2x4xf32> -> tensor<3x3xf32>, tensor<3x3xi64>
  return
}

// -----

func.func @top_k_c2_indices(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{expects values 'tensor<2x3xf32>' and indices of this shape}}
  %0, %1 = nn.top_k %x : tensor<2x4xf32> -> tensor<2x3xf32>, tensor<2x2xi64>
  return
}
