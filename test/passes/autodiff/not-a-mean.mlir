// A loss that is not a sum divided by a count: the losses of micro-batches are averaged, and a remark says so.
// RUN: shale-opt %s --shale-autodiff="optimizer=sgd accumulate=2" --shale-verify-step --remarks-filter=autodiff 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file %t.remarks
// RUN: sed 's:nn.mul \(.\)sum, .sum:nn.div \1sum, \1one:' %s | shale-opt --shale-autodiff="optimizer=sgd accumulate=2" --remarks-filter=autodiff 2>&1 >/dev/null | FileCheck %s --allow-empty --check-prefix=MEAN
// REMARK: the loss is not a sum divided by a count, so the losses of the 2 micro-batches of a step are averaged
// MEAN-NOT: not a sum divided by a count
nn.state @w role = param type = tensor<8xf32>

// CHECK: func.func @accumulate_first
func.func @forward(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<8xf32> {nn.state = @w})
    -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.mul %x, %w : tensor<8xf32>
  %sum = nn.reduce sum %0 dims = [0] : tensor<8xf32> -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %product = nn.mul %sum, %sum : tensor<f32>
  return %product, %sum, %one : tensor<f32>, tensor<f32>, tensor<f32>
}
