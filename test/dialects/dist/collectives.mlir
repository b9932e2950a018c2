// RUN: shale-opt %s --verify-roundtrip | FileCheck %s
// RUN: shale-opt %s --canonicalize | FileCheck %s --check-prefix=FOLD

dist.mesh @mesh <[tensor "one"=1, tensor "tp"=2]>

// CHECK-LABEL: func.func @all
func.func @all(%a: tensor<4x8xf32>) -> (tensor<8x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>, tensor<4x4xf32>) {
  // CHECK: dist.all_gather %{{.*}} over "tp" dim = 0 : tensor<4x8xf32> -> tensor<8x8xf32>
  %0 = dist.all_gather %a over "tp" dim = 0 : tensor<4x8xf32> -> tensor<8x8xf32>
  // CHECK: dist.reduce_scatter sum %{{.*}} over "tp" dim = 0 : tensor<4x8xf32> -> tensor<2x8xf32>
  %1 = dist.reduce_scatter sum %a over "tp" dim = 0 : tensor<4x8xf32> -> tensor<2x8xf32>
  // CHECK: dist.all_reduce max %{{.*}} over "tp" : tensor<4x8xf32>
  %2 = dist.all_reduce max %a over "tp" : tensor<4x8xf32>
  // CHECK: dist.all_to_all %{{.*}} over "tp" split = 1 concat = 0 : tensor<4x8xf32> -> tensor<8x4xf32>
  %3 = dist.all_to_all %a over "tp" split = 1 concat = 0 : tensor<4x8xf32> -> tensor<8x4xf32>
  // CHECK: dist.slice %{{.*}} over "tp" dim = 1 : tensor<4x8xf32> -> tensor<4x4xf32>
  %4 = dist.slice %a over "tp" dim = 1 : tensor<4x8xf32> -> tensor<4x4xf32>
  return %0, %1, %2, %3, %4 : tensor<8x8xf32>, tensor<2x8xf32>, tensor<4x8xf32>, tensor<8x4xf32>, tensor<4x4xf32>
}

// Along an axis of size one there is no exchange.
// FOLD-LABEL: func.func @singleton
// FOLD-SAME: (%[[A:.*]]: tensor<4x8xf32>)
func.func @singleton(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // FOLD-NEXT: return %[[A]]
  %0 = dist.all_gather %a over "one" dim = 0 : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = dist.reduce_scatter sum %0 over "one" dim = 0 : tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = dist.all_reduce sum %1 over "one" : tensor<4x8xf32>
  %3 = dist.all_to_all %2 over "one" split = 0 concat = 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  %4 = dist.slice %3 over "one" dim = 0 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @quantized
// FOLD-LABEL: func.func @quantized
func.func @quantized(%a: tensor<512xf32>) -> (tensor<256xf32>, tensor<1024xf32>, tensor<512xf32>, tensor<512xf32>) {
  // CHECK: dist.reduce_scatter sum %{{.*}} over "tp" dim = 0 as int8 : tensor<512xf32> -> tensor<256xf32>
  %0 = dist.reduce_scatter sum %a over "tp" dim = 0 as int8 : tensor<512xf32> -> tensor<256xf32>
  // CHECK: dist.all_gather %{{.*}} over "tp" dim = 0 as int8 : tensor<512xf32> -> tensor<1024xf32>
  %1 = dist.all_gather %a over "tp" dim = 0 as int8 : tensor<512xf32> -> tensor<1024xf32>
  // CHECK: dist.quantization_error %{{.*}} as int8 : tensor<512xf32>
  %2 = dist.quantization_error %a as int8 : tensor<512xf32>
  // One rank rounds what it sends to itself, too.
  // FOLD: dist.all_gather %{{.*}} over "one" dim = 0 as int8
  %3 = dist.all_gather %a over "one" dim = 0 as int8 : tensor<512xf32> -> tensor<512xf32>
  return %0, %1, %2, %3 : tensor<256xf32>, tensor<1024xf32>, tensor<512xf32>, tensor<512xf32>
}
