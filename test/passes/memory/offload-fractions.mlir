// A fraction takes the largest tensors first, until it has that share of the bytes.
// RUN: shale-opt %s --shale-annotate-offload=offload=activations:0.5 | FileCheck %s --check-prefix=HALF
// RUN: shale-opt %s --shale-annotate-offload=offload=activations:0.6 | FileCheck %s --check-prefix=MORE
// RUN: shale-opt %s --shale-annotate-offload=offload=activations:0 | FileCheck %s --check-prefix=NOTHING --implicit-check-not=mem.offload
// RUN: shale-opt %s --shale-annotate-offload=offload=optimizer:0.5 | FileCheck %s --check-prefix=OPTIMIZER --implicit-check-not=mem.offload
// RUN: shale-opt %s --shale-annotate-offload=offload=optimizer:0.1 | FileCheck %s --check-prefix=OPTIMIZER --implicit-check-not=mem.offload
// RUN: shale-opt %s --shale-annotate-offload=offload=optimizer:0.7 | FileCheck %s --check-prefix=PAIRS
// RUN: not shale-opt %s --shale-annotate-offload=offload=activations:-0.1 2>&1 | FileCheck %s --check-prefix=BAD
// BAD: for the --offload option: expects a fraction from 0 to 1 after ':'; got 'activations:-0.1'
// NOTHING: func.func @step

dist.mesh @mesh <[shard "fsdp"=1]>
dist.unit @a on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = []>]
dist.unit @b on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = []>]
nn.state @a.f32 role = param type = tensor<32xf32> {dist.group = 0 : i64, dist.unit = @a}
nn.state @b.f32 role = param type = tensor<64xf32> {dist.group = 0 : i64, dist.unit = @b}
// Both moments of the larger group, none of the other: of 192 elements the first moment alone has more than a tenth.
// OPTIMIZER: nn.state @a.moment1
// OPTIMIZER-NOT: mem.space
// OPTIMIZER: nn.state @b.moment1 {{.*}}mem.space = "host"
// OPTIMIZER-NEXT: nn.state @b.moment2 {{.*}}mem.space = "host"
// The moments of the smaller group stay together, too, although one would be enough.
// PAIRS: nn.state @a.moment1 {{.*}}mem.space = "host"
// PAIRS-NEXT: nn.state @a.moment2 {{.*}}mem.space = "host"
// PAIRS-NEXT: nn.state @b.moment1 {{.*}}mem.space = "host"
// PAIRS-NEXT: nn.state @b.moment2 {{.*}}mem.space = "host"
nn.state @a.moment1 role = moment("moment1") type = tensor<32xf32> {of = @a.f32, dist.group = 0 : i64, dist.unit = @a}
nn.state @a.moment2 role = moment("moment2") type = tensor<32xf32> {of = @a.f32, dist.group = 0 : i64, dist.unit = @a}
nn.state @b.moment1 role = moment("moment1") type = tensor<64xf32> {of = @b.f32, dist.group = 0 : i64, dist.unit = @b}
nn.state @b.moment2 role = moment("moment2") type = tensor<64xf32> {of = @b.f32, dist.group = 0 : i64, dist.unit = @b}

// Three activations of 16, 64 and 32 KiB: for a half one is enough, for more the two largest are taken.
// HALF-LABEL: func.func @step
// HALF: nn.exp %{{[^ ]*}} {nn.phase
// HALF-NOT: mem.offload
// HALF: nn.tanh {{.*}}mem.offload
// HALF-NOT: mem.offload
// HALF: return
// MORE-LABEL: func.func @step
// MORE: nn.exp %{{[^ ]*}} {nn.phase
// MORE: nn.tanh {{.*}}mem.offload
// MORE: nn.neg {{.*}}mem.offload
// MORE-NOT: mem.offload
// MORE: return
func.func @step(%x: tensor<64x64xf32>, %y: tensor<256x64xf32>, %z: tensor<128x64xf32>,
                %a1: tensor<32xf32> {nn.state = @a.moment1}, %a2: tensor<32xf32> {nn.state = @a.moment2},
                %b1: tensor<64xf32> {nn.state = @b.moment1}, %b2: tensor<64xf32> {nn.state = @b.moment2}) -> (tensor<64x64xf32>, tensor<256x64xf32>, tensor<128x64xf32>) {
  %0 = nn.exp %x {nn.phase = #nn.phase<forward>} : tensor<64x64xf32>
  %1 = nn.tanh %y {nn.phase = #nn.phase<forward>} : tensor<256x64xf32>
  %2 = nn.neg %z {nn.phase = #nn.phase<forward>} : tensor<128x64xf32>
  %3 = nn.matmul %x, %x {nn.phase = #nn.phase<forward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %4 = nn.matmul %3, %x {nn.phase = #nn.phase<forward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %5 = nn.matmul %4, %x {nn.phase = #nn.phase<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %6 = nn.mul %5, %0 {nn.phase = #nn.phase<backward>} : tensor<64x64xf32>
  %7 = nn.mul %1, %1 {nn.phase = #nn.phase<backward>} : tensor<256x64xf32>
  %8 = nn.mul %2, %2 {nn.phase = #nn.phase<backward>} : tensor<128x64xf32>
  return %6, %7, %8 : tensor<64x64xf32>, tensor<256x64xf32>, tensor<128x64xf32>
}
