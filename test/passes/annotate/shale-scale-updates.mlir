// RUN: shale-opt %s --shale-scale-updates='factor=lr_scale values=ln|tied=0.5,h\.0\.w{1,2}$=2,h\.0\.w=2' | FileCheck %s
// RUN: not shale-opt %s --shale-scale-updates='factor=lr_scale values=lm_haed=2' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not shale-opt %s --shale-scale-updates='factor=lr_scale values=(=2' 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not shale-opt %s --shale-scale-updates='factor=lr_scale values=ln=2,h=3' 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not shale-opt %s --shale-scale-updates='factor=lr_scale values=g\.u=2' 2>&1 | FileCheck %s --check-prefix=GIVEN
// RUN: not shale-opt %s --shale-scale-updates='factor=momentum values=ln=2' 2>&1 | FileCheck %s --check-prefix=FACTOR
// RUN: not shale-opt %s --shale-scale-updates='factor=lr_scale values=ln' 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not shale-opt %s --shale-scale-updates='factor=lr_scale values==2' 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not shale-opt %s --shale-scale-updates='factor=lr_scale values=ln=2,' 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not shale-opt %s --shale-scale-updates='factor=lr_scale values=ln=0' 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not shale-opt %s --shale-scale-updates='factor=lr_scale values=ln=-1' 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not shale-opt %s --shale-scale-updates='factor=lr_scale values=ln=1e-320' 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not shale-opt %s --shale-scale-updates='factor=lr_scale values=ln=inf' 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not shale-opt %s --shale-scale-updates='factor=lr_scale values=ln=nan' 2>&1 | FileCheck %s --check-prefix=RANGE

// RUN: shale-opt %s --shale-scale-updates='factor=lr_scale values=g\.u=4' --shale-scale-updates='factor=decay values=g\.u=0.5,ln=1' | FileCheck %s --check-prefix=BOTH

// Each name of a tied parameter matches. Buffers do not match. A comma within an expression is part of it.
// CHECK: @h.0.ln.w {{.*}}factors = #nn.update_factors<lr_scale = 5.000000e-01>
// CHECK: @h.0.w {{.*}}factors = #nn.update_factors<lr_scale = 2.000000e+00>
// CHECK: @h.0.v role = param type = tensor<4xf32>{{$}}
// CHECK: @lm_head.w {{.*}}factors = #nn.update_factors<lr_scale = 5.000000e-01>
// CHECK: @ln.mask role = buffer type = tensor<4xf32>{{$}}
// A factor joins those that are there. A factor of 1 is left out.
// BOTH: @g.u {{.*}}factors = #nn.update_factors<decay = 5.000000e-01, lr_scale = 4.000000e+00>
// BOTH: @h.0.ln.w role = param type = tensor<4xf32>{{$}}
// NONE: lr-scale: 'lm_haed' matches no parameter; similar names: 'lm_head.w'
// BAD: lr-scale: '(' is not a regular expression: parentheses not balanced
// TWICE: lr-scale: 'h' matches parameter 'h.0.ln.w', which already has the factor 2
// GIVEN: lr-scale: 'g\.u' matches parameter 'g.u', which already has the factor 4
// FACTOR: shale-scale-updates: there is no factor 'momentum'
// WORD: expects REGEX=X, separated by commas; got
// RANGE: expects factors above 0 and at most 1e6; got 'ln={{.*}}' (--freeze leaves parameters as they are)
nn.state @"g.u" role = param type = tensor<4xf32> {factors = #nn.update_factors<lr_scale = 4.0>}
nn.state @"h.0.ln.w" role = param type = tensor<4xf32>
nn.state @"h.0.w" role = param type = tensor<4xf32>
nn.state @"h.0.v" role = param type = tensor<4xf32>
nn.state @"lm_head.w" role = param type = tensor<4xf32> {names = ["tied.w"]}
nn.state @"ln.mask" role = buffer type = tensor<4xf32>
