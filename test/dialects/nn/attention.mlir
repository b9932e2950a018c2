// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// Causal and masked attention, with two query heads per key head.
// CHECK-LABEL: func.func @attention
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} causal scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} : tensor<1x1x8x8xf32> scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
// CHECK: nn.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} causal scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
func.func @attention(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x16xf32>, %m: tensor<1x1x8x8xf32>) {
  %o, %l = nn.attention %q, %k, %k causal scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  %p, %n = nn.attention %q, %k, %k mask %m : tensor<1x1x8x8xf32> scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %k, %o, %l, %o causal scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// Three ways to hide keys: scores of -inf, where a row may see no key; a number that replaces scores; a number that is added to scores.
// CHECK-LABEL: func.func @seen
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} seen %{{.*}} : tensor<2x1x1x8xi1> guard causal scale = 2.500000e-01
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} : tensor<1x4x1x8xf32> seen %{{.*}} : tensor<2x1x1x8xi1> hidden = -1.000000e+09 scale = 2.500000e-01
// CHECK: nn.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} seen %{{.*}} : tensor<2x1x1x8xi1> hidden = -1.000000e+09 added scale = 2.500000e-01
func.func @seen(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x16xf32>, %m: tensor<1x4x1x8xf32>, %s: tensor<2x1x1x8xi1>) {
  %o, %l = nn.attention %q, %k, %k seen %s : tensor<2x1x1x8xi1> guard causal scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  %p, %n = nn.attention %q, %k, %k mask %m : tensor<1x4x1x8xf32> seen %s : tensor<2x1x1x8xi1> hidden = -1.0e9 scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %k, %o, %l, %o seen %s : tensor<2x1x1x8xi1> hidden = -1.0e9 added scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// Positions that are near, on one side and on both.
// CHECK-LABEL: func.func @window
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} causal window = 4 scale = 2.500000e-01
// CHECK: nn.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} window = 1 scale = 2.500000e-01
func.func @window(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x16xf32>) {
  %o, %l = nn.attention %q, %k, %k causal window = 4 scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %k, %o, %l, %o window = 1 scale = 2.500000e-01 : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}

// Both pairings, forward and inverse.
// CHECK-LABEL: func.func @rope
// CHECK: nn.rope %{{.*}}, %{{.*}}, %{{.*}} : tensor<2x4x8x16xf32>, tensor<8x8xf32>
// CHECK: nn.rope %{{.*}}, %{{.*}}, %{{.*}} interleaved inverse : tensor<2x4x8x16xf32>, tensor<8x8xf32>
// CHECK: nn.rope %{{.*}}, %{{.*}}, %{{.*}} headed : tensor<2x8x4x16xf32>, tensor<8x8xf32>
func.func @rope(%x: tensor<2x4x8x16xf32>, %h: tensor<2x8x4x16xf32>, %c: tensor<8x8xf32>) {
  %0 = nn.rope %x, %c, %c : tensor<2x4x8x16xf32>, tensor<8x8xf32>
  %1 = nn.rope %x, %c, %c interleaved inverse : tensor<2x4x8x16xf32>, tensor<8x8xf32>
  %2 = nn.rope %h, %c, %c headed : tensor<2x8x4x16xf32>, tensor<8x8xf32>
  return
}

// Dropout of probabilities, for the whole tensor and for a rank's part.
// CHECK-LABEL: func.func @dropout
// CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} causal scale = 2.500000e-01 dropout <ratio = 1.000000e-01 : f64, id = 3>(%{{.*}}, %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<i64>)
// CHECK: nn.attention_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} causal scale = 2.500000e-01 dropout <ratio = 1.000000e-01 : f64, id = 3, of = [4, 2, 2, 8, 8]>(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>)
func.func @dropout(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x16xf32>, %s: tensor<i64>) {
  %o, %l = nn.attention %q, %k, %k causal scale = 2.500000e-01 dropout <ratio = 0.1 : f64, id = 3> (%s, %s, %s : tensor<i64>, tensor<i64>, tensor<i64>) : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32> -> tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %k, %o, %l, %o causal scale = 2.500000e-01 dropout <ratio = 0.1 : f64, id = 3, of = [4, 2, 2, 8, 8]> (%s, %s, %s, %s : tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>) : tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x4x8x16xf32>, tensor<2x4x8xf32>
  return
}
