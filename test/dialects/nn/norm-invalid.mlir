// RUN: shale-opt %s --split-input-file --verify-diagnostics

// softmax_c1: a scalar
func.func @softmax_c1(%x: tensor<f32>) {
  // expected-error@+1 {{input must have rank 1 or more}}
  %0 = nn.softmax %x : tensor<f32>
  return
}

// -----

// layer_norm_c1: a scalar
func.func @layer_norm_c1(%x: tensor<f32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{input must have rank 1 or more}}
  %y, %m, %r = nn.layer_norm %x, %s, %s epsilon = 1.0 : tensor<f32>, tensor<8xf32> -> tensor<f32>
  return
}

// -----

// layer_norm_c2: a scale of another size than the last dimension
func.func @layer_norm_c2(%x: tensor<4x8xf32>, %s: tensor<4xf32>) {
  // expected-error@+1 {{scale and bias must be 'tensor<8xf32>'}}
  %y, %m, %r = nn.layer_norm %x, %s, %s epsilon = 1.0 : tensor<4x8xf32>, tensor<4xf32> -> tensor<4xf32>
  return
}

// -----

// layer_norm_c3: not one mean per row
func.func @layer_norm_c3(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{statistics must be 'tensor<4xf32>'}}
  %y, %m, %r = nn.layer_norm %x, %s, %s epsilon = 1.0 : tensor<4x8xf32>, tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

// layer_norm_c4: a negative epsilon
func.func @layer_norm_c4(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{epsilon must be finite and not negative}}
  %y, %m, %r = nn.layer_norm %x, %s, %s epsilon = -1.0 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// layer_norm_grad_c1: types that differ from those of the forward op
func.func @layer_norm_grad_c1(%x: tensor<4x8xf32>, %s: tensor<4xf32>, %m: tensor<4xf32>) {
  // expected-error@+1 {{scale and bias must be 'tensor<8xf32>'}}
  %dx, %ds, %db = nn.layer_norm_grad %x, %s, %m, %m, %x : tensor<4x8xf32>, tensor<4xf32>, tensor<4xf32>
  return
}

// -----

// rms_norm_c1: a scalar
func.func @rms_norm_c1(%x: tensor<f32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{input must have rank 1 or more}}
  %y, %r = nn.rms_norm %x, %s epsilon = 1.0 : tensor<f32>, tensor<8xf32> -> tensor<f32>
  return
}

// -----

// rms_norm_c2: a scale of another size than the last dimension
func.func @rms_norm_c2(%x: tensor<4x8xf32>, %s: tensor<8xf64>) {
  // expected-error@+1 {{scale and bias must be 'tensor<8xf32>'}}
  %y, %r = nn.rms_norm %x, %s epsilon = 1.0 : tensor<4x8xf32>, tensor<8xf64> -> tensor<4xf32>
  return
}

// -----

// rms_norm_c3: not one rstd per row
func.func @rms_norm_c3(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{statistics must be 'tensor<4xf32>'}}
  %y, %r = nn.rms_norm %x, %s epsilon = 1.0 : tensor<4x8xf32>, tensor<8xf32> -> tensor<f32>
  return
}

// -----

// rms_norm_c4: an epsilon that is not finite
func.func @rms_norm_c4(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  // expected-error@+1 {{epsilon must be finite and not negative}}
  %y, %r = nn.rms_norm %x, %s epsilon = 0x7FF0000000000000 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// rms_norm_grad_c1: types that differ from those of the forward op
func.func @rms_norm_grad_c1(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %m: tensor<8xf32>) {
  // expected-error@+1 {{statistics must be 'tensor<4xf32>'}}
  %dx, %ds = nn.rms_norm_grad %x, %s, %m, %x : tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

// running_statistic_c1: a momentum above 1
func.func @running_statistic_c1(%b: tensor<4xf32>, %r: tensor<4xf32>) {
  // expected-error@+1 {{momentum must be in [0, 1] and factor finite and positive; got 1.5}}
  %y = nn.running_statistic %b, %r momentum = 1.5 factor = 1.0 : tensor<4xf32>
  return
}

// -----

// running_statistic_c1: a momentum that is no number
func.func @running_statistic_c1_nan(%b: tensor<4xf32>, %r: tensor<4xf32>) {
  // expected-error@+1 {{momentum must be in [0, 1] and factor finite and positive}}
  %y = nn.running_statistic %b, %r momentum = 0x7FF8000000000000 factor = 1.0 : tensor<4xf32>
  return
}

// -----

// running_statistic_c1: a factor that is not positive
func.func @running_statistic_c1_factor(%b: tensor<4xf32>, %r: tensor<4xf32>) {
  // expected-error@+1 {{factor finite and positive; got 1.000000e-01 and 0.000000e+00}}
  %y = nn.running_statistic %b, %r momentum = 0.1 factor = 0.0 : tensor<4xf32>
  return
}
