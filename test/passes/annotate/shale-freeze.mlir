// RUN: shale-opt %s --shale-freeze='freeze=ln|tied' | FileCheck %s
// RUN: not shale-opt %s --shale-freeze='freeze=lm_haed' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not shale-opt %s --shale-freeze='freeze=(' 2>&1 | FileCheck %s --check-prefix=BAD

// Each name of a tied parameter matches. Buffers do not match.
// CHECK: @h.0.ln.w {{.*}}trained = false
// CHECK: @h.0.w role = param type = tensor<4xf32>{{$}}
// CHECK: @lm_head.w {{.*}}trained = false
// CHECK: @ln.mask role = buffer type = tensor<4xf32>{{$}}
// NONE: freeze: 'lm_haed' matches no parameter; similar names: 'lm_head.w'
// BAD: freeze: '(' is not a regular expression: parentheses not balanced
nn.state @"h.0.ln.w" role = param type = tensor<4xf32>
nn.state @"h.0.w" role = param type = tensor<4xf32>
nn.state @"lm_head.w" role = param type = tensor<4xf32> {names = ["tied.w"]}
nn.state @"ln.mask" role = buffer type = tensor<4xf32>
