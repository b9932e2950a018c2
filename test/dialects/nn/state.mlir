// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// CHECK: nn.state @h.0.ln.weight role = param type = tensor<8xf32> {init = #nn.fill<1.000000e+00 : f64>}
nn.state @"h.0.ln.weight" role = param type = tensor<8xf32> {init = #nn.fill<1.0 : f64>}
// CHECK: nn.state @w role = param type = tensor<4x8xf32> {factors = #nn.update_factors<decay = 0.000000e+00>, init = #nn.file<"model.onnx", offset = 128, length = 128, transposed = true>, names = ["v"], trained = false, unit = "h.0"}
nn.state @w role = param type = tensor<4x8xf32> {init = #nn.file<"model.onnx", offset = 128, length = 128, transposed = true>, names = ["v"], unit = "h.0", trained = false, factors = #nn.update_factors<decay = 0.0>}
// CHECK: nn.state @w.moment1 role = moment("moment1") type = tensor<4x8xf32> {of = @w}
nn.state @"w.moment1" role = moment("moment1") type = tensor<4x8xf32> {of = @w}
// CHECK: nn.state @folded role = param type = tensor<2xbf16> {init = dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>}
nn.state @folded role = param type = tensor<2xbf16> {init = dense<[1.0, 2.0]> : tensor<2xf32>}
// CHECK: nn.state @mask role = buffer type = tensor<4xi1>
nn.state @mask role = buffer type = tensor<4xi1>
// CHECK: func.func @f(%{{.*}}: tensor<4x8xf32> {nn.state = @w}, %{{.*}}: tensor<2xi64> {nn.batch_dim = 0 : i64, nn.binding = "tokens", nn.name = "x", nn.role = #nn.role<input>}) -> (tensor<4x8xf32> {nn.state = @w})
func.func @f(%w: tensor<4x8xf32> {nn.state = @w},
    %x: tensor<2xi64> {nn.role = #nn.role<input>, nn.name = "x", nn.binding = "tokens", nn.batch_dim = 0 : i64}) -> (tensor<4x8xf32> {nn.state = @w}) {
  // CHECK: nn.neg %{{.*}} {nn.phase = #forward, nn.scope = "h.0"}
  %0 = nn.neg %w {nn.scope = "h.0", nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// CHECK: nn.state @u.f32.residual.fsdp role = residual type = tensor<512xf32>
nn.state @"u.f32.residual.fsdp" role = residual type = tensor<512xf32>
