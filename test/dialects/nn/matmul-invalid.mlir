// RUN: shale-opt %s --split-input-file --verify-diagnostics

// matmul_c1: operands of different ranks
func.func @matmul_c1(%a: tensor<4xf32>) {
  // expected-error@+1 {{ranks must be equal and at least 2}}
  %0 = nn.matmul %a, %a : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return
}

// -----

// matmul_c1_types: operands of different element types
func.func @matmul_c1_types(%a: tensor<6x4xf32>, %b: tensor<4x8xf64>) {
  // expected-error@+1 {{element types equal}}
  %0 = nn.matmul %a, %b : (tensor<6x4xf32>, tensor<4x8xf64>) -> tensor<6x8xf32>
  return
}

// -----

// matmul_c2: different batch dimensions
func.func @matmul_c2(%a: tensor<2x6x4xf32>, %b: tensor<3x4x8xf32>) {
  // expected-error@+1 {{batch dimensions must be equal}}
  %0 = nn.matmul %a, %b : (tensor<2x6x4xf32>, tensor<3x4x8xf32>) -> tensor<2x6x8xf32>
  return
}

// -----

// matmul_c3: the operands differ in k
func.func @matmul_c3(%a: tensor<6x4xf32>, %b: tensor<8x4xf32>) {
  // expected-error@+1 {{m, n and k must agree}}
  %0 = nn.matmul %a, %b : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
  return
}

// -----

// matmul_c3_m: the result has another m
func.func @matmul_c3_m(%a: tensor<6x4xf32>, %b: tensor<4x8xf32>) {
  // expected-error@+1 {{m, n and k must agree}}
  %0 = nn.matmul %a, %b transpose_lhs : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  return
}

// -----

// matmul_add_c1: the sum of bf16 matmuls is not f32
func.func @matmul_add_c1(%s: tensor<6x8xbf16>, %a: tensor<6x4xbf16>, %b: tensor<4x8xbf16>) {
  // expected-error@+1 {{the result must have the type in which matmuls of 'tensor<6x4xbf16>' are summed; got 'tensor<6x8xbf16>'}}
  %0 = nn.matmul_add %s, %a, %b : (tensor<6x8xbf16>, tensor<6x4xbf16>, tensor<4x8xbf16>) -> tensor<6x8xbf16>
  return
}

// -----

// matmul_add_c1_k: the operands differ in k
func.func @matmul_add_c1_k(%s: tensor<6x8xf32>, %a: tensor<6x4xf32>, %b: tensor<8x4xf32>) {
  // expected-error@+1 {{m, n and k must agree}}
  %0 = nn.matmul_add %s, %a, %b : (tensor<6x8xf32>, tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
  return
}

// -----

func.func @matmul_add_sum(%s: tensor<6x7xf32>, %a: tensor<6x4xf32>, %b: tensor<4x8xf32>) {
  // expected-error@+1 {{failed to verify that all of {sum, result} have same type}}
  %0 = nn.matmul_add %s, %a, %b : (tensor<6x7xf32>, tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  return
}

// -----

// matmul_c4: two types
func.func @matmul_c4(%a: tensor<4x4xf32>) {
  // expected-error@+1 {{must be of rank 2, with two types of f8E4M3FN and f8E5M2, not both f8E5M2; got [f8E4M3FN]}}
  %0 = nn.matmul %a, %a quantized [f8E4M3FN] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

// matmul_c4: of 8 bits
func.func @matmul_c4_types(%a: tensor<4x4xf32>) {
  // expected-error@+1 {{not both f8E5M2; got [f8E4M3FN, bf16]}}
  %0 = nn.matmul %a, %a quantized [f8E4M3FN, bf16] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @matmul_c4_both(%a: tensor<4x4xf32>) {
  // expected-error@+1 {{not both f8E5M2; got [f8E5M2, f8E5M2]}}
  %0 = nn.matmul %a, %a quantized [f8E5M2, f8E5M2] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return
}

// -----

func.func @matmul_c4_batch(%a: tensor<2x4x4xf32>) {
  // expected-error@+1 {{must be of rank 2}}
  %0 = nn.matmul %a, %a quantized [f8E4M3FN, f8E4M3FN] : (tensor<2x4x4xf32>, tensor<2x4x4xf32>) -> tensor<2x4x4xf32>
  return
}
