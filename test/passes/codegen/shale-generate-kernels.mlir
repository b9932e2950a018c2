// RUN: shale-opt %s --shale-generate-kernels | FileCheck %s
// RUN: shale-opt %s --shale-annotate-target=target=cpu:x86-64-v3 --shale-generate-kernels | FileCheck %s --check-prefix=NARROW

// A kernel of the plan becomes a native function with the runtime's ABI, and records its number of rows.
// CHECK-LABEL: rt.kernel @scale
// CHECK-SAME: function = @kernel.scale
// CHECK-SAME: grain =
// CHECK-SAME: rows =
// CHECK: llvm.func @kernel.scale(%{{.*}}: !llvm.ptr{{.*}}, %{{.*}}: i64, %{{.*}}: i64)
// CHECK: llvm.fmul %{{.*}} : vector<16xf32>
// NARROW: llvm.fmul %{{.*}} : vector<8xf32>
rt.kernel @scale(%a: tensor<4x64xf32>, %b: tensor<4x64xf32>) -> tensor<4x64xf32> aliases [0] {
  %0 = nn.mul %a, %b : tensor<4x64xf32>
  rt.yield %0 : tensor<4x64xf32>
}
