// RUN: shale-opt %s --shale-precision --shale-verify-precision --split-input-file | FileCheck %s

// Matmuls and the ops after them are in bf16, sums of gradients and the loss in f32. The
// parameter is cast once for all its uses but the update.
module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
nn.state @w role = param type = tensor<8x8xf32>
nn.state @v role = moment("momentum") type = tensor<8x8xf32> {of = @w}

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8x8xf32> {nn.state = @w}
func.func @step(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<8x8xf32> {nn.state = @w},
                %v: tensor<8x8xf32> {nn.state = @v}, %h: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"},
                %e: tensor<i1> {nn.role = #nn.role<input>, nn.name = "e"})
    -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "loss"}, tensor<8x8xf32> {nn.state = @w}, tensor<8x8xf32> {nn.state = @v}) {
  // CHECK-DAG: %[[XH:.*]] = nn.cast %[[X]] {{.*}} -> tensor<4x8xbf16>
  // CHECK-DAG: %[[WH:.*]] = nn.cast %[[W]] {{.*}} -> tensor<8x8xbf16>
  // CHECK: %[[Y:.*]] = nn.matmul %[[XH]], %[[WH]] {{.*}} -> tensor<4x8xbf16>
  %y = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // CHECK: %[[YF:.*]] = nn.cast %[[Y]] {{.*}} -> tensor<4x8xf32>
  // CHECK: %[[GF:.*]] = nn.gelu %[[YF]] {{.*}} : tensor<4x8xf32>
  // CHECK: nn.cast %[[GF]] {{.*}} -> tensor<4x8xbf16>
  %a = nn.gelu %y {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  // CHECK: %[[Z:.*]] = nn.matmul {{.*}} -> tensor<4x8xbf16>
  %z = nn.matmul %a, %w transpose_rhs {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  // From the last matmul on the loss is in f32.
  // CHECK: %[[ZF:.*]] = nn.cast %[[Z]] {{.*}} -> tensor<4x8xf32>
  // CHECK: nn.mul %[[ZF]], %[[ZF]] {{.*}} : tensor<4x8xf32>
  %s = nn.mul %z, %z {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %loss = nn.reduce sum %s dims = [0, 1] {nn.phase = #nn.phase<forward>} : tensor<4x8xf32> -> tensor<f32>
  // CHECK: nn.matmul {{.*}} transpose_lhs {{.*}} (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
  %g1 = nn.matmul %x, %a transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK: nn.matmul {{.*}} -> tensor<8x8xf32>
  %g2 = nn.matmul %z, %a transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK: %[[G:.*]] = nn.add {{.*}} : tensor<8x8xf32>
  %g = nn.add %g1, %g2 {nn.phase = #nn.phase<backward>} : tensor<8x8xf32>
  // CHECK: nn.sgd %[[W]], %[[G]], {{.*}} : tensor<8x8xf32>, tensor<f32>
  %p, %v1 = nn.sgd %w, %g, %v enable %e scale %h lr %h momentum %h weight_decay %h {nn.phase = #nn.phase<update>} : tensor<8x8xf32>, tensor<f32>
  return %loss, %p, %v1 : tensor<f32>, tensor<8x8xf32>, tensor<8x8xf32>
}
}

// -----

// No master, moments and reduction in bf16. The statistics of a norm stay in f32.
module attributes {nn.precision = #nn.precision<param = bf16, reduce = bf16, buffer = bf16, master = bf16, optimizer = bf16>} {
// CHECK: nn.state @w role = param type = tensor<8xbf16> {init = #nn.file<"f", offset = 0, length = 32, transposed = false>}
nn.state @w role = param type = tensor<8xf32> {init = #nn.file<"f", offset = 0, length = 32, transposed = false>}
// CHECK: nn.state @b role = buffer type = tensor<4x8xbf16>
nn.state @b role = buffer type = tensor<4x8xf32>
// CHECK: nn.state @v role = moment("momentum") type = tensor<8xbf16>
nn.state @v role = moment("momentum") type = tensor<8xf32> {of = @w}

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<4x8xbf16> {nn.state = @b}, %[[W:[a-z0-9]+]]: tensor<8xbf16> {nn.state = @w}, %[[V:[a-z0-9]+]]: tensor<8xbf16>
func.func @step(%b: tensor<4x8xf32> {nn.state = @b}, %w: tensor<8xf32> {nn.state = @w}, %v: tensor<8xf32> {nn.state = @v},
                %h: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"}, %e: tensor<i1> {nn.role = #nn.role<input>, nn.name = "e"})
    -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "norm"}, tensor<8xf32> {nn.state = @w}, tensor<8xf32> {nn.state = @v}) {
  // CHECK: nn.rms_norm %[[B]], %[[W]] {{.*}} : tensor<4x8xbf16>, tensor<8xbf16> -> tensor<4xf32>
  %y, %r = nn.rms_norm %b, %w epsilon = 1.0e-5 {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
  // CHECK: %{{.*}}, %[[DW:.*]] = nn.rms_norm_grad
  // CHECK: %[[G:.*]] = nn.cast %[[DW]] {{.*}} tensor<8xf32> -> tensor<8xbf16>
  %dx, %g = nn.rms_norm_grad %b, %w, %r, %y {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>
  // CHECK: nn.sum_squares %[[G]] {{.*}} : (tensor<8xbf16>) -> tensor<f32>
  %n = nn.sum_squares %g {nn.phase = #nn.phase<update>} : (tensor<8xf32>) -> tensor<f32>
  // CHECK: nn.sgd %[[W]], %[[G]], %[[V]] {{.*}} : tensor<8xbf16>, tensor<f32>
  %p, %v1 = nn.sgd %w, %g, %v enable %e scale %h lr %h momentum %h weight_decay %h {nn.phase = #nn.phase<update>} : tensor<8xf32>, tensor<f32>
  // CHECK: return {{.*}} : tensor<f32>, tensor<8xbf16>, tensor<8xbf16>
  return %n, %p, %v1 : tensor<f32>, tensor<8xf32>, tensor<8xf32>
}
}

// -----

// Several micro-batches per step: matmuls and sums reach the accumulator in f32, whatever the reduce type
// is. The complete sum is rounded to the reduce type.
module attributes {nn.accumulate = 2 : i64, nn.precision = #nn.precision<param = bf16, reduce = bf16, buffer = f32, master = f32, optimizer = f32>} {
nn.state @w role = param type = tensor<8x8xf32>
nn.state @v role = moment("momentum") type = tensor<8x8xf32> {of = @w}
nn.state @a role = grad_accumulator type = tensor<8x8xf32> {of = @w}

// CHECK-LABEL: func.func @step
// CHECK: %[[G1:.*]] = nn.matmul {{.*}} (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
// CHECK: %[[G2:.*]] = nn.embedding_grad {{.*}} -> tensor<8x8xf32>
// CHECK-NEXT: %[[G:.*]] = nn.add %[[G1]], %[[G2]] {{.*}} : tensor<8x8xf32>
// CHECK-NEXT: %[[SUM:.*]] = nn.accumulate @w %[[G]] into %{{.*}} : tensor<8x8xf32>
// CHECK-NEXT: %[[ROUNDED:.*]] = nn.cast %[[SUM]] {{.*}} : tensor<8x8xf32> -> tensor<8x8xbf16>
// CHECK-NEXT: nn.sum_squares %[[ROUNDED]]
// CHECK-NEXT: nn.sgd %{{.*}}, %[[ROUNDED]],
func.func @step(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %i: tensor<4xi64> {nn.role = #nn.role<input>, nn.name = "i"},
                %w: tensor<8x8xf32> {nn.state = @w}, %v: tensor<8x8xf32> {nn.state = @v}, %a: tensor<8x8xf32> {nn.state = @a},
                %h: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"}, %e: tensor<i1> {nn.role = #nn.role<input>, nn.name = "e"})
    -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "norm"}, tensor<8x8xf32> {nn.state = @w}, tensor<8x8xf32> {nn.state = @v}) {
  %y = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %g1 = nn.matmul %x, %y transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %g2 = nn.embedding_grad %i, %y {nn.phase = #nn.phase<backward>} : (tensor<4xi64>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %g = nn.add %g1, %g2 {nn.phase = #nn.phase<backward>} : tensor<8x8xf32>
  %all = nn.accumulate @w %g into %a : tensor<8x8xf32> {nn.phase = #nn.phase<backward>} : tensor<8x8xf32>
  %n = nn.sum_squares %all {nn.phase = #nn.phase<update>} : (tensor<8x8xf32>) -> tensor<f32>
  %p, %v1 = nn.sgd %w, %all, %v enable %e scale %h lr %h momentum %h weight_decay %h {nn.phase = #nn.phase<update>} : tensor<8x8xf32>, tensor<f32>
  return %n, %p, %v1 : tensor<f32>, tensor<8x8xf32>, tensor<8x8xf32>
}
}

// -----

// The bias of a norm is a constant: it is rounded with the scale, whose type it needs.
module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
nn.state @w role = param type = tensor<8xf32>

// CHECK-LABEL: func.func @forward
// CHECK-DAG: %[[B:.*]] = nn.constant dense<0.000000e+00> : tensor<8xbf16>
// CHECK-DAG: %[[W:.*]] = nn.cast %{{.*}} : tensor<8xf32> -> tensor<8xbf16>
// CHECK: nn.layer_norm %{{.*}}, %[[W]], %[[B]] {{.*}} : tensor<4x8xf32>, tensor<8xbf16>
func.func @forward(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<8xf32> {nn.state = @w}) -> tensor<4x8xf32> {
  %b = nn.constant dense<0.0> : tensor<8xf32>
  %y, %m, %r = nn.layer_norm %x, %w, %b epsilon = 1.0e-5 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
  return %y : tensor<4x8xf32>
}
}

// -----

// A finite number that f16 does not have becomes its largest one: a constant, and what the forward pass computes from one (a masked score). Infinity
// stays, and so does the gradient, whose overflow the loss scale answers.
module attributes {nn.precision = #nn.precision<param = f16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
nn.state @w role = param type = tensor<8x8xf32>
nn.state @v role = moment("momentum") type = tensor<8x8xf32> {of = @w}

// CHECK-LABEL: func.func @masked
func.func @masked(%x: tensor<8x8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %gone: tensor<8x8xf32> {nn.role = #nn.role<input>, nn.name = "gone"},
                  %w: tensor<8x8xf32> {nn.state = @w}, %v: tensor<8x8xf32> {nn.state = @v}, %h: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"},
                  %e: tensor<i1> {nn.role = #nn.role<input>, nn.name = "e"})
    -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "loss"}, tensor<8x8xf32> {nn.state = @w}, tensor<8x8xf32> {nn.state = @v}) {
  %fill = nn.constant dense<-1.0e9> : tensor<8x8xf32>
  %never = nn.constant dense<0xFF800000> : tensor<8x8xf32>
  // CHECK-DAG: %[[LEAST:.*]] = nn.constant dense<-6.550400e+04> : tensor<8x8xf16>
  // CHECK-DAG: %[[NEVER:.*]] = nn.constant dense<0xFC00> : tensor<8x8xf16>
  // CHECK: %[[S:.*]] = nn.matmul {{.*}} -> tensor<8x8xf16>
  %s = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %added = nn.mul %gone, %fill {nn.phase = #nn.phase<forward>} : tensor<8x8xf32>
  // CHECK: %[[MASKED:.*]] = nn.add {{.*}} : tensor<8x8xf32>
  // CHECK: %[[SIZE:.*]] = nn.abs %[[MASKED]]
  // CHECK: %[[FINITE:.*]] = nn.compare lt %[[SIZE]]
  // CHECK: %[[LOW:.*]] = nn.max %[[MASKED]]
  // CHECK: %[[BOTH:.*]] = nn.min %[[LOW]]
  // CHECK: %[[CLAMPED:.*]] = nn.select %[[FINITE]], %[[BOTH]], %[[MASKED]]
  // CHECK: nn.cast %[[CLAMPED]] {{.*}} -> tensor<8x8xf16>
  %masked = nn.add %s, %added {nn.phase = #nn.phase<forward>} : tensor<8x8xf32>
  // CHECK: nn.softmax {{.*}} : tensor<8x8xf16>
  %p = nn.softmax %masked {nn.phase = #nn.phase<forward>} : tensor<8x8xf32>
  // CHECK: nn.matmul %{{.*}}, %[[LEAST]]
  %a = nn.matmul %p, %fill {nn.phase = #nn.phase<forward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: nn.matmul %{{.*}}, %[[NEVER]]
  %b = nn.matmul %a, %never {nn.phase = #nn.phase<forward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %loss = nn.reduce sum %b dims = [0, 1] {nn.phase = #nn.phase<forward>} : tensor<8x8xf32> -> tensor<f32>
  %dp = nn.matmul %p, %w {nn.phase = #nn.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // CHECK: %[[DS:.*]] = nn.mul {{.*}} {nn.phase = #backward} : tensor<8x8xf32>
  // CHECK-NEXT: nn.cast %[[DS]] {{.*}} -> tensor<8x8xf16>
  %ds = nn.mul %dp, %fill {nn.phase = #nn.phase<backward>} : tensor<8x8xf32>
  %g = nn.matmul %x, %ds transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %w1, %v1 = nn.sgd %w, %g, %v enable %e scale %h lr %h momentum %h weight_decay %h {nn.phase = #nn.phase<update>} : tensor<8x8xf32>, tensor<f32>
  return %loss, %w1, %v1 : tensor<f32>, tensor<8x8xf32>, tensor<8x8xf32>
}
}
