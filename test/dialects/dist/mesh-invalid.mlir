// RUN: shale-opt %s --split-input-file --verify-diagnostics

// expected-error@+1 {{must have at least one axis}}
dist.mesh @mesh_c1 <[]>

// -----

// expected-error@+1 {{axis 'a' is empty or named twice}}
dist.mesh @mesh_c1_names <[tensor "a"=2, tensor "a"=2]>

// -----

// expected-error@+1 {{axis 'a' has size 0, expected 1 to 1048576}}
dist.mesh @mesh_c2 <[tensor "a"=0]>

// -----

// expected-error@+1 {{has more than 1048576 ranks}}
dist.mesh @mesh_c2_product <[tensor "a"=1048576, tensor "b"=1048576]>

// -----

dist.mesh @mesh <[tensor "a"=2]>
// expected-error@+1 {{is the second mesh of its module}}
dist.mesh @mesh_c3 <[tensor "a"=2]>

// -----

dist.mesh @mesh <[tensor "a"=2]>
func.func @constrain_c1_rank(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{has rank 1, the value is of type}}
  %0 = dist.constrain %a to <[{}]> : tensor<4x8xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "a"=2]>
func.func @constrain_c1_axis(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{the mesh has no axis 'b'}}
  %0 = dist.constrain %a to <[{}, {"b"}]> : tensor<4x8xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "a"=3]>
func.func @constrain_c2(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{does not divide over axis 'a' of size 3}}
  %0 = dist.constrain %a to <[{}, {"a"}]> : tensor<4x8xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "a"=2]>
func.func @constrain_c3(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{cannot make a value partial}}
  %0 = dist.constrain %a to <[{}, {}], partial = {"a": sum}> : tensor<4x8xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "a"=2]>
func.func @coordinate_c1() {
  // expected-error@+1 {{the mesh has no axis 'b'}}
  %0 = dist.coordinate "b" : tensor<i64>
  return
}

// -----

func.func @twice(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{axis 'a' is named twice}}
  %0 = dist.constrain %a to <[{"a"}, {"a"}]> : tensor<4x8xf32>
  return
}

// -----

func.func @unknown(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{unknown attribute 'dist.shardinks'}}
  %0 = nn.neg %a {dist.shardinks = 1} : tensor<4x8xf32>
  return
}

// -----

func.func @count(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{must have one sharding per result}}
  %0 = nn.neg %a {dist.shardings = []} : tensor<4x8xf32>
  return
}

// -----

// expected-error@+2 {{expected ::shale::dist::Strategy to be one of: none, optimizer, grad, full}}
// expected-error@+1 {{failed to parse Dist_StrategyAttr}}
module attributes {dist.strategy = #dist.strategy<zero>} {}

// -----

// expected-error@+1 {{'dist.strategy' must be #dist.strategy}}
module attributes {dist.strategy = "full"} {}

// -----

// expected-error@+1 {{'dist.keep_single_rank' must be a unit attribute}}
module attributes {dist.keep_single_rank = true} {}

// -----

// expected-error@+1 {{expected replica, shard, tensor or expert; got 'zero'}}
dist.mesh @mesh_c1_kind <[zero "a"=2]>

// -----

// expected-error@+1 {{has an axis of unknown kind 7}}
"dist.mesh"() {sym_name = "mesh_c1_number", axes = ["a"], kinds = array<i32: 7>, sizes = array<i64: 2>} : () -> ()

// -----

// expected-error@+1 {{must have at least one axis, and one kind and size per axis}}
"dist.mesh"() {sym_name = "mesh_c1_counts", axes = ["a"], kinds = array<i32>, sizes = array<i64: 2>} : () -> ()

// -----

dist.mesh @mesh <[shard "fsdp"=4]>
// expected-error@+1 {{dimension 0 of 'tensor<6x8xf32>' does not divide over axis 'fsdp' of size 4}}
func.func @argument(%a: tensor<6x8xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>}) {
  return
}

// -----

// expected-error@+1 {{'dist.plan_costs' must be a list of #dist.split_cost}}
nn.state @w role = param type = tensor<8x8xf32> {dist.plan_costs = ["column"]}

// -----

// expected-error@+2 {{expected ::shale::dist::TensorSplit}}
// expected-error@+1 {{failed to parse Dist_SplitCostAttr}}
nn.state @w role = param type = tensor<8x8xf32> {dist.plan_costs = [#dist.split_cost<diagonal, gathered = 0, whole = 0, reduced = 0, sums = 0, chosen = true>]}

// -----

// expected-error@+1 {{'dist.wide_sums' must be a unit attribute}}
module attributes {dist.wide_sums = 1 : i64} {
}

// -----

dist.mesh @mesh <[tensor "a"=2]>
func.func @constrain_c2_blocks(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{dimension 0 of 'tensor<4x8xf32>' does not divide over axis 'a' of size 2 in 3 blocks}}
  %0 = dist.constrain %a to <[{"a" in 3}, {}]> : tensor<4x8xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "a"=2]>
func.func @constrain_c2_in_blocks(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{dimension 0 of 'tensor<4x8xf32>' does not divide over axis 'a' of size 2 in 4 blocks}}
  %0 = dist.constrain %a to <[{"a" in 4}, {}]> : tensor<4x8xf32>
  return
}

// -----

// Blocks that cross those of an axis ahead.
dist.mesh @mesh <[tensor "a"=2, tensor "b"=2]>
func.func @constrain_c2_crossing(%a: tensor<24xf32>) {
  // expected-error@+1 {{dimension 0 of 'tensor<24xf32>' does not divide over axis 'b' of size 2 in 3 blocks}}
  %0 = dist.constrain %a to <[{"a" in 2, "b" in 3}]> : tensor<24xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "a"=4]>
func.func @constrain_c2_empty(%a: tensor<0xf32>) {
  // expected-error@+1 {{does not divide over axis 'a' of size 4 in 4611686018427387904 blocks}}
  %0 = dist.constrain %a to <[{"a" in 4611686018427387904}]> : tensor<0xf32>
  return
}

// -----

func.func @blocks(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{axis 'a' needs two blocks or more}}
  %0 = dist.constrain %a to <[{"a" in 1}, {}]> : tensor<4x8xf32>
  return
}

// -----

// expected-error@+1 {{axis 'a+b' has a '+' in its name}}
dist.mesh @mesh_c4_name <[tensor "a+b"=2]>

// -----

// expected-error@+1 {{joint axis 'b+a' does not join several axes in the order of the mesh}}
dist.mesh @mesh_c4_order <[tensor "a"=2, tensor "b"=2]> joint ["b+a"]

// -----

// expected-error@+1 {{joint axis 'a' does not join several axes in the order of the mesh}}
dist.mesh @mesh_c4_one <[tensor "a"=2]> joint ["a"]

// -----

// expected-error@+1 {{joint axis 'a+c' does not join several axes in the order of the mesh}}
dist.mesh @mesh_c4_unknown <[tensor "a"=2, tensor "b"=2]> joint ["a+c"]

// -----

dist.mesh @mesh <[tensor "a"=2, tensor "b"=2]> joint ["a+b"]
func.func @joint_layout(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{'a+b' joins axes: name each of them}}
  %0 = dist.constrain %a to <[{"a+b"}, {}]> : tensor<4x8xf32>
  return
}

// -----

dist.mesh @mesh <[tensor "a"=2, tensor "b"=2]>
func.func @joint_undeclared(%a: tensor<4x8xf32>) {
  // expected-error@+1 {{the mesh has no axis 'a+b'}}
  %0 = dist.all_gather %a over "a+b" dim = 0 : tensor<4x8xf32> -> tensor<16x8xf32>
  return
}

// -----

// expected-error@+1 {{joint axis 'a+b' is named twice}}
dist.mesh @mesh_c4_twice <[tensor "a"=2, tensor "b"=2]> joint ["a+b", "a+b"]

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @factors(%a: tensor<4xf32>) {
  // expected-error@+1 {{'dist.factors' must split factors over axes of the mesh}}
  %0 = nn.neg %a {dist.factors = #dist.sharding<[{"tp"}]>} : tensor<4xf32>
  return
}
