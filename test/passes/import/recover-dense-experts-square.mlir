// As many tokens as experts: only the places tell them apart.
// RUN: shale-opt --shale-recover-experts %s | FileCheck %s
// RUN: shale-opt --shale-recover-experts %s -o %t.mlir
// RUN: shale-run %s --compare=%t.mlir --as f64 --tolerance 1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL-COUNT-5: values, 0 differ

// Tokens in the rows.
// CHECK-LABEL: func.func @right(
// CHECK-NOT: nn.matmul
// CHECK: nn.expert_matmul
// CHECK-NOT: nn.matmul
// CHECK: return
func.func @right(%x: tensor<4x4xf32>, %scores: tensor<4x4xf32>, %up: tensor<4x4x4xf32>) -> tensor<4x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<4x4xf32> -> tensor<4x2xf32>, tensor<4x2xi64>
  %tuples = nn.reshape %expert : tensor<4x2xi64> -> tensor<4x2x1xi64>
  %weights = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<4x2x1xi64>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<4x4xf32> -> tensor<4x4x4xf32>
  %y = nn.matmul %rows, %up : (tensor<4x4x4xf32>, tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  %wide = nn.broadcast %turned dims = [0, 1] : tensor<4x4xf32> -> tensor<4x4x4xf32>
  %weighed = nn.mul %y, %wide : tensor<4x4x4xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x4x4xf32> -> tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}

// Weights of the tokens in place of those of the experts.
// CHECK-LABEL: func.func @swapped(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @swapped(%x: tensor<4x4xf32>, %scores: tensor<4x4xf32>, %up: tensor<4x4x4xf32>) -> tensor<4x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<4x4xf32> -> tensor<4x2xf32>, tensor<4x2xi64>
  %tuples = nn.reshape %expert : tensor<4x2xi64> -> tensor<4x2x1xi64>
  %weights = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<4x2x1xi64>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<4x4xf32> -> tensor<4x4x4xf32>
  %y = nn.matmul %rows, %up : (tensor<4x4x4xf32>, tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
  %wide = nn.broadcast %weights dims = [0, 1] : tensor<4x4xf32> -> tensor<4x4x4xf32>
  %weighed = nn.mul %y, %wide : tensor<4x4x4xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x4x4xf32> -> tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}

// Weights [T, E] of which each column is read as a token.
// CHECK-LABEL: func.func @columns(
// CHECK-NOT: nn.expert_matmul
// CHECK: return
func.func @columns(%x: tensor<4x4xf32>, %scores: tensor<4x4xf32>, %up: tensor<4x4x4xf32>) -> tensor<4x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<4x4xf32> -> tensor<4x2xf32>, tensor<4x2xi64>
  %tuples = nn.reshape %expert : tensor<4x2xi64> -> tensor<4x2x1xi64>
  %weights = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<4x2x1xi64>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<4x4xf32> -> tensor<4x4x4xf32>
  %y = nn.matmul %rows, %up : (tensor<4x4x4xf32>, tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
  %wide = nn.broadcast %weights dims = [1, 2] : tensor<4x4xf32> -> tensor<4x4x4xf32>
  %weighed = nn.mul %y, %wide : tensor<4x4x4xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x4x4xf32> -> tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}

// One expert of each token, with as many rows as there are tokens; tokens in columns.
// CHECK-LABEL: func.func @one(
// CHECK-NOT: nn.matmul
// CHECK: nn.expert_matmul
// CHECK-NOT: nn.matmul
// CHECK: return
func.func @one(%x: tensor<4x4xf32>, %scores: tensor<4x4xf32>, %up: tensor<4x4x4xf32>) -> tensor<4x2xf32> {
  %best, %expert = nn.top_k %scores smallest : tensor<4x4xf32> -> tensor<4x1xf32>, tensor<4x1xi64>
  %tuples = nn.reshape %expert : tensor<4x1xi64> -> tensor<4x1x1xi64>
  %weights = nn.gather_nd_grad %tuples, %best batch_dims = 1 : (tensor<4x1x1xi64>, tensor<4x1xf32>) -> tensor<4x4xf32>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<4x4xf32> -> tensor<4x4x4xf32>
  %y = nn.matmul %up, %rows transpose_lhs transpose_rhs : (tensor<4x4x4xf32>, tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
  %half = nn.slice %y starts = [0, 1, 0] limits = [4, 3, 4] strides = [1, 1, 1] : tensor<4x4x4xf32> -> tensor<4x2x4xf32>
  %turned = nn.transpose %weights perm = [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  %wide = nn.broadcast %turned dims = [0, 2] : tensor<4x4xf32> -> tensor<4x2x4xf32>
  %weighed = nn.mul %half, %wide : tensor<4x2x4xf32>
  %sum = nn.reduce sum %weighed dims = [0] : tensor<4x2x4xf32> -> tensor<2x4xf32>
  %t = nn.transpose %sum perm = [1, 0] : tensor<2x4xf32> -> tensor<4x2xf32>
  return %t : tensor<4x2xf32>
}

// A mask of the experts that no choice counts.
// CHECK-LABEL: func.func @dropped(
// CHECK-NOT: nn.matmul
// CHECK: nn.expert_matmul
// CHECK-NOT: nn.matmul
// CHECK: return
func.func @dropped(%x: tensor<4x4xf32>, %scores: tensor<4x4xf32>, %up: tensor<4x4x4xf32>) -> tensor<4x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<4x4xf32> -> tensor<4x2xf32>, tensor<4x2xi64>
  %zero = nn.constant dense<0.0> : tensor<4x4xf32>
  %tuples = nn.reshape %expert : tensor<4x2xi64> -> tensor<4x2x1xi64>
  %rows = nn.broadcast %x dims = [1, 2] : tensor<4x4xf32> -> tensor<4x4x4xf32>
  %y = nn.matmul %rows, %up : (tensor<4x4x4xf32>, tensor<4x4x4xf32>) -> tensor<4x4x4xf32>
  %one = nn.constant dense<1.0> : tensor<4x2xf32>
  %weights = nn.gather_nd_grad %tuples, %one batch_dims = 1 : (tensor<4x2x1xi64>, tensor<4x2xf32>) -> tensor<4x4xf32>
  %is = nn.compare eq %weights, %zero : tensor<4x4xf32> -> tensor<4x4xi1>
  %t = nn.transpose %is perm = [1, 0] : tensor<4x4xi1> -> tensor<4x4xi1>
  %wide = nn.broadcast %t dims = [0, 1] : tensor<4x4xi1> -> tensor<4x4x4xi1>
  %zeros = nn.constant dense<0.0> : tensor<4x4x4xf32>
  %w = nn.select %wide, %zeros, %y : tensor<4x4x4xi1>, tensor<4x4x4xf32>
  %sum = nn.reduce sum %w dims = [0] : tensor<4x4x4xf32> -> tensor<4x4xf32>
  return %sum : tensor<4x4xf32>
}
