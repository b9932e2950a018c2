// RUN: shale-opt %s --split-input-file --shale-propagate --shale-verify-sharded --shale-partition | FileCheck %s

// Every transition: P -> S, P -> R, S(d) -> S(e), S -> R, R -> S.
// CHECK-LABEL: func.func @transitions
// CHECK-SAME: (%[[X:.*]]: tensor<4x2xf32>
module {
dist.mesh @mesh <[tensor "tp"=2]>
func.func @transitions(%x: tensor<4x4xf32> {nn.role = #nn.role<input>, nn.name = "x", dist.sharding = #dist.sharding<[{}, {"tp"}]>})
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  // CHECK: %[[P:.*]] = nn.matmul %{{.*}} : (tensor<4x2xf32>, tensor<2x4xf32>) -> tensor<4x4xf32>
  %0 = nn.transpose %x perm = [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = nn.matmul %x, %0 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  // CHECK: dist.reduce_scatter sum %[[P]] over "tp" dim = 0 : tensor<4x4xf32> -> tensor<2x4xf32>
  %2 = dist.constrain %1 to <[{"tp"}, {}]> : tensor<4x4xf32>
  %3 = nn.exp %2 : tensor<4x4xf32>
  // CHECK: %[[R:.*]] = dist.all_reduce sum %[[P]] over "tp" : tensor<4x4xf32>
  %4 = dist.constrain %1 to <[{}, {}]> : tensor<4x4xf32>
  %5 = nn.exp %4 : tensor<4x4xf32>
  // CHECK: dist.all_to_all %[[X]] over "tp" split = 0 concat = 1 : tensor<4x2xf32> -> tensor<2x4xf32>
  %6 = dist.constrain %x to <[{"tp"}, {}]> : tensor<4x4xf32>
  %7 = nn.exp %6 : tensor<4x4xf32>
  // CHECK: dist.slice %[[R]] over "tp" dim = 1 : tensor<4x4xf32> -> tensor<4x2xf32>
  %8 = dist.constrain %4 to <[{}, {"tp"}]> : tensor<4x4xf32>
  %9 = nn.exp %8 : tensor<4x4xf32>
  // CHECK: dist.all_gather %{{.*}} over "tp" dim = 0 : tensor<2x4xf32> -> tensor<4x4xf32>
  // CHECK: dist.all_gather %{{.*}} over "tp" dim = 1 : tensor<4x2xf32> -> tensor<4x4xf32>
  // CHECK-NOT: dist.constrain
  // CHECK-NOT: dist.shardings
  return %3, %5, %7, %9 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

// An op that reads one value twice: a rank's rows of it, and all of it.
// CHECK-LABEL: func.func @squared
// CHECK-SAME: (%[[X:.*]]: tensor<2x4xf32>
module {
dist.mesh @mesh <[tensor "tp"=2]>
func.func @squared(%x: tensor<4x4xf32> {nn.role = #nn.role<input>, nn.name = "x", dist.sharding = #dist.sharding<[{"tp"}, {}]>}) -> tensor<4x4xf32> {
  // CHECK: %[[ALL:.*]] = dist.all_gather %[[X]] over "tp" dim = 0 : tensor<2x4xf32> -> tensor<4x4xf32>
  // CHECK: nn.matmul %[[X]], %[[ALL]] : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
  %0 = nn.matmul %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
}

// -----

// A gradient is summed over the data axis by itself, before the norm and the update read it. The parameter is split over tp:
// its state has the sharding, and its part of the norm is summed over tp.
// CHECK: nn.state @w role = param type = tensor<4x4xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}
// CHECK: nn.state @w.momentum role = moment("momentum") type = tensor<4x4xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>, of = @w}
// CHECK-LABEL: func.func @step
// CHECK-SAME: %{{.*}}: tensor<2x4xf32> {{{.*}}nn.name = "x"
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<4x2xf32> {nn.state = @w}, %[[M:[a-z0-9]+]]: tensor<4x2xf32> {nn.state = @w.momentum}
// CHECK: nn.matmul %{{.*}}, %[[W]] : (tensor<2x4xf32>, tensor<4x2xf32>) -> tensor<2x2xf32>
// CHECK: %[[D:.*]] = nn.matmul %{{.*}} transpose_lhs : (tensor<2x4xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
// CHECK: %[[S:.*]] = dist.all_reduce sum %[[D]] over "fsdp" : tensor<4x2xf32>
// CHECK: %[[Q:.*]] = nn.sum_squares %[[S]]
// CHECK: %[[N:.*]] = dist.all_reduce sum %[[Q]] over "tp"
// CHECK: %[[P:.*]], %[[V:.*]] = nn.sgd %[[W]], %[[S]], %[[M]] {{.*}} : tensor<4x2xf32>
// CHECK: return %[[N]], %[[P]], %[[V]]
module attributes {dist.strategy = #dist.strategy<full>} {
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
nn.state @w role = param type = tensor<4x4xf32>
nn.state @w.momentum role = moment("momentum") type = tensor<4x4xf32> {of = @w}
func.func @step(%x: tensor<4x4xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
    %w: tensor<4x4xf32> {nn.state = @w, dist.sharding = #dist.sharding<[{}, {"tp"}]>}, %m: tensor<4x4xf32> {nn.state = @w.momentum},
    %lr: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
    -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "norm"}, tensor<4x4xf32> {nn.state = @w}, tensor<4x4xf32> {nn.state = @w.momentum}) {
  %0 = nn.matmul %x, %w : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = nn.matmul %x, %0 transpose_lhs : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = nn.sum_squares %1 : (tensor<4x4xf32>) -> tensor<f32>
  %e = nn.constant dense<true> : tensor<i1>
  %p, %v = nn.sgd %w, %1, %m enable %e scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 1.000000e-01> : tensor<4x4xf32>, tensor<f32>
  return %2, %p, %v : tensor<f32>, tensor<4x4xf32>, tensor<4x4xf32>
}
}

// -----

// A partial maximum that is wanted in slices, on a data axis and on a tensor axis: it is reduced, and sliced after that.
// CHECK-LABEL: func.func @maxima
// CHECK: %[[A:.*]] = nn.reduce max %{{.*}} : tensor<4x4xf32> -> tensor<4xf32>
// CHECK: %[[B:.*]] = dist.all_reduce max %[[A]] over "fsdp"
// CHECK: %[[C:.*]] = dist.slice %[[B]] over "fsdp" dim = 0
// CHECK: nn.tanh %[[C]]
// CHECK: %[[D:.*]] = dist.all_reduce max %{{.*}} over "tp"
// CHECK: dist.slice %[[D]] over "tp" dim = 0
// CHECK-NOT: reduce_scatter
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
func.func @maxima(%x: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"fsdp"}]>}, %y: tensor<4x8xf32> {dist.sharding = #dist.sharding<[{}, {"tp"}]>}) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.reduce max %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %1 = dist.constrain %0 to <[{"fsdp"}]> : tensor<4xf32>
  %2 = nn.tanh %1 : tensor<4xf32>
  %3 = nn.reduce max %y dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %4 = dist.constrain %3 to <[{"tp"}]> : tensor<4xf32>
  %5 = nn.tanh %4 : tensor<4xf32>
  return %2, %5 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Matmuls that are rounded to bf16 are summed over ranks in bf16, also if their terms are added in f32 first. A sum of other terms,
// of squares for example, keeps its type.
// CHECK-LABEL: func.func @rounded
module {
dist.mesh @mesh <[tensor "tp"=2]>
func.func @rounded(%x: tensor<4x4xbf16> {nn.role = #nn.role<input>, nn.name = "x", dist.sharding = #dist.sharding<[{}, {"tp"}]>},
                   %w: tensor<4x4xbf16> {nn.role = #nn.role<input>, nn.name = "w", dist.sharding = #dist.sharding<[{"tp"}, {}]>})
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>) {
  // CHECK: %[[A:.*]] = nn.matmul {{.*}} -> tensor<4x4xbf16>
  // CHECK-NEXT: nn.cast %[[A]]
  %0 = nn.matmul %x, %w : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %1 = nn.cast %0 : tensor<4x4xbf16> -> tensor<4x4xf32>
  // CHECK-NEXT: %[[B:.*]] = dist.all_reduce sum %[[A]] over "tp" : tensor<4x4xbf16>
  // CHECK-NEXT: %[[C:.*]] = nn.cast %[[B]] : tensor<4x4xbf16> -> tensor<4x4xf32>
  // CHECK-NEXT: nn.exp %[[C]]
  %2 = nn.exp %1 : tensor<4x4xf32>
  // CHECK: %[[D:.*]] = nn.add {{.*}} : tensor<4x4xf32>
  // CHECK-NEXT: %[[E:.*]] = nn.cast %[[D]] : tensor<4x4xf32> -> tensor<4x4xbf16>
  // CHECK-NEXT: %[[F:.*]] = dist.all_reduce sum %[[E]] over "tp" : tensor<4x4xbf16>
  // CHECK-NEXT: nn.cast %[[F]] : tensor<4x4xbf16> -> tensor<4x4xf32>
  %3 = nn.matmul %w, %x transpose_lhs transpose_rhs : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %4 = nn.cast %3 : tensor<4x4xbf16> -> tensor<4x4xf32>
  %10 = nn.matmul %x, %w : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %11 = nn.cast %10 : tensor<4x4xbf16> -> tensor<4x4xf32>
  %5 = nn.add %4, %11 : tensor<4x4xf32>
  %6 = nn.exp %5 : tensor<4x4xf32>
  // CHECK: dist.all_reduce sum %{{.*}} over "tp" : tensor<4xf32>
  %7 = nn.cast %x : tensor<4x4xbf16> -> tensor<4x4xf32>
  %8 = nn.reduce sum %7 dims = [1] : tensor<4x4xf32> -> tensor<4xf32>
  %9 = nn.exp %8 : tensor<4xf32>
  return %2, %6, %9 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>
}
}

// -----

// With dist.wide_sums sums are sent as their terms are added.
// CHECK-LABEL: func.func @wide
module attributes {dist.wide_sums} {
dist.mesh @mesh <[tensor "tp"=2]>
func.func @wide(%x: tensor<4x4xbf16> {nn.role = #nn.role<input>, nn.name = "x", dist.sharding = #dist.sharding<[{}, {"tp"}]>},
                %w: tensor<4x4xbf16> {nn.role = #nn.role<input>, nn.name = "w", dist.sharding = #dist.sharding<[{"tp"}, {}]>}) -> tensor<4x4xf32> {
  // CHECK: %[[A:.*]] = nn.cast %{{.*}} : tensor<4x4xbf16> -> tensor<4x4xf32>
  // CHECK-NEXT: dist.all_reduce sum %[[A]] over "tp" : tensor<4x4xf32>
  %0 = nn.matmul %x, %w : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %1 = nn.cast %0 : tensor<4x4xbf16> -> tensor<4x4xf32>
  %2 = nn.exp %1 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
}
