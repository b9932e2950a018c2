// RUN: shale-opt %s --shale-no-decay='no-decay=ln|tied' | FileCheck %s
// RUN: not shale-opt %s --shale-no-decay='no-decay=lm_haed' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not shale-opt %s --shale-no-decay='no-decay=(' 2>&1 | FileCheck %s --check-prefix=BAD

// Each name of a tied parameter matches. Buffers do not match.
// CHECK: @h.0.ln.w {{.*}}factors = #nn.update_factors<decay = 0.000000e+00>
// CHECK: @h.0.w role = param type = tensor<4xf32>{{$}}
// CHECK: @lm_head.w {{.*}}factors = #nn.update_factors<decay = 0.000000e+00>
// CHECK: @ln.mask role = buffer type = tensor<4xf32>{{$}}
// NONE: no-decay: 'lm_haed' matches no parameter; similar names: 'lm_head.w'
// BAD: no-decay: '(' is not a regular expression: parentheses not balanced
nn.state @"h.0.ln.w" role = param type = tensor<4xf32>
nn.state @"h.0.w" role = param type = tensor<4xf32>
nn.state @"lm_head.w" role = param type = tensor<4xf32> {names = ["tied.w"]}
nn.state @"ln.mask" role = buffer type = tensor<4xf32>
