// RUN: shale-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh <[tensor "tp"=2]>
func.func @all_gather_c1(%a: tensor<4x7xf32>) {
  // expected-error@+1 {{the mesh has no axis 'x'}}
  %0 = dist.all_gather %a over "x" dim = 0 : tensor<4x7xf32> -> tensor<8x7xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "tp"=2]>
func.func @all_gather_c1_dim(%a: tensor<4x7xf32>) {
  // expected-error@+1 {{has no dimension 2}}
  %0 = dist.all_gather %a over "tp" dim = 2 : tensor<4x7xf32> -> tensor<8x7xf32>
  return
}

// -----

func.func @all_gather_c1_mesh(%a: tensor<4x7xf32>) {
  // expected-error@+1 {{is in a module without a mesh}}
  %0 = dist.all_gather %a over "tp" dim = 0 : tensor<4x7xf32> -> tensor<8x7xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "tp"=2]>
func.func @all_gather_c2(%a: tensor<4x7xf32>) {
  // expected-error@+1 {{expected the result type 'tensor<4x14xf32>'}}
  %0 = dist.all_gather %a over "tp" dim = 1 : tensor<4x7xf32> -> tensor<8x7xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "tp"=2]>
func.func @reduce_scatter_c1(%a: tensor<4x7xf32>) {
  // expected-error@+1 {{has no dimension -1}}
  %0 = dist.reduce_scatter sum %a over "tp" dim = -1 : tensor<4x7xf32> -> tensor<2x7xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "tp"=2]>
func.func @reduce_scatter_c2(%a: tensor<4x7xf32>) {
  // expected-error@+1 {{does not divide over 2 ranks}}
  %0 = dist.reduce_scatter sum %a over "tp" dim = 1 : tensor<4x7xf32> -> tensor<4x3xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "tp"=2]>
func.func @all_reduce_c1(%a: tensor<4x7xf32>) {
  // expected-error@+1 {{the mesh has no axis 'dp'}}
  %0 = dist.all_reduce sum %a over "dp" : tensor<4x7xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "tp"=2]>
func.func @all_to_all_c1(%a: tensor<4x7xf32>) {
  // expected-error@+1 {{split and concat must be different dimensions}}
  %0 = dist.all_to_all %a over "tp" split = 0 concat = 0 : tensor<4x7xf32> -> tensor<4x7xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "tp"=2]>
func.func @all_to_all_c2(%a: tensor<4x7xf32>) {
  // expected-error@+1 {{expected the result type 'tensor<2x14xf32>'}}
  %0 = dist.all_to_all %a over "tp" split = 0 concat = 1 : tensor<4x7xf32> -> tensor<4x7xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "tp"=2]>
func.func @slice_c1(%a: tensor<4x7xf32>) {
  // expected-error@+1 {{the mesh has no axis 'q'}}
  %0 = dist.slice %a over "q" dim = 0 : tensor<4x7xf32> -> tensor<2x7xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "tp"=2]>
func.func @slice_c2(%a: tensor<4x7xf32>) {
  // expected-error@+1 {{does not divide over 2 ranks}}
  %0 = dist.slice %a over "tp" dim = 1 : tensor<4x7xf32> -> tensor<4x3xf32>
  return
}
