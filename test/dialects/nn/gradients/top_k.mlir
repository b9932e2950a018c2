// RUN: shale-run --check-gradient %s | FileCheck %s

// CHECK: @largest argument 0: {{.*}}, largest error {{(0|[0-9.]+e-(0[7-9]|[1-9][0-9]))$}}
func.func @largest(%x: tensor<2x3x5xf64>) -> tensor<2x3x2xf64> {
  %values, %indices = nn.top_k %x : tensor<2x3x5xf64> -> tensor<2x3x2xf64>, tensor<2x3x2xi64>
  return %values : tensor<2x3x2xf64>
}

// CHECK: @sorted argument 0: {{.*}}, largest error {{(0|[0-9.]+e-(0[7-9]|[1-9][0-9]))$}}
func.func @sorted(%x: tensor<6xf64>) -> tensor<6xf64> {
  %values, %indices = nn.top_k %x smallest : tensor<6xf64> -> tensor<6xf64>, tensor<6xi32>
  %weights = nn.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf64>
  %y = nn.mul %values, %weights : tensor<6xf64>
  return %y : tensor<6xf64>
}
