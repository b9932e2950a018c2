// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// CHECK-LABEL: func.func @dropout
// CHECK: nn.dropout %{{.*}} seed %{{.*}} step %{{.*}} microbatch %{{.*}} ratio = 1.000000e-01 id = 3 : tensor<4x8xf32>, tensor<i64>
// CHECK: nn.dropout %{{.*}} seed %{{.*}} step %{{.*}} microbatch %{{.*}} offset %{{.*}} : tensor<i64> ratio = 5.000000e-01 id = 0 of [16, 8] : tensor<4x8xf32>, tensor<i64>
func.func @dropout(%x: tensor<4x8xf32>, %s: tensor<i64>, %t: tensor<i64>, %m: tensor<i64>, %o: tensor<i64>) {
  %0 = nn.dropout %x seed %s step %t microbatch %m ratio = 1.000000e-01 id = 3 : tensor<4x8xf32>, tensor<i64>
  %1 = nn.dropout %x seed %s step %t microbatch %m offset %o : tensor<i64> ratio = 5.000000e-01 id = 0 of [16, 8] : tensor<4x8xf32>, tensor<i64>
  return
}

// CHECK-LABEL: func.func @uniform
// CHECK: nn.uniform seed %{{.*}} step %{{.*}} microbatch %{{.*}} id = 3 : tensor<4x8xf32>, tensor<i64>
// CHECK: nn.uniform seed %{{.*}} step %{{.*}} microbatch %{{.*}} offset %{{.*}} : tensor<i64> id = 0 of [16, 8] : tensor<4x8xf32>, tensor<i64>
func.func @uniform(%s: tensor<i64>, %t: tensor<i64>, %m: tensor<i64>, %o: tensor<i64>) {
  %0 = nn.uniform seed %s step %t microbatch %m id = 3 : tensor<4x8xf32>, tensor<i64>
  %1 = nn.uniform seed %s step %t microbatch %m offset %o : tensor<i64> id = 0 of [16, 8] : tensor<4x8xf32>, tensor<i64>
  return
}
