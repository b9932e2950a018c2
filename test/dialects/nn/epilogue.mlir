// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s
// RUN: shale-opt %s --shale-decompose=all -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir --check-prefix=SIMPLE
// The constants of the gradient are rounded to f32.
// RUN: shale-run --as f64 %s --compare=%t.mlir --tolerance=1e-8 | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @step: 3 values, 0 differ in value
// EQUAL-DAG: @narrow: 1 values, 0 differ in value
// RUN: shale-run %s --function=values | FileCheck %s --check-prefix=VALUES

// The decomposition has the values of the op, phase and scope.
// CHECK-LABEL: func.func @step
// CHECK: %[[Y:.*]], %[[Z:.*]] = nn.matmul_epilogue gelu %{{.*}}, %{{.*}} with %{{.*}} transpose_rhs {nn.phase = #forward, nn.scope = "s"} : (tensor<4x3xf32>, tensor<8x3xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
// CHECK: nn.matmul_epilogue bias %[[Y]], %{{.*}} with %{{.*}} transpose_lhs : (tensor<4x8xf32>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
// CHECK: nn.matmul_epilogue gelu_grad %{{.*}}, %{{.*}} with %[[Z]] transpose_rhs : (tensor<4x3xf32>, tensor<8x3xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
// SIMPLE-LABEL: func.func @step
// SIMPLE-NOT: nn.matmul_epilogue
// SIMPLE: nn.matmul {{.*}} transpose_rhs {nn.phase = #forward, nn.scope = "s"}
// SIMPLE: nn.gelu {{.*}} tanh {nn.phase = #forward, nn.scope = "s"}
// SIMPLE: nn.tanh
func.func @step(%x: tensor<4x3xf32>, %w: tensor<8x3xf32>, %b: tensor<8xf32>, %c: tensor<3xf32>) -> (tensor<4x8xf32>, tensor<8x3xf32>, tensor<4x8xf32>) {
  %y, %z = nn.matmul_epilogue gelu %x, %w with %b transpose_rhs {nn.phase = #nn.phase<forward>, nn.scope = "s"} : (tensor<4x3xf32>, tensor<8x3xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %v = nn.matmul_epilogue bias %y, %x with %c transpose_lhs : (tensor<4x8xf32>, tensor<4x3xf32>, tensor<3xf32>) -> tensor<8x3xf32>
  %g = nn.matmul_epilogue gelu_grad %x, %w with %z transpose_rhs : (tensor<4x3xf32>, tensor<8x3xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y, %v, %g : tensor<4x8xf32>, tensor<8x3xf32>, tensor<4x8xf32>
}

// 16-bit floats are rounded before the GELU, which computes in f32.
// SIMPLE-LABEL: func.func @narrow
// SIMPLE: %[[SUM:.*]] = nn.add %{{.*}}, %{{.*}} : tensor<4x8xf32>
// SIMPLE: %[[Z:.*]] = nn.cast %[[SUM]] : tensor<4x8xf32> -> tensor<4x8xbf16>
// SIMPLE: %[[X:.*]] = nn.cast %[[Z]] : tensor<4x8xbf16> -> tensor<4x8xf32>
// SIMPLE: nn.gelu %[[X]] tanh
func.func @narrow(%x: tensor<4x3xbf16> {nn.name = "narrow.x"}, %w: tensor<3x8xbf16> {nn.name = "narrow.w"}, %b: tensor<8xbf16> {nn.name = "narrow.b"}) -> tensor<4x8xbf16> {
  %y = nn.matmul_epilogue gelu %x, %w with %b : (tensor<4x3xbf16>, tensor<3x8xbf16>, tensor<8xbf16>) -> tensor<4x8xbf16>
  return %y : tensor<4x8xbf16>
}

// Values of torch.nn.functional.gelu(approximate="tanh") and of its gradient, for 2 * 1 + 0.5 and for 2 * -1 - 1.
// VALUES: [2.5, -3]
// VALUES: [2.4849{{.*}}, -0.003637{{.*}}]
// VALUES: [2.5, -3]
// VALUES: [2.0759{{.*}}, 0.02316{{.*}}]
func.func @values() -> (tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>) {
  %x = nn.constant dense<2.0> : tensor<1x1xf32>
  %w = nn.constant dense<[[1.0, -1.0]]> : tensor<1x2xf32>
  %b = nn.constant dense<[0.5, -1.0]> : tensor<2xf32>
  %s = nn.matmul_epilogue bias %x, %w with %b : (tensor<1x1xf32>, tensor<1x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %y, %z = nn.matmul_epilogue gelu %x, %w with %b : (tensor<1x1xf32>, tensor<1x2xf32>, tensor<2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>)
  %g = nn.matmul_epilogue gelu_grad %x, %w with %z : (tensor<1x1xf32>, tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x2xf32>
  return %s, %y, %z, %g : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>
}
