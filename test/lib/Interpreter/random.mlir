// RUN: shale-run --print 16 %s | FileCheck %s

// Seed 0x0123456789abcdef, step 5, micro-batch 2, op 9: what the definition in nn.dropout gives.
// CHECK-LABEL: @whole
// CHECK: [2, 2, 2, 2, 0, 0, 0, 0, 2, 2, 2, 2, 2, 0, 0, 2]
func.func @whole() -> tensor<4x4xf32> {
  %x = nn.constant dense<1.0> : tensor<4x4xf32>
  %s = nn.constant dense<81985529216486895> : tensor<i64>
  %t = nn.constant dense<5> : tensor<i64>
  %m = nn.constant dense<2> : tensor<i64>
  %0 = nn.dropout %x seed %s step %t microbatch %m ratio = 0.5 id = 9 : tensor<4x4xf32>, tensor<i64>
  return %0 : tensor<4x4xf32>
}

// A slice draws what the whole does: rows 1 and 2, columns 2 and 3.
// CHECK-LABEL: @slice
// CHECK: [0, 0, 2, 2]
func.func @slice() -> tensor<2x2xf32> {
  %x = nn.constant dense<1.0> : tensor<2x2xf32>
  %s = nn.constant dense<81985529216486895> : tensor<i64>
  %t = nn.constant dense<5> : tensor<i64>
  %m = nn.constant dense<2> : tensor<i64>
  %o = nn.constant dense<6> : tensor<i64>
  %0 = nn.dropout %x seed %s step %t microbatch %m offset %o : tensor<i64> ratio = 0.5 id = 9 of [4, 4] : tensor<2x2xf32>, tensor<i64>
  return %0 : tensor<2x2xf32>
}
