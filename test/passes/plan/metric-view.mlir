// RUN: shale-opt %s --shale-plan | FileCheck %s
// RUN: shale-opt %s --shale-plan -o %t && shale-run %s --compare=%t --exact

// A mean that keeps its dimensions: the loss is a view of one element, which is copied to the metric.
// CHECK-LABEL: rt.func @step
// CHECK-DAG: rt.buffer {{ *}}arena {{.*}} : memref<1x1xf32>
// CHECK-DAG: %[[LOSS:.*]] = rt.buffer metric index = 0 {{.*}} : memref<f32>
// CHECK: rt.copy %{{.*}} to %[[LOSS]]
module {
  func.func @step(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64})
      -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "loss"}) {
    %0 = nn.cluster (%a = %x : tensor<4x8xf32>) -> tensor<1x1xf32> {
      %3 = nn.reduce sum %a dims = [0, 1] : tensor<4x8xf32> -> tensor<f32>
      %4 = nn.reshape %3 : tensor<f32> -> tensor<1x1xf32>
      %5 = nn.constant dense<32.0> : tensor<1x1xf32>
      %6 = nn.div %4, %5 : tensor<1x1xf32>
      nn.yield %6 : tensor<1x1xf32>
    }
    %1 = nn.reshape %0 : tensor<1x1xf32> -> tensor<f32>
    return %1 : tensor<f32>
  }
}

// RUN: not shale-opt %s --shale-plan=threads=-1 2>&1 | FileCheck %s --check-prefix=THREADS
// THREADS: threads must be 0 to 65536; got -1
