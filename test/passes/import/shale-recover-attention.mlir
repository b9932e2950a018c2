// RUN: shale-opt --shale-recover-attention %s | FileCheck %s

// Both operands are scaled, the mask is causal, and rows are guarded against NaN.
// CHECK-LABEL: func.func @causal
// CHECK: nn.attention %arg0, %arg1, %arg2 causal scale = 2.500000e-01
// CHECK-SAME: tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>, tensor<1x2x3xf32>
func.func @causal(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %s = nn.constant dense<0.5> : tensor<1x2x3x4xf32>
  %mask = nn.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %zero = nn.constant dense<0.0> : tensor<1x2x3x3xf32>
  %0 = nn.mul %q, %s : tensor<1x2x3x4xf32>
  %1 = nn.mul %k, %s : tensor<1x2x3x4xf32>
  %2 = nn.matmul %0, %1 transpose_rhs : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %3 = nn.broadcast %mask dims = [2, 3] : tensor<3x3xf32> -> tensor<1x2x3x3xf32>
  %4 = nn.add %2, %3 : tensor<1x2x3x3xf32>
  %5 = nn.softmax %4 : tensor<1x2x3x3xf32>
  %6 = nn.is_nan %5 : tensor<1x2x3x3xf32> -> tensor<1x2x3x3xi1>
  %7 = nn.select %6, %zero, %5 : tensor<1x2x3x3xi1>, tensor<1x2x3x3xf32>
  %8 = nn.matmul %7, %v : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %8 : tensor<1x2x3x4xf32>
}

// Repeated keys and values are read once. A mask without effect is removed.
// CHECK-LABEL: func.func @groups
// CHECK: nn.attention %arg0, %arg1, %arg2 scale = 1.000000e+00
// CHECK-SAME: tensor<1x4x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>
func.func @groups(%q: tensor<1x4x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>) -> tensor<1x4x3x4xf32> {
  %mask = nn.constant dense<0.0> : tensor<3x3xf32>
  %0 = nn.reshape %k : tensor<1x2x3x4xf32> -> tensor<1x2x1x3x4xf32>
  %1 = nn.broadcast %0 dims = [0, 1, 2, 3, 4] : tensor<1x2x1x3x4xf32> -> tensor<1x2x2x3x4xf32>
  %2 = nn.reshape %1 : tensor<1x2x2x3x4xf32> -> tensor<1x4x3x4xf32>
  %3 = nn.broadcast %v dims = [0, 1, 3, 4] : tensor<1x2x3x4xf32> -> tensor<1x2x2x3x4xf32>
  %4 = nn.reshape %3 : tensor<1x2x2x3x4xf32> -> tensor<1x4x3x4xf32>
  %5 = nn.transpose %2 perm = [0, 1, 3, 2] : tensor<1x4x3x4xf32> -> tensor<1x4x4x3xf32>
  %6 = nn.matmul %q, %5 : (tensor<1x4x3x4xf32>, tensor<1x4x4x3xf32>) -> tensor<1x4x3x3xf32>
  %7 = nn.broadcast %mask dims = [2, 3] : tensor<3x3xf32> -> tensor<1x4x3x3xf32>
  %8 = nn.add %7, %6 : tensor<1x4x3x3xf32>
  %9 = nn.softmax %8 : tensor<1x4x3x3xf32>
  %10 = nn.matmul %9, %4 : (tensor<1x4x3x3xf32>, tensor<1x4x3x4xf32>) -> tensor<1x4x3x4xf32>
  return %10 : tensor<1x4x3x4xf32>
}

// Any other mask stays an operand.
// CHECK-LABEL: func.func @other_mask
// CHECK: %[[M:.*]] = nn.reshape %{{.*}} : tensor<3x3xf32> -> tensor<1x1x3x3xf32>
// CHECK: nn.attention %arg0, %arg1, %arg2 mask %[[M]] : tensor<1x1x3x3xf32> scale = 5.000000e-01
func.func @other_mask(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %s = nn.constant dense<2.0> : tensor<1x2x3x3xf32>
  %mask = nn.constant dense<[[0.0, -1.0, -2.0], [0.0, 0.0, -1.0], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %0 = nn.matmul %q, %k transpose_rhs : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = nn.div %0, %s : tensor<1x2x3x3xf32>
  %2 = nn.broadcast %mask dims = [2, 3] : tensor<3x3xf32> -> tensor<1x2x3x3xf32>
  %3 = nn.add %1, %2 : tensor<1x2x3x3xf32>
  %4 = nn.softmax %3 : tensor<1x2x3x3xf32>
  %5 = nn.matmul %4, %v : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %5 : tensor<1x2x3x4xf32>
}

// A constant that shows each position itself and one before it.
// CHECK-LABEL: func.func @window_constant
// CHECK: nn.attention %arg0, %arg1, %arg2 causal window = 2 scale = 1.000000e+00
func.func @window_constant(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %mask = nn.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0xFF800000, 0.0, 0.0]]> : tensor<3x3xf32>
  %2 = nn.matmul %q, %k transpose_rhs : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %3 = nn.broadcast %mask dims = [2, 3] : tensor<3x3xf32> -> tensor<1x2x3x3xf32>
  %4 = nn.add %2, %3 : tensor<1x2x3x3xf32>
  %5 = nn.softmax %4 : tensor<1x2x3x3xf32>
  %8 = nn.matmul %5, %v : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %8 : tensor<1x2x3x4xf32>
}

// The same position is hidden in one row and shown in another: no window.
// CHECK-LABEL: func.func @uneven_window
// CHECK: nn.attention %arg0, %arg1, %arg2 mask %{{.*}} : tensor<1x1x3x3xf32> scale = 1.000000e+00
func.func @uneven_window(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %mask = nn.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0xFF800000, 0.0, 0xFF800000], [0xFF800000, 0.0, 0.0]]> : tensor<3x3xf32>
  %2 = nn.matmul %q, %k transpose_rhs : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %3 = nn.broadcast %mask dims = [2, 3] : tensor<3x3xf32> -> tensor<1x2x3x3xf32>
  %4 = nn.add %2, %3 : tensor<1x2x3x3xf32>
  %5 = nn.softmax %4 : tensor<1x2x3x3xf32>
  %8 = nn.matmul %5, %v : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %8 : tensor<1x2x3x4xf32>
}

// All keys of the first row are hidden, and the guard makes it zero.
// CHECK-LABEL: func.func @hidden_row
// CHECK: nn.attention %arg0, %arg1, %arg2 mask %{{.*}} : tensor<1x1x3x3xf32> guard scale = 1.000000e+00
func.func @hidden_row(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %mask = nn.constant dense<[[0xFF800000, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %zero = nn.constant dense<0.0> : tensor<1x2x3x3xf32>
  %2 = nn.matmul %q, %k transpose_rhs : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %3 = nn.broadcast %mask dims = [2, 3] : tensor<3x3xf32> -> tensor<1x2x3x3xf32>
  %4 = nn.add %2, %3 : tensor<1x2x3x3xf32>
  %5 = nn.softmax %4 : tensor<1x2x3x3xf32>
  %6 = nn.is_nan %5 : tensor<1x2x3x3xf32> -> tensor<1x2x3x3xi1>
  %7 = nn.select %6, %zero, %5 : tensor<1x2x3x3xi1>, tensor<1x2x3x3xf32>
  %8 = nn.matmul %7, %v : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %8 : tensor<1x2x3x4xf32>
}

// Dropout of the probabilities becomes part of the op.
// CHECK-LABEL: func.func @dropout
// CHECK: nn.attention %arg0, %arg1, %arg2 scale = 5.000000e-01 dropout <ratio = 1.000000e-01 : f64, id = 3>(%arg3, %arg4, %arg4 : tensor<i64>, tensor<i64>, tensor<i64>)
// CHECK-NOT: nn.dropout
func.func @dropout(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>, %seed: tensor<i64>, %step: tensor<i64>) -> tensor<1x2x3x4xf32> {
  %s = nn.constant dense<2.0> : tensor<1x2x3x3xf32>
  %0 = nn.matmul %q, %k transpose_rhs : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = nn.div %0, %s : tensor<1x2x3x3xf32>
  %2 = nn.softmax %1 : tensor<1x2x3x3xf32>
  %3 = nn.dropout %2 seed %seed step %step microbatch %step ratio = 0.1 id = 3 : tensor<1x2x3x3xf32>, tensor<i64>
  %4 = nn.matmul %3, %v : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %4 : tensor<1x2x3x4xf32>
}

// Padding from an input, and a causal mask: no tensor of all pairs. A mask that may hide all keys of a row needs the guard.
// CHECK-LABEL: func.func @padded
// CHECK: %[[M:.*]] = nn.cast %arg3
// CHECK: nn.attention %arg0, %arg1, %arg2 seen %[[M]] : tensor<2x1x1x3xi1> guard causal scale = 1.000000e+00
func.func @padded(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>, %m: tensor<2x1x1x3xi64>) -> tensor<2x2x3x4xf32> {
  %c = nn.constant dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %none = nn.constant dense<0xFF800000> : tensor<2x1x3x3xf32>
  %zeros = nn.constant dense<0.0> : tensor<2x1x3x3xf32>
  %zero = nn.constant dense<0.0> : tensor<2x2x3x3xf32>
  %p = nn.cast %m : tensor<2x1x1x3xi64> -> tensor<2x1x1x3xi1>
  %pb = nn.broadcast %p dims = [0, 1, 2, 3] : tensor<2x1x1x3xi1> -> tensor<2x1x3x3xi1>
  %cb = nn.broadcast %c dims = [0, 1, 2, 3] : tensor<1x1x3x3xi1> -> tensor<2x1x3x3xi1>
  %both = nn.and %cb, %pb : tensor<2x1x3x3xi1>
  %add = nn.select %both, %zeros, %none : tensor<2x1x3x3xi1>, tensor<2x1x3x3xf32>
  %wide = nn.broadcast %add dims = [0, 1, 2, 3] : tensor<2x1x3x3xf32> -> tensor<2x2x3x3xf32>
  %0 = nn.matmul %q, %k transpose_rhs : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %1 = nn.add %0, %wide : tensor<2x2x3x3xf32>
  %2 = nn.softmax %1 : tensor<2x2x3x3xf32>
  %3 = nn.is_nan %2 : tensor<2x2x3x3xf32> -> tensor<2x2x3x3xi1>
  %4 = nn.select %3, %zero, %2 : tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>
  %5 = nn.matmul %4, %v : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  return %5 : tensor<2x2x3x4xf32>
}

// torch.onnx hides by the lowest number and guards against NaN: that is PyTorch's -inf. Without the guard it is that number.
// CHECK-LABEL: func.func @lowest(
// CHECK: %[[M:.*]] = nn.cast %arg3
// CHECK: nn.attention %arg0, %arg1, %arg2 seen %[[M]] : tensor<2x1x1x3xi1> guard causal scale = 1.000000e+00
func.func @lowest(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>, %m: tensor<2x1x1x3xi64>) -> tensor<2x2x3x4xf32> {
  %c = nn.constant dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %none = nn.constant dense<-3.40282347E+38> : tensor<2x1x3x3xf32>
  %zeros = nn.constant dense<0.0> : tensor<2x1x3x3xf32>
  %zero = nn.constant dense<0.0> : tensor<2x2x3x3xf32>
  %p = nn.cast %m : tensor<2x1x1x3xi64> -> tensor<2x1x1x3xi1>
  %pb = nn.broadcast %p dims = [0, 1, 2, 3] : tensor<2x1x1x3xi1> -> tensor<2x1x3x3xi1>
  %cb = nn.broadcast %c dims = [0, 1, 2, 3] : tensor<1x1x3x3xi1> -> tensor<2x1x3x3xi1>
  %both = nn.and %cb, %pb : tensor<2x1x3x3xi1>
  %add = nn.select %both, %zeros, %none : tensor<2x1x3x3xi1>, tensor<2x1x3x3xf32>
  %wide = nn.broadcast %add dims = [0, 1, 2, 3] : tensor<2x1x3x3xf32> -> tensor<2x2x3x3xf32>
  %0 = nn.matmul %q, %k transpose_rhs : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %1 = nn.add %0, %wide : tensor<2x2x3x3xf32>
  %2 = nn.softmax %1 : tensor<2x2x3x3xf32>
  %3 = nn.is_nan %2 : tensor<2x2x3x3xf32> -> tensor<2x2x3x3xi1>
  %4 = nn.select %3, %zero, %2 : tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>
  %5 = nn.matmul %4, %v : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  return %5 : tensor<2x2x3x4xf32>
}
// CHECK-LABEL: func.func @lowest_without_guard(
// CHECK: %[[BOTH:.*]] = nn.and
// CHECK: nn.attention %arg0, %arg1, %arg2 seen %[[BOTH]] : tensor<2x1x3x3xi1> hidden = -3.4028234663852886E+38 added scale = 1.000000e+00
func.func @lowest_without_guard(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>, %m: tensor<2x1x1x3xi64>) -> tensor<2x2x3x4xf32> {
  %c = nn.constant dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %none = nn.constant dense<-3.40282347E+38> : tensor<2x1x3x3xf32>
  %zeros = nn.constant dense<0.0> : tensor<2x1x3x3xf32>
  %p = nn.cast %m : tensor<2x1x1x3xi64> -> tensor<2x1x1x3xi1>
  %pb = nn.broadcast %p dims = [0, 1, 2, 3] : tensor<2x1x1x3xi1> -> tensor<2x1x3x3xi1>
  %cb = nn.broadcast %c dims = [0, 1, 2, 3] : tensor<1x1x3x3xi1> -> tensor<2x1x3x3xi1>
  %both = nn.and %cb, %pb : tensor<2x1x3x3xi1>
  %add = nn.select %both, %zeros, %none : tensor<2x1x3x3xi1>, tensor<2x1x3x3xf32>
  %wide = nn.broadcast %add dims = [0, 1, 2, 3] : tensor<2x1x3x3xf32> -> tensor<2x2x3x3xf32>
  %0 = nn.matmul %q, %k transpose_rhs : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %1 = nn.add %0, %wide : tensor<2x2x3x3xf32>
  %2 = nn.softmax %1 : tensor<2x2x3x3xf32>
  %5 = nn.matmul %2, %v : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  return %5 : tensor<2x2x3x4xf32>
}

// Keys are hidden by a finite number. Both masks together may hide all keys of a row, so they stay one mask. A bias is added before.
// CHECK-LABEL: func.func @finite
// CHECK: %[[BOTH:.*]] = nn.and
// CHECK: nn.attention %arg0, %arg1, %arg2 mask %arg4 : tensor<1x2x1x3xf32> seen %[[BOTH]] : tensor<2x1x3x3xi1> hidden = -1.000000e+09 scale = 1.000000e+00
func.func @finite(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>, %m: tensor<2x1x1x3xi1>, %bias: tensor<1x2x1x3xf32>) -> tensor<2x2x3x4xf32> {
  %c = nn.constant dense<[[[[true, false, false], [true, true, false], [true, true, true]]]]> : tensor<1x1x3x3xi1>
  %low = nn.constant dense<-1.0e9> : tensor<2x2x3x3xf32>
  %pb = nn.broadcast %m dims = [0, 1, 2, 3] : tensor<2x1x1x3xi1> -> tensor<2x1x3x3xi1>
  %cb = nn.broadcast %c dims = [0, 1, 2, 3] : tensor<1x1x3x3xi1> -> tensor<2x1x3x3xi1>
  %both = nn.and %cb, %pb : tensor<2x1x3x3xi1>
  %wide = nn.broadcast %both dims = [0, 1, 2, 3] : tensor<2x1x3x3xi1> -> tensor<2x2x3x3xi1>
  %b = nn.broadcast %bias dims = [0, 1, 2, 3] : tensor<1x2x1x3xf32> -> tensor<2x2x3x3xf32>
  %0 = nn.matmul %q, %k transpose_rhs : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %1 = nn.add %0, %b : tensor<2x2x3x3xf32>
  %2 = nn.select %wide, %1, %low : tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>
  %3 = nn.softmax %2 : tensor<2x2x3x3xf32>
  %4 = nn.matmul %3, %v : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  return %4 : tensor<2x2x3x4xf32>
}

// The mask selects hidden keys instead of visible ones. Another mask selects later positions.
// CHECK-LABEL: func.func @hides
// CHECK: %[[M:.*]] = nn.not %arg3
// CHECK: nn.attention %arg0, %arg1, %arg2 seen %[[M]] : tensor<2x1x1x3xi1> causal scale = 1.000000e+00
func.func @hides(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>, %m: tensor<2x1x1x3xi1>) -> tensor<2x2x3x4xf32> {
  %c = nn.constant dense<[[false, true, true], [false, false, true], [false, false, false]]> : tensor<3x3xi1>
  %none = nn.constant dense<0xFF800000> : tensor<2x2x3x3xf32>
  %pb = nn.broadcast %m dims = [0, 1, 2, 3] : tensor<2x1x1x3xi1> -> tensor<2x2x3x3xi1>
  %cb = nn.broadcast %c dims = [2, 3] : tensor<3x3xi1> -> tensor<2x2x3x3xi1>
  %0 = nn.matmul %q, %k transpose_rhs : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %1 = nn.select %cb, %none, %0 : tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>
  %2 = nn.select %pb, %none, %1 : tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>
  %3 = nn.softmax %2 : tensor<2x2x3x3xf32>
  %4 = nn.matmul %3, %v : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  return %4 : tensor<2x2x3x4xf32>
}

// Negative: later positions are hidden by a finite number before padding is. A row hidden by both would change.
// CHECK-LABEL: func.func @two_numbers
// CHECK-NOT: nn.attention
func.func @two_numbers(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>, %m: tensor<2x1x1x3xi1>) -> tensor<2x2x3x4xf32> {
  %c = nn.constant dense<[[true, false, false], [true, true, false], [true, true, true]]> : tensor<3x3xi1>
  %low = nn.constant dense<-1.0e9> : tensor<2x2x3x3xf32>
  %none = nn.constant dense<0xFF800000> : tensor<2x2x3x3xf32>
  %pb = nn.broadcast %m dims = [0, 1, 2, 3] : tensor<2x1x1x3xi1> -> tensor<2x2x3x3xi1>
  %cb = nn.broadcast %c dims = [2, 3] : tensor<3x3xi1> -> tensor<2x2x3x3xi1>
  %0 = nn.matmul %q, %k transpose_rhs : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %1 = nn.select %cb, %0, %low : tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>
  %2 = nn.select %pb, %1, %none : tensor<2x2x3x3xi1>, tensor<2x2x3x3xf32>
  %3 = nn.softmax %2 : tensor<2x2x3x3xf32>
  %4 = nn.matmul %3, %v : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  return %4 : tensor<2x2x3x4xf32>
}

// Negative: a trained mask would get no gradient.
// CHECK-LABEL: func.func @trained_mask
// CHECK-NOT: nn.attention
nn.state @bias role = param type = tensor<1x2x3x3xf32> {init = #nn.fill<0.0 : f64>}
func.func @trained_mask(%q: tensor<2x2x3x4xf32>, %m: tensor<1x2x3x3xf32> {nn.state = @bias}) -> tensor<2x2x3x4xf32> {
  %b = nn.broadcast %m dims = [0, 1, 2, 3] : tensor<1x2x3x3xf32> -> tensor<2x2x3x3xf32>
  %0 = nn.matmul %q, %q transpose_rhs : (tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x3xf32>
  %1 = nn.add %0, %b : tensor<2x2x3x3xf32>
  %2 = nn.softmax %1 : tensor<2x2x3x3xf32>
  %3 = nn.matmul %2, %q : (tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  return %3 : tensor<2x2x3x4xf32>
}

// Masks of ops that import made: the causal one of a file that brings its gradients, for each row of the batch. The gradient reads the same one.
// CHECK-LABEL: func.func @given_mask
// CHECK: %[[OUT:.*]], %[[LSE:.*]] = nn.attention %arg0, %arg1, %arg2 causal scale
// CHECK: nn.attention_grad %arg0, %arg1, %arg2, %[[OUT]], %[[LSE]], %arg3 causal scale
func.func @given_mask(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>, %g: tensor<1x2x3x4xf32>)
    -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) {
  %mask = nn.constant dense<[[[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]]]> : tensor<1x1x3x3xf32>
  %o, %lse = nn.attention %q, %k, %v mask %mask : tensor<1x1x3x3xf32> guard scale = 5.000000e-01 : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>, tensor<1x2x3xf32>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v, %o, %lse, %g mask %mask : tensor<1x1x3x3xf32> guard scale = 5.000000e-01 : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3xf32>
  return %o, %dq, %dk, %dv : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>
}

// A mask that hides a whole row stays, with the guard of that row.
// CHECK-LABEL: func.func @given_hidden_row
// CHECK: nn.attention %arg0, %arg1, %arg2 mask %{{.*}} guard scale
func.func @given_hidden_row(%q: tensor<1x2x2x4xf32>, %k: tensor<1x2x2x4xf32>, %v: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %mask = nn.constant dense<[[[[0xFF800000, 0xFF800000], [0.0, 0.0]]]]> : tensor<1x1x2x2xf32>
  %o, %lse = nn.attention %q, %k, %v mask %mask : tensor<1x1x2x2xf32> guard scale = 5.000000e-01 : tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32> -> tensor<1x2x2x4xf32>, tensor<1x2x2xf32>
  return %o : tensor<1x2x2x4xf32>
}
