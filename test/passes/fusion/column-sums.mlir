// Sums of columns become part of the kernel that computes the rows, where the target has such kernels.
// RUN: shale-opt %s --shale-split-reductions --shale-fusion -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// The parts have other numbers of rows, so that sums are compared in f64.
// RUN: shale-run --as f64 %s --compare=%t.mlir --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @rms_norm: {{[0-9]+}} values, 0 differ in value
// EQUAL-DAG: @apart: {{[0-9]+}} values, 0 differ in value
// EQUAL-DAG: @joined_rows: {{[0-9]+}} values, 0 differ in value
// EQUAL-DAG: @joined_columns: {{[0-9]+}} values, 0 differ in value
// Every kernel has code.
// RUN: shale-opt %t.mlir --shale-split-clusters -o %t.split.mlir
// RUN: diff %t.mlir %t.split.mlir
// A CPU computes them apart.
// RUN: shale-opt %s --shale-annotate-target=target=cpu:x86-64-v3 --shale-split-reductions --shale-fusion | FileCheck %s --check-prefix=CPU
// CPU-LABEL: @rms_norm
// CPU: nn.cluster {{.*}} -> {{.*}}tensor<256x128xbf16>
// CPU: nn.cluster {{.*}} -> tensor<128xf32>
// CPU: nn.cluster {{.*}} -> tensor<128xf32>
// CPU: return

module attributes {nn.target = "cuda:sm_90a"} {
// The gradient of an RMSNorm, its weight's, and the sum of a result in 16 bits, which a matmul reads in another shape: one kernel of 16
// parts of 16 rows, which writes over an input. The shape changes outside of it.
// CHECK-LABEL: @rms_norm
// CHECK-SAME: (%[[X:.*]]: tensor<256x128xbf16>, %{{.*}}: tensor<256xf32>, %{{.*}}: tensor<256x128xbf16>,
// CHECK: %[[MADE:.*]]:3 = nn.cluster (
// CHECK-SAME: -> (tensor<256x128xbf16>, tensor<16x128xf32>, tensor<16x128xf32>) aliases [0, -1, -1]
// CHECK: nn.reduce sum %{{.*}} dims = [1] : tensor<256x128xf32> -> tensor<256xf32>
// CHECK: nn.reshape %{{.*}} : tensor<256x128xf32> -> tensor<16x16x128xf32>
// CHECK-NEXT: nn.reduce sum %{{.*}} dims = [1] : tensor<16x16x128xf32> -> tensor<16x128xf32>
// CHECK: nn.reduce sum %{{.*}} dims = [1] : tensor<16x16x128xf32> -> tensor<16x128xf32>
// CHECK: nn.yield
// CHECK-NOT: nn.reduce sum %{{.*}} dims = [1]
// CHECK-COUNT-2: nn.reduce sum %{{.*}} dims = [0] : tensor<16x128xf32> -> tensor<128xf32>
// CHECK: return
func.func @rms_norm(%x: tensor<256x128xbf16>, %rstd: tensor<256xf32>, %dy: tensor<256x128xbf16>, %weight: tensor<128xf32>, %other: tensor<128x128xbf16>)
    -> (tensor<256x128xbf16>, tensor<128xf32>, tensor<128xf32>) {
  %wide = nn.cast %x : tensor<256x128xbf16> -> tensor<256x128xf32>
  %r = nn.broadcast %rstd dims = [0] : tensor<256xf32> -> tensor<256x128xf32>
  %xhat = nn.mul %wide, %r : tensor<256x128xf32>
  %g = nn.cast %dy : tensor<256x128xbf16> -> tensor<256x128xf32>
  %w = nn.broadcast %weight dims = [1] : tensor<128xf32> -> tensor<256x128xf32>
  %gw = nn.mul %g, %w : tensor<256x128xf32>
  %p = nn.mul %gw, %xhat : tensor<256x128xf32>
  %sum = nn.reduce sum %p dims = [1] : tensor<256x128xf32> -> tensor<256xf32>
  %s = nn.broadcast %sum dims = [0] : tensor<256xf32> -> tensor<256x128xf32>
  %q = nn.mul %xhat, %s : tensor<256x128xf32>
  %dx = nn.sub %gw, %q : tensor<256x128xf32>
  %narrow = nn.cast %dx : tensor<256x128xf32> -> tensor<256x128xbf16>
  %gx = nn.mul %g, %xhat : tensor<256x128xf32>
  %dw = nn.reduce sum %gx dims = [0] : tensor<256x128xf32> -> tensor<128xf32>
  %shaped = nn.reshape %narrow : tensor<256x128xbf16> -> tensor<4x64x128xbf16>
  %again = nn.cast %shaped : tensor<4x64x128xbf16> -> tensor<4x64x128xf32>
  %bias = nn.reduce sum %again dims = [0, 1] : tensor<4x64x128xf32> -> tensor<128xf32>
  %flat = nn.reshape %shaped : tensor<4x64x128xbf16> -> tensor<256x128xbf16>
  %matmul = nn.matmul %flat, %other : (tensor<256x128xbf16>, tensor<128x128xbf16>) -> tensor<256x128xbf16>
  return %matmul, %dw, %bias : tensor<256x128xbf16>, tensor<128xf32>, tensor<128xf32>
}

// Not together: sums whose parts would be rows of another length, and a sum of more columns than a thread keeps in registers.
// CHECK-LABEL: @apart
// CHECK: nn.cluster {{.*}} -> (tensor<256xf32>, tensor<256x128xf32>)
// CHECK: nn.cluster {{.*}} -> tensor<8x64xf32>
// CHECK: nn.cluster {{.*}} -> tensor<64xf32>
// CHECK: nn.cluster {{.*}} -> tensor<128x20000xf32>
// CHECK: return
func.func @apart(%x: tensor<256x128xf32> {nn.name = "apart.x"}, %y: tensor<128x20000xf32> {nn.name = "apart.y"}) -> (tensor<256x128xf32>, tensor<256xf32>, tensor<64xf32>, tensor<128x20000xf32>, tensor<20000xf32>) {
  %sum = nn.reduce sum %x dims = [1] : tensor<256x128xf32> -> tensor<256xf32>
  %s = nn.broadcast %sum dims = [0] : tensor<256xf32> -> tensor<256x128xf32>
  %d = nn.sub %x, %s : tensor<256x128xf32>
  %halves = nn.reshape %d : tensor<256x128xf32> -> tensor<512x64xf32>
  %columns = nn.reduce sum %halves dims = [0] : tensor<512x64xf32> -> tensor<64xf32>
  %most = nn.reduce max %y dims = [1] : tensor<128x20000xf32> -> tensor<128xf32>
  %m = nn.broadcast %most dims = [0] : tensor<128xf32> -> tensor<128x20000xf32>
  %e = nn.sub %y, %m : tensor<128x20000xf32>
  %wide = nn.reduce sum %e dims = [0] : tensor<128x20000xf32> -> tensor<20000xf32>
  return %d, %sum, %columns, %e, %wide : tensor<256x128xf32>, tensor<256xf32>, tensor<64xf32>, tensor<128x20000xf32>, tensor<20000xf32>
}

// Rows of several tensors: all threads of a row read one of them, so that the sums of columns stay with the rows.
// CHECK-LABEL: @joined_rows
// CHECK: nn.cluster {{.*}} -> (tensor<256x128xf32>, tensor<16x128xf32>)
// CHECK-NOT: nn.cluster {{.*}}256x128xf32
// CHECK: return
func.func @joined_rows(%x: tensor<96x128xf32> {nn.name = "joined_rows.x"}, %y: tensor<160x128xf32> {nn.name = "joined_rows.y"}) -> (tensor<256x128xf32>, tensor<128xf32>) {
  %all = nn.concat %x, %y dim = 0 : (tensor<96x128xf32>, tensor<160x128xf32>) -> tensor<256x128xf32>
  %sum = nn.reduce sum %all dims = [1] : tensor<256x128xf32> -> tensor<256xf32>
  %s = nn.broadcast %sum dims = [0] : tensor<256xf32> -> tensor<256x128xf32>
  %d = nn.sub %all, %s : tensor<256x128xf32>
  %columns = nn.reduce sum %d dims = [0] : tensor<256x128xf32> -> tensor<128xf32>
  return %d, %columns : tensor<256x128xf32>, tensor<128xf32>
}

// Columns of several tensors: a thread would load an element of each for every row.
// CHECK-LABEL: @joined_columns
// CHECK: nn.cluster {{.*}} -> tensor<256x128xf32>
// CHECK: nn.cluster {{.*}} -> tensor<4x128xf32>
// CHECK: return
func.func @joined_columns(%x: tensor<256x48xf32> {nn.name = "joined_columns.x"}, %y: tensor<256x80xf32> {nn.name = "joined_columns.y"}) -> (tensor<256x128xf32>, tensor<128xf32>) {
  %all = nn.concat %x, %y dim = 1 : (tensor<256x48xf32>, tensor<256x80xf32>) -> tensor<256x128xf32>
  %sum = nn.reduce sum %all dims = [1] : tensor<256x128xf32> -> tensor<256xf32>
  %s = nn.broadcast %sum dims = [0] : tensor<256xf32> -> tensor<256x128xf32>
  %d = nn.sub %all, %s : tensor<256x128xf32>
  %columns = nn.reduce sum %d dims = [0] : tensor<256x128xf32> -> tensor<128xf32>
  return %d, %columns : tensor<256x128xf32>, tensor<128xf32>
}
}
