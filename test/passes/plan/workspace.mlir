// REQUIRES: cudnn
// The workspace of a library call is a buffer of the arena that lives while the call runs: two calls use the same bytes, and no operand or result
// shares them.
// RUN: shale-opt %s --shale-plan --shale-verify-plan --shale-verify-streams -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: shale-run %s --compare=%t.mlir | FileCheck %s --check-prefix=EQUAL
// EQUAL: @step: 1 values, 0 differ in value
// A gradient that may differ from run to run needs less.
// RUN: sed 's/ deterministic//' %s > %t.fast.mlir
// RUN: shale-opt %t.fast.mlir --shale-plan | FileCheck %s --check-prefix=FAST

module attributes {nn.target = "cuda:sm_90a"} {
  nn.state @sum role = param type = tensor<2x8x8x16xbf16>
  // CHECK-LABEL: rt.func @step
  // CHECK: %[[W:.*]] = rt.buffer arena{{.*}} workspace "sdpa workspace" : memref<64xf32>
  // CHECK: %[[G:.*]] = rt.buffer arena{{.*}} workspace "sdpa_grad workspace" : memref<33920xf32>
  // CHECK: rt.sdpa {{.*}} workspace %[[W]]
  // CHECK: rt.sdpa_grad {{.*}} causal deterministic {{.*}} workspace %[[G]]
  // FAST: rt.buffer arena{{.*}} workspace "sdpa_grad workspace" : memref<2176xf32>
  func.func @step(%q: tensor<2x8x4x16xbf16> {nn.name = "q", nn.role = #nn.role<input>}, %k: tensor<2x8x2x16xbf16> {nn.name = "k", nn.role = #nn.role<input>}, %s: tensor<2x8x8x16xbf16> {nn.state = @sum})
      -> (tensor<2x8x8x16xbf16> {nn.state = @sum}) {
    %o, %l = nn.sdpa %q, %k, %k causal scale = 2.500000e-01 : tensor<2x8x4x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16> -> tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>
    %g = nn.sdpa_grad %q, %k, %k from %o, %l, %q causal deterministic scale = 2.500000e-01 : tensor<2x8x4x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16> from tensor<2x8x4x16xbf16>, tensor<2x4x8xf32> -> tensor<2x8x8x16xbf16>
    return %g : tensor<2x8x8x16xbf16>
  }
}
