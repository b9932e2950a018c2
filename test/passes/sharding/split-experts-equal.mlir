// RUN: shale-opt %s --shale-split-experts -o %t.split.mlir
// RUN: shale-run %s --compare=%t.split.mlir --as f64 --tolerance 1e-12 | FileCheck %s
// RUN: shale-opt %s --shale-split-experts --shale-propagate --shale-verify-sharded --shale-partition -o %t.local.mlir
// RUN: shale-run %s --compare=%t.local.mlir --as f64 --tolerance 1e-12 | FileCheck %s

// What is around matmuls of experts computes the same in parts, and on the ranks.
// CHECK-COUNT-9: 0 differ in value
module {
dist.mesh @mesh <[expert "ep"=2]>
nn.state @w role = param type = tensor<4x8x8xf32>
nn.state @v role = param type = tensor<8x8x8xf32>

// Numbers of rows are not those of a part.
func.func @numbers(%x: tensor<12x8xf32> {nn.name = "numbers.x"}, %t: tensor<12x4xf32> {nn.name = "numbers.t"}, %w: tensor<4x8x8xf32> {nn.state = @w}, %v: tensor<8x8x8xf32> {nn.state = @v}) -> tensor<12x8xf32> {
  %top, %numbers = nn.top_k %t : tensor<12x4xf32> -> tensor<12x1xf32>, tensor<12x1xi64>
  %e = nn.reshape %numbers : tensor<12x1xi64> -> tensor<12xi64>
  %i = nn.iota dim = 0 : tensor<12x8xi32>
  %c = nn.cast %i : tensor<12x8xi32> -> tensor<12x8xf32>
  %y = nn.expert_matmul %c, %w experts = %e : (tensor<12x8xf32>, tensor<4x8x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %z = nn.mul %y, %c : tensor<12x8xf32>
  return %z : tensor<12x8xf32>
}

// A row without an expert is the row of one part.
func.func @outside(%x: tensor<12x8xf32> {nn.name = "outside.x"}, %t: tensor<12x4xf32> {nn.name = "outside.t"}, %w: tensor<4x8x8xf32> {nn.state = @w}, %v: tensor<8x8x8xf32> {nn.state = @v}) -> tensor<12x8xf32> {
  %top, %numbers = nn.top_k %t : tensor<12x4xf32> -> tensor<12x1xf32>, tensor<12x1xi64>
  %e = nn.reshape %numbers : tensor<12x1xi64> -> tensor<12xi64>
  %m = nn.constant dense<2> : tensor<12xi64>
  %o = nn.sub %e, %m : tensor<12xi64>
  %y = nn.expert_matmul %x, %w experts = %o : (tensor<12x8xf32>, tensor<4x8x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %z = nn.exp %y : tensor<12x8xf32>
  %s = nn.add %z, %x : tensor<12x8xf32>
  return %s : tensor<12x8xf32>
}

func.func @beyond(%x: tensor<12x8xf32> {nn.name = "beyond.x"}, %t: tensor<12x4xf32> {nn.name = "beyond.t"}, %w: tensor<4x8x8xf32> {nn.state = @w}, %v: tensor<8x8x8xf32> {nn.state = @v}) -> tensor<12x8xf32> {
  %top, %numbers = nn.top_k %t : tensor<12x4xf32> -> tensor<12x1xf32>, tensor<12x1xi64>
  %e = nn.reshape %numbers : tensor<12x1xi64> -> tensor<12xi64>
  %m = nn.constant dense<2> : tensor<12xi64>
  %o = nn.add %e, %m : tensor<12xi64>
  %y = nn.expert_matmul %x, %w experts = %o : (tensor<12x8xf32>, tensor<4x8x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %z = nn.exp %y : tensor<12x8xf32>
  %r = nn.reduce sum %z dims = [0] : tensor<12x8xf32> -> tensor<8xf32>
  %b = nn.broadcast %r dims = [1] : tensor<8xf32> -> tensor<12x8xf32>
  return %b : tensor<12x8xf32>
}

// Other matrices, other parts.
func.func @counts(%x: tensor<12x8xf32> {nn.name = "counts.x"}, %t: tensor<12x4xf32> {nn.name = "counts.t"}, %w: tensor<4x8x8xf32> {nn.state = @w}, %v: tensor<8x8x8xf32> {nn.state = @v}) -> tensor<12x8xf32> {
  %top, %numbers = nn.top_k %t : tensor<12x4xf32> -> tensor<12x1xf32>, tensor<12x1xi64>
  %e = nn.reshape %numbers : tensor<12x1xi64> -> tensor<12xi64>
  %y = nn.expert_matmul %x, %w experts = %e : (tensor<12x8xf32>, tensor<4x8x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %g = nn.exp %y : tensor<12x8xf32>
  %z = nn.expert_matmul %g, %v experts = %e : (tensor<12x8xf32>, tensor<8x8x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  return %z : tensor<12x8xf32>
}

// Zeros of other parts are not divided by zero.
func.func @infinite(%x: tensor<12x8xf32> {nn.name = "infinite.x"}, %t: tensor<12x4xf32> {nn.name = "infinite.t"}, %w: tensor<4x8x8xf32> {nn.state = @w}, %v: tensor<8x8x8xf32> {nn.state = @v}) -> tensor<12x8xf32> {
  %top, %numbers = nn.top_k %t : tensor<12x4xf32> -> tensor<12x1xf32>, tensor<12x1xi64>
  %e = nn.reshape %numbers : tensor<12x1xi64> -> tensor<12xi64>
  %y = nn.expert_matmul %x, %w experts = %e : (tensor<12x8xf32>, tensor<4x8x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %zero = nn.constant dense<0.0> : tensor<12x8xf32>
  %q = nn.div %y, %zero : tensor<12x8xf32>
  %z = nn.tanh %q : tensor<12x8xf32>
  return %z : tensor<12x8xf32>
}

// Constants by row.
func.func @constants(%x: tensor<12x8xf32> {nn.name = "constants.x"}, %t: tensor<12x4xf32> {nn.name = "constants.t"}, %w: tensor<4x8x8xf32> {nn.state = @w}, %v: tensor<8x8x8xf32> {nn.state = @v}) -> tensor<12x8xf32> {
  %top, %numbers = nn.top_k %t : tensor<12x4xf32> -> tensor<12x1xf32>, tensor<12x1xi64>
  %e = nn.reshape %numbers : tensor<12x1xi64> -> tensor<12xi64>
  %k = nn.constant dense<[1.0, 2.0, 0.5, 3.0, 1.5, 2.5, 4.0, 0.25, 1.0, 2.0, 3.0, 4.0]> : tensor<12xf32>
  %b = nn.broadcast %k dims = [0] : tensor<12xf32> -> tensor<12x8xf32>
  %y = nn.expert_matmul %x, %w experts = %e : (tensor<12x8xf32>, tensor<4x8x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %z = nn.mul %y, %b : tensor<12x8xf32>
  return %z : tensor<12x8xf32>
}

// Every second row.
func.func @strided(%x: tensor<12x8xf32> {nn.name = "strided.x"}, %t: tensor<12x4xf32> {nn.name = "strided.t"}, %w: tensor<4x8x8xf32> {nn.state = @w}, %v: tensor<8x8x8xf32> {nn.state = @v}) -> tensor<12x8xf32> {
  %top, %numbers = nn.top_k %t : tensor<12x4xf32> -> tensor<12x1xf32>, tensor<12x1xi64>
  %e = nn.reshape %numbers : tensor<12x1xi64> -> tensor<12xi64>
  %y = nn.expert_matmul %x, %w experts = %e : (tensor<12x8xf32>, tensor<4x8x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %s = nn.slice %y starts = [0, 0] limits = [11, 8] strides = [2, 1] : tensor<12x8xf32> -> tensor<6x8xf32>
  %p = nn.concat %s, %s dim = 0 : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<12x8xf32>
  return %p : tensor<12x8xf32>
}

// Rows joined with columns.
func.func @joined(%x: tensor<12x8xf32> {nn.name = "joined.x"}, %t: tensor<12x4xf32> {nn.name = "joined.t"}, %w: tensor<4x8x8xf32> {nn.state = @w}, %v: tensor<8x8x8xf32> {nn.state = @v}) -> tensor<12x8xf32> {
  %top, %numbers = nn.top_k %t : tensor<12x4xf32> -> tensor<12x1xf32>, tensor<12x1xi64>
  %e = nn.reshape %numbers : tensor<12x1xi64> -> tensor<12xi64>
  %y = nn.expert_matmul %x, %w experts = %e : (tensor<12x8xf32>, tensor<4x8x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %g = nn.exp %y : tensor<12x8xf32>
  %j = nn.reshape %g : tensor<12x8xf32> -> tensor<6x16xf32>
  %r = nn.reduce sum %j dims = [1] : tensor<6x16xf32> -> tensor<6xf32>
  %b = nn.broadcast %r dims = [0] : tensor<6xf32> -> tensor<6x16xf32>
  %z = nn.reshape %b : tensor<6x16xf32> -> tensor<12x8xf32>
  return %z : tensor<12x8xf32>
}

// Two choices of experts.
func.func @choices(%x: tensor<12x8xf32> {nn.name = "choices.x"}, %t: tensor<12x4xf32> {nn.name = "choices.t"}, %w: tensor<4x8x8xf32> {nn.state = @w}, %v: tensor<8x8x8xf32> {nn.state = @v}) -> tensor<12x8xf32> {
  %top, %numbers = nn.top_k %t : tensor<12x4xf32> -> tensor<12x1xf32>, tensor<12x1xi64>
  %e = nn.reshape %numbers : tensor<12x1xi64> -> tensor<12xi64>
  %y = nn.expert_matmul %x, %w experts = %e : (tensor<12x8xf32>, tensor<4x8x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %a = nn.silu %y : tensor<12x8xf32>
  %n = nn.constant dense<3> : tensor<12xi64>
  %f = nn.sub %n, %e : tensor<12xi64>
  %u = nn.expert_matmul %a, %w experts = %f : (tensor<12x8xf32>, tensor<4x8x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  %s = nn.add %u, %a : tensor<12x8xf32>
  %z = nn.expert_matmul %s, %w experts = %e : (tensor<12x8xf32>, tensor<4x8x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
  return %z : tensor<12x8xf32>
}
}
