// RUN: shale-opt %s --split-input-file --shale-pad-parameters | FileCheck %s
// RUN: shale-opt %s --split-input-file --shale-pad-parameters --remarks-filter=pad-parameters 2>&1 | FileCheck %s --check-prefix=SAID

// A table that is embedding and head; between matmul and loss a bias, a scale, a cast and a cut of other dimensions. Policies and
// names: the part has the policies, the whole parameter the names and the initial value.
// SAID: remark: {{.*}}the 5 rows of 'wte' do not divide over 2 tensor ranks: they are padded to 6
// CHECK-DAG: nn.state @"wte/padded" role = param type = tensor<6x8xf32> {factors = #nn.update_factors<decay = 0.000000e+00>, nn.part = #nn.part<@wte, dim = 0, begin = 0, padding = 1>, unit = "root"}
// CHECK-DAG: nn.state @wte role = divided type = tensor<5x8xf32> {{.*}}init = #nn.fill{{.*}}names = ["lm_head"]
// CHECK-DAG: nn.state @"bias/padded" role = param type = tensor<6xf32> {nn.part = #nn.part<@bias, dim = 0, begin = 0, padding = 1>}
// CHECK-DAG: nn.state @bias role = divided type = tensor<5xf32>
// CHECK-LABEL: func.func @tied
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<6x8xf32> {nn.state = @"wte/padded"}
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<6xf32> {nn.state = @"bias/padded"}
// CHECK: nn.embedding %[[W]], %{{.*}} : (tensor<6x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
// CHECK: nn.matmul {{.*}}, %[[W]] transpose_rhs {nn.scope = "lm_head"} : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x6xf32>
// CHECK: nn.broadcast %[[B]] dims = [1] : tensor<6xf32> -> tensor<6x6xf32>
// CHECK: nn.constant dense<2.000000e+00> : tensor<6x6xf32>
// CHECK: nn.reshape {{.*}} -> tensor<2x3x6xf32>
// CHECK: nn.slice {{.*}} starts = [0, 0, 0] limits = [2, 2, 6] strides = [1, 1, 1] : tensor<2x3x6xf32> -> tensor<2x2x6xf32>
// CHECK: %[[L:.*]] = nn.reshape {{.*}} -> tensor<4x6xf32>
// CHECK: nn.cross_entropy %[[L]], %{{.*}} ignore_index = -100 classes = 5 : tensor<4x6xf32>, tensor<4xi64>
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
nn.state @wte role = param type = tensor<5x8xf32> {factors = #nn.update_factors<decay = 0.0>, init = #nn.fill<1.0 : f64>, names = ["lm_head"], unit = "root"}
nn.state @bias role = param type = tensor<5xf32>
func.func @tied(%ids: tensor<2x3xi64>, %labels: tensor<4xi64>, %w: tensor<5x8xf32> {nn.state = @wte}, %b: tensor<5xf32> {nn.state = @bias}) -> tensor<f32> {
  %e = nn.embedding %w, %ids : (tensor<5x8xf32>, tensor<2x3xi64>) -> tensor<2x3x8xf32>
  %x = nn.reshape %e : tensor<2x3x8xf32> -> tensor<6x8xf32>
  %y = nn.matmul %x, %w transpose_rhs {nn.scope = "lm_head"} : (tensor<6x8xf32>, tensor<5x8xf32>) -> tensor<6x5xf32>
  %r = nn.broadcast %b dims = [1] : tensor<5xf32> -> tensor<6x5xf32>
  %s = nn.add %y, %r : tensor<6x5xf32>
  %two = nn.constant dense<2.0> : tensor<6x5xf32>
  %t = nn.div %s, %two : tensor<6x5xf32>
  %f = nn.reshape %t : tensor<6x5xf32> -> tensor<2x3x5xf32>
  %c = nn.slice %f starts = [0, 0, 0] limits = [2, 2, 5] strides = [1, 1, 1] : tensor<2x3x5xf32> -> tensor<2x2x5xf32>
  %g = nn.reshape %c : tensor<2x2x5xf32> -> tensor<4x5xf32>
  %sum, %count, %lse = nn.cross_entropy %g, %labels ignore_index = -100 : tensor<4x5xf32>, tensor<4xi64>
  return %sum : tensor<f32>
}

// -----

// A head that is stored with its classes as columns, and its bias. Labels that are as many do not matter, nor does a table of another
// width that has as many columns.
// SAID: remark: {{.*}}the 5 columns of 'head' do not divide over 2 tensor ranks: they are padded to 6
// SAID-NOT: 'other'
// CHECK-DAG: nn.state @"head/padded" role = param type = tensor<8x6xf32> {nn.part = #nn.part<@head, dim = 1, begin = 0, padding = 1>}
// CHECK-DAG: nn.state @"bias/padded" role = param type = tensor<6xf32> {nn.part = #nn.part<@bias, dim = 0, begin = 0, padding = 1>}
// CHECK-LABEL: func.func @columns
// CHECK-SAME: tensor<4x5xf32> {nn.state = @other}
// CHECK: %[[L:.*]] = nn.matmul {{.*}} : (tensor<5x8xf32>, tensor<8x6xf32>) -> tensor<5x6xf32>
// CHECK: nn.cross_entropy {{.*}} classes = 5 : tensor<5x6xf32>, tensor<5xi64>
dist.mesh @mesh <[tensor "tp"=2]>
nn.state @head role = param type = tensor<8x5xf32>
nn.state @bias role = param type = tensor<5xf32>
nn.state @other role = param type = tensor<4x5xf32>
func.func @columns(%x: tensor<5x8xf32>, %ids: tensor<3xi64>, %labels: tensor<5xi64>, %w: tensor<8x5xf32> {nn.state = @head}, %b: tensor<5xf32> {nn.state = @bias},
    %o: tensor<4x5xf32> {nn.state = @other}) -> (tensor<f32>, tensor<3x5xf32>) {
  %y = nn.matmul %x, %w : (tensor<5x8xf32>, tensor<8x5xf32>) -> tensor<5x5xf32>
  %r = nn.broadcast %b dims = [1] : tensor<5xf32> -> tensor<5x5xf32>
  %s = nn.add %y, %r : tensor<5x5xf32>
  %sum, %count, %lse = nn.cross_entropy %s, %labels ignore_index = -100 : tensor<5x5xf32>, tensor<5xi64>
  %e = nn.embedding %o, %ids : (tensor<4x5xf32>, tensor<3xi64>) -> tensor<3x5xf32>
  return %sum, %e : tensor<f32>, tensor<3x5xf32>
}

// -----

// Left alone: without tensor ranks.
// CHECK-LABEL: func.func @one_rank
// CHECK-SAME: tensor<5x8xf32> {nn.state = @w}
dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=1]>
nn.state @w role = param type = tensor<5x8xf32>
func.func @one_rank(%ids: tensor<3xi64>, %w: tensor<5x8xf32> {nn.state = @w}) -> tensor<3x8xf32> {
  %e = nn.embedding %w, %ids : (tensor<5x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  return %e : tensor<3x8xf32>
}

// -----

// Left alone: two tensor axes.
// CHECK-LABEL: func.func @two_axes
// CHECK-SAME: tensor<5x8xf32> {nn.state = @w}
dist.mesh @mesh <[tensor "rows"=2, tensor "tp"=2]>
nn.state @w role = param type = tensor<5x8xf32>
func.func @two_axes(%ids: tensor<3xi64>, %w: tensor<5x8xf32> {nn.state = @w}) -> tensor<3x8xf32> {
  %e = nn.embedding %w, %ids : (tensor<5x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
  return %e : tensor<3x8xf32>
}

// -----

// Left alone: a divisible number of rows; rows that are no classes; so few that the last rank would have none; =whole; columns
// that only a softmax reads; logits that something else reads whole, or that meet a value of as many elements; a buffer.
// SAID: remark: {{.*}}'softmax' do not divide over 4 tensor ranks, and cannot be padded: nn.softmax reads all of them
// SAID: remark: {{.*}}'labels' do not divide over 4 tensor ranks, and cannot be padded: an input has as many elements
// CHECK-NOT: nn.part
// CHECK-LABEL: func.func @left_alone
// CHECK-NOT: classes
dist.mesh @mesh <[tensor "tp"=4]>
nn.state @even role = param type = tensor<8x8xf32>
nn.state @linear role = param type = tensor<7x8xf32>
nn.state @few role = param type = tensor<5x8xf32>
nn.state @typed role = param type = tensor<7x8xf32> {dist.tensor = #dist.tensor_split<whole>}
nn.state @last role = param type = tensor<8x7xf32>
nn.state @softmax role = param type = tensor<7x8xf32>
nn.state @labels role = param type = tensor<7x8xf32>
nn.state @buffer role = buffer type = tensor<7x8xf32>
func.func @left_alone(%ids: tensor<4xi64>, %soft: tensor<4x7xf32>, %even: tensor<8x8xf32> {nn.state = @even}, %linear: tensor<7x8xf32> {nn.state = @linear},
    %few: tensor<5x8xf32> {nn.state = @few}, %typed: tensor<7x8xf32> {nn.state = @typed}, %last: tensor<8x7xf32> {nn.state = @last},
    %softmax: tensor<7x8xf32> {nn.state = @softmax}, %labels: tensor<7x8xf32> {nn.state = @labels}, %buffer: tensor<7x8xf32> {nn.state = @buffer})
    -> (tensor<4x8xf32>, tensor<4x7xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x7xf32>, tensor<4x7xf32>, tensor<4x7xf32>, tensor<4x8xf32>) {
  %0 = nn.embedding %even, %ids : (tensor<8x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %1 = nn.matmul %0, %linear transpose_rhs : (tensor<4x8xf32>, tensor<7x8xf32>) -> tensor<4x7xf32>
  %2 = nn.embedding %few, %ids : (tensor<5x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %3 = nn.embedding %typed, %ids : (tensor<7x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %4 = nn.matmul %0, %last : (tensor<4x8xf32>, tensor<8x7xf32>) -> tensor<4x7xf32>
  %12 = nn.softmax %4 : tensor<4x7xf32>
  %5 = nn.embedding %softmax, %ids : (tensor<7x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %6 = nn.matmul %5, %softmax transpose_rhs : (tensor<4x8xf32>, tensor<7x8xf32>) -> tensor<4x7xf32>
  %7 = nn.softmax %6 : tensor<4x7xf32>
  %8 = nn.embedding %labels, %ids : (tensor<7x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  %9 = nn.matmul %8, %labels transpose_rhs : (tensor<4x8xf32>, tensor<7x8xf32>) -> tensor<4x7xf32>
  %10 = nn.mul %9, %soft : tensor<4x7xf32>
  %11 = nn.embedding %buffer, %ids : (tensor<7x8xf32>, tensor<4xi64>) -> tensor<4x8xf32>
  return %0, %1, %2, %3, %12, %7, %10, %11 : tensor<4x8xf32>, tensor<4x7xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x7xf32>, tensor<4x7xf32>, tensor<4x7xf32>, tensor<4x8xf32>
}

// -----

// As many rows for each rank as the target prefers in matmuls of the compute type.
// CHECK-LABEL: func.func @preferred
// CHECK-SAME: tensor<144x8xf32> {nn.state = @"w/padded"}
module attributes {nn.target = "cuda:sm_90a", nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
  dist.mesh @mesh <[tensor "tp"=2]>
  nn.state @w role = param type = tensor<131x8xf32>
  func.func @preferred(%ids: tensor<3xi64>, %w: tensor<131x8xf32> {nn.state = @w}) -> tensor<3x8xf32> {
    %e = nn.embedding %w, %ids : (tensor<131x8xf32>, tensor<3xi64>) -> tensor<3x8xf32>
    return %e : tensor<3x8xf32>
  }
}
