// RUN: shale-opt --shale-sort-experts %s | FileCheck %s
// RUN: shale-opt --shale-sort-experts %s -o %t.mlir
// RUN: shale-run %s --compare=%t.mlir --as f64 --tolerance 1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL: @forward: {{.*}} values, 0 differ
// EQUAL: @backward: {{.*}} values, 0 differ
// EQUAL: @dropout: {{.*}} values, 0 differ
// EQUAL: @one_row: {{.*}} values, 0 differ

module {
  // Tokens that are repeated for each expert are moved by the token of a place; what is between the matmuls stays sorted, and so
  // does a bias by expert; the weights are applied to rows that are back.
  // CHECK-LABEL: func.func @forward
  // CHECK: %[[ORDER:.*]], %[[STARTS:.*]] = nn.argsort %arg5 bound = 3 : tensor<12xi64> -> tensor<12xi32>, tensor<4xi32>
  // CHECK: %[[ENDS:.*]] = nn.slice %[[STARTS]] starts = [1] limits = [4]
  // CHECK: %[[PLACES:.*]], %{{.*}} = nn.argsort %[[ORDER]] bound = 12
  // CHECK: %[[TOKENS:.*]] = nn.div %[[ORDER]], %{{.*}} : tensor<12xi32>
  // CHECK: %[[ROWS:.*]] = nn.gather %arg0, %[[TOKENS]] dim = 0 : (tensor<6x4xf32>, tensor<12xi32>) -> tensor<12x4xf32>
  // CHECK: %[[UP:.*]] = nn.grouped_matmul %[[ROWS]], %arg1 ends = %[[ENDS]]
  // CHECK: %[[EXPERTS:.*]] = nn.gather %arg5, %[[ORDER]] dim = 0
  // CHECK: %[[BIAS:.*]] = nn.embedding %arg3, %[[EXPERTS]]
  // CHECK: %[[SUM:.*]] = nn.add %[[UP]], %[[BIAS]]
  // CHECK: %[[ACT:.*]] = nn.silu %[[SUM]]
  // CHECK: %[[DOWN:.*]] = nn.grouped_matmul %[[ACT]], %arg2 ends = %[[ENDS]]
  // CHECK: %[[BACK:.*]] = nn.gather %[[DOWN]], %[[PLACES]] dim = 0
  // CHECK: nn.mul %[[BACK]], %{{.*}}
  // CHECK-NOT: nn.silu
  // CHECK: return
  func.func @forward(%x: tensor<6x4xf32> {nn.name = "forward.x"}, %w: tensor<3x4x8xf32> {nn.name = "forward.w"}, %v: tensor<3x8x4xf32> {nn.name = "forward.v"}, %b: tensor<3x8xf32> {nn.name = "forward.b"}, %weights: tensor<12xf32> {nn.name = "forward.weights"}, %experts: tensor<12xi64> {nn.name = "forward.experts"}) -> tensor<6x4xf32> {
    %wide = nn.broadcast %x dims = [0, 2] : tensor<6x4xf32> -> tensor<6x2x4xf32>
    %rows = nn.reshape %wide : tensor<6x2x4xf32> -> tensor<12x4xf32>
    %0 = nn.expert_matmul %rows, %w experts = %experts : (tensor<12x4xf32>, tensor<3x4x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
    %bias = nn.embedding %b, %experts : (tensor<3x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
    %1 = nn.add %0, %bias : tensor<12x8xf32>
    %2 = nn.silu %1 : tensor<12x8xf32>
    %3 = nn.expert_matmul %2, %v experts = %experts : (tensor<12x8xf32>, tensor<3x8x4xf32>, tensor<12xi64>) -> tensor<12x4xf32>
    %each = nn.broadcast %weights dims = [0] : tensor<12xf32> -> tensor<12x4xf32>
    %4 = nn.mul %3, %each : tensor<12x4xf32>
    %5 = nn.reshape %4 : tensor<12x4xf32> -> tensor<6x2x4xf32>
    %6 = nn.reduce sum %5 dims = [1] : tensor<6x2x4xf32> -> tensor<6x4xf32>
    return %6 : tensor<6x4xf32>
  }

  // Rows that both gradients read are moved once.
  // CHECK-LABEL: func.func @backward
  // CHECK: %[[ORDER:.*]], %{{.*}} = nn.argsort
  // CHECK-COUNT-2: nn.gather %{{.*}}, %[[ORDER]] dim = 0
  // CHECK-NOT: nn.gather %{{.*}}, %[[ORDER]] dim = 0
  // CHECK: nn.grouped_matmul_grad
  func.func @backward(%x: tensor<12x4xf32> {nn.name = "backward.x"}, %dy: tensor<12x8xf32> {nn.name = "backward.dy"}, %w: tensor<3x4x8xf32> {nn.name = "backward.w"}, %experts: tensor<12xi32> {nn.name = "backward.experts"}) -> (tensor<12x4xf32>, tensor<3x4x8xf32>) {
    %0 = nn.expert_matmul %dy, %w transpose_rhs experts = %experts : (tensor<12x8xf32>, tensor<3x4x8xf32>, tensor<12xi32>) -> tensor<12x4xf32>
    %1 = nn.expert_matmul_grad %x, %dy experts = %experts : (tensor<12x4xf32>, tensor<12x8xf32>, tensor<12xi32>) -> tensor<3x4x8xf32>
    return %0, %1 : tensor<12x4xf32>, tensor<3x4x8xf32>
  }

  // Dropout draws by position, so rows are moved after it.
  // CHECK-LABEL: func.func @dropout
  // CHECK: %[[DROPPED:.*]] = nn.dropout
  // CHECK: nn.gather %[[DROPPED]], %{{.*}} dim = 0
  // CHECK: nn.grouped_matmul
  func.func @dropout(%x: tensor<12x4xf32> {nn.name = "dropout.x"}, %w: tensor<3x4x8xf32> {nn.name = "dropout.w"}, %experts: tensor<12xi64> {nn.name = "dropout.experts"}, %s: tensor<i64> {nn.name = "dropout.s"}) -> tensor<12x8xf32> {
    %0 = nn.dropout %x seed %s step %s microbatch %s ratio = 5.000000e-01 id = 3 : tensor<12x4xf32>, tensor<i64>
    %1 = nn.expert_matmul %0, %w experts = %experts : (tensor<12x4xf32>, tensor<3x4x8xf32>, tensor<12xi64>) -> tensor<12x8xf32>
    return %1 : tensor<12x8xf32>
  }

  // CHECK-LABEL: func.func @one_row
  // CHECK: nn.grouped_matmul
  func.func @one_row(%x: tensor<1x4xf32> {nn.name = "one_row.x"}, %w: tensor<3x4x8xf32> {nn.name = "one_row.w"}, %experts: tensor<1xi64> {nn.name = "one_row.experts"}) -> tensor<1x8xf32> {
    %0 = nn.silu %x : tensor<1x4xf32>
    %1 = nn.expert_matmul %0, %w experts = %experts : (tensor<1x4xf32>, tensor<3x4x8xf32>, tensor<1xi64>) -> tensor<1x8xf32>
    return %1 : tensor<1x8xf32>
  }
}
