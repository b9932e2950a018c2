// RUN: shale-opt %s --shale-delay-sums --split-input-file | FileCheck %s
// RUN: shale-opt %s --split-input-file --shale-delay-sums --shale-delay-sums | FileCheck %s

// A value that is whole on every rank is added by the first rank, before the sum. Zeros are zeros on all ranks. The op may be one that is
// linear in one operand at a time, and a cast may follow.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[PART:[^:]*]]: tensor<4xf32>, %[[W:[^:]*]]: tensor<4xf32>
// CHECK-NOT: dist.all_reduce
// CHECK: %[[FIRST:.*]] = nn.compare eq
// CHECK: %[[WIDE:.*]] = nn.broadcast %[[FIRST]]
// CHECK: %[[OWN:.*]] = nn.select %[[WIDE]], %[[W]], %{{.*}}
// CHECK: %[[ADDED:.*]] = nn.add %[[PART]], %[[OWN]]
// CHECK: %[[KEPT:.*]] = nn.select %{{.*}}, %[[ADDED]], %{{.*}}
// CHECK: %[[TIMES:.*]] = nn.mul %[[KEPT]], %[[W]]
// CHECK: %[[SUM:.*]] = dist.all_reduce sum %[[TIMES]] over "fsdp"
// CHECK-NOT: dist.all_reduce
// CHECK: %[[CAST:.*]] = nn.cast %[[SUM]]
// CHECK: nn.sgd %[[W]], %[[CAST]]
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<4xf32>
nn.state @m role = moment("momentum") type = tensor<4xf32> {of = @w}
func.func @step(%part: tensor<4xf32>, %w: tensor<4xf32> {nn.state = @w}, %m: tensor<4xf32> {nn.state = @m}, %where: tensor<4xi1>, %lr: tensor<f32>, %on: tensor<i1>)
    -> (tensor<4xf32> {nn.state = @w}, tensor<4xf32> {nn.state = @m}) {
  %zero = nn.constant dense<0.0> : tensor<4xf32>
  %sum = dist.all_reduce sum %part over "fsdp" : tensor<4xf32>
  %added = nn.add %sum, %w : tensor<4xf32>
  %kept = nn.select %where, %added, %zero : tensor<4xi1>, tensor<4xf32>
  %times = nn.mul %kept, %w : tensor<4xf32>
  %dw = nn.cast %times : tensor<4xf32> -> tensor<4xf32>
  %new_w, %new_m = nn.sgd %w, %dw, %m enable %on scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 0.0>
      : tensor<4xf32>, tensor<f32>
  return %new_w, %new_m : tensor<4xf32>, tensor<4xf32>
}

// -----

// On two data axes the first rank of both adds it.
// CHECK-LABEL: func.func @two
// CHECK-SAME: %[[PART:[^:]*]]: tensor<4xf32>, %[[W:[^:]*]]: tensor<4xf32>
// CHECK: dist.coordinate "replica"
// CHECK: %[[ONE:.*]] = nn.select %{{.*}}, %[[W]], %{{.*}}
// CHECK: dist.coordinate "fsdp"
// CHECK: %[[BOTH:.*]] = nn.select %{{.*}}, %[[ONE]], %{{.*}}
// CHECK: %[[ADDED:.*]] = nn.add %[[PART]], %[[BOTH]]
// CHECK: %[[SUM:.*]] = dist.all_reduce sum %[[ADDED]] over "fsdp"
// CHECK: dist.all_reduce sum %[[SUM]] over "replica"
// CHECK-NOT: dist.all_reduce
dist.mesh @mesh <[replica "replica"=2, shard "fsdp"=2]>
nn.state @w role = param type = tensor<4xf32>
nn.state @m role = moment("momentum") type = tensor<4xf32> {of = @w}
func.func @two(%part: tensor<4xf32>, %w: tensor<4xf32> {nn.state = @w}, %m: tensor<4xf32> {nn.state = @m}, %lr: tensor<f32>, %on: tensor<i1>)
    -> (tensor<4xf32> {nn.state = @w}, tensor<4xf32> {nn.state = @m}) {
  %inner = dist.all_reduce sum %part over "replica" : tensor<4xf32>
  %sum = dist.all_reduce sum %inner over "fsdp" : tensor<4xf32>
  %dw = nn.add %sum, %w : tensor<4xf32>
  %new_w, %new_m = nn.sgd %w, %dw, %m enable %on scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 0.0>
      : tensor<4xf32>, tensor<f32>
  return %new_w, %new_m : tensor<4xf32>, tensor<4xf32>
}

// -----

// Sums stay before an op that is not linear in them, and where something else reads what is computed of them; so do maxima, and sums over tensor axes.
// CHECK-LABEL: func.func @kept
// CHECK: %[[SUM:.*]] = dist.all_reduce sum %{{.*}} over "fsdp"
// CHECK: nn.mul %[[SUM]], %[[SUM]]
// CHECK: %[[READ:.*]] = dist.all_reduce sum %{{.*}} over "fsdp"
// CHECK: %[[ADDED:.*]] = nn.add %[[READ]], %{{.*}}
// CHECK: nn.tanh %[[ADDED]]
// CHECK: %[[MAX:.*]] = dist.all_reduce max %{{.*}} over "fsdp"
// CHECK: nn.add %[[MAX]], %{{.*}}
// CHECK: %[[TENSOR:.*]] = dist.all_reduce sum %{{.*}} over "tp"
// CHECK: nn.add %[[TENSOR]], %{{.*}}
// CHECK-NOT: dist.coordinate
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
nn.state @a role = param type = tensor<4xf32>
nn.state @a.m role = moment("momentum") type = tensor<4xf32> {of = @a}
nn.state @b role = param type = tensor<4xf32>
nn.state @b.m role = moment("momentum") type = tensor<4xf32> {of = @b}
nn.state @c role = param type = tensor<4xf32>
nn.state @c.m role = moment("momentum") type = tensor<4xf32> {of = @c}
nn.state @d role = param type = tensor<4xf32>
nn.state @d.m role = moment("momentum") type = tensor<4xf32> {of = @d}
func.func @kept(%part: tensor<4xf32>, %a: tensor<4xf32> {nn.state = @a}, %am: tensor<4xf32> {nn.state = @a.m}, %b: tensor<4xf32> {nn.state = @b}, %bm: tensor<4xf32> {nn.state = @b.m},
                %c: tensor<4xf32> {nn.state = @c}, %cm: tensor<4xf32> {nn.state = @c.m}, %d: tensor<4xf32> {nn.state = @d}, %dm: tensor<4xf32> {nn.state = @d.m}, %lr: tensor<f32>, %on: tensor<i1>)
    -> (tensor<4xf32>, tensor<4xf32> {nn.state = @a}, tensor<4xf32> {nn.state = @a.m}, tensor<4xf32> {nn.state = @b}, tensor<4xf32> {nn.state = @b.m},
        tensor<4xf32> {nn.state = @c}, tensor<4xf32> {nn.state = @c.m}, tensor<4xf32> {nn.state = @d}, tensor<4xf32> {nn.state = @d.m}) {
  %sum = dist.all_reduce sum %part over "fsdp" : tensor<4xf32>
  %da = nn.mul %sum, %sum : tensor<4xf32>
  %read = dist.all_reduce sum %part over "fsdp" : tensor<4xf32>
  %db = nn.add %read, %b : tensor<4xf32>
  %metric = nn.tanh %db : tensor<4xf32>
  %max = dist.all_reduce max %part over "fsdp" : tensor<4xf32>
  %dc = nn.add %max, %c : tensor<4xf32>
  %tensor = dist.all_reduce sum %part over "tp" : tensor<4xf32>
  %dd = nn.add %tensor, %d : tensor<4xf32>
  %a1, %am1 = nn.sgd %a, %da, %am enable %on scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 0.0> : tensor<4xf32>, tensor<f32>
  %b1, %bm1 = nn.sgd %b, %db, %bm enable %on scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 0.0> : tensor<4xf32>, tensor<f32>
  %c1, %cm1 = nn.sgd %c, %dc, %cm enable %on scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 0.0> : tensor<4xf32>, tensor<f32>
  %d1, %dm1 = nn.sgd %d, %dd, %dm enable %on scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 0.0> : tensor<4xf32>, tensor<f32>
  return %metric, %a1, %am1, %b1, %bm1, %c1, %cm1, %d1, %dm1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
