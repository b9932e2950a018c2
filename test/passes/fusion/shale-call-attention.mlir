// REQUIRES: cudnn
// RUN: shale-opt %s --shale-call-attention -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: shale-run --as f64 %s --compare=%t.mlir --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @step: 4 values, 0 differ in value
// EQUAL-DAG: @kept: 3 values, 0 differ in value
// EQUAL-DAG: @rotated: 4 values, 0 differ in value
// EQUAL-DAG: @others: 5 values, 0 differ in value
// EQUAL-DAG: @window: 2 values, 0 differ in value
// EQUAL-DAG: @packed: 1 values, 0 differ in value
// EQUAL-DAG: @swapped: 1 values, 0 differ in value
// EQUAL-DAG: @slices: 2 values, 0 differ in value
// EQUAL-DAG: @thirds: 1 values, 0 differ in value
// EQUAL-DAG: @unlike: 4 values, 0 differ in value
// EQUAL-DAG: @lengths: 2 values, 0 differ in value
// Remarks give the reason why attention is not a library call.
// RUN: shale-opt %s --shale-call-attention --remarks-filter=call-attention 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// REMARK: attention is computed by matmuls and generated kernels: it has a mask other than the causal one
// REMARK: it has a mask other than the causal one
// REMARK: it drops probabilities
// REMARK: no library that this build calls has its types and sizes
// REMARK: no library that this build calls has its types and sizes
// REMARK: it is causal, but has different numbers of queries and keys
// REMARK: it has a window and is not causal
// REMARK: no library that this build calls has its types and sizes
// REMARK: no library that this build calls has its types and sizes
// RUN: shale-opt %s --shale-call-attention=deterministic=false | FileCheck %s --check-prefix=FAST
// FAST: nn.sdpa_grad {{.*}} causal scale
// FAST-NOT: deterministic
// On other targets the pass changes nothing and emits no remark.
// RUN: sed s/cuda:sm_90a/cpu:x86-64-v3/ %s > %t.cpu.mlir
// RUN: shale-opt %t.cpu.mlir --shale-call-attention --remarks-filter=call-attention 2>&1 | FileCheck %s --check-prefix=CPU --implicit-check-not=remark
// CPU-NOT: nn.sdpa
// RUN: sed s/cuda:sm_90a/cuda:sm_1/ %s > %t.unknown.mlir
// RUN: not shale-opt %t.unknown.mlir --shale-call-attention 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: {{.*}}unknown GPU architecture 'sm_1'

module attributes {nn.target = "cuda:sm_90a"} {
// Transpositions before and after disappear, those of gradients, too. Phase and scope are kept.
// CHECK-LABEL: @step
// CHECK-NOT: nn.transpose
// CHECK: %[[O:.*]], %[[L:.*]] = nn.sdpa %{{.*}}, %{{.*}}, %{{.*}} causal scale = 2.500000e-01 {nn.phase = #forward}
// CHECK-NOT: nn.transpose
// CHECK: %[[D:.*]]:3 = nn.sdpa_grad %{{.*}}, %{{.*}}, %{{.*}} from %[[O]], %[[L]], %{{.*}} causal deterministic scale = 2.500000e-01 {nn.phase = #backward}
// CHECK-NOT: nn.transpose
// CHECK: return %[[O]], %[[D]]#0, %[[D]]#1, %[[D]]#2
func.func @step(%q32: tensor<2x8x4x16xf32>, %k32: tensor<2x8x2x16xf32>, %do32: tensor<2x8x4x16xf32>)
    -> (tensor<2x8x4x16xbf16>, tensor<2x8x4x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16>) {
  %q1 = nn.cast %q32 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xbf16>
  %k1 = nn.cast %k32 : tensor<2x8x2x16xf32> -> tensor<2x8x2x16xbf16>
  %d1 = nn.cast %do32 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xbf16>
  %q = nn.transpose %q1 perm = [0, 2, 1, 3] : tensor<2x8x4x16xbf16> -> tensor<2x4x8x16xbf16>
  %k = nn.transpose %k1 perm = [0, 2, 1, 3] : tensor<2x8x2x16xbf16> -> tensor<2x2x8x16xbf16>
  %o, %l = nn.attention %q, %k, %k guard causal scale = 2.500000e-01 {nn.phase = #nn.phase<forward>} : tensor<2x4x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16> -> tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>
  %o1 = nn.transpose %o perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  %d = nn.transpose %d1 perm = [0, 2, 1, 3] : tensor<2x8x4x16xbf16> -> tensor<2x4x8x16xbf16>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %k, %o, %l, %d guard causal scale = 2.500000e-01 {nn.phase = #nn.phase<backward>} : tensor<2x4x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>
  %dq1 = nn.transpose %dq perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  %dk1 = nn.transpose %dk perm = [0, 2, 1, 3] : tensor<2x2x8x16xbf16> -> tensor<2x8x2x16xbf16>
  %dv1 = nn.transpose %dv perm = [0, 2, 1, 3] : tensor<2x2x8x16xbf16> -> tensor<2x8x2x16xbf16>
  return %o1, %dq1, %dk1, %dv1 : tensor<2x8x4x16xbf16>, tensor<2x8x4x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16>
}

// A result that the backward pass reads behind a barrier is kept as the library writes it.
// CHECK-LABEL: @kept
// CHECK-NOT: nn.transpose
// CHECK: %[[O:.*]], %[[L:.*]] = nn.sdpa
// CHECK-NOT: nn.transpose
// CHECK: %[[KEPT:.*]]:2 = mem.barrier %[[O]], %{{.*}} : tensor<2x8x4x16xbf16>, tensor<2x8x4x16xbf16>
// CHECK-NOT: nn.transpose
// CHECK: nn.sdpa_grad %{{.*}}, %{{.*}}, %{{.*}} from %[[KEPT]]#0, %[[L]]
// CHECK-NOT: nn.transpose
// CHECK: return %[[O]], %[[KEPT]]#0, %{{.*}}
func.func @kept(%q32: tensor<2x8x4x16xf32> {nn.name = "kept.q"}) -> (tensor<2x8x4x16xbf16>, tensor<2x8x4x16xbf16>, tensor<2x8x4x16xbf16>) {
  %q1 = nn.cast %q32 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xbf16>
  %q = nn.transpose %q1 perm = [0, 2, 1, 3] : tensor<2x8x4x16xbf16> -> tensor<2x4x8x16xbf16>
  %o, %l = nn.attention %q, %q, %q guard causal scale = 2.500000e-01 : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16> -> tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>
  %o1 = nn.transpose %o perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  %kept:2 = mem.barrier %o, %q1 : tensor<2x4x8x16xbf16>, tensor<2x8x4x16xbf16>
  %o2 = nn.transpose %kept#0 perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  %d = nn.transpose %kept#1 perm = [0, 2, 1, 3] : tensor<2x8x4x16xbf16> -> tensor<2x4x8x16xbf16>
  %dq, %dk, %dv = nn.attention_grad %q, %q, %q, %kept#0, %l, %d guard causal scale = 2.500000e-01 : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>
  %dq1 = nn.transpose %dq perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  return %o1, %o2, %dq1 : tensor<2x8x4x16xbf16>, tensor<2x8x4x16xbf16>, tensor<2x8x4x16xbf16>
}

// Rotary positions work on both orders of heads and positions. An operand that is not a transposition is transposed once. A result that
// is also read in the old order is transposed back.
// CHECK-LABEL: @rotated
// CHECK: %[[K:.*]] = nn.transpose %{{.*}} perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
// CHECK-NOT: nn.transpose
// CHECK: %[[R:.*]] = nn.rope %[[X:.*]], %{{.*}}, %{{.*}} headed : tensor<2x8x4x16xbf16>, tensor<8x8xf32>
// CHECK-NOT: nn.transpose
// CHECK: %[[O:.*]], %{{.*}} = nn.sdpa %[[R]], %[[K]], %[[X]] scale
// CHECK: %[[BACK:.*]] = nn.transpose %[[O]] perm = [0, 2, 1, 3] : tensor<2x8x4x16xbf16> -> tensor<2x4x8x16xbf16>
// CHECK: %[[D:.*]]:3 = nn.sdpa_grad %[[R]], %[[K]], %[[X]]
// CHECK-NOT: nn.transpose
// CHECK: %[[DX:.*]] = nn.rope %[[D]]#0, %{{.*}}, %{{.*}} inverse headed
// CHECK-NOT: nn.transpose
// CHECK: return %[[O]], %[[BACK]], %[[BACK]], %[[DX]]
func.func @rotated(%x32: tensor<2x8x4x16xf32> {nn.name = "rotated.x"}, %c: tensor<8x8xf32> {nn.name = "rotated.c"}, %k32: tensor<2x4x8x16xf32> {nn.name = "rotated.k"})
    -> (tensor<2x8x4x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x8x4x16xbf16>) {
  %x1 = nn.cast %x32 : tensor<2x8x4x16xf32> -> tensor<2x8x4x16xbf16>
  %k = nn.cast %k32 : tensor<2x4x8x16xf32> -> tensor<2x4x8x16xbf16>
  %x = nn.transpose %x1 perm = [0, 2, 1, 3] : tensor<2x8x4x16xbf16> -> tensor<2x4x8x16xbf16>
  %r = nn.rope %x, %c, %c : tensor<2x4x8x16xbf16>, tensor<8x8xf32>
  %o, %l = nn.attention %r, %k, %x scale = 2.500000e-01 : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16> -> tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>
  %o1 = nn.transpose %o perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  %dq, %dk, %dv = nn.attention_grad %r, %k, %x, %o, %l, %o scale = 2.500000e-01 : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>
  %dx = nn.rope %dq, %c, %c inverse : tensor<2x4x8x16xbf16>, tensor<8x8xf32>
  %dx1 = nn.transpose %dx perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  return %o1, %o, %o, %dx1 : tensor<2x8x4x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x8x4x16xbf16>
}

// Gradients that are only concatenated become one tensor.
// CHECK-LABEL: @packed
// CHECK: %[[G:.*]] = nn.sdpa_grad {{.*}} -> tensor<2x8x8x16xbf16>
// CHECK: %[[X:.*]] = nn.reshape %[[G]] : tensor<2x8x8x16xbf16> -> tensor<2x8x128xbf16>
// CHECK: return %[[X]]
func.func @packed(%q32: tensor<2x4x8x16xf32> {nn.name = "packed.q"}, %k32: tensor<2x2x8x16xf32> {nn.name = "packed.k"}) -> tensor<2x8x128xbf16> {
  %q = nn.cast %q32 : tensor<2x4x8x16xf32> -> tensor<2x4x8x16xbf16>
  %k = nn.cast %k32 : tensor<2x2x8x16xf32> -> tensor<2x2x8x16xbf16>
  %o, %l = nn.attention %q, %k, %k causal scale = 2.500000e-01 : tensor<2x4x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16> -> tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %k, %o, %l, %o causal scale = 2.500000e-01 : tensor<2x4x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>
  %dq1 = nn.transpose %dq perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  %dk1 = nn.transpose %dk perm = [0, 2, 1, 3] : tensor<2x2x8x16xbf16> -> tensor<2x8x2x16xbf16>
  %dv1 = nn.transpose %dv perm = [0, 2, 1, 3] : tensor<2x2x8x16xbf16> -> tensor<2x8x2x16xbf16>
  %dq2 = nn.reshape %dq1 : tensor<2x8x4x16xbf16> -> tensor<2x8x64xbf16>
  %dk2 = nn.reshape %dk1 : tensor<2x8x2x16xbf16> -> tensor<2x8x32xbf16>
  %dv2 = nn.reshape %dv1 : tensor<2x8x2x16xbf16> -> tensor<2x8x32xbf16>
  %x = nn.concat %dq2, %dk2, %dv2 dim = 2 : (tensor<2x8x64xbf16>, tensor<2x8x32xbf16>, tensor<2x8x32xbf16>) -> tensor<2x8x128xbf16>
  return %x : tensor<2x8x128xbf16>
}

// Gradients that are concatenated in another order stay separate.
// CHECK-LABEL: @swapped
// CHECK: nn.sdpa_grad {{.*}} -> tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16>
func.func @swapped(%k32: tensor<2x2x8x16xf32> {nn.name = "swapped.k"}) -> tensor<2x8x6x16xbf16> {
  %k = nn.cast %k32 : tensor<2x2x8x16xf32> -> tensor<2x2x8x16xbf16>
  %o, %l = nn.attention %k, %k, %k causal scale = 2.500000e-01 : tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16> -> tensor<2x2x8x16xbf16>, tensor<2x2x8xf32>
  %dq, %dk, %dv = nn.attention_grad %k, %k, %k, %o, %l, %o causal scale = 2.500000e-01 : tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8xf32>
  %dq1 = nn.transpose %dq perm = [0, 2, 1, 3] : tensor<2x2x8x16xbf16> -> tensor<2x8x2x16xbf16>
  %dk1 = nn.transpose %dk perm = [0, 2, 1, 3] : tensor<2x2x8x16xbf16> -> tensor<2x8x2x16xbf16>
  %dv1 = nn.transpose %dv perm = [0, 2, 1, 3] : tensor<2x2x8x16xbf16> -> tensor<2x8x2x16xbf16>
  %x = nn.concat %dk1, %dq1, %dv1 dim = 2 : (tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16>, tensor<2x8x2x16xbf16>) -> tensor<2x8x6x16xbf16>
  return %x : tensor<2x8x6x16xbf16>
}

// Query, key and value that are the rows of one tensor, in order, are read from it. So are they for the gradient.
// CHECK-LABEL: @slices
// CHECK-NOT: nn.slice
// CHECK: %[[X:.*]] = nn.reshape %{{.*}} : tensor<16x128xbf16> -> tensor<2x8x8x16xbf16>
// CHECK: %[[O:.*]], %[[L:.*]] = nn.sdpa %[[X]] causal scale
// CHECK-SAME: tensor<2x8x8x16xbf16> -> tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>
// CHECK: nn.sdpa_grad %[[Y:.*]] from %[[O]], %[[L]], %[[O]] causal deterministic
// CHECK-SAME: -> tensor<2x8x8x16xbf16>
// CHECK-NOT: nn.slice
// CHECK: return
func.func @slices(%p32: tensor<16x128xf32> {nn.name = "slices.p"}) -> (tensor<2x8x4x16xbf16>, tensor<2x8x128xbf16>) {
  %p0 = nn.cast %p32 : tensor<16x128xf32> -> tensor<16x128xbf16>
  %p = nn.reshape %p0 : tensor<16x128xbf16> -> tensor<2x8x128xbf16>
  %q0 = nn.slice %p starts = [0, 0, 0] limits = [2, 8, 64] strides = [1, 1, 1] : tensor<2x8x128xbf16> -> tensor<2x8x64xbf16>
  %q1 = nn.reshape %q0 : tensor<2x8x64xbf16> -> tensor<2x8x4x16xbf16>
  %q = nn.transpose %q1 perm = [0, 2, 1, 3] : tensor<2x8x4x16xbf16> -> tensor<2x4x8x16xbf16>
  %k0 = nn.slice %p starts = [0, 0, 64] limits = [2, 8, 96] strides = [1, 1, 1] : tensor<2x8x128xbf16> -> tensor<2x8x32xbf16>
  %k1 = nn.reshape %k0 : tensor<2x8x32xbf16> -> tensor<2x8x2x16xbf16>
  %k = nn.transpose %k1 perm = [0, 2, 1, 3] : tensor<2x8x2x16xbf16> -> tensor<2x2x8x16xbf16>
  %v0 = nn.slice %p starts = [0, 0, 96] limits = [2, 8, 128] strides = [1, 1, 1] : tensor<2x8x128xbf16> -> tensor<2x8x32xbf16>
  %v1 = nn.reshape %v0 : tensor<2x8x32xbf16> -> tensor<2x8x2x16xbf16>
  %v = nn.transpose %v1 perm = [0, 2, 1, 3] : tensor<2x8x2x16xbf16> -> tensor<2x2x8x16xbf16>
  %o, %l = nn.attention %q, %k, %v causal scale = 2.500000e-01 : tensor<2x4x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16> -> tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>
  %o1 = nn.transpose %o perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v, %o, %l, %o causal scale = 2.500000e-01 : tensor<2x4x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>
  %dq1 = nn.transpose %dq perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  %dk1 = nn.transpose %dk perm = [0, 2, 1, 3] : tensor<2x2x8x16xbf16> -> tensor<2x8x2x16xbf16>
  %dv1 = nn.transpose %dv perm = [0, 2, 1, 3] : tensor<2x2x8x16xbf16> -> tensor<2x8x2x16xbf16>
  %dq2 = nn.reshape %dq1 : tensor<2x8x4x16xbf16> -> tensor<2x8x64xbf16>
  %dk2 = nn.reshape %dk1 : tensor<2x8x2x16xbf16> -> tensor<2x8x32xbf16>
  %dv2 = nn.reshape %dv1 : tensor<2x8x2x16xbf16> -> tensor<2x8x32xbf16>
  %x = nn.concat %dq2, %dk2, %dv2 dim = 2 : (tensor<2x8x64xbf16>, tensor<2x8x32xbf16>, tensor<2x8x32xbf16>) -> tensor<2x8x128xbf16>
  return %o1, %x : tensor<2x8x4x16xbf16>, tensor<2x8x128xbf16>
}

// So are the thirds of a tensor that has a dimension for them.
// CHECK-LABEL: @thirds
// CHECK: nn.sdpa %{{[^,]*}} scale
// CHECK-SAME: tensor<2x8x12x16xbf16> -> tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>
func.func @thirds(%p32: tensor<2x8x3x4x16xf32> {nn.name = "thirds.p"}) -> tensor<2x8x4x16xbf16> {
  %p = nn.cast %p32 : tensor<2x8x3x4x16xf32> -> tensor<2x8x3x4x16xbf16>
  %q0 = nn.slice %p starts = [0, 0, 0, 0, 0] limits = [2, 8, 1, 4, 16] strides = [1, 1, 1, 1, 1] : tensor<2x8x3x4x16xbf16> -> tensor<2x8x1x4x16xbf16>
  %q1 = nn.reshape %q0 : tensor<2x8x1x4x16xbf16> -> tensor<2x8x4x16xbf16>
  %q = nn.transpose %q1 perm = [0, 2, 1, 3] : tensor<2x8x4x16xbf16> -> tensor<2x4x8x16xbf16>
  %k0 = nn.slice %p starts = [0, 0, 1, 0, 0] limits = [2, 8, 2, 4, 16] strides = [1, 1, 1, 1, 1] : tensor<2x8x3x4x16xbf16> -> tensor<2x8x1x4x16xbf16>
  %k1 = nn.reshape %k0 : tensor<2x8x1x4x16xbf16> -> tensor<2x8x4x16xbf16>
  %k = nn.transpose %k1 perm = [0, 2, 1, 3] : tensor<2x8x4x16xbf16> -> tensor<2x4x8x16xbf16>
  %v0 = nn.slice %p starts = [0, 0, 2, 0, 0] limits = [2, 8, 3, 4, 16] strides = [1, 1, 1, 1, 1] : tensor<2x8x3x4x16xbf16> -> tensor<2x8x1x4x16xbf16>
  %v1 = nn.reshape %v0 : tensor<2x8x1x4x16xbf16> -> tensor<2x8x4x16xbf16>
  %v = nn.transpose %v1 perm = [0, 2, 1, 3] : tensor<2x8x4x16xbf16> -> tensor<2x4x8x16xbf16>
  %o, %l = nn.attention %q, %k, %v scale = 2.500000e-01 : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16> -> tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>
  %o1 = nn.transpose %o perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
  return %o1 : tensor<2x8x4x16xbf16>
}

// Parts in another order, of a wider tensor, with a step, or of two tensors stay separate.
// CHECK-LABEL: @unlike
// CHECK-COUNT-4: nn.sdpa %{{.*}}, %{{.*}}, %{{.*}} causal scale
func.func @unlike(%p32: tensor<2x8x96xf32> {nn.name = "unlike.p"}, %r32: tensor<2x8x96xf32> {nn.name = "unlike.r"})
    -> (tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>) {
  %p = nn.cast %p32 : tensor<2x8x96xf32> -> tensor<2x8x96xbf16>
  %r = nn.cast %r32 : tensor<2x8x96xf32> -> tensor<2x8x96xbf16>
  %pq0 = nn.slice %p starts = [0, 0, 0] limits = [2, 8, 32] strides = [1, 1, 1] : tensor<2x8x96xbf16> -> tensor<2x8x32xbf16>
  %pk0 = nn.slice %p starts = [0, 0, 32] limits = [2, 8, 64] strides = [1, 1, 1] : tensor<2x8x96xbf16> -> tensor<2x8x32xbf16>
  %pv0 = nn.slice %p starts = [0, 0, 64] limits = [2, 8, 96] strides = [1, 1, 1] : tensor<2x8x96xbf16> -> tensor<2x8x32xbf16>
  %rv0 = nn.slice %r starts = [0, 0, 64] limits = [2, 8, 96] strides = [1, 1, 1] : tensor<2x8x96xbf16> -> tensor<2x8x32xbf16>
  %ps0 = nn.slice %p starts = [0, 0, 0] limits = [2, 8, 64] strides = [1, 1, 2] : tensor<2x8x96xbf16> -> tensor<2x8x32xbf16>
  %pn0 = nn.slice %p starts = [0, 0, 16] limits = [2, 8, 48] strides = [1, 1, 1] : tensor<2x8x96xbf16> -> tensor<2x8x32xbf16>
  %pq1 = nn.reshape %pq0 : tensor<2x8x32xbf16> -> tensor<2x8x2x16xbf16>
  %pq = nn.transpose %pq1 perm = [0, 2, 1, 3] : tensor<2x8x2x16xbf16> -> tensor<2x2x8x16xbf16>
  %pk1 = nn.reshape %pk0 : tensor<2x8x32xbf16> -> tensor<2x8x2x16xbf16>
  %pk = nn.transpose %pk1 perm = [0, 2, 1, 3] : tensor<2x8x2x16xbf16> -> tensor<2x2x8x16xbf16>
  %pv1 = nn.reshape %pv0 : tensor<2x8x32xbf16> -> tensor<2x8x2x16xbf16>
  %pv = nn.transpose %pv1 perm = [0, 2, 1, 3] : tensor<2x8x2x16xbf16> -> tensor<2x2x8x16xbf16>
  %rv1 = nn.reshape %rv0 : tensor<2x8x32xbf16> -> tensor<2x8x2x16xbf16>
  %rv = nn.transpose %rv1 perm = [0, 2, 1, 3] : tensor<2x8x2x16xbf16> -> tensor<2x2x8x16xbf16>
  %ps1 = nn.reshape %ps0 : tensor<2x8x32xbf16> -> tensor<2x8x2x16xbf16>
  %ps = nn.transpose %ps1 perm = [0, 2, 1, 3] : tensor<2x8x2x16xbf16> -> tensor<2x2x8x16xbf16>
  %pn1 = nn.reshape %pn0 : tensor<2x8x32xbf16> -> tensor<2x8x2x16xbf16>
  %pn = nn.transpose %pn1 perm = [0, 2, 1, 3] : tensor<2x8x2x16xbf16> -> tensor<2x2x8x16xbf16>
  %o0, %l0 = nn.attention %pk, %pq, %pv causal scale = 2.500000e-01 : tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16> -> tensor<2x2x8x16xbf16>, tensor<2x2x8xf32>
  %o1, %l1 = nn.attention %pq, %pn, %pv causal scale = 2.500000e-01 : tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16> -> tensor<2x2x8x16xbf16>, tensor<2x2x8xf32>
  %o2, %l2 = nn.attention %ps, %pk, %pv causal scale = 2.500000e-01 : tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16> -> tensor<2x2x8x16xbf16>, tensor<2x2x8xf32>
  %o3, %l3 = nn.attention %pq, %pk, %rv causal scale = 2.500000e-01 : tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16> -> tensor<2x2x8x16xbf16>, tensor<2x2x8xf32>
  return %o0, %o1, %o2, %o3 : tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>, tensor<2x2x8x16xbf16>
}

// Attention with masks, hidden keys, dropout, f32 or odd depths, and causal attention with more keys than queries, is not replaced.
// CHECK-LABEL: @others
// CHECK-NOT: nn.sdpa
// CHECK: return
func.func @others(%q: tensor<1x2x4x16xbf16> {nn.name = "others.q"}, %m: tensor<1x1x4x4xf32> {nn.name = "others.m"}, %s: tensor<i64> {nn.name = "others.s"}, %f: tensor<1x2x4x16xf32> {nn.name = "others.f"}, %d: tensor<1x2x4x12xbf16> {nn.name = "others.d"}, %k: tensor<1x2x6x16xbf16> {nn.name = "others.k"})
    -> (tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>, tensor<1x2x4x16xf32>, tensor<1x2x4x16xbf16>) {
  %seen = nn.compare lt %m, %m : tensor<1x1x4x4xf32> -> tensor<1x1x4x4xi1>
  %0, %l0 = nn.attention %q, %q, %q mask %m : tensor<1x1x4x4xf32> scale = 1.0 : tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16> -> tensor<1x2x4x16xbf16>, tensor<1x2x4xf32>
  %1, %l1 = nn.attention %q, %q, %q seen %seen : tensor<1x1x4x4xi1> guard scale = 1.0 : tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16> -> tensor<1x2x4x16xbf16>, tensor<1x2x4xf32>
  %2, %l2 = nn.attention %q, %q, %q scale = 1.0 dropout <ratio = 0.1 : f64, id = 3> (%s, %s, %s : tensor<i64>, tensor<i64>, tensor<i64>) : tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16> -> tensor<1x2x4x16xbf16>, tensor<1x2x4xf32>
  %3, %l3 = nn.attention %f, %f, %f scale = 1.0 : tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32>, tensor<1x2x4x16xf32> -> tensor<1x2x4x16xf32>, tensor<1x2x4xf32>
  %4, %l4 = nn.attention %d, %d, %q scale = 1.0 : tensor<1x2x4x12xbf16>, tensor<1x2x4x12xbf16>, tensor<1x2x4x16xbf16> -> tensor<1x2x4x16xbf16>, tensor<1x2x4xf32>
  %5, %l5 = nn.attention %q, %k, %k causal scale = 1.0 : tensor<1x2x4x16xbf16>, tensor<1x2x6x16xbf16>, tensor<1x2x6x16xbf16> -> tensor<1x2x4x16xbf16>, tensor<1x2x4xf32>
  %6 = nn.add %4, %5 : tensor<1x2x4x16xbf16>
  return %0, %1, %2, %3, %6 : tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>, tensor<1x2x4x16xf32>, tensor<1x2x4x16xbf16>
}

// A window of earlier positions is the library's; one on both sides is not.
// CHECK-LABEL: @window
// CHECK: nn.sdpa {{.*}} causal window = 3 scale
// CHECK: nn.sdpa_grad {{.*}} causal window = 3 deterministic scale
// CHECK: nn.attention {{.*}} window = 3 scale
func.func @window(%q: tensor<1x2x4x16xbf16> {nn.name = "others.q"}) -> (tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>) {
  %o, %l = nn.attention %q, %q, %q causal window = 3 scale = 1.0 : tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16> -> tensor<1x2x4x16xbf16>, tensor<1x2x4xf32>
  %dq, %dk, %dv = nn.attention_grad %q, %q, %q, %o, %l, %o causal window = 3 scale = 1.0 : tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>, tensor<1x2x4xf32>
  %p, %n = nn.attention %q, %q, %q window = 3 scale = 1.0 : tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16> -> tensor<1x2x4x16xbf16>, tensor<1x2x4xf32>
  return %dq, %p : tensor<1x2x4x16xbf16>, tensor<1x2x4x16xbf16>
}

// Neither is attention of one position, which has no gradient in cuDNN, nor one without a mask for which its gradient may be NaN.
// CHECK-LABEL: @lengths
// CHECK-NOT: nn.sdpa
// CHECK: return
func.func @lengths(%q: tensor<1x2x1x16xbf16> {nn.name = "lengths.q"}, %k: tensor<1x2x64x16xbf16> {nn.name = "lengths.k"}) -> (tensor<1x2x1x16xbf16>, tensor<1x2x64x16xbf16>) {
  %0, %l0 = nn.attention %q, %q, %q causal scale = 1.0 : tensor<1x2x1x16xbf16>, tensor<1x2x1x16xbf16>, tensor<1x2x1x16xbf16> -> tensor<1x2x1x16xbf16>, tensor<1x2x1xf32>
  %1, %l1 = nn.attention %k, %k, %k scale = 1.0 : tensor<1x2x64x16xbf16>, tensor<1x2x64x16xbf16>, tensor<1x2x64x16xbf16> -> tensor<1x2x64x16xbf16>, tensor<1x2x64xf32>
  return %0, %1 : tensor<1x2x1x16xbf16>, tensor<1x2x64x16xbf16>
}
}
