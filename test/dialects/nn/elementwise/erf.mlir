// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-run %s --function=values | FileCheck %s --check-prefix=VALUES
// RUN: shale-run --check-gradient --function=erf %s | FileCheck %s --check-prefix=GRADIENT
// RUN: %python %source/test/lib/Frontend/ONNX/one_node.py Erf 1 %t.onnx
// RUN: shale-translate --import-onnx %t.onnx | FileCheck %s --check-prefix=ONNX

// Central differences of every element, in f64.
// CHECK-LABEL: func.func @erf
// CHECK: nn.erf %{{.*}} : tensor<2x3xf64>
// GRADIENT: @erf argument 0: 6 elements
// ONNX: nn.erf %{{.*}} : tensor<2x3xf32>
func.func @erf(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.erf %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}

// VALUES: result0: 3xf64 {{.*}} [0, 0.842700793, -0.520499878]
func.func @values() -> tensor<3xf64> {
  %x = nn.constant dense<[0.0, 1.0, -0.5]> : tensor<3xf64>
  %y = nn.erf %x : tensor<3xf64>
  return %y : tensor<3xf64>
}
