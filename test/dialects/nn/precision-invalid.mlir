// RUN: shale-opt %s --split-input-file --verify-diagnostics

// A parameter type that is not supported.
// expected-error@+1 {{param, reduce and buffer must be f32, bf16 or f16; got 'f64'}}
module attributes {nn.precision = #nn.precision<param = f64, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {}

// -----

// expected-error@+1 {{master must be f32 or the param type 'bf16'; got 'f16'}}
module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f16, optimizer = f32>} {}

// -----

// expected-error@+1 {{optimizer must be f32 or bf16; got 'f16'}}
module attributes {nn.precision = #nn.precision<param = f16, reduce = f32, buffer = f32, master = f32, optimizer = f16>} {}

// -----

// expected-error@+1 {{'nn.precision' must be #nn.precision}}
module attributes {nn.precision = "bf16"} {}

// -----

// matmul_c1: a matmul of f32 operands has a 16-bit result.
func.func @narrow(%a: tensor<4x8xf32>, %b: tensor<8x2xf32>) {
  // expected-error@+1 {{element types equal}}
  %0 = nn.matmul %a, %b : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xbf16>
  return
}

// -----

// reduce_c2
func.func @reduce(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{result must be 'tensor<4xf32>'}}
  %0 = nn.reduce sum %a dims = [1] : tensor<4x8xf32> -> tensor<4xbf16>
  return
}

// -----

// sum_squares_c1
func.func @squares(%a: tensor<8xf32>) {
  // expected-error@+1 {{operands must have the result's element type}}
  %0 = nn.sum_squares %a : (tensor<8xf32>) -> tensor<bf16>
  return
}
