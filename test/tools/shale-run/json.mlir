// The program as JSON: one line, with the names of the text.
// RUN: shale-run --json %s | %python -m json.tool --indent 1 --no-ensure-ascii > %t.json
// RUN: FileCheck %s < %t.json
// RUN: shale-run --json %s | wc -l | FileCheck %s --check-prefix=LINES
// LINES: {{^ *1$}}

// Bytecode has no names: values have those that a dump gives them.
// RUN: shale-opt %s --emit-bytecode -o %t.mlirbc
// RUN: shale-run --json %t.mlirbc | FileCheck %s --check-prefix=BYTECODE
// BYTECODE: "op":"nn.attention","results":[{"name":"%result",{{.*}}{"name":"%lse",{{.*}}"operands":["%arg0","%arg0","%arg0"]
// BYTECODE-SAME: "op":"nn.constant","results":[{"name":"%0",

// It does not run: flags of runs are errors. Errors of the IR are those of a run, and nothing is printed.
// RUN: %python %S/../Inputs/exit_code.py 64 shale-run --json --steps=1 %s 2>&1 | FileCheck %s --check-prefix=STEPS
// RUN: %python %S/../Inputs/exit_code.py 64 shale-run --json --mutate %s 2>&1 | FileCheck %s --check-prefix=MUTATE
// RUN: %python %S/../Inputs/exit_code.py 64 shale-run --json %s --compare=%s 2>&1 | FileCheck %s --check-prefix=COMPARE
// STEPS: {{^}}shale-run: error: --json runs nothing: leave out --steps{{$}}
// MUTATE: {{^}}shale-run: error: --json runs nothing: leave out --mutate{{$}}
// COMPARE: {{^}}shale-run: error: --json runs nothing: leave out --compare{{$}}
// RUN: echo 'func.func @f(%%x: tensor<2xf32>) { %%0 = nn.add %%x, %%y : tensor<2xf32> return }' > %t.invalid.mlir
// RUN: %python %S/../Inputs/exit_code.py 65 shale-run --json %t.invalid.mlir
// RUN: not shale-run --json %t.invalid.mlir 2>&1 | FileCheck %s --check-prefix=INVALID --implicit-check-not='"op"'
// INVALID: invalid.mlir:1:{{[0-9]+}}: error: use of undeclared SSA value name
// RUN: echo 'func.func @f() { %%0 = nn.iota dim = 3 : tensor<2xi64> return }' > %t.wrong.mlir
// RUN: %python %S/../Inputs/exit_code.py 65 shale-run --json %t.wrong.mlir
// RUN: not shale-run --json %t.wrong.mlir 2>&1 | FileCheck %s --check-prefix=WRONG --implicit-check-not='"op"'
// WRONG: wrong.mlir:1:{{[0-9]+}}: error:
// RUN: %python -c "print('module {' * 300 + '}' * 300)" > %t.deep.mlir
// RUN: %python %S/../Inputs/exit_code.py 65 shale-run --json %t.deep.mlir 2>&1 | FileCheck %s --check-prefix=DEEP
// DEEP: brackets nest more than 256 deep
// RUN: %python %S/../Inputs/exit_code.py 66 shale-run --json %t.missing.mlir 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: shale-run: error: {{.*}}missing.mlir: No such file

// What nests as deep as it may is whole.
// RUN: %python -c "print('module attributes {t.deep = ' + '[' * 200 + ']' * 200 + '} {}')" > %t.nested.mlir
// RUN: shale-run --json %t.nested.mlir | %python -m json.tool --compact | FileCheck %s --check-prefix=NESTED
// NESTED: "t.deep":{{(\[{200}\]{200})}}

// CHECK: "op": "builtin.module",
// CHECK: "attributes": {
// CHECK-NEXT: "t.array": [
// CHECK-NEXT: 1,
// CHECK-NEXT: -2.5,
// CHECK-NEXT: true,
// CHECK-NEXT: "@\"a b\"",
// CHECK-NEXT: "0x7FC00000 : f32",
// CHECK-NEXT: 18446744073709551615,
// CHECK-NEXT: "170141183460469231731687303715884105727 : i128"
// CHECK-NEXT: ],
// CHECK-NEXT: "t.flag": true,
// CHECK-NEXT: "t.text": "quote \" backslash \\ newline \n control \u0001 wrong �"
// CHECK-NEXT: },
module attributes {t.text = "quote \22 backslash \\ newline \0A control \01 wrong \FF", t.flag,
                   t.array = [1, -2.5, true, @"a b", 0x7FC00000 : f32, 18446744073709551615 : ui64, 170141183460469231731687303715884105727 : i128]} {
// CHECK: "op": "nn.state",
// CHECK: "line": [[#@LINE+12]],
// CHECK: "role": "#nn.role<param>",
// CHECK-NEXT: "sym_name": "w",
// CHECK-NEXT: "type": {
// CHECK-NEXT: "type": "tensor<1x1x4x2xf32>",
// CHECK-NEXT: "element": "f32",
// CHECK-NEXT: "shape": [
// CHECK-NEXT: 1,
// CHECK-NEXT: 1,
// CHECK-NEXT: 4,
// CHECK-NEXT: 2
// CHECK-NEXT: ]
  nn.state @w role = param type = tensor<1x1x4x2xf32>
// CHECK: "op": "func.func",
// CHECK: "arg_attrs": [
// CHECK-NEXT: {
// CHECK-NEXT: "nn.state": "@w"
// CHECK: "sym_name": "step"
// CHECK: "arguments": [
// CHECK-NEXT: {
// CHECK-NEXT: "name": "%weights",
// CHECK-NEXT: "type": "tensor<1x1x4x2xf32>",
// CHECK: "op": "nn.attention",
// CHECK: "name": "%pair#0",
// CHECK: "name": "%pair#1",
// CHECK: "operands": [
// CHECK-NEXT: "%weights",
// CHECK: "scale": 0.5
// CHECK: "op": "nn.constant",
// CHECK: "name": "%few",
// CHECK: "value": "dense<[1, 2]> : tensor<2xi64>"
// CHECK: "op": "nn.constant",
// CHECK: "name": "%same",
// CHECK: "value": "dense<0.000000e+00> : tensor<99xf32>"
// CHECK: "op": "nn.constant",
// CHECK: "name": "%many",
// CHECK: "value": {
// CHECK-NEXT: "type": "tensor<17xi64>",
// CHECK: "op": "nn.reduce",
// CHECK: "name": "%sum",
// CHECK: "operands": [
// CHECK-NEXT: "%pair#1"
// CHECK: "dims": [
// CHECK-NEXT: 0,
// CHECK-NEXT: 1,
// CHECK-NEXT: 2
// CHECK: "kind": "#nn<reduce_kind sum>"
// CHECK: "op": "func.return",
  func.func @step(%weights: tensor<1x1x4x2xf32> {nn.state = @w}) {
    %pair:2 = nn.attention %weights, %weights, %weights scale = 0.5 : tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32>, tensor<1x1x4x2xf32> -> tensor<1x1x4x2xf32>, tensor<1x1x4xf32>
    %few = nn.constant dense<[1, 2]> : tensor<2xi64>
    %same = nn.constant dense<0.0> : tensor<99xf32>
    %many = nn.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]> : tensor<17xi64>
    %sum = nn.reduce sum %pair#1 dims = [0, 1, 2] : tensor<1x1x4xf32> -> tensor<f32>
    return
  }
}
