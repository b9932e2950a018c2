// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-opt --split-input-file | FileCheck %s
// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-run | FileCheck %s --check-prefix=VALUES

// CHECK-LABEL: func.func private @types
// CHECK: nn.adamw8bit %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} beta1 %{{.*}} beta2 %{{.*}} epsilon %{{.*}} weight_decay %{{.*}} bias1 %{{.*}} bias2 %{{.*}} : tensor<3x100xf32> grad tensor<3x100xbf16> state tensor<130xi32>, tensor<f32>
// CHECK: nn.adamw8bit {{.*}} offset %{{.*}} : tensor<i64> segments = [#nn.update_range<offset = 256, count = 100>] : tensor<256xf32> state tensor<65xi32>, tensor<f32>
func.func private @types(%p: tensor<3x100xf32>, %g: tensor<3x100xbf16>, %m: tensor<130xi32>, %f: tensor<256xf32>, %w: tensor<65xi32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  %p1, %m1, %v1 = nn.adamw8bit %p, %g, %m, %m enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s : tensor<3x100xf32> grad tensor<3x100xbf16> state tensor<130xi32>, tensor<f32>
  %p2, %m2, %v2 = nn.adamw8bit %f, %f, %w, %w enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s offset %o : tensor<i64> segments = [#nn.update_range<offset = 256, count = 100>] : tensor<256xf32> state tensor<65xi32>, tensor<f32>
  return
}

// A parameter of 4 elements has one block: words 0 to 3 have codes in their lowest bytes, word 64 the scale. The new moments are
// 2, -1, 0.0625 and 0, and 16, 4, 0.015625 and 0. Of the first, whose scale is 2 = 0x40000000, codes are 127, 127 - 8 with a sign (247),
// 127 - 40 and 0; of the second, of scale 16 = 0x41800000, 255, 255 - 16, 255 - 80 and 0. The parameter moves by moment1 / sqrt(moment2) / 2.
// The second update has a gradient of 0: the moments halve, and the codes stay.
// VALUES-LABEL: @coded
// VALUES: result0: 4xf64 {{.*}} [0.75, 1.25, 0.75, 1]
// VALUES: result1: 4xi32 {{.*}} [127, 247, 87, 0]
// VALUES: result2: 1xi32 {{.*}} [1073741824]
// VALUES: result3: 4xi32 {{.*}} [255, 239, 175, 0]
// VALUES: result4: 1xi32 {{.*}} [1098907648]
// VALUES: result5: 4xi32 {{.*}} [127, 247, 87, 0]
// VALUES: result6: 1xi32 {{.*}} [1065353216]
// VALUES: result7: 4xi32 {{.*}} [0, 0, 0, 0]
// CHECK-LABEL: func.func @coded
func.func @coded() -> (tensor<4xf64>, tensor<4xi32>, tensor<1xi32>, tensor<4xi32>, tensor<1xi32>, tensor<4xi32>, tensor<1xi32>, tensor<4xi32>) {
  %p = nn.constant dense<1.0> : tensor<4xf64>
  %g = nn.constant dense<[4.0, -2.0, 0.125, 0.0]> : tensor<4xf64>
  %still = nn.constant dense<0.0> : tensor<4xf64>
  %m = nn.constant dense<0> : tensor<65xi32>
  %zero = nn.constant dense<0.0> : tensor<f64>
  %tiny = nn.constant dense<1.0e-30> : tensor<f64>
  %half = nn.constant dense<0.5> : tensor<f64>
  %one = nn.constant dense<1.0> : tensor<f64>
  %yes = nn.constant dense<true> : tensor<i1>
  %no = nn.constant dense<false> : tensor<i1>
  %0, %1, %2 = nn.adamw8bit %p, %g, %m, %m enable %yes scale %one lr %half beta1 %half beta2 %zero epsilon %tiny weight_decay %zero bias1 %one bias2 %one : tensor<4xf64> state tensor<65xi32>, tensor<f64>
  %3, %4, %5 = nn.adamw8bit %p, %still, %1, %2 enable %yes scale %one lr %half beta1 %half beta2 %half epsilon %tiny weight_decay %zero bias1 %one bias2 %one : tensor<4xf64> state tensor<65xi32>, tensor<f64>
  %6, %7, %8 = nn.adamw8bit %p, %g, %m, %m enable %no scale %one lr %half beta1 %half beta2 %zero epsilon %tiny weight_decay %zero bias1 %one bias2 %one : tensor<4xf64> state tensor<65xi32>, tensor<f64>
  %r1 = nn.slice %1 starts = [0] limits = [4] strides = [1] : tensor<65xi32> -> tensor<4xi32>
  %s1 = nn.slice %1 starts = [64] limits = [65] strides = [1] : tensor<65xi32> -> tensor<1xi32>
  %r2 = nn.slice %2 starts = [0] limits = [4] strides = [1] : tensor<65xi32> -> tensor<4xi32>
  %s2 = nn.slice %2 starts = [64] limits = [65] strides = [1] : tensor<65xi32> -> tensor<1xi32>
  %r4 = nn.slice %4 starts = [0] limits = [4] strides = [1] : tensor<65xi32> -> tensor<4xi32>
  %s4 = nn.slice %4 starts = [64] limits = [65] strides = [1] : tensor<65xi32> -> tensor<1xi32>
  %r7 = nn.slice %7 starts = [0] limits = [4] strides = [1] : tensor<65xi32> -> tensor<4xi32>
  return %0, %r1, %s1, %r2, %s2, %r4, %s4, %r7 : tensor<4xf64>, tensor<4xi32>, tensor<1xi32>, tensor<4xi32>, tensor<1xi32>, tensor<4xi32>, tensor<1xi32>, tensor<4xi32>
}

// -----

// adamw8bit_c1: segments with operands that are not 1-D
func.func @adamw8bit_c1(%p: tensor<2x128xf32>, %w: tensor<65xi32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{'segments' needs 1-D operands}}
  %p1, %m1, %v1 = nn.adamw8bit %p, %p, %w, %w enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s segments = [#nn.update_range<offset = 0, count = 4>] : tensor<2x128xf32> state tensor<65xi32>, tensor<f32>
  return
}

// -----

// adamw8bit_c2: an offset without segments
func.func @adamw8bit_c2(%p: tensor<256xf32>, %w: tensor<65xi32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  // expected-error@+1 {{'offset' needs 'segments'}}
  %p1, %m1, %v1 = nn.adamw8bit %p, %p, %w, %w enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s offset %o : tensor<i64> : tensor<256xf32> state tensor<65xi32>, tensor<f32>
  return
}

// -----

// adamw8bit_c3: a block is missing
func.func @adamw8bit_c3(%p: tensor<257xf32>, %w: tensor<65xi32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{the state of 'tensor<257xf32>' must be 1-D with 130 words; got 'tensor<65xi32>'}}
  %p1, %m1, %v1 = nn.adamw8bit %p, %p, %w, %w enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s : tensor<257xf32> state tensor<65xi32>, tensor<f32>
  return
}

// -----

// adamw8bit_c3: a segment that begins within a block
func.func @adamw8bit_c3_segment(%p: tensor<256xf32>, %w: tensor<65xi32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{segments and slices must begin at multiples of 256 elements; got #nn.update_range<offset = 64, count = 4> in 'tensor<256xf32>'}}
  %p1, %m1, %v1 = nn.adamw8bit %p, %p, %w, %w enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s segments = [#nn.update_range<offset = 64, count = 4>] : tensor<256xf32> state tensor<65xi32>, tensor<f32>
  return
}

// -----

// adamw8bit_c3: a slice that is no number of blocks
func.func @adamw8bit_c3_slice(%p: tensor<300xf32>, %w: tensor<130xi32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{segments and slices must begin at multiples of 256 elements}}
  %p1, %m1, %v1 = nn.adamw8bit %p, %p, %w, %w enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s segments = [#nn.update_range<offset = 0, count = 300>] : tensor<300xf32> state tensor<130xi32>, tensor<f32>
  return
}
