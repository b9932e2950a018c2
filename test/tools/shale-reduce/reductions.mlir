// Each part can be removed by only one kind of reduction.
// RUN: split-file %s %t && cd %t && chmod +x *.sh
// RUN: shale-reduce module.mlir --allow-unregistered-dialect --test=./test.sh -o out.mlir
// RUN: FileCheck %s --input-file=out.mlir

// The elements of a constant; an entry of a list or dictionary.
// CHECK: module attributes {test.elements = dense<0.000000e+00> : tensor<2xf32>, test.list = ["a"], test.table = {d = "d"}} {
// One attribute of an argument.
// CHECK-NEXT: func.func @f(%[[X:.*]]: tensor<4xf32> {nn.name = "x"}) {
// CHECK-NEXT: %[[ZERO:.*]] = nn.constant dense<0.000000e+00> : tensor<4xf32>
// An op that no other value of its type can replace: nn.tanh must not read the argument.
// CHECK-NEXT: %{{.*}} = nn.tanh %[[ZERO]] : tensor<4xf32>
// CHECK-NEXT: %{{.*}} = nn.exp %[[X]] : tensor<4xf32>
// An operand of an op that takes any number.
// CHECK-NEXT: "test.many"() : () -> ()
// CHECK-NEXT: return

//--- module.mlir
module attributes {test.elements = dense<[1.0, 2.0]> : tensor<2xf32>, test.list = ["a", "b"], test.table = {c = "c", d = "d"}} {
  func.func @f(%x: tensor<4xf32> {nn.name = "x", nn.role = #nn.role<input>}) {
    %c = nn.constant dense<1.0> : tensor<4xf32>
    %0 = nn.neg %x : tensor<4xf32>
    %1 = nn.tanh %0 : tensor<4xf32>
    %2 = nn.exp %x : tensor<4xf32>
    "test.many"(%c, %2) : (tensor<4xf32>, tensor<4xf32>) -> ()
    return
  }
}
//--- test.sh
#!/bin/sh
for text in 'test\.elements' '"a"' '"d"' 'nn\.name' 'nn\.constant' 'nn\.tanh' 'nn\.exp %arg0' 'test\.many'; do
  grep -q "$text" "$1" || exit 1
done
! grep -q 'nn\.tanh %arg0' "$1"
