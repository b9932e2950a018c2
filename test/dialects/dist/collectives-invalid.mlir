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

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @all_to_all_c3(%a: tensor<2x256xf32>) {
  // expected-error@+1 {{with an encoding, expected words of i32, got 'tensor<2x256xf32>'}}
  %0 = dist.all_to_all %a over "fsdp" split = 0 concat = 1 as int8 : tensor<2x256xf32> -> tensor<1x512xf32>
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

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @reduce_scatter_c3(%a: tensor<256xf32>) {
  // expected-error@+1 {{encodes 1-D f32 in blocks of 256 elements; got 'tensor<256xf32>' for 2 ranks}}
  %0 = dist.reduce_scatter sum %a over "fsdp" dim = 0 as int8 : tensor<256xf32> -> tensor<128xf32>
  return
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @reduce_scatter_c3_type(%a: tensor<512xbf16>) {
  // expected-error@+1 {{encodes 1-D f32 in blocks of 256 elements; got 'tensor<512xbf16>' for 2 ranks}}
  %0 = dist.reduce_scatter sum %a over "fsdp" dim = 0 as int8 : tensor<512xbf16> -> tensor<256xbf16>
  return
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @reduce_scatter_c3_sum(%a: tensor<512xf32>) {
  // expected-error@+1 {{encodes the terms of sums only}}
  %0 = dist.reduce_scatter max %a over "fsdp" dim = 0 as int8 : tensor<512xf32> -> tensor<256xf32>
  return
}

// -----

func.func @reduce_scatter_c3_mesh(%a: tensor<512xf32>) {
  // expected-error@+1 {{encodes 1-D f32 in blocks of 256 elements; got 'tensor<512xf32>' for 0 ranks}}
  %0 = dist.reduce_scatter sum %a over "fsdp" dim = 0 as int8 : tensor<512xf32> -> tensor<256xf32>
  return
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @all_gather_c3(%a: tensor<4x64xf32>) {
  // expected-error@+1 {{encodes 1-D f32 in blocks of 256 elements; got 'tensor<4x64xf32>' for 1 ranks}}
  %0 = dist.all_gather %a over "fsdp" dim = 0 as int8 : tensor<4x64xf32> -> tensor<8x64xf32>
  return
}

// -----

func.func @quantization_error_c1(%a: tensor<128xf32>) {
  // expected-error@+1 {{encodes 1-D f32 in blocks of 256 elements; got 'tensor<128xf32>' for 1 ranks}}
  %0 = dist.quantization_error %a as int8 : tensor<128xf32>
  return
}
