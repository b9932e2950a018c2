// RUN: shale-opt %s --split-input-file --verify-diagnostics

// matmul_c1: ranks
func.func @matmul_c1(%a: tensor<4xf32>) {
  // expected-error@+1 {{ranks must be equal and at least 2}}
  %0 = nn.matmul %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return
}

// -----

// matmul_c1_types: element types
func.func @matmul_c1_types(%a: tensor<6x4xf32>, %b: tensor<4x8xf64>) {
  // expected-error@+1 {{element types equal}}
  %0 = nn.matmul %a, %b : (tensor<6x4xf32>, tensor<4x8xf64>) -> tensor<6x8xf32>
  return
}

// -----

// matmul_c2: batch dimensions
func.func @matmul_c2(%a: tensor<2x6x4xf32>, %b: tensor<3x4x8xf32>) {
  // expected-error@+1 {{batch dimensions must be equal}}
  %0 = nn.matmul %a, %b : (tensor<2x6x4xf32>, tensor<3x4x8xf32>) -> tensor<2x6x8xf32>
  return
}

// -----

// matmul_c3: k agrees
func.func @matmul_c3(%a: tensor<6x4xf32>, %b: tensor<8x4xf32>) {
  // expected-error@+1 {{m, n and k must agree}}
  %0 = nn.matmul %a, %b : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
  return
}

// -----

// matmul_c3_m: m agrees
func.func @matmul_c3_m(%a: tensor<6x4xf32>, %b: tensor<4x8xf32>) {
  // expected-error@+1 {{m, n and k must agree}}
  %0 = nn.matmul %a, %b transpose_lhs : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  return
}
