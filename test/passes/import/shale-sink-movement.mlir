// RUN: shale-opt --shale-sink-movement %s | FileCheck %s
// RUN: shale-opt --shale-sink-movement --shale-sink-movement %s | FileCheck %s
// RUN: shale-opt --shale-sink-movement %s -o %t.after.mlir
// Arguments at the same position have the same type in all functions, since the interpreter draws their values once.
// RUN: shale-run --as=f64 %s --compare=%t.after.mlir

// The input of torch.nn.MultiheadAttention: [B, T, E] is transposed, multiplied, given a bias, cut into heads and transposed back.
// CHECK-LABEL: func.func @attention_input
// CHECK: %[[ROWS:.*]] = nn.reshape %arg0 : tensor<2x5x6xf32> -> tensor<10x6xf32>
// CHECK: %[[P:.*]] = nn.matmul %[[ROWS]], %arg1
// CHECK: nn.add %{{.*}} : tensor<2x5x6xf32>
// CHECK: %[[T:.*]] = nn.transpose %{{.*}} perm = [0, 2, 1, 3] : tensor<2x5x3x2xf32> -> tensor<2x3x5x2xf32>
// CHECK: return %[[T]]
func.func @attention_input(%x: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}, %w: tensor<6x6xf32>, %b: tensor<6xf32>) -> tensor<2x3x5x2xf32> {
  %0 = nn.transpose %x perm = [1, 0, 2] : tensor<2x5x6xf32> -> tensor<5x2x6xf32>
  %1 = nn.reshape %0 : tensor<5x2x6xf32> -> tensor<10x6xf32>
  %2 = nn.matmul %1, %w : (tensor<10x6xf32>, tensor<6x6xf32>) -> tensor<10x6xf32>
  %3 = nn.reshape %2 : tensor<10x6xf32> -> tensor<5x2x6xf32>
  %4 = nn.broadcast %b dims = [2] : tensor<6xf32> -> tensor<5x2x6xf32>
  %5 = nn.add %3, %4 : tensor<5x2x6xf32>
  %6 = nn.reshape %5 : tensor<5x2x6xf32> -> tensor<5x6x2xf32>
  %7 = nn.transpose %6 perm = [1, 0, 2] : tensor<5x6x2xf32> -> tensor<6x5x2xf32>
  %8 = nn.reshape %7 : tensor<6x5x2xf32> -> tensor<2x3x5x2xf32>
  return %8 : tensor<2x3x5x2xf32>
}

// A norm of transposed rows, and a sum with a value that is transposed in the same way.
// CHECK-LABEL: func.func @norm
// CHECK: %[[S:.*]] = nn.add %arg0, %arg3 : tensor<2x5x6xf32>
// CHECK: %[[N:.*]], %{{.*}}, %{{.*}} = nn.layer_norm %[[S]]
// CHECK: return %[[N]]
func.func @norm(%x: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}, %m: tensor<6x6xf32>, %b: tensor<6xf32>, %y: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}) -> tensor<2x5x6xf32> {
  %0 = nn.transpose %x perm = [1, 0, 2] : tensor<2x5x6xf32> -> tensor<5x2x6xf32>
  %1 = nn.transpose %y perm = [1, 0, 2] : tensor<2x5x6xf32> -> tensor<5x2x6xf32>
  %2 = nn.add %0, %1 : tensor<5x2x6xf32>
  %3, %mean, %rstd = nn.layer_norm %2, %b, %b epsilon = 1.0e-5 : tensor<5x2x6xf32>, tensor<6xf32> -> tensor<5x2xf32>
  %4 = nn.transpose %3 perm = [1, 0, 2] : tensor<5x2x6xf32> -> tensor<2x5x6xf32>
  return %4 : tensor<2x5x6xf32>
}

// A slice of the dimension that was moved to the front is taken before it is moved.
// CHECK-LABEL: func.func @halves
// CHECK: %[[S:.*]] = nn.slice %{{.*}} starts = [0, 0, 1, 0] limits = [2, 5, 2, 3]
// CHECK-NOT: nn.transpose
// CHECK: return
func.func @halves(%x: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}) -> tensor<2x5x3xf32> {
  %0 = nn.reshape %x : tensor<2x5x6xf32> -> tensor<2x5x2x3xf32>
  %1 = nn.transpose %0 perm = [2, 0, 1, 3] : tensor<2x5x2x3xf32> -> tensor<2x2x5x3xf32>
  %2 = nn.slice %1 starts = [1, 0, 0, 0] limits = [2, 2, 5, 3] strides = [1, 1, 1, 1] : tensor<2x2x5x3xf32> -> tensor<1x2x5x3xf32>
  %3 = nn.reshape %2 : tensor<1x2x5x3xf32> -> tensor<2x5x3xf32>
  return %3 : tensor<2x5x3xf32>
}

// A matmul that sums over rows which both operands have in one other order, and a sum over the rows.
// CHECK-LABEL: func.func @sums
// CHECK-NOT: nn.transpose
// CHECK: %[[X:.*]] = nn.reshape %arg0 : tensor<2x5x6xf32> -> tensor<10x6xf32>
// CHECK: %[[Y:.*]] = nn.reshape %arg3 : tensor<2x5x6xf32> -> tensor<10x6xf32>
// CHECK: %[[P:.*]] = nn.matmul %[[X]], %[[Y]] transpose_lhs : (tensor<10x6xf32>, tensor<10x6xf32>) -> tensor<6x6xf32>
// CHECK: %[[S:.*]] = nn.reduce sum %arg0 dims = [0, 1] : tensor<2x5x6xf32> -> tensor<6xf32>
// CHECK-NOT: nn.transpose
// CHECK: return %[[P]], %[[S]]
func.func @sums(%x: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}, %m: tensor<6x6xf32>, %b: tensor<6xf32>, %y: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}) -> (tensor<6x6xf32>, tensor<6xf32>) {
  %0 = nn.transpose %x perm = [1, 0, 2] : tensor<2x5x6xf32> -> tensor<5x2x6xf32>
  %1 = nn.transpose %y perm = [1, 0, 2] : tensor<2x5x6xf32> -> tensor<5x2x6xf32>
  %2 = nn.reshape %0 : tensor<5x2x6xf32> -> tensor<10x6xf32>
  %3 = nn.reshape %1 : tensor<5x2x6xf32> -> tensor<10x6xf32>
  %4 = nn.matmul %2, %3 transpose_lhs : (tensor<10x6xf32>, tensor<10x6xf32>) -> tensor<6x6xf32>
  %5 = nn.reduce sum %0 dims = [0, 1] : tensor<5x2x6xf32> -> tensor<6xf32>
  return %4, %5 : tensor<6x6xf32>, tensor<6xf32>
}

// What a sum over the batch leaves keeps its order.
// CHECK-LABEL: func.func @partly
// CHECK: %[[S:.*]] = nn.reduce sum %arg0 dims = [0] : tensor<2x5x6xf32> -> tensor<5x6xf32>
// CHECK: %[[T:.*]] = nn.transpose %[[S]] perm = [1, 0] : tensor<5x6xf32> -> tensor<6x5xf32>
// CHECK: return %[[T]]
func.func @partly(%x: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}, %m: tensor<6x6xf32>, %b: tensor<6xf32>, %y: tensor<2x5x6xf32>) -> tensor<6x5xf32> {
  %0 = nn.transpose %x perm = [2, 0, 1] : tensor<2x5x6xf32> -> tensor<6x2x5xf32>
  %1 = nn.reduce sum %0 dims = [1] : tensor<6x2x5xf32> -> tensor<6x5xf32>
  return %1 : tensor<6x5xf32>
}

// A value that is repeated along a new dimension is repeated before it is transposed, and back.
// CHECK-LABEL: func.func @repeated
// CHECK: %[[W:.*]] = nn.broadcast %arg0 dims = [0, 1, 2] : tensor<2x5x6xf32> -> tensor<2x5x6x3xf32>
// CHECK: %[[T:.*]] = nn.transpose %[[W]] perm = [0, 3, 1, 2] : tensor<2x5x6x3xf32> -> tensor<2x3x5x6xf32>
// CHECK: return %[[T]]
func.func @repeated(%x: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}, %m: tensor<6x6xf32>, %b: tensor<6xf32>, %y: tensor<2x5x6xf32>) -> tensor<2x3x5x6xf32> {
  %0 = nn.transpose %x perm = [1, 0, 2] : tensor<2x5x6xf32> -> tensor<5x2x6xf32>
  %1 = nn.reshape %0 : tensor<5x2x6xf32> -> tensor<1x5x2x6xf32>
  %2 = nn.broadcast %1 dims = [0, 1, 2, 3] : tensor<1x5x2x6xf32> -> tensor<3x5x2x6xf32>
  %3 = nn.transpose %2 perm = [2, 0, 1, 3] : tensor<3x5x2x6xf32> -> tensor<2x3x5x6xf32>
  return %3 : tensor<2x3x5x6xf32>
}

// Rows in two orders stay.
// CHECK-LABEL: func.func @unlike
// CHECK: nn.transpose
// CHECK: nn.matmul
func.func @unlike(%x: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}, %m: tensor<6x6xf32>, %b: tensor<6xf32>, %y: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}) -> tensor<6x6xf32> {
  %0 = nn.transpose %x perm = [1, 0, 2] : tensor<2x5x6xf32> -> tensor<5x2x6xf32>
  %2 = nn.reshape %0 : tensor<5x2x6xf32> -> tensor<10x6xf32>
  %3 = nn.reshape %y : tensor<2x5x6xf32> -> tensor<10x6xf32>
  %4 = nn.matmul %2, %3 transpose_lhs : (tensor<10x6xf32>, tensor<10x6xf32>) -> tensor<6x6xf32>
  return %4 : tensor<6x6xf32>
}

// The other operand of the sum is not transposed, so nothing moves. Neither does a slice that cuts through two merged dimensions.
// CHECK-LABEL: func.func @stays
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: nn.add
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: nn.slice
func.func @stays(%x: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}, %m: tensor<6x6xf32>, %b: tensor<6xf32>, %y: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}, %z: tensor<5x2x6xf32>) -> tensor<7x6xf32> {
  %0 = nn.transpose %x perm = [1, 0, 2] : tensor<2x5x6xf32> -> tensor<5x2x6xf32>
  %1 = nn.add %0, %z : tensor<5x2x6xf32>
  %2 = nn.reshape %1 : tensor<5x2x6xf32> -> tensor<10x6xf32>
  %3 = nn.slice %2 starts = [0, 0] limits = [7, 6] strides = [1, 1] : tensor<10x6xf32> -> tensor<7x6xf32>
  return %3 : tensor<7x6xf32>
}

// Here the batch is moved to the front, and stays there.
// CHECK-LABEL: func.func @to_front
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: nn.matmul
func.func @to_front(%u: tensor<2x5x6xf32>, %m: tensor<6x6xf32>, %b: tensor<6xf32>, %y: tensor<2x5x6xf32>, %z: tensor<5x2x6xf32> {nn.batch_dim = 1 : i64}) -> tensor<10x6xf32> {
  %0 = nn.transpose %z perm = [1, 0, 2] : tensor<5x2x6xf32> -> tensor<2x5x6xf32>
  %1 = nn.reshape %0 : tensor<2x5x6xf32> -> tensor<10x6xf32>
  %2 = nn.matmul %1, %m : (tensor<10x6xf32>, tensor<6x6xf32>) -> tensor<10x6xf32>
  return %2 : tensor<10x6xf32>
}

// CHECK-LABEL: func.func @empty
// CHECK: nn.transpose
func.func @empty(%u: tensor<2x5x6xf32>, %m: tensor<6x6xf32>, %b: tensor<6xf32>, %y: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}, %z: tensor<5x2x6xf32>, %x: tensor<0x5x6xf32> {nn.batch_dim = 0 : i64}) -> tensor<0x6xf32> {
  %0 = nn.transpose %x perm = [1, 0, 2] : tensor<0x5x6xf32> -> tensor<5x0x6xf32>
  %1 = nn.reshape %0 : tensor<5x0x6xf32> -> tensor<0x6xf32>
  return %1 : tensor<0x6xf32>
}
