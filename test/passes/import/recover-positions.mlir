// Masks that are computed from positions, not constants: they have a table of one entry per distance.
// RUN: shale-opt --shale-recover-attention %s -o %t.mlir
// RUN: FileCheck %s --input-file=%t.mlir
// RUN: shale-run --as=f64 %s --compare=%t.mlir

// key <= query
// CHECK-LABEL: func.func @compared(
// CHECK: nn.attention %arg0, %arg1, %arg2 causal scale
func.func @compared(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %mask = nn.compare le %columns, %rows : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// Positions that are constants, reshaped and repeated, and a negation.
// CHECK-LABEL: func.func @of_vectors(
// CHECK: nn.attention %arg0, %arg1, %arg2 causal scale
func.func @of_vectors(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %positions = nn.constant dense<[5, 6, 7, 8]> : tensor<4xi64>
  %row = nn.reshape %positions : tensor<4xi64> -> tensor<1x1x4x1xi64>
  %rows = nn.broadcast %row dims = [0, 1, 2, 3] : tensor<1x1x4x1xi64> -> tensor<1x1x4x4xi64>
  %columns = nn.broadcast %positions dims = [3] : tensor<4xi64> -> tensor<1x1x4x4xi64>
  %later = nn.compare gt %columns, %rows : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %mask = nn.not %later : tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// key + 4 - query < 4.5, in f32.
// CHECK-LABEL: func.func @of_a_difference(
// CHECK: nn.attention %arg0, %arg1, %arg2 causal scale
func.func @of_a_difference(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %all = nn.iota dim = 0 : tensor<8xi64>
  %last = nn.slice %all starts = [4] limits = [8] strides = [1] : tensor<8xi64> -> tensor<4xi64>
  %turned = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %rows = nn.transpose %turned perm = [0, 1, 3, 2] : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi64>
  %columns = nn.broadcast %last dims = [3] : tensor<4xi64> -> tensor<1x1x4x4xi64>
  %distance = nn.sub %columns, %rows : tensor<1x1x4x4xi64>
  %real = nn.cast %distance : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xf32>
  %most = nn.constant dense<4.5> : tensor<1x1x4x4xf32>
  %mask = nn.compare lt %real, %most : tensor<1x1x4x4xf32> -> tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// A matmul of the condition and a large number is added.
// CHECK-LABEL: func.func @added(
// CHECK: nn.attention %arg0, %arg1, %arg2 causal scale
func.func @added(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %later = nn.compare lt %rows, %columns : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %one = nn.cast %later : tensor<1x1x4x4xi1> -> tensor<1x1x4x4xf32>
  %large = nn.constant dense<-1.0e9> : tensor<1x1x4x4xf32>
  %mask = nn.mul %one, %large : tensor<1x1x4x4xf32>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xf32> -> tensor<1x2x4x4xf32>
  %masked = nn.add %s, %m : tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// A window of two positions: one condition is causal, the other is its width. No row is hidden: there is no guard.
// CHECK-LABEL: func.func @window(
// CHECK: nn.attention %arg0, %arg1, %arg2 causal window = 2 scale
func.func @window(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %causal = nn.compare le %columns, %rows : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %width = nn.constant dense<2> : tensor<1x1x4x4xi64>
  %distance = nn.sub %rows, %columns : tensor<1x1x4x4xi64>
  %near = nn.compare lt %distance, %width : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %mask = nn.and %causal, %near : tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// Positions that are fewer than two away, before and after.
// CHECK-LABEL: func.func @both_sides(
// CHECK: nn.attention %arg0, %arg1, %arg2 window = 2 scale
func.func @both_sides(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %back = nn.sub %columns, %rows : tensor<1x1x4x4xi64>
  %width = nn.constant dense<2> : tensor<1x1x4x4xi64>
  %distance = nn.sub %rows, %columns : tensor<1x1x4x4xi64>
  %near = nn.compare lt %distance, %width : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %after = nn.compare lt %back, %width : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %mask = nn.and %after, %near : tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// All later positions and one before: no attribute describes this, and the condition stays.
// CHECK-LABEL: func.func @one_side(
// CHECK: %[[NEAR:.*]] = nn.compare lt
// CHECK: nn.attention %arg0, %arg1, %arg2 seen %[[NEAR]] : tensor<1x1x4x4xi1> scale
func.func @one_side(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %width = nn.constant dense<2> : tensor<1x1x4x4xi64>
  %distance = nn.sub %rows, %columns : tensor<1x1x4x4xi64>
  %near = nn.compare lt %distance, %width : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %near dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// A window and padding: the padding alone stays a tensor, and may hide all keys of a row.
// CHECK-LABEL: func.func @padded_window(
// CHECK: %[[PAD:.*]] = nn.compare lt
// CHECK: nn.attention %arg0, %arg1, %arg2 seen %[[PAD]] : tensor<1x1x1x4xi1> guard causal window = 2 scale
func.func @padded_window(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>, %end: tensor<1xi64>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %causal = nn.compare le %columns, %rows : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %width = nn.constant dense<2> : tensor<1x1x4x4xi64>
  %distance = nn.sub %rows, %columns : tensor<1x1x4x4xi64>
  %near = nn.compare lt %distance, %width : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %place = nn.iota dim = 3 : tensor<1x1x1x4xi64>
  %stop = nn.broadcast %end dims = [0] : tensor<1xi64> -> tensor<1x1x1x4xi64>
  %pad = nn.compare lt %place, %stop : tensor<1x1x1x4xi64> -> tensor<1x1x1x4xi1>
  %wide = nn.broadcast %pad dims = [0, 1, 2, 3] : tensor<1x1x1x4xi1> -> tensor<1x1x4x4xi1>
  %seen = nn.and %causal, %near : tensor<1x1x4x4xi1>
  %mask = nn.and %seen, %wide : tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// A number that hides all but a window is added: no row is hidden entirely, so it does what -inf does.
// CHECK-LABEL: func.func @added_window(
// CHECK: nn.attention %arg0, %arg1, %arg2 causal window = 2 scale
func.func @added_window(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %causal = nn.compare le %columns, %rows : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %width = nn.constant dense<2> : tensor<1x1x4x4xi64>
  %distance = nn.sub %rows, %columns : tensor<1x1x4x4xi64>
  %near = nn.compare lt %distance, %width : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %mask = nn.and %causal, %near : tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<1x2x4x4xf32>
  %nothing = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %add = nn.select %m, %nothing, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %masked = nn.add %s, %add : tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// One number replaces scores out of a window, another is added to those of later positions: two bands make one.
// CHECK-LABEL: func.func @two_numbers(
// CHECK: nn.attention %arg0, %arg1, %arg2 causal window = 2 scale
func.func @two_numbers(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %causal = nn.compare le %columns, %rows : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %width = nn.constant dense<2> : tensor<1x1x4x4xi64>
  %distance = nn.sub %rows, %columns : tensor<1x1x4x4xi64>
  %near = nn.compare lt %distance, %width : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %both = nn.and %causal, %near : tensor<1x1x4x4xi1>
  %mask = nn.broadcast %both dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<-3.40282347E+38> : tensor<1x2x4x4xf32>
  %nothing = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %causal dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %add = nn.select %m, %nothing, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %far = nn.select %mask, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %masked = nn.add %far, %add : tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %y = nn.matmul %p, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// key < query: the first row sees nothing, so the guard stays.
// CHECK-LABEL: func.func @hidden_row(
// CHECK: %[[SEEN:.*]] = nn.compare lt
// CHECK: nn.attention %arg0, %arg1, %arg2 seen %[[SEEN]] : tensor<1x1x4x4xi1> guard scale
func.func @hidden_row(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %mask = nn.compare lt %columns, %rows : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// key >= query is not causal.
// CHECK-LABEL: func.func @earlier(
// CHECK: %[[SEEN:.*]] = nn.compare ge
// CHECK: nn.attention %arg0, %arg1, %arg2 seen %[[SEEN]] : tensor<1x1x4x4xi1> scale
func.func @earlier(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %mask = nn.compare ge %columns, %rows : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// Depends on the sum of positions; each row sees the first key.
// CHECK-LABEL: func.func @sum_of_positions(
// CHECK: %[[SEEN:.*]] = nn.compare le
// CHECK: nn.attention %arg0, %arg1, %arg2 seen %[[SEEN]] : tensor<1x1x4x4xi1> scale
func.func @sum_of_positions(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %sum = nn.add %columns, %rows : tensor<1x1x4x4xi64>
  %three = nn.constant dense<3> : tensor<1x1x4x4xi64>
  %mask = nn.compare le %sum, %three : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// Every position is larger than -1.
// CHECK-LABEL: func.func @all_seen(
// CHECK: nn.attention %arg0, %arg1, %arg2 scale
func.func @all_seen(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %less = nn.constant dense<-1> : tensor<1x1x4x4xi64>
  %mask = nn.compare gt %columns, %less : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// i32 wraps around: the sum of the last key is negative, and every query sees it. Such sums are no lines.
// CHECK-LABEL: func.func @wrapped(
// CHECK: %[[SEEN:.*]] = nn.compare le
// CHECK: nn.attention %arg0, %arg1, %arg2 seen %[[SEEN]] : tensor<1x1x4x4xi1> guard scale
func.func @wrapped(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi32>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi32>
  %much = nn.constant dense<2147483645> : tensor<1x1x4x4xi32>
  %wrapped = nn.add %columns, %much : tensor<1x1x4x4xi32>
  %mask = nn.compare le %wrapped, %rows : tensor<1x1x4x4xi32> -> tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}

// Part of the condition is data. It may hide a row.
// CHECK-LABEL: func.func @of_data(
// CHECK: %[[INSIDE:.*]] = nn.compare lt
// CHECK: nn.attention %arg0, %arg1, %arg2 seen %[[INSIDE]] : tensor<1x1x4x4xi1> guard causal scale
func.func @of_data(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>, %end: tensor<1xi64>) -> tensor<1x2x4x8xf32> {
  %rows = nn.iota dim = 2 : tensor<1x1x4x4xi64>
  %columns = nn.iota dim = 3 : tensor<1x1x4x4xi64>
  %ends = nn.broadcast %end dims = [0] : tensor<1xi64> -> tensor<1x1x4x4xi64>
  %inside = nn.compare lt %columns, %ends : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %causal = nn.compare le %columns, %rows : tensor<1x1x4x4xi64> -> tensor<1x1x4x4xi1>
  %mask = nn.and %inside, %causal : tensor<1x1x4x4xi1>
  %s = nn.matmul %q, %k transpose_rhs : (tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x4xf32>
  %low = nn.constant dense<0xFF800000> : tensor<1x2x4x4xf32>
  %m = nn.broadcast %mask dims = [0, 1, 2, 3] : tensor<1x1x4x4xi1> -> tensor<1x2x4x4xi1>
  %masked = nn.select %m, %s, %low : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %p = nn.softmax %masked : tensor<1x2x4x4xf32>
  %nan = nn.is_nan %p : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xi1>
  %none = nn.constant dense<0.0> : tensor<1x2x4x4xf32>
  %kept = nn.select %nan, %none, %p : tensor<1x2x4x4xi1>, tensor<1x2x4x4xf32>
  %y = nn.matmul %kept, %v : (tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32>
  return %y : tensor<1x2x4x8xf32>
}
