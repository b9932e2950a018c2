// RUN: shale-opt %s --shale-annotate-units | FileCheck %s
// RUN: shale-opt %s --shale-annotate-units=policy=match:mlp | FileCheck %s --check-prefix=MATCH
// RUN: shale-opt %s --shale-annotate-units=policy=class:Mlp | FileCheck %s --check-prefix=CLASS
// RUN: shale-opt %s --shale-annotate-units=policy=class:t.Block | FileCheck %s --check-prefix=BLOCK
// RUN: not shale-opt %s --shale-annotate-units=policy=class:lock 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: shale-opt %s --shale-annotate-units=policy=size:60 | FileCheck %s --check-prefix=SIZE

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
module attributes {nn.classes = {t.h.0 = "t.Block", t.h.1 = "t.Block", t.h.0.mlp = "t.Mlp"}} {
nn.state @"t.h.0.w" role = param type = tensor<4x8xf32>
nn.state @"t.h.0.mlp.0.w" role = param type = tensor<4x8xf32>
nn.state @"t.h.1.w" role = param type = tensor<4x8xf32>
nn.state @"t.h.1.tied" role = param type = tensor<4xf32> {names = ["t.h.0.tied"]}
nn.state @"t.wte" role = param type = tensor<4x8xf32>
nn.state @"t.head.0.b" role = param type = tensor<2xf32>
nn.state @"t.head.2.b" role = param type = tensor<2xf32>
}
