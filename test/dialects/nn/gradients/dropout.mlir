// RUN: shale-run --check-gradient %s | FileCheck %s

// The gradient drops the same elements as the forward pass.
func.func @dropout(%a: tensor<5x7xf64>) -> tensor<5x7xf64> {
  %s = nn.constant dense<3> : tensor<i64>
  %t = nn.constant dense<1> : tensor<i64>
  %0 = nn.mul %a, %a : tensor<5x7xf64>
  %1 = nn.dropout %0 seed %s step %t microbatch %t ratio = 0.4 id = 7 : tensor<5x7xf64>, tensor<i64>
  return %1 : tensor<5x7xf64>
}
// CHECK: @dropout argument 0: 35 elements
