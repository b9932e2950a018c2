// RUN: shale-opt %s --split-input-file --verify-diagnostics

// sum_squares_c1: no operand
func.func @sum_squares_c1() {
  // expected-error@+1 {{needs at least one operand}}
  %0 = nn.sum_squares : () -> tensor<f32>
  return
}

// -----

// sum_squares_c1_type: different element types
func.func @sum_squares_c1_type(%p: tensor<8xf32>) {
  // expected-error@+1 {{operands must have the result's element type}}
  %0 = nn.sum_squares %p : (tensor<8xf32>) -> tensor<f64>
  return
}

// -----

// adamw_c1: segments with operands that are not 1-D
func.func @adamw_c1(%p: tensor<2x4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'segments' needs 1-D operands}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s betas %s, %s epsilon %s weight_decay %s bias %s, %s decay = 1.0 segments = [#nn.update_range<offset = 0, count = 4, decay = 1.0 : f64>] : tensor<2x4xf32>, tensor<f32>
  return
}

// -----

// adamw_c1_overlap: segments overlap
func.func @adamw_c1_overlap(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{segments must ascend and not overlap}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s betas %s, %s epsilon %s weight_decay %s bias %s, %s decay = 1.0 segments = [#nn.update_range<offset = 0, count = 4, decay = 1.0 : f64>, #nn.update_range<offset = 3, count = 1, decay = 1.0 : f64>] : tensor<8xf32>, tensor<f32>
  return
}

// -----

// adamw_c1_overflow: the end of a segment overflows 64 bits
func.func @adamw_c1_overflow(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{segments must ascend and not overlap}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s betas %s, %s epsilon %s weight_decay %s bias %s, %s decay = 1.0 segments = [#nn.update_range<offset = 4, count = 9223372036854775807, decay = 1.0 : f64>] : tensor<8xf32>, tensor<f32>
  return
}

// -----

// adamw_c1_end: a segment ends after the group
func.func @adamw_c1_end(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{segments end at 9, beyond 'tensor<8xf32>'}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s betas %s, %s epsilon %s weight_decay %s bias %s, %s decay = 1.0 segments = [#nn.update_range<offset = 4, count = 5, decay = 1.0 : f64>] : tensor<8xf32>, tensor<f32>
  return
}

// -----

// adamw_c2: an offset without segments
func.func @adamw_c2(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  // expected-error@+1 {{'offset' needs 'segments'}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s betas %s, %s epsilon %s weight_decay %s bias %s, %s offset %o : tensor<i64> decay = 1.0 : tensor<8xf32>, tensor<f32>
  return
}

// -----

// sgd_c1: segments with operands that are not 1-D
func.func @sgd_c1(%p: tensor<2x4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'segments' needs 1-D operands}}
  %p1, %v1 = nn.sgd %p, %p, %p enable %e scale %s lr %s momentum %s weight_decay %s decay = 1.0 segments = [#nn.update_range<offset = 0, count = 4, decay = 1.0 : f64>] : tensor<2x4xf32>, tensor<f32>
  return
}

// -----

// sgd_c1_overlap: segments overlap
func.func @sgd_c1_overlap(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{segments must ascend and not overlap}}
  %p1, %v1 = nn.sgd %p, %p, %p enable %e scale %s lr %s momentum %s weight_decay %s decay = 1.0 segments = [#nn.update_range<offset = 0, count = 4, decay = 1.0 : f64>, #nn.update_range<offset = 3, count = 1, decay = 1.0 : f64>] : tensor<8xf32>, tensor<f32>
  return
}

// -----

// sgd_c2: an offset without segments
func.func @sgd_c2(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  // expected-error@+1 {{'offset' needs 'segments'}}
  %p1, %v1 = nn.sgd %p, %p, %p enable %e scale %s lr %s momentum %s weight_decay %s offset %o : tensor<i64> decay = 1.0 : tensor<8xf32>, tensor<f32>
  return
}

// -----

// accumulate_c1: accumulator and gradient of different shapes
func.func @accumulate_c1(%g: tensor<8xf32>, %a: tensor<4xf32>) {
  // expected-error@+1 {{'into' must have the type of the gradient, 'tensor<8xf32>'; got 'tensor<4xf32>'}}
  %0 = nn.accumulate @w %g into %a : tensor<4xf32> : tensor<8xf32>
  return
}
