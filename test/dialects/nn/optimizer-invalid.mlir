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
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s segments = [#nn.update_range<offset = 0, count = 4>] : tensor<2x4xf32>, tensor<f32>
  return
}

// -----

// adamw_c1_overlap: segments overlap
func.func @adamw_c1_overlap(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{segments must ascend and not overlap}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s segments = [#nn.update_range<offset = 0, count = 4>, #nn.update_range<offset = 3, count = 1>] : tensor<8xf32>, tensor<f32>
  return
}

// -----

// adamw_c1_overflow: the end of a segment overflows 64 bits
func.func @adamw_c1_overflow(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{segments must ascend and not overlap}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s segments = [#nn.update_range<offset = 4, count = 9223372036854775807>] : tensor<8xf32>, tensor<f32>
  return
}

// -----

// adamw_c1_end: a segment ends after the group
func.func @adamw_c1_end(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{segments end at 9, beyond 'tensor<8xf32>'}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s segments = [#nn.update_range<offset = 4, count = 5>] : tensor<8xf32>, tensor<f32>
  return
}

// -----

// adamw_c2: an offset without segments
func.func @adamw_c2(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  // expected-error@+1 {{'offset' needs 'segments'}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s offset %o : tensor<i64> : tensor<8xf32>, tensor<f32>
  return
}

// -----

// adamw_c2: factors beside those of segments
func.func @adamw_c2_factors(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'factors' are those of 'segments'}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s factors <decay = 0.5> segments = [#nn.update_range<offset = 0, count = 8>] : tensor<8xf32>, tensor<f32>
  return
}

// -----

// sgd_c1: segments with operands that are not 1-D
func.func @sgd_c1(%p: tensor<2x4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'segments' needs 1-D operands}}
  %p1, %v1 = nn.sgd %p, %p, %p enable %e scale %s lr %s momentum %s weight_decay %s segments = [#nn.update_range<offset = 0, count = 4>] : tensor<2x4xf32>, tensor<f32>
  return
}

// -----

// sgd_c1_overlap: segments overlap
func.func @sgd_c1_overlap(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{segments must ascend and not overlap}}
  %p1, %v1 = nn.sgd %p, %p, %p enable %e scale %s lr %s momentum %s weight_decay %s segments = [#nn.update_range<offset = 0, count = 4>, #nn.update_range<offset = 3, count = 1>] : tensor<8xf32>, tensor<f32>
  return
}

// -----

// sgd_c2: an offset without segments
func.func @sgd_c2(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  // expected-error@+1 {{'offset' needs 'segments'}}
  %p1, %v1 = nn.sgd %p, %p, %p enable %e scale %s lr %s momentum %s weight_decay %s offset %o : tensor<i64> : tensor<8xf32>, tensor<f32>
  return
}

// -----

// accumulate_c1: accumulator and gradient of different shapes
func.func @accumulate_c1(%g: tensor<8xf32>, %a: tensor<4xf32>) {
  // expected-error@+1 {{'into' must have the type of the gradient, 'tensor<8xf32>'; got 'tensor<4xf32>'}}
  %0 = nn.accumulate @w %g into %a : tensor<4xf32> : tensor<8xf32>
  return
}

// -----

// adamw_c3: a seed without a step
func.func @adamw_c3(%p: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>, %r: tensor<i64>) {
  // expected-error@+1 {{is rounded by a seed and a step; got 1 operands}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s rounded by %r : tensor<i64> : tensor<8xbf16>, tensor<f32>
  return
}

// -----

// adamw_c3_type: a parameter that is not bf16
func.func @adamw_c3_type(%p: tensor<8xf16>, %s: tensor<f32>, %e: tensor<i1>, %r: tensor<i64>) {
  // expected-error@+1 {{rounds a parameter of bf16 stochastically; got 'f16'}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s rounded by %r, %r : tensor<i64>, tensor<i64> : tensor<8xf16>, tensor<f32>
  return
}

// -----

// adamw_c4: numbers of an update that rounds to nearest
func.func @adamw_c4(%p: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'numbers' are for stochastic rounding only}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s {numbers = array<i64: 8>} : tensor<8xbf16>, tensor<f32>
  return
}

// -----

// adamw_c4_count: not one number per segment
func.func @adamw_c4_count(%p: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>, %r: tensor<i64>) {
  // expected-error@+1 {{needs 1 numbers; got 2}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s rounded by %r, %r : tensor<i64>, tensor<i64> segments = [#nn.update_range<offset = 0, count = 8>] {numbers = array<i64: 8, 16>} : tensor<8xbf16>, tensor<f32>
  return
}

// -----

// adamw_c4_multiple: a number that is no multiple of 4
func.func @adamw_c4_multiple(%p: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>, %r: tensor<i64>) {
  // expected-error@+1 {{numbers must be multiples of 4 from 0 to 2^48; got 6}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s rounded by %r, %r : tensor<i64>, tensor<i64> {numbers = array<i64: 6>} : tensor<8xbf16>, tensor<f32>
  return
}

// -----

// adamw_c4_range: a number beyond the counter
func.func @adamw_c4_range(%p: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>, %r: tensor<i64>) {
  // expected-error@+1 {{numbers must be multiples of 4 from 0 to 2^48; got 9223372036854775804}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s rounded by %r, %r : tensor<i64>, tensor<i64> {numbers = array<i64: 9223372036854775804>} : tensor<8xbf16>, tensor<f32>
  return
}

// -----

// adamw_c5: a segment whose elements share random words with the one before
func.func @adamw_c5(%p: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>, %r: tensor<i64>) {
  // expected-error@+1 {{segments must begin at multiples of 4 to be rounded stochastically}}
  %p1, %m1, %v1 = nn.adamw %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s rounded by %r, %r : tensor<i64>, tensor<i64> segments = [#nn.update_range<offset = 2, count = 4>] : tensor<8xbf16>, tensor<f32>
  return
}

// -----

// lamb_c1_rounding: the checks of rounding are those of nn.adamw
func.func @lamb_c1_rounding(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %r: tensor<i64>) {
  // expected-error@+1 {{rounds a parameter of bf16 stochastically; got 'f32'}}
  %p1, %m1, %v1 = nn.lamb %p, %p, %p, %p enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s rounded by %r, %r : tensor<i64>, tensor<i64> : tensor<8xf32>, tensor<f32>
  return
}

// -----

// assign_c1, assign_c2: the places are those of nn.adamw
func.func @assign_c2(%p: tensor<8xbf16>, %x: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  // expected-error@+1 {{'offset' needs 'segments'}}
  %p1 = nn.assign %p, %x enable %e scale %s offset %o : tensor<i64> : tensor<8xbf16> grad tensor<8xf32>, tensor<f32>
  return
}

// -----

// assign_c1: segments with operands that are not 1-D
func.func @assign_c1(%p: tensor<2x4xbf16>, %x: tensor<2x4xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'segments' needs 1-D operands}}
  %p1 = nn.assign %p, %x enable %e scale %s segments = [#nn.update_range<offset = 0, count = 4>] : tensor<2x4xbf16> grad tensor<2x4xf32>, tensor<f32>
  return
}

// -----

// assign_c3: a parameter that is not bf16
func.func @assign_c3(%p: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>, %r: tensor<i64>) {
  // expected-error@+1 {{rounds a parameter of bf16 stochastically; got 'f32'}}
  %p1 = nn.assign %p, %p enable %e scale %s rounded by %r, %r : tensor<i64>, tensor<i64> : tensor<8xf32> grad tensor<8xf32>, tensor<f32>
  return
}

// -----

// assign_c4: numbers without rounding
func.func @assign_c4(%p: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'numbers' are for stochastic rounding only}}
  %p1 = nn.assign %p, %p enable %e scale %s {numbers = array<i64: 8>} : tensor<8xbf16> grad tensor<8xbf16>, tensor<f32>
  return
}

// -----

// assign_c5: a segment that begins inside of four elements
func.func @assign_c5(%p: tensor<8xbf16>, %s: tensor<f32>, %e: tensor<i1>, %r: tensor<i64>) {
  // expected-error@+1 {{segments must begin at multiples of 4 to be rounded stochastically}}
  %p1 = nn.assign %p, %p enable %e scale %s rounded by %r, %r : tensor<i64>, tensor<i64> segments = [#nn.update_range<offset = 2, count = 4>] : tensor<8xbf16> grad tensor<8xbf16>, tensor<f32>
  return
}
