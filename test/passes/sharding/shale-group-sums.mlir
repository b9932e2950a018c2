// RUN: shale-opt %s --shale-group-sums --split-input-file | FileCheck %s

// Three results of matmuls, one through a view and one through a cast, are added before the residual.
// CHECK-LABEL: func.func @three
// CHECK-SAME: %[[X:[^:]*]]: tensor<4x8xf32>
// CHECK: %[[A:.*]] = nn.matmul
// CHECK: %[[BV:.*]] = nn.reshape
// CHECK: %[[AB:.*]] = nn.add %[[A]], %[[BV]]
// CHECK: %[[CC:.*]] = nn.cast
// CHECK: %[[ABC:.*]] = nn.add %[[AB]], %[[CC]]
// CHECK: %[[Z:.*]] = nn.add %[[X]], %[[ABC]]
// CHECK: return %[[Z]]
dist.mesh @mesh <[tensor "tp"=2]>
func.func @three(%x: tensor<4x8xf32>, %q: tensor<4x6xf32>, %w: tensor<6x8xf32>, %h: tensor<6x8xbf16>, %p: tensor<4x6xbf16>) -> tensor<4x8xf32> {
  %a = nn.matmul %q, %w : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %y = nn.add %x, %a : tensor<4x8xf32>
  %b = nn.matmul %q, %w : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %bv = nn.reshape %b : tensor<4x8xf32> -> tensor<4x8xf32>
  %z = nn.add %bv, %y : tensor<4x8xf32>
  %c = nn.matmul %p, %h : (tensor<4x6xbf16>, tensor<6x8xbf16>) -> tensor<4x8xbf16>
  %cc = nn.cast %c : tensor<4x8xbf16> -> tensor<4x8xf32>
  %s = nn.add %z, %cc : tensor<4x8xf32>
  return %s : tensor<4x8xf32>
}

// -----

// A sum that something else reads stays; so does one of other phases, and a sum of matmuls alone.
// CHECK-LABEL: func.func @kept
// CHECK: %[[Y:.*]] = nn.add %{{.*}}, %[[A:[^ ]*]] :
// CHECK: nn.tanh %[[Y]]
// CHECK: nn.add %[[Y]], %[[B:[^ ]*]] :
// CHECK: %[[F:.*]] = nn.add %{{.*}}, %[[A]] {nn.phase = #forward}
// CHECK: nn.add %[[F]], %[[B]] {nn.phase = #backward}
// CHECK: %[[P:.*]] = nn.add %[[A]], %[[B]] :
// CHECK: nn.add %[[P]], %[[A]] :
dist.mesh @mesh <[tensor "tp"=2]>
func.func @kept(%x: tensor<4x8xf32>, %q: tensor<4x6xf32>, %w: tensor<6x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %a = nn.matmul %q, %w : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %b = nn.matmul %q, %w : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %y = nn.add %x, %a : tensor<4x8xf32>
  %t = nn.tanh %y : tensor<4x8xf32>
  %z = nn.add %y, %b : tensor<4x8xf32>
  %f = nn.add %x, %a {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %g = nn.add %f, %b {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %p = nn.add %a, %b : tensor<4x8xf32>
  %r = nn.add %p, %a : tensor<4x8xf32>
  return %t, %z, %g, %r : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Without a tensor axis nothing changes.
// CHECK-LABEL: func.func @data
// CHECK: %[[Y:.*]] = nn.add %{{.*}}, %[[A:[^ ]*]] :
// CHECK-NEXT: nn.add %[[Y]], %[[A]] :
dist.mesh @mesh <[shard "fsdp"=2]>
func.func @data(%x: tensor<4x8xf32>, %q: tensor<4x6xf32>, %w: tensor<6x8xf32>) -> tensor<4x8xf32> {
  %a = nn.matmul %q, %w : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
  %y = nn.add %x, %a : tensor<4x8xf32>
  %z = nn.add %y, %a : tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}
