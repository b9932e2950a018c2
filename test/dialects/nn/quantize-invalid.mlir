// RUN: shale-opt %s --split-input-file --verify-diagnostics

func.func @operand(%x: tensor<4x8xbf16>) {
  // expected-error@+1 {{operand #0 must be statically shaped tensor of 32-bit float}}
  %0 = nn.quantize %x : tensor<4x8xbf16> -> tensor<4x8xf8E4M3FN>
  return
}

// -----

func.func @result(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{result #0 must be statically shaped tensor of f8E4M3FN type or f8E5M2 type}}
  %0 = nn.quantize %x : tensor<4x8xf32> -> tensor<4x8xf8E4M3>
  return
}

// -----

// quantized_matmul_c1: both operands have k last
func.func @quantized_matmul_c1(%a: tensor<4x8xf8E4M3FN>, %b: tensor<8x16xf8E4M3FN>, %s: tensor<f32>) {
  // expected-error@+1 {{needs lhs [m, k], rhs [n, k] and a result [m, n]}}
  %0 = nn.quantized_matmul %a, %b scales %s, %s : tensor<4x8xf8E4M3FN>, tensor<8x16xf8E4M3FN> -> tensor<4x16xbf16>
  return
}

// -----

// quantized_matmul_c1: no batch
func.func @quantized_matmul_c1_batch(%a: tensor<2x4x8xf8E4M3FN>, %s: tensor<f32>) {
  // expected-error@+1 {{needs lhs [m, k], rhs [n, k] and a result [m, n]}}
  %0 = nn.quantized_matmul %a, %a scales %s, %s : tensor<2x4x8xf8E4M3FN>, tensor<2x4x8xf8E4M3FN> -> tensor<2x4x4xbf16>
  return
}

// -----

// quantized_matmul_c2: no library has matmuls of two matrices of e5m2
func.func @quantized_matmul_c2(%a: tensor<4x8xf8E5M2>, %s: tensor<f32>) {
  // expected-error@+1 {{needs at most one operand of f8E5M2}}
  %0 = nn.quantized_matmul %a, %a scales %s, %s : tensor<4x8xf8E5M2>, tensor<4x8xf8E5M2> -> tensor<4x4xbf16>
  return
}

// -----

func.func @quantized_matmul_c2_result(%a: tensor<4x8xf8E4M3FN>, %s: tensor<f32>) {
  // expected-error@+1 {{and a result of f32 or of a 16-bit float}}
  %0 = nn.quantized_matmul %a, %a scales %s, %s : tensor<4x8xf8E4M3FN>, tensor<4x8xf8E4M3FN> -> tensor<4x4xf64>
  return
}
