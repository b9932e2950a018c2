// RUN: not shale-run --check-gradient %s 2>&1 | FileCheck %s
// RUN: not shale-run --check-gradient --function=nothing %s 2>&1 | FileCheck %s --check-prefix=MISSING
// MISSING: error: has no function 'nothing'

// With --out it also runs the functions, if their gradients are right.
// RUN: shale-run --check-gradient --function=square --out=%t.safetensors %s | FileCheck %s --check-prefix=RUNS
// RUNS: largest error
// RUNS: @square
// RUN: rm %t.safetensors
// RUN: not shale-run --check-gradient --function=kink --out=%t.safetensors %s
// RUN: not ls %t.safetensors

// It says how far it is, every 10 seconds by default.
// RUN: shale-run --check-gradient --function=square --progress=0 %s 2>&1 | FileCheck %s --check-prefix=PROGRESS
// RUN: shale-run --check-gradient --function=square %s 2>&1 | FileCheck %s --check-prefix=QUICK --implicit-check-not=left
// PROGRESS: shale-run: @square argument 0: 1 of 4 elements; 1 of 4 of all arguments, 0 s, about {{[0-9]+}} s left
// PROGRESS: shale-run: @square argument 0: 4 of 4 elements; 4 of 4 of all arguments, 0 s, about 0 s left
// QUICK: @square argument 0: 4 elements, largest error

// A missing gradient, a wrong one (the function jumps between the two
// points of the difference),
// and a function without anything to differentiate.
// CHECK: error: no gradient: nn.gather lies on a path from a trained parameter to the loss
func.func @none(%x: tensor<4xf64>, %i: tensor<2xi64>) -> tensor<2xf64> {
  %0 = nn.gather %x, %i dim = 0 : (tensor<4xf64>, tensor<2xi64>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}

// CHECK: error: gradient of argument 0, element 0: {{.*}}, central difference
func.func @kink(%x: tensor<1xf64>) -> tensor<1xf64> {
  %big = nn.constant dense<1.0e5> : tensor<1xf64>
  %0 = nn.mul %x, %big : tensor<1xf64>
  %1 = nn.floor %0 : tensor<1xf64>
  return %1 : tensor<1xf64>
}

// CHECK: error: has no float argument
func.func @integer(%x: tensor<1xi64>) -> tensor<1xi64> {
  return %x : tensor<1xi64>
}

func.func @square(%x: tensor<4xf64>) -> tensor<4xf64> {
  %0 = nn.mul %x, %x : tensor<4xf64>
  return %0 : tensor<4xf64>
}
