// RUN: shale-opt %s --shale-assign-optimizers='optimizer=muon' | FileCheck %s
// RUN: shale-opt %s --shale-assign-optimizers='optimizer=muon optimizer-for=h\.0\.up=adamw,head|hidden=muon' | FileCheck %s --check-prefix=CHOSEN
// RUN: shale-opt %s --shale-assign-optimizers='optimizer=lion' | FileCheck %s --check-prefix=WITHOUT
// RUN: not shale-opt %s --shale-assign-optimizers='optimizer=muon optimizer-for=haed=muon' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not shale-opt %s --shale-assign-optimizers='optimizer=muon optimizer-for=(=muon' 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not shale-opt %s --shale-assign-optimizers='optimizer=muon optimizer-for=up=muon,h\.0=adamw' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not shale-opt %s --shale-assign-optimizers='optimizer=muon optimizer-for=norm=muon' 2>&1 | FileCheck %s --check-prefix=VECTOR
// RUN: not shale-opt %s --shale-assign-optimizers='optimizer=muon optimizer-for=head=sgd' 2>&1 | FileCheck %s --check-prefix=THIRD
// RUN: not shale-opt %s --shale-assign-optimizers='optimizer=lion optimizer-for=head=adamw' 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: not shale-opt %s --shale-assign-optimizers='optimizer=muon optimizer-for=head=moun' 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not shale-opt %s --shale-assign-optimizers='optimizer=muon optimizer-for==muon' 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not shale-opt %s --shale-assign-optimizers='optimizer=nosuch' 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// The table, the positions that no matmul reads, the vector and the head are AdamW's. A matmul between weight and head, such as
// that of the transposed `down`, is hidden.
// CHECK: @embed.w {{.*}}nn.optimizer = "adamw"
// CHECK: @positions {{.*}}nn.optimizer = "adamw"
// CHECK: @norm.w {{.*}}nn.optimizer = "adamw"
// CHECK: @h.0.up.w role = param type = tensor<8x12xf32>{{$}}
// CHECK: @h.0.down.w role = param type = tensor<8x12xf32>{{$}}
// CHECK: @head.w {{.*}}nn.optimizer = "adamw"
// CHOSEN: @embed.w {{.*}}nn.optimizer = "adamw"
// CHOSEN: @h.0.up.w {{.*}}nn.optimizer = "adamw"
// CHOSEN: @h.0.down.w role = param type = tensor<8x12xf32>{{$}}
// CHOSEN: @head.w role = param type = tensor<16x8xf32> {names = ["tied.hidden"]}{{$}}
// WITHOUT-NOT: role = param {{.*}}nn.optimizer
// NONE: optimizer-for: 'haed' matches no parameter; similar names: 'head.w'
// BAD: optimizer-for: '(' is not a regular expression: parentheses not balanced
// TWICE: optimizer-for: 'h\.0' matches parameter 'h.0.up.w', to which another entry gives muon
// VECTOR: optimizer-for: parameter 'norm.w' of 'tensor<8xf32>' is no matrix, and muon updates matrices only: leave it to adamw
// THIRD: optimizer-for: 'head=sgd': with --optimizer muon a parameter has muon or adamw
// ALL: optimizer-for: optimizer 'lion' updates all parameters; --optimizer muon leaves some to another one
// WORD: expects REGEX=NAME, separated by commas, with names of optimizers (adamw, {{.*}}); got
// UNKNOWN: for the --optimizer option: 'nosuch' is not one of adamw
nn.state @embed.w role = param type = tensor<16x8xf32>
nn.state @positions role = param type = tensor<4x8xf32>
nn.state @norm.w role = param type = tensor<8xf32>
nn.state @h.0.up.w role = param type = tensor<8x12xf32>
nn.state @h.0.down.w role = param type = tensor<8x12xf32>
nn.state @head.w role = param type = tensor<16x8xf32> {names = ["tied.hidden"]}

func.func @forward(%embed: tensor<16x8xf32> {nn.state = @embed.w}, %positions: tensor<4x8xf32> {nn.state = @positions},
                   %norm: tensor<8xf32> {nn.state = @norm.w}, %up: tensor<8x12xf32> {nn.state = @h.0.up.w},
                   %down: tensor<8x12xf32> {nn.state = @h.0.down.w}, %head: tensor<16x8xf32> {nn.state = @head.w},
                   %tokens: tensor<4xi64>) -> tensor<f32> {
  %0 = nn.embedding %embed, %tokens : (tensor<16x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %1 = nn.add %0, %positions : tensor<4x8xf32>
  %2 = nn.broadcast %norm dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %3 = nn.mul %1, %2 : tensor<4x8xf32>
  %4 = nn.matmul %3, %up : (tensor<4x8xf32>, tensor<8x12xf32>) -> tensor<4x12xf32>
  %5 = nn.transpose %down perm = [1, 0] : tensor<8x12xf32> -> tensor<12x8xf32>
  %6 = nn.matmul %4, %5 : (tensor<4x12xf32>, tensor<12x8xf32>) -> tensor<4x8xf32>
  %7 = nn.matmul %6, %head transpose_rhs : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %8 = nn.mul %7, %7 : tensor<4x16xf32>
  %9 = nn.reduce sum %8 dims = [0, 1] : tensor<4x16xf32> -> tensor<f32>
  return %9 : tensor<f32>
}
