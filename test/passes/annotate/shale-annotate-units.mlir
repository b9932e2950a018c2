// RUN: shale-opt %s --shale-annotate-units | FileCheck %s
// RUN: shale-opt %s --shale-annotate-units=policy=match:mlp | FileCheck %s --check-prefix=MATCH
// RUN: shale-opt %s --shale-annotate-units=policy=size:60 | FileCheck %s --check-prefix=SIZE

// Blocks are the outermost scopes that repeat; a Sequential inside a block is
// part of it; what is tied across units is in root.
// CHECK: @t.h.0.w role = param type = tensor<4x8xf32> {unit = "t.h.0"}
// CHECK: @t.h.0.mlp.0.w {{.*}}unit = "t.h.0"
// CHECK: @t.h.1.w {{.*}}unit = "t.h.1"
// CHECK: @t.h.1.tied {{.*}}unit = "root"
// CHECK: @t.wte {{.*}}unit = "root"
// MATCH: @t.h.0.w {{.*}}unit = "root"
// MATCH: @t.h.0.mlp.0.w {{.*}}unit = "t.h.0.mlp"
// SIZE: @t.h.0.w {{.*}}unit = "t.h.0"
// SIZE: @t.h.0.mlp.0.w {{.*}}unit = "t.h.0"
// SIZE: @t.h.1.w {{.*}}unit = "t"
nn.state @"t.h.0.w" role = param type = tensor<4x8xf32>
nn.state @"t.h.0.mlp.0.w" role = param type = tensor<4x8xf32>
nn.state @"t.h.1.w" role = param type = tensor<4x8xf32>
nn.state @"t.h.1.tied" role = param type = tensor<4xf32> {names = ["t.h.0.tied"]}
nn.state @"t.wte" role = param type = tensor<4x8xf32>
