// RUN: shale-opt %s --shale-round-parameters --split-input-file --verify-diagnostics | FileCheck %s

// Numbers go on from parameter to parameter, at multiples of 32. Frozen parameters have numbers, too, so that freezing
// changes no bits of others. The arguments of dropout are used.
nn.state @frozen role = param type = tensor<40xbf16> {trained = false}
nn.state @a role = param type = tensor<3x3xbf16>
nn.state @a.v role = moment("momentum") type = tensor<3x3xf32> {of = @a}
nn.state @wide role = param type = tensor<8xf32>
nn.state @wide.v role = moment("momentum") type = tensor<8xf32> {of = @wide}
nn.state @b role = param type = tensor<8xbf16>
nn.state @b.v role = moment("momentum") type = tensor<8xf32> {of = @b}
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[SEED:[a-z0-9]+]]: tensor<i64> {nn.name = "random.seed", nn.role = #nn.role<seed>}
// CHECK-SAME: %[[STEP:[a-z0-9]+]]: tensor<i64> {nn.name = "random.step", nn.role = #nn.role<step>})
func.func @step(%seed: tensor<i64> {nn.name = "random.seed", nn.role = #nn.role<seed>},
                %a: tensor<3x3xbf16> {nn.state = @a}, %av: tensor<3x3xf32> {nn.state = @a.v},
                %wide: tensor<8xf32> {nn.state = @wide}, %widev: tensor<8xf32> {nn.state = @wide.v},
                %b: tensor<8xbf16> {nn.state = @b}, %bv: tensor<8xf32> {nn.state = @b.v},
                %s: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"}, %e: tensor<i1> {nn.role = #nn.role<input>, nn.name = "e"})
    -> (tensor<3x3xbf16> {nn.state = @a}, tensor<3x3xf32> {nn.state = @a.v}, tensor<8xf32> {nn.state = @wide}, tensor<8xf32> {nn.state = @wide.v},
        tensor<8xbf16> {nn.state = @b}, tensor<8xf32> {nn.state = @b.v}) {
  // CHECK: nn.sgd {{.*}} rounded by %[[SEED]], %[[STEP]] : tensor<i64>, tensor<i64> {numbers = array<i64: 64>} : tensor<3x3xbf16>
  %0, %1 = nn.sgd %a, %av, %av enable %e scale %s lr %s momentum %s weight_decay %s : tensor<3x3xbf16> grad tensor<3x3xf32> state tensor<3x3xf32>, tensor<f32>
  // CHECK: nn.sgd {{.*}} weight_decay %{{[a-z0-9]+}} : tensor<8xf32>
  %2, %3 = nn.sgd %wide, %widev, %widev enable %e scale %s lr %s momentum %s weight_decay %s : tensor<8xf32>, tensor<f32>
  // CHECK: nn.sgd {{.*}} rounded by %[[SEED]], %[[STEP]] : tensor<i64>, tensor<i64> {numbers = array<i64: 128>} : tensor<8xbf16>
  %4, %5 = nn.sgd %b, %bv, %bv enable %e scale %s lr %s momentum %s weight_decay %s : tensor<8xbf16> grad tensor<8xf32> state tensor<8xf32>, tensor<f32>
  return %0, %1, %2, %3, %4, %5 : tensor<3x3xbf16>, tensor<3x3xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xbf16>, tensor<8xf32>
}

// All functions have the same inputs.
// CHECK-LABEL: func.func @evaluate
// CHECK-SAME: %{{[a-z0-9]+}}: tensor<4xf32>, %{{[a-z0-9]+}}: tensor<i64> {nn.name = "random.seed", nn.role = #nn.role<seed>}, %{{[a-z0-9]+}}: tensor<i64> {nn.name = "random.step", nn.role = #nn.role<step>})
func.func @evaluate(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// A parameter of f16 has no such rounding.
nn.state @a role = param type = tensor<8xf16>
nn.state @a.v role = moment("momentum") type = tensor<8xf32> {of = @a}
func.func @step(%a: tensor<8xf16> {nn.state = @a}, %av: tensor<8xf32> {nn.state = @a.v}, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{stochastic rounding is for parameters of bf16, not f16}}
  %0, %1 = nn.sgd %a, %av, %av enable %e scale %s lr %s momentum %s weight_decay %s : tensor<8xf16> grad tensor<8xf32> state tensor<8xf32>, tensor<f32>
  return
}

// -----

// A parameter that has more elements than can be numbered.
// expected-error@+1 {{is beyond the 2^48 elements of parameters that can be rounded stochastically}}
nn.state @a role = param type = tensor<281474976710657xbf16>

// -----

// An update of no state.
func.func @step(%a: tensor<8xbf16>, %av: tensor<8xf32>, %s: tensor<f32>, %e: tensor<i1>) {
  // expected-error@+1 {{updates a value that is not the state of a parameter}}
  %0, %1 = nn.sgd %a, %av, %av enable %e scale %s lr %s momentum %s weight_decay %s : tensor<8xbf16> grad tensor<8xf32> state tensor<8xf32>, tensor<f32>
  return
}
