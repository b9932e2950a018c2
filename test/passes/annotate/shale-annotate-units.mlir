// RUN: split-file %s %t && cd %t
// RUN: shale-opt large.mlir --shale-annotate-units | FileCheck %s --check-prefix=LARGE
// RUN: shale-opt large.mlir --shale-annotate-units=unit=class:Block | FileCheck %s --check-prefix=TYPED
// RUN: shale-opt blocks.mlir --shale-annotate-units | FileCheck %s
// RUN: shale-opt blocks.mlir --shale-annotate-units=unit=match:mlp | FileCheck %s --check-prefix=MATCH
// RUN: shale-opt blocks.mlir --shale-annotate-units=unit=class:Mlp | FileCheck %s --check-prefix=CLASS
// RUN: shale-opt blocks.mlir --shale-annotate-units=unit=class:t.Block | FileCheck %s --check-prefix=BLOCK
// RUN: not shale-opt blocks.mlir --shale-annotate-units=unit=class:lock 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: shale-opt blocks.mlir --shale-annotate-units=unit=size:60 | FileCheck %s --check-prefix=SIZE

// Blocks are the outermost scopes that repeat; a Sequential inside a block is
// part of it. A parameter that is tied across units is in root.
// CHECK: @t.h.0.w role = param type = tensor<4x8xf32> {unit = "t.h.0"}
// CHECK: @t.h.0.mlp.0.w {{.*}}unit = "t.h.0"
// CHECK: @t.h.1.w {{.*}}unit = "t.h.1"
// CHECK: @t.h.1.tied {{.*}}unit = "root"
// CHECK: @t.wte {{.*}}unit = "root"
// MATCH: @t.h.0.w {{.*}}unit = "root"
// MATCH: @t.h.0.mlp.0.w {{.*}}unit = "t.h.0.mlp"
// A class is named by its last part, or in full.
// CLASS: @t.h.0.w {{.*}}unit = "root"
// CLASS: @t.h.0.mlp.0.w {{.*}}unit = "t.h.0.mlp"
// BLOCK: @t.h.0.mlp.0.w {{.*}}unit = "t.h.0"
// BLOCK: @t.h.1.w {{.*}}unit = "t.h.1"
// NONE: unit policy class: no module is of class 'lock'; there are Block, Mlp
// The layers of a small head repeat, too, but are not blocks.
// CHECK: @t.head.0.b {{.*}}unit = "root"
// SIZE: @t.h.0.w {{.*}}unit = "t.h.0"
// SIZE: @t.h.0.mlp.0.w {{.*}}unit = "t.h.0"
// SIZE: @t.h.1.w {{.*}}unit = "t"

// Modules beside the blocks with at least a quarter of the largest block's elements are units: the embedding has a quarter, the position
// table less. A module is whole, with the modules in it. A parameter that is tied to one of another module, or that an op of another unit
// reads, is in root, and so is what remains of its module if that is small.
// LARGE: @m.embed.w {{.*}}unit = "m.embed"
// LARGE: @m.positions.w {{.*}}unit = "root"
// LARGE: @m.h.0.w {{.*}}unit = "m.h.0"
// LARGE: @m.h.1.inner.w {{.*}}unit = "m.h.1"
// LARGE: @m.norm.w {{.*}}unit = "root"
// LARGE: @head.norm.w {{.*}}unit = "head"
// LARGE: @head.out.w {{.*}}unit = "head"
// LARGE: @decoder.tied.w {{.*}}unit = "root"
// LARGE: @decoder.bias {{.*}}unit = "root"
// LARGE: @shared.w {{.*}}unit = "root"
// LARGE: @loose {{.*}}unit = "root"
// TYPED: @m.embed.w {{.*}}unit = "root"
// TYPED: @m.h.0.w {{.*}}unit = "m.h.0"
// TYPED: @head.out.w {{.*}}unit = "root"

//--- large.mlir
module attributes {nn.classes = {m.h.0 = "t.Block", m.h.1 = "t.Block"}} {
nn.state @"m.embed.w" role = param type = tensor<4x4xf32>
nn.state @"m.positions.w" role = param type = tensor<15xf32>
nn.state @"m.h.0.w" role = param type = tensor<8x8xf32>
nn.state @"m.h.1.inner.w" role = param type = tensor<8x4xf32>
nn.state @"m.norm.w" role = param type = tensor<4xf32>
nn.state @"head.norm.w" role = param type = tensor<4xf32>
nn.state @"head.out.w" role = param type = tensor<4x4xf32>
nn.state @"decoder.tied.w" role = param type = tensor<4x4xf32> {names = ["encoder.tied.w"]}
nn.state @"decoder.bias" role = param type = tensor<4xf32>
nn.state @"shared.w" role = param type = tensor<4x4xf32>
nn.state @loose role = param type = tensor<4x8xf32>
func.func @forward(%w: tensor<4x4xf32> {nn.state = @shared.w}) -> tensor<4x4xf32> {
  %0 = nn.exp %w {nn.scope = "shared"} : tensor<4x4xf32>
  %1 = nn.add %0, %w {nn.scope = "head.out"} : tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
}
//--- blocks.mlir
module attributes {nn.classes = {t.h.0 = "t.Block", t.h.1 = "t.Block", t.h.0.mlp = "t.Mlp"}} {
nn.state @"t.h.0.w" role = param type = tensor<4x8xf32>
nn.state @"t.h.0.mlp.0.w" role = param type = tensor<4x8xf32>
nn.state @"t.h.1.w" role = param type = tensor<4x8xf32>
nn.state @"t.h.1.tied" role = param type = tensor<4xf32> {names = ["t.h.0.tied"]}
nn.state @"t.wte" role = param type = tensor<4x8xf32>
nn.state @"t.head.0.b" role = param type = tensor<2xf32>
nn.state @"t.head.2.b" role = param type = tensor<2xf32>
}
