// shale-opt decides: a message that matches, or a crash.
// RUN: split-file %s %t && cd %t && chmod +x *.sh
// RUN: shale-reduce module.mlir --opt=--shale-autodiff --expect='no gradient: .*lies on a path' -o message.mlir
// RUN: FileCheck %s --input-file=message.mlir --check-prefix=MESSAGE
// RUN: not shale-opt message.mlir --shale-autodiff 2>&1 | FileCheck %s --check-prefix=AGAIN
// MESSAGE-NOT: nn.tanh
// MESSAGE: func.func @forward
// MESSAGE: nn.gather
// MESSAGE-NOT: nn.tanh
// AGAIN: error: {{.*}}no gradient: nn.gather lies on a path

// Only a crash of the process counts. Arguments are split as in a shell.
// RUN: shale-reduce module.mlir --shale-opt=./crash.sh --opt="--shale-partition 'two words'" -o crash.mlir
// RUN: FileCheck %s --input-file=crash.mlir --check-prefix=CRASH
// CRASH:      func.func @forward() {
// CRASH-NEXT:   %[[ZERO:.*]] = nn.constant
// CRASH-NEXT:   %{{.*}} = nn.tanh %[[ZERO]]
// CRASH-NEXT:   return

// With --expect, a crash with another message is not interesting.
// RUN: shale-reduce module.mlir --shale-opt=./crash.sh --opt="--shale-partition 'two words'" --expect='^of tanh and exp$' -o expected.mlir
// RUN: FileCheck %s --input-file=expected.mlir --check-prefix=EXPECTED
// EXPECTED-DAG: nn.tanh
// EXPECTED-DAG: nn.exp

// A reproducer records its passes.
// RUN: not shale-opt module.mlir --shale-autodiff --mlir-pass-pipeline-crash-reproducer=failed.mlir
// RUN: shale-reduce failed.mlir --expect='no gradient' -o reproduced.mlir
// RUN: FileCheck %s --input-file=reproduced.mlir --check-prefix=MESSAGE

// A fault of a verifier: neither input nor candidates need to verify.
// RUN: not shale-reduce invalid.mlir --opt= --expect='undefined symbol|names no nn.state' 2>&1 | FileCheck %s --check-prefix=INVALID
// INVALID: error: cannot read 'invalid.mlir'; if a verifier is at fault, add --allow-invalid
// RUN: shale-reduce invalid.mlir --opt= --expect='names no nn.state' --allow-invalid -o invalid-out.mlir
// RUN: FileCheck %s --input-file=invalid-out.mlir --check-prefix=LEFT
// LEFT: nn.state = @nobody
// LEFT-NOT: nn.tanh

//--- module.mlir
module attributes {nn.model = "m"} {
  nn.state @w role = param type = tensor<4xf32>
  func.func @forward(%i: tensor<2xi64> {nn.role = #nn.role<input>, nn.name = "i"}, %w: tensor<4xf32> {nn.state = @w}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
    %0 = nn.tanh %w : tensor<4xf32>
    %1 = nn.exp %0 : tensor<4xf32>
    %2 = nn.gather %1, %i dim = 0 : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
    %3 = nn.neg %2 : tensor<2xf32>
    %4 = nn.reduce sum %3 dims = [0] : tensor<2xf32> -> tensor<f32>
    return %4, %4, %4 : tensor<f32>, tensor<f32>, tensor<f32>
  }
}
//--- invalid.mlir
func.func @f(%x: tensor<4xf32> {nn.state = @nobody}) -> tensor<4xf32> {
  %0 = nn.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
//--- crash.sh
#!/bin/sh
# Stands for a shale-opt that crashes.
[ "$1 $2" = "--shale-partition two words" ] || exit 2
grep -q 'nn\.tanh' "$3" || exit 0
if grep -q 'nn\.exp' "$3"; then echo "of tanh and exp" >&2; fi
kill -SEGV $$
