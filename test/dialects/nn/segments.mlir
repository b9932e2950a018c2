// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s | shale-run | FileCheck %s --check-prefix=VALUES

// CHECK-LABEL: func.func private @types
// CHECK: nn.segment_means %{{.*}} squares factors offset %{{.*}} : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 4, at = 4>] : tensor<4xbf16> -> tensor<8xbf16>
// CHECK: nn.segment_means %{{.*}} segments = [] : tensor<4xbf16> -> tensor<0xbf16>
// CHECK: nn.segment_broadcast %{{.*}} rows segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>] : tensor<4xbf16> -> tensor<4xbf16>
// CHECK: nn.segment_broadcast %{{.*}} columns segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>] : tensor<4xbf16> -> tensor<4xbf16>
func.func private @types(%g: tensor<4xbf16>, %o: tensor<i64>) {
  %0 = nn.segment_means %g squares factors offset %o : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 4, at = 4>] : tensor<4xbf16> -> tensor<8xbf16>
  %1 = nn.segment_means %g segments = [] : tensor<4xbf16> -> tensor<0xbf16>
  %2 = nn.segment_broadcast %g rows segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>] : tensor<4xbf16> -> tensor<4xbf16>
  %3 = nn.segment_broadcast %g columns segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>] : tensor<4xbf16> -> tensor<4xbf16>
  return
}

// The matrix 2 4 / 4 8 from element 0 and the vector 2 -4 from element 5 of a group of 8; elements 4 and 7 are padding. The slice from
// element 3 begins with the last element of the matrix.
// VALUES-LABEL: @means
// VALUES: result0: 8xf64 {{.*}} [10, 40, 10, 40, 0, 4, 16, 0]
// VALUES: result1: 8xf64 {{.*}} [0, 32, 0, 32, 0, 4, 16, 0]
// VALUES: result2: 8xf64 {{.*}} [3, 6, 3, 6, 0, 2, -4, 0]
// VALUES: result3: 2xf64 {{.*}} [25, 10]
// VALUES: result4: 2xf64 {{.*}} [16, 10]
// VALUES: result5: 2xf64 {{.*}} [4.5, -1]
// CHECK-LABEL: func.func @means
func.func @means() -> (tensor<8xf64>, tensor<8xf64>, tensor<8xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) {
  %g = nn.constant dense<[2.0, 4.0, 4.0, 8.0, 7.0, 2.0, -4.0, 7.0]> : tensor<8xf64>
  %part = nn.constant dense<[8.0, 7.0, 2.0, -4.0, 7.0]> : tensor<5xf64>
  %three = nn.constant dense<3> : tensor<i64>
  %0 = nn.segment_means %g squares factors segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<8xf64> -> tensor<8xf64>
  %1 = nn.segment_means %part squares factors offset %three : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<5xf64> -> tensor<8xf64>
  %2 = nn.segment_means %g factors segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<8xf64> -> tensor<8xf64>
  %3 = nn.segment_means %g squares segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<8xf64> -> tensor<2xf64>
  %4 = nn.segment_means %part squares offset %three : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<5xf64> -> tensor<2xf64>
  %5 = nn.segment_means %g segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<8xf64> -> tensor<2xf64>
  return %0, %1, %2, %3, %4, %5 : tensor<8xf64>, tensor<8xf64>, tensor<8xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
}

// Each element of a segment is the segment's value, or that of its row or column, and padding is 0: of a whole group, and of the slice from
// element 3. Two matrices of one row each have their rows' values first.
// VALUES-LABEL: @broadcasts
// VALUES: result0: 8xf64 {{.*}} [0.5, 0.5, 0.5, 0.5, 0, 1.5, 1.5, 0]
// VALUES: result1: 5xf64 {{.*}} [0.5, 0, 1.5, 1.5, 0]
// VALUES: result2: 8xf64 {{.*}} [1, 1, 2, 2, 0, 6, 7, 0]
// VALUES: result3: 5xf64 {{.*}} [2, 0, 6, 7, 0]
// VALUES: result4: 8xf64 {{.*}} [3, 4, 3, 4, 0, 1, 1, 0]
// VALUES: result5: 5xf64 {{.*}} [4, 0, 1, 1, 0]
// VALUES: result6: 4xf64 {{.*}} [3, 4, 5, 6]
// CHECK-LABEL: func.func @broadcasts
// CHECK: nn.segment_broadcast %{{.*}} segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<2xf64> -> tensor<8xf64>
// CHECK: nn.segment_broadcast %{{.*}} offset %{{.*}} : tensor<i64> segments = [{{.*}}] : tensor<2xf64> -> tensor<5xf64>
func.func @broadcasts() -> (tensor<8xf64>, tensor<5xf64>, tensor<8xf64>, tensor<5xf64>, tensor<8xf64>, tensor<5xf64>, tensor<4xf64>) {
  %r = nn.constant dense<[0.5, 1.5]> : tensor<2xf64>
  %m = nn.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]> : tensor<7xf64>
  %three = nn.constant dense<3> : tensor<i64>
  %0 = nn.segment_broadcast %r segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<2xf64> -> tensor<8xf64>
  %1 = nn.segment_broadcast %r offset %three : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<2xf64> -> tensor<5xf64>
  %2 = nn.segment_broadcast %m rows segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<7xf64> -> tensor<8xf64>
  %3 = nn.segment_broadcast %m rows offset %three : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<7xf64> -> tensor<5xf64>
  %4 = nn.segment_broadcast %m columns segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<7xf64> -> tensor<8xf64>
  %5 = nn.segment_broadcast %m columns offset %three : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [2, 2], at = 0>, #nn.factored_range<offset = 5, shape = [2], at = 5>] : tensor<7xf64> -> tensor<5xf64>
  %6 = nn.segment_broadcast %m columns segments = [#nn.factored_range<offset = 0, shape = [2, 1, 2], at = 0>] : tensor<7xf64> -> tensor<4xf64>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<8xf64>, tensor<5xf64>, tensor<8xf64>, tensor<5xf64>, tensor<8xf64>, tensor<5xf64>, tensor<4xf64>
}
