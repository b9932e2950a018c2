// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// Functions of one operand.
// CHECK-LABEL: func.func @unary
// CHECK: nn.neg %{{.*}} : tensor<4x8xf32>
// CHECK: nn.abs %{{.*}} : tensor<4x8xf32>
// CHECK: nn.sign %{{.*}} : tensor<4x8xf32>
// CHECK: nn.floor %{{.*}} : tensor<4x8xf32>
// CHECK: nn.stop_gradient %{{.*}} : tensor<4x8xf32>
// CHECK: nn.ceil %{{.*}} : tensor<4x8xf32>
// CHECK: nn.exp %{{.*}} : tensor<4x8xf32>
// CHECK: nn.expm1 %{{.*}} : tensor<4x8xf32>
// CHECK: nn.log %{{.*}} : tensor<4x8xf32>
// CHECK: nn.log1p %{{.*}} : tensor<4x8xf32>
// CHECK: nn.sqrt %{{.*}} : tensor<4x8xf32>
// CHECK: nn.rsqrt %{{.*}} : tensor<4x8xf32>
// CHECK: nn.tanh %{{.*}} : tensor<4x8xf32>
// CHECK: nn.erf %{{.*}} : tensor<4x8xf32>
// CHECK: nn.erfc %{{.*}} : tensor<4x8xf32>
// CHECK: nn.sigmoid %{{.*}} : tensor<4x8xf32>
// CHECK: nn.sin %{{.*}} : tensor<4x8xf32>
// CHECK: nn.cos %{{.*}} : tensor<4x8xf32>
// CHECK: nn.silu %{{.*}} : tensor<4x8xf32>
// CHECK: nn.gelu %{{.*}} : tensor<4x8xf32>
// CHECK: nn.gelu %{{.*}} tanh : tensor<4x8xf32>
func.func @unary(%x: tensor<4x8xf32>) {
  %0 = nn.neg %x : tensor<4x8xf32>
  %1 = nn.abs %x : tensor<4x8xf32>
  %2 = nn.sign %x : tensor<4x8xf32>
  %3 = nn.floor %x : tensor<4x8xf32>
  %stopped = nn.stop_gradient %x : tensor<4x8xf32>
  %4 = nn.ceil %x : tensor<4x8xf32>
  %5 = nn.exp %x : tensor<4x8xf32>
  %expm1 = nn.expm1 %x : tensor<4x8xf32>
  %6 = nn.log %x : tensor<4x8xf32>
  %log1p = nn.log1p %x : tensor<4x8xf32>
  %7 = nn.sqrt %x : tensor<4x8xf32>
  %8 = nn.rsqrt %x : tensor<4x8xf32>
  %9 = nn.tanh %x : tensor<4x8xf32>
  %10 = nn.erf %x : tensor<4x8xf32>
  %erfc = nn.erfc %x : tensor<4x8xf32>
  %11 = nn.sigmoid %x : tensor<4x8xf32>
  %12 = nn.sin %x : tensor<4x8xf32>
  %13 = nn.cos %x : tensor<4x8xf32>
  %14 = nn.silu %x : tensor<4x8xf32>
  %g = nn.gelu %x : tensor<4x8xf32>
  %h = nn.gelu %x tanh : tensor<4x8xf32>
  return
}

// Functions of two operands of one type.
// CHECK-LABEL: func.func @binary
// CHECK: nn.add %{{.*}}, %{{.*}} : tensor<4x8xf32>
// CHECK: nn.sub %{{.*}}, %{{.*}} : tensor<4x8xf32>
// CHECK: nn.mul %{{.*}}, %{{.*}} : tensor<4x8xf32>
// CHECK: nn.div %{{.*}}, %{{.*}} : tensor<4x8xf32>
// CHECK: nn.rem %{{.*}}, %{{.*}} : tensor<4x8xf32>
// CHECK: nn.max %{{.*}}, %{{.*}} : tensor<4x8xf32>
// CHECK: nn.min %{{.*}}, %{{.*}} : tensor<4x8xf32>
// CHECK: nn.pow %{{.*}}, %{{.*}} : tensor<4x8xf32>
// CHECK: nn.xlogy %{{.*}}, %{{.*}} : tensor<4x8xf32>
func.func @binary(%x: tensor<4x8xf32>) {
  %0 = nn.add %x, %x : tensor<4x8xf32>
  %1 = nn.sub %x, %x : tensor<4x8xf32>
  %2 = nn.mul %x, %x : tensor<4x8xf32>
  %3 = nn.div %x, %x : tensor<4x8xf32>
  %4 = nn.rem %x, %x : tensor<4x8xf32>
  %5 = nn.max %x, %x : tensor<4x8xf32>
  %6 = nn.min %x, %x : tensor<4x8xf32>
  %7 = nn.pow %x, %x : tensor<4x8xf32>
  %8 = nn.xlogy %x, %x : tensor<4x8xf32>
  return
}

// Truth values.
// CHECK-LABEL: func.func @logic
// CHECK: nn.and %{{.*}}, %{{.*}} : tensor<4xi1>
// CHECK: nn.or %{{.*}}, %{{.*}} : tensor<4xi1>
// CHECK: nn.xor %{{.*}}, %{{.*}} : tensor<4xi1>
// CHECK: nn.not %{{.*}} : tensor<4xi1>
// CHECK: nn.and %{{.*}}, %{{.*}} : tensor<4xi32>
func.func @logic(%a: tensor<4xi1>, %i: tensor<4xi32>) {
  %0 = nn.and %a, %a : tensor<4xi1>
  %1 = nn.or %a, %a : tensor<4xi1>
  %2 = nn.xor %a, %a : tensor<4xi1>
  %3 = nn.not %a : tensor<4xi1>
  %4 = nn.and %i, %i : tensor<4xi32>
  return
}
