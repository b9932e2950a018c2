// RUN: shale-opt %s --split-input-file --verify-diagnostics

// reshape_c1_size: a different number of elements
func.func @reshape_c1_size(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{must keep the number of elements and the element type}}
  %0 = nn.reshape %x : tensor<4x8xf32> -> tensor<33xf32>
  return
}

// -----

// reshape_c1_type: different element types
func.func @reshape_c1_type(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{must keep the number of elements and the element type}}
  %0 = nn.reshape %x : tensor<4x8xf32> -> tensor<32xf64>
  return
}

// -----

// transpose_c1: not a permutation
func.func @transpose_c1(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{perm must be a permutation of the 2 dimensions}}
  %0 = nn.transpose %x perm = [0, 0] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// transpose_c1_range: a dimension out of range
func.func @transpose_c1_range(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{perm must be a permutation of the 2 dimensions}}
  %0 = nn.transpose %x perm = [0, 9223372036854775807] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// transpose_c2: the result does not have the permuted shape
func.func @transpose_c2(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{result must be 'tensor<8x4xf32>'}}
  %0 = nn.transpose %x perm = [1, 0] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// broadcast_c1: dimensions that do not increase
func.func @broadcast_c1(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{strictly increasing}}
  %0 = nn.broadcast %x dims = [1, 0] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// broadcast_c1_range: a dimension that the result does not have
func.func @broadcast_c1_range(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{strictly increasing}}
  %0 = nn.broadcast %x dims = [0, 2] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// broadcast_c2: sizes that do not broadcast
func.func @broadcast_c2(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{operand dimension 1 has size 8, result dimension 1 has 9}}
  %0 = nn.broadcast %x dims = [0, 1] : tensor<4x8xf32> -> tensor<4x9xf32>
  return
}

// -----

// broadcast_c3: different element types
func.func @broadcast_c3(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{element types must be equal}}
  %0 = nn.broadcast %x dims = [0, 1] : tensor<4x8xf32> -> tensor<4x8xf64>
  return
}

// -----

// slice_c1: not one start per dimension
func.func @slice_c1(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{needs one entry per dimension, 2; got 1}}
  %0 = nn.slice %x starts = [0] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// slice_c1_range: a limit above the size
func.func @slice_c1_range(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{dimension 1 of size 8 has no slice from 2 to 9 by 1}}
  %0 = nn.slice %x starts = [0, 2] limits = [4, 9] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// slice_c1_stride: a stride below one
func.func @slice_c1_stride(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{has no slice from 2 to 8 by 0}}
  %0 = nn.slice %x starts = [0, 2] limits = [4, 8] strides = [1, 0] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// slice_c2: the result does not have the sliced shape
func.func @slice_c2(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{result must be 'tensor<4x2xf32>'}}
  %0 = nn.slice %x starts = [0, 2] limits = [4, 8] strides = [1, 3] : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// pad_c1: not one entry per dimension
func.func @pad_c1(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{needs one entry per dimension}}
  %0 = nn.pad %x low = [0] high = [0, 0] interior = [0, 0] value = 0.000000e+00 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// pad_c1_negative: negative padding
func.func @pad_c1_negative(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{padding of dimension 0 must not be negative}}
  %0 = nn.pad %x low = [-1, 0] high = [0, 0] interior = [0, 0] value = 0.000000e+00 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// pad_c2: the result does not have the padded shape
func.func @pad_c2(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{result must be 'tensor<5x8xf32>'}}
  %0 = nn.pad %x low = [1, 0] high = [0, 0] interior = [0, 0] value = 0.000000e+00 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// pad_c2_overflow: the padded size overflows 64 bits
func.func @pad_c2_overflow(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{dimension 0 overflows 64 bits}}
  %0 = nn.pad %x low = [9223372036854775807, 0] high = [0, 0] interior = [0, 0] value = 0.000000e+00 : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// -----

// concat_c1: no operand
func.func @concat_c1() {
  // expected-error@+1 {{needs at least one operand}}
  %0 = nn.concat dim = 0 : () -> tensor<4xf32>
  return
}

// -----

// concat_c1_dim: no such dimension
func.func @concat_c1_dim(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{dim 2 must be in [0, 2)}}
  %0 = nn.concat %x dim = 2 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

// concat_c2: the other dimensions differ
func.func @concat_c2(%x: tensor<4x8xf32>, %y: tensor<4x9xf32>) {
  // expected-error@+1 {{operand shapes must be equal except in dim 0}}
  %0 = nn.concat %x, %y dim = 0 : (tensor<4x8xf32>, tensor<4x9xf32>) -> tensor<8x8xf32>
  return
}

// -----

// concat_c2_sum: the result's size is not the sum of the operands' sizes
func.func @concat_c2_sum(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{result must be 'tensor<8x8xf32>'}}
  %0 = nn.concat %x, %x dim = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<9x8xf32>
  return
}
