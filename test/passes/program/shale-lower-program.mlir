// A C program reads the tables and runs the step.
// The weights file holds 1, 3, 1, 3, ...: the mean is 2 and the deviation 1.
// RUN: head -c 128 /dev/zero > %t.weights
// RUN: for i in 1 2 3 4 5 6 7 8; do printf '\000\000\200\077\000\000\100\100'; done >> %t.weights
// RUN: head -c 64 /dev/zero >> %t.weights
// RUN: sed s:WEIGHTS:%t.weights: %s | shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program="describe=text host-limit=1000 total-limit=3000" -o %t.llvm.mlir
// RUN: FileCheck %s --check-prefix=LLVM < %t.llvm.mlir
// RUN: mlir-translate --mlir-to-llvmir %t.llvm.mlir | llc -filetype=obj -relocation-model=pic -o %t.o
// RUN: cc -I %source/include %S/Inputs/program.c %t.o -o %t.exe
// RUN: %t.exe | FileCheck %s

// Constants, a default and a count of updates of the model's file:
// RUN: sed -e 's|nn.optimizer = "adamw"|nn.optimizer = "adamw", nn.hypers = {beta1 = 0.5 : f64}, nn.hyper_defaults = {lr = 0.25 : f64}, nn.counter = array<i64: 3, 2>|' -e s:WEIGHTS:%t.weights: %s | shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program=describe=text | mlir-translate --mlir-to-llvmir | llc -filetype=obj -relocation-model=pic -o %t.o
// RUN: cc -I %source/include %S/Inputs/program.c %t.o -o %t.exe
// RUN: %t.exe | FileCheck %s --check-prefix=FIXED
// FIXED: hyper lr source 1 base -1 default 0.25
// FIXED-NEXT: hyper beta1 source 0 base -1 default 0.5
// FIXED-NEXT: fixed by the file
// FIXED-NEXT: hyper bias1 source 2
// FIXED-NEXT: t from 3 by 2
// FIXED-NEXT: hyper clip_grad_norm

// RUN: sed 's:nn.optimizer = "adamw", ::' %s | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=NONE
// NONE: error: a program needs the attribute 'nn.optimizer', set by --shale-autodiff
// RUN: sed 's:nn.optimizer = "adamw":nn.optimizer = "lars":' %s | not shale-opt 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: 'nn.optimizer' must be one of adamw, adafactor, {{.*}}, on a module
// RUN: sed 's:"adamw":"sgd":' %s | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=OTHER
// OTHER: error: 'rt.func' op reads 'beta1', but optimizer 'sgd' has no such hyper-parameter
// RUN: sed 's:"lr", "beta1":"lr", "beta2":' %s | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=BASE
// BASE: error: 'rt.func' op reads 'bias1' without 'beta1', from which it is computed
// RUN: sed '/nn.state @w /d' %s | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=SEGMENT
// SEGMENT: error: 'dist.unit' op has a segment of @w, but the module has no such parameter

// A part may pass the end of its parameter's first or last dimension by its padding, and nothing else:
// RUN: sed 's:nn.state @w role = param type = tensor<4x4xf32> {.*:nn.state @a role = divided type = tensor<3x4xf32> nn.state @w role = param type = tensor<4x4xf32> {nn.part = #nn.part<@a, dim = 0, begin = 0, padding = 1>}:' %s | shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program -o %t.part.mlir
// RUN: sed 's:nn.state @w role = param type = tensor<4x4xf32> {.*:nn.state @a role = divided type = tensor<3x4xf32> nn.state @w role = param type = tensor<4x4xf32> {nn.part = #nn.part<@a, dim = 0, begin = 0>}:' %s | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=PART
// RUN: sed 's:nn.state @w role = param type = tensor<4x4xf32> {.*:nn.state @a role = divided type = tensor<4x3xf32> nn.state @w role = param type = tensor<4x4xf32> {nn.part = #nn.part<@a, dim = 1, begin = 0, padding = 1>}:' %s | shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program -o %t.columns.mlir
// RUN: sed 's:nn.state @w role = param type = tensor<4x4xf32> {.*:nn.state @a role = divided type = tensor<2x1x4xf32> nn.state @w role = param type = tensor<2x2x4xf32> {nn.part = #nn.part<@a, dim = 1, begin = 0, padding = 1>}:' %s | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=PART
// RUN: sed 's:nn.state @w role = param type = tensor<4x4xf32> {.*:nn.state @a role = divided type = tensor<5x4xf32> nn.state @w role = param type = tensor<4x4xf32> {nn.part = #nn.part<@a, dim = 0, begin = 0, padding = 1>}:' %s | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=PART
// RUN: sed 's:nn.state @w role = param type = tensor<4x4xf32> {.*:nn.state @a role = divided type = tensor<0x4xf32> nn.state @w role = param type = tensor<4x4xf32> {nn.part = #nn.part<@a, dim = 0, begin = 0, padding = 4>}:' %s | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=PART
// PART: error: 'nn.state' op is not a part of 'tensor<{{.*}}xf32>'
// RUN: sed 's:dense<.true, false.>:sparse<0, true>:' %s | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=SPARSE
// SPARSE: error: 'rt.constant' op expected dense elements of a fixed-size type


// A part that several axes split is split by their joint axis, in the order of the mesh:
// RUN: sed -e 's:<.shard "fsdp"=2.>:<[shard "fsdp"=2, tensor "tp"=2, tensor "tq"=2]>:' -e 's:nn.state @w role = param type = tensor<4x4xf32> {.*:nn.state @a role = divided type = tensor<8x4xf32> nn.state @w role = param type = tensor<4x4xf32> {nn.part = #nn.part<@a, dim = 0, begin = 4>, dist.sharding = #dist.sharding<[{ORDER}, {}]>}:' %s > %t.axes.mlir
// RUN: sed 's:ORDER:"tp", "tq":' %t.axes.mlir | shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program | FileCheck %s --check-prefix=JOINT
// JOINT-DAG: "tp+tq\00"
// RUN: sed 's:ORDER:"tq", "tp":' %t.axes.mlir | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=PART

// Sites are rows of a table:
// RUN: sed 's:site = 1 :site = 0 :' %s | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=TWICE
// TWICE: error: 'rt.collective' op expected site = 1, got 0: the numbers in a module are 0, 1, .., each once
// RUN: sed 's:site = 2 :site = 1000000 :' %s | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=FAR
// FAR: error: 'rt.collective' op expected site = 2, got 1000000
// RUN: sed 's|name = "loss" :|name = "loss" {rt.bucket = 0 : i64} :|' %s | not shale-opt --shale-annotate-target=target=cpu:x86-64-v3 --shale-lower-program 2>&1 | FileCheck %s --check-prefix=BUCKET
// BUCKET: error: 'rt.collective' op 'rt.bucket' must be the site of the first collective of the bucket; those of a bucket have consecutive sites in one function, one kind and one axis

// LLVM-NOT: rt.
// LLVM: llvm.func @shale_step(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)

// CHECK: abi {{[0-9]+}} world 2 model m.onnx target x86-64-v3 host x86-64-v3 strategy optimizer optimizer adamw describe text
// CHECK-NEXT: axis fsdp 2 splits batch 1
// CHECK-NEXT: parameter w type 0 count 16 trained 1 dims 4 4 alias tied init 1 transposed 1 fill 0 file 1 size 256 offset 128 length 64
// CHECK-NEXT: buffer 0 hash right mean 2 deviation 1
// CHECK-NEXT: parameter b type 0 count 4 trained 0 dims 4 init 0 transposed 0 fill 0.5 file -1 size 0 offset 0 length 0
// CHECK-NEXT: buffer 0 hash right mean 0 deviation -1
// CHECK-NEXT: group u.f32 count 32 [0 offset 0 count 16]
// CHECK-NEXT: group b count 4 [1 offset 0 count 4]
// CHECK-NEXT: state group 0 role 0 type 0 axis -1 offset 0 count 32
// CHECK-NEXT: state group 1 role 0 type 0 axis -1 offset 128 count 4
// CHECK-NEXT: state group 0 role 3 type 0 axis 0 offset 192 count 16
// CHECK-NEXT: input ids from 1 type 4 rank 2 first 2 batch 0 bound 256
// CHECK-NEXT: hyper lr source 1 base -1 default 0 from 0 to 0:
// CHECK-NEXT: hyper beta1 source 0 base -1 default 0.9 from 0 to 1 excluded: decay of the first moment
// CHECK-NEXT: hyper bias1 source 2 base 1 default 0 from 0 to 0: beta1
// CHECK-NEXT: t from 1 by 1
// CHECK-NEXT: hyper clip_grad_norm source 0 base -1 default 0 from 0 to 1e+30: largest norm; 0: off
// CHECK-NEXT: hyper norm_limit source 7 base -1 default 0 from 0 to 0:
// CHECK-NEXT: slot moment1
// CHECK-NEXT: foreign beta2-decay
// CHECK-NEXT: foreign eps1
// CHECK-NEXT: foreign eps2
// CHECK-NEXT: foreign clip-threshold
// CHECK-NEXT: foreign lr-decay
// CHECK-NEXT: foreign decoupled-decay
// CHECK-NEXT: foreign shrink
// CHECK-NEXT: foreign momentum
// CHECK-NEXT: foreign gradient-weight
// CHECK-NEXT: foreign nesterov
// CHECK-NEXT: foreign match-rms-adamw
// CHECK-NEXT: foreign adamw-weight-decay
// CHECK-NEXT: foreign adamw-lr
// CHECK-NEXT: metric loss
// CHECK-NEXT: site u kind 1 axis 0 bytes 64
// CHECK-NEXT: site u kind 0 axis 0 bytes 64
// CHECK-NEXT: site loss kind 2 axis 0 bytes 8
// CHECK: line 0 parameters at rest 144
// CHECK: line 2 optimizer state 64
// CHECK: line 0 alignment of state 48
// CHECK: line 1 gradients, at the arena's peak 128
// CHECK: line 4 receive scratch 128
// CHECK: buffer f 0 space 0 block 0 offset 0 bytes 128 padding 64
// CHECK: buffer f.moment1 2 space 0 block 0 offset 192 bytes 64 padding 32
// CHECK: buffer u 1 space 0 block 1 offset 0 bytes 128 padding 64
// CHECK: kernel update_0: 16 of type 0, 16 of type 0, 1 of type 0, 16 of type 0, 1 of type 0
// CHECK-NEXT: limits 1000 3000
// CHECK: state 256 arena 256 scratch 128 tokens 16 evaluate 0 sum 1
// CHECK-NEXT: gemm 0 1 1 of 4x4x4 type 0 to 0 state+0/4 state+64/4 arena+0/4
// CHECK-NEXT: zero arena+128, 32 bytes
// CHECK-NEXT: gemm 1 0 2 of 4x2x2 type 0 to 0 arena+0/4 arena+128/2 arena+192/2
// CHECK-NEXT: gemm 1 0 2 of 4x2x2 type 0 to 0 arena+0/4 arena+128/2 added to arena+192/2
// CHECK-NEXT: reduce-scatter site 0 arena+0 to arena+64 count 16 type 0
// CHECK-NEXT: wait 0
// CHECK-NEXT: launch update_0 rows 16 grain 4 on the device: update(state+64, arena+64, lr 0.125) to state+64 [0, 16)
// CHECK-NEXT: all-gather site 1 state+64 to state+0 count 16 type 0
// CHECK-NEXT: wait 1
// CHECK-NEXT: all-reduce site 2 elsewhere to elsewhere count 1 type 0
// CHECK-NEXT: wait 2
// CHECK-NEXT: loss 2.5
module attributes {nn.model = "m.onnx", nn.optimizer = "adamw", dist.strategy = #dist.strategy<optimizer>, rt.state_bytes = 256 : i64, rt.arena_bytes = 256 : i64} {
  dist.mesh @mesh <[shard "fsdp"=2]>
  dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 4]>]>]
  nn.state @w role = param type = tensor<4x4xf32> {init = #nn.file<"WEIGHTS", offset = 128, length = 64, transposed = true>, names = ["w", "tied"]}
  nn.state @b role = param type = tensor<4xf32> {init = #nn.fill<0.5 : f64>, trained = false}
  nn.state @f role = param type = tensor<32xf32> {dist.unit = @u, dist.group = 0 : i64}
  nn.state @f.moment1 role = moment("moment1") type = tensor<32xf32> {of = @f, dist.unit = @u, dist.group = 0 : i64, dist.axis = "fsdp"}
  rt.slot @"f@slot" parameters offset = 0 : tensor<32xf32>
  rt.slot @"b@slot" parameters offset = 128 : tensor<4xf32>
  rt.slot @"f.moment1@slot" optimizer offset = 192 axis = "fsdp" : tensor<16xf32>
  rt.constant @c dense<[true, false]> : tensor<2xi1>
  rt.kernel @update_0(%p: tensor<16xf32>, %g: tensor<16xf32>, %lr: tensor<f32>) -> (tensor<16xf32>, tensor<f32>) aliases [0, -1]
      attributes {rows = 16 : i64, grain = 4 : i64, function = @kernel_update} {
    rt.yield %p, %lr : tensor<16xf32>, tensor<f32>
  }
  rt.func @step inputs = [{name = "ids", binding = "tokens", type = tensor<2x4xi64>, batch_dim = 0 : i64, bound = 256 : i64}] hyper = ["lr", "beta1", "bias1", "clip_grad_norm", "norm_limit"] metrics = ["loss"] {
    %f = rt.buffer state offset = 0 @"f@slot" parameters "f" : memref<32xf32>
    %g = rt.buffer arena offset = 0 gradients "u" padding = 64 : memref<32xf32>
    %x = rt.buffer arena offset = 128 activations "x" : memref<2x2x2xf32>
    %y = rt.buffer arena offset = 192 activations "y" : memref<2x4x2xf32>
    %lr = rt.buffer hyper index = 0 fixed "lr" : memref<f32>
    %loss = rt.buffer metric index = 0 fixed "loss" : memref<f32>
    %w = rt.view %f offset = 0 : memref<32xf32> -> memref<4x4xf32>
    %v = rt.view %f offset = 64 : memref<32xf32> -> memref<4x4xf32>
    %d = rt.view %g offset = 0 : memref<32xf32> -> memref<4x4xf32>
    rt.gemm %w, %v transpose_b to %d : memref<4x4xf32>, memref<4x4xf32> to memref<4x4xf32>
    rt.zero %x : memref<2x2x2xf32>
    %b = rt.view %g offset = 0 : memref<32xf32> -> memref<2x2x4xf32>
    rt.gemm %b, %x transpose_a to %y : memref<2x2x4xf32>, memref<2x2x2xf32> to memref<2x4x2xf32>
    rt.gemm %b, %x transpose_a to %y accumulate : memref<2x2x4xf32>, memref<2x2x2xf32> to memref<2x4x2xf32>
    %gs = rt.shard %g axis = "fsdp" : memref<32xf32> -> memref<16xf32>
    %t = rt.collective reduce_scatter %g to %gs site = 0 axis = "fsdp" name = "u" : memref<32xf32> to memref<16xf32>
    rt.wait %t
    %fs = rt.shard %f axis = "fsdp" : memref<32xf32> -> memref<16xf32>
    rt.launch @update_0(%fs, %gs, %lr) to (%fs, %loss) {nn.phase = #nn.phase<update>} : (memref<16xf32>, memref<16xf32>, memref<f32>) -> (memref<16xf32>, memref<f32>)
    %s = rt.collective all_gather %fs to %f site = 1 axis = "fsdp" name = "u" : memref<16xf32> to memref<32xf32>
    rt.wait %s
    %r = rt.collective all_reduce %loss to %loss site = 2 axis = "fsdp" name = "loss" : memref<f32> to memref<f32>
    rt.wait %r
  }
}
