// RUN: shale-opt %s --split-input-file --verify-diagnostics

// cluster_c1: block arguments of other types than the operands.
func.func @cluster_c1(%a: tensor<4xf32>) {
  // expected-error@+1 {{block arguments must have the operands' types}}
  %0 = "nn.cluster"(%a) ({
  ^bb0(%x: tensor<5xf32>):
    "nn.yield"(%x) : (tensor<5xf32>) -> ()
  }) : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

// cluster_c2: the yield has other types than the results.
func.func @cluster_c2(%a: tensor<4xf32>) {
  // expected-error@+1 {{yield must have the results' types}}
  %0 = nn.cluster (%x = %a : tensor<4xf32>) -> tensor<5xf32> {
    nn.yield %x : tensor<4xf32>
  }
  return
}

// -----

// cluster_c3: not one alias per result.
func.func @cluster_c3(%a: tensor<4xf32>) {
  // expected-error@+1 {{aliases must have one entry per result; got 2 for 1}}
  %0 = nn.cluster (%x = %a : tensor<4xf32>) -> tensor<4xf32> aliases [0, -1] {
    nn.yield %x : tensor<4xf32>
  }
  return
}

// -----

// cluster_c3: an alias of an operand that does not exist.
func.func @cluster_c3_range(%a: tensor<4xf32>) {
  // expected-error@+1 {{alias 7 of result 0 must be an operand of the same type that no other result takes}}
  %0 = nn.cluster (%x = %a : tensor<4xf32>) -> tensor<4xf32> aliases [7] {
    nn.yield %x : tensor<4xf32>
  }
  return
}

// -----

// cluster_c3: two aliases of one operand.
func.func @cluster_c3_twice(%a: tensor<4xf32>) {
  // expected-error@+1 {{alias 0 of result 1 must be an operand of the same type that no other result takes}}
  %0:2 = nn.cluster (%x = %a : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) aliases [0, 0] {
    nn.yield %x, %x : tensor<4xf32>, tensor<4xf32>
  }
  return
}

// -----

// A body that uses a value from outside the cluster.
func.func @cluster_isolated(%a: tensor<4xf32>) {
  // expected-note@+1 {{required by region isolation constraints}}
  %0 = nn.cluster () -> tensor<4xf32> {
    // expected-error@+1 {{using value defined outside the region}}
    nn.yield %a : tensor<4xf32>
  }
  return
}
