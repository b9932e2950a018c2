// RUN: shale-opt %s --shale-split-collectives --allow-unregistered-dialect --verify-diagnostics

// expected-error @+1 {{must have one block to be scheduled}}
func.func @two(%x: tensor<4xf32>) -> tensor<4xf32> {
  "test.branch"()[^bb1] : () -> ()
^bb1:
  return %x : tensor<4xf32>
}
