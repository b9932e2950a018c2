// Gradients that @forward computes are used as they are: nothing is derived. Ops that the loss depends on are forward, the others
// backward, and follow.
// RUN: shale-opt %s --shale-autodiff="optimizer=sgd" --shale-verify-step | FileCheck %s
// RUN: shale-opt %s --shale-autodiff="optimizer=sgd accumulate=2" --shale-verify-step | FileCheck %s --check-prefix=MICRO
nn.state @w role = param type = tensor<4xf32>
nn.state @v role = param type = tensor<4xf32> {trained = false}
nn.state @u role = param type = tensor<4xf32>

// CHECK: func.func @step
// CHECK-NOT: nn.gradient_of
// CHECK: %[[X:.*]] = nn.mul %arg0, %arg2 {nn.phase = #forward}
// CHECK: nn.div %{{.*}}, %{{.*}} {nn.phase = #forward}
// What only the backward pass reads is computed where it is read first, and a gradient where it is complete.
// CHECK-NEXT: nn.broadcast %{{.*}} {nn.phase = #backward}
// CHECK-NEXT: nn.mul %arg0, %arg1 {nn.phase = #backward}
// CHECK-NEXT: %[[G:.*]] = nn.div %{{.*}}, %{{.*}} {nn.phase = #backward}
// CHECK-NEXT: nn.neg %[[G]] {nn.phase = #backward}
// CHECK-NEXT: nn.exp %arg1 {nn.phase = #backward}
// CHECK-NEXT: %[[U:.*]] = nn.mul %{{.*}}, %{{.*}} {nn.phase = #backward}
// CHECK-NOT: nn.phase = #backward
// CHECK: nn.sum_squares %[[G]], %[[U]]
// CHECK: nn.sgd %arg2, %[[G]],
// CHECK: func.func @evaluate
// CHECK-SAME: -> (tensor<f32> {{{.*}}"loss_sum"{{.*}}}, tensor<f32> {{{.*}}"count"{{.*}}})
// CHECK-NOT: nn.div

// The gradients are those of the mean. Micro-batches add up those of the sum, and the step divides by the count of all.
// MICRO: func.func @accumulate_first
// MICRO: %[[G:.*]] = nn.div %{{.*}}, %{{.*}} {nn.phase = #backward}
// MICRO: %[[WIDE:.*]] = nn.broadcast %[[COUNT:.*]] dims = [] {nn.phase = #backward}
// MICRO: %[[OFSUM:.*]] = nn.mul %[[G]], %[[WIDE]] {nn.phase = #backward}
// MICRO: nn.accumulate @w %[[OFSUM]]
// MICRO: func.func @step
func.func @forward(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %mask: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "mask"},
                   %w: tensor<4xf32> {nn.state = @w}, %v: tensor<4xf32> {nn.state = @v}, %u: tensor<4xf32> {nn.state = @u})
    -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32> {nn.gradient_of = @w}, tensor<4xf32> {nn.gradient_of = @u}) {
  %2 = nn.mul %x, %mask : tensor<4xf32>
  %early = nn.exp %mask : tensor<4xf32>
  %0 = nn.mul %x, %w : tensor<4xf32>
  %1 = nn.mul %0, %mask : tensor<4xf32>
  %sum = nn.reduce sum %1 dims = [0] : tensor<4xf32> -> tensor<f32>
  %count = nn.reduce sum %mask dims = [0] : tensor<4xf32> -> tensor<f32>
  %loss = nn.div %sum, %count : tensor<f32>
  %3 = nn.broadcast %count dims = [] : tensor<f32> -> tensor<4xf32>
  %4 = nn.div %2, %3 : tensor<4xf32>
  %5 = nn.neg %4 : tensor<4xf32>
  %6 = nn.mul %5, %early : tensor<4xf32>
  return %loss, %sum, %count, %4, %6 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>
}
