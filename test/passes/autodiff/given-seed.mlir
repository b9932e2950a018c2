// Gradients that @forward computes begin with nn.seed. In f16 it is the loss scale; with several micro-batches, which add up the
// gradients of the sum, it is the divisor of the mean.
// RUN: shale-opt %s --split-input-file --shale-annotate-precision="param-dtype=f16" --shale-autodiff="optimizer=sgd" --shale-verify-step 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=WARNING --input-file=%t
// RUN: shale-opt %s --split-input-file --shale-autodiff="optimizer=sgd accumulate=2" --shale-verify-step | FileCheck %s --check-prefix=MICRO
// RUN: shale-opt %s --split-input-file --shale-autodiff="optimizer=sgd" --shale-verify-step | FileCheck %s --check-prefix=PLAIN

// CHECK: nn.state @loss_scale role = loss_scale
// CHECK: func.func @step
// CHECK-SAME: %[[SCALE:[a-z0-9]+]]: tensor<f32> {nn.state = @loss_scale}
// CHECK: %[[ONE:.*]] = nn.constant dense<1.000000e+00> : tensor<f32> {nn.phase = #backward}
// CHECK: %[[SEED:.*]] = nn.mul %[[ONE]], %[[SCALE]] {nn.phase = #backward}
// CHECK: nn.div %[[SEED]], %{{.*}} {nn.phase = #backward}

// MICRO: func.func @accumulate_first
// MICRO: %[[COUNT:.*]] = nn.max
// MICRO: %[[SEED:.*]] = nn.mul %{{.*}}, %[[COUNT]] {nn.phase = #backward}
// MICRO: %[[EACH:.*]] = nn.div %[[SEED]], %[[COUNT]] {nn.phase = #backward}
// MICRO: %[[WIDE:.*]] = nn.broadcast %[[EACH]] dims = [] {nn.phase = #backward}
// MICRO: %[[G:.*]] = nn.mul %[[WIDE]], %{{.*}} {nn.phase = #backward}
// MICRO: nn.accumulate @w %[[G]]

// PLAIN: func.func @step
// PLAIN-NOT: nn.seed
// PLAIN: %[[ONE:.*]] = nn.constant dense<1.000000e+00> : tensor<f32> {nn.phase = #backward}
// PLAIN: nn.div %[[ONE]], %{{.*}} {nn.phase = #backward}
// PLAIN-NOT: nn.seed
nn.state @w role = param type = tensor<4xf32>
func.func @forward(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %mask: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "mask"},
                   %w: tensor<4xf32> {nn.state = @w}) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32> {nn.gradient_of = @w}) {
  %0 = nn.mul %x, %w : tensor<4xf32>
  %1 = nn.mul %0, %mask : tensor<4xf32>
  %sum = nn.reduce sum %1 dims = [0] : tensor<4xf32> -> tensor<f32>
  %labels = nn.reduce sum %mask dims = [0] : tensor<4xf32> -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %count = nn.max %labels, %one : tensor<f32>
  %loss = nn.div %sum, %count : tensor<f32>
  %seed = nn.seed : tensor<f32>
  %2 = nn.div %seed, %count : tensor<f32>
  %3 = nn.broadcast %2 dims = [] : tensor<f32> -> tensor<4xf32>
  %4 = nn.mul %x, %mask : tensor<4xf32>
  %5 = nn.mul %3, %4 : tensor<4xf32>
  return %loss, %sum, %labels, %5 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>
}

// -----

// A gradient that is bounded, as by a hook, is not proportional to the loss: nothing is scaled, and f16 says so. Micro-batches multiply each gradient.
// WARNING-NOT: warning
// WARNING: given-seed.mlir:[[@LINE+16]]:{{[0-9]+}}: warning: the file computes the gradients, and here they are not proportional to the loss, so the loss cannot be scaled: in f16, small gradients become zero
// CHECK: -----
// CHECK-NOT: loss_scale
// MICRO: func.func @accumulate_first
// MICRO: %[[BOUNDED:.*]] = nn.min
// MICRO: %[[OFSUM:.*]] = nn.mul %[[BOUNDED]], %{{.*}} {nn.phase = #backward}
// MICRO: nn.accumulate @w %[[OFSUM]]
nn.state @w role = param type = tensor<4xf32>
func.func @forward(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<4xf32> {nn.state = @w})
    -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32> {nn.gradient_of = @w}) {
  %0 = nn.mul %x, %w : tensor<4xf32>
  %sum = nn.reduce sum %0 dims = [0] : tensor<4xf32> -> tensor<f32>
  %count = nn.constant dense<4.0> : tensor<f32>
  %loss = nn.div %sum, %count : tensor<f32>
  %seed = nn.seed : tensor<f32>
  %1 = nn.broadcast %seed dims = [] : tensor<f32> -> tensor<4xf32>
  %2 = nn.min %1, %x : tensor<4xf32>
  return %loss, %sum, %count, %2 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>
}

// -----

// What depends on the seed stays where autograd computed it, also if it is read later. What the backward pass alone reads of the
// forward pass is computed where it is read.
// PLAIN: -----
// PLAIN: func.func @step
// PLAIN: %[[EARLY:.*]] = nn.neg %{{.*}} {nn.phase = #backward}
// PLAIN: %[[U:.*]] = nn.sub %{{.*}}, %{{.*}} {nn.phase = #backward}
// PLAIN: %[[SQUARE:.*]] = nn.exp %{{.*}} {nn.phase = #backward}
// PLAIN: nn.mul %[[EARLY]], %[[SQUARE]] {nn.phase = #backward}
// CHECK: func.func @step
nn.state @u role = param type = tensor<4xf32>
nn.state @w role = param type = tensor<4xf32>
func.func @forward(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %u: tensor<4xf32> {nn.state = @u}, %w: tensor<4xf32> {nn.state = @w})
    -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32> {nn.gradient_of = @u}, tensor<4xf32> {nn.gradient_of = @w}) {
  %square = nn.exp %x : tensor<4xf32>
  %0 = nn.mul %u, %w : tensor<4xf32>
  %loss = nn.reduce sum %0 dims = [0] : tensor<4xf32> -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %seed = nn.seed : tensor<f32>
  %1 = nn.broadcast %seed dims = [] : tensor<f32> -> tensor<4xf32>
  %early = nn.neg %1 : tensor<4xf32>
  %2 = nn.sub %1, %w : tensor<4xf32>
  %3 = nn.mul %early, %square : tensor<4xf32>
  return %loss, %loss, %one, %2, %3 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>
}
