// RUN: shale-opt %s --split-input-file --verify-diagnostics

// state_c1: a role that does not exist.
// expected-error@+1 {{role must be param, buffer, running, divided, moment, grad_accumulator, residual or loss_scale; got input}}
nn.state @w role = input type = tensor<8xf32>

// -----

// state_c2: init is not a reference or dense elements.
// expected-error@+1 {{init must be #nn.file, #nn.fill or dense elements; got 1}}
nn.state @w role = param type = tensor<8xf32> {init = 1 : i64}

// -----

// state_c2: dense elements of another shape than the state's.
// expected-error@+1 {{dense init must have the state's shape, floats for floats, and at most 4194304 bytes; got 'tensor<2xf32>'}}
nn.state @w role = param type = tensor<8xf32> {init = dense<[1.0, 2.0]> : tensor<2xf32>}

// -----

// state_c2: dense integers for a state of floats.
// expected-error@+1 {{dense init must have the state's shape, floats for floats, and at most 4194304 bytes; got 'tensor<2xi32>'}}
nn.state @w role = param type = tensor<2xbf16> {init = dense<[1, 2]> : tensor<2xi32>}

// -----

// state_c2: not as many bytes as the type has.
// expected-error@+1 {{init has 31 bytes, the type 'tensor<8xf32>' needs 32}}
nn.state @w role = param type = tensor<8xf32> {init = #nn.file<"m", offset = 0, length = 31, transposed = false>}

// -----

// state_c2: not as many bytes as the file's elements have.
// expected-error@+1 {{init has 32 bytes, the type 'tensor<8xf32>' needs 16}}
nn.state @w role = param type = tensor<8xf32> {init = #nn.file<"m", offset = 0, length = 32, transposed = false, type = bf16>}

// -----

// state_c2: the bytes fit f32, but the file's type is bf16.
// expected-error@+1 {{init has 32 bytes, the type 'tensor<8xbf16>' needs 16}}
nn.state @w role = param type = tensor<8xbf16> {init = #nn.file<"m", offset = 0, length = 32, transposed = false, type = bf16>}

// -----

// state_c2: a file type for a state of integers.
// expected-error@+1 {{init has elements of 'bf16' for a state of 'tensor<8xi32>'}}
nn.state @w role = buffer type = tensor<8xi32> {init = #nn.file<"m", offset = 0, length = 16, transposed = false, type = bf16>}

// -----

// A file type that is not a float.
// expected-error@+1 {{type must be f32, bf16 or f16; got 'i32'}}
nn.state @w role = param type = tensor<8xf32> {init = #nn.file<"m", offset = 0, length = 32, transposed = false, type = i32>}

// -----

// expected-error@+1 {{'nn.file_type' must be bf16 or f16, on a module}}
module attributes {nn.file_type = f32} {}

// -----

// state_c2: a transposed state that is not 2-D.
// expected-error@+1 {{only a 2-D state can be transposed in its file}}
nn.state @w role = param type = tensor<8xf32> {init = #nn.file<"m", offset = 0, length = 32, transposed = true>}

// -----

// The end of a file's range overflows 64 bits.
// expected-error@+1 {{offset and length must not be negative, nor their sum overflow}}
nn.state @w role = param type = tensor<8xf32> {init = #nn.file<"m", offset = 9223372036854775807, length = 32, transposed = false>}

// -----

// state_c3: a moment without a parameter.
// expected-error@+1 {{'of' names the parameter of a moment or accumulator, and only of these}}
nn.state @w role = moment("moment1") type = tensor<8xf32>

// -----

// state_c3: a parameter that belongs to a state.
// expected-error@+1 {{'of' names the parameter of a moment or accumulator, and only of these}}
nn.state @w role = param type = tensor<8xf32> {of = @w}

// -----

// state_c3: a residual that belongs to a state.
// expected-error@+1 {{'of' names the parameter of a moment or accumulator, and only of these}}
nn.state @r role = residual type = tensor<8xf32> {of = @w}

// -----

// An unknown attribute.
// expected-error@+1 {{unknown attribute 'nn.nobody'}}
func.func @f(%a: tensor<f32> {nn.nobody = 1 : i64}) {
  return
}

// -----

// A buffer with a type and no file, and one with a file and no flag 'persistent'.
// expected-error@+1 {{'nn.buffers' must be a dictionary of {persistent = bool} or}}
module attributes {nn.buffers = {mask = {persistent = true, type = tensor<4xf32>}}} {}

// -----

// expected-error@+1 {{'nn.buffers' must be a dictionary of {persistent = bool} or}}
module attributes {nn.buffers = {mask = {type = tensor<4xf32>, init = #nn.file<"w", offset = 0, length = 16, transposed = false>}}} {}

// -----

// A reference to a state that does not exist.
// expected-error@+1 {{'nn.state' names no nn.state: @w}}
func.func @f(%a: tensor<f32> {nn.state = @w}) {
  return
}

// -----

// A dimension that the value does not have.
// expected-error@+1 {{'nn.batch_dim' must be a dimension of the value}}
func.func @f(%a: tensor<4xf32> {nn.batch_dim = 1 : i64}) {
  return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error@+1 {{'nn.phase' must be #nn.phase}}
  %0 = nn.neg %a {nn.phase = "forward"} : tensor<4xf32>
  return
}

// -----

// state_c4: a moment without a slot.
// expected-error@+1 {{a moment, and nothing else, has a slot: letters, digits and '_', not 'param' or 'loss_scale'; got ''}}
nn.state @m role = moment type = tensor<8xf32> {of = @w}

// -----

// state_c4: a parameter with a slot.
// expected-error@+1 {{a moment, and nothing else, has a slot: letters, digits and '_', not 'param' or 'loss_scale'; got 'm'}}
nn.state @m role = param("m") type = tensor<8xf32>

// -----

// state_c4: a slot name that checkpoints cannot store.
// expected-error@+1 {{a moment, and nothing else, has a slot: letters, digits and '_', not 'param' or 'loss_scale'; got '../x'}}
nn.state @m role = moment("../x") type = tensor<8xf32> {of = @w}

// -----

// state_c4: a slot name that is already used in checkpoints.
// expected-error@+1 {{a moment, and nothing else, has a slot: letters, digits and '_', not 'param' or 'loss_scale'; got 'param'}}
nn.state @m role = moment("param") type = tensor<8xf32> {of = @w}

// -----

// update_factors_c1: a factor of 1 is left out.
// expected-error@+1 {{needs a factor other than 1}}
nn.state @w role = param type = tensor<8xf32> {factors = #nn.update_factors<decay = 1.0>}

// -----

// update_factors_c1: an infinite factor.
// expected-error@+1 {{factors must be finite; got array<f64: 1.000000e+00, 0x7FF0000000000000>}}
nn.state @w role = param type = tensor<8xf32> {factors = #nn.update_factors<lr_scale = 1.0e999>}

// -----

// expected-error@+1 {{unknown factor 'momentum'}}
nn.state @w role = param type = tensor<8xf32> {factors = #nn.update_factors<momentum = 0.5>}

// -----

// expected-error@+1 {{factor 'decay' is given twice}}
nn.state @w role = param type = tensor<8xf32> {factors = #nn.update_factors<decay = 0.0, decay = 0.5>}

// -----

// expected-error@+1 {{expected valid keyword}}
nn.state @w role = param type = tensor<8xf32> {factors = #nn.update_factors<>}

// -----

// state_c5: a misspelled attribute, or one of an older version, which nothing would read.
// expected-error@+1 {{has no attribute 'lr_scale'}}
nn.state @w role = param type = tensor<8xf32> {lr_scale = 2.0 : f64}

// -----

// expected-error @+1 {{'nn.binding' must be a word of include/shale/Words.def, such as "tokens"; got "tokenz"}}
func.func @f(%x: tensor<2xi64> {nn.binding = "tokenz"}) -> tensor<2xi64> {
  return %x : tensor<2xi64>
}

// -----

// expected-error @+1 {{'nn.binding' must be a word of include/shale/Words.def, such as "tokens"; got 1 : i64}}
func.func @f(%x: tensor<2xi64> {nn.binding = 1 : i64}) -> tensor<2xi64> {
  return %x : tensor<2xi64>
}
