// Rows that tensor ranks cannot divide stay whole: a warning has the bytes, and the batches that are split.
// RUN: shale-opt %s --split-input-file --shale-split-sequence 2>&1 >/dev/null | FileCheck %s --implicit-check-not=warning

// 2 examples of 6 positions per data rank for 4 ranks. What "tp" does not split is counted, without views: y, s and n, of 12 x 8 elements on a rank each.
// CHECK: warning: sequence parallelism is off: a data rank has 2 examples, which the 4 ranks of axis 'tp' cannot divide; each of them computes 1152 bytes of the forward pass's activations, instead of 288; use a batch of 8 (4 per data rank), or a sequence of a multiple of 4 positions, or --sequence-parallel false if that is meant
#forward = #nn.phase<forward>
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=4]>
func.func @two(%x: tensor<4x6x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
               %up: tensor<8x12xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}, %down: tensor<12x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>})
    -> tensor<24x8xf32> {
  %flat = nn.reshape %x {nn.phase = #forward} : tensor<4x6x8xf32> -> tensor<24x8xf32>
  %h = nn.matmul %flat, %up {nn.phase = #forward} : (tensor<24x8xf32>, tensor<8x12xf32>) -> tensor<24x12xf32>
  %y = nn.matmul %h, %down {nn.phase = #forward} : (tensor<24x12xf32>, tensor<12x8xf32>) -> tensor<24x8xf32>
  %s = nn.add %flat, %y {nn.phase = #forward} : tensor<24x8xf32>
  %n = nn.gelu %s {nn.phase = #forward} : tensor<24x8xf32>
  return %n : tensor<24x8xf32>
}

// -----

// One example of such a length.
// CHECK: warning: sequence parallelism is off: a data rank has 1 example, which the 4 ranks of axis 'tp' cannot divide; each of them computes 192 bytes of the forward pass's activations, instead of 48; use a batch of 4 (4 per data rank), or a sequence of a multiple of 4 positions, or --sequence-parallel false if that is meant
#forward = #nn.phase<forward>
dist.mesh @mesh <[tensor "tp"=4]>
func.func @one(%x: tensor<1x6x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
               %up: tensor<8x12xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}, %down: tensor<12x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>})
    -> tensor<6x8xf32> {
  %flat = nn.reshape %x {nn.phase = #forward} : tensor<1x6x8xf32> -> tensor<6x8xf32>
  %h = nn.matmul %flat, %up {nn.phase = #forward} : (tensor<6x8xf32>, tensor<8x12xf32>) -> tensor<6x12xf32>
  %y = nn.matmul %h, %down {nn.phase = #forward} : (tensor<6x12xf32>, tensor<12x8xf32>) -> tensor<6x8xf32>
  return %y : tensor<6x8xf32>
}

// -----

// A multiple is split, and a model without sums over the ranks has nothing to split: no warning.
#forward = #nn.phase<forward>
dist.mesh @mesh <[tensor "tp"=4]>
func.func @split(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
                 %up: tensor<8x12xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}, %down: tensor<12x8xf32> {dist.sharding = #dist.sharding<[{"tp"}, {}]>})
    -> tensor<4x8xf32> {
  %h = nn.matmul %x, %up {nn.phase = #forward} : (tensor<4x8xf32>, tensor<8x12xf32>) -> tensor<4x12xf32>
  %y = nn.matmul %h, %down {nn.phase = #forward} : (tensor<4x12xf32>, tensor<12x8xf32>) -> tensor<4x8xf32>
  %n = nn.gelu %y {nn.phase = #forward} : tensor<4x8xf32>
  return %n : tensor<4x8xf32>
}

// -----

#forward = #nn.phase<forward>
dist.mesh @mesh <[tensor "tp"=4]>
func.func @columns(%x: tensor<3x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
                   %up: tensor<8x12xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) -> tensor<3x12xf32> {
  %h = nn.matmul %x, %up {nn.phase = #forward} : (tensor<3x8xf32>, tensor<8x12xf32>) -> tensor<3x12xf32>
  return %h : tensor<3x12xf32>
}
