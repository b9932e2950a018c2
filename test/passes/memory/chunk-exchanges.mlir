// A loss over split classes: ranks exchange one number per row between the loss and its gradient, once per chunk.
// RUN: shale-opt %s --shale-chunk-losses=loss-chunk=2 --remarks-filter=chunk-losses 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.remarks

dist.mesh @mesh <[tensor "tp"=2]>

// The gathered numbers [ranks, rows] are split along their second dimension. The constant of a chunk is a small one.
// CHECK-LABEL: @split
// CHECK: %[[L0:.*]] = nn.matmul {{.*}} -> tensor<2x9xf32>
// CHECK: %{{.*}}, %{{.*}}, %[[LSE0:.*]] = nn.cross_entropy %[[L0]]
// CHECK: %[[PART0:.*]] = nn.reshape %[[LSE0]] : tensor<2xf32> -> tensor<1x2xf32>
// CHECK: %[[ALL0:.*]] = dist.all_gather %[[PART0]] over "tp" dim = 0 : tensor<1x2xf32> -> tensor<2x2xf32>
// CHECK: %[[MAX0:.*]] = nn.reduce max %[[ALL0]] dims = [0]
// CHECK: %[[ONES:.*]] = nn.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK: %[[SHIFTED0:.*]] = nn.add %[[MAX0]], %[[ONES]]
// CHECK: nn.cross_entropy_grad %[[L0]], %{{.*}}, %[[SHIFTED0]]
// CHECK: %[[LSE1:.*]] = nn.reshape %{{.*}} : tensor<2xf32> -> tensor<1x2xf32>
// CHECK: dist.all_gather %[[LSE1]] over "tp" dim = 0
// CHECK: nn.cross_entropy_grad
// CHECK-NOT: dist.all_gather
// REMARK: the loss over 4 rows is computed in 2 chunks
func.func @split(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>, %g: tensor<f32>) -> (tensor<f32>, tensor<4x3xf32>) {
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %sum, %count, %part = nn.cross_entropy %logits, %labels ignore_index = -1 : tensor<4x9xf32>, tensor<4xi64>
  %row = nn.reshape %part : tensor<4xf32> -> tensor<1x4xf32>
  %all = dist.all_gather %row over "tp" dim = 0 : tensor<1x4xf32> -> tensor<2x4xf32>
  %max = nn.reduce max %all dims = [0] : tensor<2x4xf32> -> tensor<4xf32>
  %ones = nn.constant dense<1.0> : tensor<4xf32>
  %lse = nn.add %max, %ones : tensor<4xf32>
  %d = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = -1 : tensor<4x9xf32>, tensor<4xi64>
  %dx = nn.matmul %d, %w : (tensor<4x9xf32>, tensor<9x3xf32>) -> tensor<4x3xf32>
  return %sum, %dx : tensor<f32>, tensor<4x3xf32>
}

// An elementwise exchange.
// CHECK-LABEL: @summed
// CHECK-COUNT-2: dist.all_reduce sum {{.*}} : tensor<2xf32>
// CHECK-NOT: dist.all_reduce
// REMARK: the loss over 4 rows is computed in 2 chunks
func.func @summed(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>, %g: tensor<f32>) -> tensor<4x3xf32> {
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %sum, %count, %part = nn.cross_entropy %logits, %labels ignore_index = -1 : tensor<4x9xf32>, tensor<4xi64>
  %lse = dist.all_reduce sum %part over "tp" : tensor<4xf32>
  %d = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = -1 : tensor<4x9xf32>, tensor<4xi64>
  %dx = nn.matmul %d, %w : (tensor<4x9xf32>, tensor<9x3xf32>) -> tensor<4x3xf32>
  return %dx : tensor<4x3xf32>
}

// Not split: the exchange moves rows, the gathered numbers leave the chunks, or a sum over all rows comes between.
// CHECK-LABEL: @moved
// CHECK: nn.matmul {{.*}} -> tensor<4x9xf32>
// REMARK: the loss over 4 rows is computed at once: dist.all_gather cannot be split into 2 ranges of rows
func.func @moved(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>, %g: tensor<f32>) -> tensor<4x3xf32> {
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %sum, %count, %part = nn.cross_entropy %logits, %labels ignore_index = -1 : tensor<4x9xf32>, tensor<4xi64>
  %all = dist.all_gather %part over "tp" dim = 0 : tensor<4xf32> -> tensor<8xf32>
  %lse = nn.slice %all starts = [1] limits = [5] strides = [1] : tensor<8xf32> -> tensor<4xf32>
  %d = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = -1 : tensor<4x9xf32>, tensor<4xi64>
  %dx = nn.matmul %d, %w : (tensor<4x9xf32>, tensor<9x3xf32>) -> tensor<4x3xf32>
  return %dx : tensor<4x3xf32>
}

// CHECK-LABEL: @leaves
// CHECK: nn.matmul {{.*}} -> tensor<4x9xf32>
// REMARK: the loss over 4 rows is computed at once: dist.all_gather mixes rows
func.func @leaves(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>, %g: tensor<f32>) -> (tensor<2x4xf32>, tensor<4x3xf32>) {
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %sum, %count, %part = nn.cross_entropy %logits, %labels ignore_index = -1 : tensor<4x9xf32>, tensor<4xi64>
  %row = nn.reshape %part : tensor<4xf32> -> tensor<1x4xf32>
  %all = dist.all_gather %row over "tp" dim = 0 : tensor<1x4xf32> -> tensor<2x4xf32>
  %lse = nn.reduce max %all dims = [0] : tensor<2x4xf32> -> tensor<4xf32>
  %d = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = -1 : tensor<4x9xf32>, tensor<4xi64>
  %dx = nn.matmul %d, %w : (tensor<4x9xf32>, tensor<9x3xf32>) -> tensor<4x3xf32>
  return %all, %dx : tensor<2x4xf32>, tensor<4x3xf32>
}

// CHECK-LABEL: @centred
// CHECK: nn.matmul {{.*}} -> tensor<4x9xf32>
// REMARK: the loss over 4 rows is computed at once: nn.sub needs a value that depends on the loss
func.func @centred(%x: tensor<4x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<4xi64>, %g: tensor<f32>) -> tensor<4x3xf32> {
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x3xf32>, tensor<9x3xf32>) -> tensor<4x9xf32>
  %sum, %count, %part = nn.cross_entropy %logits, %labels ignore_index = -1 : tensor<4x9xf32>, tensor<4xi64>
  %mean = nn.reduce sum %part dims = [0] : tensor<4xf32> -> tensor<f32>
  %all = nn.broadcast %mean dims = [] : tensor<f32> -> tensor<4xf32>
  %lse = nn.sub %part, %all : tensor<4xf32>
  %d = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = -1 : tensor<4x9xf32>, tensor<4xi64>
  %dx = nn.matmul %d, %w : (tensor<4x9xf32>, tensor<9x3xf32>) -> tensor<4x3xf32>
  return %dx : tensor<4x3xf32>
}
