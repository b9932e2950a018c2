// REQUIRES: cudnn
// RUN: shale-opt %s --shale-call-epilogues -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// The constants of the gradient are rounded to f32.
// RUN: shale-run --as f64 %s --compare=%t.mlir --tolerance=1e-8 | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @step: 3 values, 0 differ in value
// EQUAL-DAG: @evaluate: 1 values, 0 differ in value
// EQUAL-DAG: @bias: 1 values, 0 differ in value
// EQUAL-DAG: @others: 5 values, 0 differ in value
// Epilogues that are computed apart have the bits of the ops before the pass. Those of @evaluate differ, whose sum is rounded then, and
// those of @bias, where attention is decomposed, too.
// RUN: shale-opt %t.mlir --shale-decompose=all -o %t.apart.mlir
// RUN: not shale-run %s --compare=%t.apart.mlir --exact | FileCheck %s --check-prefix=EXACT
// EXACT: @step: 3 values, 0 differ in their bits
// EXACT: @others: 5 values, 0 differ in their bits
// RUN: shale-opt %s --shale-call-epilogues --remarks-filter=call-epilogues 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// REMARK-COUNT-4: the matmul's {{gelu_grad|gelu|bias}} may be computed by the library
// REMARK-NOT: the matmul's
// On other targets the pass changes nothing and emits no remark.
// RUN: sed s/cuda:sm_90a/cpu:x86-64-v3/ %s > %t.cpu.mlir
// RUN: shale-opt %t.cpu.mlir --shale-call-epilogues --remarks-filter=call-epilogues 2>&1 | FileCheck %s --check-prefix=CPU --implicit-check-not=remark
// CPU-NOT: nn.matmul_epilogue
// RUN: sed s/cuda:sm_90a/cuda:sm_1/ %s > %t.unknown.mlir
// RUN: not shale-opt %t.unknown.mlir --shale-call-epilogues 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: {{.*}}unknown GPU architecture 'sm_1'

module attributes {nn.target = "cuda:sm_90a"} {
// The matmuls of a layer and of its gradient. Values before the GELU are stored for the gradient. Phases are kept.
// CHECK-LABEL: @step
// CHECK: %[[Y:.*]], %[[Z:.*]] = nn.matmul_epilogue gelu %{{.*}}, %{{.*}} with %{{.*}} {nn.phase = #forward} : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> (tensor<4x16xbf16>, tensor<4x16xbf16>)
// CHECK-NOT: nn.gelu
// CHECK: %[[O:.*]] = nn.matmul %[[Y]], %{{.*}} {nn.phase = #forward}
// CHECK: %[[D:.*]] = nn.matmul_epilogue gelu_grad %{{.*}}, %{{.*}} with %[[Z]] transpose_rhs {nn.phase = #backward}
// CHECK-NOT: nn.tanh
// CHECK: %[[W:.*]] = nn.matmul %{{.*}}, %[[D]] transpose_lhs {nn.phase = #backward}
// CHECK: %[[S:.*]] = nn.reduce sum %[[D]] dims = [0] {nn.phase = #backward}
// CHECK: return %[[O]], %[[W]], %[[S]]
func.func @step(%x32: tensor<4x8xf32>, %w32: tensor<8x16xf32>, %b32: tensor<16xf32>, %v32: tensor<16x8xf32>, %do32: tensor<4x8xf32>)
    -> (tensor<4x8xbf16>, tensor<8x16xf32>, tensor<16xf32>) {
  %x = nn.cast %x32 : tensor<4x8xf32> -> tensor<4x8xbf16>
  %w = nn.cast %w32 : tensor<8x16xf32> -> tensor<8x16xbf16>
  %b = nn.cast %b32 : tensor<16xf32> -> tensor<16xbf16>
  %v = nn.cast %v32 : tensor<16x8xf32> -> tensor<16x8xbf16>
  %do = nn.cast %do32 : tensor<4x8xf32> -> tensor<4x8xbf16>
  %p = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  %r = nn.broadcast %b dims = [1] {nn.phase = #nn.phase<forward>} : tensor<16xbf16> -> tensor<4x16xbf16>
  %pw = nn.cast %p {nn.phase = #nn.phase<forward>} : tensor<4x16xbf16> -> tensor<4x16xf32>
  %rw = nn.cast %r {nn.phase = #nn.phase<forward>} : tensor<4x16xbf16> -> tensor<4x16xf32>
  %sum = nn.add %pw, %rw {nn.phase = #nn.phase<forward>} : tensor<4x16xf32>
  %zn = nn.cast %sum {nn.phase = #nn.phase<forward>} : tensor<4x16xf32> -> tensor<4x16xbf16>
  %z = nn.reshape %zn {nn.phase = #nn.phase<forward>} : tensor<4x16xbf16> -> tensor<2x2x16xbf16>
  %zw = nn.cast %z {nn.phase = #nn.phase<forward>} : tensor<2x2x16xbf16> -> tensor<2x2x16xf32>
  %yw = nn.gelu %zw tanh {nn.phase = #nn.phase<forward>} : tensor<2x2x16xf32>
  %y3 = nn.cast %yw {nn.phase = #nn.phase<forward>} : tensor<2x2x16xf32> -> tensor<2x2x16xbf16>
  %y = nn.reshape %y3 {nn.phase = #nn.phase<forward>} : tensor<2x2x16xbf16> -> tensor<4x16xbf16>
  %o = nn.matmul %y, %v {nn.phase = #nn.phase<forward>} : (tensor<4x16xbf16>, tensor<16x8xbf16>) -> tensor<4x8xbf16>
  %dp = nn.matmul %do, %v transpose_rhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xbf16>, tensor<16x8xbf16>) -> tensor<4x16xbf16>
  %dp3 = nn.reshape %dp {nn.phase = #nn.phase<backward>} : tensor<4x16xbf16> -> tensor<2x2x16xbf16>
  %g = nn.cast %dp3 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xbf16> -> tensor<2x2x16xf32>
  %zb = nn.cast %z {nn.phase = #nn.phase<backward>} : tensor<2x2x16xbf16> -> tensor<2x2x16xf32>
  %s0 = nn.mul %zb, %zb {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s1 = nn.constant dense<0.0356774069> : tensor<2x2x16xf32> {nn.phase = #nn.phase<backward>}
  %s2 = nn.mul %s0, %s1 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s3 = nn.constant dense<0.797884583> : tensor<2x2x16xf32> {nn.phase = #nn.phase<backward>}
  %s4 = nn.add %s2, %s3 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s5 = nn.mul %zb, %s4 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s6 = nn.tanh %s5 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s7 = nn.constant dense<0.0535161123> : tensor<2x2x16xf32> {nn.phase = #nn.phase<backward>}
  %s8 = nn.mul %s0, %s7 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s9 = nn.constant dense<0.398942292> : tensor<2x2x16xf32> {nn.phase = #nn.phase<backward>}
  %s10 = nn.add %s8, %s9 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s11 = nn.mul %s6, %s6 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s12 = nn.constant dense<1.0> : tensor<2x2x16xf32> {nn.phase = #nn.phase<backward>}
  %s13 = nn.sub %s12, %s11 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s14 = nn.mul %zb, %s13 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s15 = nn.mul %s14, %s10 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s16 = nn.constant dense<5.0e-01> : tensor<2x2x16xf32> {nn.phase = #nn.phase<backward>}
  %s17 = nn.mul %s6, %s16 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s18 = nn.constant dense<5.0e-01> : tensor<2x2x16xf32> {nn.phase = #nn.phase<backward>}
  %s19 = nn.add %s17, %s18 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s20 = nn.add %s19, %s15 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %s21 = nn.mul %g, %s20 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32>
  %d3 = nn.cast %s21 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xf32> -> tensor<2x2x16xbf16>
  %d = nn.reshape %d3 {nn.phase = #nn.phase<backward>} : tensor<2x2x16xbf16> -> tensor<4x16xbf16>
  %dw = nn.matmul %x, %d transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xbf16>, tensor<4x16xbf16>) -> tensor<8x16xf32>
  %db = nn.reduce sum %d dims = [0] {nn.phase = #nn.phase<backward>} : tensor<4x16xbf16> -> tensor<16xf32>
  return %o, %dw, %db : tensor<4x8xbf16>, tensor<8x16xf32>, tensor<16xf32>
}

// Nothing else reads the values before the GELU, which are not rounded.
// CHECK-LABEL: @evaluate
// CHECK: %[[Y:.*]] = nn.matmul_epilogue gelu %{{.*}}, %{{.*}} with %{{.*}} : (tensor<4x8xbf16>, tensor<8x16xbf16>, tensor<16xbf16>) -> tensor<4x16xbf16>
// CHECK-NEXT: nn.matmul %[[Y]]
func.func @evaluate(%x: tensor<4x8xbf16> {nn.name = "e.x"}, %w: tensor<8x16xbf16> {nn.name = "e.w"}, %b: tensor<16xbf16> {nn.name = "e.b"}, %v: tensor<16x8xbf16> {nn.name = "e.v"}) -> tensor<4x8xbf16> {
  %p = nn.matmul %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  %r = nn.broadcast %b dims = [1] : tensor<16xbf16> -> tensor<4x16xbf16>
  %pw = nn.cast %p : tensor<4x16xbf16> -> tensor<4x16xf32>
  %rw = nn.cast %r : tensor<4x16xbf16> -> tensor<4x16xf32>
  %sum = nn.add %rw, %pw : tensor<4x16xf32>
  %yw = nn.gelu %sum tanh : tensor<4x16xf32>
  %y = nn.cast %yw : tensor<4x16xf32> -> tensor<4x16xbf16>
  %o = nn.matmul %y, %v : (tensor<4x16xbf16>, tensor<16x8xbf16>) -> tensor<4x8xbf16>
  return %o : tensor<4x8xbf16>
}

// The bias of a query, which attention reads.
// CHECK-LABEL: @bias
// CHECK: %[[Q:.*]] = nn.matmul_epilogue bias %{{.*}}, %{{.*}} with %{{.*}} : (tensor<8x32xbf16>, tensor<32x32xbf16>, tensor<32xbf16>) -> tensor<8x32xbf16>
// CHECK-NOT: nn.add
// CHECK: nn.sdpa
func.func @bias(%x: tensor<8x32xbf16> {nn.name = "b.x"}, %w: tensor<32x32xbf16> {nn.name = "b.w"}, %b: tensor<32xbf16> {nn.name = "b.b"}) -> tensor<1x8x2x16xbf16> {
  %p2 = nn.matmul %x, %w : (tensor<8x32xbf16>, tensor<32x32xbf16>) -> tensor<8x32xbf16>
  %p = nn.reshape %p2 : tensor<8x32xbf16> -> tensor<1x8x32xbf16>
  %r = nn.broadcast %b dims = [2] : tensor<32xbf16> -> tensor<1x8x32xbf16>
  %pw = nn.cast %p : tensor<1x8x32xbf16> -> tensor<1x8x32xf32>
  %rw = nn.cast %r : tensor<1x8x32xbf16> -> tensor<1x8x32xf32>
  %sum = nn.add %pw, %rw : tensor<1x8x32xf32>
  %q3 = nn.cast %sum : tensor<1x8x32xf32> -> tensor<1x8x32xbf16>
  %q = nn.reshape %q3 : tensor<1x8x32xbf16> -> tensor<1x8x2x16xbf16>
  %o, %l = nn.sdpa %q, %q, %q causal scale = 2.500000e-01 : tensor<1x8x2x16xbf16>, tensor<1x8x2x16xbf16>, tensor<1x8x2x16xbf16> -> tensor<1x8x2x16xbf16>, tensor<1x2x8xf32>
  return %o : tensor<1x8x2x16xbf16>
}

// Unchanged: a sum that a kernel of the phase reads; a GELU by erf; a matmul that another op reads; 12 columns; a derivative of another function.
// CHECK-LABEL: @others
// CHECK-NOT: nn.matmul_epilogue
func.func @others(%x: tensor<4x8xbf16> {nn.name = "o.x"}, %w: tensor<8x16xbf16> {nn.name = "o.w"}, %b: tensor<16xbf16> {nn.name = "o.b"}, %v: tensor<16x8xbf16> {nn.name = "o.v"},
                  %w12: tensor<8x12xbf16> {nn.name = "o.w12"}, %b12: tensor<12xbf16> {nn.name = "o.b12"}, %z: tensor<4x16xbf16> {nn.name = "o.z"})
    -> (tensor<4x16xf32>, tensor<4x8xbf16>, tensor<4x16xf32>, tensor<8x8xbf16>, tensor<4x8xbf16>) {
  %r = nn.broadcast %b dims = [1] : tensor<16xbf16> -> tensor<4x16xbf16>
  %rw = nn.cast %r : tensor<4x16xbf16> -> tensor<4x16xf32>
  %p1 = nn.matmul %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  %pw1 = nn.cast %p1 : tensor<4x16xbf16> -> tensor<4x16xf32>
  %sum1 = nn.add %pw1, %rw : tensor<4x16xf32>
  %z1 = nn.cast %sum1 : tensor<4x16xf32> -> tensor<4x16xbf16>
  %o1 = nn.matmul %z1, %v : (tensor<4x16xbf16>, tensor<16x8xbf16>) -> tensor<4x8xbf16>
  %zw1 = nn.cast %z1 : tensor<4x16xbf16> -> tensor<4x16xf32>
  %k1 = nn.tanh %zw1 : tensor<4x16xf32>
  %p2 = nn.matmul %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  %pw2 = nn.cast %p2 : tensor<4x16xbf16> -> tensor<4x16xf32>
  %sum2 = nn.add %pw2, %rw : tensor<4x16xf32>
  %yw2 = nn.gelu %sum2 : tensor<4x16xf32>
  %y2 = nn.cast %yw2 : tensor<4x16xf32> -> tensor<4x16xbf16>
  %o2 = nn.matmul %y2, %v : (tensor<4x16xbf16>, tensor<16x8xbf16>) -> tensor<4x8xbf16>
  %p3 = nn.matmul %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  %pw3 = nn.cast %p3 : tensor<4x16xbf16> -> tensor<4x16xf32>
  %sum3 = nn.add %pw3, %rw : tensor<4x16xf32>
  %yw3 = nn.gelu %sum3 tanh : tensor<4x16xf32>
  %y3 = nn.cast %yw3 : tensor<4x16xf32> -> tensor<4x16xbf16>
  %o3 = nn.matmul %y3, %v : (tensor<4x16xbf16>, tensor<16x8xbf16>) -> tensor<4x8xbf16>
  %n3 = nn.neg %pw3 : tensor<4x16xf32>
  %r4 = nn.broadcast %b12 dims = [1] : tensor<12xbf16> -> tensor<4x12xbf16>
  %rw4 = nn.cast %r4 : tensor<4x12xbf16> -> tensor<4x12xf32>
  %p4 = nn.matmul %x, %w12 : (tensor<4x8xbf16>, tensor<8x12xbf16>) -> tensor<4x12xbf16>
  %pw4 = nn.cast %p4 : tensor<4x12xbf16> -> tensor<4x12xf32>
  %sum4 = nn.add %pw4, %rw4 : tensor<4x12xf32>
  %yw4 = nn.gelu %sum4 tanh : tensor<4x12xf32>
  %y4 = nn.cast %yw4 : tensor<4x12xf32> -> tensor<4x12xbf16>
  %o4 = nn.matmul %y4, %w12 transpose_rhs : (tensor<4x12xbf16>, tensor<8x12xbf16>) -> tensor<4x8xbf16>
  %o4t = nn.matmul %o4, %o4 transpose_lhs : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xbf16>
  %p5 = nn.matmul %x, %w : (tensor<4x8xbf16>, tensor<8x16xbf16>) -> tensor<4x16xbf16>
  %g5 = nn.cast %p5 : tensor<4x16xbf16> -> tensor<4x16xf32>
  %z5 = nn.cast %z : tensor<4x16xbf16> -> tensor<4x16xf32>
  %u0 = nn.mul %z5, %z5 : tensor<4x16xf32>
  %u1 = nn.constant dense<0.03> : tensor<4x16xf32>
  %u2 = nn.mul %u0, %u1 : tensor<4x16xf32>
  %u3 = nn.constant dense<0.797884583> : tensor<4x16xf32>
  %u4 = nn.add %u2, %u3 : tensor<4x16xf32>
  %u5 = nn.mul %z5, %u4 : tensor<4x16xf32>
  %u6 = nn.tanh %u5 : tensor<4x16xf32>
  %u7 = nn.constant dense<0.0535161123> : tensor<4x16xf32>
  %u8 = nn.mul %u0, %u7 : tensor<4x16xf32>
  %u9 = nn.constant dense<0.398942292> : tensor<4x16xf32>
  %u10 = nn.add %u8, %u9 : tensor<4x16xf32>
  %u11 = nn.mul %u6, %u6 : tensor<4x16xf32>
  %u12 = nn.constant dense<1.0> : tensor<4x16xf32>
  %u13 = nn.sub %u12, %u11 : tensor<4x16xf32>
  %u14 = nn.mul %z5, %u13 : tensor<4x16xf32>
  %u15 = nn.mul %u14, %u10 : tensor<4x16xf32>
  %u16 = nn.constant dense<5.0e-01> : tensor<4x16xf32>
  %u17 = nn.mul %u6, %u16 : tensor<4x16xf32>
  %u18 = nn.constant dense<5.0e-01> : tensor<4x16xf32>
  %u19 = nn.add %u17, %u18 : tensor<4x16xf32>
  %u20 = nn.add %u19, %u15 : tensor<4x16xf32>
  %u21 = nn.mul %g5, %u20 : tensor<4x16xf32>
  %d5 = nn.cast %u21 : tensor<4x16xf32> -> tensor<4x16xbf16>
  %o5 = nn.matmul %d5, %v : (tensor<4x16xbf16>, tensor<16x8xbf16>) -> tensor<4x8xbf16>
  %o6 = nn.cast %o1 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %o7 = nn.cast %o2 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %o8 = nn.add %o6, %o7 : tensor<4x8xf32>
  %o9 = nn.cast %o3 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %o10 = nn.add %o8, %o9 : tensor<4x8xf32>
  %o11 = nn.cast %o10 : tensor<4x8xf32> -> tensor<4x8xbf16>
  return %k1, %o11, %n3, %o4t, %o5 : tensor<4x16xf32>, tensor<4x8xbf16>, tensor<4x16xf32>, tensor<8x8xbf16>, tensor<4x8xbf16>
}
}
