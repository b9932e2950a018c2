// RUN: shale-opt %s --shale-plan-sharding --split-input-file --verify-diagnostics | FileCheck %s

#column = #dist.tensor_split<column>
#row = #dist.tensor_split<row>

// The dimension follows from the use: weights [out, in] and [in, out], through a cast and a transpose; a bias; a table.
// A table that is read by a lookup and by a matmul is split as the matmul needs it. What is added to a sum is whole.
// CHECK-LABEL: func.func @forward
// CHECK-SAME: %{{[^:]*}}: tensor<6x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>, nn.state = @out_in}
// CHECK-SAME: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>, nn.state = @in_out}
// CHECK-SAME: tensor<6xf32> {dist.sharding = #dist.sharding<[{"tp"}]>, nn.state = @bias}
// CHECK-SAME: tensor<8x6xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>, nn.state = @down}
// CHECK-SAME: tensor<8xf32> {nn.state = @down_bias}
// CHECK-SAME: tensor<10x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>, nn.state = @tied}
// CHECK-SAME: tensor<12x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>, nn.state = @table}
// CHECK-SAME: tensor<8xf32> {nn.state = @kept}
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2, tensor "one"=1]>
nn.state @out_in role = param type = tensor<6x8xf32> {dist.tensor = #column}
nn.state @in_out role = param type = tensor<8x6xf32> {dist.tensor = #column}
nn.state @bias role = param type = tensor<6xf32> {dist.tensor = #column}
nn.state @down role = param type = tensor<8x6xf32> {dist.tensor = #row}
nn.state @down_bias role = param type = tensor<8xf32> {dist.tensor = #row}
nn.state @tied role = param type = tensor<10x8xf32> {dist.tensor = #column}
nn.state @table role = param type = tensor<12x8xf32> {dist.tensor = #column}
nn.state @kept role = param type = tensor<8xf32> {dist.tensor = #dist.tensor_split<whole>}
func.func @forward(%x: tensor<4x8xbf16>, %w: tensor<6x8xf32> {nn.state = @out_in}, %v: tensor<8x6xf32> {nn.state = @in_out},
                   %b: tensor<6xf32> {nn.state = @bias}, %d: tensor<8x6xf32> {nn.state = @down}, %db: tensor<8xf32> {nn.state = @down_bias},
                   %t: tensor<10x8xf32> {nn.state = @tied}, %e: tensor<12x8xf32> {nn.state = @table}, %k: tensor<8xf32> {nn.state = @kept},
                   %ids: tensor<4xi64>) -> (tensor<4x6xbf16>, tensor<4x8xf32>, tensor<4x10xf32>, tensor<8xf32>) {
  %wc = nn.cast %w : tensor<6x8xf32> -> tensor<6x8xbf16>
  %wt = nn.transpose %wc perm = [1, 0] : tensor<6x8xbf16> -> tensor<8x6xbf16>
  %h0 = nn.matmul %x, %wt : (tensor<4x8xbf16>, tensor<8x6xbf16>) -> tensor<4x6xbf16>
  %tok = nn.embedding %t, %ids : (tensor<10x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %pos = nn.embedding %e, %ids : (tensor<12x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %both = nn.add %tok, %pos : tensor<4x8xf32>
  %h1 = nn.matmul %both, %v : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %bb = nn.broadcast %b dims = [1] : tensor<6xf32> -> tensor<4x6xf32>
  %h2 = nn.add %h1, %bb : tensor<4x6xf32>
  %y = nn.matmul %h2, %d transpose_rhs : (tensor<4x6xf32>, tensor<8x6xf32>) -> tensor<4x8xf32>
  %dbb = nn.broadcast %db dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %z = nn.add %y, %dbb : tensor<4x8xf32>
  %logits = nn.matmul %z, %t transpose_rhs : (tensor<4x8xf32>, tensor<10x8xf32>) -> tensor<4x10xf32>
  return %h0, %z, %logits, %k : tensor<4x6xbf16>, tensor<4x8xf32>, tensor<4x10xf32>, tensor<8xf32>
}

// -----

// Backward ops read parameters in other roles.
// CHECK-LABEL: func.func @step
// CHECK-SAME: tensor<6x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>, nn.state = @w}
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @w role = param type = tensor<6x8xf32> {dist.tensor = #dist.tensor_split<column>}
func.func @step(%g: tensor<4x6xf32>, %w: tensor<6x8xf32> {nn.state = @w}, %x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x6xf32>) {
  %dx = nn.matmul %g, %w {nn.phase = #nn.phase<backward>} : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %y = nn.matmul %x, %w transpose_rhs {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
  return %dx, %y : tensor<4x8xf32>, tensor<4x6xf32>
}

// -----

// expected-error@below {{tensor: parameter 'w' of 'tensor<9x8xf32>' cannot be split by column over 2 ranks: dimension 0 has 9 elements, which divide over 3, 9 ranks; or use =whole}}
module {
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @w role = param type = tensor<9x8xf32> {dist.tensor = #dist.tensor_split<column>}
func.func @forward(%x: tensor<4x8xf32>, %w: tensor<9x8xf32> {nn.state = @w}) -> tensor<4x9xf32> {
  %y = nn.matmul %x, %w transpose_rhs : (tensor<4x8xf32>, tensor<9x8xf32>) -> tensor<4x9xf32>
  return %y : tensor<4x9xf32>
}
}

// -----

// expected-error@below {{tensor: parameter 'w' cannot be split by row: its uses sum over none of its dimensions; use =whole}}
module {
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @w role = param type = tensor<4x8xf32> {dist.tensor = #dist.tensor_split<row>}
func.func @forward(%x: tensor<4x8xf32>, %w: tensor<4x8xf32> {nn.state = @w}) -> tensor<4x8xf32> {
  %y = nn.add %x, %w : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
}

// -----

// expected-error@below {{tensor: parameter 'w' cannot be split by column: its uses keep none of its dimensions; use =whole}}
module {
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @w role = param type = tensor<8xf32> {dist.tensor = #dist.tensor_split<column>}
func.func @forward(%w: tensor<8xf32> {nn.state = @w}) -> tensor<8xf32> {
  %y = nn.softmax %w : tensor<8xf32>
  return %y : tensor<8xf32>
}
}
