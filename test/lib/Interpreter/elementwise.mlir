// RUN: shale-run %s | FileCheck %s

// CHECK-LABEL: @arithmetic
// CHECK: result0: 4xf32 sum 8.5 [1.5, 3, -1, 5]
// CHECK: result1: 4xf32 {{.*}} [0.5, -1, 3, -1]
// CHECK: result2: 4xf32 {{.*}} [0.5, 2, -2, 6]
// CHECK: result3: 4xf32 {{.*}} [2, 0.5, -0.5, 0.666666687]
// CHECK: result4: 4xf32 {{.*}} [1, 2, 1, 3]
// CHECK: result5: 4xf32 {{.*}} [0.5, 1, -2, 2]
func.func @arithmetic() -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = nn.constant dense<[1.0, 1.0, 1.0, 2.0]> : tensor<4xf32>
  %b = nn.constant dense<[0.5, 2.0, -2.0, 3.0]> : tensor<4xf32>
  %0 = nn.add %a, %b : tensor<4xf32>
  %1 = nn.sub %a, %b : tensor<4xf32>
  %2 = nn.mul %a, %b : tensor<4xf32>
  %3 = nn.div %a, %b : tensor<4xf32>
  %4 = nn.max %a, %b : tensor<4xf32>
  %5 = nn.min %a, %b : tensor<4xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Integers wrap; a quotient truncates, is 0 where the divisor is, and the
// smallest integer over -1 is itself.
// CHECK-LABEL: @integers
// CHECK: result0: 4xi64 {{.*}} [-9223372036854775808, -5, 12, 9223372036854775807]
// CHECK: result1: 4xi64 {{.*}} [9223372036854775807, -3, 0, -9223372036854775808]
// CHECK: result2: 4xi64 {{.*}} [0, -1, 0, 0]
// CHECK: result3: 2xi32 {{.*}} [-2147483648, 3]
// CHECK: result4: 4xi64 {{.*}} [9223372036854775807, 7, 12, -9223372036854775808]
// CHECK: result5: 4xi64 {{.*}} [1, -1, 1, -1]
func.func @integers() -> (tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<2xi32>, tensor<4xi64>, tensor<4xi64>) {
  %a = nn.constant dense<[9223372036854775807, -7, 12, -9223372036854775808]> : tensor<4xi64>
  %b = nn.constant dense<[1, 2, 0, -1]> : tensor<4xi64>
  %0 = nn.add %a, %b : tensor<4xi64>
  %1 = nn.div %a, %b : tensor<4xi64>
  %2 = nn.rem %a, %b : tensor<4xi64>
  %c = nn.constant dense<[2147483647, 1]> : tensor<2xi32>
  %d = nn.constant dense<[1, 2]> : tensor<2xi32>
  %3 = nn.add %c, %d : tensor<2xi32>
  %4 = nn.abs %a : tensor<4xi64>
  %5 = nn.sign %a : tensor<4xi64>
  %k = nn.neg %5 : tensor<4xi64>
  return %0, %1, %2, %3, %4, %5 : tensor<4xi64>, tensor<4xi64>, tensor<4xi64>, tensor<2xi32>, tensor<4xi64>, tensor<4xi64>
}

// CHECK-LABEL: @functions
// CHECK: result0: 2xf64 {{.*}} [1, 2.71828183]
// CHECK: result1: 2xf64 {{.*}} [0, 0.761594156]
// CHECK: result2: 2xf64 {{.*}} [0, 0.842700793]
// CHECK: result3: 2xf64 {{.*}} [0.5, 0.731058579]
// CHECK: result4: 2xf64 {{.*}} [0, 0.731058579]
// CHECK: result5: 2xf64 {{.*}} [0, 0.841344746]
// CHECK: result6: 2xf64 {{.*}} [0, 0.841191997]
func.func @functions() -> (tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>) {
  %x = nn.constant dense<[0.0, 1.0]> : tensor<2xf64>
  %0 = nn.exp %x : tensor<2xf64>
  %1 = nn.tanh %x : tensor<2xf64>
  %2 = nn.erf %x : tensor<2xf64>
  %3 = nn.sigmoid %x : tensor<2xf64>
  %4 = nn.silu %x : tensor<2xf64>
  %5 = nn.gelu %x : tensor<2xf64>
  %6 = nn.gelu %x tanh : tensor<2xf64>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>, tensor<2xf64>
}

// CHECK-LABEL: @roots
// CHECK: result0: 3xf64 {{.*}} [2, 3, {{-?}}nan]
// CHECK: result1: 3xf64 {{.*}} [0.5, 0.333333333, {{-?}}nan]
// CHECK: result2: 3xf64 {{.*}} [-3, 2, -2]
// CHECK: result3: 3xf64 {{.*}} [-2, 2, -1]
// CHECK: result4: 3xf64 {{.*}} [8, 0.25, 1]
// CHECK: result5: 3xf64 {{.*}} [1, -1, 0]
func.func @roots() -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %x = nn.constant dense<[4.0, 9.0, -1.0]> : tensor<3xf64>
  %0 = nn.sqrt %x : tensor<3xf64>
  %1 = nn.rsqrt %x : tensor<3xf64>
  %y = nn.constant dense<[-2.5, 2.0, -1.5]> : tensor<3xf64>
  %2 = nn.floor %y : tensor<3xf64>
  %3 = nn.ceil %y : tensor<3xf64>
  %b = nn.constant dense<[2.0, 2.0, 0.0]> : tensor<3xf64>
  %e = nn.constant dense<[3.0, -2.0, 0.0]> : tensor<3xf64>
  %4 = nn.pow %b, %e : tensor<3xf64>
  %7 = nn.constant dense<[7.0, -7.0, 4.0]> : tensor<3xf64>
  %8 = nn.constant dense<[3.0, 3.0, 2.0]> : tensor<3xf64>
  %5 = nn.rem %7, %8 : tensor<3xf64>
  return %0, %1, %2, %3, %4, %5 : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
}

// Comparisons with NaN are false but for ne; max and min keep it.
// CHECK-LABEL: @nans
// CHECK: result0: 3xi1 {{.*}} [1, 0, 0]
// CHECK: result1: 3xi1 {{.*}} [0, 1, 1]
// CHECK: result2: 3xi1 {{.*}} [1, 1, 0]
// CHECK: result3: 3xi1 {{.*}} [0, 0, 1]
// CHECK: result4: 3xf32 {{.*}} [1, 2, nan]
func.func @nans() -> (tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xf32>) {
  %a = nn.constant dense<[1.0, 1.0, 0x7FC00000]> : tensor<3xf32>
  %b = nn.constant dense<[1.0, 2.0, 1.0]> : tensor<3xf32>
  %0 = nn.compare eq %a, %b : tensor<3xf32> -> tensor<3xi1>
  %1 = nn.compare ne %a, %b : tensor<3xf32> -> tensor<3xi1>
  %2 = nn.compare le %a, %b : tensor<3xf32> -> tensor<3xi1>
  %3 = nn.is_nan %a : tensor<3xf32> -> tensor<3xi1>
  %4 = nn.max %a, %b : tensor<3xf32>
  return %0, %1, %2, %3, %4 : tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xi1>, tensor<3xf32>
}

// CHECK-LABEL: @logic
// CHECK: result0: 4xi1 {{.*}} [0, 0, 0, 1]
// CHECK: result1: 4xi1 {{.*}} [0, 1, 1, 1]
// CHECK: result2: 4xi1 {{.*}} [0, 1, 1, 0]
// CHECK: result3: 4xi1 {{.*}} [1, 1, 0, 0]
// CHECK: result4: 4xi64 {{.*}} [5, 6, 3, 4]
func.func @logic() -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi64>) {
  %a = nn.constant dense<[false, false, true, true]> : tensor<4xi1>
  %b = nn.constant dense<[false, true, false, true]> : tensor<4xi1>
  %0 = nn.and %a, %b : tensor<4xi1>
  %1 = nn.or %a, %b : tensor<4xi1>
  %2 = nn.xor %a, %b : tensor<4xi1>
  %3 = nn.not %a : tensor<4xi1>
  %x = nn.constant dense<[1, 2, 3, 4]> : tensor<4xi64>
  %y = nn.constant dense<[5, 6, 7, 8]> : tensor<4xi64>
  %4 = nn.select %a, %x, %y : tensor<4xi1>, tensor<4xi64>
  return %0, %1, %2, %3, %4 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xi64>
}

// Ties to even; truncation and saturation to integers, NaN to 0.
// CHECK-LABEL: @casts
// CHECK: result0: 3xbf16 {{.*}} [1, 1.015625, -2]
// CHECK: result1: 3xf16 {{.*}} [1.00390625, 1.01171875, -2]
// CHECK: result2: 4xi64 {{.*}} [2, -2, 9223372036854775807, 0]
// CHECK: result3: 4xi32 {{.*}} [2, -2, 2147483647, 0]
// CHECK: result4: 4xi1 {{.*}} [1, 1, 1, 1]
// CHECK: result5: 2xf32 {{.*}} [16777216, 1]
func.func @casts() -> (tensor<3xbf16>, tensor<3xf16>, tensor<4xi64>, tensor<4xi32>, tensor<4xi1>, tensor<2xf32>) {
  // 1.00390625 is halfway between the bf16 numbers 1 and 1.0078125, 1.01171875 between 1.0078125 and 1.015625.
  %a = nn.constant dense<[1.00390625, 1.01171875, -2.0]> : tensor<3xf32>
  %0 = nn.cast %a : tensor<3xf32> -> tensor<3xbf16>
  // 1.00341796875 is halfway between the f16 numbers 1.00292969 and 1.00390625.
  %h = nn.constant dense<[1.00341796875, 1.01171875, -2.0]> : tensor<3xf32>
  %1 = nn.cast %h : tensor<3xf32> -> tensor<3xf16>
  %b = nn.constant dense<[2.9, -2.9, 1.0e30, 0x7FC00000]> : tensor<4xf32>
  %2 = nn.cast %b : tensor<4xf32> -> tensor<4xi64>
  %3 = nn.cast %b : tensor<4xf32> -> tensor<4xi32>
  %4 = nn.cast %b : tensor<4xf32> -> tensor<4xi1>
  %c = nn.constant dense<[16777217, 1]> : tensor<2xi64>
  %5 = nn.cast %c : tensor<2xi64> -> tensor<2xf32>
  return %0, %1, %2, %3, %4, %5 : tensor<3xbf16>, tensor<3xf16>, tensor<4xi64>, tensor<4xi32>, tensor<4xi1>, tensor<2xf32>
}

// CHECK-LABEL: @stopped
// CHECK: result0: 2xf64 {{.*}} [-2.5, 3]
func.func @stopped() -> tensor<2xf64> {
  %x = nn.constant dense<[-2.5, 3.0]> : tensor<2xf64>
  %0 = nn.stop_gradient %x : tensor<2xf64>
  return %0 : tensor<2xf64>
}

// CHECK-LABEL: @bits
// CHECK: result0: 3xi32 {{.*}} [1065353216, -2147483648, 1]
// CHECK: result1: 3xf32 {{.*}} [1, -0, 1.40129846e-45]
// CHECK: result2: 3xi32 {{.*}} [0, -256, 129]
func.func @bits() -> (tensor<3xi32>, tensor<3xf32>, tensor<3xi32>) {
  %a = nn.constant dense<[1.0, -0.0, 0x00000001]> : tensor<3xf32>
  %0 = nn.bitcast %a : tensor<3xf32> -> tensor<3xi32>
  %1 = nn.bitcast %0 : tensor<3xi32> -> tensor<3xf32>
  %x = nn.constant dense<[5, -1, -127]> : tensor<3xi32>
  %y = nn.constant dense<[10, -256, 255]> : tensor<3xi32>
  %2 = nn.and %x, %y : tensor<3xi32>
  return %0, %1, %2 : tensor<3xi32>, tensor<3xf32>, tensor<3xi32>
}
