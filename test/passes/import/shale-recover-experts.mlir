// RUN: shale-opt --shale-recover-experts %s | FileCheck %s
// RUN: shale-opt --shale-recover-experts %s -o %t.mlir
// RUN: shale-run %s --compare=%t.mlir --as f64 --tolerance 1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL-COUNT-17: values, 0 differ

// RUN: shale-run --check-gradient %t.mlir --function=leaves | FileCheck %s --check-prefix=GRADIENT
// GRADIENT: @leaves argument 0: {{.*}}, largest error {{(0|[0-9.]+e-(0[4-9]|[1-9][0-9]))$}}

// Counts of one-hot rows, from the experts before the sort.
// CHECK-LABEL: func.func @one_hot
// CHECK-NEXT: nn.top_k
// CHECK-NEXT: %[[EXPERTS:.*]] = nn.reshape
// CHECK-NEXT: %[[WIDE:.*]] = nn.broadcast %{{.*}} dims = [0, 2] : tensor<6x4xf32> -> tensor<6x2x4xf32>
// CHECK-NEXT: %[[ROWS:.*]] = nn.reshape %[[WIDE]] : tensor<6x2x4xf32> -> tensor<12x4xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.expert_matmul %[[ROWS]], %{{.*}} experts = %[[EXPERTS]]
// CHECK-NEXT: return %[[Y]]
func.func @one_hot(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %numbers = nn.iota dim = 1 : tensor<12x3xi64>
  %wide = nn.broadcast %experts dims = [0] : tensor<12xi64> -> tensor<12x3xi64>
  %mine = nn.compare eq %wide, %numbers : tensor<12x3xi64> -> tensor<12x3xi1>
  %ones = nn.cast %mine : tensor<12x3xi1> -> tensor<12x3xi32>
  %counts = nn.reduce sum %ones dims = [0] : tensor<12x3xi32> -> tensor<3xi32>
  %ends = nn.cumsum %counts dim = 0 : tensor<3xi32>
  %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  %zero = nn.constant dense<0> : tensor<12xi64>
  %s, %places = nn.top_k %order smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %isneg = nn.compare lt %places, %zero : tensor<12xi64> -> tensor<12xi1>
  %size = nn.constant dense<12> : tensor<12xi64>
  %wrapped = nn.add %places, %size : tensor<12xi64>
  %index = nn.select %isneg, %wrapped, %places : tensor<12xi1>, tensor<12xi64>
  %y = nn.gather %products, %index dim = 0 : (tensor<12x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}

// A histogram of the sorted experts, as floats: rows below each edge, and their differences.
// CHECK-LABEL: func.func @histogram
// CHECK-NEXT: nn.top_k
// CHECK-NEXT: %[[EXPERTS:.*]] = nn.reshape
// CHECK-NEXT: %[[WIDE:.*]] = nn.broadcast %{{.*}} dims = [0, 2] : tensor<6x4xf32> -> tensor<6x2x4xf32>
// CHECK-NEXT: %[[ROWS:.*]] = nn.reshape %[[WIDE]] : tensor<6x2x4xf32> -> tensor<12x4xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.expert_matmul %[[ROWS]], %{{.*}} experts = %[[EXPERTS]]
// CHECK-NEXT: return %[[Y]]
func.func @histogram(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %number = nn.cast %sorted : tensor<12xi64> -> tensor<12xf32>
  %row = nn.reshape %number : tensor<12xf32> -> tensor<1x12xf32>
  %edges = nn.constant dense<[[0.0], [0.75], [1.5], [2.5]]> : tensor<4x1xf32>
  %wide = nn.broadcast %row dims = [0, 1] : tensor<1x12xf32> -> tensor<4x12xf32>
  %limits = nn.broadcast %edges dims = [0, 1] : tensor<4x1xf32> -> tensor<4x12xf32>
  %below = nn.compare lt %wide, %limits : tensor<4x12xf32> -> tensor<4x12xi1>
  %ones = nn.cast %below : tensor<4x12xi1> -> tensor<4x12xf32>
  %sums = nn.reduce sum %ones dims = [1] : tensor<4x12xf32> -> tensor<4xf32>
  %upper = nn.slice %sums starts = [1] limits = [4] strides = [1] : tensor<4xf32> -> tensor<3xf32>
  %lower = nn.slice %sums starts = [0] limits = [3] strides = [1] : tensor<4xf32> -> tensor<3xf32>
  %bins = nn.sub %upper, %lower : tensor<3xf32>
  %counts = nn.cast %bins : tensor<3xf32> -> tensor<3xi32>
  %ends = nn.cumsum %counts dim = 0 : tensor<3xi32>
  %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  %zero = nn.constant dense<0> : tensor<12xi64>
  %s, %places = nn.top_k %order smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %isneg = nn.compare lt %places, %zero : tensor<12xi64> -> tensor<12xi1>
  %size = nn.constant dense<12> : tensor<12xi64>
  %wrapped = nn.add %places, %size : tensor<12xi64>
  %index = nn.select %isneg, %wrapped, %places : tensor<12xi1>, tensor<12xi64>
  %y = nn.gather %products, %index dim = 0 : (tensor<12x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}

// Ones that are added by index.
// CHECK-LABEL: func.func @added
// CHECK-NEXT: nn.top_k
// CHECK-NEXT: %[[EXPERTS:.*]] = nn.reshape
// CHECK-NEXT: %[[WIDE:.*]] = nn.broadcast %{{.*}} dims = [0, 2] : tensor<6x4xf32> -> tensor<6x2x4xf32>
// CHECK-NEXT: %[[ROWS:.*]] = nn.reshape %[[WIDE]] : tensor<6x2x4xf32> -> tensor<12x4xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.expert_matmul %[[ROWS]], %{{.*}} experts = %[[EXPERTS]]
// CHECK-NEXT: return %[[Y]]
func.func @added(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %tuple = nn.reshape %experts : tensor<12xi64> -> tensor<12x1xi64>
  %one = nn.constant dense<1.0> : tensor<12xf32>
  %sums = nn.gather_nd_grad %tuple, %one batch_dims = 0 : (tensor<12x1xi64>, tensor<12xf32>) -> tensor<3xf32>
  %counts = nn.cast %sums : tensor<3xf32> -> tensor<3xi32>
  %ends = nn.cumsum %counts dim = 0 : tensor<3xi32>
  %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  %zero = nn.constant dense<0> : tensor<12xi64>
  %s, %places = nn.top_k %order smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %isneg = nn.compare lt %places, %zero : tensor<12xi64> -> tensor<12xi1>
  %size = nn.constant dense<12> : tensor<12xi64>
  %wrapped = nn.add %places, %size : tensor<12xi64>
  %index = nn.select %isneg, %wrapped, %places : tensor<12xi1>, tensor<12xi64>
  %y = nn.gather %products, %index dim = 0 : (tensor<12x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}

// An expert's bias, which is looked up by the sorted experts.
// CHECK-LABEL: func.func @bias
// CHECK: %[[EXPERTS:.*]] = nn.reshape
// CHECK: nn.expert_matmul
// CHECK: nn.gather %{{.*}}, %[[EXPERTS]] dim = 0
// CHECK-NOT: nn.top_k
func.func @bias(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %numbers = nn.iota dim = 1 : tensor<12x3xi64>
  %wide = nn.broadcast %experts dims = [0] : tensor<12xi64> -> tensor<12x3xi64>
  %mine = nn.compare eq %wide, %numbers : tensor<12x3xi64> -> tensor<12x3xi1>
  %ones = nn.cast %mine : tensor<12x3xi1> -> tensor<12x3xi32>
  %counts = nn.reduce sum %ones dims = [0] : tensor<12x3xi32> -> tensor<3xi32>
  %ends = nn.cumsum %counts dim = 0 : tensor<3xi32>
  %matmul = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  %biases = nn.slice %x starts = [0, 0] limits = [3, 4] strides = [1, 1] : tensor<6x4xf32> -> tensor<3x4xf32>
  %bias = nn.gather %biases, %sorted dim = 0 : (tensor<3x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  %products = nn.add %matmul, %bias : tensor<12x4xf32>
  %zero = nn.constant dense<0> : tensor<12xi64>
  %s, %places = nn.top_k %order smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %isneg = nn.compare lt %places, %zero : tensor<12xi64> -> tensor<12xi1>
  %size = nn.constant dense<12> : tensor<12xi64>
  %wrapped = nn.add %places, %size : tensor<12xi64>
  %index = nn.select %isneg, %wrapped, %places : tensor<12xi1>, tensor<12xi64>
  %y = nn.gather %products, %index dim = 0 : (tensor<12x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}

// What leaves sorted is sorted after the matmul.
// CHECK-LABEL: func.func @leaves
// CHECK: %[[SORTED:.*]], %[[ORDER:.*]] = nn.top_k %{{.*}} smallest
// CHECK: %[[Y:.*]] = nn.expert_matmul
// CHECK: %[[OUT:.*]] = nn.embedding %[[Y]], %[[ORDER]]
// CHECK: return %[[OUT]]
func.func @leaves(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %numbers = nn.iota dim = 1 : tensor<12x3xi64>
  %wide = nn.broadcast %experts dims = [0] : tensor<12xi64> -> tensor<12x3xi64>
  %mine = nn.compare eq %wide, %numbers : tensor<12x3xi64> -> tensor<12x3xi1>
  %ones = nn.cast %mine : tensor<12x3xi1> -> tensor<12x3xi32>
  %counts = nn.reduce sum %ones dims = [0] : tensor<12x3xi32> -> tensor<3xi32>
  %ends = nn.cumsum %counts dim = 0 : tensor<3xi32>
  %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  return %products : tensor<12x4xf32>
}

// Counts that are not added up are no ends.
// CHECK-LABEL: func.func @no_ends
// CHECK: nn.grouped_matmul
func.func @no_ends(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %numbers = nn.iota dim = 1 : tensor<12x3xi64>
  %wide = nn.broadcast %experts dims = [0] : tensor<12xi64> -> tensor<12x3xi64>
  %mine = nn.compare eq %wide, %numbers : tensor<12x3xi64> -> tensor<12x3xi1>
  %ones = nn.cast %mine : tensor<12x3xi1> -> tensor<12x3xi32>
  %ends = nn.reduce sum %ones dims = [0] : tensor<12x3xi32> -> tensor<3xi32>
  %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  %zero = nn.constant dense<0> : tensor<12xi64>
  %s, %places = nn.top_k %order smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %isneg = nn.compare lt %places, %zero : tensor<12xi64> -> tensor<12xi1>
  %size = nn.constant dense<12> : tensor<12xi64>
  %wrapped = nn.add %places, %size : tensor<12xi64>
  %index = nn.select %isneg, %wrapped, %places : tensor<12xi1>, tensor<12xi64>
  %y = nn.gather %products, %index dim = 0 : (tensor<12x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}

// One row more in the first group.
// CHECK-LABEL: func.func @one_more
// CHECK: nn.grouped_matmul
func.func @one_more(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %numbers = nn.iota dim = 1 : tensor<12x3xi64>
  %wide = nn.broadcast %experts dims = [0] : tensor<12xi64> -> tensor<12x3xi64>
  %mine = nn.compare eq %wide, %numbers : tensor<12x3xi64> -> tensor<12x3xi1>
  %ones = nn.cast %mine : tensor<12x3xi1> -> tensor<12x3xi32>
  %counts = nn.reduce sum %ones dims = [0] : tensor<12x3xi32> -> tensor<3xi32>
  %more = nn.constant dense<[1, 0, 0]> : tensor<3xi32>
  %sum = nn.add %counts, %more : tensor<3xi32>
  %ends = nn.cumsum %sum dim = 0 : tensor<3xi32>
  %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  %zero = nn.constant dense<0> : tensor<12xi64>
  %s, %places = nn.top_k %order smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %isneg = nn.compare lt %places, %zero : tensor<12xi64> -> tensor<12xi1>
  %size = nn.constant dense<12> : tensor<12xi64>
  %wrapped = nn.add %places, %size : tensor<12xi64>
  %index = nn.select %isneg, %wrapped, %places : tensor<12xi1>, tensor<12xi64>
  %y = nn.gather %products, %index dim = 0 : (tensor<12x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}

// The experts of other rows are counted.
// CHECK-LABEL: func.func @others
// CHECK: nn.grouped_matmul
func.func @others(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %worst, %other = nn.top_k %scores smallest : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %wrong = nn.reshape %other : tensor<6x2xi64> -> tensor<12xi64>
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %numbers = nn.iota dim = 1 : tensor<12x3xi64>
  %wide = nn.broadcast %wrong dims = [0] : tensor<12xi64> -> tensor<12x3xi64>
  %mine = nn.compare eq %wide, %numbers : tensor<12x3xi64> -> tensor<12x3xi1>
  %ones = nn.cast %mine : tensor<12x3xi1> -> tensor<12x3xi32>
  %counts = nn.reduce sum %ones dims = [0] : tensor<12x3xi32> -> tensor<3xi32>
  %ends = nn.cumsum %counts dim = 0 : tensor<3xi32>
  %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  %zero = nn.constant dense<0> : tensor<12xi64>
  %s, %places = nn.top_k %order smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %isneg = nn.compare lt %places, %zero : tensor<12xi64> -> tensor<12xi1>
  %size = nn.constant dense<12> : tensor<12xi64>
  %wrapped = nn.add %places, %size : tensor<12xi64>
  %index = nn.select %isneg, %wrapped, %places : tensor<12xi1>, tensor<12xi64>
  %y = nn.gather %products, %index dim = 0 : (tensor<12x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}

// From the largest number on.
// CHECK-LABEL: func.func @descending
// CHECK: nn.grouped_matmul
func.func @descending(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %numbers = nn.iota dim = 1 : tensor<12x3xi64>
  %wide = nn.broadcast %experts dims = [0] : tensor<12xi64> -> tensor<12x3xi64>
  %mine = nn.compare eq %wide, %numbers : tensor<12x3xi64> -> tensor<12x3xi1>
  %ones = nn.cast %mine : tensor<12x3xi1> -> tensor<12x3xi32>
  %counts = nn.reduce sum %ones dims = [0] : tensor<12x3xi32> -> tensor<3xi32>
  %ends = nn.cumsum %counts dim = 0 : tensor<3xi32>
  %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  %zero = nn.constant dense<0> : tensor<12xi64>
  %s, %places = nn.top_k %order smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %isneg = nn.compare lt %places, %zero : tensor<12xi64> -> tensor<12xi1>
  %size = nn.constant dense<12> : tensor<12xi64>
  %wrapped = nn.add %places, %size : tensor<12xi64>
  %index = nn.select %isneg, %wrapped, %places : tensor<12xi1>, tensor<12xi64>
  %y = nn.gather %products, %index dim = 0 : (tensor<12x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}

// There are more experts than matrices.
// CHECK-LABEL: func.func @too_many
// CHECK: nn.grouped_matmul
func.func @too_many(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %best, %expert = nn.top_k %x : tensor<6x4xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %numbers = nn.iota dim = 1 : tensor<12x3xi64>
  %wide = nn.broadcast %experts dims = [0] : tensor<12xi64> -> tensor<12x3xi64>
  %mine = nn.compare eq %wide, %numbers : tensor<12x3xi64> -> tensor<12x3xi1>
  %ones = nn.cast %mine : tensor<12x3xi1> -> tensor<12x3xi32>
  %counts = nn.reduce sum %ones dims = [0] : tensor<12x3xi32> -> tensor<3xi32>
  %ends = nn.cumsum %counts dim = 0 : tensor<3xi32>
  %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  %zero = nn.constant dense<0> : tensor<12xi64>
  %s, %places = nn.top_k %order smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %isneg = nn.compare lt %places, %zero : tensor<12xi64> -> tensor<12xi1>
  %size = nn.constant dense<12> : tensor<12xi64>
  %wrapped = nn.add %places, %size : tensor<12xi64>
  %index = nn.select %isneg, %wrapped, %places : tensor<12xi1>, tensor<12xi64>
  %y = nn.gather %products, %index dim = 0 : (tensor<12x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}

// A matrix that is looked up for each row, as [N, K] on the left.
// CHECK-LABEL: func.func @looked_up
// CHECK: %[[EXPERTS:.*]] = nn.reshape %{{.*}} : tensor<6x2xi64> -> tensor<12xi64>
// CHECK: %[[Y:.*]] = nn.expert_matmul %{{.*}}, %arg3 transpose_rhs experts = %{{.*}} : (tensor<12x4xf32>, tensor<3x5x4xf32>, tensor<12xi64>) -> tensor<12x5xf32>
// CHECK-NOT: nn.gather_nd
func.func @looked_up(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>, %m: tensor<3x5x4xf32>, %rows: tensor<12x4xf32>) -> tensor<12x5x1xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %tuples = nn.reshape %experts : tensor<12xi64> -> tensor<12x1xi64>
  %zero = nn.constant dense<0> : tensor<12x1xi64>
  %size = nn.constant dense<3> : tensor<12x1xi64>
  %negative = nn.compare lt %tuples, %zero : tensor<12x1xi64> -> tensor<12x1xi1>
  %wrapped = nn.add %tuples, %size : tensor<12x1xi64>
  %index = nn.select %negative, %wrapped, %tuples : tensor<12x1xi1>, tensor<12x1xi64>
  %matrices = nn.gather_nd %m, %index batch_dims = 0 : (tensor<3x5x4xf32>, tensor<12x1xi64>) -> tensor<12x5x4xf32>
  %columns = nn.reshape %rows : tensor<12x4xf32> -> tensor<12x4x1xf32>
  %y = nn.matmul %matrices, %columns : (tensor<12x5x4xf32>, tensor<12x4x1xf32>) -> tensor<12x5x1xf32>
  return %y : tensor<12x5x1xf32>
}

// As [K, N] on the right, turned, from a table of rows.
// CHECK-LABEL: func.func @table
// CHECK: nn.expert_matmul %{{.*}}, %arg3 transpose_rhs experts = %{{.*}} : (tensor<12x4xf32>, tensor<3x5x4xf32>, tensor<12xi64>) -> tensor<12x5xf32>
func.func @table(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>, %m: tensor<3x5x4xf32>, %rows: tensor<12x4xf32>) -> tensor<12x1x5xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %table = nn.reshape %m : tensor<3x5x4xf32> -> tensor<3x20xf32>
  %found = nn.embedding %table, %experts : (tensor<3x20xf32>, tensor<12xi64>) -> tensor<12x20xf32>
  %matrices = nn.reshape %found : tensor<12x20xf32> -> tensor<12x5x4xf32>
  %turned = nn.transpose %matrices perm = [0, 2, 1] : tensor<12x5x4xf32> -> tensor<12x4x5xf32>
  %row = nn.reshape %rows : tensor<12x4xf32> -> tensor<12x1x4xf32>
  %y = nn.matmul %row, %turned : (tensor<12x1x4xf32>, tensor<12x4x5xf32>) -> tensor<12x1x5xf32>
  return %y : tensor<12x1x5xf32>
}

// Two rows for each matrix.
// CHECK-LABEL: func.func @two_rows
// CHECK-NOT: nn.expert_matmul
func.func @two_rows(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<3x2x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x1xf32>, tensor<6x1xi64>
  %some = nn.slice %expert starts = [0, 0] limits = [3, 1] strides = [1, 1] : tensor<6x1xi64> -> tensor<3x1xi64>
  %matrices = nn.gather_nd %w, %some batch_dims = 0 : (tensor<3x4x4xf32>, tensor<3x1xi64>) -> tensor<3x4x4xf32>
  %pairs = nn.reshape %x : tensor<6x4xf32> -> tensor<3x2x4xf32>
  %y = nn.matmul %pairs, %matrices : (tensor<3x2x4xf32>, tensor<3x4x4xf32>) -> tensor<3x2x4xf32>
  return %y : tensor<3x2x4xf32>
}

// An index of a larger table may be out of range, where nn.gather_nd picks NaN.
// CHECK-LABEL: func.func @out_of_range
// CHECK-NOT: nn.expert_matmul
func.func @out_of_range(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<6x1x4xf32> {
  %best, %expert = nn.top_k %x : tensor<6x4xf32> -> tensor<6x1xf32>, tensor<6x1xi64>
  %matrices = nn.gather_nd %w, %expert batch_dims = 0 : (tensor<3x4x4xf32>, tensor<6x1xi64>) -> tensor<6x4x4xf32>
  %row = nn.reshape %x : tensor<6x4xf32> -> tensor<6x1x4xf32>
  %y = nn.matmul %row, %matrices : (tensor<6x1x4xf32>, tensor<6x4x4xf32>) -> tensor<6x1x4xf32>
  return %y : tensor<6x1x4xf32>
}

// The number of an expert that was a truth value is another number.
// CHECK-LABEL: func.func @truths
// CHECK: nn.grouped_matmul
func.func @truths(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %number = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %truth = nn.cast %number : tensor<12xi64> -> tensor<12xi1>
  %experts = nn.cast %truth : tensor<12xi1> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %numbers = nn.iota dim = 1 : tensor<12x3xi64>
  %wide = nn.broadcast %experts dims = [0] : tensor<12xi64> -> tensor<12x3xi64>
  %mine = nn.compare eq %wide, %numbers : tensor<12x3xi64> -> tensor<12x3xi1>
  %ones = nn.cast %mine : tensor<12x3xi1> -> tensor<12x3xi32>
  %counts = nn.reduce sum %ones dims = [0] : tensor<12x3xi32> -> tensor<3xi32>
  %ends = nn.cumsum %counts dim = 0 : tensor<3xi32>
  %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  %zero = nn.constant dense<0> : tensor<12xi64>
  %s, %places = nn.top_k %order smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %isneg = nn.compare lt %places, %zero : tensor<12xi64> -> tensor<12xi1>
  %size = nn.constant dense<12> : tensor<12xi64>
  %wrapped = nn.add %places, %size : tensor<12xi64>
  %index = nn.select %isneg, %wrapped, %places : tensor<12xi1>, tensor<12xi64>
  %y = nn.gather %products, %index dim = 0 : (tensor<12x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}

// Counts that became truth values are no counts.
// CHECK-LABEL: func.func @any
// CHECK: nn.grouped_matmul
func.func @any(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %numbers = nn.iota dim = 1 : tensor<12x3xi64>
  %wide = nn.broadcast %experts dims = [0] : tensor<12xi64> -> tensor<12x3xi64>
  %mine = nn.compare eq %wide, %numbers : tensor<12x3xi64> -> tensor<12x3xi1>
  %ones = nn.cast %mine : tensor<12x3xi1> -> tensor<12x3xi32>
  %counts = nn.reduce sum %ones dims = [0] : tensor<12x3xi32> -> tensor<3xi32>
  %some = nn.cast %counts : tensor<3xi32> -> tensor<3xi1>
  %one = nn.cast %some : tensor<3xi1> -> tensor<3xi32>
  %ends = nn.cumsum %one dim = 0 : tensor<3xi32>
  %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  %zero = nn.constant dense<0> : tensor<12xi64>
  %s, %places = nn.top_k %order smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %isneg = nn.compare lt %places, %zero : tensor<12xi64> -> tensor<12xi1>
  %size = nn.constant dense<12> : tensor<12xi64>
  %wrapped = nn.add %places, %size : tensor<12xi64>
  %index = nn.select %isneg, %wrapped, %places : tensor<12xi1>, tensor<12xi64>
  %y = nn.gather %products, %index dim = 0 : (tensor<12x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}

// What depends on the places of rows is no count of them.
// CHECK-LABEL: func.func @places
// CHECK: nn.grouped_matmul
func.func @places(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x4xf32>) -> tensor<12x4xf32> {
  %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x2xf32>, tensor<6x2xi64>
  %experts = nn.reshape %expert : tensor<6x2xi64> -> tensor<12xi64>
  %sorted, %order = nn.top_k %experts smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %two = nn.constant dense<2> : tensor<12xi64>
  %token = nn.div %order, %two : tensor<12xi64>
  %tuples = nn.reshape %token : tensor<12xi64> -> tensor<12x1xi64>
  %rows = nn.gather_nd %x, %tuples batch_dims = 0 : (tensor<6x4xf32>, tensor<12x1xi64>) -> tensor<12x4xf32>
  %numbers = nn.iota dim = 1 : tensor<12x3xi64>
  %wide = nn.broadcast %experts dims = [0] : tensor<12xi64> -> tensor<12x3xi64>
  %mine = nn.compare eq %wide, %numbers : tensor<12x3xi64> -> tensor<12x3xi1>
  %ones = nn.cast %mine : tensor<12x3xi1> -> tensor<12x3xi32>
  %place = nn.iota dim = 0 : tensor<12x3xi32>
  %weighed = nn.mul %ones, %place : tensor<12x3xi32>
  %counts = nn.reduce sum %weighed dims = [0] : tensor<12x3xi32> -> tensor<3xi32>
  %ends = nn.cumsum %counts dim = 0 : tensor<3xi32>
  %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<12x4xf32>, tensor<3x4x4xf32>, tensor<3xi32>) -> tensor<12x4xf32>
  %zero = nn.constant dense<0> : tensor<12xi64>
  %s, %places = nn.top_k %order smallest : tensor<12xi64> -> tensor<12xi64>, tensor<12xi64>
  %isneg = nn.compare lt %places, %zero : tensor<12xi64> -> tensor<12xi1>
  %size = nn.constant dense<12> : tensor<12xi64>
  %wrapped = nn.add %places, %size : tensor<12xi64>
  %index = nn.select %isneg, %wrapped, %places : tensor<12xi1>, tensor<12xi64>
  %y = nn.gather %products, %index dim = 0 : (tensor<12x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
  return %y : tensor<12x4xf32>
}

// CHECK-LABEL: func.func private @declared
func.func private @declared(%x: tensor<6x4xf32>)
