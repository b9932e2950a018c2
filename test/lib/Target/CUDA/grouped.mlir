// Matmuls of groups of rows are kernels: tensor cores multiply 16-bit floats, f32 is multiplied as written. A tile has 128 rows and columns
// where groups have as many rows, and there are blocks for any sizes: 8 tiles and one more for each of 4 groups, by 3 across.
// RUN: shale-opt %s --shale-cluster-kernels | FileCheck %s
// RUN: sed s/xbf16/xf16/g %s | shale-opt --shale-cluster-kernels | FileCheck %s --check-prefix=F16
// RUN: sed s/xbf16/xf32/g %s | shale-opt --shale-cluster-kernels | FileCheck %s --check-prefix=F32

module attributes {nn.target = "cuda:sm_80,sm_90a,sm_100a"} {
// CHECK-LABEL: gpu.func @kernel_0
// CHECK-SAME: memref<8448xi32, #gpu.address_space<workgroup>>
// CHECK-SAME: known_block_size = array<i32: 128, 1, 1>
// CHECK-SAME: known_grid_size = array<i32: 36, 1, 1>
// CHECK: gpu.barrier
// CHECK-COUNT-64: nvvm.mma.sync {{.*}}multiplicandAPtxType = #nvvm.mma_type<bf16>{{.*}}shape = #nvvm.shape<m = 16, n = 8, k = 16>
// CHECK-NOT: nvvm.mma.sync
// CHECK: gpu.return
// F16-COUNT-64: nvvm.mma.sync {{.*}}: (vector<2xf16>, vector<2xf16>, f32)
// F32: gpu.func @kernel_0
// F32-SAME: known_block_size = array<i32: 256, 1, 1>
// F32-NOT: nvvm.mma.sync
// F32-COUNT-512: math.fma
// CHECK-LABEL: gpu.func @kernel_1
// CHECK: nvvm.mma.sync
func.func @f(%x: tensor<1024x256xbf16>, %w: tensor<4x256x384xbf16>, %g: tensor<1024x384xbf16>, %e: tensor<4xi32>) -> (tensor<1024x384xbf16>, tensor<4x256x384xf32>) {
  %0 = nn.grouped_matmul %x, %w ends = %e : (tensor<1024x256xbf16>, tensor<4x256x384xbf16>, tensor<4xi32>) -> tensor<1024x384xbf16>
  %1 = nn.grouped_matmul_grad %x, %g ends = %e : (tensor<1024x256xbf16>, tensor<1024x384xbf16>, tensor<4xi32>) -> tensor<4x256x384xf32>
  return %0, %1 : tensor<1024x384xbf16>, tensor<4x256x384xf32>
}
}
