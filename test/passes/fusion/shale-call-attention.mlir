// REQUIRES: cudnn
// RUN: shale-opt %s --shale-call-attention -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: shale-run --as f64 %s --compare=%t.mlir --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @step: 4 values, 0 differ in value
// EQUAL-DAG: @rotated: 4 values, 0 differ in value
// EQUAL-DAG: @others: 5 values, 0 differ in value
// EQUAL-DAG: @window: 2 values, 0 differ in value
// EQUAL-DAG: @packed: 1 values, 0 differ in value
// EQUAL-DAG: @swapped: 1 values, 0 differ in value
// Remarks give the reason why attention is not a library call.
// RUN: shale-opt %s --shale-call-attention --remarks-filter=call-attention 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARK
// REMARK: attention is computed by products and generated kernels: it has a mask other than the causal one
// REMARK: it has a mask other than the causal one
// REMARK: it drops probabilities
// REMARK: no library that this build calls has its types and sizes
// REMARK: no library that this build calls has its types and sizes
// REMARK: it is causal with other numbers of queries and keys
// REMARK: it has a window and is not causal
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
// CHECK: %[[D:.*]]:3 = nn.sdpa_grad %{{.*}}, %{{.*}}, %{{.*}}, %[[O]], %[[L]], %{{.*}} causal deterministic scale = 2.500000e-01 {nn.phase = #backward}
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
}
