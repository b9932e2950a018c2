// RUN: shale-opt %s --shale-annotate-precision="param-dtype=bf16" | FileCheck %s
// RUN: shale-opt %s --shale-annotate-precision="param-dtype=f16 reduce-dtype=bf16 buffer-dtype=f16 master-dtype=none optimizer-dtype=bf16" | FileCheck %s --check-prefix=ALL
// RUN: shale-opt %s --shale-annotate-precision | FileCheck %s --check-prefix=FULL
// RUN: not shale-opt %s --shale-annotate-precision="param-dtype=f64" 2>&1 | FileCheck %s --check-prefix=PARAM
// RUN: not shale-opt %s --shale-annotate-precision="reduce-dtype=fp8" 2>&1 | FileCheck %s --check-prefix=REDUCE
// RUN: not shale-opt %s --shale-annotate-precision="master-dtype=bf16" 2>&1 | FileCheck %s --check-prefix=MASTER
// RUN: not shale-opt %s --shale-annotate-precision="optimizer-dtype=f16" 2>&1 | FileCheck %s --check-prefix=OPTIMIZER

// CHECK: module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>}
// ALL: nn.precision = #nn.precision<param = f16, reduce = bf16, buffer = f16, master = f16, optimizer = bf16>
// FULL-NOT: nn.precision
// PARAM: for the --param-dtype option: 'f64' is not one of f32, bf16, f16
// REDUCE: for the --reduce-dtype option: 'fp8' is not one of f32, bf16, f16
// MASTER: for the --master-dtype option: 'bf16' is not one of f32, none
// OPTIMIZER: for the --optimizer-dtype option: 'f16' is not one of f32, bf16
module {}
