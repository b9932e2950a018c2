// RUN: shale-run --check-gradient %s | FileCheck %s

// One label is ignored, and one is out of range.
func.func @cross_entropy(%x: tensor<6x4xf64>) -> (tensor<f64>, tensor<f64>) {
  %l = nn.constant dense<[0, 3, -100, 1, 4, 2]> : tensor<6xi64>
  %s, %c, %e = nn.cross_entropy %x, %l ignore_index = -100 : tensor<6x4xf64>, tensor<6xi64>
  return %s, %c : tensor<f64>, tensor<f64>
}
// The mean of the losses, as the importer builds it.
func.func @mean(%x: tensor<6x4xf64>, %l: tensor<6xi64>) -> tensor<f64> {
  %s, %c, %e = nn.cross_entropy %x, %l ignore_index = -100 : tensor<6x4xf64>, tensor<6xi64>
  %one = nn.constant dense<1.0> : tensor<f64>
  %n = nn.max %c, %one : tensor<f64>
  %m = nn.div %s, %n : tensor<f64>
  return %m : tensor<f64>
}
// The last column is no class; two labels are its number.
func.func @classes(%x: tensor<6x4xf64>) -> (tensor<f64>, tensor<f64>) {
  %l = nn.constant dense<[0, 3, -100, 1, 3, 2]> : tensor<6xi64>
  %s, %c, %e = nn.cross_entropy %x, %l ignore_index = -100 classes = 3 : tensor<6x4xf64>, tensor<6xi64>
  return %s, %c : tensor<f64>, tensor<f64>
}
// CHECK: @cross_entropy argument 0: 24 elements
// CHECK: @mean argument 0: 24 elements
// CHECK: @classes argument 0: 24 elements
