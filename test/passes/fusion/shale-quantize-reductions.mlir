// RUN: shale-opt %s --shale-quantize-reductions -o %t.mlir && FileCheck %s < %t.mlir
// RUN: shale-run --ranks=2 %s --compare=%t.mlir --exact | FileCheck %s --check-prefix=BITS
// RUN: shale-run --ranks=2 --as=f64 %s --compare=%t.mlir | FileCheck %s --check-prefix=EQUAL
// RUN: shale-run --ranks=2 %s | FileCheck %s --check-prefix=VALUES
// BITS-COUNT-9: 0 differ in their bits
// EQUAL-COUNT-9: 0 differ in value

// Kernels that add one term each have the same bits.
// RUN: shale-opt %s --shale-quantize-reductions=terms=1 -o %t.terms.mlir && FileCheck %s --check-prefix=TERMS < %t.terms.mlir
// RUN: shale-run --ranks=2 %s --compare=%t.terms.mlir --exact | FileCheck %s --check-prefix=BITS
// TERMS-LABEL: @fed_back
// TERMS: %[[ALL:.*]] = dist.all_to_all
// TERMS: %[[FIRST:.*]] = nn.cluster (%{{.*}} = %[[ALL]] : tensor<1x260xi32>) -> tensor<512xf32> {
// TERMS: nn.slice %{{.*}} starts = [0, 0] limits = [1, 130]
// TERMS: %[[SUM:.*]] = nn.cluster (%{{.*}} = %[[ALL]] : tensor<1x260xi32>, %{{.*}} = %[[FIRST]] : tensor<512xf32>) -> tensor<512xf32> aliases [1]
// TERMS: dist.all_gather %[[SUM]]

// The pass does nothing the second time.
// RUN: shale-opt %t.mlir --shale-quantize-reductions | diff - %t.mlir

dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @r role = residual type = tensor<1024xf32>
nn.state @s role = residual type = tensor<512xf32>

// Each rank has a residual of its own, which the kernel overwrites.
// CHECK-LABEL: @fed_back
// CHECK-SAME: %[[X:.*]]: tensor<1024xf32>, %[[R:[^:]*]]: tensor<1024xf32>
// CHECK-NOT: nn.add
// CHECK: %[[SENT:.*]] = nn.cluster (%{{.*}} = %[[X]] : tensor<1024xf32>, %{{.*}} = %[[R]] : tensor<1024xf32>) -> tensor<2x130xi32>
// CHECK: nn.add
// CHECK: nn.reduce max {{.*}} dims = [1] : tensor<4x65xf32> -> tensor<4xf32>
// CHECK: %[[LACK:.*]] = nn.cluster ({{.*}} = %[[X]] : {{.*}} = %[[R]] : {{.*}} = %[[SENT]] : tensor<2x130xi32>) -> tensor<1024xf32> aliases [1]
// CHECK: %[[ALL:.*]] = dist.all_to_all %[[SENT]] over "fsdp" split = 0 concat = 1 as int8 {nn.phase = #backward} : tensor<2x130xi32> -> tensor<1x260xi32>
// CHECK: %[[SUM:.*]] = nn.cluster (%{{.*}} = %[[ALL]] : tensor<1x260xi32>) -> tensor<512xf32>
// CHECK: %[[WHOLE:.*]] = dist.all_gather %[[SUM]]
// CHECK: return %[[WHOLE]], %[[LACK]]
func.func @fed_back(%x: tensor<1024xf32>, %r: tensor<1024xf32> {nn.state = @r}) -> (tensor<1024xf32>, tensor<1024xf32> {nn.state = @r}) {
  %0 = nn.add %x, %r {nn.phase = #nn.phase<backward>} : tensor<1024xf32>
  %1 = dist.quantization_error %0 as int8 {nn.phase = #nn.phase<backward>} : tensor<1024xf32>
  %2 = dist.reduce_scatter sum %0 over "fsdp" dim = 0 as int8 {nn.phase = #nn.phase<backward>} : tensor<1024xf32> -> tensor<512xf32>
  %3 = dist.all_gather %2 over "fsdp" dim = 0 : tensor<512xf32> -> tensor<1024xf32>
  return %3, %1 : tensor<1024xf32>, tensor<1024xf32>
}

// A residual that a step may keep is read later: the kernel overwrites the gradient.
// CHECK-LABEL: @left_out
// CHECK-SAME: %[[X:.*]]: tensor<1024xf32>, %[[R:[^:]*]]: tensor<1024xf32>
// CHECK: %[[LACK:.*]] = nn.cluster ({{.*}} = %[[X]] : {{.*}} = %[[R]] : {{.*}}) -> tensor<1024xf32> aliases [0]
// CHECK: nn.select %{{.*}}, %[[R]], %[[LACK]]
func.func @left_out(%x: tensor<1024xf32>, %r: tensor<1024xf32> {nn.state = @r}, %e: tensor<1024xi1>)
    -> (tensor<1024xf32>, tensor<1024xf32> {nn.state = @r}) {
  %0 = nn.add %x, %r : tensor<1024xf32>
  %1 = dist.quantization_error %0 as int8 : tensor<1024xf32>
  %2 = dist.reduce_scatter sum %0 over "fsdp" dim = 0 as int8 : tensor<1024xf32> -> tensor<512xf32>
  %3 = dist.all_gather %2 over "fsdp" dim = 0 : tensor<512xf32> -> tensor<1024xf32>
  %4 = nn.select %e, %r, %1 : tensor<1024xi1>, tensor<1024xf32>
  return %3, %4 : tensor<1024xf32>, tensor<1024xf32>
}

// All ranks get the same sum: they read the same words.
// CHECK-LABEL: @whole
// CHECK: dist.all_to_all {{.*}} : tensor<2x130xi32> -> tensor<1x260xi32>
// CHECK: dist.all_gather {{.*}} over "fsdp" dim = 0 as int8 : tensor<130xi32> -> tensor<260xi32>
func.func @whole(%x: tensor<1024xf32>, %r: tensor<1024xf32> {nn.state = @r}, %s: tensor<512xf32> {nn.state = @s})
    -> (tensor<1024xf32>, tensor<1024xf32> {nn.state = @r}, tensor<512xf32> {nn.state = @s}) {
  %0 = nn.add %x, %r : tensor<1024xf32>
  %1 = dist.quantization_error %0 as int8 : tensor<1024xf32>
  %2 = dist.reduce_scatter sum %0 over "fsdp" dim = 0 as int8 : tensor<1024xf32> -> tensor<512xf32>
  %3 = nn.add %2, %s : tensor<512xf32>
  %4 = dist.quantization_error %3 as int8 : tensor<512xf32>
  %5 = dist.all_gather %3 over "fsdp" dim = 0 as int8 : tensor<512xf32> -> tensor<1024xf32>
  return %5, %1, %4 : tensor<1024xf32>, tensor<1024xf32>, tensor<512xf32>
}

// Without a residual. What two ranks' words lack is at most a 254th of the largest magnitudes, here 1.
// CHECK-LABEL: @alone
// VALUES-LABEL: @alone
// VALUES: result0: i1 {{.*}}[1]
func.func @alone(%x: tensor<512xf32> {nn.name = "y"}) -> tensor<i1> {
  %0 = dist.reduce_scatter sum %x over "fsdp" dim = 0 as int8 : tensor<512xf32> -> tensor<256xf32>
  %1 = dist.reduce_scatter sum %x over "fsdp" dim = 0 : tensor<512xf32> -> tensor<256xf32>
  %2 = nn.sub %0, %1 : tensor<256xf32>
  %3 = nn.abs %2 : tensor<256xf32>
  %4 = nn.reduce max %3 dims = [0] : tensor<256xf32> -> tensor<f32>
  %5 = dist.all_reduce max %4 over "fsdp" : tensor<f32>
  %6 = nn.constant dense<7.8745e-3> : tensor<f32>
  %7 = nn.compare lt %5, %6 : tensor<f32> -> tensor<i1>
  return %7 : tensor<i1>
}

// No collective sends this one.
// CHECK-LABEL: @unsent
// CHECK: nn.cluster
// CHECK: nn.cluster {{.*}} aliases [0]
func.func @unsent(%x: tensor<512xf32> {nn.name = "y"}) -> tensor<512xf32> {
  %0 = dist.quantization_error %x as int8 : tensor<512xf32>
  return %0 : tensor<512xf32>
}

// What is sent, and what it lacks, is the whole: 0.
// VALUES-LABEL: @complete
// VALUES: result0: f32 {{.*}}[0]
func.func @complete() -> tensor<f32> {
  %i = nn.iota dim = 0 : tensor<512xf32>
  %scale = nn.constant dense<0.3> : tensor<512xf32>
  %x = nn.mul %i, %scale : tensor<512xf32>
  %0 = dist.quantization_error %x as int8 : tensor<512xf32>
  %sent = dist.reduce_scatter sum %x over "fsdp" dim = 0 as int8 : tensor<512xf32> -> tensor<256xf32>
  %lack = dist.reduce_scatter sum %0 over "fsdp" dim = 0 : tensor<512xf32> -> tensor<256xf32>
  %all = dist.reduce_scatter sum %x over "fsdp" dim = 0 : tensor<512xf32> -> tensor<256xf32>
  %both = nn.add %sent, %lack : tensor<256xf32>
  %off = nn.sub %both, %all : tensor<256xf32>
  %size = nn.abs %off : tensor<256xf32>
  %max = nn.reduce max %size dims = [0] : tensor<256xf32> -> tensor<f32>
  %most = dist.all_reduce max %max over "fsdp" : tensor<f32>
  return %most : tensor<f32>
}

// A block that is not finite is sent as NaN, and nothing of it is kept. The other block is exact.
// VALUES-LABEL: @infinite
// VALUES: result0: i1 {{.*}}[1]
// VALUES: result1: f32 {{.*}}[0]
func.func @infinite() -> (tensor<i1>, tensor<f32>) {
  %i = nn.iota dim = 0 : tensor<512xf32>
  %last = nn.constant dense<511.0> : tensor<512xf32>
  %is = nn.compare eq %i, %last : tensor<512xf32> -> tensor<512xi1>
  %value = nn.constant dense<0x7F800000> : tensor<512xf32>
  %other = nn.constant dense<1.0> : tensor<512xf32>
  %x = nn.select %is, %value, %other : tensor<512xi1>, tensor<512xf32>
  %0 = dist.quantization_error %x as int8 : tensor<512xf32>
  %size = nn.abs %0 : tensor<512xf32>
  %max = nn.reduce max %size dims = [0] : tensor<512xf32> -> tensor<f32>
  %1 = dist.reduce_scatter sum %x over "fsdp" dim = 0 as int8 : tensor<512xf32> -> tensor<256xf32>
  %sum = nn.reduce sum %1 dims = [0] : tensor<256xf32> -> tensor<f32>
  %all = dist.all_reduce sum %sum over "fsdp" : tensor<f32>
  %unknown = nn.is_nan %all : tensor<f32> -> tensor<i1>
  return %unknown, %max : tensor<i1>, tensor<f32>
}

// NaN.
// VALUES-LABEL: @nan
// VALUES: result0: f32 {{.*}}[0]
func.func @nan() -> tensor<f32> {
  %i = nn.iota dim = 0 : tensor<512xf32>
  %bound = nn.constant dense<256.0> : tensor<512xf32>
  %is = nn.compare lt %i, %bound : tensor<512xf32> -> tensor<512xi1>
  %value = nn.constant dense<0x7FC00000> : tensor<512xf32>
  %zero = nn.constant dense<0.0> : tensor<512xf32>
  %y = nn.select %is, %value, %zero : tensor<512xi1>, tensor<512xf32>
  %0 = dist.quantization_error %y as int8 : tensor<512xf32>
  %size = nn.abs %0 : tensor<512xf32>
  %max = nn.reduce max %size dims = [0] : tensor<512xf32> -> tensor<f32>
  return %max : tensor<f32>
}

// The scale is 1, a 127th of the largest magnitude: a quarter of it is not sent, and is kept.
// VALUES-LABEL: @kept
// VALUES: result0: f32 {{.*}}[0.25]
func.func @kept() -> tensor<f32> {
  %i = nn.iota dim = 0 : tensor<512xf32>
  %zero = nn.constant dense<0.0> : tensor<512xf32>
  %is = nn.compare eq %i, %zero : tensor<512xf32> -> tensor<512xi1>
  %large = nn.constant dense<127.0> : tensor<512xf32>
  %small = nn.constant dense<0.25> : tensor<512xf32>
  %x = nn.select %is, %large, %small : tensor<512xi1>, tensor<512xf32>
  %0 = dist.quantization_error %x as int8 : tensor<512xf32>
  %first = nn.slice %0 starts = [1] limits = [2] strides = [1] : tensor<512xf32> -> tensor<1xf32>
  %one = nn.reshape %first : tensor<1xf32> -> tensor<f32>
  return %one : tensor<f32>
}
