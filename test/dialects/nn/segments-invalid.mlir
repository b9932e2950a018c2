// RUN: shale-opt %s --split-input-file --verify-diagnostics

// segment_means_c1: operands that are not 1-D
func.func @means_rank(%g: tensor<2x4xf32>) {
  // expected-error@+1 {{needs 1-D tensors; got 'tensor<2x4xf32>' and 'tensor<8xf32>'}}
  %0 = nn.segment_means %g factors segments = [] : tensor<2x4xf32> -> tensor<8xf32>
  return
}

// -----

// segment_means_c1: segments overlap by row and column
func.func @means_order(%g: tensor<8xf32>) {
  // expected-error@+1 {{begins before 4 or, by row and column, 4}}
  %0 = nn.segment_means %g factors segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 4, shape = [2], at = 3>] : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

// segment_means_c1: segments overlap in the group
func.func @means_overlap(%g: tensor<8xf32>) {
  // expected-error@+1 {{begins before 4 or, by row and column, 4}}
  %0 = nn.segment_means %g factors segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 3, shape = [2], at = 4>] : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

// segment_means_c1: more elements than 64 bits count
func.func @means_overflow(%g: tensor<8xf32>) {
  // expected-error@+1 {{segments must ascend and not overlap}}
  %0 = nn.segment_means %g factors segments = [#nn.factored_range<offset = 0, shape = [4294967296, 4294967296], at = 0>] : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

// segment_means_c1: a negative size
func.func @means_negative(%g: tensor<8xf32>) {
  // expected-error@+1 {{segments must ascend and not overlap}}
  %0 = nn.segment_means %g factors segments = [#nn.factored_range<offset = 0, shape = [-2, -2], at = 0>] : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

// segment_means_c1: a segment ends after the input
func.func @means_end(%g: tensor<8xf32>) {
  // expected-error@+1 {{segments end at 12, beyond 'tensor<8xf32>'}}
  %0 = nn.segment_means %g segments = [#nn.factored_range<offset = 4, shape = [8], at = 0>] : tensor<8xf32> -> tensor<1xf32>
  return
}

// -----

// segment_means_c1: rows and columns end after the result
func.func @means_factors_end(%g: tensor<8xf32>) {
  // expected-error@+1 {{segments end at 6 of the rows and columns, beyond 'tensor<4xf32>'}}
  %0 = nn.segment_means %g factors segments = [#nn.factored_range<offset = 0, shape = [2, 4], at = 0>] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// segment_means_c2: not one element per segment
func.func @means_count(%g: tensor<8xf32>) {
  // expected-error@+1 {{has 1 segments and 'tensor<2xf32>' with one element per segment}}
  %0 = nn.segment_means %g segments = [#nn.factored_range<offset = 0, shape = [8], at = 0>] : tensor<8xf32> -> tensor<2xf32>
  return
}

// -----

// segment_means_c3: another element type
func.func @means_type(%g: tensor<8xf32>) {
  // expected-error@+1 {{the input must have the result's element type; got 'tensor<8xf32>' and 'tensor<1xf64>'}}
  %0 = nn.segment_means %g segments = [#nn.factored_range<offset = 0, shape = [8], at = 0>] : tensor<8xf32> -> tensor<1xf64>
  return
}

// -----

// segment_broadcast_c1: a segment ends after the result
func.func @broadcast_end(%g: tensor<1xf32>) {
  // expected-error@+1 {{segments end at 12, beyond 'tensor<8xf32>'}}
  %0 = nn.segment_broadcast %g segments = [#nn.factored_range<offset = 4, shape = [8], at = 0>] : tensor<1xf32> -> tensor<8xf32>
  return
}

// -----

// segment_broadcast_c1: the input lacks columns
func.func @broadcast_columns(%g: tensor<4xf32>) {
  // expected-error@+1 {{segments end at 6 of the rows and columns, beyond 'tensor<4xf32>'}}
  %0 = nn.segment_broadcast %g rows segments = [#nn.factored_range<offset = 0, shape = [2, 4], at = 0>] : tensor<4xf32> -> tensor<8xf32>
  return
}

// -----

// segment_broadcast_c2: not one element per segment
func.func @broadcast_count(%g: tensor<2xf32>) {
  // expected-error@+1 {{has 1 segments and 'tensor<2xf32>' with one element per segment}}
  %0 = nn.segment_broadcast %g segments = [#nn.factored_range<offset = 0, shape = [8], at = 0>] : tensor<2xf32> -> tensor<8xf32>
  return
}

// -----

// segment_broadcast_c3: another element type
func.func @broadcast_type(%g: tensor<1xf64>) {
  // expected-error@+1 {{the input must have the result's element type; got 'tensor<1xf64>' and 'tensor<8xf32>'}}
  %0 = nn.segment_broadcast %g segments = [#nn.factored_range<offset = 0, shape = [8], at = 0>] : tensor<1xf64> -> tensor<8xf32>
  return
}

// -----

// segment_broadcast_c4: rows and columns at once
func.func @broadcast_both(%g: tensor<6xf32>) {
  // expected-error@+1 {{has values by row or by column, not both}}
  %0 = nn.segment_broadcast %g rows columns segments = [#nn.factored_range<offset = 0, shape = [2, 4], at = 0>] : tensor<6xf32> -> tensor<8xf32>
  return
}
