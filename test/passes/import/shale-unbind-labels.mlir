// RUN: shale-opt %s --split-input-file --shale-unbind-labels | FileCheck %s
// RUN: shale-opt %s --split-input-file --shale-unbind-labels 2>&1 >/dev/null | FileCheck %s --check-prefix=NOTE --implicit-check-not note:
// RUN: shale-opt %s --split-input-file --shale-unbind-labels=bound=labels | FileCheck %s --check-prefix=BOUND

// Attention without a mask reads later positions. A label that --bind binds stays bound.
// NOTE: note: attention also reads later positions: labels 'labels' come from the data file (next tokens would be copied; --bind labels=tokens+1 takes them nevertheless)
// CHECK: module attributes {nn.loss = "attention also reads later positions: labels 'labels' come from the data file"}
// CHECK: func.func @forward(%{{.*}}: tensor<1x2xi64> {nn.binding = "tokens", nn.name = "ids", nn.role = #nn.role<input>}, %{{.*}}: tensor<1x2xi64> {nn.name = "labels", nn.role = #nn.role<label>}
// BOUND: func.func @forward(%{{.*}} {nn.binding = "tokens+1", nn.name = "labels"
func.func @forward(%ids: tensor<1x2xi64> {nn.role = #nn.role<input>, nn.name = "ids", nn.binding = "tokens"},
                   %labels: tensor<1x2xi64> {nn.role = #nn.role<label>, nn.name = "labels", nn.binding = "tokens+1"},
                   %q: tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32> {
  %y, %lse = nn.attention %q, %q, %q scale = 0.5
      : tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32> -> tensor<1x1x2x4xf32>, tensor<1x1x2xf32>
  return %y : tensor<1x1x2x4xf32>
}

// -----

// Causal attention hides later positions.
// CHECK: func.func @forward({{.*}}nn.binding = "tokens+1", nn.name = "hidden"
func.func @forward(%ids: tensor<1x2xi64> {nn.role = #nn.role<input>, nn.name = "ids", nn.binding = "tokens"},
                   %labels: tensor<1x2xi64> {nn.role = #nn.role<label>, nn.name = "hidden", nn.binding = "tokens+1"},
                   %q: tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32> {
  %y, %lse = nn.attention %q, %q, %q causal scale = 0.5
      : tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32> -> tensor<1x1x2x4xf32>, tensor<1x1x2xf32>
  return %y : tensor<1x1x2x4xf32>
}

// -----

// Softmax over all positions, of an attention that was not recovered. A mask of positions hides later ones.
// NOTE: note: attention also reads later positions: labels 'softmax'
// CHECK: func.func @forward({{.*}}nn.name = "softmax"
func.func @forward(%ids: tensor<1x4xi64> {nn.role = #nn.role<input>, nn.name = "ids", nn.binding = "tokens"},
                   %labels: tensor<1x4xi64> {nn.role = #nn.role<label>, nn.name = "softmax", nn.binding = "tokens+1"},
                   %q: tensor<1x4x8xf32>) -> tensor<1x4x8xf32> {
  %scores = nn.matmul %q, %q transpose_rhs : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x4xf32>
  %p = nn.softmax %scores : tensor<1x4x4xf32>
  %y = nn.matmul %p, %q : (tensor<1x4x4xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  return %y : tensor<1x4x8xf32>
}

// -----

// No input of tokens: labels have none either.
// NOTE: note: no other input has tokens: labels 'alone' come from the data file{{$}}
// CHECK: func.func @forward({{.*}}{nn.name = "alone"
func.func @forward(%x: tensor<2x4xf32> {nn.role = #nn.role<input>, nn.name = "x"},
                   %labels: tensor<2xi64> {nn.role = #nn.role<label>, nn.name = "alone", nn.binding = "tokens+1"}) -> tensor<2x4xf32> {
  return %x : tensor<2x4xf32>
}

// -----

// A decoder embeds its labels: they stay tokens.
// CHECK: func.func @forward({{.*}}nn.binding = "tokens+1", nn.name = "embedded"
func.func @forward(%x: tensor<2x4xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %table: tensor<8x4xf32>,
                   %labels: tensor<2xi64> {nn.role = #nn.role<label>, nn.name = "embedded", nn.binding = "tokens+1"}) -> tensor<2x4xf32> {
  %rows = nn.embedding %table, %labels : (tensor<8x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  return %rows : tensor<2x4xf32>
}

// -----

// A label without a name, which no data file has, stays as it is, and so does a function without a body.
// CHECK: func.func @forward({{.*}}nn.binding = "tokens+1", nn.role
func.func @forward(%labels: tensor<2xi64> {nn.role = #nn.role<label>, nn.binding = "tokens+1"}) -> tensor<2xi64> {
  return %labels : tensor<2xi64>
}

// -----

// CHECK: func.func private @forward({{.*}}nn.binding
func.func private @forward(tensor<2xi64> {nn.role = #nn.role<label>, nn.name = "labels", nn.binding = "tokens+1"})

// -----

// Without @forward nothing changes.
// CHECK: func.func @other({{.*}}nn.binding
func.func @other(%labels: tensor<2xi64> {nn.role = #nn.role<label>, nn.name = "other", nn.binding = "tokens+1"}) {
  return
}
