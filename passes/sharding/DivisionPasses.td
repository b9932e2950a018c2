//===- DivisionPasses.td - Parameters that tensor axes can split ----------===//
#ifndef SHALE_SHARDING_DIVISION_PASSES_TD
#define SHALE_SHARDING_DIVISION_PASSES_TD

include "mlir/Pass/PassBase.td"

def DivideParametersPass : Pass<"shale-divide-parameters", "::mlir::ModuleOp"> {
  let summary = "Divides matmuls whose results are cut into parts";
  let description = [{
    On a mesh with a tensor axis of two or more ranks: a matmul that computes
    queries, keys and values, or gate and up, in one, and whose columns are then only
    cut into parts, becomes one matmul for each part. The parts of its weight and
    of its bias become states of their own (`nn.part`), so that each is split by
    itself; a cut through the middle of a split dimension would need a gather. The
    state of the whole parameter becomes divided: it keeps the name, shape and
    initial value.

    Between the matmul and the slices there may be the addition of the bias,
    reshapes and transposes. A parameter with another use, or with a second name, is
    left alone, and so is a part that the number of tensor ranks does not divide.
    Gradients that the model's file computes (`nn.gradient_of`) are divided as well if
    they are matmuls and a sum of one tensor, which joins one for each part.

    Before:

    ```mlir
    dist.mesh @mesh <[tensor "tp"=2]>
    nn.state @qk.weight role = param type = tensor<8x8xf32>
    func.func @forward(%x: tensor<4x8xf32>, %w: tensor<8x8xf32> {nn.state = @qk.weight}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
      %both = nn.matmul %x, %w : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %q = nn.slice %both starts = [0, 0] limits = [4, 4] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
      %k = nn.slice %both starts = [0, 4] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
      return %q, %k : tensor<4x4xf32>, tensor<4x4xf32>
    }
    ```

    After:

    ```mlir
    dist.mesh @mesh <[tensor "tp"=2]>
    nn.state @"qk.weight/0" role = param type = tensor<8x4xf32> {nn.part = #nn.part<@qk.weight, dim = 1, begin = 0>}
    nn.state @"qk.weight/1" role = param type = tensor<8x4xf32> {nn.part = #nn.part<@qk.weight, dim = 1, begin = 4>}
    nn.state @qk.weight role = divided type = tensor<8x8xf32>
    func.func @forward(%x: tensor<4x8xf32>, %w0: tensor<8x4xf32> {nn.state = @"qk.weight/0"}, %w1: tensor<8x4xf32> {nn.state = @"qk.weight/1"}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
      %q = nn.matmul %x, %w0 : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
      %k = nn.matmul %x, %w1 : (tensor<4x8xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
      return %q, %k : tensor<4x4xf32>, tensor<4x4xf32>
    }
    ```
  }];
}

def PadParametersPass : Pass<"shale-pad-parameters", "::mlir::ModuleOp"> {
  let summary = "Pads vocabularies that do not divide";
  let description = [{
    On a mesh with a tensor axis of two or more ranks: a matrix whose rows or columns are
    classes, such as an embedding or a head, and whose number of them the ranks do not
    divide, gets rows or columns of zeros at its end. So do a bias of the classes and all values
    in between, up to the loss, whose `classes` is the number of those that exist: its results
    are as they were, and gradients of what is added are 0. The padded parameter is a state
    of its own (`nn.part` with `padding`); the state of the whole parameter becomes divided.
    Files have the true shape.

    Rows are classes where `nn.embedding` takes them by number, and rows or columns where a loss
    compares them (trait `AbsentClasses`). A parameter is left alone if another op reads all
    of its classes, or values with as many elements, if the last rank would have none of them, and
    if `--tensor` is `whole`. A rank has as many classes as the target prefers in matmuls
    of the compute type (`Target::paddedSize`).

    Before:

    ```mlir
    dist.mesh @mesh <[tensor "tp"=2]>
    nn.state @head.weight role = param type = tensor<5x8xf32>
    func.func @forward(%x: tensor<4x8xf32>, %labels: tensor<4xi64>, %w: tensor<5x8xf32> {nn.state = @head.weight}) -> tensor<f32> {
      %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x8xf32>, tensor<5x8xf32>) -> tensor<4x5xf32>
      %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<4x5xf32>, tensor<4xi64>
      return %sum : tensor<f32>
    }
    ```

    After:

    ```mlir
    dist.mesh @mesh <[tensor "tp"=2]>
    nn.state @"head.weight/padded" role = param type = tensor<6x8xf32> {nn.part = #nn.part<@head.weight, dim = 0, begin = 0, padding = 1>}
    nn.state @head.weight role = divided type = tensor<5x8xf32>
    func.func @forward(%x: tensor<4x8xf32>, %labels: tensor<4xi64>, %w: tensor<6x8xf32> {nn.state = @"head.weight/padded"}) -> tensor<f32> {
      %logits = nn.matmul %x, %w transpose_rhs : (tensor<4x8xf32>, tensor<6x8xf32>) -> tensor<4x6xf32>
      %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 classes = 5 : tensor<4x6xf32>, tensor<4xi64>
      return %sum : tensor<f32>
    }
    ```
  }];
}

def RepeatHeadsPass : Pass<"shale-repeat-heads", "::mlir::ModuleOp"> {
  let summary = "Repeats key heads for tensor ranks";
  let description = [{
    On a mesh with tensor axes: where the ranks do not divide the key heads of an `nn.attention`, but
    could divide copies of them among which the query heads are spread, the heads of
    keys and values are repeated, by a matmul with a constant matrix of zeros and
    ones. Where ranks split positions, keys and values are gathered before. Each rank then computes attention for its query heads; the keys and values
    are computed whole on each rank, and their gradients are summed over the ranks
    once. Their parameters are marked `dist.tensor` whole. So are those of a single key head,
    which is not repeated: its query heads can be split as they are.

    An op is left alone if keys or values are not computed with parameters
    alone, or with one that computes queries too, or that `--tensor` splits.

    Before:

    ```mlir
    dist.mesh @mesh <[tensor "tp"=4]>
    nn.state @k role = param type = tensor<8x4xf32>
    func.func @forward(%x: tensor<3x8xf32>, %q: tensor<1x4x3x2xf32>, %k: tensor<8x4xf32> {nn.state = @k}) -> tensor<1x4x3x2xf32> {
      %0 = nn.matmul %x, %k : (tensor<3x8xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
      %1 = nn.reshape %0 : tensor<3x4xf32> -> tensor<1x3x2x2xf32>
      %2 = nn.transpose %1 perm = [0, 2, 1, 3] : tensor<1x3x2x2xf32> -> tensor<1x2x3x2xf32>
      %o, %lse = nn.attention %q, %2, %2 causal scale = 1.000000e+00 : tensor<1x4x3x2xf32>, tensor<1x2x3x2xf32>, tensor<1x2x3x2xf32> -> tensor<1x4x3x2xf32>, tensor<1x4x3xf32>
      return %o : tensor<1x4x3x2xf32>
    }
    ```

    After:

    ```mlir
    dist.mesh @mesh <[tensor "tp"=4]>
    nn.state @k role = param type = tensor<8x4xf32> {dist.plan = "whole on each rank: its 2 key heads are repeated 2 times for 4 tensor ranks", dist.tensor = #dist.tensor_split<whole>}
    func.func @forward(%x: tensor<3x8xf32>, %q: tensor<1x4x3x2xf32>, %k: tensor<8x4xf32> {nn.state = @k}) -> tensor<1x4x3x2xf32> {
      %0 = nn.matmul %x, %k : (tensor<3x8xf32>, tensor<8x4xf32>) -> tensor<3x4xf32>
      %1 = nn.reshape %0 : tensor<3x4xf32> -> tensor<1x3x2x2xf32>
      %2 = nn.transpose %1 perm = [0, 2, 1, 3] : tensor<1x3x2x2xf32> -> tensor<1x2x3x2xf32>
      %3 = dist.constrain %2 to <[{}, {}, {}, {} ]> : tensor<1x2x3x2xf32>
      %4 = nn.iota dim = 1 : tensor<1x2x2x2xi64>
      %5 = nn.iota dim = 3 : tensor<1x2x2x2xi64>
      %6 = nn.compare eq %4, %5 : tensor<1x2x2x2xi64> -> tensor<1x2x2x2xi1>
      %7 = nn.constant dense<1.000000e+00> : tensor<1x2x2x2xf32>
      %8 = nn.constant dense<0.000000e+00> : tensor<1x2x2x2xf32>
      %9 = nn.select %6, %7, %8 : tensor<1x2x2x2xi1>, tensor<1x2x2x2xf32>
      %10 = nn.reshape %9 : tensor<1x2x2x2xf32> -> tensor<1x4x2xf32>
      %11 = nn.reshape %3 : tensor<1x2x3x2xf32> -> tensor<1x2x6xf32>
      %12 = nn.matmul %10, %11 : (tensor<1x4x2xf32>, tensor<1x2x6xf32>) -> tensor<1x4x6xf32>
      %13 = nn.reshape %12 : tensor<1x4x6xf32> -> tensor<1x4x3x2xf32>
      %o, %lse = nn.attention %q, %13, %13 causal scale = 1.000000e+00 : tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32>, tensor<1x4x3x2xf32> -> tensor<1x4x3x2xf32>, tensor<1x4x3xf32>
      return %o : tensor<1x4x3x2xf32>
    }
    ```
  }];
}

def SplitExpertsPass : Pass<"shale-split-experts", "::mlir::ModuleOp"> {
  let summary = "Computes with experts on the ranks that have their matrices";
  let description = [{
    On a mesh with an axis of kind `expert`: values by row that matmuls of experts read get as many parts as the axis has ranks. A
    part has all rows of the ranks along the axis, and computes with those whose experts are its own, from one matmul to the
    next. Results are sums over parts, in which linear ops, such as the sum over a token's experts, compute with the terms first.

    Parts are a dimension like others, which `dist.constrain` splits, and so are parameters of experts. Rows are gathered
    before they are repeated for several experts, again in the backward pass, and results are reduce-scattered: no choice of
    experts needs more memory than another, and none loses rows.

    Fails if the module has no matmul of experts, or if the ranks do not divide their number.

    Before:

    ```mlir
    dist.mesh @mesh <[expert "ep"=2]>
    nn.state @w role = param type = tensor<4x8x6xf32>
    func.func @forward(%x: tensor<10x8xf32>, %experts: tensor<10xi32>, %w: tensor<4x8x6xf32> {nn.state = @w}) -> tensor<10x6xf32> {
      %y = nn.expert_matmul %x, %w experts = %experts : (tensor<10x8xf32>, tensor<4x8x6xf32>, tensor<10xi32>) -> tensor<10x6xf32>
      return %y : tensor<10x6xf32>
    }
    ```

    After:

    ```mlir
    dist.mesh @mesh <[expert "ep"=2]>
    nn.state @w role = param type = tensor<4x8x6xf32>
    func.func @forward(%x: tensor<10x8xf32>, %experts: tensor<10xi32>, %w: tensor<4x8x6xf32> {dist.sharding = #dist.sharding<[{"ep"}, {}, {} ]>, nn.state = @w})
        -> tensor<10x6xf32> {
      %0 = dist.constrain %experts to <[{} ]> : tensor<10xi32>
      %1 = nn.broadcast %0 dims = [1] : tensor<10xi32> -> tensor<2x10xi32>
      %2 = dist.constrain %1 to <[{"ep"}, {} ]> : tensor<2x10xi32>
      %3 = nn.reshape %2 : tensor<2x10xi32> -> tensor<20xi32>
      %4 = dist.constrain %x to <[{}, {} ]> : tensor<10x8xf32>
      %5 = nn.broadcast %4 dims = [1, 2] : tensor<10x8xf32> -> tensor<2x10x8xf32>
      %6 = dist.constrain %5 to <[{"ep"}, {}, {} ]> : tensor<2x10x8xf32>
      %7 = nn.reshape %6 : tensor<2x10x8xf32> -> tensor<20x8xf32>
      %8 = nn.expert_matmul %7, %w experts = %3 parts = 2 : (tensor<20x8xf32>, tensor<4x8x6xf32>, tensor<20xi32>) -> tensor<20x6xf32>
      %9 = nn.reshape %8 : tensor<20x6xf32> -> tensor<2x10x6xf32>
      %y = nn.reduce sum %9 dims = [0] : tensor<2x10x6xf32> -> tensor<10x6xf32>
      return %y : tensor<10x6xf32>
    }
    ```
  }];
}

#endif // SHALE_SHARDING_DIVISION_PASSES_TD
