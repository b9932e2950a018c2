// RUN: shale-opt %s --split-input-file --verify-diagnostics

// unit_c1
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
// expected-error@+1 {{there is no mesh @nomesh}}
dist.unit @u on @nomesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]

// -----

// unit_c1
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
// expected-error@+1 {{the mesh has no axis 'dp'}}
dist.unit @u on @mesh["dp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]

// -----

// unit_c2
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
// expected-error@+1 {{has 33 elements, not a multiple of the axis' size 2}}
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 33, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]

// -----

// unit_c3: a segment is not aligned
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
// expected-error@+1 {{segment 'w' must begin after the one before it, at a multiple of 64 bytes, and end within the group}}
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 48, segments = [#dist.segment<@w, offset = 4, shape = [4, 8]>]>]

// -----

// unit_c3: a segment is too long
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
// expected-error@+1 {{segment 'w' must begin after}}
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]

// -----

// unit_c3: the end of a segment overflows 64 bits
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
// expected-error@+1 {{segment 'w' must begin after}}
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@w, offset = 0, shape = [4611686018427387904, 8]>]>]

// -----

// unit_c3: segments overlap
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
// expected-error@+1 {{segment 'v' must begin after}}
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>, #dist.segment<@v, offset = 16, shape = [4]>]>]

// -----

// unit_c4
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
// expected-error@+1 {{parameter 'w' is in two segments}}
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>, #dist.segment<@w, offset = 32, shape = [4]>]>]

// -----

// unit_c4: the same for a group of state
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
// expected-error@+1 {{parameter 'w' is in two segments}}
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32.m", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = [#dist.segment<@w, offset = 0, shape = [12]>, #dist.segment<@w, offset = 32, shape = [4]>], slot = "m">]

// -----

// unit_c4
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
// expected-error@+1 {{has two groups 'f32'}}
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>, #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@v, offset = 0, shape = [4, 8]>]>]

// -----

// unit_c5
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
// expected-error@+1 {{which is not another axis of the mesh}}
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = ["fsdp"], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]

// -----

// unit_c5: the axis that is left is not declared

dist.mesh @mesh <[shard "fsdp"=2, expert "ep"=2, shard "more"=2]> joint ["fsdp+ep+more"]
// expected-error@+1 {{group 'f32' is stored over 'fsdp+more', which is not an axis of the mesh}}
dist.unit @u on @mesh["fsdp+ep+more"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = ["ep"], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]

// -----

// unit_gather_c1
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]
func.func @f(%a: tensor<16xf32>) {
  // expected-error@+1 {{there is no unit @u with a group 1}}
  %0 = dist.unit_gather %a @u[1] over "fsdp" : tensor<16xf32> -> tensor<32xf32>
  return
}

// -----

// unit_gather_c1
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]
func.func @f(%a: tensor<16xf32>) {
  // expected-error@+1 {{which is not the axis of unit @u}}
  %0 = dist.unit_gather %a @u[0] over "tp" : tensor<16xf32> -> tensor<32xf32>
  return
}

// -----

// unit_gather_c2
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]
func.func @f(%a: tensor<8xf32>) {
  // expected-error@+1 {{expected 32 elements of}}
  %0 = dist.unit_gather %a @u[0] over "fsdp" : tensor<8xf32> -> tensor<32xf32>
  return
}

// -----

// unit_view_c1
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]
func.func @f(%a: tensor<32xf32>) {
  // expected-error@+1 {{the group has no parameter @x}}
  %0 = dist.unit_view %a @u[0] @x : tensor<32xf32> -> tensor<4x8xf32>
  return
}

// -----

// unit_view_c2
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]
func.func @f(%a: tensor<32xf32>) {
  // expected-error@+1 {{types do not fit segment}}
  %0 = dist.unit_view %a @u[0] @w : tensor<32xf32> -> tensor<8x4xf32>
  return
}

// -----

// unit_pack_c1
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]
func.func @f(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{the group has no parameter 'w', or it is named twice}}
  %0 = dist.unit_pack @u[0] [@w, @w](%a, %a) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<32xf32>
  return
}

// -----

// unit_pack_c2
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]
func.func @f(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{a result of 32 elements}}
  %0 = dist.unit_pack @u[0] [@w](%a) : (tensor<4x8xf32>) -> tensor<33xf32>
  return
}

// -----

// unit_pack_c2
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]
func.func @f(%a: tensor<8x4xf32>) {
  // expected-error@+1 {{does not fit segment}}
  %0 = dist.unit_pack @u[0] [@w](%a) : (tensor<8x4xf32>) -> tensor<32xf32>
  return
}

// -----

// unit_pack_c2: neither the type of the reduction nor that of the sum
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = bf16, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]
func.func @f(%a: tensor<4x8xf16>) {
  // expected-error@+1 {{a result of 32 elements of 'bf16'}}
  %0 = dist.unit_pack @u[0] [@w](%a) : (tensor<4x8xf16>) -> tensor<32xf16>
  return
}

// -----

// unit_view_c2: a gap between the segments
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>, #dist.segment<@v, offset = 48, shape = [2, 8]>]>]
func.func @f(%a: tensor<64xf32>) {
  // expected-error@+1 {{types do not fit segment}}
  %0 = dist.unit_view %a @u[0] @w : tensor<64xf32> -> tensor<6x8xf32>
  return
}

// -----

// unit_view_c2: rows of another size
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>, #dist.segment<@v, offset = 32, shape = [2, 4]>]>]
func.func @f(%a: tensor<64xf32>) {
  // expected-error@+1 {{types do not fit segment}}
  %0 = dist.unit_view %a @u[0] @w : tensor<64xf32> -> tensor<6x8xf32>
  return
}

// -----

// unit_view_c2: more rows than the run has
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>, #dist.segment<@v, offset = 32, shape = [2, 8]>]>]
func.func @f(%a: tensor<64xf32>) {
  // expected-error@+1 {{types do not fit segment}}
  %0 = dist.unit_view %a @u[0] @w : tensor<64xf32> -> tensor<7x8xf32>
  return
}

// -----

// unit_pack_c1: the segment of @v has two operands
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>, #dist.segment<@v, offset = 32, shape = [2, 8]>]>]
func.func @f(%a: tensor<6x8xf32>, %b: tensor<2x8xf32>) {
  // expected-error@+1 {{the operand of 'w' also has @v}}
  %0 = dist.unit_pack @u[0] [@v, @w](%b, %a) : (tensor<2x8xf32>, tensor<6x8xf32>) -> tensor<64xf32>
  return
}

// -----

// unit_pack_c2: a gap between the segments
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>, #dist.segment<@v, offset = 48, shape = [2, 8]>]>]
func.func @f(%a: tensor<6x8xf32>) {
  // expected-error@+1 {{does not fit segment}}
  %0 = dist.unit_pack @u[0] [@w](%a) : (tensor<6x8xf32>) -> tensor<64xf32>
  return
}

// -----

// unit_gather_c3: a part of a block
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = []>]
func.func @f(%a: tensor<32xf32>) {
  // expected-error@+1 {{gathers 32 elements of 'f32', which are not floats in blocks of 256}}
  %0 = dist.unit_gather %a @u[0] over "fsdp" as int8 : tensor<32xf32> -> tensor<64xf32>
  return
}

// -----

// unit_gather_c3: integers
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = i32, wire = i32, reduce = i32, trained = true, axes = [], count = 512, segments = []>]
func.func @f(%a: tensor<256xi32>) {
  // expected-error@+1 {{gathers 256 elements of 'i32', which are not floats in blocks of 256}}
  %0 = dist.unit_gather %a @u[0] over "fsdp" as int8 : tensor<256xi32> -> tensor<512xi32>
  return
}

// -----

// unit_gather_c2: words, but not quantized
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 512, segments = []>]
func.func @f(%a: tensor<65xi32>) {
  // expected-error@+1 {{expected 512 elements of 'f32' from shards of 'f32' over 2 ranks}}
  %0 = dist.unit_gather %a @u[0] over "fsdp" : tensor<65xi32> -> tensor<130xi32>
  return
}

// -----

// Factors of an update that are no factors.
// expected-error@+3 {{invalid kind of attribute specified}}
// expected-error@+2 {{failed to parse Dist_SegmentAttr parameter 'factors'}}
// expected-error@+1 {{failed to parse Dist_GroupAttr parameter 'segments'}}
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 8, segments = [#dist.segment<@w, offset = 0, shape = [8], factors = 0.5>]>]

// -----

// expected-error@+1 {{a step of a reduction needs the names of its axes, got [1]}}
module attributes {test.step = #dist.reduction_step<[1]>} {}

// -----

// expected-error@+1 {{a step of a reduction needs the names of its axes, got []}}
module attributes {test.step = #dist.reduction_step<[] scatter>} {}

// -----

// expected-error@+1 {{'int4' is no encoding}}
module attributes {test.step = #dist.reduction_step<["a"] as int4>} {}

// -----

// expected-error@+1 {{steps of a storage are #dist.reduction_step, got ["a"]}}
module attributes {test.storage = #dist.storage<stored f32 steps = ["a"]>} {}
