// RUN: split-file %s %t
// RUN: shale-run --as f64 %t/a.mlir --compare %t/same.mlir | FileCheck %s --check-prefix=SAME
// RUN: not shale-run --as f64 %t/a.mlir --compare %t/other.mlir | FileCheck %s --check-prefix=OTHER
// RUN: not shale-run --exact --seed 1 %t/a.mlir --compare %t/same.mlir | FileCheck %s --check-prefix=BITS
// RUN: not shale-run %t/a.mlir --compare %t/nothing.mlir | FileCheck %s --check-prefix=NOTHING
// RUN: not shale-run %t/a.mlir --compare %t/shape.mlir 2>&1 | FileCheck %s --check-prefix=SHAPE

// More than two programs run once each; every two are compared.
// RUN: shale-run --as f64 --seed 1 %t/a.mlir --compare %t/same.mlir --compare %t/a.mlir | FileCheck %s --check-prefix=THREE
// RUN: not shale-run --as f64 %t/a.mlir --compare %t/same.mlir --compare %t/other.mlir | FileCheck %s --check-prefix=PAIRS
// RUN: not shale-run --as f64 %t/a.mlir --compare %t/same.mlir --compare %t/nothing.mlir | FileCheck %s --check-prefix=EMPTY
// THREE: {{^}}same bits: a.mlir a.mlir{{$}}
// THREE-NEXT: {{^}}3 programs, 3 pairs, 0 differ in value; largest relative difference
// PAIRS: {{^}}a.mlir and other.mlir:
// PAIRS-NEXT: @f: 'new' differs
// PAIRS-NEXT: @f: 2 values, 1 differ in value
// PAIRS-NEXT: same.mlir and other.mlir:
// PAIRS: 3 programs, 3 pairs, 2 differ in value; largest relative difference {{.*}} other.mlir
// EMPTY: a.mlir and nothing.mlir:
// EMPTY-NEXT: all functions: 0 values
// EMPTY: 3 programs, 3 pairs, 2 differ

// A function that is missing in one program is a difference.
// RUN: not shale-run --as f64 %t/a.mlir --compare %t/two.mlir | FileCheck %s --check-prefix=NEW
// RUN: not shale-run --as f64 %t/two.mlir --compare %t/a.mlir | FileCheck %s --check-prefix=GONE
// NEW: @f: 2 values, 0 differ in value
// NEW-NEXT: @g: is new
// GONE: @g: is missing from the other program

// The error of a tensor below the floor is relative to the floor.
// RUN: shale-run --as f64 %t/a.mlir --compare %t/other.mlir --floor 1e9 | FileCheck %s --check-prefix=SAME
// RUN: not shale-run --as f64 %t/a.mlir --compare %t/other.mlir --floor 0.1 | FileCheck %s --check-prefix=OTHER

// SAME: @f: 2 values, 0 differ in value
// OTHER: @f: 'new' differs: element {{[0-9]+}} of 4xf32 is
// OTHER: @f: 2 values, 1 differ in value
// BITS: @f: 2 values, 1 differ in their bits
// NOTHING: all functions: 0 values
// SHAPE: error: the value of 'x' is 4xf32, argument 0 is 'tensor<8xf32>' on each of 1 ranks

//--- a.mlir
func.func @f(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4xf32> {nn.name = "new"}, tensor<f32> {nn.name = "sum"}) {
  %c = nn.constant dense<3.0> : tensor<4xf32>
  %0 = nn.div %x, %c : tensor<4xf32>
  %1 = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
  return %0, %1 : tensor<4xf32>, tensor<f32>
}
//--- same.mlir
func.func @f(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4xf32> {nn.name = "new"}, tensor<f32> {nn.name = "sum"}) {
  %a = nn.constant dense<7.0> : tensor<4xf32>
  %b = nn.constant dense<33.0> : tensor<4xf32>
  %c = nn.constant dense<77.0> : tensor<4xf32>
  %d = nn.div %x, %a : tensor<4xf32>
  %e = nn.div %d, %b : tensor<4xf32>
  %0 = nn.mul %e, %c : tensor<4xf32>
  %1 = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
  return %0, %1 : tensor<4xf32>, tensor<f32>
}
//--- other.mlir
func.func @f(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4xf32> {nn.name = "new"}, tensor<f32> {nn.name = "sum"}) {
  %c = nn.constant dense<3.0001> : tensor<4xf32>
  %0 = nn.div %x, %c : tensor<4xf32>
  %1 = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
  return %0, %1 : tensor<4xf32>, tensor<f32>
}
//--- nothing.mlir
func.func @g() {
  return
}
//--- two.mlir
func.func @f(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4xf32> {nn.name = "new"}, tensor<f32> {nn.name = "sum"}) {
  %c = nn.constant dense<3.0> : tensor<4xf32>
  %0 = nn.div %x, %c : tensor<4xf32>
  %1 = nn.reduce sum %x dims = [0] : tensor<4xf32> -> tensor<f32>
  return %0, %1 : tensor<4xf32>, tensor<f32>
}
func.func @g(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<4xf32> {nn.name = "more"}) {
  return %x : tensor<4xf32>
}
//--- shape.mlir
func.func @f(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}) -> (tensor<8xf32> {nn.name = "new"}) {
  return %x : tensor<8xf32>
}
