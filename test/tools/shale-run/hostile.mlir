// Wrong or hostile input is one error and an exit code.
// RUN: split-file %s %t
// RUN: not shale-run %t/missing.mlir 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: %python -c "print('module {' * 300 + '}' * 300)" > %t/deep.mlir
// RUN: not shale-run %t/deep.mlir 2>&1 | FileCheck %s --check-prefix=DEEP
// RUN: %python -c "print('func.func private @f(' + 'tuple<' * 30000 + '>' * 30000 + ')')" > %t/tuple.mlir
// RUN: not shale-run %t/tuple.mlir 2>&1 | FileCheck %s --check-prefix=DEEP
// RUN: %python -c "print('func.func @f() attributes {a = \"' + '(' * 300 + '\"} {\n return\n}')" > %t/string.mlir
// RUN: shale-run %t/string.mlir
// RUN: not shale-run %t/huge.mlir 2>&1 | FileCheck %s --check-prefix=HUGE
// RUN: not shale-run %t/argument.mlir 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: not shale-run %t/recursion.mlir 2>&1 | FileCheck %s --check-prefix=RECURSION
// RUN: not shale-run %t/gather.mlir 2>&1 | FileCheck %s --check-prefix=GATHER
// RUN: not shale-run %t/empty.mlir 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: %python %S/../Inputs/exit_code.py 65 shale-run %t/rows.mlir 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: %python %S/../Inputs/exit_code.py 65 shale-run %t/state.mlir 2>&1 | FileCheck %s --check-prefix=STATE
// RUN: %python %S/../Inputs/exit_code.py 65 shale-run --steps=1 %t/state.mlir 2>&1 | FileCheck %s --check-prefix=STATE
// RUN: %python %S/../Inputs/exit_code.py 65 shale-run %t/unit.mlir 2>&1 | FileCheck %s --check-prefix=UNIT
// RUN: %python %S/../Inputs/exit_code.py 65 shale-run %t/constant.mlir 2>&1 | FileCheck %s --check-prefix=CONSTANT
// RUN: sed s:tensor.4294967296x4xf32.:tensor\<2xi7\>:\;s:1.0:1: %t/constant.mlir > %t/type.mlir
// RUN: %python %S/../Inputs/exit_code.py 65 shale-run %t/type.mlir 2>&1 | FileCheck %s --check-prefix=TYPE
// RUN: not shale-run %t/file.mlir --steps=1 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: not shale-run %t/gather.mlir --function=nobody 2>&1 | FileCheck %s --check-prefix=NOBODY
// RUN: not shale-run %t/gather.mlir --as=f16 2>&1 | FileCheck %s --check-prefix=AS
// RUN: echo "short" > %t/short.safetensors
// RUN: not shale-run %t/gather.mlir --inputs=%t/short.safetensors 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: %python -c "import sys; h = b'{\"x\": {\"dtype\": \"F32\", \"shape\": [4611686018427387904, 8], \"data_offsets\": [0, 4]}}'; sys.stdout.buffer.write(len(h).to_bytes(8, 'little') + h + b'0000')" > %t/big.safetensors
// RUN: not shale-run %t/gather.mlir --inputs=%t/big.safetensors 2>&1 | FileCheck %s --check-prefix=BIG
// RUN: %python -c "import sys; h = b'{\"x\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [4, 8]}}'; sys.stdout.buffer.write(len(h).to_bytes(8, 'little') + h + b'0000')" > %t/outside.safetensors
// RUN: not shale-run %t/gather.mlir --inputs=%t/outside.safetensors 2>&1 | FileCheck %s --check-prefix=OUTSIDE

// MISSING: shale-run: error: {{.*}}missing.mlir: No such file
// DEEP: shale-run: error: {{.*}}.mlir:1:{{[0-9]+}}: brackets nest more than 256 deep
// HUGE: error: a result of type 'tensor<1073741824x1073741824xf32>' on 1 ranks exceeds the interpreter's 16384 MiB
// ARGUMENT: error: argument 0 of type 'tensor<?xf32>' is not a static tensor that fits in the interpreter's memory
// RECURSION: error: calls nest more than 64 deep
// GATHER: error: reads index 5 of 4
// EMPTY: error: does not fit into memory
// STATE: error: argument 0 of type 'tensor<4294967296x4xf32>' is not a static tensor that fits in the interpreter's memory
// UNIT: error: {{.*}}exceeds the interpreter's 16384 MiB
// CONSTANT: error: needs more memory than the interpreter's 16384 MiB
// TYPE: error: the interpreter does not support constants of type 'tensor<2xi7>'
// FILE: error: initial value of 'w': {{.*}}nowhere.bin: No such file
// NOBODY: error: there is no function @nobody
// AS: shale-run: error: --as is declared or f64
// SHORT: short.safetensors: is too short for safetensors
// BIG: tensor 'x' has a bad shape
// OUTSIDE: tensor 'x' lies outside the file

//--- huge.mlir
func.func @f() -> tensor<1073741824x1073741824xf32> {
  %0 = nn.iota dim = 0 : tensor<1073741824x1073741824xf32>
  return %0 : tensor<1073741824x1073741824xf32>
}
//--- argument.mlir
func.func @f(%a: tensor<?xf32>) {
  return
}
//--- recursion.mlir
func.func @f() {
  call @f() : () -> ()
  return
}
//--- gather.mlir
func.func @f() -> tensor<1xf32> {
  %x = nn.constant dense<1.0> : tensor<4xf32>
  %i = nn.constant dense<5> : tensor<1xi64>
  %0 = nn.gather %x, %i dim = 0 : (tensor<4xf32>, tensor<1xi64>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}
//--- empty.mlir
func.func @f(%q: tensor<1x1x1x0xf32>, %k: tensor<1x1x1152921504606846976x0xf32>) -> tensor<1x1x1xf32> {
  %o, %l = nn.attention %q, %k, %k scale = 1.0 : tensor<1x1x1x0xf32>, tensor<1x1x1152921504606846976x0xf32>, tensor<1x1x1152921504606846976x0xf32> -> tensor<1x1x1x0xf32>, tensor<1x1x1xf32>
  return %l : tensor<1x1x1xf32>
}
//--- file.mlir
nn.state @w role = param type = tensor<1xf32> {init = #nn.file<"nowhere.bin", offset = 0, length = 4, transposed = false>}
func.func @step(%w: tensor<1xf32> {nn.state = @w}) {
  return
}
//--- rows.mlir
func.func @f(%q: tensor<1x1x1x0xf32>, %k: tensor<1x1x8589934592x0xf32>) -> tensor<1x1x1xf32> {
  %o, %l = nn.attention %q, %k, %k scale = 1.0 : tensor<1x1x1x0xf32>, tensor<1x1x8589934592x0xf32>, tensor<1x1x8589934592x0xf32> -> tensor<1x1x1x0xf32>, tensor<1x1x1xf32>
  return %l : tensor<1x1x1xf32>
}
//--- state.mlir
nn.state @w role = param type = tensor<4294967296x4xf32>
func.func @step(%w: tensor<4294967296x4xf32> {nn.state = @w}) {
  return
}
//--- unit.mlir
dist.mesh @mesh <[shard "fsdp"=1024]>
nn.state @w role = param type = tensor<16777216xf32> {unit = "root"}
dist.unit @root on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16777216, segments = [#dist.segment<@w, offset = 0, shape = [16777216]>]>]
nn.state @flat role = param type = tensor<16777216xf32> {dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @root}
func.func @step(%w: tensor<16384xf32> {nn.state = @flat}) {
  return
}
//--- constant.mlir
module attributes {rt.arena_bytes = 64 : i64, rt.state_bytes = 64 : i64} {
  rt.constant @c dense<1.0> : tensor<4294967296x4xf32>
  rt.func @step inputs = [] hyper = [] metrics = [] attributes {signature = () -> ()} {
  }
}
