// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// The sum of losses, the count, and the gradient.
// CHECK-LABEL: func.func @cross_entropy
// CHECK: nn.cross_entropy %{{.*}}, %{{.*}} ignore_index = -100 : tensor<32x256xf32>, tensor<32xi64>
// CHECK: nn.cross_entropy_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} ignore_index = -100 : tensor<32x256xf32>, tensor<32xi64>
func.func @cross_entropy(%x: tensor<32x256xf32>, %l: tensor<32xi64>, %g: tensor<f32>) {
  %s, %c, %e = nn.cross_entropy %x, %l ignore_index = -100 : tensor<32x256xf32>, tensor<32xi64>
  %0 = nn.cross_entropy_grad %x, %l, %e, %g ignore_index = -100 : tensor<32x256xf32>, tensor<32xi64>
  return
}

// Columns that are no classes.
// CHECK-LABEL: func.func @classes
// CHECK: nn.cross_entropy %{{.*}}, %{{.*}} ignore_index = -100 classes = 250 : tensor<32x256xf32>, tensor<32xi64>
// CHECK: nn.cross_entropy_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} ignore_index = -100 classes = 250 : tensor<32x256xf32>, tensor<32xi64>
func.func @classes(%x: tensor<32x256xf32>, %l: tensor<32xi64>, %g: tensor<f32>) {
  %s, %c, %e = nn.cross_entropy %x, %l ignore_index = -100 classes = 250 : tensor<32x256xf32>, tensor<32xi64>
  %0 = nn.cross_entropy_grad %x, %l, %e, %g ignore_index = -100 classes = 250 : tensor<32x256xf32>, tensor<32xi64>
  return
}
