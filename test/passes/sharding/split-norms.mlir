// Norms of rows of which each rank has a part: means over ranks, one number per row each.
// RUN: shale-opt %s --shale-propagate --shale-verify-sharded --shale-partition -o %t
// RUN: FileCheck %s --implicit-check-not=all_gather --implicit-check-not=nn.rms_norm --implicit-check-not=nn.layer_norm --implicit-check-not=dist.shardings < %t
// RUN: grep -E "^ *%%.* = " %t | not grep -v 'nn.phase = #forward, nn.scope = "block"'
// RUN: shale-run %s --ranks 4 --as f64 --tolerance 1e-12 --compare=%t | FileCheck %s --check-prefix=EQUAL
// EQUAL: @norms: 9 values, 0 differ

// CHECK-LABEL: func.func @norms
// RMS: the squares. Bf16 rows are normalized in f32.
// CHECK: dist.all_reduce sum {{.*}} over "tp" {{.*}}tensor<2xf32>
// CHECK: nn.cast {{.*}}tensor<2x4xbf16> -> tensor<2x4xf32>
// CHECK: dist.all_reduce sum {{.*}} over "tp" {{.*}}tensor<2xf32>
// CHECK: nn.cast {{.*}}tensor<2x4xf32> -> tensor<2x4xbf16>
// Its gradient: one sum. Layer norm: the mean and the variance, and two sums of the gradient.
// CHECK-COUNT-5: dist.all_reduce sum {{.*}} over "tp" {{.*}}tensor<2xf32>
// CHECK-NOT: over "tp" {{.*}}tensor<2xf32>
// The gradient of a scale stays on the rank's columns.
// CHECK: dist.all_reduce sum {{.*}} over "fsdp" {{.*}}tensor<4xf32>
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
func.func @norms(%x0: tensor<4x8xf32>, %g0: tensor<4x8xf32>, %h0: tensor<4x8xbf16>, %s0: tensor<8xf32>, %b0: tensor<8xf32>)
    -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>) {
  %x = dist.constrain %x0 to <[{"fsdp"}, {"tp"}]> {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x8xf32>
  %g = dist.constrain %g0 to <[{"fsdp"}, {"tp"}]> {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x8xf32>
  %h = dist.constrain %h0 to <[{"fsdp"}, {"tp"}]> {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x8xbf16>
  %s = dist.constrain %s0 to <[{"tp"}]> {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<8xf32>
  %b = dist.constrain %b0 to <[{"tp"}]> {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<8xf32>
  %r, %rr = nn.rms_norm %x, %s epsilon = 1.5625e-2 {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
  %q, %qr = nn.rms_norm %h, %s epsilon = 1.5625e-2 {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x8xbf16>, tensor<8xf32> -> tensor<4xf32>
  %rdx, %rds = nn.rms_norm_grad %x, %s, %rr, %g {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>
  %y, %m, %lr = nn.layer_norm %x, %s, %b epsilon = 1.5625e-2 {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
  %ldx, %lds, %ldb = nn.layer_norm_grad %x, %s, %m, %lr, %g {nn.phase = #nn.phase<forward>, nn.scope = "block"} : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>
  %0 = nn.sum_squares %r {nn.phase = #nn.phase<forward>, nn.scope = "block"} : (tensor<4x8xf32>) -> tensor<f32>
  %1 = nn.sum_squares %q {nn.phase = #nn.phase<forward>, nn.scope = "block"} : (tensor<4x8xbf16>) -> tensor<f32>
  %2 = nn.sum_squares %rdx {nn.phase = #nn.phase<forward>, nn.scope = "block"} : (tensor<4x8xf32>) -> tensor<f32>
  %3 = nn.sum_squares %rds {nn.phase = #nn.phase<forward>, nn.scope = "block"} : (tensor<8xf32>) -> tensor<f32>
  %4 = nn.sum_squares %y {nn.phase = #nn.phase<forward>, nn.scope = "block"} : (tensor<4x8xf32>) -> tensor<f32>
  %5 = nn.sum_squares %ldx {nn.phase = #nn.phase<forward>, nn.scope = "block"} : (tensor<4x8xf32>) -> tensor<f32>
  %6 = nn.sum_squares %lds {nn.phase = #nn.phase<forward>, nn.scope = "block"} : (tensor<8xf32>) -> tensor<f32>
  %7 = nn.sum_squares %ldb {nn.phase = #nn.phase<forward>, nn.scope = "block"} : (tensor<8xf32>) -> tensor<f32>
  %8 = nn.sum_squares %m, %rr, %qr, %lr {nn.phase = #nn.phase<forward>, nn.scope = "block"} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return %0, %1, %2, %3, %4, %5, %6, %7, %8 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}
