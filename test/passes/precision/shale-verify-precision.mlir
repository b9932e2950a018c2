// RUN: shale-opt %s --shale-verify-precision --split-input-file --verify-diagnostics

module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
nn.state @w role = param type = tensor<8xf32>
func.func @step(%w: tensor<8xf32> {nn.state = @w}) {
  // expected-error@+1 {{uses parameter 'w' in 'f32', not in 'bf16'}}
  %0 = nn.abs %w : tensor<8xf32>
  return
}
}

// -----

module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
func.func @step(%x: tensor<8xbf16>) {
  %0 = nn.cast %x : tensor<8xbf16> -> tensor<8xf32>
  // expected-error@+1 {{undoes the cast before it}}
  %1 = nn.cast %0 : tensor<8xf32> -> tensor<8xbf16>
  return
}
}

// -----

module attributes {nn.precision = #nn.precision<param = bf16, reduce = bf16, buffer = f32, master = f32, optimizer = f32>} {
nn.state @w role = param type = tensor<8xf32>
nn.state @v role = moment("momentum") type = tensor<8xf32> {of = @w}
func.func @step(%w: tensor<8xf32> {nn.state = @w}, %v: tensor<8xf32> {nn.state = @v}, %h: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{takes a gradient of 'f32' where 'bf16' is reduced}}
  %p, %v1 = nn.sgd %w, %v, %v enable %e scale %h lr %h momentum %h weight_decay %h : tensor<8xf32>, tensor<f32>
  return
}
}

// -----

module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
// expected-error@+1 {{metric 0 is 'tensor<bf16>', not f32}}
func.func @step(%x: tensor<bf16>) -> (tensor<bf16> {nn.role = #nn.role<metric>, nn.name = "loss"}) {
  return %x : tensor<bf16>
}
}

// -----

module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = bf16, optimizer = f32>} {
nn.state @w role = param type = tensor<8xbf16>
// expected-error@+1 {{argument 0 is 'tensor<8xf32>', its state 'w' 'tensor<8xbf16>'}}
func.func @step(%w: tensor<8xf32> {nn.state = @w}) {
  return
}
}
