// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s
// RUN: shale-run %s --function=values | FileCheck %s --check-prefix=VALUES

// VALUES-LABEL: @values
// VALUES: result0: f32 {{.*}} [1]
// CHECK-LABEL: func.func @values
// CHECK: nn.seed : tensor<f32>
func.func @values() -> tensor<f32> {
  %0 = nn.seed : tensor<f32>
  return %0 : tensor<f32>
}

// It is no constant, and is not folded into one.
// RUN: shale-opt %s --canonicalize --cse | FileCheck %s
