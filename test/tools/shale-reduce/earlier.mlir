// What follows the culprit goes. The fault needs a culprit that is not dead, and what follows has other types, so no op can be replaced by its
// operand: the function returns an earlier value.
// RUN: split-file %s %t && cd %t && chmod +x *.sh
// RUN: shale-reduce module.mlir --test=./live.sh -o out.mlir 2>&1 | FileCheck %s --check-prefix=STEPS
// RUN: FileCheck %s --input-file=out.mlir
// STEPS: shale-reduce: return earlier: {{[0-9]+}} -> {{[0-9]+}} ops
// CHECK:      func.func @forward() -> tensor<2xf32> {
// CHECK-NEXT:   %[[INDEX:.*]] = nn.constant
// CHECK-NEXT:   %[[ZERO:.*]] = nn.constant
// CHECK-NEXT:   %[[GATHERED:.*]] = nn.gather %[[ZERO]], %[[INDEX]]
// CHECK-NEXT:   return %[[GATHERED]] : tensor<2xf32>
// CHECK-NEXT: }

// Calls stay valid.
// RUN: shale-reduce called.mlir --test=./called.sh -o called-out.mlir
// RUN: FileCheck %s --input-file=called-out.mlir --check-prefix=CALLED
// CALLED: nn.tanh
// CALLED: call @f

// A function without ops, and a declaration.
// RUN: shale-reduce empty.mlir --test=./empty.sh -o empty-out.mlir
// RUN: FileCheck %s --input-file=empty-out.mlir --check-prefix=EMPTY
// EMPTY-DAG: @declared
// EMPTY-DAG: @empty

//--- module.mlir
func.func @forward(%i: tensor<2xi64>, %w: tensor<4xf32>) -> (tensor<f32>, tensor<3x5xf32>) {
  %0 = nn.exp %w : tensor<4xf32>
  %1 = nn.gather %0, %i dim = 0 : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  %2 = nn.reduce sum %1 dims = [0] : tensor<2xf32> -> tensor<f32>
  %3 = nn.broadcast %2 dims = [] : tensor<f32> -> tensor<3x5xf32>
  %4 = nn.reduce sum %3 dims = [1] : tensor<3x5xf32> -> tensor<3xf32>
  %5 = nn.broadcast %4 dims = [0] : tensor<3xf32> -> tensor<3x5xf32>
  return %2, %5 : tensor<f32>, tensor<3x5xf32>
}
//--- live.sh
#!/bin/sh
shale-opt "$1" --canonicalize | grep -q 'nn\.gather'
//--- called.mlir
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.tanh %x : tensor<4xf32>
  %1 = nn.exp %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
//--- called.sh
#!/bin/sh
grep -q 'nn\.tanh' "$1" && grep -q 'call @f' "$1"
//--- empty.mlir
func.func private @declared(tensor<4xf32>) -> tensor<4xf32>
func.func @empty(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
//--- empty.sh
#!/bin/sh
grep -q '@declared' "$1" && grep -q '@empty' "$1"
