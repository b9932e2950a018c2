// RUN: shale-opt %s --shale-annotate-offload=offload=all | FileCheck %s --check-prefix=ALL
// RUN: shale-opt %s --shale-annotate-offload=offload=params:0.5 | FileCheck %s --check-prefix=HALF
// RUN: shale-opt %s --shale-annotate-offload=offload=params:0.75 | FileCheck %s --check-prefix=MOST
// RUN: shale-opt %s --shale-annotate-offload=offload=none | FileCheck %s --implicit-check-not=mem.offload --implicit-check-not=mem.space
// RUN: not shale-opt %s --shale-annotate-offload=offload=params:2 2>&1 | FileCheck %s --check-prefix=FRACTION
// RUN: not shale-opt %s --shale-annotate-offload=offload=weights 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// FRACTION: for the --offload option: expects a fraction from 0 to 1 after ':'; got 'params:2'
// UNKNOWN: for the --offload option: 'weights' is not one of none, all, params, grads, optimizer, activations

dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @a on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = []>]
dist.unit @b on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = []>]
// The largest first, until they have the fraction: 64 of 96 is more than half, less than three quarters.
// ALL: nn.state @a.f32 {{.*}}mem.space = "host"
// HALF: nn.state @a.f32 {{.*}}mem.space = "host"
// MOST: nn.state @a.f32 {{.*}}mem.space = "host"
nn.state @a.f32 role = param type = tensor<64xf32> {dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @a}
// ALL: nn.state @b.f32 {{.*}}mem.space = "host"
// MOST: nn.state @b.f32 {{.*}}mem.space = "host"
// HALF-NOT: mem.space
// MOST-NOT: mem.space
nn.state @b.f32 role = param type = tensor<32xf32> {dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @b}
// ALL: nn.state @a.f32.momentum {{.*}}mem.space = "host"
nn.state @a.f32.momentum role = moment("momentum") type = tensor<64xf32> {of = @a.f32, dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @a}

// ALL-LABEL: func.func @step
func.func @step(%x: tensor<64x64xf32>, %a: tensor<32xf32> {nn.state = @a.f32}, %b: tensor<16xf32> {nn.state = @b.f32},
                %m: tensor<32xf32> {nn.state = @a.f32.momentum}, %g: tensor<64xf32>, %enable: tensor<i1>, %s: tensor<f32>)
    -> (tensor<32xf32> {nn.state = @a.f32}, tensor<32xf32> {nn.state = @a.f32.momentum}, tensor<64x64xf32>) {
  // Two matmuls lie between a use of the first tensor and its next use.
  // ALL: nn.exp %{{.*}} {mem.offload
  %0 = nn.exp %x {nn.phase = #nn.phase<forward>} : tensor<64x64xf32>
  %1 = nn.matmul %0, %x {nn.phase = #nn.phase<forward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  // ALL: nn.matmul %{{[^{]*}} {nn.phase
  %2 = nn.matmul %1, %x {nn.phase = #nn.phase<forward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = nn.matmul %2, %x {nn.phase = #nn.phase<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = nn.mul %3, %0 {nn.phase = #nn.phase<backward>} : tensor<64x64xf32>
  // ALL: dist.reduce_scatter {{.*}}{mem.offload
  %5 = dist.reduce_scatter sum %g over "fsdp" dim = 0 {nn.phase = #nn.phase<backward>} : tensor<64xf32> -> tensor<32xf32>
  %6:2 = nn.sgd %a, %5, %m enable %enable scale %s lr %s momentum %s weight_decay %s : tensor<32xf32>, tensor<f32>
  return %6#0, %6#1, %4 : tensor<32xf32>, tensor<32xf32>, tensor<64x64xf32>
}
