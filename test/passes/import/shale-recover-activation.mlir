// RUN: shale-opt --shale-recover-activation %s | FileCheck %s

// CHECK-LABEL: func.func @tanh
// CHECK: nn.gelu %arg0 tanh {nn.scope = "mlp.act"}
func.func @tanh(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = nn.constant dense<0.5> : tensor<8xf32>
  %one = nn.constant dense<1.0> : tensor<8xf32>
  %c = nn.constant dense<0.044715> : tensor<8xf32>
  %s = nn.constant dense<0.797884583> : tensor<8xf32>
  %0 = nn.mul %x, %half : tensor<8xf32>
  %1 = nn.mul %x, %x : tensor<8xf32>
  %2 = nn.mul %1, %x : tensor<8xf32>
  %3 = nn.mul %2, %c : tensor<8xf32>
  %4 = nn.add %x, %3 : tensor<8xf32>
  %5 = nn.mul %4, %s : tensor<8xf32>
  %6 = nn.tanh %5 : tensor<8xf32>
  %7 = nn.add %6, %one : tensor<8xf32>
  %8 = nn.mul %0, %7 {nn.scope = "mlp.act"} : tensor<8xf32>
  return %8 : tensor<8xf32>
}

// The factor one half comes last.
// CHECK-LABEL: func.func @erf
// CHECK: nn.gelu %arg0 :
func.func @erf(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = nn.constant dense<0.5> : tensor<8xf32>
  %one = nn.constant dense<1.0> : tensor<8xf32>
  %root = nn.constant dense<1.41421354> : tensor<8xf32>
  %0 = nn.div %x, %root : tensor<8xf32>
  %1 = nn.erf %0 : tensor<8xf32>
  %2 = nn.add %one, %1 : tensor<8xf32>
  %3 = nn.mul %x, %2 : tensor<8xf32>
  %4 = nn.mul %3, %half : tensor<8xf32>
  return %4 : tensor<8xf32>
}

// CHECK-LABEL: func.func @silu
// CHECK: nn.silu %arg0
func.func @silu(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = nn.sigmoid %x : tensor<8xf32>
  %1 = nn.mul %0, %x : tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Another factor or another operand is not an activation.
// CHECK-LABEL: func.func @not_erf
// CHECK: nn.erf
// CHECK-NOT: nn.gelu
func.func @not_erf(%x: tensor<8xf32>) -> tensor<8xf32> {
  %half = nn.constant dense<0.5> : tensor<8xf32>
  %one = nn.constant dense<1.0> : tensor<8xf32>
  %root = nn.constant dense<1.5> : tensor<8xf32>
  %0 = nn.div %x, %root : tensor<8xf32>
  %1 = nn.erf %0 : tensor<8xf32>
  %2 = nn.add %one, %1 : tensor<8xf32>
  %3 = nn.mul %x, %2 : tensor<8xf32>
  %4 = nn.mul %3, %half : tensor<8xf32>
  return %4 : tensor<8xf32>
}

// CHECK-LABEL: func.func @not_silu
// CHECK: nn.sigmoid
func.func @not_silu(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = nn.sigmoid %x : tensor<8xf32>
  %1 = nn.mul %0, %y : tensor<8xf32>
  return %1 : tensor<8xf32>
}
