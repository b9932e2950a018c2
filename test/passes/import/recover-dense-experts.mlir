// RUN: shale-opt --shale-recover-experts %s | FileCheck %s
// RUN: shale-opt --shale-recover-experts %s -o %t.mlir
// RUN: shale-run %s --compare=%t.mlir --as f64 --tolerance 1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL-COUNT-24: values, 0 differ

// RUN: shale-run --check-gradient %t.mlir --function=scaled_inputs | FileCheck %s --check-prefix=GRADIENT
// GRADIENT: @scaled_inputs argument 0: {{.*}}, largest error {{(0|[0-9.]+e-(0[4-9]|[1-9][0-9]))$}}

// Scores scale the inputs, as in Llama 4: zeros of tokens stay zeros up to the sum.
// CHECK-LABEL: func.func @scaled_inputs(
// CHECK: %{{.*}}, %[[EXPERT:.*]] = nn.top_k
// CHECK: %[[WEIGHTS:.*]] = nn.sigmoid
// CHECK: %[[WIDE:.*]] = nn.broadcast %{{.*}} dims = [0, 2] : tensor<6x4xf32> -> tensor<6x2x4xf32>
// CHECK: %[[ROWS:.*]] = nn.reshape %[[WIDE]] : tensor<6x2x4xf32> -> tensor<12x4xf32>
// CHECK: nn.gather_nd %[[WEIGHTS]], %{{.*}} batch_dims = 1 : (tensor<6x4xf32>, tensor<6x2x1xi64>) -> tensor<6x2xf32>
// CHECK: nn.mul %[[ROWS]]
// CHECK: %[[EXPERTS:.*]] = nn.reshape %[[EXPERT]] : tensor<6x2xi64> -> tensor<12xi64>
// CHECK: nn.expert_matmul %{{.*}}, %arg2 experts = %[[EXPERTS]]
// CHECK: %[[Y:.*]] = nn.expert_matmul %{{.*}}, %arg3 experts = %[[EXPERTS]]
// CHECK: %[[CHOICES:.*]] = nn.reshape %{{.*}} -> tensor<6x2x5xf32>
// CHECK: %[[SUM:.*]] = nn.reduce sum %[[CHOICES]] dims = [1]
// CHECK: return %[[SUM]]
func.func @scaled_inputs(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0xFF800000> : tensor<6x4xf32>
  %scattered = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %weights = nn.sigmoid %scattered : tensor<6x4xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %column = nn.reshape %turned : tensor<4x6xf32> -> tensor<24x1xf32>
  %wide = nn.broadcast %column dims = [0, 1] : tensor<24x1xf32> -> tensor<24x4xf32>
  %unit = nn.reshape %x : tensor<6x4xf32> -> tensor<1x6x1x4xf32>
  %again = nn.broadcast %unit dims = [0, 1, 2, 3] : tensor<1x6x1x4xf32> -> tensor<4x6x1x4xf32>
  %flat = nn.reshape %again : tensor<4x6x1x4xf32> -> tensor<24x4xf32>
  %scaled = nn.mul %flat, %wide : tensor<24x4xf32>
  %rows = nn.reshape %scaled : tensor<24x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %sum = nn.reduce sum %y dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// Weights that are scattered into zeros multiply the outputs.
// CHECK-LABEL: func.func @weighed_outputs(
// CHECK-NOT: nn.matmul
// CHECK-COUNT-2: nn.expert_matmul
// CHECK-NOT: nn.matmul
// CHECK: return
func.func @weighed_outputs(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// Weights by one-hot rows.
// CHECK-LABEL: func.func @one_hot(
// CHECK-NOT: nn.matmul
// CHECK-COUNT-2: nn.expert_matmul
// CHECK-NOT: nn.matmul
// CHECK: return
func.func @one_hot(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %column = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %mine = nn.broadcast %column dims = [0, 1, 2] : tensor<6x2x1xi64> -> tensor<6x2x4xi64>
  %numbers = nn.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  %all = nn.broadcast %numbers dims = [2] : tensor<4xi64> -> tensor<6x2x4xi64>
  %is = nn.compare eq %mine, %all : tensor<6x2x4xi64> -> tensor<6x2x4xi1>
  %ones = nn.cast %is : tensor<6x2x4xi1> -> tensor<6x2x4xf32>
  %values = nn.broadcast %best dims = [0, 1] : tensor<6x2xf32> -> tensor<6x2x4xf32>
  %each = nn.mul %ones, %values : tensor<6x2x4xf32>
  %weights = nn.reduce sum %each dims = [1] : tensor<6x2x4xf32> -> tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// Weights that are normalized after the scatter.
// CHECK-LABEL: func.func @normalized(
// CHECK-NOT: nn.matmul
// CHECK-COUNT-2: nn.expert_matmul
// CHECK-NOT: nn.matmul
// CHECK: return
func.func @normalized(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %scattered = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %total = nn.reduce sum %scattered dims = [1] : tensor<6x4xf32> -> tensor<6xf32>
  %totals = nn.broadcast %total dims = [0] : tensor<6xf32> -> tensor<6x4xf32>
  %weights = nn.div %scattered, %totals : tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// A softmax of scores that are scattered into -inf, and a matmul as the sum.
// CHECK-LABEL: func.func @softmax(
// CHECK-COUNT-2: nn.expert_matmul
// CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_lhs : (tensor<6x2x5xf32>, tensor<6x2x1xf32>) -> tensor<6x5x1xf32>
func.func @softmax(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0xFF800000> : tensor<6x4xf32>
  %scattered = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %weights = nn.softmax %scattered : tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %first = nn.transpose %y perm = [1, 0, 2] : tensor<4x6x5xf32> -> tensor<6x4x5xf32>
  %column = nn.reshape %weights : tensor<6x4xf32> -> tensor<6x4x1xf32>
  %each = nn.matmul %first, %column transpose_lhs : (tensor<6x4x5xf32>, tensor<6x4x1xf32>) -> tensor<6x5x1xf32>
  %sum = nn.reshape %each : tensor<6x5x1xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// Matrices side by side, tokens in two dimensions, and a matmul that also sums over the experts.
// CHECK-LABEL: func.func @einsum(
// CHECK-NOT: nn.matmul
// CHECK-COUNT-2: nn.expert_matmul
// CHECK-NOT: nn.matmul
// CHECK: return
func.func @einsum(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %lines = nn.reshape %scores : tensor<6x4xf32> -> tensor<2x3x4xf32>
  %best, %expert = nn.top_k %lines : tensor<2x3x4xf32> -> tensor<2x3x2xf32>, tensor<2x3x2xi64>
  %tuples = nn.reshape %expert : tensor<2x3x2xi64> -> tensor<2x3x2x1xi64>
  %weights = nn.gather_nd_grad %tuples, %best batch_dims = 2 : (tensor<2x3x2x1xi64>, tensor<2x3x2xf32>) -> tensor<2x3x4xf32>
  %first = nn.transpose %up perm = [0, 2, 1] : tensor<4x4x6xf32> -> tensor<4x6x4xf32>
  %beside = nn.reshape %first : tensor<4x6x4xf32> -> tensor<24x4xf32>
  %h = nn.matmul %x, %beside transpose_rhs : (tensor<6x4xf32>, tensor<24x4xf32>) -> tensor<6x24xf32>
  %all = nn.reshape %h : tensor<6x24xf32> -> tensor<2x3x4x6xf32>
  %split = nn.slice %all starts = [0, 0, 0, 1] limits = [2, 3, 4, 6] strides = [1, 1, 1, 2] : tensor<2x3x4x6xf32> -> tensor<2x3x4x3xf32>
  %wide = nn.broadcast %weights dims = [0, 1, 2] : tensor<2x3x4xf32> -> tensor<2x3x4x3xf32>
  %weighed = nn.mul %split, %wide : tensor<2x3x4x3xf32>
  %flat = nn.reshape %weighed : tensor<2x3x4x3xf32> -> tensor<6x12xf32>
  %below = nn.reshape %down : tensor<4x3x5xf32> -> tensor<12x5xf32>
  %sum = nn.matmul %flat, %below : (tensor<6x12xf32>, tensor<12x5xf32>) -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// Matrices side by side, as columns.
// CHECK-LABEL: func.func @side_by_side(
// CHECK-NOT: nn.matmul
// CHECK-COUNT-2: nn.expert_matmul
// CHECK-NOT: nn.matmul
// CHECK: return
func.func @side_by_side(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %first = nn.transpose %up perm = [1, 0, 2] : tensor<4x4x6xf32> -> tensor<4x4x6xf32>
  %beside = nn.reshape %first : tensor<4x4x6xf32> -> tensor<4x24xf32>
  %h = nn.matmul %x, %beside : (tensor<6x4xf32>, tensor<4x24xf32>) -> tensor<6x24xf32>
  %all = nn.reshape %h : tensor<6x24xf32> -> tensor<6x4x6xf32>
  %split = nn.slice %all starts = [0, 0, 1] limits = [6, 4, 6] strides = [1, 1, 2] : tensor<6x4x6xf32> -> tensor<6x4x3xf32>
  %product = nn.transpose %split perm = [1, 0, 2] : tensor<6x4x3xf32> -> tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// Tokens in columns.
// CHECK-LABEL: func.func @transposed(
// CHECK-NOT: nn.matmul
// CHECK-COUNT-2: nn.expert_matmul
// CHECK-NOT: nn.matmul
// CHECK: return
func.func @transposed(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %first = nn.transpose %up perm = [0, 2, 1] : tensor<4x4x6xf32> -> tensor<4x6x4xf32>
  %below = nn.reshape %first : tensor<4x6x4xf32> -> tensor<24x4xf32>
  %columns = nn.matmul %below, %x transpose_rhs : (tensor<24x4xf32>, tensor<6x4xf32>) -> tensor<24x6xf32>
  %split = nn.reshape %columns : tensor<24x6xf32> -> tensor<4x6x6xf32>
  %h = nn.transpose %split perm = [0, 2, 1] : tensor<4x6x6xf32> -> tensor<4x6x6xf32>
  %gate = nn.silu %h : tensor<4x6x6xf32>
  %product = nn.slice %gate starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// A bias of each expert, before the weights.
// CHECK-LABEL: func.func @bias(
// CHECK-COUNT-2: nn.expert_matmul
// CHECK: nn.gather_nd %{{.*}}, %{{.*}} batch_dims = 0 : (tensor<4x5xf32>, tensor<12x1xi64>) -> tensor<12x5xf32>
// CHECK-NOT: nn.matmul
func.func @bias(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>, %bias: tensor<4x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %line = nn.reshape %bias : tensor<4x5xf32> -> tensor<4x1x5xf32>
  %biases = nn.broadcast %line dims = [0, 1, 2] : tensor<4x1x5xf32> -> tensor<4x6x5xf32>
  %biased = nn.add %y, %biases : tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %biased, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// A bias after inputs of zeros: experts that are not chosen add it.
// CHECK-LABEL: func.func @bias_of_zeros(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @bias_of_zeros(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>, %bias: tensor<4x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0xFF800000> : tensor<6x4xf32>
  %scattered = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %weights = nn.sigmoid %scattered : tensor<6x4xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %column = nn.reshape %turned : tensor<4x6xf32> -> tensor<24x1xf32>
  %wide = nn.broadcast %column dims = [0, 1] : tensor<24x1xf32> -> tensor<24x4xf32>
  %unit = nn.reshape %x : tensor<6x4xf32> -> tensor<1x6x1x4xf32>
  %again = nn.broadcast %unit dims = [0, 1, 2, 3] : tensor<1x6x1x4xf32> -> tensor<4x6x1x4xf32>
  %flat = nn.reshape %again : tensor<4x6x1x4xf32> -> tensor<24x4xf32>
  %scaled = nn.mul %flat, %wide : tensor<24x4xf32>
  %rows = nn.reshape %scaled : tensor<24x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %line = nn.reshape %bias : tensor<4x5xf32> -> tensor<4x1x5xf32>
  %biases = nn.broadcast %line dims = [0, 1, 2] : tensor<4x1x5xf32> -> tensor<4x6x5xf32>
  %biased = nn.add %y, %biases : tensor<4x6x5xf32>
  %sum = nn.reduce sum %biased dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// A sigmoid of zero is no zero.
// CHECK-LABEL: func.func @halves(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @halves(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %scattered = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %weights = nn.sigmoid %scattered : tensor<6x4xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %column = nn.reshape %turned : tensor<4x6xf32> -> tensor<24x1xf32>
  %wide = nn.broadcast %column dims = [0, 1] : tensor<24x1xf32> -> tensor<24x4xf32>
  %unit = nn.reshape %x : tensor<6x4xf32> -> tensor<1x6x1x4xf32>
  %again = nn.broadcast %unit dims = [0, 1, 2, 3] : tensor<1x6x1x4xf32> -> tensor<4x6x1x4xf32>
  %flat = nn.reshape %again : tensor<4x6x1x4xf32> -> tensor<24x4xf32>
  %scaled = nn.mul %flat, %wide : tensor<24x4xf32>
  %rows = nn.reshape %scaled : tensor<24x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %sum = nn.reduce sum %y dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// Experts that are not chosen have a small weight.
// CHECK-LABEL: func.func @not_zero(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @not_zero(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.125> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// Scores of zero have a weight.
// CHECK-LABEL: func.func @softmax_of_zeros(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @softmax_of_zeros(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %scattered = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %weights = nn.softmax %scattered : tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// A weight that all experts have is added.
// CHECK-LABEL: func.func @added(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @added(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %scattered = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %weights = nn.add %scattered, %scores : tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// The experts of other tokens.
// CHECK-LABEL: func.func @others(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @others(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %order = nn.constant dense<[1, 2, 3, 4, 5, 0]> : tensor<6xi64>
  %moved = nn.gather %expert, %order dim = 0 : (tensor<6x2xi64>, tensor<6xi64>) -> tensor<6x2xi64>
  %tuples = nn.reshape %moved : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// The indices are of fewer experts.
// CHECK-LABEL: func.func @fewer(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @fewer(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %some = nn.slice %scores starts = [0, 0] limits = [6, 3] strides = [1, 1] : tensor<6x4xf32> -> tensor<6x3xf32>
  %best, %expert = nn.top_k %some : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// All experts are chosen.
// CHECK-LABEL: func.func @all(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @all(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x4xf32>, tensor<6x4xi64>
  %tuples = nn.reshape %expert : tensor<6x4xi64> -> tensor<6x4x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x4x1xi64>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x4xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x4x1xi64>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// Experts are numbered otherwise.
// CHECK-LABEL: func.func @other_numbers(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @other_numbers(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %column = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %mine = nn.broadcast %column dims = [0, 1, 2] : tensor<6x2x1xi64> -> tensor<6x2x4xi64>
  %numbers = nn.constant dense<[1, 0, 2, 3]> : tensor<4xi64>
  %all = nn.broadcast %numbers dims = [2] : tensor<4xi64> -> tensor<6x2x4xi64>
  %is = nn.compare eq %mine, %all : tensor<6x2x4xi64> -> tensor<6x2x4xi1>
  %ones = nn.cast %is : tensor<6x2x4xi1> -> tensor<6x2x4xf32>
  %values = nn.broadcast %best dims = [0, 1] : tensor<6x2xf32> -> tensor<6x2x4xf32>
  %each = nn.mul %ones, %values : tensor<6x2x4xf32>
  %weights = nn.reduce sum %each dims = [1] : tensor<6x2x4xf32> -> tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// The experts that are not chosen.
// CHECK-LABEL: func.func @inverted(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @inverted(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %column = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %mine = nn.broadcast %column dims = [0, 1, 2] : tensor<6x2x1xi64> -> tensor<6x2x4xi64>
  %numbers = nn.constant dense<[0, 1, 2, 3]> : tensor<4xi64>
  %all = nn.broadcast %numbers dims = [2] : tensor<4xi64> -> tensor<6x2x4xi64>
  %is = nn.compare ne %mine, %all : tensor<6x2x4xi64> -> tensor<6x2x4xi1>
  %ones = nn.cast %is : tensor<6x2x4xi1> -> tensor<6x2x4xf32>
  %values = nn.broadcast %best dims = [0, 1] : tensor<6x2xf32> -> tensor<6x2x4xf32>
  %each = nn.mul %ones, %values : tensor<6x2x4xf32>
  %weights = nn.reduce sum %each dims = [1] : tensor<6x2x4xf32> -> tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// What all experts compute is used elsewhere.
// CHECK-LABEL: func.func @used(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @used(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> (tensor<6x5xf32>, tensor<4x6x3xf32>) {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum, %product : tensor<6x5xf32>, tensor<4x6x3xf32>
}

// An op that adds up tokens.
// CHECK-LABEL: func.func @across_tokens(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @across_tokens(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %z = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %y = nn.cumsum %z dim = 1 : tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// An op that adds up experts.
// CHECK-LABEL: func.func @across_experts(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @across_experts(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %z = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %y = nn.cumsum %z dim = 0 : tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// No sum over the experts.
// CHECK-LABEL: func.func @largest(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @largest(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<6x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce max %weighed dims = [0] : tensor<4x6x5xf32> -> tensor<6x5xf32>
  return %sum : tensor<6x5xf32>
}

// A sum over the tokens.
// CHECK-LABEL: func.func @over_tokens(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @over_tokens(%x: tensor<6x4xf32>, %scores: tensor<6x4xf32>, %up: tensor<4x4x6xf32>, %down: tensor<4x3x5xf32>) -> tensor<4x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %tuples = nn.reshape %expert : tensor<6x2xi64> -> tensor<6x2x1xi64>
  %sums = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %one = nn.constant dense<1.0> : tensor<6x2xf32>
  %counts = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<6x2x1xi64>, tensor<6x2xf32>) -> tensor<6x4xf32>
  %zeros = nn.constant dense<0.0> : tensor<6x4xf32>
  %is = nn.compare gt %counts, %zeros : tensor<6x4xf32> -> tensor<6x4xi1>
  %others = nn.constant dense<0.0> : tensor<6x4xf32>
  %weights = nn.select %is, %sums, %others : tensor<6x4xi1>, tensor<6x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<6x4xf32> -> tensor<4x6x4xf32>
  %h = nn.matmul %rows, %up : (tensor<4x6x4xf32>, tensor<4x4x6xf32>) -> tensor<4x6x6xf32>
  %left = nn.slice %h starts = [0, 0, 0] limits = [4, 6, 3] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %right = nn.slice %h starts = [0, 0, 3] limits = [4, 6, 6] strides = [1, 1, 1] : tensor<4x6x6xf32> -> tensor<4x6x3xf32>
  %gate = nn.silu %left : tensor<4x6x3xf32>
  %product = nn.mul %gate, %right : tensor<4x6x3xf32>
  %y = nn.matmul %product, %down : (tensor<4x6x3xf32>, tensor<4x3x5xf32>) -> tensor<4x6x5xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<6x4xf32> -> tensor<4x6xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x6xf32> -> tensor<4x6x5xf32>
  %weighed = nn.mul %y, %wide : tensor<4x6x5xf32>
  %sum = nn.reduce sum %weighed dims = [1] : tensor<4x6x5xf32> -> tensor<4x5xf32>
  return %sum : tensor<4x5xf32>
}
