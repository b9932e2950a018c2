// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-opt --split-input-file | FileCheck %s
// RUN: shale-opt %s --split-input-file --verify-diagnostics | shale-run | FileCheck %s --check-prefix=VALUES

// CHECK-LABEL: func.func private @types
// CHECK: nn.factor_means %{{.*}} scale %{{.*}} offset %{{.*}} : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.000000e+00 : f64>, #nn.factored_range<offset = 4, at = 4, decay = 1.000000e+00 : f64>] : tensor<4xbf16> -> tensor<8xf32>
// CHECK: nn.segment_means %{{.*}} segments = [] : tensor<4xbf16> -> tensor<0xf32>
// CHECK: nn.direction_means %{{.*}} scale %{{.*}} moment %{{.*}} epsilon %{{.*}} segments = [] : tensor<4xbf16>, tensor<8xf32> -> tensor<0xf32>
// CHECK: nn.factored_step %{{.*}}, %{{.*}} enable %{{.*}} scale %{{.*}} lr %{{.*}} weight_decay %{{.*}} epsilon %{{.*}} moment %{{.*}} rates %{{.*}} segments = [] : tensor<4xbf16> grad tensor<4xbf16>, tensor<8xf32>, tensor<0xf32>
func.func private @types(%g: tensor<4xbf16>, %m: tensor<8xf32>, %r: tensor<0xf32>, %s: tensor<f32>, %e: tensor<i1>, %o: tensor<i64>) {
  %0 = nn.factor_means %g scale %s offset %o : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 4, at = 4, decay = 1.0 : f64>] : tensor<4xbf16> -> tensor<8xf32>
  %1 = nn.segment_means %g segments = [] : tensor<4xbf16> -> tensor<0xf32>
  %2 = nn.direction_means %g scale %s moment %m epsilon %s segments = [] : tensor<4xbf16>, tensor<8xf32> -> tensor<0xf32>
  %3 = nn.factored_step %g, %g enable %e scale %s lr %s weight_decay %s epsilon %s moment %m rates %r segments = [] : tensor<4xbf16> grad tensor<4xbf16>, tensor<8xf32>, tensor<0xf32>
  return
}

// The matrix 2 4 / 4 8 (adafactor.mlir) from element 0 and the vector 2 -4 from element 5 of a group of 8; elements 4 and 7 are padding.
// The slice from element 3 begins with the last element of the matrix.
// VALUES-LABEL: @group
// VALUES: result0: 8xf64 {{.*}} [10, 40, 10, 40, 0, 4, 16, 0]
// VALUES: result1: 8xf64 {{.*}} [0, 32, 0, 32, 0, 4, 16, 0]
// VALUES: result2: 2xf64 {{.*}} [25, 10]
// VALUES: result3: 2xf64 {{.*}} [16, 10]
// VALUES: result4: 2xf64 {{.*}} [1, 1]
// VALUES: result5: 2xf64 {{.*}} [0.25, 1]
// VALUES: result6: 8xf64 {{.*}} [1.5, 3.5, 3.5, 7.5, 7, 0.5, -2.5, 7]
// VALUES: result7: 5xf64 {{.*}} [7.5, 7, 1.5, -3.5, 7]
// VALUES: result8: 5xf64 {{.*}} [8, 7, 2, -4, 7]
// CHECK-LABEL: func.func @group
func.func @group() -> (tensor<8xf64>, tensor<8xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<8xf64>, tensor<5xf64>, tensor<5xf64>) {
  %g = nn.constant dense<[2.0, 4.0, 4.0, 8.0, 7.0, 2.0, -4.0, 7.0]> : tensor<8xf64>
  %part = nn.constant dense<[8.0, 7.0, 2.0, -4.0, 7.0]> : tensor<5xf64>
  %r = nn.constant dense<[0.5, 0.5]> : tensor<2xf64>
  %r2 = nn.constant dense<[0.5, 1.5]> : tensor<2xf64>
  %small = nn.constant dense<1.0e-9> : tensor<f64>
  %zero = nn.constant dense<0.0> : tensor<f64>
  %one = nn.constant dense<1.0> : tensor<f64>
  %three = nn.constant dense<3> : tensor<i64>
  %yes = nn.constant dense<true> : tensor<i1>
  %no = nn.constant dense<false> : tensor<i1>
  %m = nn.factor_means %g scale %one segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 5, shape = [2], at = 5, decay = 1.0 : f64>] : tensor<8xf64> -> tensor<8xf64>
  %m1 = nn.factor_means %part scale %one offset %three : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 5, shape = [2], at = 5, decay = 1.0 : f64>] : tensor<5xf64> -> tensor<8xf64>
  %s = nn.segment_means %g segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 5, shape = [2], at = 5, decay = 1.0 : f64>] : tensor<8xf64> -> tensor<2xf64>
  %s1 = nn.segment_means %part offset %three : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 5, shape = [2], at = 5, decay = 1.0 : f64>] : tensor<5xf64> -> tensor<2xf64>
  %d = nn.direction_means %g scale %one moment %m epsilon %small segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 5, shape = [2], at = 5, decay = 1.0 : f64>] : tensor<8xf64>, tensor<8xf64> -> tensor<2xf64>
  %d1 = nn.direction_means %part scale %one moment %m epsilon %small offset %three : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 5, shape = [2], at = 5, decay = 1.0 : f64>] : tensor<5xf64>, tensor<8xf64> -> tensor<2xf64>
  %p = nn.factored_step %g, %g enable %yes scale %one lr %one weight_decay %zero epsilon %small moment %m rates %r2 segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 5, shape = [2], at = 5, decay = 1.0 : f64>] : tensor<8xf64> grad tensor<8xf64>, tensor<8xf64>, tensor<2xf64>
  %p1 = nn.factored_step %part, %part enable %yes scale %one lr %one weight_decay %zero epsilon %small moment %m rates %r offset %three : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 5, shape = [2], at = 5, decay = 1.0 : f64>] : tensor<5xf64> grad tensor<5xf64>, tensor<8xf64>, tensor<2xf64>
  %p2 = nn.factored_step %part, %part enable %no scale %one lr %one weight_decay %one epsilon %small moment %m rates %r offset %three : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 5, shape = [2], at = 5, decay = 1.0 : f64>] : tensor<5xf64> grad tensor<5xf64>, tensor<8xf64>, tensor<2xf64>
  return %m, %m1, %s, %s1, %d, %d1, %p, %p1, %p2 : tensor<8xf64>, tensor<8xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<8xf64>, tensor<5xf64>, tensor<5xf64>
}

// Each element of a segment is the segment's value, and padding is 0: of a whole group, and of the slice from element 3.
// VALUES-LABEL: @spread
// VALUES: result0: 8xf64 {{.*}} [0.5, 0.5, 0.5, 0.5, 0, 1.5, 1.5, 0]
// VALUES: result1: 5xf64 {{.*}} [0.5, 0, 1.5, 1.5, 0]
// CHECK-LABEL: func.func @spread
// CHECK: nn.segment_broadcast %{{.*}} segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.000000e+00 : f64>, #nn.factored_range<offset = 5, shape = [2], at = 5, decay = 1.000000e+00 : f64>] : tensor<2xf64> -> tensor<8xf64>
// CHECK: nn.segment_broadcast %{{.*}} offset %{{.*}} : tensor<i64> segments = [{{.*}}] : tensor<2xf64> -> tensor<5xf64>
func.func @spread() -> (tensor<8xf64>, tensor<5xf64>) {
  %r = nn.constant dense<[0.5, 1.5]> : tensor<2xf64>
  %three = nn.constant dense<3> : tensor<i64>
  %0 = nn.segment_broadcast %r segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 5, shape = [2], at = 5, decay = 1.0 : f64>] : tensor<2xf64> -> tensor<8xf64>
  %1 = nn.segment_broadcast %r offset %three : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 5, shape = [2], at = 5, decay = 1.0 : f64>] : tensor<2xf64> -> tensor<5xf64>
  return %0, %1 : tensor<8xf64>, tensor<5xf64>
}

// -----

// factor_means_c1: operands that are not 1-D
func.func @factor_means_c1(%g: tensor<2x4xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{needs 1-D tensors; got 'tensor<2x4xf32>' and 'tensor<8xf32>'}}
  %0 = nn.factor_means %g scale %s segments = [] : tensor<2x4xf32> -> tensor<8xf32>
  return
}

// -----

// factor_means_c1: segments overlap in the result
func.func @factor_means_c1_order(%g: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{begins before 4 or, in the moment, 4}}
  %0 = nn.factor_means %g scale %s segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0, decay = 1.0 : f64>, #nn.factored_range<offset = 4, shape = [2], at = 3, decay = 1.0 : f64>] : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

// factor_means_c1: a segment ends after the result
func.func @factor_means_c1_end(%g: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{segments end at 5 of the moment, beyond 'tensor<4xf32>'}}
  %0 = nn.factor_means %g scale %s segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 1, decay = 1.0 : f64>] : tensor<8xf32> -> tensor<4xf32>
  return
}

// -----

// factor_means_c1: the number of elements of a shape overflows 64 bits
func.func @factor_means_c1_overflow(%g: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{segments must ascend and not overlap}}
  %0 = nn.factor_means %g scale %s segments = [#nn.factored_range<offset = 0, shape = [4294967296, 4294967296, 4294967296], at = 0, decay = 1.0 : f64>] : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

// factor_means_c1: a negative size
func.func @factor_means_c1_negative(%g: tensor<8xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{segments must ascend and not overlap}}
  %0 = nn.factor_means %g scale %s segments = [#nn.factored_range<offset = 0, shape = [-2, -2], at = 0, decay = 1.0 : f64>] : tensor<8xf32> -> tensor<8xf32>
  return
}

// -----

// segment_means_c1: a segment ends after the input
func.func @segment_means_c1(%g: tensor<8xf32>) {
  // expected-error@+1 {{segments end at 12, beyond 'tensor<8xf32>'}}
  %0 = nn.segment_means %g segments = [#nn.factored_range<offset = 4, shape = [8], at = 0, decay = 1.0 : f64>] : tensor<8xf32> -> tensor<1xf32>
  return
}

// -----

// segment_means_c2: not one element per segment
func.func @segment_means_c2(%g: tensor<8xf32>) {
  // expected-error@+1 {{has 1 segments and 'tensor<2xf32>' with one element per segment}}
  %0 = nn.segment_means %g segments = [#nn.factored_range<offset = 0, shape = [8], at = 0, decay = 1.0 : f64>] : tensor<8xf32> -> tensor<2xf32>
  return
}

// -----

// direction_means_c1: the moment is too small
func.func @direction_means_c1(%g: tensor<8xf32>, %m: tensor<4xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{segments end at 6 of the moment, beyond 'tensor<4xf32>'}}
  %0 = nn.direction_means %g scale %s moment %m epsilon %s segments = [#nn.factored_range<offset = 0, shape = [2, 4], at = 0, decay = 1.0 : f64>] : tensor<8xf32>, tensor<4xf32> -> tensor<1xf32>
  return
}

// -----

// direction_means_c2: not one element per segment
func.func @direction_means_c2(%g: tensor<8xf32>, %m: tensor<6xf32>, %s: tensor<f32>) {
  // expected-error@+1 {{has 1 segments and 'tensor<3xf32>' with one element per segment}}
  %0 = nn.direction_means %g scale %s moment %m epsilon %s segments = [#nn.factored_range<offset = 0, shape = [2, 4], at = 0, decay = 1.0 : f64>] : tensor<8xf32>, tensor<6xf32> -> tensor<3xf32>
  return
}

// -----

// factored_step_c1: operands that are not 1-D
func.func @factored_step_c1(%p: tensor<2x4xf32>, %m: tensor<6xf32>, %r: tensor<1xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{needs 1-D tensors; got 'tensor<2x4xf32>' and 'tensor<6xf32>'}}
  %0 = nn.factored_step %p, %p enable %e scale %s lr %s weight_decay %s epsilon %s moment %m rates %r segments = [#nn.factored_range<offset = 0, shape = [2, 4], at = 0, decay = 1.0 : f64>] : tensor<2x4xf32> grad tensor<2x4xf32>, tensor<6xf32>, tensor<1xf32>
  return
}

// -----

// factored_step_c2: not one rate per segment
func.func @factored_step_c2(%p: tensor<8xf32>, %m: tensor<6xf32>, %r: tensor<2xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{has 1 segments and 'tensor<2xf32>' with one element per segment}}
  %0 = nn.factored_step %p, %p enable %e scale %s lr %s weight_decay %s epsilon %s moment %m rates %r segments = [#nn.factored_range<offset = 0, shape = [2, 4], at = 0, decay = 1.0 : f64>] : tensor<8xf32> grad tensor<8xf32>, tensor<6xf32>, tensor<2xf32>
  return
}

// -----

// segment_broadcast_c1: a segment ends after the result
func.func @segment_broadcast_c1(%r: tensor<1xf32>) {
  // expected-error@+1 {{segments end at 12, beyond 'tensor<8xf32>'}}
  %0 = nn.segment_broadcast %r segments = [#nn.factored_range<offset = 4, shape = [8], at = 0, decay = 1.0 : f64>] : tensor<1xf32> -> tensor<8xf32>
  return
}

// -----

// segment_broadcast_c2: not one element per segment
func.func @segment_broadcast_c2(%r: tensor<2xf32>) {
  // expected-error@+1 {{has 1 segments and 'tensor<2xf32>' with one element per segment}}
  %0 = nn.segment_broadcast %r segments = [#nn.factored_range<offset = 0, shape = [8], at = 0, decay = 1.0 : f64>] : tensor<2xf32> -> tensor<8xf32>
  return
}

// -----

// segment_broadcast_c2: another element type
func.func @segment_broadcast_c2_type(%r: tensor<1xf64>) {
  // expected-error@+1 {{the input must have the result's element type; got 'tensor<1xf64>' and 'tensor<8xf32>'}}
  %0 = nn.segment_broadcast %r segments = [#nn.factored_range<offset = 0, shape = [8], at = 0, decay = 1.0 : f64>] : tensor<1xf64> -> tensor<8xf32>
  return
}
