// RUN: shale-opt %s --shale-annotate-target=target=cpu:x86-64-v3 --shale-cluster-kernels 2>/dev/null | FileCheck %s
// RUN: shale-opt %s --shale-cluster-kernels=lower=true 2>/dev/null | FileCheck %s --check-prefix=LLVM

func.func @f(%x: tensor<4x20xf32>, %y: tensor<20x4xf32>) -> (tensor<4x20xf32>, tensor<20xf32>, tensor<4x20xf32>) {
  // Rows in parallel: a loop for the sum, whose lanes are added in pairs, and a loop
  // for the outputs. The rest of a row is masked.
  // CHECK-LABEL: func.func @kernel_0
  // CHECK: scf.for
  // CHECK: %[[SUM:.*]] = scf.for {{.*}} iter_args
  // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[SUM]])
  // CHECK: vector.maskedload
  // CHECK: vector.extract_strided_slice {{.*}} : vector<8xf32> to vector<4xf32>
  // CHECK: scf.for
  // CHECK: vector.store
  // CHECK: vector.maskedstore
  // LLVM-LABEL: llvm.func @kernel_0(%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64)
  %0 = nn.cluster (%a = %x : tensor<4x20xf32>) -> tensor<4x20xf32> {
    %1 = nn.reduce sum %a dims = [1] : tensor<4x20xf32> -> tensor<4xf32>
    %2 = nn.broadcast %1 dims = [0] : tensor<4xf32> -> tensor<4x20xf32>
    %3 = nn.div %a, %2 : tensor<4x20xf32>
    nn.yield %3 : tensor<4x20xf32>
  }
  // Columns along lanes, rows in order in the inner loop.
  // CHECK-LABEL: func.func @kernel_1
  // CHECK: scf.for
  // CHECK: scf.for {{.*}} iter_args({{.*}}) -> (vector<8xf32>)
  // CHECK: vector.load
  %4 = nn.cluster (%a = %x : tensor<4x20xf32>) -> tensor<20xf32> {
    %1 = nn.reduce sum %a dims = [0] : tensor<4x20xf32> -> tensor<20xf32>
    nn.yield %1 : tensor<20xf32>
  }
  // An exponential of a vector is a polynomial, never a call.
  // CHECK-LABEL: func.func @kernel_2
  // LLVM-LABEL: llvm.func internal @kernel_2_body
  // LLVM-NOT: @expf
  // LLVM: llvm.intr.fma
  %5 = nn.cluster (%a = %x : tensor<4x20xf32>) -> tensor<4x20xf32> {
    %1 = nn.exp %a : tensor<4x20xf32>
    nn.yield %1 : tensor<4x20xf32>
  }
  // Equal clusters share one kernel.
  // CHECK-NOT: func.func @kernel_3
  %6 = nn.cluster (%a = %0 : tensor<4x20xf32>) -> tensor<4x20xf32> {
    %1 = nn.exp %a : tensor<4x20xf32>
    nn.yield %1 : tensor<4x20xf32>
  }
  return %5, %4, %6 : tensor<4x20xf32>, tensor<20xf32>, tensor<4x20xf32>
}
