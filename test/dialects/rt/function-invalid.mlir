// RUN: shale-opt %s --split-input-file --verify-diagnostics

// func_c1
// expected-error @+1 {{an input needs name, binding, type and batch_dim; got {name = "x"}}}
rt.func @step inputs = [{name = "x"}] hyper = [] metrics = [] {
}

// -----

// func_c1: the binding is a word of include/shale/Words.def.
// expected-error @+1 {{an input needs name, binding, type and batch_dim; got {batch_dim = 0 : i64, binding = "tokenz"}}
rt.func @step inputs = [{name = "x", binding = "tokenz", type = tensor<4xi64>, batch_dim = 0 : i64}] hyper = [] metrics = [] {
}

// -----

// func_c2
// expected-error @+1 {{an input's bound must be positive, and ignored an integer beside it}}
rt.func @step inputs = [{name = "x", binding = "", type = tensor<4xi64>, batch_dim = 0 : i64, bound = 0 : i64}] hyper = [] metrics = [] {
}

// -----

// func_c2
// expected-error @+1 {{an input's bound must be positive, and ignored an integer beside it}}
rt.func @step inputs = [{name = "x", binding = "", type = tensor<4xi64>, batch_dim = 0 : i64, ignored = -1 : i64}] hyper = [] metrics = [] {
}

// -----

// kernel_c1
// expected-error @+1 {{a buffer cannot hold 'tensor<?xf32>'}}
rt.kernel @k(%a: tensor<?xf32>) -> () {
}

// -----

// kernel_c2
// expected-error @+1 {{yield must have the types}}
rt.kernel @k(%a: tensor<4xf32>) -> tensor<4xf32> {
  rt.yield
}

// -----

// kernel_c3
// expected-error @+1 {{alias 1 of result 0 must be an argument of the same type that no other result takes}}
rt.kernel @k(%a: tensor<4xf32>) -> tensor<4xf32> aliases [1] {
  rt.yield %a : tensor<4xf32>
}

// -----

// An unknown attribute.
// expected-error @+1 {{unknown attribute 'rt.speed'}}
module attributes {rt.speed = 4 : i64} {}

// -----

// expected-error @+1 {{'rt.code' must be what a compiled kernel takes}}
rt.kernel @k() -> () attributes {rt.code = {usage = [{registers = 40 : i64}]}} {
  rt.yield
}

// -----

// expected-error @+1 {{'rt.code' must be what a compiled kernel takes}}
rt.kernel @k() -> () attributes {rt.code = {threads = -1 : i64}} {
  rt.yield
}
