// RUN: shale-opt %s --shale-quantize-gathers -o %t.mlir && FileCheck %s < %t.mlir
// RUN: shale-run %s --compare=%t.mlir --exact | FileCheck %s --check-prefix=BITS
// RUN: shale-run --as=f64 %s --compare=%t.mlir | FileCheck %s --check-prefix=EQUAL
// RUN: shale-run %s | FileCheck %s --check-prefix=VALUES
// BITS-COUNT-8: 0 differ in their bits
// EQUAL-COUNT-8: 0 differ in value

// A gather of words stays as it is: the pass does nothing the second time.
// RUN: shale-opt %t.mlir --shale-quantize-gathers | diff - %t.mlir

#group = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 1024, segments = []>
#half = #dist.group<"half", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 1024, segments = []>
dist.mesh @mesh <[shard "fsdp"=2]>
#other = #dist.group<"other", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 512, segments = []>
dist.unit @u on @mesh["fsdp"] groups = [#group, #half]
dist.unit @v on @mesh["fsdp"] groups = [#other]

// CHECK-LABEL: @random
// CHECK: %[[SENT:.*]] = nn.cluster (%{{.*}} = %{{.*}} : tensor<512xf32>) -> tensor<130xi32>
// CHECK: nn.reduce max {{.*}} dims = [1] : tensor<2x65xf32> -> tensor<2xf32>
// CHECK: %[[ALL:.*]] = dist.unit_gather %[[SENT]] @u[0] over "fsdp" as int8 : tensor<130xi32> -> tensor<260xi32>
// CHECK: nn.cluster (%{{.*}} = %[[ALL]] : tensor<260xi32>) -> tensor<1024xf32>
func.func @random(%shard: tensor<512xf32>) -> tensor<1024xf32> {
  %whole = dist.unit_gather %shard @u[0] over "fsdp" as int8 : tensor<512xf32> -> tensor<1024xf32>
  return %whole : tensor<1024xf32>
}

// CHECK-LABEL: @half
// CHECK: dist.unit_gather {{.*}} as int8 : tensor<130xi32> -> tensor<260xi32>
// CHECK: nn.cast {{.*}} -> tensor<4x256xbf16>
func.func @half(%shard: tensor<512xf32>) -> tensor<1024xbf16> {
  %whole = dist.unit_gather %shard @u[1] over "fsdp" as int8 : tensor<512xf32> -> tensor<1024xbf16>
  return %whole : tensor<1024xbf16>
}

// Multiples of the scale, 2^-10, are exact.
// VALUES-LABEL: @multiples
// VALUES: result0: f32 {{.*}}[0]
// VALUES: result1: f32 {{.*}}[0]
func.func @multiples() -> (tensor<f32>, tensor<f32>) {
  %i = nn.iota dim = 0 : tensor<256xf32>
  %middle = nn.constant dense<127.0> : tensor<256xf32>
  %unit = nn.constant dense<0.0009765625> : tensor<256xf32>
  %centred = nn.sub %i, %middle : tensor<256xf32>
  %most = nn.min %centred, %middle : tensor<256xf32>
  %exact = nn.mul %most, %unit : tensor<256xf32>
  %more = nn.constant dense<0.0> : tensor<256xf32>
  %moved = nn.add %exact, %more : tensor<256xf32>
  %magnitude = nn.abs %exact : tensor<256xf32>
  %bound = nn.constant dense<0.123> : tensor<256xf32>
  %inside = nn.compare lt %magnitude, %bound : tensor<256xf32> -> tensor<256xi1>
  %shard = nn.select %inside, %moved, %exact : tensor<256xi1>, tensor<256xf32>
  %whole = dist.unit_gather %shard @v[0] over "fsdp" as int8 : tensor<256xf32> -> tensor<512xf32>
  %both = nn.concat %exact, %exact dim = 0 : (tensor<256xf32>, tensor<256xf32>) -> tensor<512xf32>
  %off = nn.sub %whole, %both : tensor<512xf32>
  %max = nn.reduce max %off dims = [0] : tensor<512xf32> -> tensor<f32>
  %min = nn.reduce min %off dims = [0] : tensor<512xf32> -> tensor<f32>
  return %max, %min : tensor<f32>, tensor<f32>
}

// Half of a scale more is rounded up.
// VALUES-LABEL: @halves
// VALUES: result0: f32 {{.*}}[0.0009765625]
// VALUES: result1: f32 {{.*}}[0]
func.func @halves() -> (tensor<f32>, tensor<f32>) {
  %i = nn.iota dim = 0 : tensor<256xf32>
  %middle = nn.constant dense<127.0> : tensor<256xf32>
  %unit = nn.constant dense<0.0009765625> : tensor<256xf32>
  %centred = nn.sub %i, %middle : tensor<256xf32>
  %most = nn.min %centred, %middle : tensor<256xf32>
  %exact = nn.mul %most, %unit : tensor<256xf32>
  %more = nn.constant dense<0.00048828125> : tensor<256xf32>
  %moved = nn.add %exact, %more : tensor<256xf32>
  %magnitude = nn.abs %exact : tensor<256xf32>
  %bound = nn.constant dense<0.123> : tensor<256xf32>
  %inside = nn.compare lt %magnitude, %bound : tensor<256xf32> -> tensor<256xi1>
  %shard = nn.select %inside, %moved, %exact : tensor<256xi1>, tensor<256xf32>
  %whole = dist.unit_gather %shard @v[0] over "fsdp" as int8 : tensor<256xf32> -> tensor<512xf32>
  %both = nn.concat %exact, %exact dim = 0 : (tensor<256xf32>, tensor<256xf32>) -> tensor<512xf32>
  %off = nn.sub %whole, %both : tensor<512xf32>
  %max = nn.reduce max %off dims = [0] : tensor<512xf32> -> tensor<f32>
  %min = nn.reduce min %off dims = [0] : tensor<512xf32> -> tensor<f32>
  return %max, %min : tensor<f32>, tensor<f32>
}

// A quarter is rounded down.
// VALUES-LABEL: @quarters
// VALUES: result0: f32 {{.*}}[0]
// VALUES: result1: f32 {{.*}}[0]
func.func @quarters() -> (tensor<f32>, tensor<f32>) {
  %i = nn.iota dim = 0 : tensor<256xf32>
  %middle = nn.constant dense<127.0> : tensor<256xf32>
  %unit = nn.constant dense<0.0009765625> : tensor<256xf32>
  %centred = nn.sub %i, %middle : tensor<256xf32>
  %most = nn.min %centred, %middle : tensor<256xf32>
  %exact = nn.mul %most, %unit : tensor<256xf32>
  %more = nn.constant dense<0.000244140625> : tensor<256xf32>
  %moved = nn.add %exact, %more : tensor<256xf32>
  %magnitude = nn.abs %exact : tensor<256xf32>
  %bound = nn.constant dense<0.123> : tensor<256xf32>
  %inside = nn.compare lt %magnitude, %bound : tensor<256xf32> -> tensor<256xi1>
  %shard = nn.select %inside, %moved, %exact : tensor<256xi1>, tensor<256xf32>
  %whole = dist.unit_gather %shard @v[0] over "fsdp" as int8 : tensor<256xf32> -> tensor<512xf32>
  %both = nn.concat %exact, %exact dim = 0 : (tensor<256xf32>, tensor<256xf32>) -> tensor<512xf32>
  %off = nn.sub %whole, %both : tensor<512xf32>
  %max = nn.reduce max %off dims = [0] : tensor<512xf32> -> tensor<f32>
  %min = nn.reduce min %off dims = [0] : tensor<512xf32> -> tensor<f32>
  return %max, %min : tensor<f32>, tensor<f32>
}

// A block with NaN or infinity is NaN, also where its elements are 0; one of the smallest numbers is 0.
// VALUES-LABEL: @nan
// VALUES: result0: f32 {{.*}}[nan]
func.func @nan() -> tensor<f32> {
  %i = nn.iota dim = 0 : tensor<256xf32>
  %last = nn.constant dense<255.0> : tensor<256xf32>
  %is = nn.compare eq %i, %last : tensor<256xf32> -> tensor<256xi1>
  %value = nn.constant dense<0x7FC00000> : tensor<256xf32>
  %zero = nn.constant dense<0.0> : tensor<256xf32>
  %shard = nn.select %is, %value, %zero : tensor<256xi1>, tensor<256xf32>
  %whole = dist.unit_gather %shard @v[0] over "fsdp" as int8 : tensor<256xf32> -> tensor<512xf32>
  %first = nn.slice %whole starts = [0] limits = [1] strides = [1] : tensor<512xf32> -> tensor<1xf32>
  %one = nn.reshape %first : tensor<1xf32> -> tensor<f32>
  return %one : tensor<f32>
}

// -infinity.
// VALUES-LABEL: @infinite
// VALUES: result0: i1 {{.*}}[1]
func.func @infinite() -> tensor<i1> {
  %i = nn.iota dim = 0 : tensor<256xf32>
  %last = nn.constant dense<255.0> : tensor<256xf32>
  %is = nn.compare eq %i, %last : tensor<256xf32> -> tensor<256xi1>
  %value = nn.constant dense<0xFF800000> : tensor<256xf32>
  %zero = nn.constant dense<0.0> : tensor<256xf32>
  %shard = nn.select %is, %value, %zero : tensor<256xi1>, tensor<256xf32>
  %whole = dist.unit_gather %shard @v[0] over "fsdp" as int8 : tensor<256xf32> -> tensor<512xf32>
  %first = nn.slice %whole starts = [0] limits = [1] strides = [1] : tensor<512xf32> -> tensor<1xf32>
  %one = nn.reshape %first : tensor<1xf32> -> tensor<f32>
  %unknown = nn.is_nan %one : tensor<f32> -> tensor<i1>
  return %unknown : tensor<i1>
}

// 1e-38 / 127 has no factor that f32 can hold.
// VALUES-LABEL: @tiny
// VALUES: result0: f32 {{.*}}[0]
func.func @tiny() -> tensor<f32> {
  %i = nn.iota dim = 0 : tensor<256xf32>
  %last = nn.constant dense<255.0> : tensor<256xf32>
  %is = nn.compare eq %i, %last : tensor<256xf32> -> tensor<256xi1>
  %value = nn.constant dense<1.0e-38> : tensor<256xf32>
  %zero = nn.constant dense<0.0> : tensor<256xf32>
  %shard = nn.select %is, %value, %zero : tensor<256xi1>, tensor<256xf32>
  %whole = dist.unit_gather %shard @v[0] over "fsdp" as int8 : tensor<256xf32> -> tensor<512xf32>
  %first = nn.slice %whole starts = [0] limits = [1] strides = [1] : tensor<512xf32> -> tensor<1xf32>
  %one = nn.reshape %first : tensor<1xf32> -> tensor<f32>
  return %one : tensor<f32>
}
