// What the pass changes: the gradient is multiplied by the update's scale, then limited; the scale becomes one.
// RUN: shale-opt %acme %s --acme-clip-gradients=limit=0.01 -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// CHECK-LABEL: func.func @step(
// CHECK-SAME:    %[[P:.*]]: tensor<4xf32>, %[[G:.*]]: tensor<4xf32>, %[[V:.*]]: tensor<4xf32>, %{{.*}}: tensor<i1>, %[[SCALE:.*]]: tensor<f32>, %{{.*}}: tensor<f32>)
// CHECK:         %[[FACTOR:.*]] = nn.broadcast %[[SCALE]]
// CHECK:         %[[SCALED:.*]] = nn.mul %[[G]], %[[FACTOR]]
// CHECK:         %[[LOW:.*]] = nn.constant dense<-0.00999
// CHECK:         %[[ABOVE:.*]] = nn.max %[[SCALED]], %[[LOW]]
// CHECK:         %[[HIGH:.*]] = nn.constant dense<0.00999
// CHECK:         %[[LIMITED:.*]] = nn.min %[[ABOVE]], %[[HIGH]]
// CHECK:         %[[ONE:.*]] = nn.constant dense<1.000000e+00>
// CHECK:         nn.sgd %[[P]], %[[LIMITED]], %[[V]] enable %{{.*}} scale %[[ONE]]

// With a limit that no gradient reaches, the program computes the same: the interpreter runs it before and after the pass, in f64, because
// the scaled gradient is rounded now.
// RUN: shale-opt %acme %s --acme-clip-gradients=limit=1e9 -o %t.wide.mlir
// RUN: shale-run %acme %s --compare=%t.wide.mlir --as=f64

// A limit that is not positive.
// RUN: not shale-opt %acme %s --acme-clip-gradients=limit=0 2>&1 | FileCheck %s --check-prefix=LIMIT
// LIMIT: error: acme-clip-gradients: limit must be positive
func.func @step(%p: tensor<4xf32>, %g: tensor<4xf32>, %v: tensor<4xf32>, %on: tensor<i1>, %scale: tensor<f32>, %lr: tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %new, %velocity = nn.sgd %p, %g, %v enable %on scale %scale lr %lr momentum %lr weight_decay %lr : tensor<4xf32>, tensor<f32>
  return %new, %velocity : tensor<4xf32>, tensor<4xf32>
}
