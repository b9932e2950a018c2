// A planned kernel that overwrites its input is run row by row: half of the rows are written before the
// others are read. A kernel that reads only its own rows keeps its bits, another one does not.
// RUN: shale-opt %s --shale-plan -o %t.mlir
// RUN: grep -c aliases %t.mlir | FileCheck %s --check-prefix=PLANNED
// RUN: not shale-run %s --exact --compare %t.mlir | FileCheck %s

// PLANNED: 4
// CHECK-DAG: @step: 'shifted' differs
// CHECK-DAG: @step: 'turned' differs
// CHECK: @step: 5 values, 2 differ in their bits

nn.state @softmax role = param type = tensor<16x8xf32>
nn.state @squared role = param type = tensor<64xf32>
nn.state @shifted role = param type = tensor<64xf32>
nn.state @turned role = param type = tensor<16x8xf32>
func.func @step(%a: tensor<16x8xf32> {nn.state = @softmax}, %b: tensor<64xf32> {nn.state = @squared},
                %c: tensor<64xf32> {nn.state = @shifted}, %d: tensor<16x8xf32> {nn.state = @turned})
    -> (tensor<16x8xf32> {nn.state = @softmax}, tensor<64xf32> {nn.state = @squared}, tensor<64xf32> {nn.state = @shifted},
        tensor<16x8xf32> {nn.state = @turned}, tensor<f32> {nn.role = #nn.role<metric>, nn.name = "loss"}) {
  %loss = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.cluster (%x = %a : tensor<16x8xf32>) -> tensor<16x8xf32> aliases [0] {
    %1 = nn.exp %x : tensor<16x8xf32>
    %2 = nn.reduce sum %1 dims = [1] : tensor<16x8xf32> -> tensor<16xf32>
    %3 = nn.broadcast %2 dims = [0] : tensor<16xf32> -> tensor<16x8xf32>
    %4 = nn.div %1, %3 : tensor<16x8xf32>
    nn.yield %4 : tensor<16x8xf32>
  }
  %5 = nn.cluster (%x = %b : tensor<64xf32>) -> tensor<64xf32> aliases [0] {
    %6 = nn.mul %x, %x : tensor<64xf32>
    nn.yield %6 : tensor<64xf32>
  }
  %7 = nn.cluster (%x = %c : tensor<64xf32>) -> tensor<64xf32> aliases [0] {
    %8 = nn.slice %x starts = [0] limits = [63] strides = [1] : tensor<64xf32> -> tensor<63xf32>
    %9 = nn.pad %8 low = [1] high = [0] interior = [0] value = 0.0 : tensor<63xf32> -> tensor<64xf32>
    %10 = nn.add %x, %9 : tensor<64xf32>
    nn.yield %10 : tensor<64xf32>
  }
  %11 = nn.cluster (%x = %d : tensor<16x8xf32>) -> tensor<16x8xf32> aliases [0] {
    %12 = nn.reduce sum %x dims = [1] : tensor<16x8xf32> -> tensor<16xf32>
    %13 = nn.broadcast %12 dims = [0] : tensor<16xf32> -> tensor<16x8xf32>
    %14 = nn.slice %x starts = [0, 4] limits = [16, 8] strides = [1, 1] : tensor<16x8xf32> -> tensor<16x4xf32>
    %15 = nn.slice %x starts = [0, 0] limits = [16, 4] strides = [1, 1] : tensor<16x8xf32> -> tensor<16x4xf32>
    %16 = nn.concat %14, %15 dim = 1 : (tensor<16x4xf32>, tensor<16x4xf32>) -> tensor<16x8xf32>
    %17 = nn.sub %16, %13 : tensor<16x8xf32>
    nn.yield %17 : tensor<16x8xf32>
  }
  return %0, %5, %7, %11, %loss : tensor<16x8xf32>, tensor<64xf32>, tensor<64xf32>, tensor<16x8xf32>, tensor<f32>
}
