// A script decides: the op that it looks for stays, with its operands.
// RUN: split-file %s %t && cd %t && chmod +x *.sh
// RUN: shale-reduce module.mlir --test=./tanh.sh -o out.mlir 2> log
// RUN: FileCheck %s --input-file=out.mlir --check-prefix=TANH
// RUN: FileCheck %s --input-file=log --check-prefix=LOG

// TANH:      module {
// TANH-NEXT:   func.func @f() {
// TANH-NEXT:     %[[ZERO:.*]] = nn.constant dense<0.000000e+00> : tensor<4xf32>
// TANH-NEXT:     %{{.*}} = nn.tanh %[[ZERO]] : tensor<4xf32>
// TANH-NEXT:     return
// TANH-NEXT:   }
// TANH-NEXT: }

// LOG: shale-reduce: drop ops: {{[0-9]+}} -> {{[0-9]+}} ops; {{[0-9]+}} candidates
// LOG: shale-reduce: 15 -> 4 ops after {{[0-9]+}} candidates, in 'out.mlir'

// Two ops that are needed together, in different functions: each alone is not interesting.
// RUN: shale-reduce module.mlir --test=./both.sh -o both.mlir
// RUN: FileCheck %s --input-file=both.mlir --check-prefix=BOTH
// BOTH-NOT: nn.state
// BOTH: func.func
// BOTH-NOT: nn.neg
// BOTH: nn.tanh
// BOTH: func.func
// BOTH-NOT: nn.neg
// BOTH: nn.exp

// A call keeps its function, without body; arguments and results are gone on both sides.
// RUN: shale-reduce module.mlir --test=./call.sh -o call.mlir
// RUN: FileCheck %s --input-file=call.mlir --check-prefix=CALL
// CALL:      module {
// CALL-NEXT:   func.func private @g()
// CALL-NEXT:   func.func @h() {
// CALL-NEXT:     call @g() : () -> ()
// CALL-NEXT:     return
// CALL-NEXT:   }
// CALL-NEXT: }

// An op in a region leaves it. A script that wants the region keeps it with nothing else.
// RUN: shale-reduce cluster.mlir --test=./tanh.sh -o inlined.mlir
// RUN: FileCheck %s --input-file=inlined.mlir --check-prefix=TANH
// RUN: shale-reduce cluster.mlir --test=./cluster.sh -o cluster-out.mlir
// RUN: FileCheck %s --input-file=cluster-out.mlir --check-prefix=CLUSTER
// CLUSTER:      func.func @f() {
// CLUSTER-NEXT:   nn.cluster () -> () {
// CLUSTER-NEXT:     nn.yield
// CLUSTER-NEXT:   }
// CLUSTER-NEXT:   return

// Locations are removed, unless the fault depends on them.
// RUN: shale-reduce located.mlir --test=./tanh.sh -o unlocated.mlir
// RUN: FileCheck %s --input-file=unlocated.mlir --check-prefix=TANH --implicit-check-not=loc
// RUN: shale-reduce located.mlir --test=./place.sh -o located-out.mlir
// RUN: FileCheck %s --input-file=located-out.mlir --check-prefix=PLACE
// PLACE: nn.tanh {{.*}} loc({{.*}})
// PLACE: loc("place")

// Standard output has only the result.
// RUN: shale-reduce module.mlir --test=./tanh.sh -o - 2>/dev/null | FileCheck %s --check-prefix=TANH

//--- module.mlir
module attributes {nn.model = "m"} {
  nn.state @w role = param type = tensor<4xf32>
  func.func @f(%x: tensor<4xf32>, %w: tensor<4xf32> {nn.state = @w}) -> (tensor<4xf32>, tensor<4xf32>) {
    %c = nn.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
    %0 = nn.neg %x : tensor<4xf32>
    %1 = nn.add %0, %c : tensor<4xf32>
    %2 = nn.tanh %1 {nn.scope = "a"} : tensor<4xf32>
    %3 = nn.mul %2, %w : tensor<4xf32>
    return %3, %2 : tensor<4xf32>, tensor<4xf32>
  }
  func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.exp %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
  func.func @h(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = nn.neg %x : tensor<4xf32>
    %1 = call @g(%0) : (tensor<4xf32>) -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
//--- cluster.mlir
func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0:2 = nn.cluster (%a = %x : tensor<4xf32>, %b = %y : tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) aliases [0, -1] {
    %1 = nn.tanh %a : tensor<4xf32>
    %2 = nn.add %1, %b : tensor<4xf32>
    nn.yield %2, %1 : tensor<4xf32>, tensor<4xf32>
  }
  return %0#1 : tensor<4xf32>
}
//--- located.mlir
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.neg %x : tensor<4xf32>
  %1 = nn.tanh %0 : tensor<4xf32> loc("place")
  return %1 : tensor<4xf32>
}
//--- place.sh
#!/bin/sh
grep -q 'nn\.tanh.*loc' "$1" && grep -q '"place"' "$1"
//--- tanh.sh
#!/bin/sh
grep -q 'nn\.tanh' "$1"
//--- both.sh
#!/bin/sh
grep -q 'nn\.tanh' "$1" && grep -q 'nn\.exp' "$1"
//--- call.sh
#!/bin/sh
grep -q 'call @g' "$1"
//--- cluster.sh
#!/bin/sh
grep -q 'nn\.cluster' "$1"
