// RUN: shale-opt %s --shale-annotate-tensor='tensor=q_proj|up=column,(o|down)_{1,2}proj=row,q_proj.b=column' | FileCheck %s
// RUN: not shale-opt %s --shale-annotate-tensor='tensor=q_prog=column' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not shale-opt %s --shale-annotate-tensor='tensor=(=column' 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not shale-opt %s --shale-annotate-tensor='tensor=up=column,u=row' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not shale-opt %s --shale-annotate-tensor='tensor=up=columns' 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not shale-opt %s --shale-annotate-tensor='tensor=up' 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not shale-opt %s --shale-annotate-tensor='tensor==row' 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not shale-opt %s --shale-annotate-tensor='tensor=up=row,' 2>&1 | FileCheck %s --check-prefix=WORD

// A comma within an expression is part of it. Buffers do not match.
// CHECK: @h.0.q_proj.w role = param type = tensor<4x4xf32> {dist.tensor = #dist.tensor_split<column>}
// CHECK: @h.0.q_proj.b role = param type = tensor<4xf32> {dist.tensor = #dist.tensor_split<column>}
// CHECK: @h.0.o_proj.w {{.*}}dist.tensor = #dist.tensor_split<row>
// CHECK: @h.0.up.w {{.*}}dist.tensor = #dist.tensor_split<column>, names = ["tied.w"]
// CHECK: @h.0.down__proj.w {{.*}}dist.tensor = #dist.tensor_split<row>
// CHECK: @h.0.norm.w role = param type = tensor<4xf32>{{$}}
// CHECK: @h.0.up.mask role = buffer type = tensor<4xf32>{{$}}
// NONE: tensor: 'q_prog' matches no parameter; similar names: {{.*}}'h.0.q_proj.w'
// BAD: tensor: '(' is not a regular expression: parentheses not balanced
// TWICE: tensor: 'u=row' contradicts another entry, which makes parameter 'h.0.up.w' column
// WORD: expects REGEX=column|row|whole, separated by commas; got
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
nn.state @"h.0.q_proj.w" role = param type = tensor<4x4xf32>
nn.state @"h.0.q_proj.b" role = param type = tensor<4xf32>
nn.state @"h.0.o_proj.w" role = param type = tensor<4x4xf32>
nn.state @"h.0.up.w" role = param type = tensor<8x4xf32> {names = ["tied.w"]}
nn.state @"h.0.down__proj.w" role = param type = tensor<4x8xf32>
nn.state @"h.0.norm.w" role = param type = tensor<4xf32>
nn.state @"h.0.up.mask" role = buffer type = tensor<4xf32>
