// RUN: shale-opt %s --shale-annotate-target=target=cpu:x86-64-v3 | FileCheck %s
// RUN: shale-opt %s --shale-annotate-target=target=cpu:x86-64-v3 -o %t.mlir
// RUN: shale-run %s --compare=%t.mlir --exact | FileCheck %s --check-prefix=EQUAL
// RUN: shale-opt %s --shale-annotate-target | FileCheck %s --check-prefix=NATIVE
// RUN: not shale-opt %s --shale-annotate-target=target=cpu:x86-64-v9 2>&1 | FileCheck %s --check-prefix=LEVEL
// RUN: not shale-opt %s --shale-annotate-target=target=gpu:sm_90a 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not shale-opt %s --shale-annotate-target=target=cpu 2>&1 | FileCheck %s --check-prefix=COLON
// RUN: sed 's|module {|module attributes {nn.target = "abacus:big"} {|' %s | not shale-opt --shale-widen 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: sed 's|module {|module attributes {nn.target = 3 : i64} {|' %s | not shale-opt 2>&1 | FileCheck %s --check-prefix=TYPE

// CHECK: module attributes {nn.target = "cpu:x86-64-v3"}
// NATIVE: module attributes {nn.target = "cpu:x86-64-v{{[34]}}"}
// LEVEL: error: unknown CPU 'x86-64-v9'; expected native, x86-64-v3 or x86-64-v4
// KIND: error: unknown target 'gpu:sm_90a'; expected cpu:native, cpu:x86-64-v3, cpu:x86-64-v4, cuda:sm_80, cuda:sm_90a, cuda:sm_100a
// COLON: error: unknown target 'cpu'; expected cpu:native
// UNKNOWN: error: 'nn.target': unknown target 'abacus:big'; expected cpu:native
// TYPE: 'nn.target' must be a string
// EQUAL: @f: 1 values, 0 differ in their bits
module {
  func.func @f(%x: tensor<4xf32>) -> (tensor<4xf32> {nn.name = "y"}) {
    %y = nn.exp %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
