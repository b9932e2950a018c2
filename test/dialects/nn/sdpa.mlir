// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s
// RUN: shale-opt %s --shale-decompose=all -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir --check-prefix=SIMPLE
// RUN: shale-run --as f64 %s --compare=%t.mlir --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @causal: 5 values, 0 differ in value
// EQUAL-DAG: @window: 5 values, 0 differ in value
// EQUAL-DAG: @full: 5 values, 0 differ in value
// EQUAL-DAG: @packed: 1 values, 0 differ in value
// EQUAL-DAG: @packed_inputs: 4 values, 0 differ in value

// Two query heads per key head. The decomposition gives the same values.
// CHECK-LABEL: func.func @causal
// CHECK: nn.sdpa %{{.*}}, %{{.*}}, %{{.*}} causal scale = 2.500000e-01 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32> -> tensor<2x8x4x8xf32>, tensor<2x4x8xf32>
// CHECK: nn.sdpa_grad %{{.*}}, %{{.*}}, %{{.*}} from %{{.*}}, %{{.*}}, %{{.*}} causal deterministic scale = 2.500000e-01 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32> from tensor<2x8x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32>
// SIMPLE-LABEL: func.func @causal
// SIMPLE-NOT: nn.sdpa
// SIMPLE: nn.matmul
func.func @causal(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %v: tensor<2x8x2x8xf32>, %do: tensor<2x8x4x8xf32>)
    -> (tensor<2x8x4x8xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32>) {
  %o, %l = nn.sdpa %q, %k, %v causal scale = 2.500000e-01 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32> -> tensor<2x8x4x8xf32>, tensor<2x4x8xf32>
  %dq, %dk, %dv = nn.sdpa_grad %q, %k, %v from %o, %l, %do causal deterministic scale = 2.500000e-01 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32> from tensor<2x8x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32>
  return %o, %l, %dq, %dk, %dv : tensor<2x8x4x8xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32>
}

// Each position sees itself and two before it.
// CHECK-LABEL: func.func @window
// CHECK: nn.sdpa %{{.*}}, %{{.*}}, %{{.*}} causal window = 3 scale = 2.500000e-01 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32> -> tensor<2x8x4x8xf32>, tensor<2x4x8xf32>
// CHECK: nn.sdpa_grad %{{.*}}, %{{.*}}, %{{.*}} from %{{.*}}, %{{.*}}, %{{.*}} causal window = 3 deterministic scale = 2.500000e-01 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32> from tensor<2x8x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32>
// SIMPLE-LABEL: func.func @window
// SIMPLE-NOT: nn.sdpa
// SIMPLE: nn.matmul
func.func @window(%q: tensor<2x8x4x16xf32>, %k: tensor<2x8x2x16xf32>, %v: tensor<2x8x2x8xf32>, %do: tensor<2x8x4x8xf32>)
    -> (tensor<2x8x4x8xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32>) {
  %o, %l = nn.sdpa %q, %k, %v causal window = 3 scale = 2.500000e-01 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32> -> tensor<2x8x4x8xf32>, tensor<2x4x8xf32>
  %dq, %dk, %dv = nn.sdpa_grad %q, %k, %v from %o, %l, %do causal window = 3 deterministic scale = 2.500000e-01 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32> from tensor<2x8x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32>
  return %o, %l, %dq, %dk, %dv : tensor<2x8x4x8xf32>, tensor<2x4x8xf32>, tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x8xf32>
}

// More keys than queries.
// CHECK-LABEL: func.func @full
// CHECK: nn.sdpa %{{.*}}, %{{.*}}, %{{.*}} scale = 2.500000e-01 : tensor<1x5x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32> -> tensor<1x5x2x16xf32>, tensor<1x2x5xf32>
// CHECK: nn.sdpa_grad %{{.*}}, %{{.*}}, %{{.*}} from %{{.*}}, %{{.*}}, %{{.*}} scale = 2.500000e-01 : tensor<1x5x2x16xf32>
// SIMPLE-LABEL: func.func @full
// SIMPLE-NOT: nn.sdpa
func.func @full(%q: tensor<1x5x2x16xf32> {nn.name = "full.q"}, %k: tensor<1x8x2x16xf32> {nn.name = "full.k"}, %do: tensor<1x5x2x16xf32> {nn.name = "full.do"})
    -> (tensor<1x5x2x16xf32>, tensor<1x2x5xf32>, tensor<1x5x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>) {
  %o, %l = nn.sdpa %q, %k, %k scale = 2.500000e-01 : tensor<1x5x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32> -> tensor<1x5x2x16xf32>, tensor<1x2x5xf32>
  %dq, %dk, %dv = nn.sdpa_grad %q, %k, %k from %o, %l, %do scale = 2.500000e-01 : tensor<1x5x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32> from tensor<1x5x2x16xf32>, tensor<1x2x5xf32> -> tensor<1x5x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>
  return %o, %l, %dq, %dk, %dv : tensor<1x5x2x16xf32>, tensor<1x2x5xf32>, tensor<1x5x2x16xf32>, tensor<1x8x2x16xf32>, tensor<1x8x2x16xf32>
}

// One result holds the heads of all gradients.
// CHECK-LABEL: func.func @packed
// CHECK: nn.sdpa_grad {{.*}} causal scale = 2.500000e-01 : {{.*}} -> tensor<2x8x8x16xf32>
// SIMPLE-LABEL: func.func @packed
// SIMPLE: nn.concat {{.*}} dim = 2 : (tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>) -> tensor<2x8x8x16xf32>
func.func @packed(%q: tensor<2x8x4x16xf32> {nn.name = "packed.q"}, %k: tensor<2x8x2x16xf32> {nn.name = "packed.k"}, %do: tensor<2x8x4x16xf32> {nn.name = "packed.do"}) -> tensor<2x8x8x16xf32> {
  %o, %l = nn.sdpa %q, %k, %k causal scale = 2.500000e-01 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
  %g = nn.sdpa_grad %q, %k, %k from %o, %l, %do causal scale = 2.500000e-01 : tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32> from tensor<2x8x4x16xf32>, tensor<2x4x8xf32> -> tensor<2x8x8x16xf32>
  return %g : tensor<2x8x8x16xf32>
}

// One operand holds the heads of query, key and value. Gradients are apart or in one tensor.
// CHECK-LABEL: func.func @packed_inputs
// CHECK: nn.sdpa %{{[^,]*}} causal window = 5 scale = 2.500000e-01 : tensor<2x8x8x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
// CHECK: nn.sdpa_grad %{{[^,]*}} from %{{.*}}, %{{.*}}, %{{.*}} causal window = 5 scale = 2.500000e-01 : tensor<2x8x8x16xf32> from tensor<2x8x4x16xf32>, tensor<2x4x8xf32> -> tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
// CHECK: nn.sdpa_grad {{.*}} -> tensor<2x8x8x16xf32>
// SIMPLE-LABEL: func.func @packed_inputs
// SIMPLE: nn.slice %{{.*}} starts = [0, 0, 4, 0] limits = [2, 8, 6, 16]
// SIMPLE-NOT: nn.sdpa
func.func @packed_inputs(%x: tensor<2x8x8x16xf32> {nn.name = "inputs.x"}, %do: tensor<2x8x4x16xf32> {nn.name = "inputs.do"})
    -> (tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x8x16xf32>) {
  %o, %l = nn.sdpa %x causal window = 5 scale = 2.500000e-01 : tensor<2x8x8x16xf32> -> tensor<2x8x4x16xf32>, tensor<2x4x8xf32>
  %dq, %dk, %dv = nn.sdpa_grad %x from %o, %l, %do causal window = 5 scale = 2.500000e-01 : tensor<2x8x8x16xf32> from tensor<2x8x4x16xf32>, tensor<2x4x8xf32> -> tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x2x16xf32>
  %g = nn.sdpa_grad %x from %o, %l, %do causal window = 5 scale = 2.500000e-01 : tensor<2x8x8x16xf32> from tensor<2x8x4x16xf32>, tensor<2x4x8xf32> -> tensor<2x8x8x16xf32>
  return %o, %dq, %dv, %g : tensor<2x8x4x16xf32>, tensor<2x8x4x16xf32>, tensor<2x8x2x16xf32>, tensor<2x8x8x16xf32>
}
