//===- Passes.td - Passes of the import stage -----------------------------===//
#ifndef SHALE_IMPORT_PASSES_TD
#define SHALE_IMPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

def SimplifyMovementPass : Pass<"shale-simplify-movement"> {
  let summary = "Removes redundant reshapes and transposes";
  let description = [{
    A transpose between two reshapes that only merge and split leading
    dimensions becomes one transpose. Two transposes in a row become one. A
    matmul that reads the transpose of a matrix reads the matrix itself
    (`transpose_lhs`, `transpose_rhs`).

    Before:

    ```mlir
    func.func @scores(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32> {
      %merged = nn.reshape %k : tensor<2x3x5x8xf32> -> tensor<6x5x8xf32>
      %turned = nn.transpose %merged perm = [0, 2, 1] : tensor<6x5x8xf32> -> tensor<6x8x5xf32>
      %split = nn.reshape %turned : tensor<6x8x5xf32> -> tensor<2x3x8x5xf32>
      %scores = nn.matmul %q, %split : (tensor<2x3x5x8xf32>, tensor<2x3x8x5xf32>) -> tensor<2x3x5x5xf32>
      return %scores : tensor<2x3x5x5xf32>
    }
    ```

    After:

    ```mlir
    func.func @scores(%q: tensor<2x3x5x8xf32>, %k: tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32> {
      %scores = nn.matmul %q, %k transpose_rhs : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x5xf32>
      return %scores : tensor<2x3x5x5xf32>
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def SinkMovementPass : Pass<"shale-sink-movement"> {
  let summary = "Moves transposes of the batch dimension below row-wise ops";
  let description = [{
    A transpose that moves the batch dimension away from the front (`[B, T, E]`
    to `[T, B, E]`, as in torch.nn.MultiheadAttention) moves below elementwise
    ops, matmuls of rows with a matrix, norms, slices and broadcasts. It
    disappears when it meets a transpose that moves the batch dimension back, or
    a sum over the rows, as in a gradient that the file computes. Such chains of
    reshapes and transposes become at most a reshape, a transpose and a reshape.
    The batch then stays a leading dimension, which can be split over ranks.

    Before:

    ```mlir
    func.func @project(%x: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}, %weight: tensor<6x4xf32>) -> tensor<2x5x4xf32> {
      %turned = nn.transpose %x perm = [1, 0, 2] : tensor<2x5x6xf32> -> tensor<5x2x6xf32>
      %rows = nn.reshape %turned : tensor<5x2x6xf32> -> tensor<10x6xf32>
      %matmul = nn.matmul %rows, %weight : (tensor<10x6xf32>, tensor<6x4xf32>) -> tensor<10x4xf32>
      %split = nn.reshape %matmul : tensor<10x4xf32> -> tensor<5x2x4xf32>
      %y = nn.transpose %split perm = [1, 0, 2] : tensor<5x2x4xf32> -> tensor<2x5x4xf32>
      return %y : tensor<2x5x4xf32>
    }
    ```

    After:

    ```mlir
    func.func @project(%x: tensor<2x5x6xf32> {nn.batch_dim = 0 : i64}, %weight: tensor<6x4xf32>) -> tensor<2x5x4xf32> {
      %rows = nn.reshape %x : tensor<2x5x6xf32> -> tensor<10x6xf32>
      %matmul = nn.matmul %rows, %weight : (tensor<10x6xf32>, tensor<6x4xf32>) -> tensor<10x4xf32>
      %y = nn.reshape %matmul : tensor<10x4xf32> -> tensor<2x5x4xf32>
      return %y : tensor<2x5x4xf32>
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def RecoverActivationPass : Pass<"shale-recover-activation"> {
  let summary = "Finds GELU (erf and tanh) and SiLU in their decompositions";
  let description = [{
    `x * (1 + erf(x / sqrt(2))) / 2`, its approximation by tanh, and
    `x * sigmoid(x)`, in any order of factors, become `nn.gelu` and `nn.silu`.

    Before:

    ```mlir
    func.func @gelu(%x: tensor<8xf32>) -> tensor<8xf32> {
      %half = nn.constant dense<0.5> : tensor<8xf32>
      %one = nn.constant dense<1.0> : tensor<8xf32>
      %root = nn.constant dense<1.41421354> : tensor<8xf32>
      %scaled = nn.div %x, %root : tensor<8xf32>
      %erf = nn.erf %scaled : tensor<8xf32>
      %sum = nn.add %erf, %one : tensor<8xf32>
      %product = nn.mul %x, %sum : tensor<8xf32>
      %y = nn.mul %product, %half : tensor<8xf32>
      return %y : tensor<8xf32>
    }
    ```

    After:

    ```mlir
    func.func @gelu(%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = nn.gelu %x : tensor<8xf32>
      return %y : tensor<8xf32>
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def RecoverExpertsPass : Pass<"shale-recover-experts"> {
  let summary = "Finds matmuls of rows with the matrices of their experts";
  let description = [{
    Rows that are sorted by expert, multiplied in groups (`nn.grouped_matmul`) and put back become
    matmuls of the rows as they are (`nn.expert_matmul`). So do their gradients. Other ops on the
    sorted rows are done before the sort. A matmul of one row with a matrix that is looked up for it
    becomes the same.

    The number of an expert must come from the indices of `nn.top_k`, and the ends of the groups
    must count the rows of each expert. The ops that compute the ends are evaluated for each expert
    to prove that, whatever they are.

    Experts may also compute all tokens, and results may be added up with weights of zero for the
    experts that a token did not choose. If what these experts add is known to be zeros, the rows of
    the chosen experts are computed instead. Routing weights are such zeros, or scores -inf, where
    the indices of `nn.top_k` are scattered or compared with the numbers of the experts. Ops are
    evaluated from there on; zeros pass through what is linear by the op's sharding rule. This takes
    all other numbers as finite: zero times infinity is taken as zero.

    Before:

    ```mlir
    func.func @experts(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x8xf32>) -> tensor<6x8xf32> {
      %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x1xf32>, tensor<6x1xi64>
      %experts = nn.reshape %expert : tensor<6x1xi64> -> tensor<6xi64>
      %sorted, %order = nn.top_k %experts smallest : tensor<6xi64> -> tensor<6xi64>, tensor<6xi64>
      %ordered, %places = nn.top_k %order smallest : tensor<6xi64> -> tensor<6xi64>, tensor<6xi64>
      %numbers = nn.iota dim = 1 : tensor<6x3xi64>
      %wide = nn.broadcast %experts dims = [0] : tensor<6xi64> -> tensor<6x3xi64>
      %mine = nn.compare eq %wide, %numbers : tensor<6x3xi64> -> tensor<6x3xi1>
      %ones = nn.cast %mine : tensor<6x3xi1> -> tensor<6x3xi64>
      %counts = nn.reduce sum %ones dims = [0] : tensor<6x3xi64> -> tensor<3xi64>
      %ends = nn.cumsum %counts dim = 0 : tensor<3xi64>
      %rows = nn.gather %x, %order dim = 0 : (tensor<6x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
      %products = nn.grouped_matmul %rows, %w ends = %ends : (tensor<6x4xf32>, tensor<3x4x8xf32>, tensor<3xi64>) -> tensor<6x8xf32>
      %y = nn.gather %products, %places dim = 0 : (tensor<6x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
      return %y : tensor<6x8xf32>
    }
    ```

    After:

    ```mlir
    func.func @experts(%x: tensor<6x4xf32>, %scores: tensor<6x3xf32>, %w: tensor<3x4x8xf32>) -> tensor<6x8xf32> {
      %best, %expert = nn.top_k %scores : tensor<6x3xf32> -> tensor<6x1xf32>, tensor<6x1xi64>
      %experts = nn.reshape %expert : tensor<6x1xi64> -> tensor<6xi64>
      %y = nn.expert_matmul %x, %w experts = %experts : (tensor<6x4xf32>, tensor<3x4x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
      return %y : tensor<6x8xf32>
    }
    ```
  }];
  let dependentDialects = ["::shale::dist::DistDialect", "::shale::nn::NNDialect"];
}

def RecoverNormPass : Pass<"shale-recover-norm"> {
  let summary = "Finds layer and RMS normalization in their decompositions";
  let description = [{
    `x * rsqrt(mean(x^2) + epsilon) * scale` becomes `nn.rms_norm`;
    `(x - mean(x)) * rsqrt(mean((x - mean(x))^2) + epsilon) * scale + bias`
    becomes `nn.layer_norm`. The reciprocal square root may also be written as a
    division by a square root.

    `epsilon` has so many digits because the constant is an f32.

    Before:

    ```mlir
    func.func @norm(%x: tensor<4x8xf32>, %scale: tensor<8xf32>) -> tensor<4x8xf32> {
      %width = nn.constant dense<8.0> : tensor<4xf32>
      %epsilon = nn.constant dense<1.0e-5> : tensor<4xf32>
      %squares = nn.mul %x, %x : tensor<4x8xf32>
      %sum = nn.reduce sum %squares dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
      %mean = nn.div %sum, %width : tensor<4xf32>
      %variance = nn.add %mean, %epsilon : tensor<4xf32>
      %rstd = nn.rsqrt %variance : tensor<4xf32>
      %factors = nn.broadcast %rstd dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
      %normed = nn.mul %x, %factors : tensor<4x8xf32>
      %scales = nn.broadcast %scale dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
      %y = nn.mul %normed, %scales : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    After:

    ```mlir
    func.func @norm(%x: tensor<4x8xf32>, %scale: tensor<8xf32>) -> tensor<4x8xf32> {
      %y, %rstd = nn.rms_norm %x, %scale epsilon = 9.9999997473787516E-6 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
      return %y : tensor<4x8xf32>
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def RecoverRopePass : Pass<"shale-recover-rope"> {
  let summary = "Finds rotary position embeddings in their decomposition";
  let description = [{
    `x * cos + concat(-x[half:], x[:half]) * sin`, with constant cosines and
    sines that are equal in both halves and for all batch rows and heads,
    becomes `nn.rope`.

    Before:

    ```mlir
    func.func @rope(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
      %cos = nn.constant dense<[[1.0, 1.0, 1.0, 1.0], [0.5, 0.75, 0.5, 0.75]]> : tensor<2x4xf32>
      %sin = nn.constant dense<[[0.0, 0.0, 0.0, 0.0], [0.875, 0.625, 0.875, 0.625]]> : tensor<2x4xf32>
      %first = nn.slice %x starts = [0, 0] limits = [2, 2] strides = [1, 1] : tensor<2x4xf32> -> tensor<2x2xf32>
      %second = nn.slice %x starts = [0, 2] limits = [2, 4] strides = [1, 1] : tensor<2x4xf32> -> tensor<2x2xf32>
      %minus = nn.neg %second : tensor<2x2xf32>
      %turned = nn.concat %minus, %first dim = 1 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x4xf32>
      %a = nn.mul %x, %cos : tensor<2x4xf32>
      %b = nn.mul %turned, %sin : tensor<2x4xf32>
      %y = nn.add %a, %b : tensor<2x4xf32>
      return %y : tensor<2x4xf32>
    }
    ```

    After:

    ```mlir
    func.func @rope(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
      %cos = nn.constant dense<[[1.0, 1.0], [0.5, 0.75]]> : tensor<2x2xf32>
      %sin = nn.constant dense<[[0.0, 0.0], [0.875, 0.625]]> : tensor<2x2xf32>
      %y = nn.rope %x, %cos, %sin : tensor<2x4xf32>, tensor<2x2xf32>
      return %y : tensor<2x4xf32>
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def RecoverAttentionPass : Pass<"shale-recover-attention"> {
  let summary = "Finds scaled dot-product attention in its decomposition";
  let description = [{
    `softmax(q k^T * scale + mask) v` on [batch, heads, positions, width]
    becomes `nn.attention`. Factors on q, k and the scores become one scale. A
    constant mask that hides later positions, and nothing else, becomes
    `causal`; one that shows only near positions becomes `window`; one that hides
    nothing is removed. Keys and values that are
    repeated for groups of heads are read without the repetition.
    `select(is_nan(p), 0, p)` around the softmax becomes `guard` if a whole row
    may be hidden, and is removed otherwise. The mask of an `nn.attention` that import
    made is simplified as well, together with that of its `nn.attention_grad`.

    In the mask `0xFF800000` is minus infinity.

    Before:

    ```mlir
    func.func @attention(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
      %mask = nn.constant dense<[[0.0, 0xFF800000, 0xFF800000], [0.0, 0.0, 0xFF800000], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
      %root = nn.constant dense<2.0> : tensor<1x2x3x3xf32>
      %matmul = nn.matmul %q, %k transpose_rhs : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x3xf32>
      %scaled = nn.div %matmul, %root : tensor<1x2x3x3xf32>
      %masks = nn.broadcast %mask dims = [2, 3] : tensor<3x3xf32> -> tensor<1x2x3x3xf32>
      %scores = nn.add %scaled, %masks : tensor<1x2x3x3xf32>
      %p = nn.softmax %scores : tensor<1x2x3x3xf32>
      %y = nn.matmul %p, %v : (tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
      return %y : tensor<1x2x3x4xf32>
    }
    ```

    After:

    ```mlir
    func.func @attention(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
      %y, %lse = nn.attention %q, %k, %v causal scale = 0.5
          : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>, tensor<1x2x3xf32>
      return %y : tensor<1x2x3x4xf32>
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def UnbindLabelsPass : Pass<"shale-unbind-labels", "::mlir::ModuleOp"> {
  let summary = "Takes labels from the data file where the model could copy next tokens";
  let description = [{
    Removes the binding of labels of `@forward` if attention, or the window of a convolution, also
    reads later positions: a model that learns the next token would copy it from its input. Labels of
    a model without an input of tokens have no binding either. A note and the module attribute
    `nn.loss` give the reason.

    A label stays bound if `bound` has its name, or if an embedding reads it, as in a decoder.

    Before:

    ```mlir
    func.func @forward(%ids: tensor<1x2xi64> {nn.role = #nn.role<input>, nn.name = "ids", nn.binding = "tokens"},
                       %labels: tensor<1x2xi64> {nn.role = #nn.role<label>, nn.name = "labels", nn.binding = "tokens+1"},
                       %q: tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32> {
      %y, %lse = nn.attention %q, %q, %q scale = 0.5
          : tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32> -> tensor<1x1x2x4xf32>, tensor<1x1x2xf32>
      return %y : tensor<1x1x2x4xf32>
    }
    ```

    After:

    ```mlir
    module attributes {nn.loss = "attention also reads later positions: labels 'labels' come from the data file"} {
      func.func @forward(%ids: tensor<1x2xi64> {nn.role = #nn.role<input>, nn.name = "ids", nn.binding = "tokens"},
                         %labels: tensor<1x2xi64> {nn.role = #nn.role<label>, nn.name = "labels"},
                         %q: tensor<1x1x2x4xf32>) -> tensor<1x1x2x4xf32> {
        %y, %lse = nn.attention %q, %q, %q scale = 0.5
            : tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32> -> tensor<1x1x2x4xf32>, tensor<1x1x2xf32>
        return %y : tensor<1x1x2x4xf32>
      }
    }
    ```
  }];
  let options = [
    ListOption<"bound", "bound", "std::string", "Names of labels that stay bound">
  ];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

#endif // SHALE_IMPORT_PASSES_TD
